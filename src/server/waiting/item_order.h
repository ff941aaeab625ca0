/* item_order.h: the items of a batch at one key take effect in their order, as in order.h. */
#ifndef SERVER_ITEM_ORDER_H
#define SERVER_ITEM_ORDER_H

#include "server/loop/work.h"

/* The items of a batch that are not finished, by key. */
struct item_order {
	struct item_slot *slots; /* NULL: there are none */
	size_t mask;
	bool is_lost; /* no memory: each item waits for all before it */
};

/** Whether the item must not start before others, which are not finished. */
bool item_order_waits(const struct weir_table *table, const struct item_order *items,
                      const struct work *works, size_t i);
/** The item is not finished. There are `n` of them. */
void item_order_add(const struct weir_table *table, struct item_order *items,
                    const struct work *works, size_t i, size_t n);
void item_order_free(struct item_order *items);

#endif
