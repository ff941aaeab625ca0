/*
 * time_order.h: requests by their time, from a log that is only nearly so.
 *
 * Servers log a request when it ends, so its line stands behind later ones. A
 * window of ORDER_WINDOW requests is kept sorted; the oldest leaves it when the
 * window is full. What comes later than that counts at the latest time seen:
 * time goes on only. Memory is bounded, so a request whose time is far ahead of
 * all that follow it counts at the latest time seen, too, once the memory of
 * those is needed.
 *
 * Requests leave in the order of their times, and are released in that of the
 * log, when all before them are done.
 */
#ifndef SIMULATE_TIME_ORDER_H
#define SIMULATE_TIME_ORDER_H

#include "simulate/input/format.h"

#define ORDER_WINDOW 4096
#define ORDER_BYTES  ((size_t)8 << 20)

/* A request that has been read. What is not told here is as in struct record. */
struct ordered_record {
	uint64_t number;  /* in the log, from 0 */
	uint64_t time_ns; /* at which it counts */
	uint64_t cost;
	char *output; /* the user's */
	uint32_t output_len;
	uint32_t size; /* of this and its values, or of a gap at the end of the ring */
	enum { ORDERED_WAITING, ORDERED_LEFT, ORDERED_DONE, ORDERED_GAP } state;
	uint16_t value_count;
	uint8_t outcome;
	uint64_t latency_ns, end_ns;
	struct slice values[];
};

struct order;

struct order_stats {
	uint64_t sorted; /* stood behind later ones, put right */
	uint64_t late;   /* older than the window; counted at the latest time seen */
	uint64_t ahead;  /* too far ahead; counted at the latest time seen */
};

struct order *order_open(void); /* NULL if out of memory */
void order_close(struct order *order);

/** Copies a request. Returns false if there is no room, until some are done and released. */
bool order_add(struct order *order, const struct record *record, size_t value_count);

/** The next request, or NULL: more must be added first. With `ended`: until there is none. */
struct ordered_record *order_next(struct order *order, bool ended);

/** Forces out the oldest: for when there is no room although every request that left is done. */
struct ordered_record *order_evict_oldest(struct order *order);

/** A request that has left needs its memory no more. */
void order_done(struct ordered_record *held);

/** The next that is done, in the order of the log, or NULL. Its memory is good until order_add. */
struct ordered_record *order_release(struct order *order);

const struct order_stats *order_stats(const struct order *order);

#endif
