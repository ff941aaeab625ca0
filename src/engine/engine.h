/*
 * engine.h: request -> rules -> limits -> one decision.
 *
 * Passes over everything a loop turn has read: `prepare` matches rules, builds
 * and hashes keys, `fetch` starts fetching their cells, `locate` looks which are
 * where they should be, `decide` runs the steps. One reading of the clock
 * serves the turn.
 *
 * `fetch` is a pass of its own, with nothing between one and the next: a large
 * table costs a walk through the page tables for each cell, and walks overlap
 * only where the next one is near.
 */
#ifndef ENGINE_ENGINE_H
#define ENGINE_ENGINE_H

#include <weir/weir.h>

#include "algo/algo.h"
#include "base/arena.h"
#include "base/slice.h"
#include "engine/limit.h"
#include "store/memory.h"
#include "store/permit.h"
#include "wait/patience.h"

/* A limit, a key under it, the rule that asked, and how it ended. */
struct engine_charge {
	const struct weir_limit *limit;
	const char *rule;   /* NULL in direct calls */
	const char *result; /* of the rule */
	struct memory_key key;
	struct slice key_name; /* the caller's, or in its arena */
	uint64_t until_ns;     /* of the state that it left: what a refund names, if not 0 */
	bool shadow;
	bool secret; /* the key is made of what visitors send: its name is not for others */
	bool allowed;
	enum weir_reason reason;
};

/* A request on its way through the passes. */
struct engine_request {
	enum algo_op op;
	uint64_t cost;
	uint64_t max_wait_ns; /* as in struct algo_call; 0 when it was prepared */
	enum wait_position position; /* WAIT_NEW when it was prepared */
	uint64_t waits_at;       /* the hash of that key, but for WAIT_NEW */
	struct engine_charge direct;   /* of a direct call; else its limit is NULL, and: */
	struct engine_charge *charges; /* in the order of the rules */
	size_t charge_count;
	size_t enforced_count;   /* of them not shadow */
	struct permit permit;    /* acquire: out, what was handed out; refund: which one it is */
	bool wants_permit;       /* see engine_want_permit */
	struct weir_decision *each; /* NULL, or room for what each charge came to, as they count */
	const char *listed_rule; /* the rule that answers by itself, or NULL */
	const char *listed_result;
	bool listed_allowed;
};

/**
 * Told of each charge that counts, with `allowed` and `reason` set: for metrics.
 * Of a denied request that is the one that denied it, and all shadow ones.
 */
typedef void engine_observer(void *context, const struct engine_charge *charge);

/** A direct call. Fills `request`. 0 or ECOST, ELONG, and errors of weir_table_reserve. */
int engine_prepare_limit(struct weir_table *table, const struct weir_limit *limit,
                         enum algo_op op, struct slice key, uint64_t cost,
                         struct engine_request *request);

/**
 * By the rules, whose keys may have `key_max` bytes; charges are in `arena`. 0 or ECOST, ELONG,
 * ENOMEM.
 */
int engine_prepare_rules(const struct weir_engine *engine, enum algo_op op,
                         const struct weir_attribute *attributes, size_t n, uint64_t cost,
                         size_t key_max, struct arena *arena, struct engine_request *request);

/** The number of an attribute that a rule asks for, which lives as long as the engine; or -1. */
int engine_attribute(const struct weir_engine *engine, struct slice name);

/**
 * The same for whoever brings attributes in one order always: `numbers` are theirs, once
 * each, those of -1 are passed over, and a value of NULL is absent.
 */
int engine_prepare_values(const struct weir_engine *engine, enum algo_op op, const int *numbers,
                          const struct slice *values, size_t n, uint64_t cost, struct arena *arena,
                          struct engine_request *request);

/** Starts fetching the cells; where no limit is and no charge, nothing. May be left out. */
void engine_fetch(const struct weir_table *table, const struct engine_request *request);

/** Best some requests after `fetch`: looks for the cells. May be left out. */
void engine_locate(const struct weir_table *table, struct engine_request *request,
                   struct moment at);

/** Whether the decision may be to wait. */
bool engine_may_wait(const struct engine_request *request);

/**
 * The last pass. `observe` may be NULL. A refund of a permit that is not held changes
 * nothing, and is not `allowed`.
 */
void engine_decide(struct weir_table *table, struct engine_request *request, struct moment at,
                   engine_observer *observe, void *context, struct weir_decision *decision);

/** Whether anybody waits for a key. */
bool engine_others_wait(const struct weir_table *table);

/**
 * engine_decide where somebody may wait: the request, or others, whom it does not
 * overtake. NULL when it is decided. Else nothing was taken or observed, and it is to
 * wait for the key of the charge that is returned; as the first of those who do it
 * would pass after `decision->retry_after_ns`.
 */
struct engine_charge *engine_decide_in_order(struct weir_table *table,
                                             struct engine_request *request, struct moment at,
                                             engine_observer *observe, void *context,
                                             struct weir_decision *decision);

/** Instead of waiting for that charge: makes `decision` a denial. */
void engine_deny(struct weir_table *table, struct engine_request *request,
                 struct engine_charge *charge, enum weir_reason reason, struct moment at,
                 engine_observer *observe, void *context, struct weir_decision *decision);

/* All charges alike, whether it is a direct call's one or those of the rules. */
static inline size_t engine_charge_count(const struct engine_request *request)
{
	return request->direct.limit ? 1 : request->charge_count;
}

static inline struct engine_charge *engine_charge_at(const struct engine_request *request, size_t i)
{
	return request->direct.limit ? (struct engine_charge *)&request->direct : &request->charges[i];
}

/* What a request took of one limit: nothing that a reload frees. */
struct engine_taken {
	struct weir_charge charge;
	uint64_t cost;
	uint64_t permit; /* the permit's id; 0: none */
};

/**
 * Of a request that was allowed. Nothing is taken of a limit that keeps no state. What shadow
 * rules take is not given back, but for places: a request holds these until it ends.
 */
static inline bool engine_has_taken(const struct engine_charge *charge)
{
	return charge->until_ns != 0 && (!charge->shadow || algo_holds_places(&charge->limit->algo));
}

/** How many limits the request, allowed, has taken from; `taken` (or NULL) has room for them. */
size_t engine_taken(const struct engine_request *request, struct engine_taken *taken);
/** Gives it back where it came from, by the limits of `engine`, which may no longer have it. */
void engine_give_back(struct weir_table *table, const struct weir_engine *engine,
                      const struct engine_taken *taken, struct moment at);

/** At once, for a request that was allowed and whose answer cannot be given; its permit is void. */
void engine_undo(struct weir_table *table, struct engine_request *request, struct moment at);

/** Whether it would hold places until it ends: then only a permit can tell that it has. */
bool engine_holds_places(const struct engine_request *request);
/**
 * Of a request that was prepared: one that acquires shall get a permit, if it takes
 * anything. 0, or ELONG: it has more charges than one covers.
 */
int engine_want_permit(struct engine_request *request);
/** What a request that was decided took, by its permit; without one all is 0. */
void engine_permits(const struct engine_request *request, struct weir_permits *permits);

/* The one of a single key, as the public calls tell it; `id` 0: nothing was taken. */
static inline struct weir_permit engine_permit_of(uint64_t id, uint64_t until_ns, uint64_t cost)
{
	return id != 0 ? (struct weir_permit){id, until_ns, cost, 0} : (struct weir_permit){0};
}
/**
 * A refund of what they cover. What was taken from limits that are no more is left out.
 * 0, EINVAL (more charges than there can be) or ENOMEM.
 */
int engine_prepare_permits(const struct weir_engine *engine, const struct weir_permits *permits,
                           struct arena *arena, struct engine_request *request);

/**
 * Instead of engine_decide, for a refund by permit: the work has ended. Whether it was
 * held: its places are not any more.
 */
bool engine_report(struct weir_table *table, const struct engine_request *request,
                   struct moment at);

/**
 * Instead of engine_decide, for a reset of a bucket's key by a direct call: whether there
 * was anything to forget. Of two at once one says so.
 */
bool engine_forget(struct weir_table *table, const struct engine_request *request,
                   struct moment at);

/** One step of `limit` on a key, explained; no rule. Returns as memory_apply. */
__attribute__((noinline)) uint64_t engine_apply_slow(struct weir_table *table,
                                                     const struct weir_limit *limit,
                                                     struct memory_key key, struct algo_call call,
                                                     struct moment at,
                                                     struct weir_decision *decision);

/**
 * An acquire from a wide state that is in key.cell, where it is done at once. Returns the end
 * of the state that it left; 0: nothing has happened.
 */
__attribute__((noinline)) uint64_t engine_try_row(const struct weir_limit *limit,
                                                  struct memory_key key, uint64_t cost,
                                                  uint64_t now_ns,
                                                  struct weir_decision *decision);

/* The same on a key that was seen, where it is done at once; false: nothing has happened. */
static inline bool engine_try(struct weir_table *table, const struct weir_limit *limit,
                              const struct memory_key *key, const struct algo_call *call,
                              struct moment at, struct weir_decision *decision, uint64_t *until_ns)
{
	const struct algo_limit *algo = &limit->algo;
	uint32_t tag = table_tag(key->hash);
	struct algo_outcome outcome;

	if (__builtin_expect(!key->cell || !algo_is_current(algo), 0))
		return false;
	if (__builtin_expect(!memory_try(key->cell, table->table.load_is_atomic, algo, tag, call,
	                                 at.now_ns, &outcome, until_ns),
	                     0)) {
		if (algo->width == 0 || call->op != ALGO_ACQUIRE)
			return false;
		*until_ns = engine_try_row(limit, *key, call->cost, at.now_ns, decision);
		return *until_ns != 0;
	}
	limit_explain(limit, algo, &outcome, decision);
	return true;
}

/* The same on any key. */
static inline uint64_t engine_apply(struct weir_table *table, const struct weir_limit *limit,
                                    const struct memory_key *key, const struct algo_call *call,
                                    struct moment at, struct weir_decision *decision)
{
	struct memory_key seen = *key;
	uint64_t until_ns;

	if (!seen.cell)
		seen.cell = memory_near(table, &seen);
	if (__builtin_expect(!engine_try(table, limit, &seen, call, at, decision, &until_ns), 0))
		return engine_apply_slow(table, limit, seen, *call, at, decision);
	return until_ns;
}

/**
 * Lets `next` take over what the keys of `engine` have used, limit by limit,
 * where name, algorithm and period are the same. Call it when `next` is ready,
 * before anybody decides by it; `engine` may be decided by until it is closed,
 * which must be before `next` is.
 */
void engine_succeed(struct weir_engine *engine, struct weir_engine *next);

/**
 * Of decide.c, when a request with a permit was decided: it is held from now on, if it
 * took anything. One that was denied has none, and holds no places of shadow rules.
 */
void permits_hold(struct weir_table *table, struct engine_request *request, struct moment at);
void permits_drop(struct weir_table *table, struct engine_request *request, struct moment at);
/** Instead of engine_decide, for a refund by permit, and what that does for one. */
void permits_refund(struct weir_table *table, const struct engine_request *request,
                    struct moment at, struct weir_decision *decision);

/** What it decides in. */
struct weir_table *engine_table(const struct weir_engine *engine);
/** The limits of an engine, for metrics and listings. */
size_t engine_limit_count(const struct weir_engine *engine);
struct weir_limit *engine_limit_at(const struct weir_engine *engine, size_t index);
/** The limit whose counts these are, or NULL. */
struct weir_limit *engine_limit_of(const struct weir_engine *engine, uint64_t identity);

#endif
