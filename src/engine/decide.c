/*
 * decide.c: steps -> one decision.
 *
 * Several limits are all or nothing. They are peeked first, so that a request
 * that some limit refuses touches none; then each is charged, and where
 * another thread took the last of one in between, those charged before it are
 * given back. Never more than the limit passes; what a request that is being
 * taken back holds for a moment may deny others, by its cost at most.
 */
#include "engine/engine.h"

#include "wait/waitlist.h"

__attribute__((flatten)) uint64_t engine_apply_slow(struct weir_table *table,
                                                    const struct weir_limit *limit,
                                                    struct memory_key key, struct algo_call call,
                                                    struct moment at,
                                                    struct weir_decision *decision)
{
	struct algo_time time = algo_time_at(&limit->algo, at);
	const struct algo_limit *algo = algo_current(&limit->algo);
	struct algo_outcome outcome;
	uint64_t until_ns;

	if (algo->algorithm == WEIR_RANDOM) {
		limit_draw(limit, &call, decision);
		return 0;
	}
	until_ns = memory_apply(table, &algo, &key, &call, &time, &outcome);
	limit_explain(limit, algo, &outcome, decision);
	return until_ns;
}

__attribute__((noinline)) static uint64_t try_open(const struct weir_limit *limit,
                                                   const struct memory_key *key, uint64_t cost,
                                                   uint64_t now_ns, struct weir_decision *decision)
{
	struct algo_outcome outcome;
	uint64_t until_ns;

	if (!wide_try_open(&limit->algo, key, cost, now_ns, &outcome, &until_ns))
		return 0;
	limit_explain(limit, &limit->algo, &outcome, decision);
	return until_ns;
}

/* A call of its own for windows: a log's outcome has no address then (docs/design/speed.md). */
uint64_t engine_try_row(const struct weir_limit *limit, struct memory_key key, uint64_t cost,
                        uint64_t now_ns, struct weir_decision *decision)
{
	struct algo_outcome outcome;
	uint64_t until_ns;

	if (limit->algo.is_summed)
		return try_open(limit, &key, cost, now_ns, decision);
	if (!wide_try_log(&limit->algo, &key, cost, now_ns, &outcome, &until_ns))
		return 0;
	limit_explain(limit, &limit->algo, &outcome, decision);
	return until_ns;
}

int engine_prepare_limit(struct weir_table *table, const struct weir_limit *limit,
                         const struct algo_call *call, struct slice key, struct plan *plan)
{
	int status = limit_check(limit, call->op, key.len, call->cost);
	struct memory_key wanted;

	if (status == WEIR_OK)
		status = memory_admit(table, &limit->algo,
		                      memory_hash(table, limit->algo.identity, key.data, key.len), &wanted);
	if (status != WEIR_OK)
		return status;
	plan->op = call->op;
	plan->cost = call->cost;
	plan->max_wait_ns = 0;
	plan->position = WAIT_NEW;
	plan->direct = (struct step){
	    .limit = limit,
	    .key = wanted,
	    .key_name = key,
	};
	plan->step_count = 0;
	plan->each = NULL;
	plan->permit = (struct permit){0, 0};
	plan->wants_permit = false;
	return WEIR_OK;
}

void engine_fetch(const struct weir_table *table, const struct plan *plan)
{
	if (plan->direct.limit)
		memory_touch(table, &plan->direct.key);
	for (size_t i = 0; i < plan->step_count; i++)
		memory_touch(table, &plan->steps[i].key);
}

static void locate(const struct turn *turn, struct memory_key *key)
{
	memory_locate(turn->table, key, turn->at.now_ns);
	if (!key->cell)
		memory_fetch_run(turn->table, key);
}

void engine_locate(const struct turn *turn, struct plan *plan)
{
	if (plan->direct.limit)
		locate(turn, &plan->direct.key);
	for (size_t i = 0; i < plan->step_count; i++)
		locate(turn, &plan->steps[i].key);
}

__attribute__((flatten)) static void apply(const struct turn *turn, struct step *step,
                                           const struct algo_call *call,
                                           struct weir_decision *d)
{
	step->until_ns = engine_apply(turn->table, step->limit, &step->key, call, turn->at, d);
	if (call->op >= ALGO_REFUND)
		waitlist_wake(&turn->table->waiting, step->key.hash);
	step->allowed = d->allowed;
	step->reason = d->reason;
	d->rule = step->rule;
	d->result = d->allowed ? NULL : step->result;
}

/*
 * The enforced step at `i` in the order of charging, which counts twice as many as there
 * are steps, or NULL. Steps of paced limits are in the second half: only the newest start
 * can be given back, so they had better not be asked to.
 */
static struct step *in_order(const struct plan *plan, size_t i, enum algo_op op)
{
	bool second = i >= plan->step_count;
	struct step *step = &plan->steps[second ? i - plan->step_count : i];
	bool last = op == ALGO_ACQUIRE && step->limit->algo.paced;

	return step->shadow || last != second ? NULL : step;
}

/* It would wake itself, and take and give back for ever, where two rules charge one key. */
static bool is_first_of(const struct plan *plan, uint64_t hash)
{
	return plan->position >= WAIT_FIRST && plan->waits_at == hash;
}

/* Each goes back to the very window that it was taken from. */
static void give_back(const struct turn *turn, const struct plan *plan, size_t steps)
{
	for (size_t i = 0; i < steps; i++) {
		const struct step *taken = in_order(plan, i, ALGO_ACQUIRE);
		struct weir_decision ignored;

		if (taken) {
			struct algo_call call = {
			    ALGO_REFUND, plan->cost, taken->until_ns, .permit = plan->permit.id};
			struct memory_key key = taken->key;

			engine_apply(turn->table, taken->limit, &key, &call, turn->at, &ignored);
			if (!is_first_of(plan, key.hash))
				waitlist_wake(&turn->table->waiting, key.hash);
		}
	}
}

/* Enforced steps in order until one is refused, whose index is returned, or step_count. */
static size_t run_enforced(const struct turn *turn, const struct plan *plan,
                           const struct algo_call *call, struct weir_decision *d)
{
	size_t tightest = plan->step_count;
	uint64_t wait_ns = 0; /* the longest is that of all */
	bool paced = false;

	for (size_t n = 0; n < 2 * plan->step_count; n++) {
		struct step *step = in_order(plan, n, call->op);
		struct weir_decision one;
		size_t i;

		if (!step)
			continue;
		i = (size_t)(step - plan->steps);
		apply(turn, step, call, &one);
		if (plan->each)
			plan->each[i] = one;
		if (tightest == plan->step_count || !one.allowed || one.remaining < d->remaining ||
		    (one.remaining == d->remaining && i < tightest)) {
			*d = one;
			tightest = i;
		}
		d->paced = paced |= one.paced;
		d->wait_ns = wait_ns = u64_max(wait_ns, one.wait_ns);
		if (!one.allowed) {
			d->wait_ns = 0;
			if (call->op == ALGO_ACQUIRE && call->cost > 0)
				give_back(turn, plan, n);
			return i;
		}
	}
	return plan->step_count;
}

/*
 * A cost that the limit could never grant is an error where the rule is enforced. Here it
 * counts as denied; no step may see it, so the key is only peeked at.
 */
static void deny_cost(const struct turn *turn, struct step *step,
                      struct weir_decision *d)
{
	struct algo_call peek = {.op = ALGO_PEEK};

	apply(turn, step, &peek, d);
	step->until_ns = 0;
	step->allowed = d->allowed = false;
	step->reason = d->reason = WEIR_REASON_OVER_LIMIT;
	d->result = step->result;
	d->wait_ns = 0;
	d->retry_after_ns = ALGO_HORIZON_NS; /* further ahead than anything: never */
}

static void run_shadow(const struct turn *turn, const struct plan *plan,
                       const struct algo_call *call)
{
	struct weir_decision ignored;

	for (size_t i = 0; i < plan->step_count; i++) {
		struct step *step = &plan->steps[i];
		struct weir_decision *d = plan->each ? &plan->each[i] : &ignored;

		if (!step->shadow)
			continue;
		if (limit_cost_fits(step->limit, call->op, call->cost))
			apply(turn, step, call, d);
		else
			deny_cost(turn, step, d);
	}
}

static void observe_all(const struct turn *turn, const struct plan *plan,
                        const struct step *refused)
{
	for (size_t i = 0; i < plan->step_count; i++)
		if (plan->steps[i].shadow || !refused || refused == &plan->steps[i])
			turn->observe(turn->context, &plan->steps[i]);
}

static struct algo_call call_of(const struct plan *plan, enum algo_op op)
{
	return (struct algo_call){.op = op,
	                          .cost = plan->cost,
	                          .permit = plan->permit.id,
	                          .max_wait_ns = plan->max_wait_ns};
}

static void draw_permit(struct plan *plan)
{
	if (__builtin_expect(plan->wants_permit, 0))
		plan->permit.id = permit_draw();
}

/* Takes from all enforced steps, or from none and returns the one that refused. */
static struct step *run(const struct turn *turn, struct plan *plan, struct weir_decision *d)
{
	struct algo_call call = call_of(plan, plan->op), peek = call_of(plan, ALGO_PEEK);
	size_t refused = plan->step_count;

	if (plan->direct.limit) {
		apply(turn, &plan->direct, &call, d);
		return d->allowed ? NULL : &plan->direct;
	}
	*d = (struct weir_decision){.allowed = true, .reason = WEIR_REASON_OK};
	if (plan->listed_rule) {
		d->allowed = plan->listed_allowed;
		d->reason = WEIR_REASON_LISTED;
		d->rule = plan->listed_rule;
		d->result = d->allowed ? NULL : plan->listed_result;
		d->retry_after_ns = d->allowed ? 0 : ALGO_RETRY_DEFAULT_NS; /* no limit says better */
		return NULL;
	}
	if (call.op == ALGO_ACQUIRE && plan->enforced_count > 1)
		refused = run_enforced(turn, plan, &peek, d);
	if (refused == plan->step_count)
		refused = run_enforced(turn, plan, &call, d);
	return refused < plan->step_count ? &plan->steps[refused] : NULL;
}

/* What is left to do when it is decided, by whom it was refused. */
static void conclude(const struct turn *turn, struct plan *plan,
                     const struct step *refused)
{
	struct algo_call call = call_of(plan, plan->op);
	bool observed = turn->observe && plan->op == ALGO_ACQUIRE; /* else nothing passes or is denied */

	if (plan->direct.limit) {
		if (observed)
			turn->observe(turn->context, &plan->direct);
	} else if (!plan->listed_rule) {
		run_shadow(turn, plan, &call);
		if (observed)
			observe_all(turn, plan, refused);
	}
	if (refused && plan->op == ALGO_ACQUIRE)
		permits_drop(turn, plan);
	else if (__builtin_expect(plan->permit.id != 0, 0))
		permits_hold(turn, plan);
}

void engine_decide(const struct turn *turn, struct plan *plan, struct weir_decision *decision)
{
	struct step *refused;

	if (plan->op == ALGO_REFUND && plan->permit.id != 0) {
		permits_refund(turn, plan, decision);
		return;
	}
	draw_permit(plan);
	refused = run(turn, plan, decision);
	conclude(turn, plan, refused);
}

bool engine_forget(const struct turn *turn, const struct plan *plan)
{
	const struct memory_key *key = &plan->direct.key;
	bool had = memory_forget(turn->table, key, turn->at.now_ns);

	waitlist_wake(&turn->table->waiting, key->hash);
	return had;
}

bool engine_others_wait(const struct weir_table *table)
{
	const struct waitlist *list = waitlist_at(&table->waiting);

	return list && waitlist_count(list) > 0;
}

/* Of the keys that others wait for the first, or NULL. */
static struct step *waited_for(const struct turn *turn, struct plan *plan)
{
	struct waitlist *list = waitlist_at(&turn->table->waiting);

	for (size_t i = 0; i < plan_step_count(plan); i++) {
		struct step *step = plan_step_at(plan, i);

		if (!step->shadow && !is_first_of(plan, step->key.hash) &&
		    waitlist_has(list, step->key.hash))
			return step;
	}
	return NULL;
}

/* What a request has to wait for before it may try, or NULL; how that stands is in *d. */
static struct step *goes_behind(const struct turn *turn, struct plan *plan,
                                         const struct algo_call *peek,
                                         struct weir_decision *d)
{
	struct step *others =
	    plan->position == WAIT_YIELDED ? NULL : waited_for(turn, plan);

	/* It lets nobody go ahead for nothing. */
	for (size_t i = 0; others && i < plan->step_count; i++) {
		struct step *own = &plan->steps[i];

		if (own->shadow || !is_first_of(plan, own->key.hash))
			continue;
		apply(turn, own, peek, d);
		if (!d->allowed)
			return own;
	}
	if (others)
		apply(turn, others, peek, d);
	return others;
}

void engine_deny(const struct turn *turn, struct plan *plan,
                 struct step *step, enum weir_reason reason, struct weir_decision *decision)
{
	wait_deny(decision, reason);
	decision->result = step->result;
	step->allowed = false;
	step->reason = reason;
	conclude(turn, plan, step);
}

struct step *engine_decide_in_order(const struct turn *turn,
                                             struct plan *plan,
                                             struct weir_decision *d)
{
	struct step *step;
	struct algo_call peek;
	bool asks = plan->op != ALGO_ACQUIRE || plan->cost == 0; /* it waits for nobody */
	enum weir_reason reason;

	if (plan->op > ALGO_PEEK) {
		engine_decide(turn, plan, d);
		return NULL;
	}
	draw_permit(plan);
	peek = call_of(plan, ALGO_PEEK);
	step = goes_behind(turn, plan, &peek, d);
	if (!step && !(step = run(turn, plan, d))) {
		conclude(turn, plan, NULL);
		return NULL;
	}
	reason = wait_refusal(&step->limit->algo, plan->position, asks ? WEIR_ZERO : plan->max_wait_ns, d);
	if (reason == WEIR_REASON_OK)
		return step;
	engine_deny(turn, plan, step, reason, d);
	return NULL;
}

static bool may_wait(const struct step *step, uint64_t max_wait_ns)
{
	return !step->shadow &&
	       (step->limit->algo.paced || wait_patience_ns(&step->limit->algo, max_wait_ns) > 0);
}

bool engine_may_wait(const struct plan *plan)
{
	bool may = false;

	for (size_t i = 0; i < plan_step_count(plan) && !may; i++)
		may = may_wait(plan_step_at(plan, i), plan->max_wait_ns);
	return may && plan->op == ALGO_ACQUIRE && plan->cost > 0 &&
	       plan->max_wait_ns != WEIR_ZERO;
}
