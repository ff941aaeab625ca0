/* json.h: the parts of JSON that are the same for each of its readers. */
#ifndef BASE_TEXT_JSON_H
#define BASE_TEXT_JSON_H

#include "base/slice.h"

enum json_escape {
	JSON_ESCAPE_GOOD,
	JSON_ESCAPE_HALF, /* one half of a pair of \uXXXX, which stands for U+FFFD if at all */
	JSON_ESCAPE_BAD,  /* no escape; nothing was read */
};

/**
 * Reads an escape off *rest, which begins behind the backslash. Writes its character in UTF-8 to *to
 * and moves *to behind it: at most 4 bytes, and fewer than the escape has, so that a string may be
 * unescaped in place.
 */
enum json_escape json_read_escape(struct slice *rest, char **to);

/** The length of the number that `text` begins with, or 0 if it begins with none. */
size_t json_number_len(struct slice text);

#endif
