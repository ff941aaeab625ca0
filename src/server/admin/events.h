/*
 * events.h: the events that the log tells, kept for clients that follow them.
 *
 * The last EVENTS_KEPT events stay in memory, each as the text that a stream of server-sent
 * events (the WHATWG's HTML standard, 9.2) has for it: a number, the event's name, and the log's
 * JSON. Any thread adds; a loop that follows is woken. Nobody waits for a stream: one that
 * falls behind by more is told how many events it has missed.
 */
#ifndef SERVER_EVENTS_H
#define SERVER_EVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/slice.h"

#define EVENTS_KEPT     256
#define EVENTS_TEXT_MAX ((size_t)4 << 10) /* longer ones are told without their fields */
#define EVENTS_STREAMS  64                /* of all loops together */

struct events;

struct events *events_open(void); /* NULL: out of memory */
void events_close(struct events *events);

/** Adds an event; `json` is one object. */
void events_add(struct events *events, const char *event, struct slice json);

/** Whether one more client may follow. False: EVENTS_STREAMS do. */
bool events_follow(struct events *events);
/** One that followed has left. */
void events_stop_following(struct events *events);
/** How many follow. */
size_t events_followers(const struct events *events);

/** The number of the next event; the first one's is 1. */
uint64_t events_next(const struct events *events);

/**
 * Appends the events from number `next` on, as many as fit into `room` bytes. Returns the number
 * of the first that it has not appended.
 */
uint64_t events_read(struct events *events, uint64_t next, size_t room, struct buffer *out);

/** Calls `wake` after each event while clients follow, on the thread that adds it. */
void events_wake(struct events *events, void (*wake)(void *context), void *context);

#endif
