/* stage_steps.c: runs the steps of a plan's stage in memory, and records their results. */
#include "engine/plan/stage_steps.h"

#include "engine/plan/apply.h"
#include "engine/plan/denial.h"
#include "engine/plan/permits.h"
#include "engine/plan/stage.h"
#include "wait/waitlist.h"

static inline struct algo_call make_call(const struct plan *plan, const struct plan_step *step)
{
	struct algo_call call = {.cost = plan->cost, .permit = plan->permit.id};

	if (stage_refunds(plan->stage)) {
		call.op = ALGO_REFUND;
		call.until_ns = step->until_ns;
		if (plan->stage == PLAN_REFUND_PERMIT)
			permits_fill_call(plan, step, &call);
		return call;
	}
	call.op = plan->stage == PLAN_EXECUTE || plan->stage == PLAN_SHADOW ? plan->op : ALGO_PEEK;
	call.max_wait_ns = plan->max_wait_ns;
	call.priority = step->priority;
	if (__builtin_expect(plan->independent | plan->adds_earlier, 0)) {
		if (plan->feedback)
			call.cost = step->rule->feedback[plan->feedback - 1];
		if (plan->adds_earlier && (call.op == ALGO_PEEK || call.cost == 0)) {
			call.op = ALGO_PEEK;
			denial_charge(plan, step, &call);
		}
		if (plan->independent && step->limit->algo.record == ALGO_RECORD_LOG)
			call.op = algo_op_replacing(call.op);
	}
	/* No limit may get a cost above its quota: peek without a cost instead. */
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
 * records its result. A stage that explains records only refusals that the plan did not have yet.
 */
static bool wakes_and_records(const struct decision_context *context, const struct plan *plan,
                              const struct plan_step *step, const struct weir_decision *d)
{
	bool refunds = stage_refunds(plan->stage);

	if ((refunds || !algo_op_requests(plan->op)) && !stage_is_first_of(plan, step->key.hash))
		waitlist_wake(&context->table->waiting, step->key.hash);
	return !refunds && !(stage_explains(plan) && (d->allowed || step->refused));
}

/* Records the result of a step in the step: `d` is the decision of its limit. */
static inline void record_in_step(const struct decision_context *context, const struct plan *plan,
                                  struct plan_step *step, uint64_t until_ns,
                                  struct weir_decision *d)
{
	if (__builtin_expect(plan->stage >= PLAN_EXPLAIN || !algo_op_requests(plan->op), 0) &&
	    !wakes_and_records(context, plan, step, d))
		return;
	step->until_ns = until_ns;
	step->allowed = d->allowed;
	step->reason = d->reason;
	stage_explain(step, d);
}

/* Runs a step in memory and records its result in the step. */
__attribute__((flatten)) static void run_in_memory(const struct decision_context *context,
                                                   const struct plan *plan, struct plan_step *step,
                                                   const struct algo_call *call,
                                                   struct weir_decision *d)
{
	uint64_t until_ns = __builtin_expect(algo_has_phases(&step->limit->algo), 0)
	                        ? engine_apply_observed(context, step, call, d)
	                        : engine_apply(step->limit, store_step_of(context, step, call), d);

	record_in_step(context, plan, step, until_ns, d);
}

/* Whether the plan's stage runs the step. */
static inline bool is_in_stage(const struct plan *plan, const struct plan_step *step)
{
	switch ((enum plan_stage)plan->stage) {
	case PLAN_PEEK_OWN:
		return !step->shadow && (stage_is_first_of(plan, step->key.hash) ||
		                         (plan->by_order && step < plan->refused));
	case PLAN_PEEK_AWAITED:
		return step == plan->refused;
	case PLAN_PEEK:
		return !step->shadow && step->pass != PASS_WITHOUT_PEEK &&
		       (!step->remote || denial_peeks_ahead(plan, step));
	case PLAN_EXECUTE:
		return !step->shadow;
	case PLAN_EXPLAIN:
		return denial_peeks_at(plan, step);
	case PLAN_EXPLAIN_SHADOWED:
		return denial_is_shadowed(plan, step);
	case PLAN_SHADOW:
		return step->shadow && !stage_is_below(plan, step);
	case PLAN_REFUND_SHADOW:
		return step->charged && step->shadow;
	default:
		return step->charged;
	}
}

/* Returns the `i`-th step of the stage if it runs in memory and in this pass, or NULL. */
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
                           const struct weir_decision *one, struct weir_decision *d)
{
	bool first = plan->tightest == PLAN_NO_STEP;
	bool paced = one->paced || (!first && d->paced);
	uint64_t wait_ns = u64_max(one->wait_ns, first ? 0 : d->wait_ns);
	uint32_t i = (uint32_t)(step - plan->steps);

	if (first || !one->allowed || one->remaining < d->remaining ||
	    (one->remaining == d->remaining && i < plan->tightest)) {
		*d = *one;
		plan->tightest = i;
	}
	d->paced = paced;
	d->wait_ns = one->allowed ? wait_ns : 0;
}

/*
 * Whether the pass runs step `i` although another step was refused. Remote steps are refused before
 * the steps in memory run, so a peek may find a refused step that is earlier in the order of the
 * rules, which the denial then names.
 */
static bool continues_after_refusal(const struct plan *plan, size_t i)
{
	bool peeks = plan->stage <= PLAN_PEEK || plan->op == ALGO_PEEK;

	return stage_explains(plan) || (peeks && i < (size_t)(plan->refused - plan->steps));
}

/* Applies a step's decision to the plan. Returns false if the step refuses the plan. */
static bool apply_result(struct plan *plan, struct plan_step *step, struct weir_decision *one,
                         struct weir_decision *d)
{
	bool takes = plan_charges(plan) && one->allowed && step->until_ns != 0;

	switch ((enum plan_stage)plan->stage) {
	case PLAN_EXECUTE:
		step->charged = takes;
		__attribute__((fallthrough));
	case PLAN_PEEK:
		if (plan->passes)
			merge_decision(plan, step, one, d);
		break;
	case PLAN_EXPLAIN:
	case PLAN_EXPLAIN_SHADOWED:
		if (step->refused || plan->stage == PLAN_EXPLAIN_SHADOWED)
			return one->allowed;
		break;
	case PLAN_SHADOW:
		/* The charges of shadow rules stay, except those that last only as long as the request. */
		if (!limit_cost_fits(step->limit, plan->op, plan->cost))
			denial_of_cost(step, one);
		else
			step->charged = takes && algo_is_reported(&step->limit->algo);
		break;
	case PLAN_REFUND_PERMIT:
		permits_merge_decision(plan, step, one, d);
		return true;
	case PLAN_PEEK_OWN:
	case PLAN_PEEK_AWAITED:
		*d = *one;
		break;
	default:
		step->charged = false;
		return true;
	}
	if (plan->step_decisions)
		plan->step_decisions[step - plan->steps] = *one;
	return one->allowed || plan->stage == PLAN_SHADOW;
}

__attribute__((always_inline)) static inline void record_in_plan(struct plan *plan,
                                                                 struct plan_step *step,
                                                                 struct weir_decision *one,
                                                                 struct weir_decision *d)
{
	if (!apply_result(plan, step, one, d) && !plan->independent)
		denial_record(plan, step, one, d);
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
                  uint64_t until_ns, struct weir_decision *one, struct weir_decision *d)
{
	record_in_step(context, plan, step, until_ns, one);
	record_in_plan(plan, step, one, d);
}

/* Runs one pass over the steps of the stage, until a step is refused (plan->refused). */
static void run_pass(const struct decision_context *context, struct plan *plan, unsigned pass,
                     struct weir_decision *d)
{
	for (size_t i = 0; i < plan->step_count; i++) {
		struct plan_step *step;
		struct algo_call call;
		struct weir_decision one;

		if (!plan->passes && !continues_after_refusal(plan, i))
			break;
		step = step_to_run(plan, i, pass);
		if (!step)
			continue;
		call = make_call(plan, step);
		run_in_memory(context, plan, step, &call, &one);
		record_in_plan(plan, step, &one, d);
	}
}

void stage_run(const struct decision_context *context, struct plan *plan, struct weir_decision *d)
{
	static const unsigned char order[] = {PASS_WITHOUT_PEEK, PASS_AFTER_PEEK, PASS_PACED};

	if (plan->stage == PLAN_SHADOW && !plan->has_shadow)
		return;
	if (plan->stage != PLAN_EXECUTE || !algo_op_consumes(plan->op)) {
		run_pass(context, plan, STAGE_ANY_PASS, d);
		return;
	}
	for (size_t i = 0; i < sizeof order; i++)
		if (plan->execute_passes & STAGE_PASS(order[i]))
			run_pass(context, plan, STAGE_PASS(order[i]), d);
}

void stage_run_alone(const struct decision_context *context, struct plan *plan,
                     struct weir_decision *d)
{
	struct plan_step *step = &plan->only;
	struct algo_call call;

	plan->stage = PLAN_EXECUTE;
	call = make_call(plan, step);
	run_in_memory(context, plan, step, &call, d);
	step->charged = plan_charges(plan) && d->allowed && step->until_ns != 0;
}
