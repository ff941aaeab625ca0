/* scalar.c: prints texts as values of YAML: quotes and escapes what YAML would read differently. */
#include "rules/scalar.h"

#include <ctype.h>

/* Whether the text has only letters, digits, and signs that mean nothing at their place. */
static bool needs_no_quotes(struct slice text)
{
	for (size_t i = 0; i < text.len; i++)
		if (!isalnum((unsigned char)text.data[i]) && text.data[i] != '_' && text.data[i] != '/' &&
		    (i == 0 || !memchr(".-", text.data[i], 2)))
			return false;
	return text.len > 0;
}

void scalar_add(struct buffer *out, struct slice text)
{
	struct buffer json = {0};

	if (needs_no_quotes(text)) {
		buffer_add_slice(out, text);
		return;
	}
	buffer_add_json(&json, text);
	buffer_add(out, "\"", 1);
	scalar_add_json(out, (struct slice){json.data, json.len});
	buffer_add(out, "\"", 1);
	out->failed |= json.failed;
	buffer_free(&json);
}

/* The character at `p`, of `n` bytes of UTF-8. */
static unsigned decode_utf8(const unsigned char *p, size_t n)
{
	unsigned c = n == 1 ? *p : *p & (0xff >> (n + 1));

	for (size_t i = 1; i < n; i++)
		c = c << 6 | (p[i] & 0x3f);
	return c;
}

/* Whether YAML takes a character as not printable, or as an end of a line; JSON does not. */
static bool needs_yaml_escape(unsigned c)
{
	return (c >= 0x7f && c < 0xa0) || c == 0x2028 || c == 0x2029 || c == 0xfeff || c == 0xfffe ||
	       c == 0xffff;
}

void scalar_add_json(struct buffer *out, struct slice json)
{
	const unsigned char *p = (const unsigned char *)json.data, *end = p + json.len;

	while (p < end) {
		size_t n = utf8_sequence(p, (size_t)(end - p));

		n = n ? n : 1;
		if (needs_yaml_escape(decode_utf8(p, n)))
			buffer_printf(out, "\\u%04x", decode_utf8(p, n));
		else
			buffer_add(out, p, n);
		p += n;
	}
}
