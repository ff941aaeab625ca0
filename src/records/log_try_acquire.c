/*
 * log_try_acquire.c: decides most acquires from a narrow log at once, without the general step.
 *
 * The general step of log.c handles any record and operation, reads one cell after the other, and
 * takes 500 instructions. A header of a narrow record has the indexes of all cells that an acquire
 * reads.
 *
 * Times are compared as they stand in cells, in sixteenths of a nanosecond.
 */
#include "records/log.h"

/* The time in a cell's `high`, without the generation. */
#define TIME (~UINT64_C(15))

/* The cell `back` before `index`. */
static inline struct cell entry_back(const struct record *record, unsigned index, unsigned back)
{
	return cell_load(&record->cells[record_back(record, index, back)], true);
}

/* For how long after `now` the entry counts. */
static int64_t left_of_entry(struct cell entry, uint64_t now)
{
	return (int64_t)((entry.high & TIME) - (entry.low & 0x7f) * 16 - now);
}

static bool entry_is_live(uint32_t tag, struct cell entry, uint64_t now, struct cell newest)
{
	return cell_tag(entry) == tag && left_of_entry(entry, now) > 0 &&
	       (int64_t)((newest.high & TIME) - (entry.high & TIME)) >= 0;
}

/*
 * Whether `own` is the header's entry. A thread whose clock lags has seen more live entries, and
 * its longer span stays.
 */
static bool has_header_entry(struct cell own, struct cell entry)
{
	return own.high == entry.high && own.low >> 17 == entry.low >> 17 &&
	       own.low >> 7 >= entry.low >> 7;
}

/* The cells that an acquire reads. */
struct log_cells {
	struct cell own, newest, oldest;
	unsigned live; /* live entries of the record */
	unsigned base; /* sum before the oldest of them */
};

static inline bool read_log_cells(const struct record *record, struct log_header last, uint64_t now,
                                  struct log_cells *f)
{
	f->own = entry_back(record, last.index, 0); /* read before `newest`, as in log.c */
	f->newest = entry_back(record, last.index, 1);
	f->oldest = entry_back(record, last.index, last.span);
	f->live = last.span;
	f->base = 0;
	while (!entry_is_live(record->tag, f->oldest, now, f->newest)) {
		if (--f->live == 0)
			return false;
		f->oldest = entry_back(record, last.index, f->live);
	}
	if (!log_is(f->oldest, LOG_FIRST)) { /* a FIRST entry needs no read of the line behind it */
		struct cell spent = entry_back(record, last.index, f->live + 1);

		if (!log_is_before(spent, f->oldest) || entry_is_live(record->tag, spent, now, f->newest))
			return false;
		f->base = log_sum(spent);
	}
	return true;
}

/* flatten: callers that inline this keep all values in registers. */
__attribute__((flatten)) bool log_try_acquire(const struct record_step *on, uint64_t cost,
                                              struct algo_decision *out, struct log_append *append)
{
	const struct record *record = on->record;
	struct cell header = on->header;
	struct log_header last = log_header(record->width, cell_word(header));
	uint64_t now_ns = on->now_ns;
	uint64_t count = on->limit->log.count, period_ns = on->limit->period_ns, tag = record->tag;
	uint64_t use, end_ns;
	int64_t ahead = cell_ahead_ns(header, now_ns), left_ns = ahead - last.lead;
	unsigned next = record_next(record, last.index), lead;
	struct log_cells f;

	if (cell_generation(header) != 0 || last.cost == 0 || cost == 0 ||
	    last.index >= record->width || last.span == 0 || last.span + 1 >= record->width ||
	    (uint64_t)left_ns - 1 >= period_ns || !record->load_is_atomic ||
	    !read_log_cells(record, last, now_ns << 4, &f))
		return false;
	use = last.cost + ((log_sum(f.newest) - f.base) & LOG_SUM);
	algo_decision_allow(out);
	if (use + cost > count) {
		out->allowed = false;
		out->reason = WEIR_REASON_OVER_LIMIT;
		out->remaining = sat_sub(count, use);
		out->retry_after_ns = (uint64_t)left_of_entry(f.oldest, now_ns << 4) >> 4;
		out->reset_after_ns = (uint64_t)left_ns;
		append->until_ns = now_ns + (uint64_t)ahead;
		/* A denial that needs more than the oldest entry to leave takes the general step. */
		return ((log_sum(f.oldest) - f.base) & LOG_SUM) >= use + cost - count;
	}
	append->index = last.index;
	append->before = f.own;
	append->entry = (struct cell){tag << 32 | (log_sum(f.newest) + last.cost) << 17 |
	                                  (f.live + 1) << 7 | last.lead,
	                              header.high};
	append->is_there = has_header_entry(f.own, append->entry);
	end_ns = u64_max((uint64_t)ahead + 1, period_ns);
	lead = (unsigned)u64_min(end_ns - period_ns, 0x7f);
	append->until_ns = now_ns + end_ns;
	append->header =
	    (struct cell){tag << 32 | cost << 25 | next << 18 | (f.live + 1) << 11 | lead << 4,
	                  append->until_ns << 4};
	out->remaining = count - use - cost;
	out->reset_after_ns = end_ns - lead;
	return true;
}
