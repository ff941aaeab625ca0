#include "server/waiting/item_order.h"

#include <stdlib.h>

#include "server/loop/work_key.h"

struct item_slot {
	uint64_t key;
	size_t item; /* the newest one with that key, plus 1; 0: the slot is free */
};

static struct item_slot *slot_of(const struct item_order *items, uint64_t key)
{
	size_t at = key & items->mask;

	while (items->slots[at].item > 0 && items->slots[at].key != key)
		at = (at + 1) & items->mask;
	return &items->slots[at];
}

static bool is_begun(const struct work *item)
{
	return item->plan.stage != PLAN_PREPARED;
}

bool item_order_waits(const struct weir_table *table, const struct item_order *items,
                      const struct work *works, size_t i)
{
	const struct work *item = &works[i];

	if (!work_has_steps(item) || is_begun(item))
		return false;
	for (size_t j = 0; items->slots && j < item->plan.step_count; j++) {
		size_t before = slot_of(items, work_key(table, &item->plan.steps[j]))->item;

		if (before > 0 && (!is_begun(&works[before - 1]) || work_alike(table, item) == 0 ||
		                   work_alike(table, &works[before - 1]) != work_alike(table, item)))
			return true;
	}
	return items->is_lost;
}

static bool open_items(struct item_order *items, const struct work *works, size_t n)
{
	size_t steps = 0, size = 16;

	for (size_t i = 0; i < n; i++)
		steps += works[i].plan.step_count;
	while (size < 2 * steps)
		size *= 2;
	items->slots = calloc(size, sizeof *items->slots);
	items->mask = size - 1;
	items->is_lost = !items->slots;
	return items->slots != NULL;
}

void item_order_add(const struct weir_table *table, struct item_order *items,
                    const struct work *works, size_t i, size_t n)
{
	const struct plan *plan = &works[i].plan;

	if (!work_has_steps(&works[i]) || items->is_lost ||
	    (!items->slots && !open_items(items, works, n)))
		return;
	for (size_t j = 0; j < plan->step_count; j++) {
		uint64_t key = work_key(table, &plan->steps[j]);

		*slot_of(items, key) = (struct item_slot){key, i + 1};
	}
}

void item_order_free(struct item_order *items)
{
	free(items->slots);
}
