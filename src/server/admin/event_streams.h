/*
 * event_streams.h: sends events (events.h) to clients that follow them, in answers that do not end.
 *
 * Such an answer is pending (pending.h) behind all others of its connection, which sends no further
 * requests. After each event the loop writes as much as fits into the connection's share of output.
 * A comment every EVENT_STREAM_BEAT_NS shows that the server is alive, and detects clients that are
 * gone.
 */
#ifndef SERVER_EVENT_STREAMS_H
#define SERVER_EVENT_STREAMS_H

#include "server/waiting/pending.h"

#define EVENT_STREAM_BEAT_NS (15 * NS_PER_S)

/* The event streams of a worker. */
struct event_streams {
	struct pending *pending;
	struct list all;
};

/** Begins the streams that the first `n` works ask for, after these are answered. */
void event_streams_begin(struct event_streams *event_streams, const struct work *works, size_t n);
/** Sends events that have happened since the last call. */
void event_streams_run(struct event_streams *event_streams);

#endif
