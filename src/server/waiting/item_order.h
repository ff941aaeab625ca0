/*
 * item_order.h: makes items of a batch that share a key take effect in their order, as key_order.h
 * does for requests.
 */
#ifndef SERVER_ITEM_ORDER_H
#define SERVER_ITEM_ORDER_H

#include "base/map.h"
#include "server/loop/work.h"

/* The last item with a key, of those that are not finished. */
struct item_entry {
	uint64_t key;
	size_t number; /* of the item in the batch, from 1 */
};

/* The unfinished items of a batch, by key. It is made anew, item by item, in each run. */
struct item_order {
	struct map newest;  /* of struct item_entry */
	bool is_incomplete; /* out of memory: every further item waits */
};

#define ITEM_ORDER_NONE ((struct item_order){.newest = MAP_OF(struct item_entry, SIZE_MAX)})

/** Whether item `i` must not start yet, because unfinished items before it have one of its keys. */
bool item_order_waits(const struct weir_table *table, const struct item_order *order,
                      const struct work *items, size_t i);
/** Adds item `i`, which is still unfinished after it was run or had to wait. */
void item_order_add(const struct weir_table *table, struct item_order *order,
                    const struct work *items, size_t i);
void item_order_free(struct item_order *order);

#endif
