/*
 * lines.h: the lines of a file or pipe, read in large pieces; unpack.h decodes compressed ones.
 *
 * A line is the reader's memory, may be written to, and is good until the next
 * one is asked for. "\n" and "\r\n" end it; the last one needs no end.
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
	size_t begin, end; /* of what was read and not yet given out */
	uint64_t number;   /* of the line last given out, from 1 */
	bool ended;
};

struct line {
	char *data;
	size_t len;
	bool too_long; /* than LINES_LENGTH_MAX: `data` is its beginning */
};

/** Takes over `fd`. 0 or ENOMEM. */
int lines_open(struct lines *lines, int fd);
/** The lines of a text, of which it takes a copy; the last may lack its end. 0 or ENOMEM. */
int lines_copy(struct lines *lines, struct slice text);
void lines_close(struct lines *lines);

/**
 * The beginning of what lines_next will give, of LINES_LENGTH_MAX bytes unless the file ends
 * before.
 */
struct slice lines_peek(struct lines *lines);

/** 1: *line is the next one; 0 if there is none; EIO with errno set, as unpack_read does. */
int lines_next(struct lines *lines, struct line *line);

#endif
