/*
 * time_order.h: sorts the requests of a log, which is nearly in order, by their times.
 *
 * Servers log a request when it ends, so its line may follow those of later requests. A window of
 * ORDER_WINDOW requests is sorted; when it is full, the oldest request is taken from it. A request
 * that is older than those already taken is decided at the latest of their times, since time must
 * not go back. Memory is bounded: if it runs out because a request is far ahead in time and so is
 * never the oldest, that request is taken too, at the latest time so far.
 *
 * Requests are taken in the order of their times (order_next), and released in the order of the
 * log, when all before them are done (order_release).
 */
#ifndef SIMULATE_TIME_ORDER_H
#define SIMULATE_TIME_ORDER_H

#include "simulate/input/format.h"

#define ORDER_WINDOW 4096
#define ORDER_BYTES  ((size_t)8 << 20)

/* A request in the window or being decided. Members without a comment are as in struct record. */
struct ordered_record {
	uint64_t number;  /* in the log, from 0 */
	uint64_t time_ns; /* at which it is decided */
	uint64_t cost;
	char *output; /* the caller's, for writing in the log's order */
	uint32_t output_len;
	uint32_t size; /* of this struct with its values, or of a gap at the end of the ring */
	enum { ORDERED_WAITING, ORDERED_TAKEN, ORDERED_DONE, ORDERED_GAP } state;
	uint16_t value_count;
	uint8_t outcome;
	uint64_t latency_ns, end_ns;
	struct slice values[];
};

struct order;

struct order_stats {
	uint64_t sorted; /* requests that were out of order */
	uint64_t late;   /* requests older than those already taken */
	uint64_t ahead;  /* requests too far ahead of those that followed */
};

struct order *order_open(void); /* NULL if out of memory */
void order_close(struct order *order);

/** Adds a copy of a request. Returns false if there is no memory until requests are released. */
bool order_add(struct order *order, const struct record *record, size_t value_count);

/** Takes the next request; NULL if more must be added first, or with `ended` if none is left. */
struct ordered_record *order_next(struct order *order, bool ended);

/** Takes the request that was added first, if order_add has failed though all taken ones are done.
 */
struct ordered_record *order_evict_oldest(struct order *order);

/** Marks a request that was taken as done. */
void order_done(struct ordered_record *ordered);

/** Releases the next request in the log's order if it is done, or NULL. Valid until order_add. */
struct ordered_record *order_release(struct order *order);

const struct order_stats *order_stats(const struct order *order);

#endif
