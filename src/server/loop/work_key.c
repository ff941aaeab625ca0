/*
 * work_key.c: computes hashes by which requests are compared: whether two have a key in common, and
 * whether they do the same, so that their order makes no difference.
 */
#include "server/loop/work_key.h"

/* A local limit, which replaces that of an unavailable store, has other hashes for its keys. */
uint64_t work_key(const struct weir_table *table, const struct plan_step *step)
{
	const struct weir_limit *replaced_limit = step->limit->origin; /* unless it is NULL */
	const struct slice name = step->key_name;

	if (__builtin_expect(replaced_limit == NULL, 1))
		return step->key.hash;
	return store_hash(table->store, replaced_limit->algo.identity, name.data, name.len);
}

static uint64_t mix_hash(uint64_t sum, uint64_t value)
{
	sum = (sum ^ value) * UINT64_C(0x9e3779b97f4a7c15);
	return sum ^ sum >> 29;
}

/*
 * Whether two steps of the plan have one key. They are charged one after the other, so an equal
 * plan may run in between: the order of such plans does make a difference.
 */
static bool charges_a_key_twice(const struct plan *plan)
{
	for (size_t i = 0; i < plan->step_count; i++)
		for (size_t j = 0; j < i; j++)
			if (plan->steps[i].key.hash == plan->steps[j].key.hash)
				return true;
	return false;
}

/* Works with the same hash have the same operation, arguments and keys; 0 equals no other. */
uint64_t work_effect_hash(const struct weir_table *table, const struct work *work)
{
	const struct plan *plan = &work->plan;
	uint64_t sum = mix_hash(work->kind, plan->op);

	if (charges_a_key_twice(plan))
		return 0;
	sum = mix_hash(sum, plan->cost);
	sum = mix_hash(sum, plan->max_wait_ns);
	sum = mix_hash(sum, plan->permit.id);
	sum = mix_hash(sum, (uint64_t)plan->feedback << 2 | plan->outcome); /* which has 2 bits */
	for (size_t i = 0; i < plan->step_count; i++) {
		sum = mix_hash(sum, work_key(table, &plan->steps[i]));
		sum = mix_hash(sum, (uintptr_t)plan->steps[i].rule);
	}
	return sum | 1;
}
