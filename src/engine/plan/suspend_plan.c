/*
 * suspend_plan.c: copies plans that outlive the iteration or the configuration that they began in.
 */
#include "engine/engine.h"

/* Whether the plan is a direct call whose limit came with the command. */
static bool is_adhoc(const struct plan *plan)
{
	return plan->steps == &plan->only && engine_is_adhoc(plan->only.limit);
}

/* The copy of such a limit, and its local limit for the time when its store is unavailable. */
struct companion {
	struct weir_limit limit, local;
};

size_t engine_suspend_size(const struct plan *plan)
{
	size_t size = plan->steps == &plan->only ? 0 : plan->step_count * sizeof *plan->steps;

	size += is_adhoc(plan) ? sizeof(struct companion) : 0;
	for (size_t i = 0; i < plan->step_count; i++)
		size += plan->steps[i].key_name.len;
	return size;
}

void engine_suspend(const struct weir_table *table, struct plan *to, const struct plan *from,
                    void *memory)
{
	size_t own = from->steps == &from->only ? 0 : from->step_count;
	char *names = (char *)((struct plan_step *)memory + own);

	*to = *from;
	if (is_adhoc(from)) {
		struct companion *companion = memory;

		companion->limit = *from->only.limit;
		companion->limit.local = &companion->local;
		to->only.limit = &companion->limit;
		names += sizeof *companion;
	}
	to->steps = own > 0 ? memory : &to->only;
	to->refused = from->refused ? to->steps + (from->refused - from->steps) : NULL;
	to->step_decisions = NULL;
	for (size_t i = 0; i < to->step_count; i++) {
		struct plan_step *step = &to->steps[i];

		if (own > 0)
			*step = from->steps[i];
		step->key = store_key(table->store, &step->limit->algo, step->key.hash);
		if (step->key_name.len > 0)
			memcpy(names, step->key_name.data, step->key_name.len);
		step->key_name.data = names;
		names += step->key_name.len;
	}
}

bool engine_adapt(struct plan *plan, const struct weir_engine *now)
{
	size_t remaining = 0;

	for (size_t i = 0; i < plan->step_count; i++) {
		const struct plan_step *step = &plan->steps[i];

		if (engine_limit_of(now, step->limit->algo.identity))
			plan->steps[remaining++] = *step;
	}
	plan->step_count = (uint32_t)remaining;
	return remaining > 0 || plan->steps != &plan->only;
}
