/*
 * store_failure.c: decides steps whose remote store has failed, by the policy `on_store_failure`.
 * It allows or denies them, or lets the limit's *local limit* decide: that counts in this server's
 * memory and has a share of the quota.
 */
#include "engine/remote/store_failure.h"

#include "engine/plan/apply.h"
#include "engine/plan/stage.h"
#include "engine/plan/stage_steps.h"
#include "wait/waitlist.h"

/*
 * Returns the local limit of the step's limit, or NULL. That of an ad-hoc limit, whose parameters
 * came with the command, is made only now.
 */
static const struct weir_limit *find_or_make_local(const struct decision_context *context,
                                                   const struct plan_step *step)
{
	struct weir_limit *local = (struct weir_limit *)step->limit->local;

	if (local && limit_is_adhoc(step->limit) &&
	    limit_init_adhoc_local(local, step->limit, context->nodes, context->table->store) !=
	        WEIR_OK)
		return NULL;
	return local;
}

/* Returns the units that earlier steps, now moved to the local limit, charge to the step's key. */
static uint64_t earlier_local_charges(const struct plan *plan, const struct plan_step *step)
{
	uint64_t charges = 0;

	for (const struct plan_step *other = plan->steps; other < step && !step->shadow; other++)
		charges += !other->shadow && other->limit->origin == step->limit &&
		           slice_equal(other->key_name, step->key_name);
	return sat_u64((u128)charges * plan->cost);
}

/* A local limit that could never grant the charges denies: RULES_CLOSED. */
enum rules_failure failure_policy(const struct decision_context *context, const struct plan *plan,
                                  const struct plan_step *step)
{
	const struct weir_limit *limit = step->limit;
	enum rules_failure policy = step->rule && step->rule->has_on_store_failure
	                                ? step->rule->on_store_failure
	                                : limit->on_store_failure;
	const struct weir_limit *local;

	if (policy != RULES_LOCAL)
		return policy;
	local = find_or_make_local(context, step);
	return local && limit_could_grant(local, ALGO_ACQUIRE, plan->cost,
	                                  earlier_local_charges(plan, step), plan->max_wait_ns)
	           ? RULES_LOCAL
	           : RULES_CLOSED;
}

static struct store_key key_of_limit(const struct weir_table *table, const struct weir_limit *limit,
                                     struct slice name)
{
	uint64_t hash = store_hash(table->store, limit->algo.identity, name.data, name.len);

	if (engine_remote_store(table, limit))
		return (struct store_key){.hash = hash};
	return store_key(table->store, &limit->algo, hash);
}

/* Makes the step one of another limit: of the local limit, or back of the limit at the store. */
void failure_move_step(const struct weir_table *table, struct plan_step *step,
                       const struct weir_limit *limit)
{
	step->limit = limit;
	step->remote = engine_remote_store(table, limit) != NULL;
	step->key = key_of_limit(table, limit, step->key_name);
}

/* Allows or denies a step without its store, and without a charge. */
void failure_decide(const struct plan_step *step, bool allowed, struct weir_decision *decision)
{
	const struct algo_limit *algo = algo_current(&step->limit->algo);
	struct algo_decision outcome;

	algo_decision_table_full(algo, &outcome); /* for its times: it knows no state of the key, too */
	if (allowed) {
		algo_decision_allow(&outcome);
		outcome.reset_after_ns = 0; /* nothing was charged */
	}
	outcome.reason = allowed ? WEIR_REASON_STORE_OPEN : WEIR_REASON_STORE_FAILURE;
	limit_fill_decision(step->limit, algo, &outcome, decision);
}

/* Whether a policy decided the step, and not its store. */
static bool was_decided_by_policy(const struct plan_step *step)
{
	return step->limit->origin || step->reason == WEIR_REASON_STORE_OPEN ||
	       step->reason == WEIR_REASON_STORE_FAILURE;
}

/*
 * Sets the reasons of the stage's steps that a policy decided. Returns the reason for the plan if
 * it is allowed, or WEIR_REASON_OK if no policy decided an enforced step. WEIR_REASON_STORE_OPEN
 * takes precedence over WEIR_REASON_STORE_LOCAL, because it counts nothing.
 */
static enum weir_reason set_reasons_of_policy(struct plan *plan)
{
	enum weir_reason reason = WEIR_REASON_OK;

	for (size_t i = 0; i < plan->step_count; i++) {
		struct plan_step *step = &plan->steps[i];

		if (!stage_includes(plan, step) || !was_decided_by_policy(step))
			continue;
		if (step->allowed && step->reason != WEIR_REASON_STORE_OPEN)
			step->reason = WEIR_REASON_STORE_LOCAL;
		if (!step->shadow && reason != WEIR_REASON_STORE_OPEN)
			reason = step->reason;
	}
	return reason;
}

/*
 * Marks the decision as degraded if a policy decided it. An allowed request is degraded if any of
 * its steps is. A denied request is degraded only if the step that denies it is.
 */
void failure_mark_degraded(struct plan *plan, struct weir_decision *decision)
{
	enum weir_reason reason;

	if (stage_refunds(plan->stage) || !algo_op_requests(plan->op)) /* nothing is decided */
		return;
	reason = set_reasons_of_policy(plan);
	if (plan->stage == PLAN_SHADOW) /* shadow steps do not decide */
		return;
	if (plan->refused_step) {
		decision->degraded = was_decided_by_policy(plan->refused_step);
	} else if (reason != WEIR_REASON_OK) {
		decision->degraded = true;
		decision->reason = reason;
	}
}

/*
 * When a step resets a key at its store: resets the key's count at the local limit, too, by which
 * an outage may have been decided before, or will be.
 */
void failure_reset_local(const struct decision_context *context, const struct plan_step *step)
{
	const struct weir_limit *local = find_or_make_local(context, step);
	struct weir_decision ignored;
	struct store_key key;

	if (!local)
		return;
	key = key_of_limit(context->table, local, step->key_name);
	engine_apply_slow(local,
	                  &(struct store_step){.store = context->table->store,
	                                       .limit = &local->algo,
	                                       .key = key,
	                                       .call = {.op = ALGO_RESET},
	                                       .at = context->at},
	                  &ignored);
	waitlist_wake(&context->table->waiting, key.hash);
}

/* Before a plan tries again: its steps go to their stores again, which may have recovered. */
void failure_move_steps_back(const struct weir_table *table, struct plan *plan)
{
	for (size_t i = 0; i < plan->step_count && algo_op_requests(plan->op); i++)
		if (plan->steps[i].limit->origin)
			failure_move_step(table, &plan->steps[i], plan->steps[i].limit->origin);
}
