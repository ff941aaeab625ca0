/*
 * prepare.c: prepares plans of direct calls, which name one limit and one key, and brings the cells
 * of plans (where keys have their states) into the processor's cache before the plans run.
 */
#include "engine/engine.h"

/* Sets fields one by one: GCC clears a whole struct of this size by `rep stos`, which costs 3 ns.
 */
void engine_prepare_empty(const struct algo_call *call, struct plan *plan)
{
	plan->steps = NULL;
	plan->step_count = 0;
	plan->op = (unsigned char)call->op;
	plan->stage = PLAN_PREPARED;
	plan->queue_position = WAIT_NEW;
	plan->respects_queue = plan->wants_permit = plan->permit_is_valid = false;
	plan->cost = call->cost;
	plan->max_wait_ns = call->max_wait_ns;
	plan->awaited_key_hash = 0;
	plan->permit = (struct permit){0, 0};
	plan->refused_step = NULL;
	plan->step_decisions = NULL;
	plan->answering_rule = NULL;
	plan->cancelled = plan->has_remote_steps = plan->steps_are_independent = plan->needs_claim =
	    false;
	plan->first_refusal_decides = plan->peek_adds_earlier_charges = plan->cost_exceeds_limit =
	    plan->decides_every_step = plan->has_attributes = false;
	plan->has_shadow = false;
	plan->feedback = 0;
	plan->outcome = 0;
	plan->status = WEIR_OK;
	plan->submission = NULL;
}

static void prepare_direct(const struct weir_limit *limit, const struct algo_call *call,
                           struct store_key store_key, struct slice key, struct plan *plan)
{
	engine_prepare_empty(call, plan);
	plan->steps = &plan->direct_step;
	plan->step_count = 1;
	plan->direct_step = (struct plan_step){
	    .limit = limit, .key = store_key, .key_name = key, .priority = call->priority};
}

/* Returns an error if the call can never pass, or the store has no space for the limit's keys. */
int engine_prepare_limit(struct weir_table *table, const struct weir_limit *limit,
                         const struct algo_call *call, struct slice key, struct plan *plan)
{
	int status = limit_check(limit, call->op, key, call->cost, call->max_wait_ns);
	struct store_key store_key = {0};

	if (status == WEIR_ECOST) {
		engine_prepare_empty(call, plan);
		plan->direct_step = (struct plan_step){.limit = limit, .total_cost = call->cost};
	}
	if (status != WEIR_OK)
		return status;
	store_key.hash = store_hash(table->store, limit->algo.identity, key.data, key.len);
	if (__builtin_expect(engine_remote_store(table, limit) != NULL, 0)) {
		prepare_direct(limit, call, store_key, key, plan);
		plan->has_remote_steps = plan->direct_step.remote = true;
		return WEIR_OK;
	}
	status = store_admit(table->store, &limit->algo, store_key.hash, &store_key);
	if (status == WEIR_OK)
		prepare_direct(limit, call, store_key, key, plan);
	return status;
}

int engine_set_direct_hash(struct weir_table *table, uint64_t hash, struct plan *plan)
{
	struct plan_step *step = &plan->direct_step;

	step->key_name = (struct slice){NULL, 0};
	return store_admit(table->store, &step->limit->algo, hash, &step->key);
}

void engine_fetch(const struct weir_table *table, const struct plan *plan)
{
	for (size_t i = 0; i < plan->step_count; i++)
		store_touch(table->store, &plan->steps[i].key);
}

void engine_locate(const struct decision_context *context, struct plan *plan)
{
	for (size_t i = 0; i < plan->step_count; i++) {
		struct plan_step *step = &plan->steps[i];

		store_locate(context->table->store, &step->limit->algo, &step->key, context->at.now_ns);
		if (!step->key.cell)
			store_fetch_next(context->table->store, &step->key);
	}
}

/* Whether a plan that waits must try again from time to time: remote stores send no wake-up. */
bool engine_must_poll(const struct plan *plan)
{
	return plan->refused_step->remote;
}
