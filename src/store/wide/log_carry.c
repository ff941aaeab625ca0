/*
 * log_carry.c: a key whose log stands in a narrower row of a former table goes on in the newest one.
 *
 * Each call makes the changes of one kind, while the head stays, for the caller starts over anyway.
 * log_move.c says in which order they come, and why threads that meet here do the same.
 */
#include "rows/log.h"
#include "store/wide/wide.h"

static bool is_moved(struct cell head)
{
	return cell_generation(head) == ROW_MOVED;
}

static bool swap_in(const struct wide_state *state, const struct row_change *change)
{
	if (change->want == ROW_WANT_CELL &&
	    (!wide_still(state) ||
	     !cell_swap(&state->at.row.cells[change->place], change->before, change->after)))
		return false;
	return (change->want == ROW_WANT_CELL && !change->then_head) ||
	       cell_swap(state->at.cell, state->at.head, change->head);
}

/* The key's live head in a former table with narrower rows. */
static bool find_narrower(const struct wide_state *newest, const struct store_key *key,
                          uint64_t now_ns, struct wide_state *narrower)
{
	for (struct wide_table *wide = newest->asked->former; wide; wide = narrower->wide->former) {
		wide_find(wide, key, narrower);
		if (row_head_live(narrower->at.head, now_ns) &&
		    narrower->at.row.width < newest->asked->section.row_cells)
			return true;
	}
	return false;
}

/* By the narrower row as it is, which nobody grants on if it is closed. */
static enum wide_carried peek(const struct wide_state *narrower, const struct row_step *on,
                              struct algo_decision *out)
{
	struct row_step there = *on;
	struct row_change change;

	there.row = &narrower->at.row;
	there.head = is_moved(narrower->at.head) ? log_reopened(&narrower->at) : narrower->at.head;
	rows_step(&there, out, &change);
	return wide_still(narrower) ? WIDE_ANSWERED : WIDE_AGAIN;
}

static void close_head(const struct wide_state *narrower, const struct row_step *on,
                       enum wide_carried *end)
{
	struct row_step there = *on;
	struct row_change change;

	there.row = &narrower->at.row;
	there.head = narrower->at.head;
	if (log_wants_closing(&there, &change))
		swap_in(narrower, &change);
	else
		*end = WIDE_NOTHING;
}

/* A place where a swap fails is looked at again: another thread may have done it. */
static void freeze(const struct wide_state *narrower, struct row_change *change)
{
	do
		swap_in(narrower, change);
	while (wide_still(narrower) &&
	       log_wants_freezing(&narrower->at.row, change->place, change));
}

/* The entries, and then the head. */
static void copy(const struct wide_state *newest, const struct wide_state *narrower)
{
	struct log_copy all = log_copy_of(&narrower->at);
	struct row_change change = {.place = 0};

	do {
		log_want_copy(&all, &newest->at.row, change.place, &change);
		swap_in(newest, &change);
	} while (change.want == ROW_WANT_CELL && wide_still(newest));
}

enum wide_carried wide_carry_log(struct wide_state *newest, const struct store_key *key,
                                 const struct row_step *on, struct algo_decision *out)
{
	enum wide_carried end = WIDE_AGAIN;
	struct wide_state narrower;
	struct row_change change;

	if (row_head_live(newest->at.head, on->now_ns) && !is_moved(newest->at.head))
		return WIDE_NOTHING;
	if (!find_narrower(newest, key, on->now_ns, &narrower))
		return WIDE_NOTHING;
	if (on->call->op == ALGO_PEEK)
		return peek(&narrower, on, out);
	if (on->call->op == ALGO_RESET)
		cell_swap(narrower.at.cell, narrower.at.head, (struct cell){0, 0});
	else if (!is_moved(narrower.at.head))
		close_head(&narrower, on, &end);
	else if (log_wants_freezing(&narrower.at.row, 0, &change))
		freeze(&narrower, &change);
	else if (!row_head_live(newest->at.head, on->now_ns))
		wide_store_head(newest, on, narrower.at.head);
	else if (cell_bits(newest->at.head) != cell_bits(narrower.at.head))
		return WIDE_NOTHING;
	else
		copy(newest, &narrower);
	return end;
}
