/*
 * decider.h: the part of a worker by which requests are prepared and decided: the configuration,
 * the time and the memory of the turn, the sender, and the counters.
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
	uint64_t batch; /* in which it was rendered; 0: never */
};

struct pages {
	uint64_t batch; /* the number of this one, from 1 */
	struct page of[REQUEST_KIND_COUNT];
	struct top_ends top_ends; /* of the page REQUEST_TOP */
};

struct decider {
	struct worker_shared *shared;
	size_t index;                 /* of the worker: it writes the counters of that loop */
	struct metrics_loop *metrics; /* these */
	struct net_loop *loop;
	struct store_clients *store_clients;
	struct server_config *config; /* the newest when the turn began; owns a reference */
	bool was_reloaded;            /* some of what waits may have lost its user */
	struct carried_list carried;  /* the configuration's, for the codecs */
	struct decider *self;
	struct decision_context
	    context;             /* its context points to `self`, or to the same of a suspended work */
	struct arena arena;      /* memory for the requests of the batch */
	const struct user *user; /* of the request that is read; NULL: nobody, or there are none */
	struct weir_error login_error; /* of its login; status 0: it is right, or there is none */
	const char *forced_by;     /* struct override's `by` of what is forced now, or NULL */
	size_t *at_store;          /* of the suspended work that is run: plans that stores have */
	size_t batch_slice;        /* as much work of a batch is prepared now, see split_batch.h */
	struct arena plans;   /* of items that are run at once, in a turn that goes on with a batch */
	struct request blank; /* of which only the head is ever set */
	struct adhoc adhoc;
	struct pages pages;
	size_t new_streams;        /* that the batch begins; see event_streams.h */
	uint64_t next_foreign_warning_ns; /* until when another foreign_protocol is not logged */
	uint64_t next_refused_warning_ns; /* the same of proxy_refused */
};

/** The decider of a turn's context. */
static inline struct decider *decider_of(void *context)
{
	return *(struct decider **)context;
}

/** Decisions are made for this moment from now on. */
static inline void decider_read_clock(struct decider *decider)
{
	decider->context.at = clock_moment(engine_clock(decider->shared->table));
}

/** Whether a store has a plan of the work that is run now; that is counted. */
static inline bool decider_at_store(struct decider *decider, enum engine_state state)
{
	if (__builtin_expect(state != ENGINE_SUBMITTED, 1))
		return false;
	++*decider->at_store;
	return true;
}

/** Goes on with the newest configuration. Not while works of the batch are undecided. */
void decider_advance(struct decider *decider);

/** The limits that the sender may use, as struct engine_attributes has them. */
static inline const uint64_t *decider_permitted_limits(const struct decider *decider)
{
	return decider->user ? decider->user->limits : NULL;
}

#endif
