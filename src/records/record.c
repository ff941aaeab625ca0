/* record.c: calls the operations of the kind of record that a limit has. */
#include "records/record.h"

static const struct record_ops *const kinds[] = {
    [ALGO_RECORD_SLOTS] = &record_slots,
    [ALGO_RECORD_LOG] = &record_log,
    [ALGO_RECORD_DAY] = &record_day,
    [ALGO_RECORD_LEASES] = &record_leases,
};

void record_decide(const struct record_step *on, struct algo_decision *out,
                   struct record_change *change)
{
	algo_decision_allow(out);
	*change = (struct record_change){.want = RECORD_WANT_NOTHING};
	kinds[on->limit->record]->step(on, out, change);
}

bool record_clean(const struct record_state *at, unsigned count, struct cell (*voided)(struct cell))
{
	for (unsigned i = 0; i < count; i++) {
		struct cell cell = record_load(&at->record, i), none;

		if (cell_tag(cell) != at->record.tag)
			continue;
		none = voided(cell);
		if (cell_bits(cell) == cell_bits(none))
			continue;
		if (cell_bits(record_header(at)) != cell_bits(at->header))
			return false;
		cell_swap(&at->record.cells[i], cell, none); /* else another thread has just done it */
	}
	return true;
}

struct cell record_moved(const struct record_step *on)
{
	uint64_t use = header_is_live(on->header, on->now_ns) ? kinds[on->limit->record]->use(on) : 0;

	if (use == 0)
		return (struct cell){0, 0};
	return cell_make(on->record->tag, on->now_ns + (uint64_t)cell_ahead_ns(on->header, on->now_ns),
	                 (uint32_t)(use - 1), RECORD_MOVED);
}

void record_read_uses(const struct algo_limit *limit, const struct algo_time *time,
                      struct cell header, const struct record *record, struct uses *uses)
{
	struct record_step on = {limit, NULL, time->now_ns, time->window_end_ns, header, record};

	if (header_is_live(header, time->now_ns))
		kinds[limit->record]->read(&on, uses);
}
