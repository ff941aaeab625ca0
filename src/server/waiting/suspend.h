/*
 * suspend.h: copies requests that outlive their iteration into memory of their own. The copy has
 * all that the plan and the answer need, and is listed in the order of its client (pending.h).
 */
#ifndef SERVER_SUSPEND_H
#define SERVER_SUSPEND_H

#include <pthread.h>

#include "server/waiting/admission.h"
#include "server/waiting/pending.h"
#include "wait/waitlist.h"

/* A position in the queue of a key; see key_queue.c. */
struct queue_entry {
	bool is_queued;
	bool is_first;   /* as far as its loop knows */
	bool has_moved;  /* from one key's queue to another */
	bool was_woken;  /* while a store had steps of it */
	bool is_dropped; /* under the queues' lock: a waiter of higher priority has replaced it */
	struct waiter waiter;
	struct list_node woken_node, poll_node; /* in struct key_queues */
	uint64_t wait_start_ns; /* when it began to wait, or 0; all times are of the monotonic clock */
	uint64_t queue_end_ns;  /* when its time in this queue is over */
	uint64_t deadline_ns;   /* when the time that its sender has given is over */
};

/* The number of keys that are compared. A work with more keys counts as sharing a key with all. */
#define ORDER_KEYS 3

/* The entry of a work in the order of its client; see key_order.h. */
struct work_order {
	uint64_t keys[ORDER_KEYS];
	uint64_t effect_hash;          /* the same for works with the same effect; 0 equals none */
	struct list_node node;         /* in client->ordered */
	struct suspended *predecessor; /* the work that it waits for, or NULL */
	unsigned key_count;
	bool has_followers; /* other works wait for it */
};

struct suspended {
	struct unanswered unanswered; /* the first member, because pending.h knows only this */
	struct waiting *waiting;      /* of its worker, like `decider` */
	struct decider *decider; /* the decision context points to this field while the work runs */
	struct list_node node;   /* in ready_works, split_batches, reloads or spare_blocks */
	size_t block_size;       /* with `bytes` */
	bool was_answered;       /* a store has answered a plan during this run */
	struct queue_entry queue;
	struct work_order order;
	uint64_t reload_number; /* of a request for a reload, see reload_requests.h */
	struct work work;       /* points into `bytes` */
	alignas(max_align_t) char bytes[];
};

#define ORDER_FILTER 4096

/* A counting filter over the client and key of all works in the clients' lists; see key_order.h. */
struct key_order {
	const struct weir_table *table;
	uint32_t filter[ORDER_FILTER];
};

/* Suspended works that wait for keys; see key_queue.c. */
struct key_queues {
	struct list polling;   /* the first works of queues at stores, which poll */
	uint64_t next_poll_ns; /* when the next poll is due, or 0 */
	pthread_mutex_t lock;
	struct list woken; /* works that other threads have woken, under the lock */
};

/* The part of a worker that keeps requests beyond their iteration. */
struct waiting {
	struct decider *decider;
	struct admission *admission;
	struct pending pending;
	struct key_order order;
	struct key_queues queues;
	struct list ready_works;   /* suspended works that resume next, oldest first; see deferred.c */
	struct list split_batches; /* those with items that have not begun, oldest first */
	struct list reloads;       /* works that wait for a reload, oldest first; see reload_wait.c */
	bool intake_has_split_batch;
	struct list spare_blocks; /* free memory of suspended works, see suspend.c */
	size_t spare_count;
};

/** Whether a work of the intake has steps at a store that completes them later. */
bool suspend_needed_for_store(const struct work *work);
/** About how many bytes a suspended copy takes. */
size_t suspend_size(const struct work *work);

/** Returns a copy that is the newest of its client and never due, or NULL if memory is short. */
struct suspended *suspend_work(struct waiting *waiting, const struct work *work,
                               const struct unanswered_kind *kind,
                               const struct unanswered_owner *owner);
/** For owners: frees the block, or keeps it for another work. */
void suspend_release(struct unanswered *unanswered);
/** Frees the kept blocks. */
void suspend_close(struct waiting *waiting);

#endif
