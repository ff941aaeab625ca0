/*
 * plan.h: a plan runs the operation of one request on several keys and limits, all or nothing.
 *
 * A plan has a step for each key and limit. It is prepared from a limit and a key, or by the rules
 * from attributes; then it runs in stages (enum plan_stage). First it peeks at all enforced steps
 * in memory except the last, so that a plan which one of them refuses charges none. (At such a peek
 * a limit that sheds a share of requests draws, and one that stores denials stores it: see
 * algo_call.counts_denial.) Then it executes: remote steps first, then the steps in memory, the
 * last one first. If a step is refused after all, the plan rolls back its charges. No limit ever
 * grants more than its quota; but until the roll-back is done, the charges may deny other requests.
 *
 * If the order of rules decides (`first_refusal_decides`), the first refused step denies, or allows
 * if its rule says so. If no step is refused, a rule that answers without limits decides. In both
 * cases the plan charges nothing, and shadow rules below the deciding rule are not charged.
 *
 * A denial names the first refused step in the order of the rules, and its retry_after_ns is the
 * time after which the request would pass. Therefore a denied plan that does not wait peeks at the
 * steps that it did not run, and at last at those whose counts shadow rules have charged.
 *
 * A remote store completes steps later. The remote steps of a stage are submitted as one list for
 * each store, before the stage's steps in memory run. If a store fails, `on_store_failure` decides:
 * the step is allowed, or denied, or moves to the limit's `local` in memory and stays there.
 *
 * A plan that waits for a key has no charges. Its owner puts it into the waitlist of that key, sets
 * its `queue_position` there, and resumes it.
 *
 * All plans of one iteration of a loop pass through a pipeline (pipeline.h): engine_fetch starts
 * fetching their cells, engine_locate finds the cells that are in their sets, engine_run runs the
 * steps. `fetch` is a pass of its own, without other work: in a large table each cell costs a walk
 * through the page tables, and the processor overlaps these walks only if they follow closely.
 */
#ifndef ENGINE_PLAN_PLAN_H
#define ENGINE_PLAN_PLAN_H

#include <weir/engine.h>

#include "algo/algo.h"
#include "base/arena.h"
#include "base/slice.h"
#include "base/time/clock.h"
#include "engine/limit.h"
#include "engine/table.h"
#include "rules/model.h"
#include "store/permit.h"
#include "wait/patience.h"

/* One operation on one key of one limit, and its result. */
struct plan_step {
	const struct weir_limit *limit;
	const struct rules_rule *rule; /* the rule that the step belongs to; NULL in direct calls */
	struct store_key key;
	struct slice key_name; /* in the caller's memory, or in the plan's arena */
	union {
		uint64_t charge_ends_ns; /* end of the state after the step, by which a refund finds the
		                            charge; 0 if there is nothing to refund */
		uint64_t retry_after_ns; /* if the step was refused */
		uint64_t
		    total_cost; /* of plan->direct_step after ECOST: the sum that its limit never grants */
	};
	bool shadow;
	bool key_is_secret : 1; /* the key is made of visitors' data, so no listing may show its name */
	bool store_answered : 1;          /* the step's remote store has answered in this attempt */
	bool refused : 1;                 /* refused in this attempt; `retry_after_ns` is set */
	bool granted_by_other_server : 1; /* of a refund by permit: another server granted the charge
	                             and has it in its memory */
	uint8_t generation : 4; /* of a refund: of the parameters that `charge_ends_ns` belongs to
	                           (permits.c) */
	bool allowed;
	bool charged;         /* the step holds a charge that can be refunded */
	bool remote;          /* its store completes it later */
	unsigned char reason; /* enum weir_reason */
	unsigned char pass;   /* the pass of PLAN_EXECUTE that runs the step, see stage.h */
	uint8_t priority;     /* the rule's, or the caller's if the rule has none */
};

/*
 * The stages of a plan. From PLAN_ROLL_BACK on they refund. The order is not that of time:
 * decide.c (next_stage) says which stage follows which.
 */
enum plan_stage {
	PLAN_PREPARED,
	PLAN_PEEK_WHERE_FIRST, /* other requests wait for one of its keys: peeks at the keys whose queue
	                  the plan heads */
	PLAN_PEEK_AWAITED, /* then peeks at the key that the others wait for, as it is to wait there too
	                    */
	PLAN_PEEK_OTHERS,  /* before it waits: peeks at other steps that may deny it for good */
	PLAN_PEEK, /* peeks at all enforced steps in memory; with `first_refusal_decides` at all steps
	            */
	PLAN_EXECUTE, /* runs the operation on the enforced steps */
	PLAN_REFUSED, /* decides whether the plan waits or is denied */
	PLAN_SHADOW,  /* runs the operation on the steps of shadow rules */
	PLAN_EXPLAIN, /* before PLAN_SHADOW: peeks at the steps that a denied plan did not run */
	PLAN_EXPLAIN_SHADOWED, /* after it: peeks at steps whose counts shadow rules have charged */
	PLAN_ROLL_BACK,        /* refunds the charges that were made before a step was refused */
	PLAN_REFUND_SHADOW,    /* refunds the charges of shadow steps that last as long as a request */
	PLAN_REFUND_PERMIT,    /* refunds the charges that a permit covers */
	PLAN_REFUND_ALL,       /* refunds all charges of a plan that was cancelled or has failed */
	PLAN_DONE,
};

struct plan {
	struct plan_step *steps; /* in the order of the rules; of a direct call `direct_step` */
	uint32_t step_count;
	uint32_t tightest;   /* the step whose decision is the plan's so far, or PLAN_NO_STEP */
	unsigned char op;    /* enum algo_op */
	unsigned char stage; /* enum plan_stage */
	signed char status;  /* when done: 0, or the error of a store, after which it has no charges */
	/* enum wait_position; WAIT_NEW when it was prepared */
	unsigned char queue_position : 3;
	/* it may wait, and does not overtake requests that wait */
	bool respects_queue : 1;
	/* see engine_want_permit */
	bool wants_permit : 1;
	/* by permit: refunds every charge in memory, not only the entries of concurrency limits; in a
	 * report: the limits that judge count it */
	bool permit_is_valid : 1;
	/* no step of the stage was refused so far */
	bool none_refused : 1;
	bool cancelled : 1;
	/* a step was at a remote store when the plan was prepared */
	bool has_remote_steps : 1;
	/* by permit: only one of all servers may refund it, so it is claimed at context->claim_store
	 * before its charges in memory are refunded */
	bool needs_claim : 1;
	/* the stage's remote steps have been submitted */
	bool submitted : 1;
	/* a refused step does not stop the others; a log that is full replaces its oldest uses */
	bool steps_are_independent : 1;
	/* step_decisions gets the result of every step, also of those behind a refused one */
	bool decides_every_step : 1;
	/* a step's peek asks for the charges of earlier steps on its key, too */
	bool peek_adds_earlier_charges : 1;
	/* as with RULES_FIRST, the first refused step decides */
	bool first_refusal_decides : 1;
	/* PLAN_PEEK_OTHERS has run in this attempt */
	bool asked_others : 1;
	/* of a refund: the cost of a step is rule->feedback[feedback - 1]; 0 for plan->cost */
	unsigned char feedback : 2;
	/* set of the passes that the steps are in, see stage.h */
	unsigned char execute_passes : 3;
	/* a step belongs to a shadow rule */
	bool has_shadow : 1;
	/* of engine_report: enum weir_outcome */
	unsigned char outcome : 2;
	/* with `first_refusal_decides`: a limit behind the steps could never grant its cost. The plan
	 * ends with ECOST if none of its steps is refused */
	bool cost_exceeds_limit : 1;
	/* `attributes` is set, in place of `direct_step` */
	bool has_attributes : 1;
	/* the caller's own number of the sender; the engine does not use it */
	unsigned short sender : 10;
	struct submission *submission; /* its steps at remote stores, or NULL */
	uint64_t cost;
	union {
		uint64_t max_wait_ns;     /* as in struct algo_call */
		uint64_t granting_server; /* with `needs_claim`: the server that granted the permit */
	};
	union {
		uint64_t awaited_key_hash; /* hash of the key that it waits for, or waited for last */
		uint64_t latency_ns;       /* of engine_report: the latency, or 0 for the permit's age */
	};
	/* acquire: the permit that it gets; refund: the permit that is refunded */
	struct permit permit;
	/* the step that denies the plan or that it waits for, or NULL */
	struct plan_step *refused_step;
	struct weir_decision *step_decisions; /* memory for the decision of each step, or NULL */
	/*
	 * The rule that answers without limits, or NULL; with `first_refusal_decides` only if no step
	 * before it is refused. After ELONG: the rule whose key is too long.
	 */
	const struct rules_rule *answering_rule;
	union {
		struct plan_step direct_step; /* the step of a direct call */
		/* by which rules were found; the caller's own, the engine does not use them */
		struct plan_attributes {
			const struct weir_attribute *items;
			size_t count;
		} attributes;
	};
};

#define PLAN_NO_STEP UINT32_MAX

/** Whether the plan charges units if it is allowed. An acquire of cost 0 does not. */
static inline bool plan_charges(const struct plan *plan)
{
	return algo_op_consumes(plan->op) && plan->cost > 0;
}

enum engine_state {
	ENGINE_DONE,
	ENGINE_WAITS,     /* it has no charges; put it into the waitlist of plan->refused_step's key */
	ENGINE_SUBMITTED, /* a store has steps of it: do not move it, resume it when it is ready */
};

/**
 * Called for metrics with steps of a plan to acquire, whose `allowed` and `reason` are set. If the
 * plan passed, these are all its steps; otherwise the step that denies it and those of shadow
 * rules.
 */
typedef void engine_observer(void *context, const struct plan *plan, const struct plan_step *step);

/* Shared by all plans that are decided in one iteration of a loop, or in one call of the library.
 */
struct decision_context {
	struct weir_table *table;
	struct moment at;
	engine_observer *observe; /* or NULL */
	void *owner;              /* passed to the functions here */
	/*
	 * Called for metrics with each step whose store failed, and the policy that applies instead,
	 * but not with a refund that failed. Or NULL.
	 */
	void (*store_failed)(void *context, const struct plan_step *step, enum rules_failure policy);
	/*
	 * Called with each step of a limit that has phases (a breaker's closed, open, half-open), for
	 * events and metrics: `outcome` has the phase changes. Or NULL.
	 */
	void (*breaker_ran)(void *context, const struct plan_step *step,
	                    const struct algo_decision *outcome);
	/* Called with the notification of a step for its limit's quorum group. Or NULL. */
	void (*notify)(void *context, const struct plan_step *step,
	               const struct algo_notification *notification);
	/* Called by any thread when the stores have completed the submitted steps of a plan. */
	void (*plan_ready)(void *context, struct plan *plan);
	/* Called when the plan has claimed a permit of another server (engine_fill_claimed_permits), or
	 * NULL. */
	void (*permit_claimed)(void *context, const struct plan *plan);
	struct store *claim_store; /* where servers claim each other's permits, or NULL */
	uint64_t own_server;       /* this server's number in the permits that it grants; not 0 */
	struct store_client *const *store_clients; /* of this thread, by the index of their store */
	/* How many servers share the quota of a limit that came along and is local; 0 counts as one. */
	uint64_t nodes;
	struct submit_spares *spares; /* of this thread, or NULL */
};

/* A free list of submissions for plans of one step. All zero at first. */
struct submit_spares {
	struct submission *first;
	size_t count;
};

/** Frees the submissions. */
void submit_free_spares(struct submit_spares *spares);

/**
 * Prepares a plan of no steps, which is allowed. The functions that prepare plans copy op, cost,
 * priority and max_wait_ns from `call`. After ECOST plan->direct_step has the limit, and in
 * total_cost the sum that the request would charge its key.
 */
void engine_prepare_empty(const struct algo_call *call, struct plan *plan);

/** Prepares a direct call. Returns 0, ECOST, ELONG, or an error of weir_table_reserve. */
int engine_prepare_limit(struct weir_table *table, const struct weir_limit *limit,
                         const struct algo_call *call, struct slice key, struct plan *plan);

/* The attributes of a request, to be matched with rules. */
struct engine_attributes {
	const struct weir_attribute *items;
	size_t count;
	size_t key_max;            /* largest size of a key made of them, in bytes */
	const uint64_t *permitted; /* a bit for each limit that the request may use, by its index; or
	                              NULL for all */
};

/**
 * Prepares a plan by the rules that apply; its steps are in `arena`. Returns 0, ECOST, ELONG,
 * ENOMEM or EPERM. EPERM comes before any error that depends on a limit or a key;
 * plan->direct_step.limit is then the limit that is not permitted.
 */
int engine_prepare_rules(const struct weir_engine *engine, const struct algo_call *call,
                         const struct engine_attributes *attributes, struct arena *arena,
                         struct plan *plan);

/* An operation on the limits of each rule that applies, with a result for each step. */
struct engine_rule_operation {
	enum algo_op op;
	bool all_or_none;                   /* false: each step is decided by itself */
	unsigned feedback;                  /* of a refund, see struct plan */
	const struct rules_rule *only_rule; /* the rule whose limits are used, or NULL for all rules */
};

/**
 * Prepares a plan with a step for each limit of the rules that apply, in their order; the result of
 * each stands in the step. A rule that answers without limits has a refused step, if `only_rule` is
 * NULL and the plan peeks or has `all_or_none`. Errors as engine_prepare_rules.
 */
int engine_prepare_rule_operation(const struct weir_engine *engine,
                                  const struct engine_rule_operation *operation,
                                  const struct engine_attributes *attributes, struct arena *arena,
                                  struct plan *plan);

/** Returns the rule of that name, or NULL. */
const struct rules_rule *engine_rule(const struct weir_engine *engine, struct slice name);

/** Returns the engine's number of an attribute that a rule uses, or -1. */
int engine_attribute(const struct weir_engine *engine, struct slice name);

/* Values of attributes whose numbers (engine_attribute) the caller has looked up before. */
struct engine_values {
	const int *numbers;        /* of the attributes, each once; -1 is skipped */
	const struct slice *items; /* the values; one whose data is NULL is absent */
	size_t count;
};

/** As engine_prepare_rules, for such values. */
int engine_prepare_values(const struct weir_engine *engine, const struct algo_call *call,
                          const struct engine_values *values, struct arena *arena,
                          struct plan *plan);

/**
 * Whether a prepared plan has a step at a remote store. Then engine_run may return
 * ENGINE_SUBMITTED, so the plan must first move to memory of its own (engine_suspend).
 */
static inline bool engine_is_remote(const struct plan *plan)
{
	return plan->has_remote_steps;
}

/* So many records of a wide state add a unit to a step's work. */
#define ENGINE_WORK_RECORDS 128

__attribute__((noinline)) size_t engine_work_slow(const struct plan *plan);
/**
 * Returns the work of running a prepared plan, in units of a step (half a microsecond in a server).
 * The records of a wide state count as if the state were full: only the run finds how many there
 * are.
 */
static inline size_t engine_work(const struct plan *plan)
{
	if (__builtin_expect(
	        plan->step_count == 0 ||
	            (plan->step_count == 1 && plan->steps->limit->algo.width < ENGINE_WORK_RECORDS),
	        1))
		return plan->step_count;
	return engine_work_slow(plan);
}

/** Optional: starts fetching the steps' cells into the processor's cache. */
void engine_fetch(const struct weir_table *table, const struct plan *plan);

/**
 * Optional: finds the steps' cells. Call it some plans after `fetch`, when they are in the cache.
 */
void engine_locate(const struct decision_context *context, struct plan *plan);

/** Whether the decision may be to wait. */
bool engine_may_wait(const struct plan *plan);

/**
 * Runs a prepared plan in order: it may wait, and does not overtake requests that wait. Fills
 * `decision` when it is done, and when it waits: then it would pass after
 * `decision->retry_after_ns` if no other request waited before it. A refund by a permit that is not
 * outstanding changes nothing, and is not `allowed`.
 */
enum engine_state engine_run(const struct decision_context *context, struct plan *plan,
                             struct weir_decision *decision);

/** As engine_run, but never waits, and overtakes requests that do. */
enum engine_state engine_decide(const struct decision_context *context, struct plan *plan,
                                struct weir_decision *decision);

/**
 * Continues a plan whose stores have completed its steps, or tries a waiting plan again: the caller
 * has set its `queue_position`, and `max_wait_ns` to the time that it may still wait.
 */
enum engine_state engine_resume(const struct decision_context *context, struct plan *plan,
                                struct weir_decision *decision);

/**
 * Whether other servers charge the key that a plan waits for. They send no message about refunds,
 * so try the plan periodically, even before its retry_after_ns.
 */
bool engine_must_poll(const struct plan *plan);

/** Returns the size of the `memory` that engine_suspend needs. */
size_t engine_suspend_size(const struct plan *plan);
/**
 * Copies a plan that waits or was prepared into `to`, and the data that it points to into `memory`
 * (engine_suspend_size bytes, aligned for any type). The copy still points to data of its
 * configuration. A limit of limit_init_adhoc is copied, too.
 */
void engine_suspend(const struct weir_table *table, struct plan *to, const struct plan *from,
                    void *memory);
/**
 * Moves each step to the limit of the same name in `new_engine`, and removes the steps whose limits
 * it does not have. Call it before a waiting plan resumes after a reload, in which `new_engine`
 * replaced its engine. The plan still points to its rules, so both engines must outlive it. Returns
 * false if the limit of a direct call is gone.
 */
bool engine_move_waiting(struct plan *plan, const struct weir_engine *new_engine);

/** Ends the wait of a plan: `decision` becomes a denial for `reason`. */
enum engine_state engine_deny(const struct decision_context *context, struct plan *plan,
                              enum weir_reason reason, struct weir_decision *decision);

/**
 * Cancels a plan in any state, for example because its client has disconnected. Refunds its
 * charges, the newest first, and voids its permit. A plan with steps at a store must still be
 * resumed when it is ready.
 */
enum engine_state engine_cancel(const struct decision_context *context, struct plan *plan);

/* A step's charge: a reload frees nothing in it. */
struct engine_charge {
	struct weir_charge charge;
	uint8_t generation; /* as in struct plan_step */
	uint64_t cost;
	uint64_t permit; /* the permit's id, or 0 */
};

/**
 * Returns how many steps have charges; `charges` gets these, if it is not NULL. For plans in
 * memory: a remote plan is suspended as a whole instead, and engine_cancel refunds it.
 */
size_t engine_list_charges(const struct plan *plan, struct engine_charge *charges);
/** Refunds a charge, if `engine` still has its limit. */
void engine_refund_charge(const struct decision_context *context, const struct weir_engine *engine,
                          const struct engine_charge *charged);

/** Whether a limit of the plan needs a report when the request ends, and therefore a permit. */
bool engine_is_reported(const struct plan *plan);
/**
 * Lets a prepared plan that charges units draw a permit. Returns 0, or ELONG if the plan has more
 * steps than a permit covers.
 */
int engine_want_permit(struct plan *plan);

/* The largest difference between the clocks of servers and stores that refunds allow for. */
#define PERMITS_CLOCKS_NS (3600 * NS_PER_S)

/*
 * The names of the keys of a permit's charges: a remote store needs the name of the key to refund.
 * The data of a name is NULL where the hash of the key is enough.
 */
struct engine_names {
	struct slice key_names[WEIR_PERMITS_MAX];
	/*
	 * context->own_server where servers share permits: then charges that are reported have names,
	 * too. Or 0.
	 */
	uint64_t own_server;
};

/**
 * Fills `permits` with the charges of a decided plan, or zeros if it has no permit. `names`, if it
 * is not NULL, gets names that live as long as the plan's.
 */
void engine_fill_permits(const struct plan *plan, struct weir_permits *permits,
                         struct engine_names *names);
/**
 * For context->permit_claimed: fills them with the charges in the memory of the server that granted
 * them.
 */
void engine_fill_claimed_permits(const struct plan *plan, struct weir_permits *permits,
                                 struct engine_names *names);
/** Returns the generation of the parameters of a charge in memory; 0 if its limit has none. */
uint8_t engine_generation(const struct plan_step *step);

/* Makes the permit that the public calls return for one key; `id` is 0 if there is no charge. */
static inline struct weir_permit engine_permit_of(uint64_t id, uint64_t until_ns, uint64_t cost)
{
	return id != 0 ? (struct weir_permit){id, until_ns, cost, 0} : (struct weir_permit){0};
}
/**
 * Prepares a refund of the charges of `permits`. It leaves out charges of limits that the engine
 * does not have, and remote charges without a name; `names` may be NULL. Returns 0, EINVAL (too
 * many charges) or ENOMEM.
 */
int engine_prepare_permits(const struct weir_engine *engine, const struct weir_permits *permits,
                           const struct engine_names *names, struct arena *arena,
                           struct plan *plan);

/**
 * Runs a refund by permit as a report: the request has ended with plan->outcome after
 * plan->latency_ns. Releases the entries of concurrency limits, and limits that judge outcomes
 * count it. `decision->allowed` says whether the permit was outstanding.
 */
enum engine_state engine_report(const struct decision_context *context, struct plan *plan,
                                struct weir_decision *decision);

/**
 * Runs a refund of permits that another server has claimed (engine_fill_claimed_permits), at the
 * server that granted them: their charges in memory end. With `reports` the other server has
 * counted the outcome.
 */
void engine_settle(const struct decision_context *context, struct plan *plan, bool reports);

/**
 * Runs a direct call that resets a bucket's key in memory. Returns whether the key had a state. If
 * two calls reset one key at the same time, one of them returns true.
 */
bool engine_forget(const struct decision_context *context, const struct plan *plan);

/**
 * Forces a key into a phase until until_ns, without end if that is 0, or ends the force. Errors:
 * EINVAL (the limit has no phases, or no such force), ERANGE (until_ns is past), EFULL (the table
 * has no space for the key), and those of engine_prepare_limit.
 */
int engine_force(const struct decision_context *context, const struct weir_limit *limit,
                 struct slice key, enum weir_force force, uint64_t until_ns);
/** The same for a key whose name need not be known, by its hash. */
int engine_force_hash(const struct decision_context *context, const struct weir_limit *limit,
                      uint64_t hash, enum weir_force force, uint64_t until_ns);
/**
 * Changes the key of a direct call at this memory to the one with this hash, whose name is not
 * known. Errors: those of weir_table_reserve.
 */
int engine_set_direct_hash(struct weir_table *table, uint64_t hash, struct plan *plan);
/**
 * Applies a quorum group's operation (ALGO_GROUP_OPEN and those after it) to a key, by its hash.
 * Returns false if an operator has forced the key's phase, or if the table is full.
 */
bool engine_apply_group_operation(const struct decision_context *context,
                                  const struct weir_limit *limit, uint64_t hash,
                                  const struct algo_call *call);
/**
 * Reads the phase of a key (algo/outcomes/breaker_state.h), by its hash, after the changes that
 * were due.
 */
void engine_view(const struct decision_context *context, const struct weir_limit *limit,
                 uint64_t hash, struct algo_decision *outcome);
/** Whether anything may be counted for the key of a direct call; false only if nothing is. */
bool engine_has_use(const struct decision_context *context, const struct plan *plan);

#endif
