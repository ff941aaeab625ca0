/*
 * stream.h: clients that follow events (events.h), by answers that have no end.
 *
 * Such an answer is held (hold.h) behind all others of its connection, which takes no further
 * requests. After each event the loop writes as much as fits into the connection's share of output.
 * A comment every STREAM_BEAT_NS shows that the server is there, and finds peers that are gone.
 */
#ifndef SERVER_STREAM_H
#define SERVER_STREAM_H

#include "server/loop/work.h"

#define STREAM_BEAT_NS (15 * NS_PER_S)

/** Begins the streams of the batch, once it is answered. */
void stream_begin(struct worker *worker);
/** Writes what has happened since. */
void stream_run(struct worker *worker);

#endif
