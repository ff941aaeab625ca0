/*
 * record.c: handles a key's state of more than one word, which is a *header* (the key's own cell in
 * a table) and a *record* (an array of further cells behind it). Decides calls and reads the units
 * in use by the operations of the limit's kind of record, cleans a new key's record, and makes the
 * header of a key that moves to another table.
 */
#include "records/record.h"

static const struct record_ops *const ops_of_kind[] = {
    [ALGO_RECORD_SLOTS] = &record_slots,
    [ALGO_RECORD_LOG] = &record_log,
    [ALGO_RECORD_DAY] = &record_day,
    [ALGO_RECORD_LEASES] = &record_leases,
};

/* Decides on the call, and says in `change` which cell the caller has to swap next, if any. */
void record_decide(const struct record_step *step, struct algo_decision *out,
                   struct record_change *change)
{
	algo_decision_allow(out);
	*change = (struct record_change){.want = RECORD_WANT_NOTHING};
	ops_of_kind[step->limit->record]->decide(step, out, change);
}

/*
 * Cleans the record of a key whose header says that nothing in the record counts yet. The cells
 * with the key's tag are therefore of an earlier life of the key. Replaces each by `voided(cell)`,
 * unless it is that already. Returns false if the header has changed meanwhile, because the cells
 * may then be in use.
 */
bool record_void_cells(const struct record_state *at, unsigned count,
                       struct cell (*voided)(struct cell))
{
	for (unsigned i = 0; i < count; i++) {
		struct cell before = record_load(&at->record, i), after;

		if (cell_tag(before) != at->record.tag)
			continue;
		after = voided(before);
		if (cell_bits(before) == cell_bits(after))
			continue;
		if (cell_bits(record_header(at)) != cell_bits(at->header))
			return false;
		/* If the swap fails, another thread has done it. */
		cell_swap(&at->record.cells[i], before, after);
	}
	return true;
}

/*
 * The header that replaces one of a former table when the key moves to the limit's newest table: it
 * says how many units are in use (minus one), or is empty if there are none.
 */
struct cell record_moved_header(const struct record_step *step)
{
	uint64_t end_ns = step->now_ns + (uint64_t)cell_ahead_ns(step->header, step->now_ns), units = 0;

	if (header_is_live(step->header, step->now_ns))
		units = ops_of_kind[step->limit->record]->units_in_use(step);
	if (units == 0)
		return (struct cell){0, 0};
	return cell_make(step->record->tag, end_ns, (uint32_t)(units - 1), RECORD_MOVED);
}

void record_read_uses(const struct algo_limit *limit, const struct algo_time *time,
                      struct cell header, const struct record *record, struct uses *uses)
{
	struct record_step step = {limit, NULL, time->now_ns, time->window_end_ns, header, record};

	if (header_is_live(header, time->now_ns))
		ops_of_kind[limit->record]->read_uses(&step, uses);
}
