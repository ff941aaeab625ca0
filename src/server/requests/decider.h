/*
 * decider.h: defines the decider, the part of a worker that prepares and decides requests. It has
 * all that they need: the configuration, the time, memory, the sender and counters.
 */
#ifndef SERVER_DECIDER_H
#define SERVER_DECIDER_H

#include "base/arena.h"
#include "server/config/config.h"
#include "server/loop/worker_shared.h"
#include "server/loop/work.h"
#include "server/requests/adhoc_limits.h"
#include "server/stores/store_clients.h"

/* An answer that is the same for all clients; see page.h. */
struct page {
	struct buffer text;
	uint64_t intake_number; /* of the intake in which it was rendered, or 0 */
};

struct pages {
	uint64_t intake_number; /* of this intake, from 1 */
	struct page by_kind[REQUEST_KIND_COUNT];
	struct top_ends top_ends; /* of the page REQUEST_TOP */
};

struct decider {
	struct worker_shared *shared;
	size_t index;                 /* of the worker, and of the counters that it writes */
	struct metrics_loop *metrics; /* the counters of this worker */
	struct net_loop *loop;
	struct store_clients *store_clients;
	struct server_config *config;    /* the newest when the iteration began; owns a reference */
	bool config_was_replaced;        /* works that wait may have lost their user */
	struct forwarded_list forwarded; /* the configuration's, for the codecs */
	struct decider *self;
	/* its `owner` points to `self`, or to the same field of a suspended work */
	struct decision_context context;
	struct arena arena;            /* memory of the requests of the intake */
	const struct user *user;       /* the sender of the request that is parsed, or NULL */
	struct weir_error login_error; /* of the sender's login; status 0 without an error */
	const char *forced_by; /* struct override's `by` while an operator forces a key, or NULL */
	size_t *use_count;     /* of the suspended work that runs; see struct unanswered */
	size_t batch_slice;    /* units of work of a batch to prepare now, see split_batch.h */
	/* memory of plans that end in the iteration in which a split batch continues */
	struct arena plan_arena;
	struct request blank_request; /* only its core is ever set */
	struct adhoc adhoc;
	const struct plan_step *denied_step; /* of the last denial that is enforced, ... */
	char denial_id[DENIAL_ID_TEXT];      /* and its id if it is kept, or empty */
	struct pages pages;
	size_t new_event_stream_count;    /* event streams to begin, see event_streams.h */
	uint64_t next_foreign_warning_ns; /* before this time no other foreign_protocol is logged */
	uint64_t next_refused_warning_ns; /* the same for proxy_refused */
	/* names that errors were compared with, and the intake in which; see work_error.c */
	size_t compared_names;
	uint64_t comparing_intake;
};

/** The decider that the `owner` of a decision context points to. */
static inline struct decider *decider_of(void *context)
{
	return *(struct decider **)context;
}

/** Sets the time of the following decisions. */
static inline void decider_read_clock(struct decider *decider)
{
	decider->context.at = clock_moment(engine_clock(decider->shared->table));
}

/** Returns whether the plan that ran was submitted to a store. Counts it if so. */
static inline bool decider_count_submission(struct decider *decider, enum engine_state state)
{
	if (__builtin_expect(state != ENGINE_SUBMITTED, 1))
		return false;
	++*decider->use_count; /* the work's memory must last until the store has answered */
	return true;
}

/**
 * Whether works may have steps at stores: those of limits, or claims of permits, which stay at a
 * store that no limit has any more.
 */
static inline bool decider_uses_stores(const struct decider *decider)
{
	return decider->config->remote_stores != 0 || decider->context.claim_store;
}

/** Moves to the newest configuration. Not while the intake has works. */
void decider_use_newest_config(struct decider *decider);

/** The limits that the sender may use, as in struct engine_attributes. */
static inline const uint64_t *decider_permitted_limits(const struct decider *decider)
{
	return decider->user ? decider->user->limits : NULL;
}

#endif
