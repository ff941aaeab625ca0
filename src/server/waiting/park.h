/*
 * park.h: the memory of works that outlive their turn (later.h). Such a work is copied, once, with
 * all that its plan and its answer need, and is held in the order of its client (hold.h).
 */
#ifndef SERVER_PARK_H
#define SERVER_PARK_H

#include "server/loop/work.h"
#include "server/waiting/hold.h"
#include "wait/waitlist.h"

/* A place in the queue of a key; see queue.c. */
struct queue_place {
	bool is_taken;
	bool is_first;  /* as its own loop knows */
	bool has_moved; /* from one key's queue to another's */
	bool was_woken; /* while a store had steps of it */
	bool is_dropped; /* under the worker's lock: it was, for a waiter of a higher priority */
	struct waiter waiter;
	struct list_node woken, polls; /* see struct worker */
	uint64_t start_ns;    /* of the monotonic clock, as all that follow; 0: it never waited */
	uint64_t end_ns;      /* in this queue */
	uint64_t deadline_ns; /* the caller's own, for all that it waits for */
};

/* The keys that are noted of a work; one with more keys meets all works of its client. */
#define ORDER_KEYS 3

/* The place of a work in the order of its client; see order.h. */
struct order {
	uint64_t keys[ORDER_KEYS];
	uint64_t alike; /* the same for equal works; 0: it equals none */
	struct list_node node; /* of the client's, oldest first */
	struct parked *behind; /* it waits until this one leaves; NULL: it does not wait */
	unsigned count;        /* of keys */
	bool leads; /* others are behind it */
};

struct parked {
	struct held held; /* first */
	struct worker *worker;
	struct list_node ready; /* or among the split batches, or spare */
	size_t size;   /* of this, with all that is behind it */
	bool was_told; /* a store has told of a plan since it runs */
	struct queue_place place;
	struct order order;
	struct work work; /* what it points to is in `bytes` */
	alignas(max_align_t) char bytes[];
};

/** Whether a work of the batch has steps at a store that completes them later. */
bool park_is_needed(const struct work *work);
/** About how much memory that will take. */
size_t park_size(const struct work *work);

/** A copy that is held behind all of its client, due never. NULL: no memory. */
struct parked *park_open(struct worker *worker, const struct work *work,
                         const struct held_kind *kind, const struct held_owner *owner);
/** For owners: its memory is used again, or freed. */
void park_release(struct held *held);
/** When there are none any more. */
void park_close(struct worker *worker);

#endif
