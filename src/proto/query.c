#include "proto/query.h"

#include <weir/weir.h>

#include "base/number.h"

static struct slice cut(struct slice *rest, char at)
{
	const char *end = rest->len ? memchr(rest->data, at, rest->len) : NULL;
	struct slice part = {rest->data, end ? (size_t)(end - rest->data) : rest->len};

	rest->data += part.len + (end != NULL);
	rest->len -= part.len + (end != NULL);
	return part;
}

bool query_next(struct slice *rest, struct slice *name, struct slice *value)
{
	do {
		if (rest->len == 0)
			return false;
		*value = cut(rest, '&');
	} while (value->len == 0);
	*name = cut(value, '=');
	return true;
}

/* In a query '+' is a blank and a bad escape an error; in a path both stand for themselves. */
static int decode(struct arena *arena, struct slice text, bool query, struct slice *out)
{
	const char *p = text.data, *end = p + text.len;
	char *to, *begin;

	*out = text;
	if (text.len == 0 || (!memchr(p, '%', text.len) && !(query && memchr(p, '+', text.len))))
		return 0;
	begin = to = arena_alloc(arena, text.len);
	if (!begin)
		return WEIR_ENOMEM;
	while (p < end) {
		int high = *p == '%' && end - p > 2 ? hex_digit(p[1]) : -1;
		int low = high >= 0 ? hex_digit(p[2]) : -1;

		if (query && *p == '%' && low < 0)
			return WEIR_ESYNTAX;
		*to++ = low >= 0 ? (char)(high << 4 | low) : query && *p == '+' ? ' ' : *p;
		p += low >= 0 ? 3 : 1;
	}
	*out = (struct slice){begin, (size_t)(to - begin)};
	return 0;
}

int query_decode(struct arena *arena, struct slice text, struct slice *out)
{
	return decode(arena, text, true, out);
}

int query_decode_path(struct arena *arena, struct slice text, struct slice *out)
{
	return decode(arena, text, false, out);
}

/* No empty segment but the last, and none that begins with a dot. */
static bool is_normal(struct slice path)
{
	for (size_t i = 0; i + 1 < path.len; i++)
		if (path.data[i] == '/' && (path.data[i + 1] == '/' || path.data[i + 1] == '.'))
			return false;
	return path.len > 0 && path.data[0] == '/';
}

int query_normalize(struct arena *arena, struct slice path, struct slice *out)
{
	char *to;
	size_t len = 0;
	bool slash = true;

	if (decode(arena, path, false, out) != 0)
		return WEIR_ENOMEM;
	if (is_normal(*out))
		return 0;
	path = *out;
	to = arena_alloc(arena, path.len + 1);
	if (!to)
		return WEIR_ENOMEM;
	while (path.len > 0) {
		size_t left = path.len;
		struct slice segment = cut(&path, '/');

		slash = segment.len < left;
		if (slice_equal(segment, SLICE(".."))) {
			while (len > 0 && to[--len] != '/')
				;
			slash = true;
		} else if (segment.len == 0 || slice_equal(segment, SLICE("."))) {
			slash = true;
		} else {
			to[len++] = '/';
			memcpy(to + len, segment.data, segment.len);
			len += segment.len;
		}
	}
	/* A last segment keeps its slash; "." and ".." name a directory. */
	if (slash)
		to[len++] = '/';
	*out = (struct slice){to, len};
	return 0;
}
