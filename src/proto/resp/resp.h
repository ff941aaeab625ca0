/*
 * resp.h: the framing of RESP: one command out of bytes, and replies into bytes.
 *
 * Commands are arrays of bulk strings and integers, or a line of words (inline) in
 * which quotes work as in Redis; a line that has the form of HTTP is none. A command
 * longer than accepted is skipped as it arrives and reported at its end, so that it
 * costs no memory and the connection lives on.
 */
#ifndef PROTO_RESP_H
#define PROTO_RESP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buffer.h"
#include "base/slice.h"

/* As in Redis; beyond them the framing is not believed. */
#define RESP_ELEMENTS_MAX (1u << 20)
#define RESP_BULK_MAX     (512u << 20)

/* The place of the reader within one command. Zero at its start. */
struct resp_reader {
	size_t at;      /* bytes understood; past the end of the data inside a payload */
	uint32_t count; /* elements announced */
	uint32_t left;  /* of them not yet complete */
	bool payload;   /* `at` is behind the payload of an element, before its CRLF */
	bool skipping;
};

enum resp_result {
	RESP_MORE,
	RESP_COMMAND,  /* args are filled; none in an empty line or array */
	RESP_SKIPPED,  /* part of a command that is too long: drop *consumed bytes */
	RESP_TOO_LONG, /* the end of such a command */
	RESP_BROKEN,   /* `error` says why; nothing behind it can be understood */
	RESP_FOREIGN,  /* the same: HTTP or the like, maybe sent by a page in a browser */
};

struct resp_command {
	struct slice *args; /* given by the caller: room for `capacity` */
	size_t capacity;
	size_t count; /* may exceed capacity: the rest was dropped */
	char error[64];
};

/**
 * Reads on in `data`, which begins where the command does (after RESP_SKIPPED:
 * where that left off). Slices point into `data`, those of inline commands into
 * `arena`. `max` bounds a command in bytes. The reader is ready for the next
 * command after RESP_COMMAND and RESP_TOO_LONG.
 */
enum resp_result resp_read(struct resp_reader *reader, size_t max, struct slice data,
                           struct arena *arena, struct resp_command *command, size_t *consumed);

/* Digits of a length or an integer, leading zeros included. */
#define RESP_DIGITS_MAX 20

/** "<type><digits>\r\n" at *at: RESP_COMMAND when it was read and *at moved behind it. */
static inline enum resp_result resp_read_length(struct slice data, size_t *at, uint32_t max,
                                                uint32_t *out)
{
	const char *begin = data.data + *at + 1, *end = data.data + data.len, *p = begin;
	uint64_t value = 0;

	for (unsigned digit; p < end && (digit = (unsigned char)*p - '0') <= 9 && value <= max; p++)
		value = value * 10 + digit;
	if (value > max || p - begin > RESP_DIGITS_MAX || (p < end && (p == begin || *p != '\r')))
		return RESP_BROKEN;
	if (end - p < 2)
		return RESP_MORE;
	if (p[1] != '\n')
		return RESP_BROKEN;
	*at = (size_t)(p + 2 - data.data);
	*out = (uint32_t)value;
	return RESP_COMMAND;
}

/** "*3\r\n": the head of an array ('*'), map ('%') or anything else with a length. */
void resp_write_length(struct buffer *out, char type, uint64_t n);
void resp_write_integer(struct buffer *out, int64_t value);
/** An array of `elements`, of which the first `n` are these. */
void resp_write_integers(struct buffer *out, uint64_t elements, const int64_t *values, size_t n);
void resp_write_bulk(struct buffer *out, struct slice text);
/** "-CODE text\r\n"; control characters become blanks, so that `text` cannot forge a reply. */
void resp_write_error(struct buffer *out, const char *code, struct slice text);

#endif
