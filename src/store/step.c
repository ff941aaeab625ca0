#include "store/step.h"

bool memory_is_full(const struct memory *store, const struct algo_limit *limit,
                    const struct table_spot *spot, uint64_t now_ns, struct algo_outcome *out)
{
	bool full = table_is_full(&store->table, spot, now_ns);

	if (full)
		algo_outcome_full(limit, out);
	return full;
}

bool store_forget(const struct store_step *step)
{
	struct table *table = &memory_of(step->store)->table;
	struct table_spot spot = table_spot(table, step->key.hash);
	uint64_t now_ns = step->at.now_ns;

	for (;;) {
		struct table_slot slot = memory_find(table, &spot, step->key.cell);

		if (memory_unpack(slot.value, now_ns).until_ns == 0)
			return false;
		if (table_store(table, &spot, slot, (struct cell){0, 0}, now_ns, NULL))
			return true;
	}
}
