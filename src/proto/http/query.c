/* query.c: splits the query of a URL ("a=1&b=2") into names and values, and decodes escapes in it
 * and in the path. */
#include "proto/http/query.h"

#include <weir/weir.h>

#include "base/number.h"
#include "base/text/path.h"

/* Removes the next parameter from *rest, without decoding it. Returns false at the end. */
bool query_next(struct slice *rest, struct slice *name, struct slice *value)
{
	do {
		if (rest->len == 0)
			return false;
		*value = slice_cut(rest, '&');
	} while (value->len == 0);
	*name = slice_cut(value, '=');
	return true;
}

bool query_is_coded(struct slice text)
{
	return text.len > 0 && (memchr(text.data, '%', text.len) || memchr(text.data, '+', text.len));
}

enum invalid_escapes { REFUSE_INVALID_ESCAPES, LEAVE_INVALID_ESCAPES };

/*
 * Decodes %XX, and '+' to a blank, into the arena. Returns 0, ENOMEM, or ESYNTAX for an invalid
 * escape.
 */
static int decode_query_text(struct arena *arena, struct slice text, enum invalid_escapes invalid,
                             struct slice *out)
{
	const char *p = text.data, *end = p + text.len;
	char *to, *begin;

	*out = text;
	if (!query_is_coded(text))
		return 0;
	begin = to = arena_alloc(arena, text.len);
	if (!begin)
		return WEIR_ENOMEM;
	while (p < end) {
		int high = *p == '%' && end - p > 2 ? hex_digit(p[1]) : -1;
		int low = high >= 0 ? hex_digit(p[2]) : -1;
		bool is_escape = low >= 0;

		if (invalid == REFUSE_INVALID_ESCAPES && *p == '%' && !is_escape)
			return WEIR_ESYNTAX;
		*to++ = is_escape ? (char)(high << 4 | low) : *p == '+' ? ' ' : *p;
		p += is_escape ? 3 : 1;
	}
	*out = (struct slice){begin, (size_t)(to - begin)};
	return 0;
}

int query_decode(struct arena *arena, struct slice text, struct slice *out)
{
	return decode_query_text(arena, text, REFUSE_INVALID_ESCAPES, out);
}

int query_decode_form(struct arena *arena, struct slice text, struct slice *out)
{
	return decode_query_text(arena, text, LEAVE_INVALID_ESCAPES, out);
}

/*
 * Decodes %XX alone, because '+' means itself in a path; leaves invalid escapes as they are.
 * Returns 0 or ENOMEM.
 */
int query_decode_path(struct arena *arena, struct slice text, struct slice *out)
{
	char *to;

	*out = text;
	if (text.len == 0 || !memchr(text.data, '%', text.len))
		return 0;
	to = arena_alloc(arena, text.len);
	if (!to)
		return WEIR_ENOMEM;
	*out = (struct slice){to, path_decode(text, to)};
	return 0;
}

int query_normalize_path(struct arena *arena, struct slice path, struct slice *out)
{
	if (query_decode_path(arena, path, out) != 0)
		return WEIR_ENOMEM;
	return path_normalize(arena, *out, out);
}
