/* http_name.c: writes names of limits and rules into header fields. */
#include "proto/http/http_name.h"

/* The bytes that need no escape, with those between '#' and '~' that both forms share. */
#define PLAIN_BYTES ['#' ... '$'] = true, ['&' ... '['] = true, [']' ... '~'] = true

static const bool is_plain[256] = {['!'] = true, PLAIN_BYTES};
static const bool is_plain_in_string[256] = {[' ' ... '!'] = true, PLAIN_BYTES};

static void add_percent(struct buffer *out, unsigned char byte)
{
	static const char digits[] = "0123456789ABCDEF";

	buffer_add(out, (const char[]){'%', digits[byte >> 4], digits[byte & 15]}, 3);
}

/* Appends the plain bytes at the beginning of the text. Returns their end. */
static const char *add_plain(struct buffer *out, const char *text, const bool plain[256])
{
	const char *end = text;

	while (plain[(unsigned char)*end])
		end++;
	buffer_add(out, text, (size_t)(end - text));
	return end;
}

void http_name_add(struct buffer *out, const char *name)
{
	for (name = add_plain(out, name, is_plain); *name; name = add_plain(out, name + 1, is_plain))
		add_percent(out, (unsigned char)*name);
}

void http_name_add_string(struct buffer *out, const char *name)
{
	const bool *plain = is_plain_in_string;

	buffer_add(out, "\"", 1);
	for (name = add_plain(out, name, plain); *name; name = add_plain(out, name + 1, plain)) {
		if (*name == '"' || *name == '\\')
			buffer_add(out, (const char[]){'\\', *name}, 2);
		else
			add_percent(out, (unsigned char)*name);
	}
	buffer_add(out, "\"", 1);
}
