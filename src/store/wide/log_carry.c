/*
 * log_carry.c: a key whose log stands in a narrower record of a former table goes on in the newest
 * one.
 *
 * Each call makes the changes of one kind, while the header stays, for the caller starts over
 * anyway. log_move.c says in which order they come, and why threads that meet here do the same.
 */
#include "records/log.h"
#include "store/wide/wide.h"

static bool is_moved(struct cell header)
{
	return cell_generation(header) == RECORD_MOVED;
}

static bool swap_in(const struct wide_state *state, const struct record_change *change)
{
	if (change->want == RECORD_WANT_CELL &&
	    (!wide_is_unchanged(state) ||
	     !cell_swap(&state->at.record.cells[change->place], change->before, change->after)))
		return false;
	return (change->want == RECORD_WANT_CELL && !change->then_header) ||
	       cell_swap(state->at.cell, state->at.header, change->header);
}

/* The key's live header in a former table with narrower records. */
static bool find_narrower(const struct wide_state *newest, const struct store_key *key,
                          uint64_t now_ns, struct wide_state *narrower)
{
	for (struct wide_table *wide = newest->asked->former; wide; wide = narrower->wide->former) {
		wide_find(wide, key, narrower);
		if (header_is_live(narrower->at.header, now_ns) &&
		    narrower->at.record.width < newest->asked->section.record_cells)
			return true;
	}
	return false;
}

/* By the narrower record as it is, which nobody grants on if it is closed. */
static enum wide_carried peek(const struct wide_state *narrower, const struct record_step *on,
                              struct algo_decision *out)
{
	struct record_step there = *on;
	struct record_change change;

	there.record = &narrower->at.record;
	there.header =
	    is_moved(narrower->at.header) ? log_reopened(&narrower->at) : narrower->at.header;
	record_decide(&there, out, &change);
	return wide_is_unchanged(narrower) ? WIDE_ANSWERED : WIDE_AGAIN;
}

static void close_header(const struct wide_state *narrower, const struct record_step *on,
                         enum wide_carried *end)
{
	struct record_step there = *on;
	struct record_change change;

	there.record = &narrower->at.record;
	there.header = narrower->at.header;
	if (log_wants_closing(&there, &change))
		swap_in(narrower, &change);
	else
		*end = WIDE_NOTHING;
}

/* A place where a swap fails is looked at again: another thread may have done it. */
static void freeze(const struct wide_state *narrower, struct record_change *change)
{
	do
		swap_in(narrower, change);
	while (wide_is_unchanged(narrower) &&
	       log_wants_freezing(&narrower->at.record, change->place, change));
}

/* The entries, and then the header. */
static void copy(const struct wide_state *newest, const struct wide_state *narrower)
{
	struct log_copy all = log_copy_of(&narrower->at);
	struct record_change change = {.place = 0};

	do {
		log_want_copy(&all, &newest->at.record, change.place, &change);
		swap_in(newest, &change);
	} while (change.want == RECORD_WANT_CELL && wide_is_unchanged(newest));
}

enum wide_carried wide_carry_log(struct wide_state *newest, const struct store_key *key,
                                 const struct record_step *on, struct algo_decision *out)
{
	enum wide_carried end = WIDE_AGAIN;
	struct wide_state narrower;
	struct record_change change;

	if (header_is_live(newest->at.header, on->now_ns) && !is_moved(newest->at.header))
		return WIDE_NOTHING;
	if (!find_narrower(newest, key, on->now_ns, &narrower))
		return WIDE_NOTHING;
	if (on->call->op == ALGO_PEEK)
		return peek(&narrower, on, out);
	if (on->call->op == ALGO_RESET)
		cell_swap(narrower.at.cell, narrower.at.header, (struct cell){0, 0});
	else if (!is_moved(narrower.at.header))
		close_header(&narrower, on, &end);
	else if (log_wants_freezing(&narrower.at.record, 0, &change))
		freeze(&narrower, &change);
	else if (!header_is_live(newest->at.header, on->now_ns))
		wide_store_header(newest, on, narrower.at.header);
	else if (cell_bits(newest->at.header) != cell_bits(narrower.at.header))
		return WIDE_NOTHING;
	else
		copy(newest, &narrower);
	return end;
}
