/* apply.c: runs one step at the store of a table, and turns its outcome into a decision. */
#include "engine/plan/apply.h"
#include "wait/waitlist.h"

__attribute__((flatten)) uint64_t engine_apply_slow(const struct weir_limit *limit,
                                                    const struct store_step *step,
                                                    struct weir_decision *decision)
{
	const struct algo_limit *by = algo_current(step->limit);
	struct algo_decision outcome;
	uint64_t until_ns;

	if (by->algorithm->draws) {
		struct algo_call call = step->call;

		limit_draw(limit, &call, step->at, decision);
		return 0;
	}
	until_ns = store_run(step, &by, &outcome);
	limit_explain(limit, by, &outcome, decision);
	return until_ns;
}

__attribute__((noinline)) static uint64_t try_open(const struct weir_limit *limit,
                                                   const struct store_key *key, uint64_t cost,
                                                   uint64_t now_ns, struct weir_decision *decision)
{
	struct algo_decision outcome;
	uint64_t until_ns;

	if (!store_try_open(&limit->algo, key, cost, now_ns, &outcome, &until_ns))
		return 0;
	limit_explain(limit, &limit->algo, &outcome, decision);
	return until_ns;
}

/* A call of its own for windows: a log's decision has no address then (docs/design/speed-library.md). */
uint64_t engine_try_row(const struct weir_limit *limit, struct store_key key, uint64_t cost,
                        uint64_t now_ns, struct weir_decision *decision)
{
	struct algo_decision outcome;
	uint64_t until_ns;

	if (limit->algo.header_has_sum)
		return try_open(limit, &key, cost, now_ns, decision);
	if (!store_try_log(&limit->algo, &key, cost, now_ns, &outcome, &until_ns))
		return 0;
	limit_explain(limit, &limit->algo, &outcome, decision);
	return until_ns;
}

static uint64_t run_observed(const struct decision_context *context, const struct plan_step *step,
                             const struct algo_call *call, const struct algo_limit **by,
                             struct algo_decision *outcome)
{
	struct store_step whole = {context->table->store, &step->limit->algo, step->key, *call,
	                           context->at};
	const struct limit_group *group = context->notify ? step->limit->group : NULL;
	struct algo_notification notification;
	uint64_t until_ns;

	*by = whole.limit;
	if (group && !call->notification && atomic_load_explicit(&group->is_up, memory_order_relaxed)) {
		notification = (struct algo_notification){0};
		whole.call.notification = &notification;
	}
	until_ns = store_run(&whole, by, outcome);
	if (whole.call.notification == &notification && algo_notification_is_due(&notification))
		context->notify(context->owner, step, &notification);
	if (context->phase_changed && algo_has_phases(&step->limit->algo))
		context->phase_changed(context->owner, step, outcome);
	return until_ns;
}

uint64_t engine_refund_end(const struct decision_context *context, const struct plan_step *step)
{
	const struct store_step whole = {.store = context->table->store,
	                                 .limit = &step->limit->algo,
	                                 .key = step->key,
	                                 .call = {.until_ns = step->until_ns},
	                                 .at = context->at};

	if (step->remote || !step->limit->algo.algorithm->layout || step->until_ns == 0)
		return step->until_ns;
	return store_refund_end(&whole, step->generation);
}

uint64_t engine_apply_observed(const struct decision_context *context, const struct plan_step *step,
                               const struct algo_call *call, struct weir_decision *decision)
{
	const struct algo_limit *by;
	struct algo_decision outcome;
	uint64_t until_ns = run_observed(context, step, call, &by, &outcome);

	limit_explain(step->limit, by, &outcome, decision);
	return until_ns;
}

int engine_force(const struct decision_context *context, const struct weir_limit *limit,
                 struct slice key, enum weir_force force, uint64_t until_ns)
{
	struct algo_call call = {.op = ALGO_FORCE, .until_ns = until_ns, .force = force};
	const struct algo_limit *by;
	struct algo_decision outcome;
	struct plan plan;
	int status;

	if (!algo_can_force(&limit->algo, force))
		return WEIR_EINVAL;
	if (until_ns != 0 && until_ns <= context->at.now_ns)
		return WEIR_ERANGE;
	status = engine_prepare_limit(context->table, limit, &call, key, &plan);
	if (status != WEIR_OK)
		return status;
	run_observed(context, &plan.only, &call, &by, &outcome);
	waitlist_wake(&context->table->waiting, plan.only.key.hash);
	return outcome.reason == WEIR_REASON_NO_ROOM ? WEIR_EFULL : WEIR_OK;
}

bool engine_follow_group(const struct decision_context *context, const struct weir_limit *limit,
                         uint64_t hash, const struct algo_call *call)
{
	struct plan_step step = {.limit = limit};
	const struct algo_limit *by;
	struct algo_decision outcome;

	if (store_admit(context->table->store, &limit->algo, hash, &step.key) != WEIR_OK)
		return false;
	run_observed(context, &step, call, &by, &outcome);
	return outcome.allowed;
}

void engine_view(const struct decision_context *context, const struct weir_limit *limit,
                 uint64_t hash, struct algo_decision *outcome)
{
	struct plan_step step = {.limit = limit,
	                         .key = store_key(context->table->store, &limit->algo, hash)};
	const struct algo_limit *by;

	run_observed(context, &step, &(struct algo_call){.op = ALGO_PEEK, .cost = 1}, &by, outcome);
}

bool engine_forget(const struct decision_context *context, const struct plan *plan)
{
	const struct plan_step *step = &plan->only;
	bool had = store_forget(&(struct store_step){.store = context->table->store,
	                                             .limit = &step->limit->algo,
	                                             .key = step->key,
	                                             .call = {.op = ALGO_RESET},
	                                             .at = context->at});

	waitlist_wake(&context->table->waiting, step->key.hash);
	return had;
}
