/*
 * log_widen.c: moves a sliding log to a wider record of a larger table, after its limit was raised.
 *
 * A log has its newest request in the key's header, a cell in a table, and the others in a record,
 * a ring of cells behind it. `back` counts backward from the header's index: 1 is the newest entry
 * of the record. FIRST marks an entry before which no other counts. An entry ends `lead`
 * nanoseconds before its name (its `until`); its sum is that of all costs up to its own. The header
 * stores a span, a hint how far back the oldest entry is that has not ended. In the new record each
 * entry has the same name, lead and marks. A function `want_…` changes no cell: it describes the
 * next swap in `*change` for its caller.
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

/* The fields of a closed header and of its record, independent of the time. */
static struct log_view view_of_closed(const struct record *record, struct cell header)
{
	struct log_view view = {
	    .record = record, .until_ns = header.high >> 4, .read_at_ns = header.high >> 4};

	log_unpack_header(header, &view);
	/* A closed header has lost its mark, but step (1) has put its entry in its own cell. */
	view.is_first = view.header_cost > 0 && cell_tag(view.own_cell) == record->tag &&
	                log_has_mark(view.own_cell, LOG_FIRST);
	return view;
}

/*
 * Counts the entries before the header, back to the one marked FIRST, or to the end of the ring, or
 * to a stale cell. A refund moves the header back and leaves stale cells behind it: such a cell has
 * a later name than the next newer entry.
 */
static unsigned count_entries(const struct log_view *view)
{
	struct cell later = {0, view->until_ns << 4}; /* has the header's name */
	unsigned n = 0;

	while (!view->is_first && n + 1 < view->record->width) {
		struct cell entry = log_entry(view, n + 1);
		bool is_stale = log_is_named_later(entry, later);

		if (cell_tag(entry) != view->record->tag || is_stale)
			break;
		later = entry;
		n++;
		if (log_has_mark(entry, LOG_FIRST))
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

	return log_has_mark(oldest, LOG_FIRST) ? 0 : log_sum(oldest) - 1;
}

/*
 * The copy for an index of the new record, in which the `n` entries begin at index 0. `base_sum` is
 * the sum before the oldest one: the sums of the copies begin at 0.
 */
static struct cell copy_of_entry(const struct log_view *view, unsigned n, unsigned base_sum,
                                 unsigned index, const struct record *to)
{
	struct cell entry = log_entry(view, n - index);
	unsigned state = (cell_generation(entry) & ~FROZEN) | (index == 0 ? LOG_FIRST : 0);
	unsigned span = (unsigned)u64_min(u64_max(log_span(view->record, entry), 1), index + 1);

	return log_make_entry(to, (struct log_fields){entry.high >> 4, log_sum(entry) - base_sum, span,
	                                              log_lead(view->record, entry), state,
	                                              log_is_partly_refunded(entry)
	                                                  ? log_refunded_units(view->record, entry)
	                                                  : 0});
}

/* Wants the open header of the new record, at the index after the `n` copied entries. */
static void want_copied_header(const struct log_view *view, unsigned n, const struct record *to,
                               struct record_change *change)
{
	struct log_view header = *view;

	header.record = to;
	header.index = n;
	header.header_span = (unsigned)u64_min(view->header_span, n);
	header.is_first = n == 0;
	header.own_cell = (struct cell){0, 0};
	header.newest_cell =
	    n == 0 ? header.own_cell : copy_of_entry(view, n, sum_before_oldest(view, n), n - 1, to);
	/*
	 * A wide header can't store every lead. With lowest bits cleared the lead is less, so the entry
	 * ends nanoseconds later than it should, not earlier.
	 */
	while (!log_header_fits(&header))
		header.lead_ns &= header.lead_ns - 1;
	log_want_header(change, &header, RECORD_FINAL); /* the last change of the move */
}

/* The header's value before it was closed, for a peek. */
struct cell log_reopened_header(const struct record_state *closed)
{
	struct log_view view = view_of_closed(&closed->record, closed->header);

	return cell_make(closed->record.tag, view.until_ns, cell_word(closed->header),
	                 view.is_first ? LOG_FIRST : LOG_PLAIN);
}

/*
 * Step (2): wants the next cell from index `from` on to be frozen. Returns false if all are. A cell
 * of another key has no entry of this log, and gets none: a writer that stalls may swap a note into
 * it (log.h), but that is not copied.
 */
bool log_want_freeze_cell(const struct record *record, unsigned from, struct record_change *change)
{
	for (unsigned i = from; i < record->width; i++) {
		struct cell cell = record_load(record, i);

		if (cell_tag(cell) != record->tag || log_has_mark(cell, FROZEN))
			continue;
		*change = (struct record_change){.want = RECORD_WANT_CELL,
		                                 .index = i,
		                                 .before = cell,
		                                 .after = {cell.low, cell.high | FROZEN}};
		return true;
	}
	return false;
}

/* Returns the log to copy from a closed header and its frozen record. */
struct log_copy log_copy_of(const struct record_state *closed)
{
	struct log_copy copy = {.view = view_of_closed(&closed->record, closed->header)};

	copy.entry_count = count_entries(&copy.view);
	copy.base_sum = copy.entry_count > 0 ? sum_before_oldest(&copy.view, copy.entry_count) : 0;
	return copy;
}

/* Step (4): wants the next missing copy from index `from` on. Step (5), after the last one. */
void log_want_copy_entry(const struct log_copy *copy, const struct record *to, unsigned from,
                         struct record_change *change)
{
	*change = (struct record_change){.want = RECORD_WANT_NOTHING};
	for (unsigned index = from; index < copy->entry_count; index++) {
		struct cell before = record_load(to, index);
		struct cell after =
		    copy_of_entry(&copy->view, copy->entry_count, copy->base_sum, index, to);

		if (cell_bits(before) == cell_bits(after))
			continue;
		change->want = RECORD_WANT_CELL;
		change->index = index;
		change->before = before;
		change->after = after;
		return;
	}
	want_copied_header(&copy->view, copy->entry_count, to, change);
}
