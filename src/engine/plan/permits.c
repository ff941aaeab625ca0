/* permits.c: permits name the charges of a plan, and are refunded, claimed or reported by plans. */
#include "engine/plan/permits.h"

#include "engine/engine.h"
#include "engine/plan/apply.h"
#include "engine/plan/stage.h"
#include "wait/waitlist.h"

/*
 * In permits->reserved[0], from the lowest bits on: the generation of each charge. In reserved[1]
 * the server that gave the permit, where servers share permits.
 */
#define GENERATION_BITS 4

_Static_assert(GENERATION_BITS *WEIR_PERMITS_MAX <= 64, "one word has all generations");

/* Returns NULL data where the key's hash is enough. */
static struct slice charge_key_name(const struct plan_step *step, uint64_t giver)
{
	bool shared = giver != 0 && algo_is_reported(&step->limit->algo);
	struct slice name = step->key_name;

	if (!step->remote && !step->limit->group && !shared)
		return (struct slice){NULL, 0};
	return name.data ? name : (struct slice){"", 0};
}

static struct weir_charge charge_of_step(const struct plan_step *step)
{
	return (struct weir_charge){step->limit->algo.identity, step->key.hash, step->until_ns};
}

uint8_t engine_generation(const struct plan_step *step)
{
	if (step->remote || !step->limit->algo.algorithm->layout)
		return 0;
	return (uint8_t)algo_current(&step->limit->algo)->generation;
}

size_t engine_charges(const struct plan *plan, struct engine_charge *taken)
{
	size_t n = 0;

	for (size_t i = 0; i < plan->step_count; i++) {
		const struct plan_step *step = &plan->steps[i];

		if (step->charged && taken)
			taken[n] = (struct engine_charge){charge_of_step(step), engine_generation(step),
			                                  plan->cost, plan->permit.id};
		n += step->charged;
	}
	return n;
}

void engine_refund_charge(const struct decision_context *context, const struct weir_engine *engine,
                          const struct engine_charge *taken)
{
	const struct weir_limit *limit = engine_limit_of(engine, taken->charge.limit);
	struct algo_call call = {.op = ALGO_REFUND, .cost = taken->cost, .permit = taken->permit};
	struct store *store = context->table->store;
	struct weir_decision ignored;
	struct plan_step step;

	if (!limit)
		return;
	step = (struct plan_step){.limit = limit,
	                          .key = store_key(store, &limit->algo, taken->charge.key),
	                          .until_ns = taken->charge.until_ns,
	                          .generation = taken->generation};
	call.until_ns = engine_refund_end(context, &step);
	engine_apply_observed(context, &step, &call, &ignored);
	waitlist_wake(&context->table->waiting, taken->charge.key);
}

bool engine_is_reported(const struct plan *plan)
{
	for (size_t i = 0; i < plan->step_count; i++)
		if (algo_is_reported(&plan->steps[i].limit->algo))
			return true;
	return false;
}

int engine_want_permit(struct plan *plan)
{
	if (!plan_charges(plan))
		return WEIR_OK;
	plan->wants_permit = plan->step_count <= WEIR_PERMITS_MAX;
	return plan->wants_permit ? WEIR_OK : WEIR_ELONG;
}

void engine_permits(const struct plan *plan, struct weir_permits *permits,
                    struct engine_names *names)
{
	*permits = (struct weir_permits){.id = plan->permit.id};
	if (permits->id == 0)
		return;
	permits->cost = plan->cost;
	for (size_t i = 0; i < plan->step_count; i++) {
		const struct plan_step *step = &plan->steps[i];

		if (!step->charged)
			continue;
		if (names)
			names->of[permits->count] = charge_key_name(step, names->giver);
		if (names && !step->remote && algo_is_reported(&step->limit->algo))
			permits->reserved[1] = names->giver;
		permits->reserved[0] |= (uint64_t)engine_generation(step) << GENERATION_BITS * permits->count;
		permits->charges[permits->count++] = charge_of_step(step);
	}
}

void engine_claimed(const struct plan *plan, struct weir_permits *permits,
                    struct engine_names *names)
{
	*permits = (struct weir_permits){.id = plan->permit.id, .cost = plan->cost};
	*names = (struct engine_names){0};
	permits->reserved[1] = plan->giver;
	permits->charges[0].key = plan->permit.keys; /* of all its charges */
	for (size_t i = 0; i < plan->step_count; i++) {
		const struct plan_step *step = &plan->steps[i];
		struct weir_charge *charge = &permits->charges[permits->count];

		if (!step->of_other_server || !step->charged)
			continue;
		permits->reserved[0] |= (uint64_t)step->generation << GENERATION_BITS * permits->count;
		names->of[permits->count++] = step->key_name;
		charge->limit = step->limit->algo.identity;
		charge->until_ns = step->until_ns;
	}
}

/* The name of a charge's key, and the servers that gave the permit and that read it. */
struct charge_origin {
	struct slice name;
	uint64_t giver, own;
};

/* Whether the charge is in the memory of a server that shares permits with this one. */
static bool is_in_shared_memory(const struct plan_step *step, const struct charge_origin *origin)
{
	return !step->remote && origin->giver != 0 && origin->own != 0 && origin->name.data &&
	       algo_is_reported(&step->limit->algo);
}

/* Makes the step that refunds a charge. Returns false if it can't be refunded. */
static bool step_of_charge(const struct weir_engine *engine, const struct weir_charge *charge,
                           const struct charge_origin *origin, struct plan_step *step)
{
	struct slice name = origin->name;
	const struct weir_table *table = engine_table(engine);
	const struct weir_limit *limit = engine_limit_of(engine, charge->limit);
	bool remote = limit && engine_remote_store(table, limit);

	if (!limit || (remote && !name.data))
		return false;
	*step = (struct plan_step){.limit = limit,
	                           .generation = step->generation,
	                           .key_name = name,
	                           .until_ns = charge->until_ns,
	                           .charged = charge->until_ns != 0,
	                           .remote = remote};
	/* Another server's memory has another secret, and so other hashes. */
	step->key.hash = remote || is_in_shared_memory(step, origin)
	                     ? store_hash(table->store, charge->limit, name.data, name.len)
	                     : charge->key;
	step->key = store_key(table->store, &limit->algo, step->key.hash);
	return true;
}

int engine_prepare_permits(const struct weir_engine *engine, const struct weir_permits *permits,
                           const struct engine_names *names, struct arena *arena,
                           struct plan *plan)
{
	size_t count = permits->id == 0 ? 0 : permits->count;

	engine_prepare_none(&(struct algo_call){ALGO_REFUND_LAST, permits->cost}, plan);
	plan->permit.id = permits->id;
	if (count > WEIR_PERMITS_MAX)
		return WEIR_EINVAL;
	plan->steps = arena_array(arena, count, sizeof *plan->steps);
	if (!plan->steps)
		return WEIR_ENOMEM;
	for (size_t i = 0; i < count; i++) {
		struct plan_step *step = &plan->steps[plan->step_count];
		struct charge_origin origin = {.giver = permits->reserved[1]};

		step->generation = permits->reserved[0] >> GENERATION_BITS * i & 15;
		plan->permit.keys ^= permits->charges[i].key;
		if (names) {
			origin.name = names->of[i];
			origin.own = names->giver;
		}
		if (!step_of_charge(engine, &permits->charges[i], &origin, step))
			continue;
		if (is_in_shared_memory(step, &origin)) {
			plan->claims = true;
			plan->giver = origin.giver;
			step->of_other_server = origin.giver != origin.own;
		}
		plan->remote |= step->remote | plan->claims;
		plan->step_count++;
	}
	return WEIR_OK;
}

/*
 * Whether the table's outstanding permits decide about the step's refund. A remote store has marks.
 */
static bool needs_outstanding(const struct plan_step *step)
{
	return step->charged && !step->remote && !algo_holds_leases(&step->limit->algo);
}

void permits_issue(const struct decision_context *context, struct plan *plan)
{
	uint64_t until_ns = 0;
	bool any = false;

	for (size_t i = 0; i < plan->step_count; i++) {
		const struct plan_step *step = &plan->steps[i];

		if (!step->charged)
			continue;
		any = true;
		plan->permit.keys ^= step->key.hash;
		if (needs_outstanding(step))
			until_ns = u64_max(until_ns, step->until_ns);
	}
	if (!any)
		plan->permit.id = 0;
	else if (until_ns > 0)
		permit_record(context->table->store, plan->permit, until_ns, context->at.now_ns);
}

static bool any_needs_outstanding(const struct plan *plan)
{
	for (size_t i = 0; i < plan->step_count; i++)
		if (needs_outstanding(&plan->steps[i]))
			return true;
	return false;
}

/* Whether a charge that the outstanding permit covers still counts. Call convert_ends before. */
static bool still_counts(const struct decision_context *context, const struct plan *plan)
{
	for (size_t i = 0; i < plan->step_count; i++)
		if (needs_outstanding(&plan->steps[i]) && plan->steps[i].until_ns > context->at.now_ns)
			return true;
	return false;
}

/* Converts the charges' ends to the limits' current parameters. Only once for each plan. */
static void convert_ends(const struct decision_context *context, struct plan *plan)
{
	for (size_t i = 0; i < plan->step_count; i++)
		plan->steps[i].until_ns = engine_refund_end(context, &plan->steps[i]);
}

bool permits_are_outstanding(const struct decision_context *context, struct plan *plan)
{
	convert_ends(context, plan);
	return still_counts(context, plan) &&
	       permit_is_outstanding(context->table->store, plan->permit, context->at.now_ns);
}

void permits_redeem(const struct decision_context *context, struct plan *plan)
{
	convert_ends(context, plan);
	if (!any_needs_outstanding(plan))
		plan->refunds_rest = true;
	else if (plan->cost == 0 || plan->claims) /* a claim takes it once it has succeeded */
		plan->refunds_rest =
		    still_counts(context, plan) &&
		    permit_is_outstanding(context->table->store, plan->permit, context->at.now_ns);
	else
		plan->refunds_rest = still_counts(context, plan) &&
		                     permit_redeem(context->table->store, plan->permit, context->at.now_ns);
}

void permits_redeem_claimed(const struct decision_context *context, struct plan *plan)
{
	if (plan->refunds_rest && any_needs_outstanding(plan))
		plan->refunds_rest = permit_redeem(context->table->store, plan->permit, context->at.now_ns);
}

/*
 * Whether a partial refund removes the permit's id from the entries that stay. If the request has
 * several steps on one key, only the step that runs last does so, for the entries of all.
 */
static bool removes_permit_id(const struct plan *plan, const struct plan_step *step)
{
	const struct plan_step *last = step;

	if (plan->op != ALGO_REFUND_LAST || !algo_holds_leases(&step->limit->algo))
		return false;
	for (size_t i = 0; i < plan->step_count; i++) {
		const struct plan_step *other = &plan->steps[stage_index(plan, i)];

		if (other->limit == step->limit && other->key.hash == step->key.hash)
			last = other;
	}
	return last == step;
}

void permits_drop_ended(const struct decision_context *context, struct plan *plan)
{
	for (size_t i = 0; plan->remote && i < plan->step_count; i++) {
		struct plan_step *step = &plan->steps[i];

		if (step->remote && sat_add(step->until_ns, PERMITS_CLOCKS_NS) <= context->at.wall_ns)
			step->charged = false;
		if (step->of_other_server && step->until_ns <= context->at.now_ns)
			step->charged = false; /* the server that granted it has counted a timeout */
	}
}

/* Whether the refund has the step's cost. A remote store checks its own marks. */
static bool refunds_cost(const struct plan *plan, const struct plan_step *step)
{
	if (algo_holds_leases(&step->limit->algo) || step->of_other_server)
		return true;
	if (algo_op_reports(plan->op))
		return plan->refunds_rest && algo_is_reported(&step->limit->algo);
	return plan->refunds_rest || step->remote;
}

void permits_fill_call(const struct plan *plan, const struct plan_step *step,
                       struct algo_call *call)
{
	bool reports = algo_op_reports(plan->op);

	if (!refunds_cost(plan, step))
		call->cost = 0;
	call->latency_ns = reports ? plan->latency_ns : 0;
	call->outcome = reports ? (enum weir_outcome)plan->outcome : WEIR_OUTCOME_IGNORED;
	if (step->of_other_server)
		call->op = ALGO_COUNT;
	else if (step->limit->algo.algorithm->judges)
		call->op = reports ? plan->op : ALGO_REFUND;
	else if (removes_permit_id(plan, step))
		call->op = ALGO_REFUND_LAST;
}

bool permits_spend_rest(const struct plan *plan)
{
	return algo_op_reports(plan->op) && engine_is_reported(plan);
}

void permits_merge_decision(struct plan *plan, struct plan_step *step,
                            const struct weir_decision *one, struct weir_decision *d)
{
	bool counts = refunds_cost(plan, step) || (step->remote && !permits_spend_rest(plan));
	bool held = d->allowed || (one->allowed && counts);
	uint32_t i = (uint32_t)(step - plan->steps);

	if (plan->tightest == PLAN_NO_STEP || one->remaining < d->remaining ||
	    (one->remaining == d->remaining && i < plan->tightest)) {
		*d = *one;
		plan->tightest = i;
	}
	d->allowed = held;
}
