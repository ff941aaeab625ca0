#include "server/waiting/item_order.h"

#include "server/loop/work_key.h"

static bool is_begun(const struct work *item)
{
	return item->plan.stage != PLAN_PREPARED;
}

bool item_order_waits(const struct weir_table *table, const struct item_order *items,
                      const struct work *works, size_t i)
{
	const struct work *item = &works[i];

	if (!work_has_plan(item) || is_begun(item))
		return false;
	for (size_t j = 0; j < item->plan.step_count; j++) {
		uint64_t key = work_key(table, &item->plan.steps[j]);
		const struct item_entry *entry = map_find(&items->newest, key);
		size_t before = entry ? entry->item : 0;

		/* equal items may run at once, when the earlier one has begun */
		if (before > 0 &&
		    (!is_begun(&works[before - 1]) || work_effect_hash(table, item) == 0 ||
		     work_effect_hash(table, &works[before - 1]) != work_effect_hash(table, item)))
			return true;
	}
	return items->is_incomplete;
}

void item_order_add(const struct weir_table *table, struct item_order *items,
                    const struct work *works, size_t i)
{
	const struct plan *plan = &works[i].plan;

	if (!work_has_plan(&works[i]))
		return;
	for (size_t j = 0; j < plan->step_count && !items->is_incomplete; j++) {
		struct item_entry *entry = map_add(&items->newest, work_key(table, &plan->steps[j]));

		items->is_incomplete = !entry;
		if (entry)
			entry->item = i + 1;
	}
}

void item_order_free(struct item_order *items)
{
	map_free(&items->newest);
}
