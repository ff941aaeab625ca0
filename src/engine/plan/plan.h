/*
 * plan.h: the steps of a request, and its state.
 *
 * A plan is prepared, from a limit and a key or from attributes by the rules; then it runs. First
 * it peeks at all enforced steps in memory except the last: a plan that one of them refuses
 * touches none. Then it takes, from remote stores first, and in memory from the last step first.
 * If a step is refused after all, the plan gives back what it has taken. No limit ever passes more
 * than it may. Until a plan has given back, it may deny others, by its cost at most.
 *
 * If the order of rules decides, the first refused step denies, or allows if its rule says so. If
 * no step is refused, a rule that answers by itself does so. In both cases the plan takes nothing;
 * otherwise it takes. Shadow rules below the deciding one are not charged.
 *
 * A denial names the first step, in the order of the rules, of those that are refused, and its
 * retry_after_ns is when the request would pass. So a denied plan that does not wait peeks at the
 * steps that it has not asked, and in the end at those whose counts shadow rules have charged.
 *
 * A remote store completes steps later. The steps that a stage has there go as one list for
 * each store, before the stage's steps in memory, which are done at once. A step that its store
 * could not do ends as `on_store_failure` says: allowed, denied, or in memory by the limit's
 * `local`, which the step belongs to from then on.
 *
 * A plan that waits for a key has taken nothing. The owner puts it into the waitlist of that
 * key, sets its position there, and resumes it.
 *
 * A turn puts all plans that it has read through a pipeline (pipeline.h): engine_fetch starts
 * fetching their cells, engine_locate looks which are where they should be, engine_run runs the
 * steps. `fetch` is a pass of its own without other work: a large table costs a walk through the
 * page tables for each cell, and walks overlap only if they follow one another closely.
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

/* One operation on one key of one limit, and how it ended. */
struct plan_step {
	const struct weir_limit *limit;
	const struct rules_rule *rule; /* that asked for it; NULL in direct calls */
	struct store_key key;
	struct slice key_name; /* the caller's, or in its arena */
	union {
		uint64_t until_ns;       /* of the state that it left: what a refund names, if not 0 */
		uint64_t retry_after_ns; /* if it was refused, and its rule is enforced */
		uint64_t total_cost;     /* of plan->only after ECOST: what its limit could never grant */
	};
	bool shadow;
	bool secret : 1;  /* the key is made of what visitors send: its name is not for others */
	bool answered : 1; /* of a remote step: in this attempt its store has answered */
	bool refused : 1; /* in this attempt: `retry_after_ns` */
	bool of_other_server : 1; /* of a refund by permit: another server has given it, and holds it in
	                             memory */
	uint8_t generation : 4; /* of a refund: of the parameters that `until_ns` is of (permits.c) */
	bool allowed;
	bool charged; /* it holds something that can be given back */
	bool remote; /* at a store that completes it later */
	unsigned char reason; /* enum weir_reason */
	unsigned char pass;   /* of PLAN_EXECUTE, in which it is taken: see stage.h */
	uint8_t priority;     /* the rule's, else the caller's */
};

/* The stages of a plan: those from PLAN_ROLL_BACK on give back. Not all in the order of time. */
enum plan_stage {
	PLAN_PREPARED,
	PLAN_PEEK_OWN, /* peeks at the keys of which it is the first, while others wait for another */
	PLAN_PEEK_AWAITED, /* peeks at that other key, for which it is to wait */
	PLAN_PEEK,         /* at all enforced steps in memory, with `by_order` at all */
	PLAN_EXECUTE,
	PLAN_REFUSED,          /* it waits, or is denied */
	PLAN_SHADOW,           /* the steps of shadow rules */
	PLAN_EXPLAIN,          /* before: peeks at the steps that a denied plan has not asked yet */
	PLAN_EXPLAIN_SHADOWED, /* peeks at steps of a denied plan whose counts shadow rules have charged
	                        */
	PLAN_ROLL_BACK,        /* what was taken before a step was refused */
	PLAN_REFUND_SHADOW,    /* gives back what shadow steps hold for a plan that is denied */
	PLAN_REFUND_PERMIT,    /* gives back by permit */
	PLAN_REFUND_ALL,       /* gives back all that it holds */
	PLAN_DONE,
};

struct plan {
	struct plan_step *steps; /* in the order of the rules; of a direct call `only` */
	uint32_t step_count;
	uint32_t tightest;  /* whose decision is the plan's so far, or PLAN_NO_STEP */
	unsigned char op;          /* enum algo_op */
	unsigned char stage;       /* enum plan_stage */
	signed char status;        /* done: 0, or the error of a store, for which it took nothing */
	unsigned char position : 2; /* enum wait_position; WAIT_NEW when it was prepared */
	bool in_order : 1;          /* it may wait, and does not overtake */
	bool wants_permit : 1;      /* see engine_want_permit */
	bool refunds_rest : 1;      /* by permit: all that it covers in memory, else places alone; of a
	                             report: what is judged by it */
	bool passes : 1;            /* no step of the stage was refused so far */
	bool cancelled : 1;
	bool remote : 1;            /* when it was prepared, a step was at a remote store */
	bool claims : 1;            /* by permit: it counts once among all servers, so it is claimed at
	                               context->claims before it is given back in memory */
	bool submitted : 1;         /* the remote steps of the stage are at their stores, or were */
	bool independent : 1;       /* each step is decided by itself, whatever becomes of others; a log
	                          takes in the place of its oldest uses */
	bool explains_all : 1;      /* with all steps it says how each ended, whichever refuses first */
	bool adds_earlier : 1;      /* steps on one count ask for what they would take together */
	bool by_order : 1;          /* of RULES_FIRST: the first step that is refused decides */
	unsigned char feedback : 2; /* a refund: of a step as much as this one of its rule's `feedback`
	                             says, from 1; or 0 for `cost` of each */
	unsigned char
	    execute_passes : 3;     /* the passes of PLAN_EXECUTE that its steps are in: see stage.h */
	bool has_shadow : 1;        /* a step of a shadow rule */
	unsigned char outcome : 2;  /* of engine_report: enum weir_outcome */
	bool cost_exceeds_limit : 1; /* with `by_order`: behind its steps comes a limit that could never
	                      grant its part; if none of them is refused it ends with ECOST */
	unsigned short sender : 10; /* the caller's own number of whoever asks; the engine leaves it alone */
	struct submission *submission; /* its steps at stores that complete them later; or NULL */
	uint64_t cost;
	union {
		uint64_t max_wait_ns; /* as in struct algo_call */
		uint64_t giver;       /* with `claims`: the server that gave the permit */
	};
	union {
		uint64_t waits_at;   /* the hash of the key that it waits for, or waited for last */
		uint64_t latency_ns; /* of engine_report: how long it took, or 0 for as long as it was held */
	};
	struct permit permit; /* acquire: out, what was handed out; refund: which one it is */
	struct plan_step *refused; /* by this one; or it waits for its key; or NULL */
	struct weir_decision
	    *step_decisions; /* NULL, or memory for the decision of each step that counts */
	/* The rule that answers by itself, or NULL: with `by_order` if no step before it is refused.
	 * If preparing ended in ELONG: the rule whose key is too long, or NULL. */
	const struct rules_rule *listed;
	struct plan_step only;
};

#define PLAN_NO_STEP UINT32_MAX

/** Whether the plan takes units, if it is allowed: one of cost 0 only asks. */
static inline bool plan_charges(const struct plan *plan)
{
	return algo_op_consumes(plan->op) && plan->cost > 0;
}

enum engine_state {
	ENGINE_DONE,
	ENGINE_WAITS,     /* it has taken nothing, and is to wait for the key of plan->refused */
	ENGINE_SUBMITTED, /* a store has steps of it: resume it when it is ready, and do not move it */
};

/**
 * Gets each step that counts in a plan to acquire, with `allowed` and `reason` set: for metrics. In a
 * denied plan these are the step that was denied, and all of shadow rules.
 */
typedef void engine_observer(void *context, const struct plan_step *step);

/* Shared by all plans that are decided in one iteration of a loop, or in one call of the library.
 */
struct decision_context {
	struct weir_table *table;
	struct moment at;
	engine_observer *observe; /* or NULL */
	void *owner;              /* passed to the functions here */
	/*
	 * Gets each step that its store could not do, with what happens instead: for metrics. Not
	 * of what could not be given back. Or NULL.
	 */
	void (*failed)(void *context, const struct plan_step *step, enum rules_failure policy);
	/*
	 * Gets each step of a limit that has phases, with what became of the phase: for events and
	 * metrics. Or NULL.
	 */
	void (*phase_changed)(void *context, const struct plan_step *step,
	                      const struct algo_decision *outcome);
	/* Gets what a step of a limit has for its quorum group. Or NULL. */
	void (*notify)(void *context, const struct plan_step *step,
	               const struct algo_notification *notification);
	/* Called by any thread when the stores have completed what a plan waits for. */
	void (*ready)(void *context, struct plan *plan);
	/* Called when the plan has claimed a permit of another server (engine_claimed), or NULL. */
	void (*claimed)(void *context, const struct plan *plan);
	struct store *claims; /* where servers claim each other's permits, or NULL */
	uint64_t giver;       /* by which permits name this server's memory; not 0 */
	struct store_client *const *store_clients; /* of this thread, by the index of their store */
	uint64_t nodes; /* that share the quota of a limit that came along and is local; 0 counts as one */
	struct submit_spares *spares; /* of this thread, or NULL */
};

/* Submissions that plans of one step have left, to be used again: all zero at first. */
struct submit_spares {
	struct submission *first;
	size_t count;
};

/** Frees them. */
void submit_free_spares(struct submit_spares *spares);

/**
 * Prepares a plan of no steps, which is allowed. All of these take op, cost, priority and
 * max_wait_ns from `call`. After ECOST plan->only has the limit, and `dear`: all that the request
 * would charge its key.
 */
void engine_prepare_none(const struct algo_call *call, struct plan *plan);

/** A direct call. 0 or ECOST, ELONG, and errors of weir_table_reserve. */
int engine_prepare_limit(struct weir_table *table, const struct weir_limit *limit,
                         const struct algo_call *call, struct slice key, struct plan *plan);

/* The attributes of a request, to be matched with rules. */
struct engine_attributes {
	const struct weir_attribute *items;
	size_t count;
	size_t key_max;            /* bytes that a key made of them may have */
	const uint64_t *permitted; /* a bit for each limit, by its index: the request may use no other;
	                              or NULL for all */
};

/**
 * By the rules; the steps are in `arena`. 0 or ECOST, ELONG, ENOMEM, EPERM: before anything that
 * depends on a limit or a key, plan->only.limit is one that is not permitted.
 */
int engine_prepare_rules(const struct weir_engine *engine, const struct algo_call *call,
                         const struct engine_attributes *attributes, struct arena *arena,
                         struct plan *plan);

/* A question to each rule that applies, separately. */
struct engine_rule_operation {
	enum algo_op op;
	bool all_or_none;  /* to acquire: of all rules, or of none. Which of them refuse stands in the
	                    * steps
	                    */
	unsigned feedback; /* a refund: see struct plan */
	const struct rules_rule *only; /* of this rule alone, or NULL for all */
};

/**
 * A plan of the limits of all rules that apply, in their order: each step is decided by itself, or
 * with the others where `together` says so, and how it ended stands in it. Where that or `op` is
 * ALGO_PEEK, and all rules are asked, one that answers by itself has a step, too, which is refused.
 * Errors as engine_prepare_rules.
 */
int engine_prepare_rule_operation(const struct weir_engine *engine,
                                  const struct engine_rule_operation *operation,
                                  const struct engine_attributes *attributes, struct arena *arena,
                                  struct plan *plan);

/** The rule of that name, or NULL. */
const struct rules_rule *engine_rule(const struct weir_engine *engine, struct slice name);

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

/**
 * Whether a plan that was prepared has a step at a remote store. Then engine_run may return
 * ENGINE_SUBMITTED, so the plan has to be in memory of its own before: engine_suspend moves it.
 */
static inline bool engine_is_remote(const struct plan *plan)
{
	return plan->remote;
}

/* A step that looks at so many records of a wide state is two units of work. */
#define ENGINE_WORK_RECORDS 128

__attribute__((noinline)) size_t engine_work_slow(const struct plan *plan);
/**
 * How much work it is to run a plan that was prepared, in units. A step is one: about half a
 * microsecond in a server. It is more if the step looks at many records, at most: how many of them
 * a key has is known later.
 */
static inline size_t engine_work(const struct plan *plan)
{
	if (__builtin_expect(plan->step_count == 0 || (plan->step_count == 1 &&
	                                               plan->steps->limit->algo.width < ENGINE_WORK_RECORDS),
	                     1))
		return plan->step_count;
	return engine_work_slow(plan);
}

/** Optional: starts fetching the cells. A plan without steps has none. */
void engine_fetch(const struct weir_table *table, const struct plan *plan);

/** Optional, best some plans after `fetch`: looks for the cells. */
void engine_locate(const struct decision_context *context, struct plan *plan);

/** Whether the decision may be to wait. */
bool engine_may_wait(const struct plan *plan);

/** Whether any request waits for a key. */
bool engine_others_wait(const struct weir_table *table);

/**
 * The last pass: runs a plan that was prepared, in order: it may wait, and does not overtake
 * requests that wait. Fills `decision` when it is done, and when it waits: as the first that
 * waits for its key it would pass after `decision->retry_after_ns`. A refund by a permit that
 * is not held changes nothing, and is not `allowed`.
 */
enum engine_state engine_run(const struct decision_context *context, struct plan *plan,
                             struct weir_decision *decision);

/** The same at once: it never waits, and overtakes requests that do. */
enum engine_state engine_decide(const struct decision_context *context, struct plan *plan,
                                struct weir_decision *decision);

/**
 * Goes on with a plan that is ready, or one that waits: then its `position` says how it stands
 * by now, its `max_wait_ns` how much longer it would wait.
 */
enum engine_state engine_resume(const struct decision_context *context, struct plan *plan,
                                struct weir_decision *decision);

/**
 * Whether other servers also take from the key that a plan waits for. No message says what they
 * give back, so try the plan now and then, even before its retry_after_ns.
 */
bool engine_must_poll(const struct plan *plan);

/** The memory that engine_suspend needs beside the plan's own. */
size_t engine_suspend_size(const struct plan *plan);
/**
 * Copies a plan that waits, or that was prepared, with all that it points to but for what its
 * configuration owns: into `to` and `memory` of engine_suspend_size bytes, aligned for any type.
 * The limit of engine_adhoc_limit is copied, too.
 */
void engine_suspend(const struct weir_table *table, struct plan *to, const struct plan *from,
                    void *memory);
/**
 * Call this before a waiting plan resumes after `now` has taken over from its engine. It forgets
 * the steps whose limits `now` does not have. Returns false if the plan was a direct call of such a
 * limit.
 */
bool engine_adapt(struct plan *plan, const struct weir_engine *now);

/** Ends a plan that waits: makes `decision` a denial. */
enum engine_state engine_deny(const struct decision_context *context, struct plan *plan,
                              enum weir_reason reason, struct weir_decision *decision);

/**
 * Cancels a plan in any state, because its client has left or its answer can't be given. Gives
 * back what it has taken, the newest first, and voids its permit. A plan that is at a store must
 * still be resumed when it is ready.
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
 * How many steps of the plan have taken something; `taken` (or NULL) holds as many. For
 * plans in memory; a remote plan is stored whole, and engine_cancel gives back.
 */
size_t engine_charges(const struct plan *plan, struct engine_charge *taken);
/** Gives it back where it came from, by the limits of `engine`, which may no longer have it. */
void engine_refund_charge(const struct decision_context *context, const struct weir_engine *engine,
                          const struct engine_charge *taken);

/** Whether a limit wants reports: then the request needs a permit. */
bool engine_is_reported(const struct plan *plan);
/**
 * Asks for a permit for a prepared plan that acquires, if it takes anything. 0, or ELONG: the
 * plan has more steps than a permit covers.
 */
int engine_want_permit(struct plan *plan);

/* So far may the clocks of servers and of their stores be apart. */
#define PERMITS_CLOCKS_NS (3600 * NS_PER_S)

/*
 * The names of the keys that permits are of, charge by charge, where a remote store has to be
 * sent what to give back. Where data is NULL the key's hash is enough.
 */
struct engine_names {
	struct slice of[WEIR_PERMITS_MAX];
	/* context->giver where servers share permits: then charges that are reported have names, too.
	 * 0: they share none. */
	uint64_t giver;
};

/**
 * The charges of a decided plan, by its permit; without a permit all is 0. `names` (or NULL)
 * live as long as the plan's.
 */
void engine_permits(const struct plan *plan, struct weir_permits *permits,
                    struct engine_names *names);
/** For context->claimed: the same of the charges that the giver holds in memory, by their names. */
void engine_claimed(const struct plan *plan, struct weir_permits *permits,
                    struct engine_names *names);
/** The generation of the parameters by which a step in memory took; 0 if its limit has none. */
uint8_t engine_generation(const struct plan_step *step);

/* The one of a single key, as the public calls return it; `id` is 0 if nothing was taken. */
static inline struct weir_permit engine_permit_of(uint64_t id, uint64_t until_ns, uint64_t cost)
{
	return id != 0 ? (struct weir_permit){id, until_ns, cost, 0} : (struct weir_permit){0};
}
/**
 * A refund of what they cover. What was taken from limits that are no more is left out, and
 * from remote ones where `names` (or NULL for no names) have no name.
 * 0, EINVAL (more charges than there can be) or ENOMEM.
 */
int engine_prepare_permits(const struct weir_engine *engine, const struct weir_permits *permits,
                           const struct engine_names *names, struct arena *arena,
                           struct plan *plan);

/**
 * Instead of engine_run, for a refund by permit: the work has ended, as plan->outcome and
 * plan->latency_ns say. `decision->allowed` says whether the permit was held: its places are not
 * any more, and limits that judge by outcomes have counted it.
 */
enum engine_state engine_report(const struct decision_context *context, struct plan *plan,
                                struct weir_decision *decision);

/**
 * Instead of engine_run and engine_report, for permits of engine_claimed at their giver. What they
 * cover in memory ends; with `reports` another server has counted the outcome.
 */
void engine_settle(const struct decision_context *context, struct plan *plan, bool reports);

/**
 * Instead of engine_run, for a reset of a bucket's key in memory by a direct call: whether there
 * was anything to forget. If two calls forget a key at once, one of them says so.
 */
bool engine_forget(const struct decision_context *context, const struct plan *plan);

/**
 * Forces a key into a phase until then, or for ever if that is 0, or ends the force. Errors: EINVAL
 * (the limit has no phases, or there is no such force), ERANGE (until_ns is over), EFULL (the table
 * has no room for the key), and those of engine_prepare_limit.
 */
int engine_force(const struct decision_context *context, const struct weir_limit *limit,
                 struct slice key, enum weir_force force, uint64_t until_ns);
/**
 * Does what a quorum group says of a key (ALGO_GROUP_OPEN and on), by its hash. Returns false if
 * an operator has forced it, or if there is no room.
 */
bool engine_follow_group(const struct decision_context *context, const struct weir_limit *limit,
                         uint64_t hash, const struct algo_call *call);
/** Looks at a key, by its hash: its phase (algo/outcomes/breaker_state.h), and the turns that were
 * due. */
void engine_view(const struct decision_context *context, const struct weir_limit *limit,
                 uint64_t hash, struct algo_decision *outcome);

#endif
