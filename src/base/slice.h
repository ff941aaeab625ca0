/* slice.h: refers to bytes that somebody else owns, and cuts, trims and compares them. */
#ifndef BASE_SLICE_H
#define BASE_SLICE_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

struct slice {
	const char *data; /* not NUL-terminated */
	size_t len;
};

#define SLICE(literal) ((struct slice){(literal), sizeof(literal) - 1})

static inline struct slice slice_of(const char *text)
{
	return (struct slice){text, strlen(text)};
}

static inline bool slice_equal(struct slice a, struct slice b)
{
	return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

/** Cuts `prefix` off *text. Returns false if *text does not begin with it. */
static inline bool slice_skip(struct slice *text, struct slice prefix)
{
	if (text->len < prefix.len || memcmp(text->data, prefix.data, prefix.len) != 0)
		return false;
	*text = (struct slice){text->data + prefix.len, text->len - prefix.len};
	return true;
}

/** The text without blanks and tabs at both ends. */
static inline struct slice slice_trim(struct slice text)
{
	while (text.len > 0 && (*text.data == ' ' || *text.data == '\t'))
		text = (struct slice){text.data + 1, text.len - 1};
	while (text.len > 0 && (text.data[text.len - 1] == ' ' || text.data[text.len - 1] == '\t'))
		text.len--;
	return text;
}

/** Cuts the text up to the first `separator` off *rest, or all of it, and returns that text. */
static inline struct slice slice_cut(struct slice *rest, char separator)
{
	const char *end = rest->len ? (const char *)memchr(rest->data, separator, rest->len) : NULL;
	struct slice part = {rest->data, end ? (size_t)(end - rest->data) : rest->len};

	if (rest->data)
		rest->data += part.len + (end != NULL);
	rest->len -= part.len + (end != NULL);
	return part;
}

/* Ignores the case of ASCII letters, whatever the locale. */
static inline bool slice_equal_nocase(struct slice a, struct slice b)
{
	return a.len == b.len && (a.len == 0 || strncasecmp(a.data, b.data, a.len) == 0);
}

#endif
