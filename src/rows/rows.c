/* rows.c: the ways to keep rows. */
#include "rows/rows.h"

static const struct row_kind *const kinds[] = {
    [ALGO_ROWS_SLOTS] = &row_slots,
    [ALGO_ROWS_LOG] = &row_log,
    [ALGO_ROWS_DAY] = &row_day,
    [ALGO_ROWS_PLACES] = &row_places,
};

void rows_step(const struct row_step *on, struct algo_decision *out, struct row_change *change)
{
	algo_decision_allow(out);
	*change = (struct row_change){.want = ROW_WANT_NOTHING};
	kinds[on->limit->rows]->step(on, out, change);
}

bool rows_clean(const struct row_state *at, unsigned count, struct cell (*voided)(struct cell))
{
	for (unsigned i = 0; i < count; i++) {
		struct cell cell = row_load(&at->row, i), none;

		if (cell_tag(cell) != at->row.tag)
			continue;
		none = voided(cell);
		if (cell_bits(cell) == cell_bits(none))
			continue;
		if (cell_bits(row_head(at)) != cell_bits(at->head))
			return false;
		cell_swap(&at->row.cells[i], cell, none); /* else another thread has just done it */
	}
	return true;
}

struct cell rows_moved(const struct row_step *on)
{
	uint64_t use = row_head_live(on->head, on->now_ns) ? kinds[on->limit->rows]->use(on) : 0;

	if (use == 0)
		return (struct cell){0, 0};
	return cell_make(on->row->tag, on->now_ns + (uint64_t)cell_ahead_ns(on->head, on->now_ns),
	                 (uint32_t)(use - 1), ROW_MOVED);
}

void rows_read(const struct algo_limit *limit, const struct algo_time *time, struct cell head,
               const struct row *row, struct uses *uses)
{
	struct row_step on = {limit, NULL, time->now_ns, time->window_end_ns, head, row};

	if (row_head_live(head, time->now_ns))
		kinds[limit->rows]->read(&on, uses);
}
