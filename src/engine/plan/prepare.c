/* prepare.c: prepares plans of direct calls, and fetches the cells of plans. */
#include "engine/engine.h"

/* One by one: GCC clears a whole struct of this size by `rep stos`, which costs 3 ns. */
void engine_prepare_none(const struct algo_call *call, struct plan *plan)
{
	plan->steps = NULL;
	plan->step_count = 0;
	plan->op = (unsigned char)call->op;
	plan->stage = PLAN_PREPARED;
	plan->position = WAIT_NEW;
	plan->in_order = plan->wants_permit = plan->refunds_rest = false;
	plan->cost = call->cost;
	plan->max_wait_ns = call->max_wait_ns;
	plan->waits_at = 0;
	plan->permit = (struct permit){0, 0};
	plan->refused = NULL;
	plan->step_decisions = NULL;
	plan->listed = NULL;
	plan->cancelled = plan->remote = plan->independent = plan->claims = false;
	plan->by_order = plan->adds_earlier = plan->cost_exceeds_limit = plan->explains_all = false;
	plan->has_shadow = false;
	plan->feedback = 0;
	plan->outcome = 0;
	plan->status = WEIR_OK;
	plan->submission = NULL;
}

static void prepare_direct(const struct weir_limit *limit, const struct algo_call *call,
                           struct store_key wanted, struct slice key, struct plan *plan)
{
	engine_prepare_none(call, plan);
	plan->steps = &plan->only;
	plan->step_count = 1;
	plan->only = (struct plan_step){
	    .limit = limit, .key = wanted, .key_name = key, .priority = call->priority};
}

int engine_prepare_limit(struct weir_table *table, const struct weir_limit *limit,
                         const struct algo_call *call, struct slice key, struct plan *plan)
{
	int status = limit_check(limit, call->op, key, call->cost, call->max_wait_ns);
	struct store_key wanted = {0};

	if (status == WEIR_ECOST) {
		engine_prepare_none(call, plan);
		plan->only = (struct plan_step){.limit = limit, .total_cost = call->cost};
	}
	if (status != WEIR_OK)
		return status;
	wanted.hash = store_hash(table->store, limit->algo.identity, key.data, key.len);
	if (__builtin_expect(engine_remote_store(table, limit) != NULL, 0)) {
		prepare_direct(limit, call, wanted, key, plan);
		plan->remote = plan->only.remote = true;
		return WEIR_OK;
	}
	status = store_admit(table->store, &limit->algo, wanted.hash, &wanted);
	if (status == WEIR_OK)
		prepare_direct(limit, call, wanted, key, plan);
	return status;
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

bool engine_must_poll(const struct plan *plan)
{
	return plan->refused->remote;
}
