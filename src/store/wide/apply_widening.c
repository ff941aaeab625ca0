/*
 * apply_widening.c: moves the log of a key to the limit's newest table if that has wider records.
 *
 * Each call makes all changes of one kind while the header stays, because the caller starts over
 * anyway. log_widen.c gives their order, and says why threads that meet here make the same changes.
 */
#include "records/log.h"
#include "store/wide/wide.h"

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

static void close_narrower(const struct wide_state *narrower, const struct record_step *step,
                           enum wide_widening *result)
{
	struct record_step there = *step;
	struct record_change change;

	there.record = &narrower->at.record;
	there.header = narrower->at.header;
	if (log_want_close_header(&there, &change))
		apply_change(narrower, &change);
	else
		*result = WIDE_NOT_NEEDED;
}

/* Freezes all cells. A cell whose swap fails is read again: another thread may have frozen it. */
static void freeze_narrower(const struct wide_state *narrower, struct record_change *change)
{
	do
		apply_change(narrower, change);
	while (wide_is_unchanged(narrower) &&
	       log_want_freeze_cell(&narrower->at.record, change->index, change));
}

/* Copies the entries, and then swaps the header. */
static void copy_entries(const struct wide_state *newest, const struct wide_state *narrower)
{
	struct log_copy all = log_copy_of(&narrower->at);
	struct record_change change = {.index = 0};

	do {
		log_want_copy_entry(&all, &newest->at.record, change.index, &change);
		apply_change(newest, &change);
	} while (change.want == RECORD_WANT_CELL && wide_is_unchanged(newest));
}

enum wide_widening wide_widen_log(struct wide_state *newest, const struct store_key *key,
                                  const struct record_step *step, struct algo_decision *out)
{
	enum wide_widening result = WIDE_RETRY;
	struct wide_state narrower;
	struct record_change change;

	if (header_is_live(newest->at.header, step->now_ns) && !header_is_moved(newest->at.header))
		return WIDE_NOT_NEEDED;
	if (!find_narrower_record(newest, key, step->now_ns, &narrower))
		return WIDE_NOT_NEEDED;
	if (step->call->op == ALGO_PEEK)
		return peek_narrower(&narrower, step, out);
	if (step->call->op == ALGO_RESET)
		cell_swap(narrower.at.cell, narrower.at.header, (struct cell){0, 0});
	else if (!header_is_moved(narrower.at.header))
		close_narrower(&narrower, step, &result);
	else if (log_want_freeze_cell(&narrower.at.record, 0, &change))
		freeze_narrower(&narrower, &change);
	else if (!header_is_live(newest->at.header, step->now_ns))
		wide_store_header(newest, step, narrower.at.header);
	else if (cell_bits(newest->at.header) != cell_bits(narrower.at.header))
		return WIDE_NOT_NEEDED;
	else
		copy_entries(newest, &narrower);
	return result;
}
