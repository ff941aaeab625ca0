/* decide.c: runs a plan from stage to stage until it is done, waits, or has steps at a store. */
#include "engine/plan/denial.h"
#include "engine/plan/permits.h"
#include "engine/plan/stage.h"
#include "engine/plan/stage_steps.h"
#include "engine/remote/store_failure.h"
#include "engine/remote/collect.h"
#include "engine/remote/submit.h"
#include "wait/waitlist.h"

/* In a function of its own, so that a plan in memory pays only one branch. */
__attribute__((noinline, cold)) static bool
run_stage_at_stores(const struct decision_context *context, struct plan *plan,
                    struct weir_decision *d)
{
	if (!remote_run(context, plan, d))
		return false;
	stage_run(context, plan, d);
	failure_explain(plan, d);
	return true;
}

/* Runs the steps of the stage. Returns false if remote steps are still at their stores. */
static bool run_stage(const struct decision_context *context, struct plan *plan,
                      struct weir_decision *d)
{
	if (__builtin_expect(plan->remote, 0))
		return run_stage_at_stores(context, plan, d);
	stage_run(context, plan, d);
	return true;
}

/*
 * Decides whether a refused plan waits: true, or a denial in `d`. The plan may be refused only
 * because other requests wait before it.
 */
static bool decide_wait(struct plan *plan, struct weir_decision *d)
{
	const struct rules_rule *rule = stage_ending(plan);
	enum weir_reason reason;

	if (rule)
		denial_listed(rule, d);
	if (rule || !plan->in_order || d->reason == WEIR_REASON_STORE_FAILURE)
		return false;
	reason = denial_reason(plan, plan->refused, d);
	if (reason == WEIR_REASON_OK) {
		plan->waits_at = plan->refused->key.hash;
		return true;
	}
	denial_decide(plan, reason, d);
	return false;
}

/* Whether the observer gets the plan's steps: only of acquires. */
static bool counts_for_metrics(const struct decision_context *context, const struct plan *plan)
{
	return context->observe && algo_op_consumes(plan->op) && !plan->independent;
}

static bool is_denied(const struct plan *plan)
{
	const struct rules_rule *rule = stage_ending(plan);

	return rule ? rule->answer == RULES_DENY : plan->refused != NULL;
}

/* Ends a plan, except that the charges of its shadow steps may be left to refund. */
static inline enum plan_stage end_plan(const struct decision_context *context, struct plan *plan)
{
	plan->position = WAIT_NEW;
	if (is_denied(plan) && algo_op_consumes(plan->op))
		return PLAN_REFUND_SHADOW;
	if (__builtin_expect(plan->permit.id != 0, 0))
		permits_issue(context, plan);
	return PLAN_DONE;
}

static void observe_steps(const struct decision_context *context, const struct plan *plan)
{
	const struct plan_step *refused = plan->refused;
	bool counts = !stage_answering(plan); /* a rule that answers has no enforced limit counted */

	for (size_t i = 0; i < plan->step_count; i++) {
		const struct plan_step *step = &plan->steps[i];

		if (step->shadow ? !stage_is_below(plan, step) : counts && (!refused || refused == step))
			context->observe(context->owner, step);
	}
}

/* Returns the stage of a plan whose decision is final. */
static enum plan_stage observe_and_end(const struct decision_context *context, struct plan *plan)
{
	if (counts_for_metrics(context, plan))
		observe_steps(context, plan);
	return end_plan(context, plan);
}

/*
 * Returns the stage after a refusal that is final. Sets adds_earlier, since PLAN_EXPLAIN peeks so.
 */
static enum plan_stage refused_stage(struct plan *plan, struct weir_decision *d)
{
	bool is_denial =
	    !denial_has_one_step(plan) && algo_op_requests(plan->op) && !stage_ending(plan);

	plan->adds_earlier = is_denial && denial_needs_peek(plan);
	if (is_denial && !plan->adds_earlier)
		denial_explain(plan, d);
	return plan->adds_earlier ? PLAN_EXPLAIN : PLAN_SHADOW;
}

static enum plan_stage next_stage(const struct decision_context *context, struct plan *plan)
{
	bool passed = plan->passes;

	if (__builtin_expect(plan->cancelled || plan->status != WEIR_OK, 0) &&
	    plan->stage < PLAN_REFUND_PERMIT)
		return PLAN_REFUND_ALL;
	switch ((enum plan_stage)plan->stage) {
	case PLAN_PEEK_OWN:
		return passed ? PLAN_PEEK_AWAITED : PLAN_REFUSED;
	case PLAN_PEEK:
		if (!passed)
			return PLAN_REFUSED;
		if (plan->cost_exceeds_limit) {
			plan->status = WEIR_ECOST;
			plan->permit.id = 0;
			return PLAN_DONE;
		}
		return plan->listed || !algo_op_consumes(plan->op) ? PLAN_SHADOW : PLAN_EXECUTE;
	case PLAN_EXECUTE:
		return passed ? PLAN_SHADOW : denial_next_stage(plan);
	case PLAN_SHADOW:
		if (__builtin_expect(plan->refused != NULL, 0) && !stage_answering(plan) &&
		    denial_is_early(plan))
			return PLAN_EXPLAIN_SHADOWED;
		return observe_and_end(context, plan);
	case PLAN_EXPLAIN_SHADOWED:
		return observe_and_end(context, plan);
	case PLAN_PEEK_AWAITED:
	case PLAN_ROLL_BACK:
		return PLAN_REFUSED;
	case PLAN_EXPLAIN:
		return PLAN_SHADOW;
	case PLAN_REFUND_SHADOW:
	case PLAN_REFUND_ALL:
		plan->permit.id = 0;
		return PLAN_DONE;
	default:
		return PLAN_DONE;
	}
}

static void begin_stage(struct plan *plan, enum plan_stage stage)
{
	plan->stage = (unsigned char)stage;
	plan->tightest = PLAN_NO_STEP;
	plan->passes = true;
	plan->submitted = false;
}

/* Runs stages until the plan is done, or waits for a key or a store. */
static enum engine_state run_stages(const struct decision_context *context, struct plan *plan,
                                    struct weir_decision *d)
{
	while (plan->stage != PLAN_DONE) {
		if (plan->stage == PLAN_REFUSED) {
			if (decide_wait(plan, d))
				return ENGINE_WAITS;
			begin_stage(plan, refused_stage(plan, d));
		}
		if (!run_stage(context, plan, d))
			return ENGINE_SUBMITTED;
		if (stage_explains(plan))
			denial_explain(plan, d);
		if (plan->listed && plan->passes && plan->stage == PLAN_PEEK)
			denial_listed(plan->listed, d);
		begin_stage(plan, next_stage(context, plan));
	}
	return ENGINE_DONE;
}

static enum engine_state run_to_end(const struct decision_context *context, struct plan *plan,
                                    struct weir_decision *d)
{
	enum engine_state state = run_stages(context, plan, d);

	if (__builtin_expect(plan->submission && state != ENGINE_SUBMITTED, 0))
		submit_close(plan);
	d->allowed &= plan->status == WEIR_OK;
	return state;
}

/* Runs a direct call in memory that never waits, without stages. */
static void run_direct(const struct decision_context *context, struct plan *plan,
                       struct weir_decision *d)
{
	struct plan_step *step = &plan->only;

	stage_run_alone(context, plan, d);
	plan->refused = d->allowed ? NULL : step;
	if (counts_for_metrics(context, plan))
		context->observe(context->owner, step);
	if (end_plan(context, plan) == PLAN_REFUND_SHADOW)
		plan->permit.id = 0;
	plan->stage = PLAN_DONE;
}

/* Finds the enforced step whose key other requests wait for, or NULL. */
static struct plan_step *find_awaited_step(const struct decision_context *context,
                                           const struct plan *plan)
{
	struct waitlist *list = waitlist_at(&context->table->waiting);

	for (size_t i = 0; i < plan->step_count; i++) {
		struct plan_step *step = &plan->steps[i];

		if (!step->shadow && !stage_is_first_of(plan, step->key.hash) &&
		    waitlist_has(list, step->key.hash))
			return step;
	}
	return NULL;
}

static enum engine_state start_plan(const struct decision_context *context, struct plan *plan,
                                    struct weir_decision *d)
{
	bool refunds = algo_op_releases(plan->op) && plan->permit.id != 0;

	if (__builtin_expect(plan->wants_permit && plan->permit.id == 0, 0))
		plan->permit.id = permit_random_id();
	if (plan->steps == &plan->only && !plan->in_order && !refunds && !plan->remote) {
		run_direct(context, plan, d);
		return ENGINE_DONE;
	}
	if (__builtin_expect(plan->remote, 0))
		failure_return_steps(context->table, plan);
	*d = (struct weir_decision){.allowed = true, .reason = WEIR_REASON_OK};
	plan->refused = NULL;
	if (plan->listed && plan->step_count == 0) {
		denial_listed(plan->listed, d);
		plan->permit.id = 0;
		plan->stage = PLAN_DONE;
	} else if (refunds) {
		permits_drop_ended(context, plan);
		permits_redeem(context, plan);
		d->allowed = false;
		begin_stage(plan, PLAN_REFUND_PERMIT);
	} else {
		bool peeks = stage_order_steps(plan);

		if (plan->in_order && plan->position != WAIT_YIELDED)
			plan->refused = find_awaited_step(context, plan);
		begin_stage(plan, plan->refused ? PLAN_PEEK_OWN : peeks ? PLAN_PEEK : PLAN_EXECUTE);
	}
	return run_to_end(context, plan, d);
}

enum engine_state engine_decide(const struct decision_context *context, struct plan *plan,
                                struct weir_decision *d)
{
	plan->in_order = false;
	return start_plan(context, plan, d);
}

enum engine_state engine_run(const struct decision_context *context, struct plan *plan,
                             struct weir_decision *d)
{
	plan->in_order =
	    algo_op_requests(plan->op) && (engine_may_wait(plan) || engine_others_wait(context->table));
	return start_plan(context, plan, d);
}

enum engine_state engine_resume(const struct decision_context *context, struct plan *plan,
                                struct weir_decision *d)
{
	if (plan->stage == PLAN_REFUSED) {
		denial_reset(plan);
		return start_plan(context, plan, d);
	}
	submit_decision(plan, d);
	return run_to_end(context, plan, d);
}

enum engine_state engine_deny(const struct decision_context *context, struct plan *plan,
                              enum weir_reason reason, struct weir_decision *d)
{
	denial_decide(plan, reason, d);
	begin_stage(plan, refused_stage(plan, d));
	return run_to_end(context, plan, d);
}

enum engine_state engine_cancel(const struct decision_context *context, struct plan *plan)
{
	struct weir_decision ignored = {0};

	if (plan->stage == PLAN_PREPARED || plan->stage == PLAN_REFUSED)
		return ENGINE_DONE; /* it has no charges */
	if (plan->stage != PLAN_DONE) {
		plan->cancelled = true;
		return ENGINE_SUBMITTED;
	}
	if (!algo_op_consumes(plan->op))
		return ENGINE_DONE;
	if (plan->permit.id != 0)
		permit_redeem(context->table->store, plan->permit, context->at.now_ns);
	begin_stage(plan, PLAN_REFUND_ALL);
	return run_to_end(context, plan, &ignored);
}

/*
 * Drops the charges in memory that a report does not end; they stay charged. Remote charges are not
 * dropped, since the store must mark them as spent.
 */
static void drop_other_charges(struct plan *plan)
{
	for (size_t i = 0; i < plan->step_count; i++)
		plan->steps[i].charged &=
		    plan->steps[i].remote || algo_is_reported(&plan->steps[i].limit->algo);
}

static enum engine_state run_report(const struct decision_context *context, struct plan *plan,
                                    enum algo_op op, struct weir_decision *d)
{
	struct store *store = context->table->store;

	*d = (struct weir_decision){.reason = WEIR_REASON_OK};
	plan->op = (unsigned char)op;
	permits_drop_ended(context, plan);
	if (engine_is_reported(plan)) {
		plan->refunds_rest = plan->claims
		                         ? permit_is_outstanding(store, plan->permit, context->at.now_ns)
		                         : permit_redeem(store, plan->permit, context->at.now_ns);
		drop_other_charges(plan);
	} else {
		d->allowed = permits_are_outstanding(context, plan);
	}
	begin_stage(plan, PLAN_REFUND_PERMIT);
	return run_to_end(context, plan, d);
}

enum engine_state engine_report(const struct decision_context *context, struct plan *plan,
                                struct weir_decision *d)
{
	return run_report(context, plan, ALGO_REPORT, d);
}

void engine_settle(const struct decision_context *context, struct plan *plan, bool reports)
{
	struct weir_decision ignored;

	plan->claims = plan->remote = false;
	for (size_t i = 0; i < plan->step_count; i++)
		plan->steps[i].charged &= !plan->steps[i].remote;
	if (reports)
		run_report(context, plan, ALGO_SETTLE, &ignored);
	else
		engine_run(context, plan, &ignored);
}

bool engine_others_wait(const struct weir_table *table)
{
	const struct waitlist *list = waitlist_at(&table->waiting);

	return list && waitlist_count(list) > 0;
}

static bool step_may_wait(const struct plan_step *step, uint64_t max_wait_ns)
{
	return !step->shadow &&
	       (step->limit->algo.paced || wait_patience_ns(&step->limit->algo, max_wait_ns) > 0);
}

bool engine_may_wait(const struct plan *plan)
{
	bool may = false;

	for (size_t i = 0; i < plan->step_count && !may; i++)
		may = step_may_wait(&plan->steps[i], plan->max_wait_ns);
	return may && plan_charges(plan) && plan->max_wait_ns != WEIR_ZERO;
}
