/*
 * lines.h: reads lines from a file or pipe, which may be compressed (unpack.h), in large pieces.
 *
 * A line is in the reader's memory, may be changed, and is valid until the next lines_next. "\n" or
 * "\r\n" ends it; the last line needs no end.
 */
#ifndef SIMULATE_LINES_H
#define SIMULATE_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"
#include "simulate/input/unpack.h"

#define LINES_LENGTH_MAX ((size_t)64 << 10)

struct lines {
	int fd;
	struct unpack *unpack; /* NULL for a plain text */
	char *data;
	size_t begin, end; /* of the bytes that lines_next has not returned */
	uint64_t number;   /* of the line last returned, from 1 */
	bool input_ended;  /* or failed: then read_error is its errno */
	int read_error;
};

struct line {
	char *data;
	size_t len;
	bool too_long; /* longer than LINES_LENGTH_MAX: `data` may be only its beginning */
};

/** Takes over `fd`. 0 or ENOMEM. */
int lines_open(struct lines *lines, int fd);
/** Reads the lines of a copy of `text` instead of a file. 0 or ENOMEM. */
int lines_copy(struct lines *lines, struct slice text);
void lines_close(struct lines *lines);

/** Returns, without removing it, the beginning of the input: LINES_LENGTH_MAX bytes, or all of it.
 */
struct slice lines_peek(struct lines *lines);

/** Returns 1 and the next line; 0 at the end; EIO with errno set as by unpack_read. */
int lines_next(struct lines *lines, struct line *line);

#endif
