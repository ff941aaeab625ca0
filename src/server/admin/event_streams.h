/*
 * event_streams.h: clients that follow events (events.h), by answers that have no end.
 *
 * Such an answer is held (pending.h) behind all others of its connection, which takes no further
 * requests. After each event the loop writes as much as fits into the connection's share of output.
 * A comment every EVENT_STREAM_BEAT_NS shows that the server is there, and finds peers that are
 * gone.
 */
#ifndef SERVER_EVENT_STREAMS_H
#define SERVER_EVENT_STREAMS_H

#include "server/waiting/pending.h"

#define EVENT_STREAM_BEAT_NS (15 * NS_PER_S)

/* The streams of a worker. */
struct event_streams {
	struct pending *pending;
	struct list all;
};

/** Begins those of the `n` works of a batch that ask for one, once the batch is answered. */
void event_streams_begin(struct event_streams *event_streams, const struct work *works, size_t n);
/** Writes what has happened since. */
void event_streams_run(struct event_streams *event_streams);

#endif
