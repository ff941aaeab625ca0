/*
 * decide.c: runs a plan from stage to stage until it is decided, waits, or has steps at a store.
 *
 * A plan decides one request: each of its steps is an operation on one key of one limit, and either
 * all enforced steps charge their keys or none does. It peeks first, then charges. If a step is
 * refused, the plan rolls back its charges and waits or is denied. Steps of shadow rules only
 * count.
 *
 * The stages of a request, in their order:
 *
 *     PEEK_WHERE_FIRST   if other requests wait for one of its keys, the *awaited* one: it will be
 *     PEEK_AWAITED       refused in any case; finds whether by an earlier step, and the decision
 *     PEEK, EXECUTE      otherwise: peeks at the steps, then charges them
 *     ROLL_BACK          if a step was refused: refunds the charges
 *     REFUSED            waits, to begin anew later, or is denied
 *     PEEK_OTHERS        before it waits: finds whether another limit denies it for good
 *     EXPLAIN            finds the retry time of a denial
 *     SHADOW             runs the steps of shadow rules
 *     EXPLAIN_SHADOWED   finds the retry time of keys that they have charged
 *     REFUND_SHADOW      of a denial: refunds those that last only as long as a request
 *
 * A rule may answer by itself, without asking limits or when one of them refuses (stage.h).
 */
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
                    struct weir_decision *decision)
{
	if (!remote_run_stage(context, plan, decision))
		return false;
	stage_run(context, plan, decision);
	failure_mark_degraded(plan, decision);
	return true;
}

/* Runs the steps of the stage. Returns false if remote steps are still at their stores. */
static bool run_stage(const struct decision_context *context, struct plan *plan,
                      struct weir_decision *decision)
{
	if (__builtin_expect(plan->has_remote_steps, 0))
		return run_stage_at_stores(context, plan, decision);
	stage_run(context, plan, decision);
	return true;
}

/*
 * Returns true if a refused plan waits for the key that refused it. Otherwise the refusal is final:
 * `decision` becomes the answer of a rule or a denial, unless it is the step's denial already. The
 * steps may have allowed a plan that is refused because other requests wait before it.
 */
static bool wait_or_deny(struct plan *plan, struct weir_decision *decision)
{
	const struct rules_rule *ending_rule = stage_ending_rule(plan);
	enum weir_reason reason;

	if (ending_rule)
		denial_decide_by_rule(ending_rule, decision);
	if (ending_rule || !plan->respects_queue)
		return false;
	reason = denial_reason(plan, plan->refused_step, decision);
	if (reason == WEIR_REASON_OK) { /* it can wait */
		plan->awaited_key_hash = plan->refused_step->key.hash;
		return true;
	}
	denial_decide(plan, reason, decision);
	return false;
}

/*
 * Whether a plan that is to wait first asks its other limits: one of them may deny it for good.
 * Otherwise a client that is over a limit of its own would fill the queue of a limit that it shares
 * with others. A plan asks once, before it waits for the first time.
 */
static bool asks_others_first(struct plan *plan)
{
	if (plan->queue_position >= WAIT_BEHIND || plan->asked_others)
		return false;
	for (size_t i = 0; i < plan->step_count; i++)
		plan->asked_others |= denial_asks_before_wait(plan, &plan->steps[i]);
	plan->peek_adds_earlier_charges |= plan->asked_others;
	return plan->asked_others;
}

/* Whether metrics count the plan: only acquires, of which all steps must pass. */
static bool counts_for_metrics(const struct decision_context *context, const struct plan *plan)
{
	return context->observe && algo_op_consumes(plan->op) && !plan->steps_are_independent;
}

static bool is_denied(const struct plan *plan)
{
	const struct rules_rule *ending_rule = stage_ending_rule(plan);

	return ending_rule ? ending_rule->answer == RULES_DENY : plan->refused_step != NULL;
}

/*
 * Ends a plan whose decision is final. Returns its next stage: a denied plan must still refund
 * those charges of shadow steps that last only as long as a request.
 */
static inline enum plan_stage end_plan(const struct decision_context *context, struct plan *plan)
{
	plan->queue_position = WAIT_NEW;
	if (is_denied(plan) && algo_op_consumes(plan->op))
		return PLAN_REFUND_SHADOW;
	if (__builtin_expect(plan->permit.id != 0, 0))
		permits_issue(context, plan);
	return PLAN_DONE;
}

/*
 * Passes to the metrics the enforced steps that decided: all of them, or the one that was refused.
 * If a rule answered by itself, none did. Passes all shadow steps, too, but where the first refusal
 * decides, only those of rules before it: later rules did not run.
 */
static void observe_steps(const struct decision_context *context, const struct plan *plan)
{
	const struct plan_step *refused_step = plan->refused_step;
	bool limits_decided = !stage_deciding_rule(plan); /* and not a rule by itself */

	for (size_t i = 0; i < plan->step_count; i++) {
		const struct plan_step *step = &plan->steps[i];

		bool has_decided = limits_decided && (!refused_step || refused_step == step);

		if (step->shadow ? !stage_is_below_decision(plan, step) : has_decided)
			context->observe(context->owner, plan, step);
	}
}

/* Ends a plan, and counts it for metrics. Returns its next stage. */
static enum plan_stage observe_and_end(const struct decision_context *context, struct plan *plan)
{
	if (counts_for_metrics(context, plan))
		observe_steps(context, plan);
	return end_plan(context, plan);
}

/*
 * Returns the stage after a refusal that is final. The denial names a time for a retry, for which
 * PLAN_EXPLAIN may have to peek at steps that did not run.
 */
static enum plan_stage refused_stage(struct plan *plan, struct weir_decision *decision)
{
	bool is_denial =
	    !denial_has_one_step(plan) && algo_op_requests(plan->op) && !stage_ending_rule(plan);

	plan->peek_adds_earlier_charges = is_denial && denial_needs_peek(plan);
	if (is_denial && !plan->peek_adds_earlier_charges)
		denial_set_retry_after(plan, decision);
	return plan->peek_adds_earlier_charges ? PLAN_EXPLAIN : PLAN_SHADOW;
}

/* Returns the stage that follows the one that has just run. */
static enum plan_stage next_stage(const struct decision_context *context, struct plan *plan)
{
	bool passed = plan->none_refused;
	bool must_refund_all = plan->cancelled || plan->status != WEIR_OK;
	bool has_own_charges = plan->stage < PLAN_REFUND_PERMIT; /* stages of a request, not a refund */

	if (__builtin_expect(must_refund_all, 0) && has_own_charges)
		return PLAN_REFUND_ALL;
	switch ((enum plan_stage)plan->stage) {
	case PLAN_PEEK_WHERE_FIRST:
		return passed ? PLAN_PEEK_AWAITED : PLAN_REFUSED;
	case PLAN_PEEK:
		if (!passed)
			return PLAN_REFUSED;
		if (plan->cost_exceeds_limit) {
			plan->status = WEIR_ECOST;
			plan->permit.id = 0;
			return PLAN_DONE;
		}
		return plan->answering_rule || !algo_op_consumes(plan->op) ? PLAN_SHADOW : PLAN_EXECUTE;
	case PLAN_EXECUTE:
		return passed ? PLAN_SHADOW : denial_next_stage(plan);
	case PLAN_SHADOW:
		if (__builtin_expect(plan->refused_step != NULL, 0) && !stage_deciding_rule(plan) &&
		    denial_needs_second_peek(plan)) {
			plan->peek_adds_earlier_charges = true;
			return PLAN_EXPLAIN_SHADOWED;
		}
		return observe_and_end(context, plan);
	case PLAN_EXPLAIN_SHADOWED:
		return observe_and_end(context, plan);
	case PLAN_PEEK_AWAITED:
	case PLAN_PEEK_OTHERS:
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
	plan->none_refused = true;
	plan->submitted = false;
}

/* Runs stages until the plan is done, or waits for a key or a store. */
static enum engine_state run_stages(const struct decision_context *context, struct plan *plan,
                                    struct weir_decision *decision)
{
	while (plan->stage != PLAN_DONE) {
		if (plan->stage == PLAN_REFUSED) {
			bool waits = wait_or_deny(plan, decision);

			if (waits && !asks_others_first(plan))
				return ENGINE_WAITS;
			begin_stage(plan, waits ? PLAN_PEEK_OTHERS : refused_stage(plan, decision));
		}
		if (!run_stage(context, plan, decision))
			return ENGINE_SUBMITTED;
		if (stage_explains(plan))
			denial_set_retry_after(plan, decision);
		/* A rule behind the steps answers by itself when none of them is refused. */
		if (plan->answering_rule && plan->none_refused && plan->stage == PLAN_PEEK)
			denial_decide_by_rule(plan->answering_rule, decision);
		begin_stage(plan, next_stage(context, plan));
	}
	return ENGINE_DONE;
}

/* As run_stages, and releases the memory that the plan's steps had at remote stores. */
static enum engine_state run_to_end(const struct decision_context *context, struct plan *plan,
                                    struct weir_decision *decision)
{
	enum engine_state state = run_stages(context, plan, decision);

	if (__builtin_expect(plan->submission && state != ENGINE_SUBMITTED, 0))
		submit_close(plan);
	decision->allowed &= plan->status == WEIR_OK; /* a store's error is never allowed */
	return state;
}

/* Runs a plan of one step in memory that never waits, without stages: most requests are such. */
static void run_direct(const struct decision_context *context, struct plan *plan,
                       struct weir_decision *decision)
{
	struct plan_step *step = &plan->direct_step;

	stage_run_alone(context, plan, decision);
	plan->refused_step = NULL;
	if (!decision->allowed)
		denial_record(plan, step, decision, decision);
	if (counts_for_metrics(context, plan))
		context->observe(context->owner, plan, step);
	if (end_plan(context, plan) == PLAN_REFUND_SHADOW)
		plan->permit.id = 0;
	plan->stage = PLAN_DONE;
}

/*
 * Finds the first enforced step for whose key other requests wait before this one, or NULL. The key
 * of which this one is the first waiter is not such a key.
 */
static struct plan_step *find_awaited_step(const struct decision_context *context,
                                           const struct plan *plan)
{
	struct waitlist *list = waitlist_at(&context->table->waiting);

	for (size_t i = 0; i < plan->step_count; i++) {
		struct plan_step *step = &plan->steps[i];

		if (!step->shadow && !stage_is_first_waiter(plan, step->key.hash) &&
		    waitlist_has(list, step->key.hash))
			return step;
	}
	return NULL;
}

/*
 * Begins the first stage of a plan that requests units or resets. One that has yielded once (it
 * left a queue whose first it was) does not yield to other requests again.
 */
static void begin_first_stage(const struct decision_context *context, struct plan *plan)
{
	bool peeks, may_yield = plan->respects_queue && plan->queue_position != WAIT_YIELDED;

	plan->asked_others = plan->peek_adds_earlier_charges = false;
	peeks = stage_order_steps(plan);
	if (may_yield)
		plan->refused_step = find_awaited_step(context, plan);
	if (plan->refused_step)
		begin_stage(plan, PLAN_PEEK_WHERE_FIRST);
	else
		begin_stage(plan, peeks ? PLAN_PEEK : PLAN_EXECUTE);
}

/* Runs a plan from its first stage, also one that waited and tries again. */
static enum engine_state start_plan(const struct decision_context *context, struct plan *plan,
                                    struct weir_decision *decision)
{
	bool refunds_by_permit = algo_op_releases(plan->op) && plan->permit.id != 0;
	bool is_direct = plan->steps == &plan->direct_step && !plan->respects_queue;

	if (__builtin_expect(plan->wants_permit && plan->permit.id == 0, 0))
		plan->permit.id = permit_random_id();
	if (is_direct && !refunds_by_permit && !plan->has_remote_steps) {
		run_direct(context, plan, decision);
		return ENGINE_DONE;
	}
	if (__builtin_expect(plan->has_remote_steps, 0))
		failure_move_steps_back(context->table, plan);
	*decision = (struct weir_decision){.allowed = true, .reason = WEIR_REASON_OK};
	plan->refused_step = NULL;
	if (plan->answering_rule && plan->step_count == 0) {
		denial_decide_by_rule(plan->answering_rule, decision);
		plan->permit.id = 0; /* it has no charges */
		plan->stage = PLAN_DONE;
	} else if (refunds_by_permit) {
		permits_drop_ended(context, plan);
		permits_redeem(context, plan);
		decision->allowed = false; /* until a step finds a charge of the permit */
		begin_stage(plan, PLAN_REFUND_PERMIT);
	} else {
		begin_first_stage(context, plan);
	}
	return run_to_end(context, plan, decision);
}

/* Decides at once: never waits, and passes requests that wait. */
enum engine_state engine_decide(const struct decision_context *context, struct plan *plan,
                                struct weir_decision *decision)
{
	plan->respects_queue = false;
	return start_plan(context, plan, decision);
}

/* Whether any request waits for a key. */
static bool others_wait(const struct weir_table *table)
{
	const struct waitlist *list = waitlist_at(&table->waiting);

	return list && waitlist_count(list) > 0;
}

/* Decides in turn: may wait, and does not pass requests that wait. */
enum engine_state engine_run(const struct decision_context *context, struct plan *plan,
                             struct weir_decision *decision)
{
	plan->respects_queue =
	    algo_op_requests(plan->op) &&
	    (engine_may_wait(plan) || others_wait(context->table) || plan->queue_position == WAIT_LATE);
	return start_plan(context, plan, decision);
}

/* Goes on after the stores have completed the plan's steps, or tries a plan that waited again. */
enum engine_state engine_resume(const struct decision_context *context, struct plan *plan,
                                struct weir_decision *decision)
{
	if (plan->stage == PLAN_REFUSED) {
		denial_clear_attempt(plan);
		return start_plan(context, plan, decision);
	}
	submit_decision(plan, decision);
	return run_to_end(context, plan, decision);
}

/* Ends the wait of a plan, for example because its time is over. */
enum engine_state engine_deny(const struct decision_context *context, struct plan *plan,
                              enum weir_reason reason, struct weir_decision *decision)
{
	denial_decide(plan, reason, decision);
	begin_stage(plan, refused_stage(plan, decision));
	return run_to_end(context, plan, decision);
}

/*
 * Refunds the charges of a plan whose client is gone. If stores still have its steps, it only marks
 * the plan: the refund follows when they have completed them.
 */
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

/*
 * Runs a refund by permit as a report (REPORT or SETTLE): the request that got the permit has
 * ended. Redeems the permit, unless it must be claimed before, since another server may have it,
 * too. Without a limit that needs reports, nothing is redeemed or refunded: the steps run with a
 * cost of 0, and `decision` only says whether the permit was outstanding.
 */
static enum engine_state run_report(const struct decision_context *context, struct plan *plan,
                                    enum algo_op op, struct weir_decision *decision)
{
	struct store *store = context->table->store;

	*decision = (struct weir_decision){.reason = WEIR_REASON_OK};
	plan->op = (unsigned char)op;
	permits_drop_ended(context, plan);
	if (engine_is_reported(plan)) {
		plan->permit_is_valid = plan->needs_claim
		                            ? permit_is_outstanding(store, plan->permit, context->at.now_ns)
		                            : permit_redeem(store, plan->permit, context->at.now_ns);
		drop_other_charges(plan);
	} else {
		decision->allowed = permits_are_outstanding(context, plan);
	}
	begin_stage(plan, PLAN_REFUND_PERMIT);
	return run_to_end(context, plan, decision);
}

enum engine_state engine_report(const struct decision_context *context, struct plan *plan,
                                struct weir_decision *decision)
{
	return run_report(context, plan, ALGO_REPORT, decision);
}

/*
 * Another server has claimed a permit of this server: ends its charges in memory. Remote charges
 * are refunded by that server.
 */
void engine_settle(const struct decision_context *context, struct plan *plan, bool reports)
{
	struct weir_decision ignored;

	plan->needs_claim = plan->has_remote_steps = false;
	for (size_t i = 0; i < plan->step_count; i++)
		plan->steps[i].charged &= !plan->steps[i].remote;
	if (reports)
		run_report(context, plan, ALGO_SETTLE, &ignored);
	else
		engine_run(context, plan, &ignored);
}

static bool step_may_wait(const struct plan_step *step, uint64_t max_wait_ns)
{
	return !step->shadow &&
	       (step->limit->algo.paced || wait_patience_ns(&step->limit->algo, max_wait_ns) > 0);
}

bool engine_may_wait(const struct plan *plan)
{
	bool a_step_may_wait = false;

	for (size_t i = 0; i < plan->step_count && !a_step_may_wait; i++)
		a_step_may_wait = step_may_wait(&plan->steps[i], plan->max_wait_ns);
	return a_step_may_wait && plan_charges(plan) && plan->max_wait_ns != WEIR_ZERO;
}
