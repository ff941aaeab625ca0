/* held.c: reads and stores the headers of a key whose records are in one row or several. */
#include "store/wide/held.h"

void held_find_first(struct held *held)
{
	const struct holder *holder = held->holder;

	held->limit = *holder->by = algo_current(held->limit);
	held->count = 1;
	if (holder->store) {
		wide_find(memory_newest(holder->store, held->limit->identity), holder->key, &held->rows[0]);
	} else {
		held->rows[0] = *holder->alone;
		held->rows[0].at.head = row_head(&holder->alone->at);
	}
}

void held_find(struct held *held)
{
	struct wide_table *former;

	held_find_first(held);
	former = held->rows[0].wide ? held->rows[0].wide->former : NULL;
	for (; __builtin_expect(former != NULL, 0) && held->count < HELD_ROWS_MAX; held->count++) {
		wide_find(former, held->holder->key, &held->rows[held->count]);
		former = held->rows[held->count].wide->former;
	}
}

bool held_is_unchanged(const struct held *held)
{
	for (size_t i = 0; i < held->count; i++)
		if (!wide_still(&held->rows[i]))
			return false;
	return true;
}

bool held_is_newest(const struct held *held)
{
	const struct holder *holder = held->holder;

	return algo_is_current(held->limit) &&
	       (!holder->store ||
	        memory_newest(holder->store, held->limit->identity) == held->rows[0].asked);
}

enum held_kept held_store(struct held *held, struct cell head)
{
	struct row_step on = {.limit = held->limit, .now_ns = held->now_ns};
	struct wide_state *newest = &held->rows[0];

	if (!wide_store_head(newest, &on, head))
		return held_is_full(held) ? HELD_NO_ROOM : HELD_CHANGED;
	newest->at.head = head;
	return newest->at.cell ? HELD_KEPT : HELD_CHANGED;
}

void held_visit(const struct held *held, held_ends *ends, newest_visit *visit,
                struct newest *newest)
{
	for (size_t i = 0; i < held->count; i++)
		if (held->rows[i].at.cell)
			ends(held->limit, held->now_ns, &held->rows[i].at, visit, newest);
}

void held_find_newest(const struct held *held, held_ends *ends, uint64_t n, struct newest *newest)
{
	while (newest_needs_count(newest, n)) {
		held_visit(held, ends, newest_count, newest);
		if (newest_end(newest))
			return;
		newest_begin(newest, n);
		held_visit(held, ends, newest_add, newest);
	}
}
