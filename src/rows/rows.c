/* rows.c: the dispatch over the ways in which rows are kept. */
#include "rows/rows.h"

void rows_step(const struct algo_limit *limit, const struct algo_call *call,
               const struct algo_time *time, struct cell head, const struct row *row,
               struct algo_outcome *out, struct row_change *change)
{
	algo_outcome_open(out);
	*change = (struct row_change){.want = ROW_WANT_NOTHING};
	if (limit->rows == ALGO_ROWS_LOG)
		log_step(limit, call, time, head, row, out, change);
	else if (limit->rows == ALGO_ROWS_DAY)
		day_step(limit, call, time, head, row, out, change);
	else
		slots_step(limit, call, time, head, row, out, change);
}

struct cell rows_moved(const struct algo_limit *limit, uint64_t now_ns, struct cell head,
                       const struct row *row)
{
	uint64_t use = 0;

	if (row_head_live(head, now_ns))
		use = limit->rows == ALGO_ROWS_LOG
		          ? log_use(limit, now_ns, head, row)
		          : slots_use(limit, now_ns, head, row);
	if (use == 0)
		return (struct cell){0, 0};
	return cell_make(row->tag, now_ns + (uint64_t)cell_ahead_ns(head, now_ns), (uint32_t)(use - 1),
	                 ROW_MOVED);
}

void rows_read(const struct algo_limit *limit, const struct algo_time *time, struct cell head,
               const struct row *row, struct uses *uses)
{
	static void (*const readers[])(const struct algo_limit *, const struct algo_time *,
	                               struct cell, const struct row *, struct uses *) = {
	    [ALGO_ROWS_SLOTS] = slots_read,
	    [ALGO_ROWS_LOG] = log_read,
	    [ALGO_ROWS_DAY] = day_read,
	    [ALGO_ROWS_PLACES] = places_read,
	};

	if (row_head_live(head, time->now_ns))
		readers[limit->rows](limit, time, head, row, uses);
}
