/*
 * log_widen.c: moves a log to a wider record of a larger table; each entry keeps its name, time and
 * state.
 *
 * Threads that meet here make the same changes, and any of them may stall or die:
 *
 * - (1) Put the header's entry in its own cell, and close the header. Nothing is granted on it
 *   again.
 * - (2) Freeze each cell of the record, so that the swap of a writer that stalls fails.
 * - (3) Put the closed header into the larger table, so that the key has a record there.
 * - (4) Copy the frozen entries, the oldest to index 0.
 * - (5) Swap the closed header in the larger table for an open one behind the copied entries.
 *
 * From (2) on, all values follow from cells that nobody changes, and not from the time, so two
 * threads write the same. The marks of entries are copied, too, so a refund continues in the new
 * record.
 */
#include "records/log.h"

#define FROZEN 8u

/* The view of a closed header and its record, independent of the time. */
static struct log_view view_of_closed(const struct record *record, struct cell header)
{
	struct log_view view = {.record = record, .until_ns = header.high >> 4, .at = header.high >> 4};

	log_unpack_header(header, &view);
	view.first = view.cost > 0 && cell_tag(view.own) == record->tag ? view.own.high & LOG_FIRST : 0;
	return view;
}

/* Counts the entries behind the header, back to a FIRST entry or to one of a former round. */
static unsigned count_entries(const struct log_view *view)
{
	int64_t before = 0;
	unsigned n = 0;

	while (!view->first && n + 1 < view->record->width) {
		struct cell entry = log_entry(view, n + 1);
		int64_t ahead = cell_ahead_ns(entry, view->at);

		if (cell_tag(entry) != view->record->tag || ahead > before)
			break;
		before = ahead;
		n++;
		if (log_is(entry, LOG_FIRST))
			break;
	}
	return n;
}

/*
 * The sum before the oldest of n entries. The cost of an oldest entry that is not FIRST is unknown:
 * it counts one unit. In a record that was full that entry is over.
 */
static unsigned sum_before_oldest(const struct log_view *view, unsigned n)
{
	struct cell oldest = log_entry(view, n);

	return log_is(oldest, LOG_FIRST) ? 0 : log_sum(oldest) - 1;
}

/* The entry for an index of the new record, out of `n`. */
static struct cell copy_of_entry(const struct log_view *view, unsigned n, unsigned base,
                                 unsigned index, const struct record *to)
{
	struct cell entry = log_entry(view, n - index);
	unsigned state = (cell_generation(entry) & ~FROZEN) | (index == 0 ? LOG_FIRST : 0);
	unsigned span = (unsigned)u64_min(u64_max(log_span(view->record, entry), 1), index + 1);

	return log_make(to,
	                (struct log_fields){entry.high >> 4, log_sum(entry) - base, span,
	                                    log_lead(view->record, entry), state,
	                                    log_is_part(entry) ? log_part(view->record, entry) : 0});
}

static void want_copied_header(const struct log_view *view, unsigned n, const struct record *to,
                               struct record_change *change)
{
	struct log_view header = *view;

	header.record = to;
	header.index = n;
	header.span = (unsigned)u64_min(view->span, n);
	header.first = n == 0 ? LOG_FIRST : LOG_LATER;
	header.own = (struct cell){0, 0};
	header.newest =
	    n == 0 ? header.own : copy_of_entry(view, n, sum_before_oldest(view, n), n - 1, to);
	while (
	    !log_header_fits(&header)) /* rounds the lead down, so the header ends nanoseconds later */
		header.lead &= header.lead - 1;
	log_want_header(change, &header, true);
}

struct cell log_reopened(const struct record_state *closed)
{
	struct log_view view = view_of_closed(&closed->record, closed->header);

	return cell_make(closed->record.tag, view.until_ns, cell_word(closed->header), view.first);
}

bool log_want_freeze(const struct record *record, unsigned from, struct record_change *change)
{
	for (unsigned i = from; i < record->width; i++) {
		struct cell cell = record_load(record, i);

		if (cell_tag(cell) != record->tag || log_is(cell, FROZEN))
			continue;
		*change = (struct record_change){.want = RECORD_WANT_CELL,
		                                 .index = i,
		                                 .before = cell,
		                                 .after = {cell.low, cell.high | FROZEN}};
		return true;
	}
	return false;
}

struct log_copy log_copy_of(const struct record_state *closed)
{
	struct log_copy copy = {.view = view_of_closed(&closed->record, closed->header)};

	copy.entries = count_entries(&copy.view);
	copy.base = copy.entries > 0 ? sum_before_oldest(&copy.view, copy.entries) : 0;
	return copy;
}

void log_want_copy(const struct log_copy *copy, const struct record *to, unsigned from,
                   struct record_change *change)
{
	*change = (struct record_change){.want = RECORD_WANT_NOTHING};
	for (unsigned index = from; index < copy->entries; index++) {
		struct cell before = record_load(to, index);
		struct cell after = copy_of_entry(&copy->view, copy->entries, copy->base, index, to);

		if (cell_bits(before) == cell_bits(after))
			continue;
		change->want = RECORD_WANT_CELL;
		change->index = index;
		change->before = before;
		change->after = after;
		return;
	}
	want_copied_header(&copy->view, copy->entries, to, change);
}
