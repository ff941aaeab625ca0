/* health_newest.c: gives back the newest permits of a row, all in one pass. */
#include "rows/health.h"
#include "rows/health_cells.h"

void health_row_give_newest(const struct algo_limit *limit, uint64_t now_ns, const struct row *row,
                            struct health_newest *newest)
{
	const struct health_params *params = &limit->health;

	for (unsigned i = HEALTH_FIRST_STRIPE; row->cells && i < row->width; i++) {
		struct cell cell;
		int64_t ahead_ns;

		if (!health_may_fly(health_low(row, i), row->tag))
			continue;
		cell = row_load(row, i);
		ahead_ns = cell_ahead_ns(cell, now_ns);
		if (!health_flies_anyhow(params, cell, row->tag) || health_is_overdue(params, ahead_ns))
			continue;
		if (cell_generation(cell) & 1 && (uint64_t)ahead_ns >= newest->after_ns &&
		    ((uint64_t)ahead_ns > newest->after_ns || newest->then > 0) &&
		    health_end(&row->cells[i], cell)) {
			newest->then -= (uint64_t)ahead_ns == newest->after_ns;
			newest->given++;
		} else {
			newest->last_ns = u64_max(newest->last_ns, (uint64_t)ahead_ns);
		}
	}
}

uint64_t health_group_give(const struct algo_limit *limit, uint32_t tag,
                           const struct health_group *group, uint64_t n)
{
	struct cell before, after;
	uint64_t given;

	do {
		before = cell_peek(group->cell);
		if (!health_flies_anyhow(&limit->health, before, tag))
			return 0;
		given = u64_min(n, cell_word(before));
		after = (struct cell){before.low - given, before.high};
	} while (!cell_swap(group->cell, before, after));
	return given;
}
