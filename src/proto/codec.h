/*
 * codec.h: defines the interface by which the server speaks a protocol: a codec turns bytes into
 * requests, and replies into bytes.
 *
 * A codec has no socket, thread or counter. Its session is the state of one connection. To add a
 * protocol, write a struct codec.
 */
#ifndef PROTO_CODEC_H
#define PROTO_CODEC_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buffer.h"
#include "base/text/forwarded.h"
#include "proto/request.h"

/* The bounds of input, which are configurable, and what else all sessions of a loop share. */
struct codec_bounds {
	size_t key_max;     /* 1 KiB */
	size_t request_max; /* 64 KiB: a body, or all of a RESP command */
	size_t header_max;  /* 16 KiB: request line and headers */
	size_t attributes_max;
	size_t batch_max; /* requests in a batch */
	/*
	 * Attributes that parse reads from a proxied request, or NULL. The owner may change the list
	 * between two calls of parse; it must outlive all sessions.
	 */
	const struct forwarded_list *forwarded_attributes;
	/* Sessions add the bytes that they allocate besides themselves. NULL if nobody counts them. */
	_Atomic uint64_t *session_bytes;
};

#define CODEC_BOUNDS_DEFAULT                                                                       \
	((struct codec_bounds){1024, 64 << 10, 16 << 10, WEIR_ATTRIBUTES_MAX, 1000, NULL, NULL})

enum codec_result {
	CODEC_MORE,    /* no whole request in `data` yet */
	CODEC_REQUEST, /* *request is filled; *consumed bytes belong to it, none to an interim one */
	CODEC_SKIPPED, /* *consumed bytes belong to no request, or to one that is not accepted */
};

struct codec {
	const char *name;
	size_t session_size;
	/*
	 * Whether an answer names its request, so that answers may be given in any order. NULL if it
	 * does not.
	 */
	bool (*answers_in_any_order)(const void *session);
	/*
	 * Returns the number of the oldest request whose beginning was consumed and whose end was not,
	 * or 0. Each request of a session has its own number. NULL if there never is such a request.
	 */
	uint64_t (*unfinished_request)(const void *session);
	/*
	 * Appends the message that tells the peer that the server stops or ends an idle connection.
	 * NULL if the protocol has none.
	 */
	void (*append_goodbye)(void *session, struct buffer *out);
	/* `id` is unique among the connections of the process, and not 0. */
	void (*open)(void *session, const struct codec_bounds *bounds, uint64_t id);
	/* Frees the session's memory besides itself; NULL if there is none. */
	void (*close)(void *session);
	/*
	 * Reads one request from `data`: all bytes of the connection that no request has consumed.
	 * After CODEC_MORE the next call gets the same bytes, at any address, and more behind them.
	 * Returns something else than CODEC_MORE at the latest when `data` has header_max +
	 * request_max + 1 KiB bytes. Must not be called after a request with `close_after`.
	 */
	enum codec_result (*parse)(void *session, struct slice data, size_t *consumed,
	                           struct arena *arena, struct request *request);
	/*
	 * Makes the next parse return the last request again, with the same bytes: the server does not
	 * accept it now. NULL if parse needs no notice of that.
	 */
	void (*repeat_request)(void *session);
	/*
	 * Returns the number (request.stream) of a request that the client has cancelled since parse
	 * returned it, or 0. Each number is returned once; from then on the server sends no answer to
	 * that request. The server calls this until it returns 0, after CODEC_SKIPPED, a
	 * REQUEST_INTERIM and find_cancellations. NULL if clients can't cancel requests.
	 */
	unsigned (*next_cancelled)(void *session);
	/*
	 * Finds the cancellations in `data`, which parse gets later, because the server accepts no
	 * requests now. NULL as above.
	 */
	void (*find_cancellations)(void *session, struct slice data);
	/*
	 * How many requests the next parse may return as one: those of a transaction. NULL if it never
	 * returns more than one.
	 */
	size_t (*next_request_count)(const void *session);
	/*
	 * Appends the reply to `request`, which may be empty. Called once for each request, in the
	 * order of the requests, except that suspended requests are answered later. Other requests may
	 * have been parsed in between. So only requests that are answered at once may change the
	 * session.
	 */
	void (*reply)(void *session, const struct request *request, const struct reply *reply,
	              struct buffer *out);
	/*
	 * For sessions where `answers_in_any_order` is true: turns `answers`, which `reply` has made
	 * one behind the other, into bytes for the peer. Also called without answers, since the session
	 * may have bytes of its own to send.
	 */
	void (*frame_answers)(void *session, struct slice answers, struct buffer *out);
};

extern const struct codec resp_codec;
extern const struct codec http_codec;

#endif
