/*
 * suspend_plan.c: copies a plan that must wait, out of the memory of the loop iteration in which it
 * began, and adapts it if the configuration was reloaded meanwhile.
 *
 * A plan has a step for each limit and key of its request. The copy has two parts in one block of
 * memory: first the steps, or the plan's limit if it came with the command (CL.THROTTLE), then the
 * names of the keys.
 */
#include "engine/engine.h"
#include "engine/remote/store_failure.h"

/* Whether the plan has one step, whose limit came with the command and not from the configuration.
 */
static bool has_adhoc_limit(const struct plan *plan)
{
	return plan->steps == &plan->direct_step && limit_is_adhoc(plan->direct_step.limit);
}

/*
 * The copy of such a limit, and memory for its local limit, which is made only if the store fails
 * (store_failure.c).
 */
struct adhoc_limits {
	struct weir_limit limit, local;
};

/* Returns the size of the memory for the copy. */
size_t engine_suspend_size(const struct plan *plan)
{
	size_t size = plan->steps == &plan->direct_step ? 0 : plan->step_count * sizeof *plan->steps;

	size += has_adhoc_limit(plan) ? sizeof(struct adhoc_limits) : 0;
	for (size_t i = 0; i < plan->step_count; i++)
		size += plan->steps[i].key_name.len;
	return size;
}

/* Copies the plan `from` to `to`, and what it points to to `memory`. */
void engine_suspend(const struct weir_table *table, struct plan *to, const struct plan *from,
                    void *memory)
{
	size_t copied_steps = from->steps == &from->direct_step ? 0 : from->step_count;
	char *names = (char *)((struct plan_step *)memory + copied_steps); /* or behind the limits */

	*to = *from;
	if (has_adhoc_limit(from)) {
		struct adhoc_limits *copy = memory;

		copy->limit = *from->direct_step.limit;
		copy->limit.local = &copy->local;
		to->direct_step.limit = &copy->limit;
		names += sizeof *copy;
	}
	to->steps = copied_steps > 0 ? memory : &to->direct_step;
	to->refused_step = from->refused_step ? to->steps + (from->refused_step - from->steps) : NULL;
	to->step_decisions = NULL; /* the caller's memory ends before the plan does */
	for (size_t i = 0; i < to->step_count; i++) {
		struct plan_step *step = &to->steps[i];

		if (copied_steps > 0)
			*step = from->steps[i];
		/* Without the cell that was found, since the table changes while the plan waits. */
		step->key = store_key(table->store, &step->limit->algo, step->key.hash);
		if (step->key_name.len > 0)
			memcpy(names, step->key_name.data, step->key_name.len);
		step->key_name.data = step->key_name.data ? names : NULL;
		names += step->key_name.len;
	}
}

/*
 * Whether no configuration has the step's limit by its name: it came with the command, or stands
 * for a rule that denies without limits.
 */
static bool has_unlisted_limit(const struct plan_step *step)
{
	return step->limit->algo.is_adhoc || (step->rule && step->rule->limit_count == 0);
}

/*
 * Moves the step to the engine's limit of the same name. With another algorithm or period that is
 * another limit: it has other keys, and has not let the step pass yet. Returns false if there is no
 * limit of that name.
 */
static bool move_to_engine(struct plan_step *step, const struct weir_engine *engine)
{
	const struct weir_limit *old = step->limit->origin ? step->limit->origin : step->limit;
	const struct weir_limit *limit = weir_engine_limit(engine, old->name, strlen(old->name));

	if (!limit)
		return false;
	if (limit->algo.identity != old->algo.identity)
		step->allowed = false;
	failure_move_step(engine_table(engine), step, limit);
	return true;
}

/* Returns false if nothing is left of a direct call: its one limit was removed. */
bool engine_move_waiting(struct plan *plan, const struct weir_engine *new_engine)
{
	size_t remaining = 0;

	plan->has_remote_steps = false;
	for (size_t i = 0; i < plan->step_count; i++) {
		struct plan_step *step = &plan->steps[i];

		if (!has_unlisted_limit(step) && !move_to_engine(step, new_engine))
			continue;
		plan->has_remote_steps |= step->remote;
		plan->steps[remaining++] = *step;
	}
	plan->step_count = (uint32_t)remaining;
	return remaining > 0 || plan->steps != &plan->direct_step;
}
