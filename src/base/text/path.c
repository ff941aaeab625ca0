/*
 * path.c: brings the variants of a URL's path to one spelling, so that rules can't be evaded by a
 * variant. It decodes %XX, and removes "." and ".." segments. On request it folds the path: it also
 * removes parameters (";x") and a last slash, and writes A to Z in lower case.
 */
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

/*
 * A normalized path has no empty segment but the last, and none that is "." or "..". A folded one
 * also has no upper-case letter and no parameter (";x" at the end of a segment).
 */
enum path_form { PATH_NORMALIZED, PATH_FOLDED };

static bool is_upper(char c)
{
	return c >= 'A' && c <= 'Z';
}

/* Whether a path has the form already. False also for any segment that begins with a dot. */
static bool has_form(struct slice path, enum path_form form)
{
	for (size_t i = 0; i < path.len; i++) {
		char c = path.data[i];

		if (c == '/' && i + 1 < path.len && (path.data[i + 1] == '/' || path.data[i + 1] == '.'))
			return false;
		if (form == PATH_FOLDED && (c == ';' || is_upper(c)))
			return false;
	}
	return path.len > 0 && path.data[0] == '/';
}

static struct slice without_parameters(struct slice segment)
{
	return slice_cut(&segment, ';');
}

/*
 * Copies a path in its form to `to`, segment by segment, and returns the length: at most one byte
 * more than the path's. `to` may be the path's own memory if that begins with a slash: each byte is
 * read before it is overwritten. Parameters are removed first, because servers that ignore them see
 * ".." in "..;x".
 */
static size_t copy_respelled(struct slice path, enum path_form form, char *to)
{
	size_t len = 0;
	bool ends_in_slash = true; /* an empty path becomes / */

	while (path.len > 0) {
		size_t left = path.len;
		struct slice segment = slice_cut(&path, '/');

		ends_in_slash = segment.len < left; /* slice_cut has cut off a slash, too */
		if (form == PATH_FOLDED)
			segment = without_parameters(segment);
		if (slice_equal(segment, SLICE(".."))) {
			while (len > 0 && to[--len] != '/') /* removes the segment before it */
				;
			ends_in_slash = true;
		} else if (segment.len == 0 || slice_equal(segment, SLICE("."))) {
			ends_in_slash = true;
		} else {
			to[len++] = '/';
			memmove(to + len, segment.data, segment.len);
			len += segment.len;
		}
	}
	/* A last segment keeps its slash; "." and ".." name a directory. */
	if (ends_in_slash)
		to[len++] = '/';
	for (size_t i = 0; form == PATH_FOLDED && i < len; i++)
		if (is_upper(to[i]))
			to[i] |= 32;
	return len;
}

/* Returns 0 or ENOMEM. */
static int allocate_respelled(struct arena *arena, struct slice path, enum path_form form,
                              struct slice *out)
{
	char *to = arena_alloc(arena, path.len + 1);

	if (!to)
		return WEIR_ENOMEM;
	*out = (struct slice){to, copy_respelled(path, form, to)};
	return 0;
}

int path_normalize(struct arena *arena, struct slice path, struct slice *out)
{
	*out = path;
	return has_form(path, PATH_NORMALIZED) ? 0
	                                       : allocate_respelled(arena, path, PATH_NORMALIZED, out);
}

size_t path_normalize_here(char *path, size_t len)
{
	struct slice text = {path, len};

	return has_form(text, PATH_NORMALIZED) ? len : copy_respelled(text, PATH_NORMALIZED, path);
}

int path_fold(struct arena *arena, struct slice path, struct slice *out)
{
	*out = path;
	if (path.len > 0 && !has_form(path, PATH_FOLDED) &&
	    allocate_respelled(arena, path, PATH_FOLDED, out) != 0)
		return WEIR_ENOMEM;
	if (out->len > 1 && out->data[out->len - 1] == '/')
		out->len--;
	return 0;
}
