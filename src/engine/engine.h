/*
 * engine.h: request -> rules -> limits -> one decision.
 *
 * Two passes over everything a loop turn has read: `prepare` finds the cells
 * (matches rules, builds and hashes keys, prefetches), `decide` runs the steps.
 * One reading of the clock serves the turn.
 */
#ifndef ENGINE_ENGINE_H
#define ENGINE_ENGINE_H

#include <weir/weir.h>

#include "algo/algo.h"
#include "base/arena.h"
#include "base/slice.h"
#include "table/table.h"

struct weir_limit {
	struct algo_limit algo;
	uint64_t identity; /* name, algorithm and period: what a count belongs to */
	size_t metric;     /* for its owner: where its counters are */
	const char *name;
};

/* One charge: a limit, the hash of a key under it, and the rule that asked. */
struct engine_charge {
	const struct weir_limit *limit;
	const char *rule;   /* NULL in direct calls */
	const char *result; /* of the rule */
	uint64_t hash;
	bool shadow;
};

/* A request on its way through the two passes. */
struct engine_request {
	enum algo_op op;
	uint64_t cost;
	const struct engine_charge *charges; /* `charge_count` of them, in the order of the rules */
	size_t charge_count;
	bool listed; /* a rule answered by itself: allowed or denied, no charges */
	bool listed_allowed;
	const char *listed_rule;
	const char *listed_result;
	struct engine_charge one; /* room for the only charge of a direct call */
};

/** Called for each charge that was decided: for metrics. */
typedef void engine_observer(void *context, const struct engine_charge *charge,
                             const struct weir_decision *decision);

/** A direct call. Fills `request`, starts fetching its cell. 0 or ECOST, ELONG. */
int engine_prepare_limit(const struct weir_table *table, const struct weir_limit *limit,
                         enum algo_op op, struct slice key, uint64_t cost,
                         struct engine_request *request);

/** By the rules; charges are in `arena`. 0 or ECOST, ELONG, ENOMEM. */
int engine_prepare_rules(const struct weir_engine *engine, enum algo_op op,
                         const struct weir_attribute *attributes, size_t n, uint64_t cost,
                         struct arena *arena, struct engine_request *request);

/** The second pass. `observe` may be NULL. */
void engine_decide(struct weir_table *table, const struct engine_request *request,
                   struct moment at, engine_observer *observe, void *context,
                   struct weir_decision *decision);

/** The limits of an engine, for metrics and listings. */
size_t engine_limit_count(const struct weir_engine *engine);
struct weir_limit *engine_limit_at(const struct weir_engine *engine, size_t index);

/**
 * A limit from the parameters of CL.THROTTLE or THROTTLE, without allocating:
 * a token bucket of `burst`, `count` per `period_s` seconds. The counts of a key
 * survive a change of the parameters, as in redis-cell. 0, or ERANGE/EINVAL
 * with the reason in `error`.
 */
int engine_adhoc_limit(struct weir_limit *limit, uint64_t burst, uint64_t count, uint64_t period_s,
                       struct weir_error *error);

#endif
