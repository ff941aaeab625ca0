/*
 * http_reply.h: reads the reply to an HTTP/1 request, whose bytes may arrive in pieces.
 *
 * The server may be hostile: the memory and the number of bytes are bounded, and llhttp reads the
 * framing strictly.
 */
#ifndef CLIENT_HTTP_REPLY_H
#define CLIENT_HTTP_REPLY_H

#include <llhttp.h>
#include <stdbool.h>

#include <weir/weir.h>

#include "base/buffer.h"
#include "base/slice.h"

#define HTTP_REPLY_HEAD_MAX ((size_t)64 << 10)

struct http_reply {
	int status; /* once has_ended */
	struct buffer body;
	bool has_ended;
	/* For http_reply.c. */
	llhttp_t parser;
	size_t received, head_received; /* bytes */
	bool has_head;
};

/** Begins a reply, whose body has at most `body_max` bytes. */
void http_reply_open(struct http_reply *reply, size_t body_max);
void http_reply_free(struct http_reply *reply);

/**
 * Reads the next bytes; those behind the end of the reply are ignored. Sets reply->has_ended at its
 * end. Errors, after which no more bytes may be read: ESYNTAX if it is no reply of HTTP/1, ELONG,
 * ENOMEM.
 */
int http_reply_read(struct http_reply *reply, struct slice bytes, struct weir_error *error);

/** Call it at the end of the connection, which ends some bodies. EIO if the reply is not complete.
 */
int http_reply_end(struct http_reply *reply, struct weir_error *error);

#endif
