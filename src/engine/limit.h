/* limit.h: declares a limit (struct weir_limit), and checks and decisions that need no state. */
#ifndef ENGINE_LIMIT_H
#define ENGINE_LIMIT_H

#include <stddef.h>
#include <string.h>

#include <weir/weir.h>

#include "algo/algo.h"
#include "rules/model.h"

/* The quorum group of a limit, as the engine sees it. */
struct limit_group {
	_Atomic bool is_up; /* this server takes part in it now */
};

struct weir_limit {
	struct algo_limit algo;
	const char *name;
	struct store *store; /* the store of its states, or NULL for the table's */
	bool has_secret_keys; /* a rule makes its keys of visitors' data, see plan_step.key_is_secret */
	enum rules_failure on_store_failure;
	/*
	 * The limit that counts in the table's memory while the store is unavailable, with this
	 * server's share of the quota and an identity of its own, or NULL.
	 */
	const struct weir_limit *local;
	const struct weir_limit *origin; /* of a local limit: the limit that it replaces */
	struct limit_group
	    *group; /* the servers that decide it with this one (context->notify), or NULL */
};

/**
 * As weir_limit_open, in place, but error messages have the names of rule files. Free with
 * limit_free.
 */
int limit_init(struct weir_limit *limit, const struct weir_limit_options *options,
               struct weir_error *error);
/** The same, with the names of the options' fields in error messages. */
int limit_init_by_fields(struct weir_limit *limit, const struct weir_limit_options *options,
                         struct weir_error *error);
/**
 * Opens the local limit of `origin`, which was opened with these options, in the memory
 * `store` of one of `nodes` servers. It grants max(1, floor(quota / nodes)) at once, and all such
 * servers together grant no more in the long run than the origin's rate, as long as a server's
 * period stays within a year.
 */
int limit_init_local(struct weir_limit *limit, const struct weir_limit *origin,
                     const struct weir_limit_options *options, uint64_t nodes,
                     struct store *store, struct weir_error *error);
void limit_free(struct weir_limit *limit);

/**
 * Makes an ad-hoc limit, from the parameters of CL.THROTTLE or THROTTLE, without allocating: a
 * token bucket of `burst`, `count` per `period_s` seconds. The counts of a key survive a change of
 * the parameters, as in redis-cell. Returns 0, or ERANGE/EINVAL with the reason in `error`.
 */
int limit_init_adhoc(struct weir_limit *limit, uint64_t burst, uint64_t count, uint64_t period_s,
                     struct weir_error *error);

/**
 * Makes the local limit of an ad-hoc limit, as limit_init_local does. Errors as limit_init_adhoc.
 * It needs no limit_free.
 */
int limit_init_adhoc_local(struct weir_limit *limit, const struct weir_limit *origin,
                           uint64_t nodes, struct store *store);

/** Whether the limit is an ad-hoc one. */
bool limit_is_adhoc(const struct weir_limit *limit);

/** Returns the time of a call: the time that the caller passed, or now if that is WEIR_NOW. */
static inline struct moment limit_moment(const struct clock *clock, uint64_t now_ns,
                                         const struct weir_limit *limit)
{
	if (now_ns != WEIR_NOW)
		return moment_given(now_ns);
	if (algo_has_calendar(&limit->algo))
		return clock_moment(clock);
	return moment_given(clock_now(clock));
}

/** Whether `cost` could ever be granted. */
static inline bool limit_cost_fits(const struct weir_limit *limit, enum algo_op op, uint64_t cost)
{
	return cost <= limit->algo.quota || !algo_op_requests(op);
}

/**
 * Whether `cost` could ever be granted to a caller that waits so long, as in struct algo_call, and
 * that charges the same key `earlier` units before.
 */
bool limit_could_grant(const struct weir_limit *limit, enum algo_op op, uint64_t cost,
                       uint64_t earlier, uint64_t max_wait_ns);

/** Checks a call as far as it can be checked without its state: 0, ELONG, EINVAL or ECOST. */
static inline int limit_check(const struct weir_limit *limit, enum algo_op op, struct slice key,
                              uint64_t cost, uint64_t max_wait_ns)
{
	/* A key without an address has no bytes. One comparison, since each request makes it. */
	if (__builtin_expect(key.len > (key.data ? WEIR_KEY_MAX : 0), 0))
		return key.data ? WEIR_ELONG : WEIR_EINVAL;
	if (__builtin_expect(max_wait_ns != 0, 0))
		return limit_could_grant(limit, op, cost, 0, max_wait_ns) ? WEIR_OK : WEIR_ECOST;
	return limit_cost_fits(limit, op, cost) ? WEIR_OK : WEIR_ECOST;
}

/**
 * Fills in the decision from an outcome by `algo`, the limit's parameters or those of its
 * successor. The decision names no rule.
 */
static inline void limit_fill_decision(const struct weir_limit *limit,
                                       const struct algo_limit *algo,
                                       const struct algo_decision *outcome,
                                       struct weir_decision *decision)
{
	/* One by one: GCC clears a whole struct of this size by `rep stos`, which costs 3 ns. */
	decision->allowed = outcome->allowed;
	decision->paced = algo->paced;
	decision->reason = outcome->reason;
	algo_show_quota(algo, outcome, &decision->quota, &decision->remaining);
	decision->retry_after_ns = outcome->retry_after_ns;
	decision->reset_after_ns = outcome->reset_after_ns;
	decision->window_ns = algo->window_ns;
	decision->limit = limit->name;
	decision->rule = NULL;
	decision->result = NULL;
	decision->wait_ns = outcome->wait_ns;
	/* `degraded` and the reserved bytes. */
	memset((char *)decision + offsetof(struct weir_decision, degraded), 0,
	       sizeof *decision - offsetof(struct weir_decision, degraded));
}

/** Decides by a limit that draws, which has no states in a table. Sets the call's draw. */
void limit_draw(const struct weir_limit *limit, struct algo_call *call, struct moment at,
                struct weir_decision *decision);

#endif
