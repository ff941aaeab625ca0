/*
 * http1.h: finds one request message of HTTP/1.0 or 1.1 in bytes, and its parts.
 *
 * The *head* of a message is its request line and its header fields. llhttp parses the head
 * strictly, unless the message equals the one before except for its target (http1_template.h).
 * Positions are stored as offsets, so that the bytes may be at another address in the next call.
 * llhttp parses a head once, a chunked body twice, and a body of known length never.
 * Only the header fields of HTTP_FIELD_LIST are stored, and no trailers.
 *
 * Browsers and curl send a query as the user typed it, without escapes. So bytes from 0x80 on are
 * accepted in a query; llhttp, which would refuse them, gets a letter in place of each.
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
	HTTP1_CONTINUE, /* the client waits for 100 Continue; send it, then call with the same bytes */
	/* Errors: the bytes behind them can not be parsed. */
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
	const char *message_start;   /* during a call of http1_read */
	size_t read_len;             /* bytes of the message that are read */
	size_t head_len;             /* 0 until the head is complete */
	bool has_raw_query;          /* the query has bytes from 0x80 on */
	struct http_span target, field_name, field_value;
	struct http_fields fields;
	bool keep_alive, continue_was_sent;
	/* The message before this one; its `fields.lines` stay valid until llhttp reads. */
	struct http1_template last_head;
	uint32_t former_target_len;
	unsigned former_line_count;
	uint32_t former_present_bits;
	bool former_has_proxy_field;
};

struct http1_message {
	const char *method;
	struct slice target;
	struct slice body;
	bool http_1_0;
	bool keep_alive;
	const char *error; /* for HTTP1_BAD: a static text */
	size_t error_at;   /* for HTTP1_BAD: the byte of the message */
};

void http1_open(struct http1_reader *reader, size_t header_max, size_t body_max);

/**
 * Continues to read `data`, which begins where the message does and contains the bytes of the call
 * before. After HTTP1_MESSAGE, `message` has slices into `data` or, for a chunked body, `arena`;
 * call http1_next before the next message.
 */
enum http1_result http1_read(struct http1_reader *reader, struct slice data, struct arena *arena,
                             struct http1_message *message);

/** All lines of the head after the request line. */
struct slice http1_header_lines(const struct http1_reader *reader, struct slice data);

/** How many bytes the message has. */
size_t http1_len(const struct http1_reader *reader);

void http1_next(struct http1_reader *reader);

#endif
