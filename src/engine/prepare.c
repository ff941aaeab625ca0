/* prepare.c: a plan of a direct call, what it may wait for, and its keys on their way from memory. */
#include "engine/engine.h"
#include "wait/waitlist.h"

/* One by one: GCC clears a whole struct of this size by `rep stos`, which costs 3 ns. */
void engine_prepare_none(const struct algo_call *call, struct plan *plan)
{
	plan->steps = NULL;
	plan->step_count = 0;
	plan->op = (unsigned char)call->op;
	plan->stage = PLAN_PREPARED;
	plan->position = WAIT_NEW;
	plan->in_order = plan->wants_permit = plan->gives_rest = false;
	plan->cost = call->cost;
	plan->max_wait_ns = plan->waits_at = 0;
	plan->permit = (struct permit){0, 0};
	plan->refused = NULL;
	plan->each = NULL;
	plan->listed = NULL;
	plan->cancelled = plan->remote = plan->reports = false;
	plan->status = WEIR_OK;
	plan->submission = NULL;
}

int engine_prepare_limit(struct weir_table *table, const struct weir_limit *limit,
                         const struct algo_call *call, struct slice key, struct plan *plan)
{
	int status = limit_check(limit, call->op, key.len, call->cost);
	struct store_key wanted = {0};
	bool remote = engine_remote_store(table, limit) != NULL;

	if (status != WEIR_OK)
		return status;
	wanted.hash = store_hash(table->store, limit->algo.identity, key.data, key.len);
	if (__builtin_expect(!remote, 1))
		status = store_admit(table->store, &limit->algo, wanted.hash, &wanted);
	if (status != WEIR_OK)
		return status;
	engine_prepare_none(call, plan);
	plan->steps = &plan->only;
	plan->step_count = 1;
	plan->remote = remote;
	plan->only = (struct step){.limit = limit, .key = wanted, .key_name = key, .remote = remote};
	return WEIR_OK;
}

void engine_fetch(const struct weir_table *table, const struct plan *plan)
{
	for (size_t i = 0; i < plan->step_count; i++)
		store_touch(table->store, &plan->steps[i].key);
}

void engine_locate(const struct turn *turn, struct plan *plan)
{
	for (size_t i = 0; i < plan->step_count; i++) {
		struct step *step = &plan->steps[i];

		store_locate(turn->table->store, &step->limit->algo, &step->key, turn->at.now_ns);
		if (!step->key.cell)
			store_fetch_next(turn->table->store, &step->key);
	}
}

bool engine_others_wait(const struct weir_table *table)
{
	const struct waitlist *list = waitlist_at(&table->waiting);

	return list && waitlist_count(list) > 0;
}

static bool may_wait(const struct step *step, uint64_t max_wait_ns)
{
	return !step->shadow &&
	       (step->limit->algo.paced || wait_patience_ns(&step->limit->algo, max_wait_ns) > 0);
}

bool engine_may_wait(const struct plan *plan)
{
	bool may = false;

	for (size_t i = 0; i < plan->step_count && !may; i++)
		may = may_wait(&plan->steps[i], plan->max_wait_ns);
	return may && plan->op == ALGO_ACQUIRE && plan->cost > 0 && plan->max_wait_ns != WEIR_ZERO;
}

bool engine_polls(const struct plan *plan)
{
	return plan->refused->remote;
}
