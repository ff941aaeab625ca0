/*
 * permits.c: makes the permit of a plan, which lists its charges, and prepares the plan that
 * refunds them.
 *
 * A client returns the permit when its request ends. The permit must refund only once: a table has
 * a list of *outstanding* permits, and a refund redeems the permit there, which removes it. Charges
 * at remote stores are marked as spent there instead. Entries of concurrency limits, called leases,
 * have the id of their permit themselves. If servers share permits, one server may get the permit
 * that another has granted; then it claims the permit, so that only one of them refunds it.
 */
#include "engine/plan/permits.h"

#include "engine/engine.h"
#include "engine/plan/apply.h"
#include "engine/plan/stage.h"
#include "wait/waitlist.h"

/*
 * permits->reserved[0] has the generation of each charge, from the lowest bits on: the number of
 * the limit's parameters when it was made. If servers share permits, reserved[1] has the server
 * that granted the permit.
 */
#define GENERATION_BITS 4

_Static_assert(GENERATION_BITS *WEIR_PERMITS_MAX <= 64, "one word has all generations");

static void set_generation(struct weir_permits *permits, size_t i, uint8_t generation)
{
	permits->reserved[0] |= (uint64_t)generation << GENERATION_BITS * i;
}

static uint8_t generation_of(const struct weir_permits *permits, size_t i)
{
	return permits->reserved[0] >> GENERATION_BITS * i & ((1 << GENERATION_BITS) - 1);
}

/*
 * Returns the name of a charge's key for the permit, with NULL data if the hash of the key is
 * enough: in memory of this server.
 */
static struct slice charge_key_name(const struct plan_step *step, uint64_t granting_server)
{
	bool is_shared = granting_server != 0 && algo_is_reported(&step->limit->algo);
	struct slice name = step->key_name;

	if (!step->remote && !step->limit->group && !is_shared)
		return (struct slice){NULL, 0};
	return name.data ? name : (struct slice){"", 0};
}

static struct weir_charge charge_of_step(const struct plan_step *step)
{
	return (struct weir_charge){step->limit->algo.identity, step->key.hash, step->charge_ends_ns};
}

uint8_t engine_generation(const struct plan_step *step)
{
	if (step->remote || !step->limit->algo.algorithm->layout)
		return 0;
	return (uint8_t)algo_current(&step->limit->algo)->generation;
}

/* Returns the number of charges, which it copies to `charges` if that is not NULL. */
size_t engine_list_charges(const struct plan *plan, struct engine_charge *charges)
{
	size_t n = 0;

	for (size_t i = 0; i < plan->step_count; i++) {
		const struct plan_step *step = &plan->steps[i];

		if (step->charged && charges)
			charges[n] = (struct engine_charge){charge_of_step(step), engine_generation(step),
			                                    plan->cost, plan->permit.id};
		n += step->charged;
	}
	return n;
}

/*
 * For a request in memory that was decided, and whose client left before it got the answer: by then
 * the plan is gone, but not its charges (engine_list_charges). Their permit needs no redeeming,
 * because the client never got it.
 */
void engine_refund_charge(const struct decision_context *context, const struct weir_engine *engine,
                          const struct engine_charge *charged)
{
	const struct weir_limit *limit = engine_find_limit(engine, charged->charge.limit);
	struct algo_call call = {.op = ALGO_REFUND, .cost = charged->cost, .permit = charged->permit};
	struct store *store = context->table->store;
	struct weir_decision ignored;
	struct plan_step step;

	if (!limit)
		return;
	step = (struct plan_step){.limit = limit,
	                          .key = store_key(store, &limit->algo, charged->charge.key),
	                          .charge_ends_ns = charged->charge.until_ns,
	                          .generation = charged->generation};
	call.until_ns = engine_converted_charge_end(context, &step);
	engine_apply_observed(context, &step, &call, &ignored);
	waitlist_wake(&context->table->waiting, charged->charge.key);
}

bool engine_is_reported(const struct plan *plan)
{
	for (size_t i = 0; i < plan->step_count; i++)
		if (algo_is_reported(&plan->steps[i].limit->algo))
			return true;
	return false;
}

/* Lets the plan get a permit if it is allowed. Returns ELONG if it has too many steps. */
int engine_want_permit(struct plan *plan)
{
	if (!plan_charges(plan))
		return WEIR_OK;
	plan->wants_permit = plan->step_count <= WEIR_PERMITS_MAX;
	return plan->wants_permit ? WEIR_OK : WEIR_ELONG;
}

/* Fills in the public permit: its charges, and in `names` the keys that hashes do not identify. */
void engine_fill_permits(const struct plan *plan, struct weir_permits *permits,
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
			names->key_names[permits->count] = charge_key_name(step, names->own_server);
		if (names && !step->remote && algo_is_reported(&step->limit->algo))
			permits->reserved[1] = names->own_server;
		set_generation(permits, permits->count, engine_generation(step));
		permits->charges[permits->count++] = charge_of_step(step);
	}
}

/*
 * As engine_fill_permits, for the charges of a claimed permit that another server has in memory,
 * for a message to that server. It identifies the permit by id and permit.keys, the XOR of all
 * keys' hashes, which it makes of these charges: so the first one has the XOR as its key, and
 * others 0.
 */
void engine_fill_claimed_permits(const struct plan *plan, struct weir_permits *permits,
                                 struct engine_names *names)
{
	*permits = (struct weir_permits){.id = plan->permit.id, .cost = plan->cost};
	*names = (struct engine_names){0};
	permits->reserved[1] = plan->granting_server;
	permits->charges[0].key = plan->permit.keys;
	for (size_t i = 0; i < plan->step_count; i++) {
		const struct plan_step *step = &plan->steps[i];
		struct weir_charge *charge = &permits->charges[permits->count];

		if (!step->granted_by_other_server || !step->charged)
			continue;
		set_generation(permits, permits->count, step->generation);
		names->key_names[permits->count++] = step->key_name;
		charge->limit = step->limit->algo.identity;
		charge->until_ns = step->charge_ends_ns;
	}
}

/* The parts of a permit about a charge that struct weir_charge lacks, and the server that reads it.
 */
struct charge_origin {
	struct slice name; /* of the key */
	uint8_t generation;
	uint64_t granting_server, own_server; /* 0 if servers do not share permits */
};

/* Whether the charge is in the memory of a server that shares permits with this one. */
static bool is_in_shared_memory(const struct plan_step *step, const struct charge_origin *origin)
{
	bool servers_share_permits = origin->granting_server != 0 && origin->own_server != 0;

	return servers_share_permits && !step->remote && origin->name.data &&
	       algo_is_reported(&step->limit->algo);
}

/* Makes the step that refunds a charge. Returns false if it can't be refunded. */
static bool step_of_charge(const struct weir_engine *engine, const struct weir_charge *charge,
                           const struct charge_origin *origin, struct plan_step *step)
{
	struct slice name = origin->name;
	const struct weir_table *table = engine_table(engine);
	const struct weir_limit *limit = engine_find_limit(engine, charge->limit);
	bool remote = limit && engine_remote_store(table, limit);

	if (!limit || (remote && !name.data))
		return false;
	*step = (struct plan_step){.limit = limit,
	                           .generation = origin->generation,
	                           .key_name = name,
	                           .charge_ends_ns = charge->until_ns,
	                           .charged = charge->until_ns != 0,
	                           .remote = remote};
	/*
	 * The permit has the key's hash by the secret of the memory that counted. If that is a remote
	 * store, or one of the servers that share permits, the secret may not be this table's: hashes
	 * the name anew.
	 */
	step->key.hash = remote || is_in_shared_memory(step, origin)
	                     ? store_hash(table->store, charge->limit, name.data, name.len)
	                     : charge->key;
	step->key = store_key(table->store, &limit->algo, step->key.hash);
	return true;
}

/* Prepares the plan that refunds the charges of a permit: a step for each that it can refund. */
int engine_prepare_permits(const struct weir_engine *engine, const struct weir_permits *permits,
                           const struct engine_names *names, struct arena *arena, struct plan *plan)
{
	size_t count = permits->id == 0 ? 0 : permits->count;

	engine_prepare_empty(&(struct algo_call){ALGO_REFUND_LAST, permits->cost}, plan);
	plan->permit.id = permits->id;
	if (count > WEIR_PERMITS_MAX)
		return WEIR_EINVAL;
	plan->steps = arena_array(arena, count, sizeof *plan->steps);
	if (!plan->steps)
		return WEIR_ENOMEM;
	for (size_t i = 0; i < count; i++) {
		struct plan_step *step = &plan->steps[plan->step_count];
		struct charge_origin origin = {.generation = generation_of(permits, i),
		                               .granting_server = permits->reserved[1]};

		plan->permit.keys ^= permits->charges[i].key;
		if (names) {
			origin.name = names->key_names[i];
			origin.own_server = names->own_server;
		}
		if (!step_of_charge(engine, &permits->charges[i], &origin, step))
			continue;
		if (is_in_shared_memory(step, &origin)) {
			plan->needs_claim = true;
			plan->granting_server = origin.granting_server;
			step->granted_by_other_server = origin.granting_server != origin.own_server;
		}
		plan->has_remote_steps |= step->remote | plan->needs_claim; /* a store answers a claim */
		plan->step_count++;
	}
	return WEIR_OK;
}

/* Whether the table's list of outstanding permits decides if the step's charge is refunded. */
static bool needs_outstanding(const struct plan_step *step)
{
	return step->charged && !step->remote && !algo_holds_leases(&step->limit->algo);
}

/* Makes the permit of an allowed plan outstanding until its last charge ends. */
void permits_issue(const struct decision_context *context, struct plan *plan)
{
	uint64_t until_ns = 0;
	bool has_charges = false;

	for (size_t i = 0; i < plan->step_count; i++) {
		const struct plan_step *step = &plan->steps[i];

		if (!step->charged)
			continue;
		has_charges = true;
		plan->permit.keys ^= step->key.hash;
		if (needs_outstanding(step))
			until_ns = u64_max(until_ns, step->charge_ends_ns);
	}
	if (!has_charges)
		plan->permit.id = 0;
	else if (until_ns > 0)
		permit_record(context->table->store, plan->permit, until_ns, context->at.now_ns);
}

/* Whether a refund of the permit depends on the list of outstanding permits. */
static bool depends_on_outstanding(const struct plan *plan)
{
	for (size_t i = 0; i < plan->step_count; i++)
		if (needs_outstanding(&plan->steps[i]))
			return true;
	return false;
}

/* Whether a charge that the outstanding permit covers has not ended. Call convert_ends before. */
static bool has_running_charge(const struct decision_context *context, const struct plan *plan)
{
	for (size_t i = 0; i < plan->step_count; i++)
		if (needs_outstanding(&plan->steps[i]) &&
		    plan->steps[i].charge_ends_ns > context->at.now_ns)
			return true;
	return false;
}

/* Converts the charges' ends to the limits' current parameters. Only once for each plan. */
static void convert_ends(const struct decision_context *context, struct plan *plan)
{
	for (size_t i = 0; i < plan->step_count; i++)
		plan->steps[i].charge_ends_ns = engine_converted_charge_end(context, &plan->steps[i]);
}

bool permits_are_outstanding(const struct decision_context *context, struct plan *plan)
{
	convert_ends(context, plan);
	return has_running_charge(context, plan) &&
	       permit_is_outstanding(context->table->store, plan->permit, context->at.now_ns);
}

/*
 * Before a refund by permit: finds out whether the permit is outstanding, and redeems it. A refund
 * of cost 0 only asks.
 */
void permits_redeem(const struct decision_context *context, struct plan *plan)
{
	struct store *store = context->table->store;

	convert_ends(context, plan);
	if (!depends_on_outstanding(plan))
		plan->permit_is_valid = true;
	else if (!has_running_charge(context, plan))
		plan->permit_is_valid = false;
	else if (plan->cost == 0 || plan->needs_claim) /* permits_redeem_claimed redeems it later */
		plan->permit_is_valid = permit_is_outstanding(store, plan->permit, context->at.now_ns);
	else
		plan->permit_is_valid = permit_redeem(store, plan->permit, context->at.now_ns);
}

void permits_redeem_claimed(const struct decision_context *context, struct plan *plan)
{
	if (plan->permit_is_valid && depends_on_outstanding(plan))
		plan->permit_is_valid =
		    permit_redeem(context->table->store, plan->permit, context->at.now_ns);
}

/*
 * Whether the refund of a concurrency limit's entries is the permit's last one on that key: entries
 * beyond its cost stay in use, but lose the permit's id, so that no second refund finds them. If
 * the request has several steps on one key, that is the step that runs last.
 */
static bool removes_permit_id(const struct plan *plan, const struct plan_step *step)
{
	const struct plan_step *last_on_key = step;

	if (plan->op != ALGO_REFUND_LAST || !algo_holds_leases(&step->limit->algo))
		return false;
	for (size_t i = 0; i < plan->step_count; i++) {
		const struct plan_step *other = &plan->steps[stage_index(plan, i)];

		if (other->limit == step->limit && other->key.hash == step->key.hash)
			last_on_key = other;
	}
	return last_on_key == step;
}

/* Before a refund: drops charges that have ended by the clocks of all servers and stores. */
void permits_drop_ended(const struct decision_context *context, struct plan *plan)
{
	for (size_t i = 0; plan->has_remote_steps && i < plan->step_count; i++) {
		struct plan_step *step = &plan->steps[i];

		if (step->remote && sat_add(step->charge_ends_ns, PERMITS_CLOCKS_NS) <= context->at.wall_ns)
			step->charged = false;
		if (step->granted_by_other_server && step->charge_ends_ns <= context->at.now_ns)
			step->charged = false; /* the server that granted it has counted a timeout */
	}
}

/* Whether the permit still covers the step's cost. A remote store checks its own marks. */
static bool refunds_cost(const struct plan *plan, const struct plan_step *step)
{
	if (algo_holds_leases(&step->limit->algo) || step->granted_by_other_server)
		return true;
	if (algo_op_reports(plan->op))
		return plan->permit_is_valid && algo_is_reported(&step->limit->algo);
	return plan->permit_is_valid || step->remote;
}

/*
 * Completes the call that refunds a step by permit, an ALGO_REFUND so far. Sets its operation, its
 * cost (0 if the permit doesn't cover the step), and the outcome for limits that judge requests by
 * it. A charge in another server's memory is ended there (engine_settle); here only the outcome is
 * counted.
 */
void permits_fill_call(const struct plan *plan, const struct plan_step *step,
                       struct algo_call *call)
{
	bool reports = algo_op_reports(plan->op);

	if (!refunds_cost(plan, step))
		call->cost = 0;
	call->latency_ns = reports ? plan->latency_ns : 0;
	call->outcome = reports ? (enum weir_outcome)plan->outcome : WEIR_OUTCOME_IGNORED;
	if (step->granted_by_other_server)
		call->op = ALGO_COUNT;
	else if (step->limit->algo.algorithm->judges)
		call->op = reports ? plan->op : ALGO_REFUND;
	else if (removes_permit_id(plan, step))
		call->op = ALGO_REFUND_LAST;
}

/* Whether the permit's charges that a report does not refund stay charged for good. */
bool permits_spend_other_charges(const struct plan *plan)
{
	return algo_op_reports(plan->op) && engine_is_reported(plan);
}

/*
 * Whether a refund of the step that was allowed is one of the permit. A remote store has allowed it
 * by its mark, even a refund of cost 0 in a report that no limit judges. But where a limit judges,
 * the charges at other limits are only marked as spent.
 */
static bool is_covered(const struct plan *plan, const struct plan_step *step)
{
	return refunds_cost(plan, step) || (step->remote && !permits_spend_other_charges(plan));
}

/*
 * Merges a step's decision into the plan's: allowed if the permit covered any charge, with the
 * numbers of the step that has the fewest units remaining. If several have as few, the first in the
 * order of the plan counts, whatever the order in which they ran.
 */
void permits_merge_decision(struct plan *plan, struct plan_step *step,
                            const struct weir_decision *step_decision,
                            struct weir_decision *decision)
{
	bool allowed = decision->allowed || (step_decision->allowed && is_covered(plan, step));
	uint32_t i = (uint32_t)(step - plan->steps);

	if (plan->tightest == PLAN_NO_STEP || stage_is_tighter(plan, i, step_decision, decision)) {
		*decision = *step_decision;
		plan->tightest = i;
	}
	decision->allowed = allowed;
}
