/*
 * log_try_acquire.c: the fast path of a sliding log: decides most acquires from a short log at
 * once.
 *
 * A sliding log stores each allowed request of the last period: the newest one in the key's header
 * (a cell in a table), the others in its record (a ring of cells). The general step of log.c
 * handles any record and operation, reads one cell after the other, and takes 500 instructions. A
 * header of a narrow record (up to 128 cells) tells the indexes of all cells that an acquire reads:
 *
 *     index - span     the oldest entry that was live when the header was written
 *     index - 1        the newest entry of the record
 *     index            the header's *own* cell, to which its entry is copied before the new
 *                      request takes over the header, at index + 1
 *
 * An entry's *name* is its `until`, which is later than all names before, if by a nanosecond only.
 * It ends `lead` nanoseconds before that, so it counts for a period whatever its name is. Its *sum*
 * is that of all costs up to its own.
 *
 * Times are compared as they stand in cells, in sixteenths of a nanosecond: `_16ths` in names.
 */
#include "records/log.h"

/* Masks the time in a cell's `high`, whose low 4 bits are the generation. */
#define TIME_MASK (~UINT64_C(15))

/* Loads the cell that is `back` before `index` in the ring. */
static inline struct cell load_entry(const struct record *record, unsigned index, unsigned back)
{
	return cell_load(&record->cells[record_back(record, index, back)], true);
}

/* How long the entry still counts: up to its `until` less its lead, the low 7 bits of its word. */
static int64_t left_of_entry_16ths(struct cell entry, uint64_t now_16ths)
{
	return (int64_t)((entry.high & TIME_MASK) - (entry.low & 0x7f) * 16 - now_16ths);
}

/*
 * Whether an entry counts. One that is named later than the newest entry is stale: a refund has
 * moved the header back since.
 */
static bool entry_is_live(uint32_t tag, struct cell entry, uint64_t now_16ths, struct cell newest)
{
	return cell_tag(entry) == tag && left_of_entry_16ths(entry, now_16ths) > 0 &&
	       !log_is_named_later(entry, newest);
}

/* The low word of a cell of a narrow log (log.h). */
static inline uint64_t narrow_entry_low(uint64_t tag, unsigned sum, unsigned span, unsigned lead)
{
	return tag << 32 | (uint32_t)(sum << 17) | span << 7 | lead;
}

static inline uint64_t narrow_header_low(uint64_t tag, struct log_header header)
{
	return tag << 32 | header.cost << 25 | header.index << 18 | header.span << 11 |
	       header.lead << 4;
}

/*
 * Whether a cell stores `entry` already: the same time, tag and sum. A thread whose clock lags has
 * seen more live entries, and its longer span stays.
 */
static bool cell_has_entry(struct cell cell, struct cell entry)
{
	return cell.high == entry.high && cell.low >> 17 == entry.low >> 17 &&
	       cell.low >> 7 >= entry.low >> 7;
}

/* The cells that an acquire reads. */
struct log_cells {
	struct cell own; /* at the header's own index */
	struct cell newest, oldest;
	unsigned live_count; /* live entries of the record */
	unsigned base_sum;   /* sum before the oldest of them */
};

/*
 * Reads the cells that the header `last` tells, and those after the oldest until one is live.
 * Returns false if the general step is needed: no entry is live, or the span was too short, because
 * one before is live, too.
 */
static inline bool read_log_cells(const struct record *record, struct log_header last,
                                  uint64_t now_16ths, struct log_cells *cells)
{
	cells->own = load_entry(record, last.index, 0); /* before `newest`: see log_unpack_header */
	cells->newest = load_entry(record, last.index, 1);
	cells->oldest = load_entry(record, last.index, last.span);
	cells->live_count = last.span;
	cells->base_sum = 0;
	while (!entry_is_live(record->tag, cells->oldest, now_16ths, cells->newest)) {
		if (--cells->live_count == 0)
			return false;
		cells->oldest = load_entry(record, last.index, cells->live_count);
	}
	if (!log_has_mark(cells->oldest, LOG_FIRST)) { /* before a FIRST entry the sum is 0 */
		struct cell before = load_entry(record, last.index, cells->live_count + 1);

		if (!log_sum_is_before(before, cells->oldest) ||
		    entry_is_live(record->tag, before, now_16ths, cells->newest))
			return false;
		cells->base_sum = log_sum(before);
	}
	return true;
}

/* Denies until the oldest entry ends. Returns false if that alone does not make space for `cost`.
 */
static inline bool deny_until_oldest_ends(const struct log_cells *cells, uint64_t now_ns,
                                          uint64_t excess, struct algo_decision *out)
{
	unsigned oldest_units = (log_sum(cells->oldest) - cells->base_sum) & LOG_SUM;

	out->allowed = false;
	out->reason = WEIR_REASON_OVER_LIMIT;
	out->retry_after_ns = (uint64_t)left_of_entry_16ths(cells->oldest, now_ns << 4) >> 4;
	return oldest_units >= excess;
}

/*
 * Decides the acquire, and sets in `append` the swaps that it takes. Returns false if the general
 * step has to decide. flatten: callers that inline this keep all values in registers.
 */
__attribute__((flatten)) bool log_try_acquire(const struct record_step *step, uint64_t cost,
                                              struct algo_decision *out, struct log_append *append)
{
	const struct record *record = step->record;
	struct cell header = step->header;
	struct log_header last = log_header(record->width, cell_word(header)), next;
	uint64_t now_ns = step->now_ns, tag = record->tag, units_in_use, new_ahead_ns;
	uint64_t quota = step->limit->log.count, period_ns = step->limit->period_ns;
	int64_t name_ahead_ns = cell_ahead_ns(header, now_ns), left_ns = name_ahead_ns - last.lead;
	unsigned next_index = record_next(record, last.index);
	bool is_plain = cell_generation(header) == LOG_PLAIN && last.cost > 0;
	bool fits_in_ring =
	    last.index < record->width && last.span > 0 && last.span + 1 < record->width;
	/* The header is live, and not of a clock ahead of this one: 0 < left_ns <= period_ns. */
	bool is_of_last_period = (uint64_t)left_ns - 1 < period_ns;
	struct log_cells cells;

	if (!is_plain || cost == 0 || !fits_in_ring || !is_of_last_period || !record->load_is_atomic ||
	    !read_log_cells(record, last, now_ns << 4, &cells))
		return false;
	units_in_use = last.cost + ((log_sum(cells.newest) - cells.base_sum) & LOG_SUM);
	algo_decision_allow(out);
	if (units_in_use + cost > quota) {
		out->remaining = sat_sub(quota, units_in_use);
		out->reset_after_ns = (uint64_t)left_ns;
		append->until_ns = now_ns + (uint64_t)name_ahead_ns; /* the header stays */
		return deny_until_oldest_ends(&cells, now_ns, units_in_use + cost - quota, out);
	}
	append->index = last.index;
	append->before = cells.own;
	append->entry = (struct cell){
	    narrow_entry_low(tag, log_sum(cells.newest) + last.cost, cells.live_count + 1, last.lead),
	    header.high};
	append->entry_is_stored = cell_has_entry(cells.own, append->entry);
	/* The new name is later than all before. */
	new_ahead_ns = u64_max((uint64_t)name_ahead_ns + 1, period_ns);
	next = (struct log_header){.cost = (unsigned)cost,
	                           .index = next_index,
	                           .span = cells.live_count + 1,
	                           .lead = (unsigned)u64_min(new_ahead_ns - period_ns, 0x7f)};
	append->until_ns = now_ns + new_ahead_ns;
	append->header = (struct cell){narrow_header_low(tag, next), append->until_ns << 4};
	out->remaining = quota - units_in_use - cost;
	out->reset_after_ns = new_ahead_ns - next.lead;
	return true;
}
