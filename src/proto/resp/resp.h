/*
 * resp.h: reads one command of RESP from bytes, and writes replies.
 *
 * A command is an array of bulk strings and integers, or an inline command: a line of words, with
 * quotes as in Redis. A line in the form of HTTP is refused. A command that is longer than accepted
 * is skipped as it arrives and reported at its end, so that it costs no memory and the connection
 * goes on.
 */
#ifndef PROTO_RESP_H
#define PROTO_RESP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buffer.h"
#include "base/slice.h"

/* The limits of Redis; a longer command counts as broken framing. */
#define RESP_ELEMENTS_MAX (1u << 20)
#define RESP_BULK_MAX     (512u << 20)

/* How far a command is read. Zeroed at its start. */
struct resp_reader {
	size_t position;        /* bytes that are read; beyond the data while a payload arrives */
	uint32_t element_count; /* as the array's length says */
	uint32_t elements_left; /* elements that are not yet complete */
	bool is_after_payload;  /* `position` is after the payload of an element, before its CRLF */
	bool is_skipping;       /* the command is too long */
};

enum resp_result {
	RESP_MORE,
	RESP_COMMAND,  /* args are filled; none in an empty line or array */
	RESP_SKIPPED,  /* part of a command that is too long: discard *consumed bytes */
	RESP_TOO_LONG, /* the end of such a command */
	RESP_BROKEN,   /* `error` says why; the bytes behind it can not be parsed */
	RESP_FOREIGN,  /* the same: HTTP or similar, possibly sent by a page in a browser */
};

struct resp_command {
	struct slice *args; /* the caller's array of `capacity` elements */
	size_t capacity;
	size_t count; /* may exceed `capacity`; the other arguments are dropped */
	char error[64];
};

/**
 * Continues to read `data`, which begins where the command does, or after RESP_SKIPPED where the
 * skipped bytes end. Slices point into `data`, those of inline commands into `arena`. A command has
 * at most `max` bytes. After RESP_COMMAND and RESP_TOO_LONG the reader is ready for the next
 * command.
 */
enum resp_result resp_read(struct resp_reader *reader, size_t max, struct slice data,
                           struct arena *arena, struct resp_command *command, size_t *consumed);

/* Digits of a length or an integer, leading zeros included. */
#define RESP_DIGITS_MAX 20

/** Reads "<type><digits>\r\n" at *at. Returns RESP_COMMAND and moves *at behind it if it is
 * complete. */
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

/** Writes "*3\r\n", the length of an array ('*'), a map ('%') or another type. */
void resp_write_length(struct buffer *out, char type, uint64_t n);
void resp_write_integer(struct buffer *out, int64_t value);
/** Writes the length of an array of `elements` and its first `n` elements. */
void resp_write_integers(struct buffer *out, uint64_t elements, const int64_t *values, size_t n);
void resp_write_bulk(struct buffer *out, struct slice text);
/** Writes "-CODE text\r\n"; control characters become blanks, so that `text` can not forge a reply.
 */
void resp_write_error(struct buffer *out, const char *code, struct slice text);

#endif
