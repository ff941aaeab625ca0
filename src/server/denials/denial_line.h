/* denial_line.h: reads a denial from a line of JSON, as denial_sample.h shows it. */
#ifndef SERVER_DENIAL_LINE_H
#define SERVER_DENIAL_LINE_H

#include "server/denials/denial_sample.h"

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
