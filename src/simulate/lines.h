/*
 * lines.h: the lines of a file or pipe, read in large pieces.
 *
 * A line is the reader's memory, may be written to, and is good until the next
 * one is asked for. "\n" and "\r\n" end it; the last one needs no end.
 */
#ifndef SIMULATE_LINES_H
#define SIMULATE_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LINES_LENGTH_MAX ((size_t)64 << 10)

struct lines {
	int fd;
	char *data;
	size_t begin, end; /* of what was read and not yet given out */
	uint64_t number;   /* of the line last given out, from 1 */
	uint64_t consumed; /* bytes read from the file so far */
	bool ended;
};

struct line {
	char *data;
	size_t len;
	bool too_long; /* than LINES_LENGTH_MAX: `data` is its beginning */
};

/** Takes over `fd`. 0 or ENOMEM. */
int lines_open(struct lines *lines, int fd);
void lines_close(struct lines *lines);

/** 1: *line is the next one; 0: there is none; EIO with errno set. */
int lines_next(struct lines *lines, struct line *line);

#endif
