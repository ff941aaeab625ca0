/*
 * codec.h: what a protocol is to the server.
 *
 * A codec holds no socket, thread or counter. Its session is what it must
 * remember of one connection. To add a protocol, write one of these.
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

/* The limits on input, by INTERFACE and configurable; and what is wanted of it. */
struct codec_bounds {
	size_t key_max;     /* 1 KiB */
	size_t request_max; /* 64 KiB: a body, or all of a RESP command */
	size_t header_max;  /* 16 KiB: request line and headers */
	size_t attributes_max;
	size_t batch_max; /* requests in one */
	/*
	 * Looked at by each call of parse for what a proxied request carries: the owner may
	 * change the list between two calls, and keeps it as long as any session. Returns NULL if there
	 * is none.
	 */
	const struct forwarded_list *forwarded_attributes;
	/* Bytes that sessions hold besides themselves: they add to it; NULL if nobody counts. */
	_Atomic uint64_t *session_bytes;
};

#define CODEC_BOUNDS_DEFAULT                                                                       \
	((struct codec_bounds){1024, 64 << 10, 16 << 10, WEIR_ATTRIBUTES_MAX, 1000, NULL, NULL})

enum codec_result {
	CODEC_MORE,    /* no whole request in `data` yet */
	CODEC_REQUEST, /* *request is filled, *consumed bytes belong to it; of an interim one none */
	CODEC_SKIPPED, /* *consumed bytes belong to no request, or to one that is not accepted */
};

struct codec {
	const char *name;
	size_t session_size;
	/*
	 * Whether its answers tell which request they are to, so they may come in any order. NULL if
	 * they don't. /
	 */
	bool (*streams)(const void *session);
	/*
	 * The number of the oldest request whose beginning was consumed, and whose end was not: another
	 * for each request of the session. Returns 0 if there is none. NULL: there never is.
	 */
	uint64_t (*unfinished)(const void *session);
	/*
	 * Appends what the peer is to know when the server stops, or ends an idle connection. NULL: it
	 * sees that by the end alone.
	 */
	void (*stop)(void *session, struct buffer *out);
	/* `id` is another for every connection of the process, and not 0. */
	void (*open)(void *session, const struct codec_bounds *bounds, uint64_t id);
	/* Frees what the session holds besides itself; NULL if there is nothing to free. */
	void (*close)(void *session);
	/*
	 * Reads one request from `data`: all bytes of the connection that no
	 * request has consumed. After CODEC_MORE the next call gets the same
	 * bytes, at any address, and more behind them. Never needs more than
	 * header_max + request_max + 1 KiB bytes to say something else. Not to be called again
	 * after a request with `close`.
	 */
	enum codec_result (*parse)(void *session, struct slice data, size_t *consumed,
	                           struct arena *arena, struct request *request);
	/*
	 * The request that parse gave last is not taken, and its bytes stay: the next call gives it
	 * again. NULL if those bytes are all.
	 */
	void (*put_back)(void *session);
	/*
	 * The number (request.stream) of a request that parse has given and whose client has cancelled
	 * it since, or 0. Each number is returned once, and the server sends no answer to that request
	 * from then on. The server calls this until it returns 0, after CODEC_SKIPPED, a
	 * REQUEST_INTERIM and look_ahead. NULL if clients can't cancel requests.
	 */
	unsigned (*cancelled)(void *session);
	/*
	 * Finds what cancels requests in `data`, which parse is given later, because the server takes
	 * no requests now. NULL as above.
	 */
	void (*look_ahead)(void *session, struct slice data);
	/*
	 * How many requests the next one may bring, those of a transaction; NULL if it is one at most.
	 */
	size_t (*queued)(const void *session);
	/*
	 * Appends the reply to `request`, maybe nothing. Called once per request when it is
	 * decided: in order, but later for requests that wait. So only what is answered at once
	 * may change the session. Other requests may have been parsed in between.
	 */
	void (*reply)(void *session, const struct request *request, const struct reply *reply,
	              struct buffer *out);
	/*
	 * Of a session that streams: appends what goes to the peer, now, for `answers` that `reply`
	 * has made, one behind the other. Also called without any: it may have something of its own.
	 */
	void (*send)(void *session, struct slice answers, struct buffer *out);
};

extern const struct codec resp_codec;
extern const struct codec http_codec;

#endif
