#include "proto/http/query.h"

#include <weir/weir.h>

#include "base/number.h"
#include "base/text/path.h"

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

/* Invalid escapes are errors if `strict`, and left as they are otherwise. */
static int decode_query_text(struct arena *arena, struct slice text, bool strict, struct slice *out)
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

		if (strict && *p == '%' && low < 0)
			return WEIR_ESYNTAX;
		*to++ = low >= 0 ? (char)(high << 4 | low) : *p == '+' ? ' ' : *p;
		p += low >= 0 ? 3 : 1;
	}
	*out = (struct slice){begin, (size_t)(to - begin)};
	return 0;
}

int query_decode(struct arena *arena, struct slice text, struct slice *out)
{
	return decode_query_text(arena, text, true, out);
}

int query_decode_form(struct arena *arena, struct slice text, struct slice *out)
{
	return decode_query_text(arena, text, false, out);
}

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

int query_normalize(struct arena *arena, struct slice path, struct slice *out)
{
	if (query_decode_path(arena, path, out) != 0)
		return WEIR_ENOMEM;
	return path_normalize(arena, *out, out);
}
