/*
 * plan.h: the steps of a request, and where it stands.
 *
 * A plan is prepared from a limit and a key, or from attributes by the rules; then it is
 * decided. Over all plans that a turn has read go three passes: `fetch` starts fetching
 * their cells, `locate` looks which are where they should be, `decide` runs the steps.
 *
 * `fetch` is a pass of its own, with nothing between one and the next: a large
 * table costs a walk through the page tables for each cell, and walks overlap
 * only where the next one is near.
 */
#ifndef ENGINE_PLAN_H
#define ENGINE_PLAN_H

#include <weir/weir.h>

#include "algo/algo.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/slice.h"
#include "engine/limit.h"
#include "store/memory.h"
#include "store/permit.h"
#include "wait/patience.h"

/* One operation on one key of one limit, the rule that asked for it, and how it ended. */
struct step {
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

struct plan {
	enum algo_op op;
	uint64_t cost;
	uint64_t max_wait_ns; /* as in struct algo_call; 0 when it was prepared */
	enum wait_position position; /* WAIT_NEW when it was prepared */
	uint64_t waits_at;     /* the hash of that key, but for WAIT_NEW */
	struct step direct;    /* of a direct call; else its limit is NULL, and: */
	struct step *steps;    /* in the order of the rules */
	size_t step_count;
	size_t enforced_count; /* of them not shadow */
	struct permit permit;  /* acquire: out, what was handed out; refund: which one it is */
	bool wants_permit;     /* see engine_want_permit */
	struct weir_decision *each; /* NULL, or memory for the decision of each step that counts */
	const char *listed_rule; /* the rule that answers by itself, or NULL */
	const char *listed_result;
	bool listed_allowed;
};

/**
 * Told of each step that counts in a plan to acquire, with `allowed` and `reason` set: for
 * metrics. Of a denied plan that is the step that was denied, and all of shadow rules.
 */
typedef void engine_observer(void *context, const struct step *step);

/* The same for all that is decided in a turn. */
struct turn {
	struct weir_table *table;
	struct moment at;
	engine_observer *observe; /* or NULL */
	void *context;            /* of `observe` */
};

/** A direct call, of which `call` gives op and cost. 0 or ECOST, ELONG, and errors of
 * weir_table_reserve. */
int engine_prepare_limit(struct weir_table *table, const struct weir_limit *limit,
                         const struct algo_call *call, struct slice key, struct plan *plan);

/* What a request brings to be matched with rules. */
struct engine_attributes {
	const struct weir_attribute *items;
	size_t count;
	size_t key_max; /* bytes that a key made of them may have */
};

/** By the rules; the steps are in `arena`. 0 or ECOST, ELONG, ENOMEM. */
int engine_prepare_rules(const struct weir_engine *engine, const struct algo_call *call,
                         const struct engine_attributes *attributes, struct arena *arena,
                         struct plan *plan);

/** The number of an attribute that a rule asks for, which lives as long as the engine; or -1. */
int engine_attribute(const struct weir_engine *engine, struct slice name);

/* Values whose attributes come in one order always. */
struct engine_values {
	const int *numbers; /* of the attributes, each once; those of -1 are passed over */
	const struct slice *items; /* a value whose data is NULL is absent */
	size_t count;
};

/** engine_prepare_rules for such values. */
int engine_prepare_values(const struct weir_engine *engine, const struct algo_call *call,
                          const struct engine_values *values, struct arena *arena,
                          struct plan *plan);

/** Optional: starts fetching the cells. A plan without steps has none. */
void engine_fetch(const struct weir_table *table, const struct plan *plan);

/** Optional, best some plans after `fetch`: looks for the cells. */
void engine_locate(const struct turn *turn, struct plan *plan);

/** Whether the decision may be to wait. */
bool engine_may_wait(const struct plan *plan);

/**
 * The last pass. A refund of a permit that is not held changes nothing, and is not
 * `allowed`.
 */
void engine_decide(const struct turn *turn, struct plan *plan, struct weir_decision *decision);

/** Whether any request waits for a key. */
bool engine_others_wait(const struct weir_table *table);

/**
 * engine_decide where a request may wait: this one, or others, which it does not
 * overtake. NULL when it is decided. Else nothing was taken or observed, and it is to
 * wait for the key of the step that is returned; as the first of the requests that wait
 * for that key it would pass after `decision->retry_after_ns`.
 */
struct step *engine_decide_in_order(const struct turn *turn, struct plan *plan,
                                    struct weir_decision *decision);

/** Instead of waiting for the key of that step: makes `decision` a denial. */
void engine_deny(const struct turn *turn, struct plan *plan, struct step *step,
                 enum weir_reason reason, struct weir_decision *decision);

/* All steps alike, whether it is a direct call's one or those of the rules. */
static inline size_t plan_step_count(const struct plan *plan)
{
	return plan->direct.limit ? 1 : plan->step_count;
}

static inline struct step *plan_step_at(const struct plan *plan, size_t i)
{
	return plan->direct.limit ? (struct step *)&plan->direct : &plan->steps[i];
}

/* What a step took: nothing in it is freed by a reload. */
struct engine_taken {
	struct weir_charge charge;
	uint64_t cost;
	uint64_t permit; /* the permit's id; 0: none */
};

/**
 * Of a plan that was allowed. Nothing is taken of a limit that keeps no state. What shadow
 * rules take is not given back, but for places: a request holds these until it ends.
 */
static inline bool engine_has_taken(const struct step *step)
{
	return step->until_ns != 0 && (!step->shadow || algo_holds_places(&step->limit->algo));
}

/** How many steps of the plan, allowed, have taken something; `taken` (or NULL) holds as many. */
size_t engine_taken(const struct plan *plan, struct engine_taken *taken);
/** Gives it back where it came from, by the limits of `engine`, which may no longer have it. */
void engine_give_back(const struct turn *turn, const struct weir_engine *engine,
                      const struct engine_taken *taken);

/** At once, for a plan that was allowed and whose answer cannot be given; its permit is void. */
void engine_undo(const struct turn *turn, struct plan *plan);

/** Whether it would hold places until it ends: then only a permit can tell that it has. */
bool engine_holds_places(const struct plan *plan);
/**
 * Of a plan that was prepared: one that acquires shall get a permit, if it takes
 * anything. 0, or ELONG: it has more steps than a permit covers.
 */
int engine_want_permit(struct plan *plan);
/** What a plan that was decided took, by its permit; without one all is 0. */
void engine_permits(const struct plan *plan, struct weir_permits *permits);

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
                           struct arena *arena, struct plan *plan);

/**
 * Instead of engine_decide, for a refund by permit: the work has ended. Whether it was
 * held: its places are not any more.
 */
bool engine_report(const struct turn *turn, const struct plan *plan);

/**
 * Instead of engine_decide, for a reset of a bucket's key by a direct call: whether there
 * was anything to forget. Of two at once one says so.
 */
bool engine_forget(const struct turn *turn, const struct plan *plan);

/**
 * Of decide.c, when a plan with a permit was decided: it is held from now on, if the plan
 * took anything. A plan that was denied has none, and holds no places of shadow rules.
 */
void permits_hold(const struct turn *turn, struct plan *plan);
void permits_drop(const struct turn *turn, struct plan *plan);
/** Instead of engine_decide, for a refund by permit, and what that does for one. */
void permits_refund(const struct turn *turn, const struct plan *plan,
                    struct weir_decision *decision);

#endif
