/*
 * park.h: works that outlive their turn: they wait for a key (queue.c), or stores that complete
 * steps later have steps of them. Such a work is copied, once, to memory of its own, with all
 * that its plan and its answer need, and is held in the order of its client (hold.h).
 *
 * A work with steps at a store is copied before it runs, for the store knows its plan by its
 * address. When the store has told of all that it had, the work is ready. It goes on at the end of
 * the turn's reading, with all others that are ready: maybe to the store again, maybe to wait for
 * a key, else to its answer. Its memory lasts until the store has told, whatever becomes of its
 * client; what it took goes back by its plan.
 */
#ifndef SERVER_PARK_H
#define SERVER_PARK_H

#include "server/hold.h"
#include "server/work.h"
#include "wait/waitlist.h"

/* A place in the queue of a key; see queue.c. */
struct queue_place {
	bool is_taken;
	bool is_first;  /* as its own loop knows */
	bool has_moved; /* from one key's queue to another's */
	bool was_woken; /* while a store had steps of it */
	struct waiter waiter;
	struct parked *next_woken, **woken_link; /* see struct worker; NULL when it is not woken */
	uint64_t start_ns;    /* of the monotonic clock, as all that follow; 0: it never waited */
	uint64_t end_ns;      /* in this queue */
	uint64_t deadline_ns; /* the caller's own, for all that it waits for */
};

struct parked {
	struct held held; /* first */
	struct worker *worker;
	struct parked *next_ready; /* or next spare */
	struct queue_place place;
	struct work work; /* what it points to is in `bytes` */
	alignas(max_align_t) char bytes[];
};

/** Whether a work of the batch has steps at a store that completes them later. */
bool park_is_needed(const struct work *work);
/** About how much memory that will take. */
size_t park_size(const struct work *work);

/** A copy that is held behind all of its client. NULL: no memory. */
struct parked *park_open(struct worker *worker, const struct work *work,
                         const struct held_kind *kind, uint64_t due_ns);

/** Runs such a work of the batch, and answers it, or holds it until the store has told. */
void park_run(struct worker *worker, struct work *work);
/** Goes on with one that waited for a key. */
void park_resume(struct worker *worker, struct parked *parked);
/** Goes on with all that are ready. */
void park_resume_ready(struct worker *worker);
/**
 * Behind the end of all clients and lanes: frees all. What they hold at a store stays there until
 * it ends.
 */
void park_close(struct worker *worker);

/** Of one whose client is gone, or can't be answered: all that it took goes back. */
void park_undo(struct worker *worker, struct parked *parked);
/** Counts a plan of the work that is run, which a store has now. */
void park_count(struct worker *worker);

#endif
