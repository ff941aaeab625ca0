#include "store/step.h"

bool memory_is_full(const struct memory *store, const struct algo_limit *limit,
                    const struct table_spot *spot, uint64_t now_ns, struct algo_outcome *out)
{
	bool full = table_is_full(&store->table, spot, now_ns);

	if (full)
		algo_outcome_full(limit, out);
	return full;
}

bool memory_find_former(const struct memory *store, uint64_t hash, uint64_t now_ns,
                        struct table_slot *slot)
{
	for (struct wide_table *former = store->former; former; former = former->former) {
		struct table_spot spot = table_spot(&former->table, hash);

		for (;;) {
			*slot = table_find(&former->table, &spot);
			if (!slot->cell || cell_is_claim(slot->value))
				break;
			if (cell_ahead_ns(slot->value, now_ns) > 0)
				return true;
			cell_swap(slot->cell, slot->value, (struct cell){0, 0}); /* else it lives again */
		}
	}
	*slot = (struct table_slot){NULL, {0, 0}};
	return false;
}

bool store_forget(const struct store_step *step)
{
	struct memory *store = memory_of(step->store);
	struct table *table = &store->table;
	struct table_spot spot = table_spot(table, step->key.hash);
	uint64_t now_ns = step->at.now_ns;

	for (;;) {
		struct table_slot slot = memory_find_all(store, &spot, step->key.cell, now_ns);

		if (memory_unpack(slot.value, now_ns).until_ns == 0)
			return false;
		if (table_store(table, &spot, slot, (struct cell){0, 0}, now_ns, NULL))
			return true;
	}
}
