/*
 * http1.h: the framing of HTTP/1.0 and 1.1: one request message out of bytes.
 *
 * llhttp reads, strictly, unless the message is the one before it with another target
 * (http1_template.h). Its findings are kept as offsets, so the bytes may lie elsewhere at the next
 * call. llhttp gets every byte once, bytes of a chunked message twice, and a body of known length
 * never. The reader keeps only header fields that a caller asks for, and no trailers.
 *
 * Browsers and curl send what a user typed behind a '?' without escapes. Bytes from 0x80 on are
 * taken there as they are; llhttp sees letters in their place.
 */
#ifndef PROTO_HTTP1_H
#define PROTO_HTTP1_H

#include <llhttp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/slice.h"
#include "proto/http/http1_template.h"
#include "proto/http/http_fields.h"

enum http1_result {
	HTTP1_MORE,
	HTTP1_MESSAGE,
	HTTP1_CONTINUE, /* the client waits for 100 Continue; then go on with the same bytes */
	/* Errors: nothing behind them can be understood. */
	HTTP1_BAD,
	HTTP1_TARGET_LONG,
	HTTP1_HEADER_LONG,
	HTTP1_BODY_LONG,
	HTTP1_BAD_CODING,
	HTTP1_BAD_VERSION,
};

struct http1_reader {
	llhttp_t parser;
	size_t header_max, body_max; /* body_max counts the framing of chunks too */
	const char *base;            /* the message's first byte, during a call */
	size_t fed;                  /* bytes llhttp has had */
	size_t head_len;             /* 0 until the head is complete */
	bool raw;                    /* the query has bytes that llhttp must not see */
	struct http_span target, name, value;
	struct http_fields fields;
	bool keep_alive, continued;
	struct http1_template form; /* of the message before, whose lines stay until llhttp reads */
	uint32_t former_target_len;
	unsigned former_line_count;
	uint32_t former_has;
	bool former_forwarded;
};

struct http1_message {
	const char *method;
	struct slice target;
	struct slice body;
	bool http_1_0;
	bool keep_alive;
	const char *error; /* HTTP1_BAD: in words; static */
	size_t error_at;   /* and at which byte of the message */
};

void http1_open(struct http1_reader *reader, size_t header_max, size_t body_max);

/**
 * Reads on in `data`, which begins where the message does and holds what the
 * call before had. At HTTP1_MESSAGE `message` is filled, with slices into
 * `data` or (a chunked body) `arena`; call http1_next before the next one.
 */
enum http1_result http1_read(struct http1_reader *reader, struct slice data, struct arena *arena,
                             struct http1_message *message);

/** All lines of the head behind the request line, as they came. */
struct slice http1_header_lines(const struct http1_reader *reader, struct slice data);

/** How many bytes the message had. */
size_t http1_len(const struct http1_reader *reader);

void http1_next(struct http1_reader *reader);

#endif
