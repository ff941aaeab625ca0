/*
 * suspend.h: the memory of works that outlive their turn (deferred.h). Such a work is copied, once,
 * with all that its plan and its answer need, and is held in the order of its client (pending.h).
 */
#ifndef SERVER_SUSPEND_H
#define SERVER_SUSPEND_H

#include <pthread.h>

#include "server/waiting/admission.h"
#include "server/waiting/pending.h"
#include "wait/waitlist.h"

/* A place in the queue of a key; see key_queue.c. */
struct queue_entry {
	bool is_queued;
	bool is_first;   /* as its own loop knows */
	bool has_moved;  /* from one key's queue to another's */
	bool was_woken;  /* while a store had steps of it */
	bool is_dropped; /* under the queues' lock: it was, for a waiter of a higher priority */
	struct waiter waiter;
	struct list_node woken, polls; /* see struct key_queues */
	uint64_t start_ns;    /* of the monotonic clock, as all that follow; 0: it never waited */
	uint64_t end_ns;      /* in this queue */
	uint64_t deadline_ns; /* the caller's own, for all that it waits for */
};

/* The keys that are noted of a work; one with more keys meets all works of its client. */
#define ORDER_KEYS 3

/* The place of a work in the order of its client; see key_order.h. */
struct order {
	uint64_t keys[ORDER_KEYS];
	uint64_t equality;        /* the same for equal works; 0: it equals none */
	struct list_node node;    /* of the client's, oldest first */
	struct suspended *predecessor; /* it waits until this one leaves; NULL: it does not wait */
	unsigned count;           /* of keys */
	bool has_followers;       /* others are behind it */
};

struct suspended {
	struct unanswered unanswered; /* first */
	struct waiting *waiting; /* of its worker, as is ... */
	struct decider *decider; /* the turn's context points to this while it runs */
	struct list_node ready;  /* or among the split batches, or spare */
	size_t size;             /* of this, with all that is behind it */
	bool was_answered;       /* a store has told of a plan since it runs */
	struct queue_entry queue;
	struct order order;
	struct work work; /* what it points to is in `bytes` */
	alignas(max_align_t) char bytes[];
};

#define ORDER_FILTER 4096

/* How many works of clients keep others in order, by client and key; see key_order.h. */
struct key_order {
	const struct weir_table *table;
	uint32_t filter[ORDER_FILTER];
};

/* Suspended works that wait for keys; see key_queue.c. */
struct key_queues {
	struct list polls; /* the first ones of their queues, which look at stores */
	uint64_t poll_ns;  /* when some do; 0: there are none */
	pthread_mutex_t lock;
	struct list woken; /* under the lock */
};

/* The part of a worker in which works outlive their turn. */
struct waiting {
	struct decider *decider;
	struct admission *admission;
	struct pending pending;
	struct key_order order;
	struct key_queues queues;
	struct list ready; /* suspended works that stores have told of, oldest first; see deferred.c */
	struct list split; /* batches with items that are not begun, oldest first; see deferred.h */
	bool splits;       /* the works of the batch have such a batch among them */
	struct list spare; /* memory of some that are no more, see suspend.c */
	size_t spare_count;
};

/** Whether a work of the batch has steps at a store that completes them later. */
bool suspend_is_needed(const struct work *work);
/** About how much memory that will take. */
size_t suspend_size(const struct work *work);

/** A copy that is held behind all of its client, due never. NULL: no memory. */
struct suspended *suspend_work(struct waiting *waiting, const struct work *work,
                               const struct unanswered_kind *kind,
                               const struct unanswered_owner *owner);
/** For owners: its memory is used again, or freed. */
void suspend_release(struct unanswered *unanswered);
/** When there are none any more. */
void suspend_close(struct waiting *waiting);

#endif
