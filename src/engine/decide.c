/*
 * decide.c: charges -> one decision.
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
                         enum algo_op op, struct slice key, uint64_t cost,
                         struct engine_request *request)
{
	int status = limit_check(limit, op, key.len, cost);
	struct memory_key wanted;

	if (status == WEIR_OK)
		status = memory_admit(table, &limit->algo,
		                      memory_hash(table, limit->algo.identity, key.data, key.len), &wanted);
	if (status != WEIR_OK)
		return status;
	request->op = op;
	request->cost = cost;
	request->max_wait_ns = 0;
	request->position = WAIT_NEW;
	request->direct = (struct engine_charge){
	    .limit = limit,
	    .key = wanted,
	    .key_name = key,
	};
	request->charge_count = 0;
	request->each = NULL;
	request->permit = (struct permit){0, 0};
	request->wants_permit = false;
	return WEIR_OK;
}

void engine_fetch(const struct weir_table *table, const struct engine_request *request)
{
	if (request->direct.limit)
		memory_touch(table, &request->direct.key);
	for (size_t i = 0; i < request->charge_count; i++)
		memory_touch(table, &request->charges[i].key);
}

static void locate(const struct weir_table *table, struct memory_key *key, struct moment at)
{
	memory_locate(table, key, at.now_ns);
	if (!key->cell)
		memory_fetch_run(table, key);
}

void engine_locate(const struct weir_table *table, struct engine_request *request,
                   struct moment at)
{
	if (request->direct.limit)
		locate(table, &request->direct.key, at);
	for (size_t i = 0; i < request->charge_count; i++)
		locate(table, &request->charges[i].key, at);
}

__attribute__((flatten)) static void apply(struct weir_table *table, struct engine_charge *charge,
                                           const struct algo_call *call, struct moment at,
                                           struct weir_decision *d)
{
	charge->until_ns = engine_apply(table, charge->limit, &charge->key, call, at, d);
	if (call->op >= ALGO_REFUND)
		waitlist_wake(&table->waiting, charge->key.hash);
	charge->allowed = d->allowed;
	charge->reason = d->reason;
	d->rule = charge->rule;
	d->result = d->allowed ? NULL : charge->result;
}

/*
 * The enforced charge whose turn it is of twice as many turns as there are charges,
 * or NULL. Turns are charged in the second half: they can give back their newest
 * only, so they had better not be asked to.
 */
static struct engine_charge *in_turn(const struct engine_request *request, size_t turn,
                                     enum algo_op op)
{
	bool second = turn >= request->charge_count;
	struct engine_charge *charge = &request->charges[second ? turn - request->charge_count : turn];
	bool last = op == ALGO_ACQUIRE && charge->limit->algo.paced;

	return charge->shadow || last != second ? NULL : charge;
}

/* It would wake itself, and take and give back for ever, where two rules charge one key. */
static bool is_first_of(const struct engine_request *request, uint64_t hash)
{
	return request->position >= WAIT_FIRST && request->waits_at == hash;
}

/* Each goes back to the very window that it was taken from. */
static void give_back(struct weir_table *table, const struct engine_request *request, size_t turns,
                      uint64_t cost, struct moment at)
{
	for (size_t turn = 0; turn < turns; turn++) {
		const struct engine_charge *taken = in_turn(request, turn, ALGO_ACQUIRE);
		struct weir_decision ignored;

		if (taken) {
			struct algo_call call = {
			    ALGO_REFUND, cost, taken->until_ns, .permit = request->permit.id};
			struct memory_key key = taken->key;

			engine_apply(table, taken->limit, &key, &call, at, &ignored);
			if (!is_first_of(request, key.hash))
				waitlist_wake(&table->waiting, key.hash);
		}
	}
}

/* Enforced charges in turn until one is refused, whose index is returned, or charge_count. */
static size_t run_enforced(struct weir_table *table, const struct engine_request *request,
                           const struct algo_call *call, struct moment at, struct weir_decision *d)
{
	size_t tightest = request->charge_count;
	uint64_t wait_ns = 0; /* the longest is that of all */
	bool paced = false;

	for (size_t turn = 0; turn < 2 * request->charge_count; turn++) {
		struct engine_charge *charge = in_turn(request, turn, call->op);
		struct weir_decision one;
		size_t i;

		if (!charge)
			continue;
		i = (size_t)(charge - request->charges);
		apply(table, charge, call, at, &one);
		if (request->each)
			request->each[i] = one;
		if (tightest == request->charge_count || !one.allowed || one.remaining < d->remaining ||
		    (one.remaining == d->remaining && i < tightest)) {
			*d = one;
			tightest = i;
		}
		d->paced = paced |= one.paced;
		d->wait_ns = wait_ns = u64_max(wait_ns, one.wait_ns);
		if (!one.allowed) {
			d->wait_ns = 0;
			if (call->op == ALGO_ACQUIRE && call->cost > 0)
				give_back(table, request, turn, call->cost, at);
			return i;
		}
	}
	return request->charge_count;
}

/*
 * A cost that the limit could never grant is an error where the rule is enforced. Here it
 * counts as denied; no step may see it, so the key is only peeked at.
 */
static void deny_cost(struct weir_table *table, struct engine_charge *charge, struct moment at,
                      struct weir_decision *d)
{
	struct algo_call peek = {.op = ALGO_PEEK};

	apply(table, charge, &peek, at, d);
	charge->until_ns = 0;
	charge->allowed = d->allowed = false;
	charge->reason = d->reason = WEIR_REASON_OVER_LIMIT;
	d->result = charge->result;
	d->wait_ns = 0;
	d->retry_after_ns = ALGO_HORIZON_NS; /* further ahead than anything: never */
}

static void run_shadow(struct weir_table *table, const struct engine_request *request,
                       const struct algo_call *call, struct moment at)
{
	struct weir_decision ignored;

	for (size_t i = 0; i < request->charge_count; i++) {
		struct engine_charge *charge = &request->charges[i];
		struct weir_decision *d = request->each ? &request->each[i] : &ignored;

		if (!charge->shadow)
			continue;
		if (limit_cost_fits(charge->limit, call->op, call->cost))
			apply(table, charge, call, at, d);
		else
			deny_cost(table, charge, at, d);
	}
}

static void observe_all(const struct engine_request *request, const struct engine_charge *refused,
                        engine_observer *observe, void *context)
{
	for (size_t i = 0; i < request->charge_count; i++)
		if (request->charges[i].shadow || !refused || refused == &request->charges[i])
			observe(context, &request->charges[i]);
}

static struct algo_call call_of(const struct engine_request *request, enum algo_op op)
{
	return (struct algo_call){.op = op,
	                          .cost = request->cost,
	                          .permit = request->permit.id,
	                          .max_wait_ns = request->max_wait_ns};
}

static void draw_permit(struct engine_request *request)
{
	if (__builtin_expect(request->wants_permit, 0))
		request->permit.id = permit_draw();
}

/* Takes from all enforced charges, or from none and returns the one that refused. */
static struct engine_charge *run(struct weir_table *table, struct engine_request *request,
                                 struct moment at, struct weir_decision *d)
{
	struct algo_call call = call_of(request, request->op), peek = call_of(request, ALGO_PEEK);
	size_t refused = request->charge_count;

	if (request->direct.limit) {
		apply(table, &request->direct, &call, at, d);
		return d->allowed ? NULL : &request->direct;
	}
	*d = (struct weir_decision){.allowed = true, .reason = WEIR_REASON_OK};
	if (request->listed_rule) {
		d->allowed = request->listed_allowed;
		d->reason = WEIR_REASON_LISTED;
		d->rule = request->listed_rule;
		d->result = d->allowed ? NULL : request->listed_result;
		d->retry_after_ns = d->allowed ? 0 : ALGO_RETRY_DEFAULT_NS; /* no limit says better */
		return NULL;
	}
	if (call.op == ALGO_ACQUIRE && request->enforced_count > 1)
		refused = run_enforced(table, request, &peek, at, d);
	if (refused == request->charge_count)
		refused = run_enforced(table, request, &call, at, d);
	return refused < request->charge_count ? &request->charges[refused] : NULL;
}

/* What is left to do when it is decided, by whom it was refused. */
static void conclude(struct weir_table *table, struct engine_request *request,
                     const struct engine_charge *refused, struct moment at,
                     engine_observer *observe, void *context)
{
	struct algo_call call = call_of(request, request->op);

	if (request->direct.limit) {
		if (observe)
			observe(context, &request->direct);
	} else if (!request->listed_rule) {
		run_shadow(table, request, &call, at);
		if (observe)
			observe_all(request, refused, observe, context);
	}
	if (refused && request->op == ALGO_ACQUIRE)
		permits_drop(table, request, at);
	else if (__builtin_expect(request->permit.id != 0, 0))
		permits_hold(table, request, at);
}

void engine_decide(struct weir_table *table, struct engine_request *request, struct moment at,
                   engine_observer *observe, void *context, struct weir_decision *decision)
{
	struct engine_charge *refused;

	if (request->op == ALGO_REFUND && request->permit.id != 0) {
		permits_refund(table, request, at, decision);
		return;
	}
	draw_permit(request);
	refused = run(table, request, at, decision);
	conclude(table, request, refused, at, observe, context);
}

bool engine_forget(struct weir_table *table, const struct engine_request *request,
                   struct moment at)
{
	const struct memory_key *key = &request->direct.key;
	bool had = memory_forget(table, key, at.now_ns);

	waitlist_wake(&table->waiting, key->hash);
	return had;
}

bool engine_others_wait(const struct weir_table *table)
{
	const struct waitlist *list = waitlist_at(&table->waiting);

	return list && waitlist_count(list) > 0;
}

/* Of the keys that others wait for the first, or NULL. */
static struct engine_charge *waited_for(const struct weir_table *table,
                                        struct engine_request *request)
{
	struct waitlist *list = waitlist_at(&table->waiting);

	for (size_t i = 0; i < engine_charge_count(request); i++) {
		struct engine_charge *charge = engine_charge_at(request, i);

		if (!charge->shadow && !is_first_of(request, charge->key.hash) &&
		    waitlist_has(list, charge->key.hash))
			return charge;
	}
	return NULL;
}

/* What a request has to wait for before it may try, or NULL; how that stands is in *d. */
static struct engine_charge *goes_behind(struct weir_table *table, struct engine_request *request,
                                         const struct algo_call *peek, struct moment at,
                                         struct weir_decision *d)
{
	struct engine_charge *others =
	    request->position == WAIT_YIELDED ? NULL : waited_for(table, request);

	/* It lets nobody go ahead for nothing. */
	for (size_t i = 0; others && i < request->charge_count; i++) {
		struct engine_charge *own = &request->charges[i];

		if (own->shadow || !is_first_of(request, own->key.hash))
			continue;
		apply(table, own, peek, at, d);
		if (!d->allowed)
			return own;
	}
	if (others)
		apply(table, others, peek, at, d);
	return others;
}

void engine_deny(struct weir_table *table, struct engine_request *request,
                 struct engine_charge *charge, enum weir_reason reason, struct moment at,
                 engine_observer *observe, void *context, struct weir_decision *decision)
{
	wait_deny(decision, reason);
	decision->result = charge->result;
	charge->allowed = false;
	charge->reason = reason;
	conclude(table, request, charge, at, observe, context);
}

struct engine_charge *engine_decide_in_order(struct weir_table *table,
                                             struct engine_request *request, struct moment at,
                                             engine_observer *observe, void *context,
                                             struct weir_decision *d)
{
	struct engine_charge *charge;
	struct algo_call peek;
	bool asks = request->op != ALGO_ACQUIRE || request->cost == 0; /* it waits for nobody */
	enum weir_reason reason;

	if (request->op > ALGO_PEEK) {
		engine_decide(table, request, at, observe, context, d);
		return NULL;
	}
	draw_permit(request);
	peek = call_of(request, ALGO_PEEK);
	charge = goes_behind(table, request, &peek, at, d);
	if (!charge && !(charge = run(table, request, at, d))) {
		conclude(table, request, NULL, at, observe, context);
		return NULL;
	}
	reason = wait_refusal(&charge->limit->algo, request->position, asks ? WEIR_ZERO : request->max_wait_ns, d);
	if (reason == WEIR_REASON_OK)
		return charge;
	engine_deny(table, request, charge, reason, at, observe, context, d);
	return NULL;
}

static bool may_wait(const struct engine_charge *charge, uint64_t max_wait_ns)
{
	return !charge->shadow &&
	       (charge->limit->algo.paced || wait_patience_ns(&charge->limit->algo, max_wait_ns) > 0);
}

bool engine_may_wait(const struct engine_request *request)
{
	bool may = false;

	for (size_t i = 0; i < engine_charge_count(request) && !may; i++)
		may = may_wait(engine_charge_at(request, i), request->max_wait_ns);
	return may && request->op == ALGO_ACQUIRE && request->cost > 0 &&
	       request->max_wait_ns != WEIR_ZERO;
}
