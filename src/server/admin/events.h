/*
 * events.h: keeps the last events, of the log or of denials, in memory for clients that follow
 * them.
 *
 * Each of the EVENTS_KEPT events is stored as the text that a stream of server-sent events (the
 * WHATWG's HTML standard, 9.2) sends: a number, the event's name, and the log's JSON. Any thread
 * may add events, which wakes the loops of clients. No thread waits for a client: a client that
 * falls too far behind gets the number of events that it has missed.
 */
#ifndef SERVER_EVENTS_H
#define SERVER_EVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/slice.h"

#define EVENTS_KEPT     256
#define EVENTS_TEXT_MAX ((size_t)4 << 10) /* longer events are sent without their fields */
#define EVENTS_STREAMS  64                /* number of clients in all loops */

struct events;

/*
 * Denials are many more than other events, so they are kept apart and push out none of these. They
 * have no numbers that clients see: a client that connects again continues with the log, and finds
 * the denials it has missed at /v1/denials.
 */
enum events_kind { EVENTS_OF_LOG, EVENTS_OF_DENIALS };

struct events *events_open(enum events_kind kind); /* NULL if memory is short */
void events_close(struct events *events);

/** Adds an event; `json` is one object. */
void events_add(struct events *events, const char *event, struct slice json);

/** Counts one more client. Returns false if there are EVENTS_STREAMS already. */
bool events_follow(struct events *events);
/** Counts one client less. */
void events_stop_following(struct events *events);
/** The number of clients that follow. */
size_t events_followers(const struct events *events);

/** The number of the next event, from 1. */
uint64_t events_next(const struct events *events);

/**
 * Appends the events from number `next` on that fit into `space` bytes. Returns the number of the
 * first one that it has not appended.
 */
uint64_t events_read(struct events *events, uint64_t next, size_t space, struct buffer *out);

/**
 * Calls `wake` after each event, on the thread that adds it, while there are clients. `wake` must
 * not call functions of `events`. Once this returns, the former `wake` is not called any more.
 */
void events_wake(struct events *events, void (*wake)(void *context), void *context);

#endif
