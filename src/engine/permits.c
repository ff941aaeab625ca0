/*
 * permits.c: permits: what a request took, and its way back.
 *
 * Places that a request holds are given back by the step that knows them. All else that
 * a permit covers is given back by whoever takes the permit itself off the list of those
 * held (store/permit.h), before anything is given back.
 */
#include "engine/engine.h"

#include "wait/waitlist.h"

/* What a permit covers of a request, or NULL. */
static const struct engine_charge *covered(const struct engine_request *request, size_t i)
{
	const struct engine_charge *charge = engine_charge_at(request, i);

	return engine_has_taken(charge) ? charge : NULL;
}

static struct weir_charge charge_of(const struct engine_charge *charge)
{
	return (struct weir_charge){charge->limit->algo.identity, charge->key.hash, charge->until_ns};
}

size_t engine_taken(const struct engine_request *request, struct engine_taken *taken)
{
	size_t n = 0;

	for (size_t i = 0; i < engine_charge_count(request); i++) {
		const struct engine_charge *charge = covered(request, i);

		if (charge && taken)
			taken[n] = (struct engine_taken){charge_of(charge), request->cost, request->permit.id};
		n += charge != NULL;
	}
	return n;
}

/* Whoever waits for the key may try then. */
static void refund(struct weir_table *table, const struct weir_limit *limit,
                   const struct memory_key *key, const struct algo_call *call, struct moment at,
                   struct weir_decision *d)
{
	engine_apply_slow(table, limit, *key, *call, at, d);
	waitlist_wake(&table->waiting, key->hash);
}

void engine_give_back(struct weir_table *table, const struct weir_engine *engine,
                      const struct engine_taken *taken, struct moment at)
{
	const struct weir_limit *limit = engine_limit_of(engine, taken->charge.limit);
	struct algo_call call = {.op = ALGO_REFUND,
	                         .cost = taken->cost,
	                         .until_ns = taken->charge.until_ns,
	                         .permit = taken->permit};
	struct weir_decision ignored;
	struct memory_key key;

	if (!limit)
		return;
	key = memory_key(table, &limit->algo, taken->charge.key);
	refund(table, limit, &key, &call, at, &ignored);
}

void engine_undo(struct weir_table *table, struct engine_request *request, struct moment at)
{
	struct algo_call call = {ALGO_REFUND, request->cost, .permit = request->permit.id};

	if (request->permit.id != 0)
		permit_take(table, request->permit, at.now_ns);
	/* The newest first: of turns no other can be given back. */
	for (size_t i = engine_charge_count(request); i > 0; i--) {
		const struct engine_charge *charge = covered(request, i - 1);
		struct weir_decision ignored;

		call.until_ns = charge ? charge->until_ns : 0;
		if (charge)
			refund(table, charge->limit, &charge->key, &call, at, &ignored);
	}
	request->permit.id = 0;
}

bool engine_holds_places(const struct engine_request *request)
{
	for (size_t i = 0; i < engine_charge_count(request); i++)
		if (algo_holds_places(&engine_charge_at(request, i)->limit->algo))
			return true;
	return false;
}

int engine_want_permit(struct engine_request *request)
{
	if (request->op != ALGO_ACQUIRE || request->cost == 0)
		return WEIR_OK;
	request->wants_permit = engine_charge_count(request) <= WEIR_PERMITS_MAX;
	return request->wants_permit ? WEIR_OK : WEIR_ELONG;
}

void engine_permits(const struct engine_request *request, struct weir_permits *permits)
{
	*permits = (struct weir_permits){.id = request->permit.id};
	if (permits->id == 0)
		return;
	permits->cost = request->cost;
	for (size_t i = 0; i < engine_charge_count(request); i++) {
		const struct engine_charge *charge = covered(request, i);

		if (charge)
			permits->charges[permits->count++] = charge_of(charge);
	}
}

int engine_prepare_permits(const struct weir_engine *engine, const struct weir_permits *permits,
                           struct arena *arena, struct engine_request *request)
{
	size_t count = permits->id == 0 ? 0 : permits->count;

	*request = (struct engine_request){
	    .op = ALGO_REFUND, .cost = permits->cost, .permit = {permits->id, 0}};
	if (count > WEIR_PERMITS_MAX)
		return WEIR_EINVAL;
	request->charges = arena_array(arena, count, sizeof *request->charges);
	if (!request->charges)
		return WEIR_ENOMEM;
	for (size_t i = 0; i < count; i++) {
		const struct weir_charge *taken = &permits->charges[i];
		const struct weir_limit *limit = engine_limit_of(engine, taken->limit);

		request->permit.keys ^= taken->key;
		if (limit)
			request->charges[request->charge_count++] = (struct engine_charge){
			    .limit = limit,
			    .key = memory_key(engine_table(engine), &limit->algo, taken->key),
			    .until_ns = taken->until_ns,
			};
	}
	return WEIR_OK;
}

void permits_hold(struct weir_table *table, struct engine_request *request, struct moment at)
{
	uint64_t until_ns = 0;
	bool any = false;

	for (size_t i = 0; i < engine_charge_count(request); i++) {
		const struct engine_charge *charge = covered(request, i);

		if (!charge)
			continue;
		any = true;
		request->permit.keys ^= charge->key.hash;
		if (!algo_holds_places(&charge->limit->algo))
			until_ns = u64_max(until_ns, charge->until_ns);
	}
	if (!any)
		request->permit.id = 0;
	else if (until_ns > 0)
		permit_hold(table, request->permit, until_ns, at.now_ns);
}

void permits_drop(struct weir_table *table, struct engine_request *request, struct moment at)
{
	for (size_t i = 0; i < request->charge_count; i++) {
		const struct engine_charge *charge = &request->charges[i];
		struct algo_call call = {ALGO_REFUND, request->cost, charge->until_ns,
		                         .permit = request->permit.id};
		struct weir_decision ignored;

		if (charge->shadow && engine_has_taken(charge))
			refund(table, charge->limit, &charge->key, &call, at, &ignored);
	}
	request->permit.id = 0;
}

/* Whether it covers any places, or (if not `places`) anything else. */
static bool covers(const struct engine_request *request, bool places)
{
	for (size_t i = 0; i < engine_charge_count(request); i++) {
		const struct engine_charge *charge = covered(request, i);

		if (charge && algo_holds_places(&charge->limit->algo) == places)
			return true;
	}
	return false;
}

/*
 * Gives back all places, and with `rest` all else. Returns whether anything of that was
 * held, and how the tightest of all stands in *d.
 */
static bool give_back(struct weir_table *table, const struct engine_request *request, bool rest,
                      struct moment at, struct weir_decision *d)
{
	bool given = false, first = true;

	for (size_t i = 0; i < engine_charge_count(request); i++) {
		const struct engine_charge *charge = covered(request, i);
		struct algo_call call = {ALGO_REFUND, 0, .permit = request->permit.id};
		struct weir_decision one;
		bool mine = charge && (rest || algo_holds_places(&charge->limit->algo));

		if (!charge)
			continue;
		call.cost = mine ? request->cost : 0;
		call.until_ns = charge->until_ns;
		refund(table, charge->limit, &charge->key, &call, at, &one);
		given |= mine && one.allowed;
		if (first || one.remaining < d->remaining)
			*d = one;
		first = false;
	}
	return given;
}

void permits_refund(struct weir_table *table, const struct engine_request *request,
                    struct moment at, struct weir_decision *d)
{
	bool rest = !covers(request, false);

	if (!rest)
		rest = request->cost == 0 ? permit_is_held(table, request->permit, at.now_ns)
		                          : permit_take(table, request->permit, at.now_ns);
	*d = (struct weir_decision){.reason = WEIR_REASON_OK};
	d->allowed = give_back(table, request, rest, at, d);
}

bool engine_report(struct weir_table *table, const struct engine_request *request,
                   struct moment at)
{
	struct weir_decision ignored;

	if (!covers(request, true))
		return permit_is_held(table, request->permit, at.now_ns);
	permit_take(table, request->permit, at.now_ns); /* what else it covers stays taken */
	return give_back(table, request, false, at, &ignored);
}
