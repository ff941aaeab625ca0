/*
 * log_move.c: a log goes on in a wider row, each entry with its name, time and state.
 *
 * Threads that meet on this do the same, and any of them may stall or die:
 *
 *   (1) put the head's entry in its place, and close the head: nothing is granted on it again;
 *   (2) freeze each cell of the row: a writer that stalls finds it changed;
 *   (3) put the closed head into the larger table, so that the key has a row there;
 *   (4) copy the frozen entries, the oldest to place 0;
 *   (5) swap the closed head there for one that stands behind them.
 *
 * From (2) on, all that is copied follows from cells that nobody changes, whatever the time: so two
 * threads write the same. A refund that others have begun goes on in the new row, for the marks
 * of entries are copied, too.
 */
#include "rows/log.h"

#define FROZEN 8u

/* A closed head and its row, by no clock. */
static struct log_view closed_view(const struct row *row, struct cell head)
{
	struct log_view view = {.row = row, .until_ns = head.high >> 4, .at = head.high >> 4};

	log_unpack(head, &view);
	view.first = view.cost > 0 && cell_tag(view.own) == row->tag ? view.own.high & LOG_FIRST : 0;
	return view;
}

/* The entries behind the head, back to the first one or to what is left of others. */
static unsigned count_entries(const struct log_view *view)
{
	int64_t before = 0;
	unsigned n = 0;

	while (!view->first && n + 1 < view->row->width) {
		struct cell entry = log_entry(view, n + 1);
		int64_t ahead = cell_ahead_ns(entry, view->at);

		if (cell_tag(entry) != view->row->tag || ahead > before)
			break;
		before = ahead;
		n++;
		if (log_is(entry, LOG_FIRST))
			break;
	}
	return n;
}

/*
 * The sum before the oldest of n entries. What came before it is not known, unless that is a
 * FIRST one: it counts one unit. Where the row was full, it is over.
 */
static unsigned base_of(const struct log_view *view, unsigned n)
{
	struct cell oldest = log_entry(view, n);

	return log_is(oldest, LOG_FIRST) ? 0 : log_sum(oldest) - 1;
}

/* The entry for a place of the new row, of n. */
static struct cell copy_of(const struct log_view *view, unsigned n, unsigned base, unsigned place,
                           const struct row *to)
{
	struct cell entry = log_entry(view, n - place);
	unsigned state = (cell_generation(entry) & ~FROZEN) | (place == 0 ? LOG_FIRST : 0);
	unsigned span = (unsigned)u64_min(u64_max(log_span(view->row, entry), 1), place + 1);

	return log_make(to, (struct log_fields){entry.high >> 4, log_sum(entry) - base, span,
	                                        log_lead(view->row, entry), state,
	                                        log_is_part(entry) ? log_part(view->row, entry) : 0});
}

static void want_new_head(const struct log_view *view, unsigned n, const struct row *to,
                          struct row_change *change)
{
	struct log_view head = *view;

	head.row = to;
	head.place = n;
	head.span = (unsigned)u64_min(view->span, n);
	head.first = n == 0 ? LOG_FIRST : LOG_LATER;
	head.own = (struct cell){0, 0};
	head.newest = n == 0 ? head.own : copy_of(view, n, base_of(view, n), n - 1, to);
	while (!log_fits(&head)) /* it ends by some nanoseconds later */
		head.lead &= head.lead - 1;
	log_want_head(change, &head, true);
}

struct cell log_reopened(const struct row_state *closed)
{
	struct log_view view = closed_view(&closed->row, closed->head);

	return cell_make(closed->row.tag, view.until_ns, cell_word(closed->head), view.first);
}

bool log_wants_freezing(const struct row *row, unsigned from, struct row_change *change)
{
	for (unsigned i = from; i < row->width; i++) {
		struct cell cell = row_load(row, i);

		if (cell_tag(cell) != row->tag || log_is(cell, FROZEN))
			continue;
		*change = (struct row_change){.want = ROW_WANT_CELL,
		                              .place = i,
		                              .before = cell,
		                              .after = {cell.low, cell.high | FROZEN}};
		return true;
	}
	return false;
}

struct log_copy log_copy_of(const struct row_state *closed)
{
	struct log_copy copy = {.view = closed_view(&closed->row, closed->head)};

	copy.entries = count_entries(&copy.view);
	copy.base = copy.entries > 0 ? base_of(&copy.view, copy.entries) : 0;
	return copy;
}

void log_want_copy(const struct log_copy *copy, const struct row *to, unsigned from,
                   struct row_change *change)
{
	*change = (struct row_change){.want = ROW_WANT_NOTHING};
	for (unsigned place = from; place < copy->entries; place++) {
		struct cell before = row_load(to, place);
		struct cell after = copy_of(&copy->view, copy->entries, copy->base, place, to);

		if (cell_bits(before) == cell_bits(after))
			continue;
		change->want = ROW_WANT_CELL;
		change->place = place;
		change->before = before;
		change->after = after;
		return;
	}
	want_new_head(&copy->view, copy->entries, to, change);
}
