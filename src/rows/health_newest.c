/* health_newest.c: finds the newest permits of a row, and gives them back. */
#include "rows/health.h"
#include "rows/health_cells.h"

/* How far ahead the flight of a cell ends; 0 if there is none. */
static uint64_t flight_ns(const struct health_params *params, uint64_t now_ns,
                          const struct row *row, unsigned place, struct cell *cell)
{
	int64_t ahead_ns;

	if (!health_may_fly(health_low(row, place), row->tag))
		return 0;
	*cell = row_load(row, place);
	ahead_ns = cell_ahead_ns(*cell, now_ns);
	return health_flies_anyhow(params, *cell, row->tag) && !health_is_overdue(params, ahead_ns)
	           ? (uint64_t)ahead_ns
	           : 0;
}

void health_row_visit(const struct algo_limit *limit, uint64_t now_ns, const struct row_state *at,
                      newest_visit *visit, struct newest *newest)
{
	for (unsigned i = HEALTH_FIRST_STRIPE; i < at->row.width; i++) {
		struct cell cell;
		uint64_t ahead_ns = flight_ns(&limit->health, now_ns, &at->row, i, &cell);

		if (ahead_ns > 0 && cell_generation(cell) & 1)
			visit(newest, ahead_ns);
	}
}

uint64_t health_row_give_newest(const struct algo_limit *limit, uint64_t now_ns,
                                const struct row *row, struct newest *newest, uint64_t *last_ns)
{
	uint64_t given = 0;

	for (unsigned i = HEALTH_FIRST_STRIPE; row->cells && i < row->width; i++) {
		struct cell cell;
		uint64_t ahead_ns = flight_ns(&limit->health, now_ns, row, i, &cell);

		if (ahead_ns == 0)
			continue;
		if (cell_generation(cell) & 1 && newest_has(newest, ahead_ns) &&
		    health_end(&row->cells[i], cell)) {
			newest_take(newest, ahead_ns);
			given++;
		} else {
			*last_ns = u64_max(*last_ns, ahead_ns);
		}
	}
	return given;
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
