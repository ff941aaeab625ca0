/*
 * command_key.c: writes the name of a key at Redis, prefix{KEY}:LIMIT, in a form that operators can
 * read: other bytes than letters, digits and a few marks are percent-encoded.
 */
#include "redis/commands/redis_command.h"

/* Bytes that are not percent-encoded. */
static const bool is_plain[256] = {
    ['a' ... 'z'] = true, ['A' ... 'Z'] = true, ['0' ... '9'] = true, ['.'] = true, [':'] = true,
    ['_'] = true,         ['-'] = true,         ['@'] = true,         ['/'] = true,
};

/* Writes %XX, and returns its end. */
static char *add_percent(char *at, unsigned char c)
{
	static const char digits[] = "0123456789ABCDEF";

	*at++ = '%';
	*at++ = digits[c >> 4];
	*at++ = digits[c & 15];
	return at;
}

/* An empty text becomes a single %, which stands for no other text. */
static void add_encoded(struct buffer *out, struct slice text)
{
	const unsigned char *from = (const unsigned char *)text.data, *end = from + text.len;
	size_t plain = 0;
	char *at;

	if (text.len == 0)
		buffer_add(out, "%", 1);
	while (plain < text.len && is_plain[from[plain]])
		plain++;
	buffer_add(out, from, plain);
	at = plain < text.len ? buffer_reserve(out, 3 * (text.len - plain)) : NULL;
	if (!at)
		return;
	for (from += plain; from < end; from++)
		if (is_plain[*from])
			*at++ = (char)*from;
		else
			at = add_percent(at, *from);
	out->len = (size_t)(at - out->data);
}

void command_key(struct buffer *out, const char *prefix, struct slice key, const char *limit)
{
	buffer_add_text(out, prefix);
	buffer_add_text(out, "{");
	add_encoded(out, key);
	buffer_add_text(out, "}:");
	add_encoded(out, slice_of(limit));
}
