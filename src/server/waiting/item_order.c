/*
 * item_order.c: finds out whether an item of a batch must wait for an earlier item with the same
 * key, so that items take effect in their order although stores answer some of them later.
 */
#include "server/waiting/item_order.h"

#include "server/loop/work_key.h"

static bool is_begun(const struct work *item)
{
	return item->plan.stage != PLAN_PREPARED;
}

/* Items with the same effect may run at once, as soon as the earlier one has begun. */
static bool may_run_beside(const struct weir_table *table, const struct work *earlier,
                           const struct work *item)
{
	return is_begun(earlier) && work_effect_hash(table, item) != 0 &&
	       work_effect_hash(table, earlier) == work_effect_hash(table, item);
}

/* Whether item `i` must wait for an unfinished item with one of its keys. */
bool item_order_waits(const struct weir_table *table, const struct item_order *order,
                      const struct work *items, size_t i)
{
	const struct work *item = &items[i];

	if (!work_has_plan(item) || is_begun(item))
		return false;
	for (size_t j = 0; j < item->plan.step_count; j++) {
		uint64_t key = work_key(table, &item->plan.steps[j]);
		const struct item_entry *earlier = map_find(&order->newest, key);

		if (earlier && !may_run_beside(table, &items[earlier->number - 1], item))
			return true;
	}
	return order->is_incomplete; /* an earlier item with the key may be missing */
}

void item_order_add(const struct weir_table *table, struct item_order *order,
                    const struct work *items, size_t i)
{
	const struct plan *plan = &items[i].plan;

	if (!work_has_plan(&items[i]))
		return;
	for (size_t j = 0; j < plan->step_count && !order->is_incomplete; j++) {
		struct item_entry *entry = map_add(&order->newest, work_key(table, &plan->steps[j]));

		order->is_incomplete = !entry;
		if (entry)
			entry->number = i + 1;
	}
}

void item_order_free(struct item_order *order)
{
	map_free(&order->newest);
}
