/* find_former.c: finds a key in the tables from before the file of a store grew. */
#include "store/memory.h"

/*
 * Finds a key's live cell in the former tables, the newest of them first. Ended cells are cleared
 * on the way: times are stored modulo 2^60 ns, so an old one would count as live again later. A
 * claim (a key that is being inserted) has no state yet.
 */
bool memory_find_former(const struct memory *store, uint64_t hash, uint64_t now_ns,
                        struct observed_cell *observed)
{
	for (struct wide_table *former = store->former; former; former = former->former) {
		struct table_position position = table_position(&former->table, hash);

		for (;;) {
			*observed = table_find(&former->table, &position);
			if (!observed->cell || cell_is_claim(observed->value))
				break;
			if (cell_ahead_ns(observed->value, now_ns) > 0)
				return true;
			cell_swap(observed->cell, observed->value, (struct cell){0, 0});
		}
	}
	*observed = (struct observed_cell){NULL, {0, 0}};
	return false;
}
