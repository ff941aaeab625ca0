/* path.c: decodes, normalizes and folds the path of a URL. */
#include "base/text/path.h"

#include <weir/weir.h>

#include "base/number.h"

size_t path_decode(struct slice path, char *to)
{
	const char *p = path.data, *end = p + path.len;
	char *begin = to;

	while (p < end) {
		int high = *p == '%' && end - p > 2 ? hex_digit(p[1]) : -1;
		int low = high >= 0 ? hex_digit(p[2]) : -1;

		*to++ = low >= 0 ? (char)(high << 4 | low) : *p;
		p += low >= 0 ? 3 : 1;
	}
	return (size_t)(to - begin);
}

static bool is_upper(char c)
{
	return c >= 'A' && c <= 'Z';
}

/* No empty segment but the last, none that begins with a dot, and nothing to fold. */
static bool is_plain_path(struct slice path, bool fold)
{
	for (size_t i = 0; i < path.len; i++) {
		char c = path.data[i];

		if (c == '/' && i + 1 < path.len && (path.data[i + 1] == '/' || path.data[i + 1] == '.'))
			return false;
		if (fold && (c == ';' || is_upper(c)))
			return false;
	}
	return path.len > 0 && path.data[0] == '/';
}

/*
 * Copies segment by segment into `to`, which has room for one byte more than the path. `to` may be
 * the path's own memory if that begins with a slash: each byte is read before it is overwritten.
 * Parameters go first: servers that ignore them see ".." in "..;x".
 */
static size_t respell(struct slice path, bool fold, char *to)
{
	size_t len = 0;
	bool slash = true;

	while (path.len > 0) {
		size_t left = path.len;
		struct slice segment = slice_cut(&path, '/'), parameters = segment;

		slash = segment.len < left;
		if (fold)
			segment = slice_cut(&parameters, ';');
		if (slice_equal(segment, SLICE(".."))) {
			while (len > 0 && to[--len] != '/')
				;
			slash = true;
		} else if (segment.len == 0 || slice_equal(segment, SLICE("."))) {
			slash = true;
		} else {
			to[len++] = '/';
			memmove(to + len, segment.data, segment.len);
			len += segment.len;
		}
	}
	/* A last segment keeps its slash; "." and ".." name a directory. */
	if (slash)
		to[len++] = '/';
	for (size_t i = 0; fold && i < len; i++)
		if (is_upper(to[i]))
			to[i] |= 32;
	return len;
}

static int rebuild(struct arena *arena, struct slice path, bool fold, struct slice *out)
{
	char *to = arena_alloc(arena, path.len + 1);

	if (!to)
		return WEIR_ENOMEM;
	*out = (struct slice){to, respell(path, fold, to)};
	return 0;
}

int path_normalize(struct arena *arena, struct slice path, struct slice *out)
{
	*out = path;
	return is_plain_path(path, false) ? 0 : rebuild(arena, path, false, out);
}

size_t path_normalize_here(char *path, size_t len)
{
	struct slice text = {path, len};

	return is_plain_path(text, false) ? len : respell(text, false, path);
}

int path_fold(struct arena *arena, struct slice path, struct slice *out)
{
	*out = path;
	if (path.len > 0 && !is_plain_path(path, true) && rebuild(arena, path, true, out) != 0)
		return WEIR_ENOMEM;
	if (out->len > 1 && out->data[out->len - 1] == '/')
		out->len--;
	return 0;
}
