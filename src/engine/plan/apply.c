/*
 * apply.c: runs one step of a plan (an operation on one key of one limit) on the states in a
 * table's memory, and turns its outcome into a decision.
 *
 * The functions that return a uint64_t return the time at which the key's state ends after the
 * step, or 0 if the step changed nothing that could be refunded. The others are for single calls:
 * an operator forces or resets a key, or the servers that decide a breaker together change it.
 */
#include "engine/plan/apply.h"
#include "wait/waitlist.h"

/* Runs the steps that the inline function engine_apply (apply.h) leaves over. */
__attribute__((flatten)) uint64_t engine_apply_slow(const struct weir_limit *limit,
                                                    const struct store_step *step,
                                                    struct weir_decision *decision)
{
	/* After a reload another limit may have replaced that of the step. */
	const struct algo_limit *decided_by = algo_current(step->limit);
	struct algo_decision outcome;
	uint64_t state_ends_ns;

	if (decided_by->algorithm->draws) { /* it decides by a random draw, without a state */
		struct algo_call call = step->call;

		limit_draw(limit, &call, step->at, decision);
		return 0;
	}
	state_ends_ns = store_run(step, &decided_by, &outcome);
	limit_fill_decision(limit, decided_by, &outcome, decision);
	return state_ends_ns;
}

/*
 * Acquires from a sliding window, if the fast path can. Returns 0 if it has done nothing. Not
 * inlined: then the outcome of a log has no address (docs/design/speed-library.md).
 */
__attribute__((noinline)) static uint64_t try_sliding_window(const struct weir_limit *limit,
                                                             const struct store_key *key,
                                                             uint64_t cost, uint64_t now_ns,
                                                             struct weir_decision *decision)
{
	struct algo_decision outcome;
	uint64_t state_ends_ns;

	if (!store_try_open(&limit->algo, key, cost, now_ns, &outcome, &state_ends_ns))
		return 0;
	limit_fill_decision(limit, &limit->algo, &outcome, decision);
	return state_ends_ns;
}

/* A wide state is one that does not fit in the key's 16-byte cell: that is only its header. */
uint64_t engine_try_wide(const struct weir_limit *limit, struct store_key key, uint64_t cost,
                         uint64_t now_ns, struct weir_decision *decision)
{
	struct algo_decision outcome;
	uint64_t state_ends_ns;

	if (limit->algo.header_has_sum)
		return try_sliding_window(limit, &key, cost, now_ns, decision);
	if (!store_try_log(&limit->algo, &key, cost, now_ns, &outcome, &state_ends_ns))
		return 0;
	limit_fill_decision(limit, &limit->algo, &outcome, decision);
	return state_ends_ns;
}

/*
 * Runs a step, and reports what it caused: messages to the servers that decide the limit together
 * (its quorum group), and of a breaker the outcome, in which the callback finds phase changes. A
 * call that the group makes has a notification already, which its caller sends. Sets the limit
 * whose parameters decided: after a reload that is the limit's successor.
 */
static uint64_t run_and_report(const struct decision_context *context, const struct plan_step *step,
                               const struct algo_call *call, const struct algo_limit **decided_by,
                               struct algo_decision *outcome)
{
	struct store_step at_store = {context->table->store, &step->limit->algo, step->key, *call,
	                              context->at};
	const struct limit_group *group = context->notify ? step->limit->group : NULL;
	struct algo_notification notification;
	uint64_t state_ends_ns;

	*decided_by = at_store.limit;
	if (group && !call->notification && atomic_load_explicit(&group->is_up, memory_order_relaxed)) {
		notification = (struct algo_notification){0};
		at_store.call.notification = &notification;
	}
	state_ends_ns = store_run(&at_store, decided_by, outcome);
	if (at_store.call.notification == &notification && algo_notification_is_due(&notification))
		context->notify(context->owner, step, &notification);
	if (context->breaker_ran && algo_has_phases(&step->limit->algo))
		context->breaker_ran(context->owner, step, outcome);
	return state_ends_ns;
}

/*
 * After a reload the key's state may have been converted to new parameters: then the end by which a
 * refund finds its charge must be converted, too.
 */
uint64_t engine_converted_charge_end(const struct decision_context *context,
                                     const struct plan_step *step)
{
	const struct store_step at_store = {.store = context->table->store,
	                                    .limit = &step->limit->algo,
	                                    .key = step->key,
	                                    .call = {.until_ns = step->charge_ends_ns},
	                                    .at = context->at};

	if (step->remote || !step->limit->algo.algorithm->layout || step->charge_ends_ns == 0)
		return step->charge_ends_ns;
	return store_refund_end(&at_store, step->generation);
}

uint64_t engine_apply_observed(const struct decision_context *context, const struct plan_step *step,
                               const struct algo_call *call, struct weir_decision *decision)
{
	const struct algo_limit *decided_by;
	struct algo_decision outcome;
	uint64_t state_ends_ns = run_and_report(context, step, call, &decided_by, &outcome);

	limit_fill_decision(step->limit, decided_by, &outcome, decision);
	return state_ends_ns;
}

/* For an operator who forces a breaker open or closed, or ends that. */
static int force_step(const struct decision_context *context, const struct plan_step *step,
                      enum weir_force force, uint64_t until_ns)
{
	struct algo_call call = {.op = ALGO_FORCE, .until_ns = until_ns, .force = force};
	const struct algo_limit *decided_by;
	struct algo_decision outcome;

	if (until_ns != 0 && until_ns <= context->at.now_ns)
		return WEIR_ERANGE;
	run_and_report(context, step, &call, &decided_by, &outcome);
	waitlist_wake(&context->table->waiting, step->key.hash);
	return outcome.reason == WEIR_REASON_NO_ROOM ? WEIR_EFULL : WEIR_OK;
}

int engine_force(const struct decision_context *context, const struct weir_limit *limit,
                 struct slice key, enum weir_force force, uint64_t until_ns)
{
	struct plan plan;
	int status;

	if (!algo_can_force(&limit->algo, force))
		return WEIR_EINVAL;
	status = engine_prepare_limit(context->table, limit, &(struct algo_call){.op = ALGO_FORCE}, key,
	                              &plan);
	return status == WEIR_OK ? force_step(context, &plan.direct_step, force, until_ns) : status;
}

int engine_force_hash(const struct decision_context *context, const struct weir_limit *limit,
                      uint64_t hash, enum weir_force force, uint64_t until_ns)
{
	struct plan_step step = {.limit = limit};
	int status;

	if (!algo_can_force(&limit->algo, force))
		return WEIR_EINVAL;
	status = store_admit(context->table->store, &limit->algo, hash, &step.key);
	return status == WEIR_OK ? force_step(context, &step, force, until_ns) : status;
}

bool engine_apply_group_operation(const struct decision_context *context,
                                  const struct weir_limit *limit, uint64_t hash,
                                  const struct algo_call *call)
{
	struct plan_step step = {.limit = limit};
	const struct algo_limit *decided_by;
	struct algo_decision outcome;

	if (store_admit(context->table->store, &limit->algo, hash, &step.key) != WEIR_OK)
		return false;
	run_and_report(context, &step, call, &decided_by, &outcome);
	return outcome.allowed;
}

void engine_view(const struct decision_context *context, const struct weir_limit *limit,
                 uint64_t hash, struct algo_decision *outcome)
{
	struct plan_step step = {.limit = limit,
	                         .key = store_key(context->table->store, &limit->algo, hash)};
	const struct algo_limit *decided_by;

	run_and_report(context, &step, &(struct algo_call){.op = ALGO_PEEK, .cost = 1}, &decided_by,
	               outcome);
}

bool engine_has_use(const struct decision_context *context, const struct plan *plan)
{
	const struct plan_step *step = &plan->direct_step;
	struct decision_context quiet = *context;
	struct store_key key = step->key;
	struct algo_decision outcome;

	store_find_likely(context->table->store, &key);
	if (key.cell)
		return true;
	quiet.breaker_ran = NULL; /* nobody has asked for the key */
	engine_view(&quiet, step->limit, key.hash, &outcome);
	return !outcome.allowed || outcome.reset_after_ns > 0;
}

bool engine_forget(const struct decision_context *context, const struct plan *plan)
{
	const struct plan_step *step = &plan->direct_step;
	bool had_state = store_forget(&(struct store_step){.store = context->table->store,
	                                                   .limit = &step->limit->algo,
	                                                   .key = step->key,
	                                                   .call = {.op = ALGO_RESET},
	                                                   .at = context->at});

	waitlist_wake(&context->table->waiting, step->key.hash);
	return had_state;
}
