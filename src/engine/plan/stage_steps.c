/*
 * stage_steps.c: runs those steps of a plan that belong to its present stage, and records their
 * results in the step and in the plan. A stage peeks at the steps' keys, charges them, or refunds.
 */
#include "engine/plan/stage_steps.h"

#include "engine/plan/apply.h"
#include "engine/plan/denial.h"
#include "engine/plan/permits.h"
#include "engine/plan/stage.h"
#include "wait/waitlist.h"

/*
 * Changes the call of a plan whose steps are independent, as in Koala, or whose peeks ask for
 * earlier charges on the same key, too.
 */
static void adjust_call(const struct plan *plan, const struct plan_step *step,
                        struct algo_call *call)
{
	if (plan->feedback) /* takes back as many units as the rule sets */
		call->cost = step->rule->feedback[plan->feedback - 1];
	/* An acquire of cost 0 only asks, so it is made as a peek, which can ask for more. */
	if (plan->peek_adds_earlier_charges && (call->op == ALGO_PEEK || call->cost == 0)) {
		call->op = ALGO_PEEK;
		denial_set_peek_cost(plan, step, call);
	}
	/* An independent log is never full: a new use replaces its oldest ones. */
	if (plan->steps_are_independent && step->limit->algo.record == ALGO_RECORD_LOG)
		call->op = algo_op_replacing(call->op);
}

/* Makes the operation that the present stage performs on the step's key. */
static inline struct algo_call make_call(const struct plan *plan, const struct plan_step *step)
{
	struct algo_call call = {.cost = plan->cost, .permit = plan->permit.id};

	if (stage_refunds(plan->stage)) {
		call.op = ALGO_REFUND;
		call.until_ns = step->charge_ends_ns;
		if (plan->stage == PLAN_REFUND_PERMIT)
			permits_fill_call(plan, step, &call);
		return call;
	}
	if (plan->stage == PLAN_EXECUTE || plan->stage == PLAN_SHADOW) {
		call.op = plan->op;
	} else {
		call.op = ALGO_PEEK;
		call.counts_denial = plan->stage <= PLAN_PEEK && plan_charges(plan);
	}
	call.has_drawn = step->allowed;
	call.max_wait_ns = plan->max_wait_ns;
	call.priority = step->priority;
	if (__builtin_expect(plan->steps_are_independent | plan->peek_adds_earlier_charges, 0))
		adjust_call(plan, step, &call);
	/* No limit may get a cost above its quota: peeks without a cost instead. */
	if (plan->stage == PLAN_SHADOW && !limit_cost_fits(step->limit, call.op, call.cost))
		call = (struct algo_call){.op = ALGO_PEEK};
	return call;
}

static struct store_step store_step_of(const struct decision_context *context,
                                       const struct plan_step *step, const struct algo_call *call)
{
	return (struct store_step){context->table->store, &step->limit->algo, step->key, *call,
	                           context->at};
}

/*
 * For stages that refund or explain a denial, and operations that request nothing: wakes the
 * requests that wait for the key, since it may have capacity again. Returns whether the step
 * records its result: not that of a refund; and that of a stage which only explains a denial, if it
 * is a refusal that the step did not have yet.
 */
static bool wake_waiters_and_check_records(const struct decision_context *context,
                                           const struct plan *plan, const struct plan_step *step,
                                           const struct weir_decision *decision)
{
	bool refunds = stage_refunds(plan->stage);

	if ((refunds || !algo_op_requests(plan->op)) && !stage_is_first_waiter(plan, step->key.hash))
		waitlist_wake(&context->table->waiting, step->key.hash);
	if (stage_explains(plan))
		return !decision->allowed && !step->refused;
	return !refunds;
}

/* Records the result of a step in the step: `decision` is the decision of its limit. */
static inline void record_in_step(const struct decision_context *context, const struct plan *plan,
                                  struct plan_step *step, uint64_t until_ns,
                                  struct weir_decision *decision)
{
	if (__builtin_expect(plan->stage >= PLAN_EXPLAIN || !algo_op_requests(plan->op), 0) &&
	    !wake_waiters_and_check_records(context, plan, step, decision))
		return;
	step->charge_ends_ns = until_ns;
	step->allowed = decision->allowed;
	step->reason = decision->reason;
	stage_set_rule(step, decision);
}

/* Runs a step in memory and records its result in the step. */
__attribute__((flatten)) static void run_in_memory(const struct decision_context *context,
                                                   const struct plan *plan, struct plan_step *step,
                                                   const struct algo_call *call,
                                                   struct weir_decision *decision)
{
	uint64_t until_ns =
	    __builtin_expect(algo_has_phases(&step->limit->algo), 0)
	        ? engine_apply_observed(context, step, call, decision)
	        : engine_apply(step->limit, store_step_of(context, step, call), decision);

	record_in_step(context, plan, step, until_ns, decision);
}

/*
 * Whether the plan's stage runs the step. The first two stages are of a plan for whose keys other
 * requests wait: it is the first waiter of some keys, and waits for one, `refused_step`. The order
 * in time: these, PEEK, EXECUTE, and if refused PEEK_OTHERS, EXPLAIN, SHADOW, EXPLAIN_SHADOWED.
 */
static inline bool is_in_stage(const struct plan *plan, const struct plan_step *step)
{
	switch ((enum plan_stage)plan->stage) {
	case PLAN_PEEK_WHERE_FIRST: /* and, where the first refusal decides, the rules above it */
		return !step->shadow && (stage_is_first_waiter(plan, step->key.hash) ||
		                         (plan->first_refusal_decides && step < plan->refused_step));
	case PLAN_PEEK_AWAITED:
		return step == plan->refused_step;
	case PLAN_PEEK_OTHERS:
		return denial_asks_before_wait(plan, step);
	case PLAN_PEEK:
		return !step->shadow && step->pass != PASS_WITHOUT_PEEK &&
		       (!step->remote || denial_peeks_before_charge(plan, step));
	case PLAN_EXECUTE:
		return !step->shadow;
	case PLAN_EXPLAIN:
		return denial_needs_peek_at(plan, step);
	case PLAN_EXPLAIN_SHADOWED:
		return denial_key_has_shadow_charge(plan, step);
	case PLAN_SHADOW:
		return step->shadow && !stage_is_below_decision(plan, step);
	case PLAN_REFUND_SHADOW:
		return step->charged && step->shadow;
	default: /* the other refunds */
		return step->charged;
	}
}

/* Returns the stage's step at index `i` if it runs in memory and in this pass, otherwise NULL. */
static inline struct plan_step *step_to_run(const struct plan *plan, size_t i, unsigned pass)
{
	struct plan_step *step = &plan->steps[stage_index(plan, i)];

	return STAGE_PASS(step->pass) & pass && !step->remote && is_in_stage(plan, step) ? step : NULL;
}

/*
 * Merges a step's decision into the plan's. The plan has the decision of its tightest step
 * (refused, or with the fewest units remaining), but the longest wait of all steps.
 */
static void merge_decision(struct plan *plan, struct plan_step *step,
                           const struct weir_decision *step_decision,
                           struct weir_decision *decision)
{
	bool is_first = plan->tightest == PLAN_NO_STEP;
	bool paced = step_decision->paced || (!is_first && decision->paced);
	uint64_t wait_ns = u64_max(step_decision->wait_ns, is_first ? 0 : decision->wait_ns);
	uint32_t i = (uint32_t)(step - plan->steps);

	if (is_first || !step_decision->allowed || stage_is_tighter(plan, i, step_decision, decision)) {
		*decision = *step_decision;
		plan->tightest = i;
	}
	decision->paced = paced;
	decision->wait_ns = step_decision->allowed ? wait_ns : 0;
}

/*
 * Whether the pass runs step `i` although another step was refused. Remote steps are refused before
 * the steps in memory run, so a peek may find a refused step that is earlier in the order of the
 * rules, which the denial then names.
 */
static bool continues_after_refusal(const struct plan *plan, size_t i)
{
	bool peeks = plan->stage <= PLAN_PEEK || plan->op == ALGO_PEEK;

	return stage_explains(plan) || (peeks && i < (size_t)(plan->refused_step - plan->steps));
}

/*
 * Applies the decision of another step to a plan that is to wait for `refused_step`. Returns false
 * if it can't wait for this step, too. In a function of its own, so that apply_result is inlined.
 */
__attribute__((noinline, cold)) static bool
can_still_wait(const struct plan *plan, struct plan_step *step,
               const struct weir_decision *step_decision, struct weir_decision *decision)
{
	if (step_decision->allowed)
		return true;
	denial_set_refused(step, step_decision);
	if (denial_reason(plan, step, step_decision) == WEIR_REASON_OK)
		return true;
	*decision = *step_decision;
	return false;
}

/* Applies a step's decision to the plan. Returns false if the step refuses the plan. */
static bool apply_result(struct plan *plan, struct plan_step *step,
                         struct weir_decision *step_decision, struct weir_decision *decision)
{
	bool has_charged = plan_charges(plan) && step_decision->allowed && step->charge_ends_ns != 0;

	switch ((enum plan_stage)plan->stage) {
	case PLAN_EXECUTE:
		step->charged = has_charged;
		__attribute__((fallthrough));
	case PLAN_PEEK:
		if (plan->none_refused)
			merge_decision(plan, step, step_decision, decision);
		break;
	case PLAN_EXPLAIN:
	case PLAN_EXPLAIN_SHADOWED:
		/* Such a step has a decision already; this peek was only for its retry_after_ns. */
		if (step->refused || plan->stage == PLAN_EXPLAIN_SHADOWED)
			return step_decision->allowed;
		break;
	case PLAN_SHADOW:
		/* The charges of shadow rules stay, except those that last only as long as the request. */
		if (!limit_cost_fits(step->limit, plan->op, plan->cost))
			denial_for_excess_cost(step, step_decision);
		else if (step_decision->allowed)
			step->charged = has_charged && algo_is_reported(&step->limit->algo);
		else
			denial_set_refused(step, step_decision);
		break;
	case PLAN_REFUND_PERMIT:
		permits_merge_decision(plan, step, step_decision, decision);
		return true;
	case PLAN_PEEK_OTHERS:
		return can_still_wait(plan, step, step_decision, decision);
	case PLAN_PEEK_WHERE_FIRST:
	case PLAN_PEEK_AWAITED:
		*decision = *step_decision;
		break;
	default: /* PLAN_ROLL_BACK, PLAN_REFUND_SHADOW, PLAN_REFUND_ALL */
		step->charged = false;
		return true;
	}
	if (plan->step_decisions)
		plan->step_decisions[step - plan->steps] = *step_decision;
	return step_decision->allowed || plan->stage == PLAN_SHADOW;
}

/* Applies a step's decision to the plan, and records a refusal. */
__attribute__((always_inline)) static inline void
record_in_plan(struct plan *plan, struct plan_step *step, struct weir_decision *step_decision,
               struct weir_decision *decision)
{
	if (!apply_result(plan, step, step_decision, decision) && !plan->steps_are_independent)
		denial_record(plan, step, step_decision, decision);
}

struct algo_call stage_call(const struct plan *plan, const struct plan_step *step)
{
	return make_call(plan, step);
}

bool stage_includes(const struct plan *plan, const struct plan_step *step)
{
	return is_in_stage(plan, step);
}

void stage_record(const struct decision_context *context, struct plan *plan, struct plan_step *step,
                  uint64_t until_ns, struct weir_decision *step_decision,
                  struct weir_decision *decision)
{
	record_in_step(context, plan, step, until_ns, step_decision);
	record_in_plan(plan, step, step_decision, decision);
}

/* Runs one pass over the steps of the stage, until a step is refused (plan->refused_step). */
static void run_pass(const struct decision_context *context, struct plan *plan, unsigned pass,
                     struct weir_decision *decision)
{
	for (size_t i = 0; i < plan->step_count; i++) {
		struct plan_step *step;
		struct algo_call call;
		struct weir_decision step_decision;

		if (!plan->none_refused && !continues_after_refusal(plan, i))
			break;
		step = step_to_run(plan, i, pass);
		if (!step)
			continue;
		call = make_call(plan, step);
		run_in_memory(context, plan, step, &call, &step_decision);
		record_in_plan(plan, step, &step_decision, decision);
	}
}

/*
 * Runs the stage's steps in memory. Charges come in an order that leaves the least to roll back:
 * see order_steps.c.
 */
void stage_run(const struct decision_context *context, struct plan *plan,
               struct weir_decision *decision)
{
	static const unsigned char order[] = {PASS_WITHOUT_PEEK, PASS_AFTER_PEEK, PASS_PACED};

	if (plan->stage == PLAN_SHADOW && !plan->has_shadow)
		return;
	if (plan->stage != PLAN_EXECUTE || !algo_op_consumes(plan->op)) {
		run_pass(context, plan, STAGE_ANY_PASS, decision);
		return;
	}
	for (size_t i = 0; i < sizeof order; i++)
		if (plan->execute_passes & STAGE_PASS(order[i]))
			run_pass(context, plan, STAGE_PASS(order[i]), decision);
}

/* Runs a plan of one step as a single stage, with nothing to peek at or to roll back. */
void stage_run_alone(const struct decision_context *context, struct plan *plan,
                     struct weir_decision *decision)
{
	struct plan_step *step = &plan->direct_step;
	struct algo_call call;

	plan->stage = PLAN_EXECUTE;
	call = make_call(plan, step);
	run_in_memory(context, plan, step, &call, decision);
	step->charged = plan_charges(plan) && decision->allowed && step->charge_ends_ns != 0;
}
