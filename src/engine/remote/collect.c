/*
 * collect.c: runs the remote steps of a plan's stage, whose keys a remote store (Redis) has:
 * submits them, and applies the results when the store has completed them.
 *
 * A store marks a charge as spent when a permit refunds it, so that no second refund succeeds. If
 * servers share permits, a server *claims* a permit at the store before it refunds it.
 */
#include "engine/remote/collect.h"

#include "engine/plan/permits.h"
#include "engine/plan/stage.h"
#include "engine/plan/stage_steps.h"
#include "engine/remote/store_failure.h"
#include "engine/remote/submit.h"

/*
 * Decides a step that acquires or peeks without its store. If the policy is local, the step moves
 * to memory and runs with the stage's other steps there.
 */
static void decide_without_store(const struct decision_context *context, struct plan *plan,
                                 struct plan_step *step, struct weir_decision *decision)
{
	enum rules_failure policy = failure_policy(context, plan, step);
	struct weir_decision step_decision;

	if (context->store_failed)
		context->store_failed(context->owner, step, policy);
	if (policy == RULES_LOCAL) {
		failure_move_step(context->table, step, step->limit->local);
		return;
	}
	failure_decide(step, policy == RULES_OPEN, &step_decision);
	stage_record(context, plan, step, 0, &step_decision, decision);
}

/* Handles a step whose store failed. A charge that could not be refunded stays until it ends. */
static void handle_failure(const struct decision_context *context, struct plan *plan,
                           struct plan_step *step, int status, struct weir_decision *decision)
{
	if (stage_refunds(plan->stage) && plan->stage != PLAN_REFUND_PERMIT)
		step->charged = false;
	else if (!algo_op_requests(plan->op))
		plan->status = (signed char)status;
	else
		decide_without_store(context, plan, step, decision);
}

/* Whether the store marks the step's charge as spent. A concurrency limit's entries need no mark.
 */
static bool is_marked_at_store(const struct plan *plan, const struct plan_step *step)
{
	return plan->stage == PLAN_REFUND_PERMIT && !algo_holds_leases(&step->limit->algo);
}

/* Whether the charge that a permit names has ended, by the clock of the store that set its end. */
static bool has_ended(const struct plan *plan, const struct submitted *submitted)
{
	return plan->stage == PLAN_REFUND_PERMIT &&
	       submitted->step->charge_ends_ns <= submitted->operation.clock_ns;
}

/* Applies the result of a step's operation. */
static void apply_result_of(const struct decision_context *context, struct plan *plan,
                            const struct submitted *submitted, struct weir_decision *decision)
{
	const struct store_operation *operation = &submitted->operation;
	struct plan_step *step = submitted->step;
	struct weir_decision step_decision;

	if (submitted->is_mark) /* it only decides whether the store withholds the step behind it */
		return;
	if (operation->status != WEIR_OK) {
		handle_failure(context, plan, step, operation->status, decision);
		return;
	}
	if (operation->step.call.op == ALGO_RESET) /* one that fails changes nothing */
		failure_reset_local(context, step);
	limit_fill_decision(step->limit, operation->step.limit, &operation->outcome, &step_decision);
	/* A refund is none if the mark has withheld it, or the charge has ended. */
	step_decision.allowed &= !operation->withheld && !has_ended(plan, submitted);
	stage_record(context, plan, step, operation->until_ns, &step_decision, decision);
}

/*
 * Drops the charges in memory of a permit that another request has claimed, or whose claim failed.
 */
static void drop_charges_in_memory(struct plan *plan)
{
	for (size_t i = 0; i < plan->step_count; i++)
		plan->steps[i].charged &= plan->steps[i].remote;
}

/*
 * Applies the result of a claim. If the store failed, a report of another server's permit fails,
 * because only the server that granted the permit knows whether it is outstanding.
 */
static void collect_claim(const struct decision_context *context, struct plan *plan,
                          const struct store_operation *operation)
{
	bool is_of_other_server = plan->granting_server != context->own_server;
	bool is_taken =
	    operation->status == WEIR_OK && (!operation->outcome.allowed || operation->withheld);

	plan->needs_claim = false;
	if (is_taken) {
		drop_charges_in_memory(plan);
	} else if (!is_of_other_server) {
		permits_redeem_claimed(context, plan);
	} else if (operation->status != WEIR_OK) {
		drop_charges_in_memory(plan);
		plan->status = (signed char)operation->status;
	} else if (context->permit_claimed) {
		context->permit_claimed(context->owner, plan);
	}
}

/*
 * Whether the step of an operation has no charge and no result, because its store withheld it when
 * another of the list was refused. If a mark withheld a refund, it was done before: that is a
 * result.
 */
static bool has_no_result(const struct plan *plan, const struct submitted *submitted)
{
	return submitted->operation.withheld && !submitted->is_claim &&
	       !is_marked_at_store(plan, submitted->step);
}

/* Applies the results of the stores. If a step was withheld and none refused, its store failed. */
static void collect_results(const struct decision_context *context, struct plan *plan,
                            struct weir_decision *decision)
{
	struct submitted *results;
	size_t n = submit_results(plan, &results);

	for (size_t i = 0; i < n; i++) {
		if (results[i].is_claim) {
			collect_claim(context, plan, &results[i].operation);
			continue;
		}
		/* The store may not know whether it would have granted a step that it withheld. */
		results[i].step->store_answered = !results[i].operation.is_undecided;
		if (!has_no_result(plan, &results[i]))
			apply_result_of(context, plan, &results[i], decision);
	}
	for (size_t i = 0; i < n && plan->none_refused; i++) /* a failure may refuse the plan */
		if (has_no_result(plan, &results[i]))
			handle_failure(context, plan, results[i].step, WEIR_ESTORE, decision);
}

/* Finds the step by whose key a permit is claimed, or NULL. Every server finds the same step. */
static struct plan_step *find_claimed_step(struct plan *plan)
{
	for (size_t i = 0; i < plan->step_count; i++) {
		struct plan_step *step = &plan->steps[i];

		if (step->charged && !step->remote && step->key_name.data &&
		    algo_is_reported(&step->limit->algo))
			return step;
	}
	return NULL;
}

/* Whether the stage must claim the permit before it refunds charges in memory. */
static bool begins_with_claim(const struct plan *plan)
{
	return plan->needs_claim && plan->stage == PLAN_REFUND_PERMIT &&
	       (algo_op_reports(plan->op) || plan->cost > 0);
}

static bool has_remote_step(const struct plan *plan)
{
	for (size_t i = 0; i < plan->step_count; i++)
		if (plan->steps[i].remote && stage_includes(plan, &plan->steps[i]))
			return true;
	return false;
}

/*
 * Submits a claim. If that is impossible, handles it as a claim at a store that failed.
 * `has_memory`: the operations of the stage have memory.
 */
static void submit_claim_or_decide(const struct decision_context *context, struct plan *plan,
                                   bool has_memory)
{
	struct plan_step *step = find_claimed_step(plan);
	bool can_submit = has_memory && context->claim_store;

	if (step && can_submit && submit_claim(context, plan, step))
		return;
	if (step || plan->granting_server == context->own_server)
		collect_claim(context, plan,
		              &(struct store_operation){.status = can_submit ? WEIR_ENOMEM : WEIR_ESTORE});
	plan->needs_claim = false;
}

/*
 * Submits all remote steps of the stage together. Returns false if the plan has to wait for them.
 */
static bool submit_stage(const struct decision_context *context, struct plan *plan,
                         struct weir_decision *decision)
{
	bool all_or_none =
	    plan->stage == PLAN_EXECUTE && algo_op_consumes(plan->op) && !plan->steps_are_independent;
	bool has_memory = submit_open(context, plan), must_wait;
	uint32_t n = plan->step_count;

	plan->submitted = true;
	if (begins_with_claim(plan))
		submit_claim_or_decide(context, plan, has_memory);
	for (uint32_t i = 0; i < n; i++) {
		struct plan_step *step = &plan->steps[stage_index(plan, i)];
		struct algo_call call;

		if (!step->remote || !stage_includes(plan, step))
			continue;
		call = stage_call(plan, step);
		if (has_memory && is_marked_at_store(plan, step))
			submit_refund_by_permit(context, plan, step, &call);
		else if (has_memory)
			submit_step(context, plan, step, &call, all_or_none);
		else
			handle_failure(context, plan, step, WEIR_ENOMEM, decision);
	}
	must_wait = has_memory && submit_all(context, plan, decision);
	return !must_wait;
}

/* Returns false as long as the store has not completed the steps: it is called again then. */
bool remote_run_stage(const struct decision_context *context, struct plan *plan,
                      struct weir_decision *decision)
{
	bool must_submit = !plan->submitted && (has_remote_step(plan) || begins_with_claim(plan));

	if (must_submit && !submit_stage(context, plan, decision))
		return false;
	if (plan->submitted)
		collect_results(context, plan, decision);
	if (plan->cancelled && !stage_refunds(plan->stage))
		plan->none_refused = false;
	return true;
}
