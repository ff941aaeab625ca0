/*
 * denial_line.h: writes and reads a denial as a line of JSON: the object that denial_sample.h
 * shows, with a member `values` more, by which the values of its key find the denial.
 */
#ifndef SERVER_DENIAL_LINE_H
#define SERVER_DENIAL_LINE_H

#include "server/denials/denial_sample.h"

#define DENIAL_VALUES_MAX ((size_t)64 * DENIAL_DIGEST)
#define DENIAL_LINE_MAX   (DENIAL_TEXT_MAX + DENIAL_VALUES_MAX + 16) /* without the newline */

/** Appends a line with its newline. More values than DENIAL_VALUES_MAX are omitted. */
void denial_line_write(struct buffer *out, struct slice json, struct slice values);

/* A denial as it was read. Its texts are in the memory of the line, its attributes in the buffer.
 */
struct denial_line {
	struct denial denial;
	char id[DENIAL_ID_TEXT];
	struct buffer attributes; /* to be freed, also after an error */
	/* after an error: the expected text, and its column */
	const char *expected;
	unsigned column;
};

/**
 * Reads a line of `len` bytes, which it overwrites. Nothing of the line is trusted: texts are
 * checked and will be escaped anew. Returns false if it is no denial.
 */
bool denial_line_read(char *line, size_t len, struct denial_line *out);

#endif
