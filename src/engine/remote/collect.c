#include "engine/remote/collect.h"

#include "engine/plan/permits.h"
#include "engine/plan/stage.h"
#include "engine/plan/stage_steps.h"
#include "engine/remote/store_failure.h"
#include "engine/remote/submit.h"

/*
 * Goes on without the store of a step that acquires or peeks. Where it is local, it is done with
 * the stage's other steps in memory.
 */
static void fall_back(const struct decision_context *context, struct plan *plan,
                      struct plan_step *step, struct weir_decision *d)
{
	enum rules_failure policy = failure_policy(context, plan, step);
	struct weir_decision one;

	if (context->failed)
		context->failed(context->owner, step, policy);
	if (policy == RULES_LOCAL) {
		failure_move_step(context->table, step, step->limit->local);
		return;
	}
	failure_decide(step, policy == RULES_OPEN, &one);
	stage_record(context, plan, step, 0, &one, d);
}

/* A step that its store could not do. What could not be given back stays taken until it ends. */
static void fail(const struct decision_context *context, struct plan *plan, struct plan_step *step,
                 int status, struct weir_decision *d)
{
	if (stage_refunds(plan->stage) && plan->stage != PLAN_REFUND_PERMIT)
		step->charged = false;
	else if (!algo_op_requests(plan->op))
		plan->status = (signed char)status;
	else
		fall_back(context, plan, step, d);
}

/* Whether a mark says that it was given back. A place that is held needs none. */
static bool is_marked(const struct plan *plan, const struct plan_step *step)
{
	return plan->stage == PLAN_REFUND_PERMIT && !algo_holds_leases(&step->limit->algo);
}

/*
 * Whether there is nothing left of a charge that a permit names, by the clock that has set its end.
 */
static bool has_ended(const struct plan *plan, const struct submitted *submitted)
{
	return plan->stage == PLAN_REFUND_PERMIT &&
	       submitted->step->until_ns <= submitted->operation.clock_ns;
}

/* Takes note of how a step at its store ended. */
static void collect_one(const struct decision_context *context, struct plan *plan,
                        const struct submitted *submitted, struct weir_decision *d)
{
	const struct store_operation *operation = &submitted->operation;
	struct plan_step *step = submitted->step;
	struct weir_decision one;

	if (submitted->marks)
		return;
	if (operation->status != WEIR_OK) {
		fail(context, plan, step, operation->status, d);
		return;
	}
	limit_explain(step->limit, operation->step.limit, &operation->outcome, &one);
	one.allowed &= !operation->withheld && !has_ended(plan, submitted);
	stage_record(context, plan, step, operation->until_ns, &one, d);
}

/* The steps in memory of a permit that another request has claimed, or whose claim failed. */
static void drop_shared(struct plan *plan)
{
	for (size_t i = 0; i < plan->step_count; i++)
		plan->steps[i].charged &= plan->steps[i].remote;
}

/*
 * A claim that its store could not make fails the report of another server's permit: nobody knows
 * whether it has counted. The giver itself knows from its memory.
 */
static void collect_claim(const struct decision_context *context, struct plan *plan,
                          const struct store_operation *operation)
{
	bool foreign = plan->giver != context->giver;

	plan->claims = false;
	if (operation->status == WEIR_OK && (!operation->outcome.allowed || operation->withheld)) {
		drop_shared(plan);
	} else if (!foreign) {
		permits_redeem_claimed(context, plan);
	} else if (operation->status != WEIR_OK) {
		drop_shared(plan);
		plan->status = (signed char)operation->status;
	} else if (context->claimed) {
		context->claimed(context->owner, plan);
	}
}

/*
 * Takes note of what stores have completed. A step that a store withheld took nothing, since
 * another was refused; if none was, the store has done nothing. What is withheld by a mark was
 * given back before.
 */
static void collect(const struct decision_context *context, struct plan *plan,
                    struct weir_decision *d)
{
	struct submitted *results;
	size_t n = submit_results(plan, &results);

	for (size_t i = 0; i < n; i++) {
		if (results[i].claims) {
			collect_claim(context, plan, &results[i].operation);
			continue;
		}
		results[i].step->answered = !results[i].operation.unasked;
		if (!results[i].operation.withheld || is_marked(plan, results[i].step))
			collect_one(context, plan, &results[i], d);
	}
	for (size_t i = 0; i < n && plan->passes; i++)
		if (results[i].operation.withheld && !results[i].claims &&
		    !is_marked(plan, results[i].step))
			fail(context, plan, results[i].step, WEIR_ESTORE, d);
}

/* The first step by which a permit is claimed, at each server the same, or NULL. */
static struct plan_step *claimed_by(struct plan *plan)
{
	for (size_t i = 0; i < plan->step_count; i++) {
		struct plan_step *step = &plan->steps[i];

		if (step->charged && !step->remote && step->key_name.data &&
		    algo_is_reported(&step->limit->algo))
			return step;
	}
	return NULL;
}

/* Whether the stage begins with a claim. */
static bool has_claim(const struct plan *plan)
{
	return plan->claims && plan->stage == PLAN_REFUND_PERMIT &&
	       (algo_op_reports(plan->op) || plan->cost > 0);
}

static bool has_remote(const struct plan *plan)
{
	for (size_t i = 0; i < plan->step_count; i++)
		if (plan->steps[i].remote && stage_includes(plan, &plan->steps[i]))
			return true;
	return false;
}

/* Without one, the giver goes on by its memory. */
static void begin_claim(const struct decision_context *context, struct plan *plan, bool has_room)
{
	struct plan_step *step = claimed_by(plan);
	bool can = has_room && context->claims;

	if (step && can && submit_claim(context, plan, step))
		return;
	if (step || plan->giver == context->giver)
		collect_claim(context, plan,
		              &(struct store_operation){.status = can ? WEIR_ENOMEM : WEIR_ESTORE});
	plan->claims = false;
}

/* All remote steps of the stage are at their stores at once. False if the plan waits for them. */
static bool submit_stage(const struct decision_context *context, struct plan *plan,
                         struct weir_decision *d)
{
	bool together = plan->stage == PLAN_EXECUTE && algo_op_consumes(plan->op) && !plan->independent;
	bool has_room = submit_open(context, plan);
	uint32_t n = plan->step_count;

	plan->submitted = true;
	if (has_claim(plan))
		begin_claim(context, plan, has_room);
	for (uint32_t i = 0; i < n; i++) {
		struct plan_step *step = &plan->steps[stage_index(plan, i)];
		struct algo_call call;

		if (!step->remote || !stage_includes(plan, step))
			continue;
		call = stage_call(plan, step);
		if (call.op == ALGO_RESET)
			failure_reset_local(context, step);
		if (has_room && is_marked(plan, step))
			submit_by_permit(context, plan, step, &call);
		else if (has_room)
			submit_step(context, plan, step, &call, together);
		else
			fail(context, plan, step, WEIR_ENOMEM, d);
	}
	return !has_room || !submit_all(context, plan, d);
}

bool remote_run(const struct decision_context *context, struct plan *plan, struct weir_decision *d)
{
	if (!plan->submitted && (has_remote(plan) || has_claim(plan)) &&
	    !submit_stage(context, plan, d))
		return false;
	if (plan->submitted)
		collect(context, plan, d);
	if (plan->cancelled && !stage_refunds(plan->stage))
		plan->passes = false;
	return true;
}
