/*
 * apply_widening.c: moves the log of a key to the limit's newest table if that has wider records.
 *
 * A log is a header, the key's cell in a table, and a record, a ring of cells behind it. The move
 * has these steps:
 *
 * - (1) close the header of the narrower record (generation RECORD_MOVED): it grants nothing more;
 * - (2) freeze all cells of that record;
 * - (3) store the closed header in the newest table;
 * - (4) copy the entries to its record, and swap the closed header there for an open one.
 *
 * A call of wide_widen_log makes the swaps of one step. Then its caller reads the headers again.
 * log_widen.c computes the values, and says why threads that meet here make the same changes.
 */
#include "records/log.h"
#include "store/wide/wide.h"

/* Whether the header is closed, in either table. */
static bool header_is_moved(struct cell header)
{
	return cell_generation(header) == RECORD_MOVED;
}

static bool apply_change(const struct wide_state *state, const struct record_change *change)
{
	if (change->want == RECORD_WANT_CELL &&
	    (!wide_is_unchanged(state) ||
	     !cell_swap(&state->at.record.cells[change->index], change->before, change->after)))
		return false;
	return (change->want == RECORD_WANT_CELL && !change->then_header) ||
	       cell_swap(state->at.cell, state->at.header, change->header);
}

/* Finds the key's live header in a former table with narrower records. */
static bool find_narrower_record(const struct wide_state *newest, const struct store_key *key,
                                 uint64_t now_ns, struct wide_state *narrower)
{
	for (struct wide_table *wide = newest->newest_table->former; wide;
	     wide = narrower->header_table->former) {
		wide_find(wide, key, narrower);
		if (header_is_live(narrower->at.header, now_ns) &&
		    narrower->at.record.width < newest->newest_table->section.record_cells)
			return true;
	}
	return false;
}

/* Peeks at the narrower record. Nothing is granted on a closed one. */
static enum wide_widening peek_narrower(const struct wide_state *narrower,
                                        const struct record_step *step, struct algo_decision *out)
{
	struct record_step there = *step;
	struct record_change change;

	there.record = &narrower->at.record;
	there.header = header_is_moved(narrower->at.header) ? log_reopened_header(&narrower->at)
	                                                    : narrower->at.header;
	record_decide(&there, out, &change);
	return wide_is_unchanged(narrower) ? WIDE_ANSWERED : WIDE_RETRY;
}

/* Step (1). A log of which nothing is in use need not move. */
static enum wide_widening close_narrower(const struct wide_state *narrower,
                                         const struct record_step *step)
{
	struct record_step there = *step;
	struct record_change change;

	there.record = &narrower->at.record;
	there.header = narrower->at.header;
	if (!log_want_close_header(&there, &change))
		return WIDE_NOT_NEEDED;
	apply_change(narrower, &change);
	return WIDE_RETRY;
}

/* Step (2), from the cell of `change` on. A cell whose swap fails is read again: another thread may
 * have frozen it. */
static void freeze_narrower(const struct wide_state *narrower, struct record_change *change)
{
	do
		apply_change(narrower, change);
	while (wide_is_unchanged(narrower) &&
	       log_want_freeze_cell(&narrower->at.record, change->index, change));
}

/* Step (4). */
static void copy_entries(const struct wide_state *newest, const struct wide_state *narrower)
{
	struct log_copy all = log_copy_of(&narrower->at);
	struct record_change change = {.index = 0};

	do {
		log_want_copy_entry(&all, &newest->at.record, change.index, &change);
		apply_change(newest, &change);
	} while (change.want == RECORD_WANT_CELL && wide_is_unchanged(newest));
}

/*
 * Makes the next step of a move. Returns WIDE_RETRY if the caller has to read the headers again,
 * and WIDE_NOT_NEEDED if it can go on with the newest header.
 */
enum wide_widening wide_widen_log(struct wide_state *newest, const struct store_key *key,
                                  const struct record_step *step, struct algo_decision *out)
{
	bool newest_is_live = header_is_live(newest->at.header, step->now_ns);
	struct wide_state narrower;
	struct record_change change;

	if (newest_is_live && !header_is_moved(newest->at.header))
		return WIDE_NOT_NEEDED;
	if (!find_narrower_record(newest, key, step->now_ns, &narrower))
		return WIDE_NOT_NEEDED;
	if (step->call->op == ALGO_PEEK)
		return peek_narrower(&narrower, step, out);
	if (step->call->op == ALGO_RESET) {
		cell_swap(narrower.at.cell, narrower.at.header, (struct cell){0, 0});
	} else if (!header_is_moved(narrower.at.header)) {
		return close_narrower(&narrower, step);
	} else if (log_want_freeze_cell(&narrower.at.record, 0, &change)) {
		freeze_narrower(&narrower, &change);
	} else if (!newest_is_live) {
		wide_store_header(newest, step, narrower.at.header); /* (3) */
	} else {
		bool is_of_another_move = cell_bits(newest->at.header) != cell_bits(narrower.at.header);

		if (is_of_another_move)
			return WIDE_NOT_NEEDED;
		copy_entries(newest, &narrower);
	}
	return WIDE_RETRY;
}
