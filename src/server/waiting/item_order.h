/* item_order.h: the items of a batch at one key take effect in their order, as in key_order.h. */
#ifndef SERVER_ITEM_ORDER_H
#define SERVER_ITEM_ORDER_H

#include "base/map.h"
#include "server/loop/work.h"

/* The newest item with a key, of those that are not finished. */
struct item_entry {
	uint64_t key;
	size_t item; /* its number in the batch, plus 1 */
};

/* The items of a batch that are not finished, by key. */
struct item_order {
	struct map newest; /* of struct item_entry */
	bool is_lost;      /* no memory: each item waits for all before it */
};

#define ITEM_ORDER_NONE ((struct item_order){.newest = MAP_OF(struct item_entry, SIZE_MAX)})

/** Whether the item must not start before others, which are not finished. */
bool item_order_waits(const struct weir_table *table, const struct item_order *items,
                      const struct work *works, size_t i);
/** The item is not finished. */
void item_order_add(const struct weir_table *table, struct item_order *items,
                    const struct work *works, size_t i);
void item_order_free(struct item_order *items);

#endif
