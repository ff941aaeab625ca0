/*
 * stream.h: clients that follow events (events.h), by answers that have no end.
 *
 * Such an answer is held (pending.h) behind all others of its connection, which takes no further
 * requests. After each event the loop writes as much as fits into the connection's share of output.
 * A comment every STREAM_BEAT_NS shows that the server is there, and finds peers that are gone.
 */
#ifndef SERVER_STREAM_H
#define SERVER_STREAM_H

#include "server/waiting/pending.h"

#define STREAM_BEAT_NS (15 * NS_PER_S)

/* The streams of a worker. */
struct streams {
	struct pending *pending;
	struct list all;
};

/** Begins those of the `n` works of a batch that ask for one, once the batch is answered. */
void streams_begin(struct streams *streams, const struct work *works, size_t n);
/** Writes what has happened since. */
void streams_run(struct streams *streams);

#endif
