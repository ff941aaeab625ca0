/*
 * http1.h: the framing of HTTP/1.0 and 1.1: one request message out of bytes.
 *
 * llhttp reads, strictly, unless the message is the one before it with another target
 * (http1_form.h). Its findings are kept as offsets, so the bytes may lie elsewhere at the next
 * call. Every byte is given to it once, those of a chunked message twice, a body of known length
 * never. Only header fields that somebody asks for are kept, of trailers none.
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
#include "proto/http1_form.h"

/* X(name, text): the header fields that are kept. */
#define HTTP1_FIELD_LIST(X)                                                                        \
	X(HOST, "host")                                                                                \
	X(EXPECT, "expect")                                                                            \
	X(TRANSFER_ENCODING, "transfer-encoding")                                                      \
	X(ORIGIN, "origin")                                                                            \
	X(FETCH_SITE, "sec-fetch-site")                                                                \
	X(LAST_EVENT_ID, "last-event-id")                                                              \
	X(FORWARDED_FOR, "x-forwarded-for")                                                            \
	X(FORWARDED_METHOD, "x-forwarded-method")                                                      \
	X(FORWARDED_URI, "x-forwarded-uri")                                                            \
	X(FORWARDED_HOST, "x-forwarded-host")                                                          \
	X(ORIGINAL_METHOD, "x-original-method")                                                        \
	X(ORIGINAL_URI, "x-original-uri")

enum http1_field {
#define X(name, text) HTTP1_##name,
	HTTP1_FIELD_LIST(X)
#undef X
	HTTP1_FIELD_COUNT
};

/* Lines of such fields in one message; more are refused, since none may be overlooked. */
#define HTTP1_LINES_MAX 24

struct http1_span {
	uint32_t at, len; /* from the message's first byte */
};

struct http1_line {
	enum http1_field field;
	struct http1_span value;
};

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
	struct http1_span target, name, value;
	struct http1_line lines[HTTP1_LINES_MAX];
	unsigned line_count;
	bool keep_alive, continued, too_many;
	bool forwarded; /* a proxy has left a field of its own, of whatever value */
	struct http1_form form; /* of the message before, whose `lines` stay until llhttp reads */
	uint32_t former_target_len;
	unsigned former_line_count;
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

/** The value of lines[index], without blanks round it. */
struct slice http1_line(const struct http1_reader *reader, struct slice data, unsigned index);

/** The value of the field's line number `nth`; data NULL if there is none. */
struct slice http1_value(const struct http1_reader *reader, struct slice data,
                         enum http1_field field, unsigned nth);

/** All lines of the head behind the request line, as they came. */
struct slice http1_fields(const struct http1_reader *reader, struct slice data);

/** Takes the next line from *fields, its value without blanks round it; false at the end. */
bool http1_next_field(struct slice *fields, struct slice *name, struct slice *value);

/** How many bytes the message had. */
size_t http1_len(const struct http1_reader *reader);

void http1_next(struct http1_reader *reader);

#endif
