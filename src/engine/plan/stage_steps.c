#include "engine/plan/stage_steps.h"

#include "engine/plan/apply.h"
#include "engine/plan/denial.h"
#include "engine/plan/permits.h"
#include "engine/plan/stage.h"
#include "wait/waitlist.h"

static inline struct algo_call call_of(const struct plan *plan, const struct plan_step *step)
{
	struct algo_call call = {.cost = plan->cost, .permit = plan->permit.id};

	if (stage_refunds(plan->stage)) {
		call.op = ALGO_REFUND;
		call.until_ns = step->until_ns;
		if (plan->stage == PLAN_REFUND_PERMIT)
			permits_call(plan, step, &call);
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
	/* No step may see a cost that its limit could never grant: it is only peeked at. */
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
 * For a step that gives back, or explains a denial: whether its result is recorded. A plan that is
 * denied learns only of steps that it did not know to be refused.
 */
static bool record_late(const struct decision_context *context, const struct plan *plan,
                        const struct plan_step *step, const struct weir_decision *d)
{
	bool gave = stage_refunds(plan->stage);

	if ((gave || !algo_op_requests(plan->op)) && !stage_is_first_of(plan, step->key.hash))
		waitlist_wake(&context->table->waiting, step->key.hash);
	return !gave && !(stage_explains(plan) && (d->allowed || step->refused));
}

/* Notes how a step ended; `d` says how its key stands. */
static inline void record(const struct decision_context *context, const struct plan *plan,
                          struct plan_step *step, uint64_t until_ns, struct weir_decision *d)
{
	if (__builtin_expect(plan->stage >= PLAN_EXPLAIN || !algo_op_requests(plan->op), 0) &&
	    !record_late(context, plan, step, d))
		return;
	step->until_ns = until_ns;
	step->allowed = d->allowed;
	step->reason = d->reason;
	stage_explain(step, d);
}

/* In memory, at once. */
__attribute__((flatten)) static void apply(const struct decision_context *context,
                                           const struct plan *plan, struct plan_step *step,
                                           const struct algo_call *call, struct weir_decision *d)
{
	uint64_t until_ns = __builtin_expect(algo_has_phases(&step->limit->algo), 0)
	                        ? engine_apply_observed(context, step, call, d)
	                        : engine_apply(step->limit, store_step_of(context, step, call), d);

	record(context, plan, step, until_ns, d);
}

/* Whether the step has a part in the plan's stage. */
static inline bool belongs(const struct plan *plan, const struct plan_step *step)
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

/* The `i`-th step of the stage, if it is in memory and has a part in such a pass; else NULL. */
static inline struct plan_step *pick(const struct plan *plan, size_t i, unsigned pass)
{
	struct plan_step *step = &plan->steps[stage_index(plan, i)];

	return STAGE_PASS(step->pass) & pass && !step->remote && belongs(plan, step) ? step : NULL;
}

/* The decision of a plan is that of its tightest step, but the longest wait is that of all. */
static void fold(struct plan *plan, struct plan_step *step, const struct weir_decision *one,
                 struct weir_decision *d)
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
 * Whether the pass goes on to a step although another was refused. Remote steps are asked before
 * those in memory, whichever rule stands first, and a peek at a step before the refused one may
 * name that step instead.
 */
static bool goes_on(const struct plan *plan, size_t i)
{
	bool peeks = plan->stage <= PLAN_PEEK || plan->op == ALGO_PEEK;

	return stage_explains(plan) || (peeks && i < (size_t)(plan->refused - plan->steps));
}

/* Takes note of how a step of the stage ended. Whether the plan passes it. */
static bool note(struct plan *plan, struct plan_step *step, struct weir_decision *one,
                 struct weir_decision *d)
{
	bool takes = plan_charges(plan) && one->allowed && step->until_ns != 0;

	switch ((enum plan_stage)plan->stage) {
	case PLAN_EXECUTE:
		step->charged = takes;
		__attribute__((fallthrough));
	case PLAN_PEEK:
		if (plan->passes)
			fold(plan, step, one, d);
		break;
	case PLAN_EXPLAIN:
	case PLAN_EXPLAIN_SHADOWED:
		if (step->refused || plan->stage == PLAN_EXPLAIN_SHADOWED)
			return one->allowed;
		break;
	case PLAN_SHADOW:
		/* Shadow rules give nothing back but what a request holds until it ends. */
		if (!limit_cost_fits(step->limit, plan->op, plan->cost))
			denial_of_cost(step, one);
		else
			step->charged = takes && algo_is_reported(&step->limit->algo);
		break;
	case PLAN_REFUND_PERMIT:
		permits_fold(plan, step, one, d);
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

__attribute__((always_inline)) static inline void pass_on(struct plan *plan, struct plan_step *step,
                                                          struct weir_decision *one,
                                                          struct weir_decision *d)
{
	if (!note(plan, step, one, d) && !plan->independent)
		denial_record(plan, step, one, d);
}

struct algo_call stage_call(const struct plan *plan, const struct plan_step *step)
{
	return call_of(plan, step);
}

bool stage_includes(const struct plan *plan, const struct plan_step *step)
{
	return belongs(plan, step);
}

void stage_record(const struct decision_context *context, struct plan *plan, struct plan_step *step,
                  uint64_t until_ns, struct weir_decision *one, struct weir_decision *d)
{
	record(context, plan, step, until_ns, one);
	pass_on(plan, step, one, d);
}

/* One pass over the steps of the stage, until one is refused, which plan->refused is then. */
static void run_pass(const struct decision_context *context, struct plan *plan, unsigned pass,
                     struct weir_decision *d)
{
	for (size_t i = 0; i < plan->step_count; i++) {
		struct plan_step *step;
		struct algo_call call;
		struct weir_decision one;

		if (!plan->passes && !goes_on(plan, i))
			break;
		step = pick(plan, i, pass);
		if (!step)
			continue;
		call = call_of(plan, step);
		apply(context, plan, step, &call, &one);
		pass_on(plan, step, &one, d);
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
	call = call_of(plan, step);
	apply(context, plan, step, &call, d);
	step->charged = plan_charges(plan) && d->allowed && step->until_ns != 0;
}
