/*
 * log.h: the cells of a sliding log, which counts each request from its time T for a period, and
 * what the files of records/log*.c share.
 *
 * An entry is an allowed request with its time T and its cost. The header is the newest entry; the
 * record is a ring with the others in the order in which they came. In both `until` = T + period +
 * lead, and the word is
 *
 *                       header                                record
 *     up to 128 cells   cost 7 | index 7 | span 7 | lead 7 | 4   sum 15 | 3 | span 7 | lead 7
 *     more              cost 14 | index 14 | lead 4              sum 15 | span 3 | lead 14
 *
 * - index: that of the header's *own cell* in the record, to which its entry is copied when the
 * next entry takes over the header.
 * - sum: the costs of all entries up to and with this one, modulo 2^15. The units in use are
 *   therefore the difference of two sums.
 * - span: a hint how many entries of the record were live when the next entry came, the entry
 *   itself included: so far back was the oldest live one. A header repeats the span of the entry
 *   before it. In 3 bits it is the greatest power of 4 that is not more.
 * - lead: an entry ends `lead` nanoseconds before its `until`. No two entries of a key have the
 *   same `until`, so it names one entry, and no header value comes back. In 4 bits a lead is 0, a
 *   power of two up to 2^12, or a code. By a code the header ends when the entry before it does, or
 *   when its own cell does. That may be a *note*, a cell marked GONE that has no request but only
 *   an end. Names are chosen so that one of these fits. Only where more names are given out at one
 *   instant than a lead can tell apart, entries end later than they should, by microseconds at
 * most.
 *
 * FIRST marks an entry before which nothing is read; no span reaches over it. A header of cost 0
 * was refunded or is a reset, and its own cell is free.
 *
 * A refund moves the header back in the ring. The cells that it leaves are *stale*: read backward
 * round the ring, they come after older entries, but their names are later than theirs.
 */
#ifndef RECORDS_LOG_H
#define RECORDS_LOG_H

#include "records/record.h"

/* The fields of a header's word, from which a caller can prefetch the entries. */
struct log_header {
	unsigned cost, index, span,
	    lead; /* if the record is not narrow, span is 0 and lead is a code */
};

static inline bool log_is_narrow(unsigned record_cells)
{
	return record_cells <= 128;
}

static inline struct log_header log_header(unsigned record_cells, uint32_t word)
{
	if (log_is_narrow(record_cells))
		return (struct log_header){word >> 25, word >> 18 & 0x7f, word >> 11 & 0x7f,
		                           word >> 4 & 0x7f};
	return (struct log_header){word >> 18, word >> 4 & 0x3fff, 0, word & 15};
}

/*
 * Bits of an entry's generation; most entries are PLAIN. GONE says that the entry is refunded,
 * MOVING that it moves to the index before it, whose entry is GONE. Both bits are PART: only some
 * units of the entry are refunded, whose number it stores in place of its span, or of its lead in a
 * record that is not narrow. The entry that comes next takes over the rest.
 */
enum { LOG_PLAIN = 0, LOG_FIRST = 1, LOG_GONE = 2, LOG_MOVING = 4, LOG_PART = 6 };

#define LOG_SUM 0x7fffu

_Static_assert(2 * ALGO_LOG_MAX <= LOG_SUM, "before and after are told apart");

/* A log as one step reads it. */
struct log_view {
	const struct record *record;
	uint64_t until_ns; /* the header's `until` */
	uint64_t units_in_use;
	unsigned header_cost, header_span; /* of the header's entry */
	unsigned index, lead_ns;           /* as well */
	bool is_first;                     /* the header's entry is FIRST */
	unsigned live_count;               /* live entries of the record */
	unsigned sum_before_oldest;        /* the sum before the oldest live entry */
	struct cell own_cell, newest_cell; /* the cell at the header's index, and the one before */
	uint64_t read_at_ns;               /* now, or the newest entry's time if that is later */
	bool has_live_header;              /* otherwise there is no state, or: */
	bool is_merged; /* the header is useless: all units in use shall be one entry of a new one */
};

static inline unsigned log_sum(struct cell entry)
{
	return cell_word(entry) >> 17;
}

/* How many bits the lead of a record's entry has. */
static inline unsigned log_lead_bits(const struct record *record)
{
	return log_is_narrow(record->width) ? 7 : 14;
}

/* The greatest cost that a header can hold. */
static inline unsigned log_cost_max(const struct record *record)
{
	return log_is_narrow(record->width) ? 0x7f : 0x3fff;
}

static inline unsigned log_lead_max(const struct record *record)
{
	return (1u << log_lead_bits(record)) - 1;
}

/* Whether an entry has at least one of these bits. */
static inline bool log_has_mark(struct cell entry, unsigned state)
{
	return cell_generation(entry) & state;
}

/* Entries are named by the time in their cells. */
static inline bool log_has_same_name(struct cell entry, struct cell other)
{
	return (entry.high ^ other.high) >> 4 == 0;
}

static inline bool log_is_named_later(struct cell entry, struct cell other)
{
	return (int64_t)((other.high & ~UINT64_C(15)) - (entry.high & ~UINT64_C(15))) < 0;
}

static inline bool log_is_partly_refunded(struct cell entry)
{
	return (cell_generation(entry) & LOG_PART) == LOG_PART;
}

static inline bool log_is_moving(struct cell entry)
{
	return (cell_generation(entry) & LOG_PART) == LOG_MOVING;
}

/* The greatest lead in any record. */
#define LOG_LEAD_MAX 0x3fff

/*
 * In a record that is not narrow, the lead of a PART holds its refunded units, so it is taken as 0.
 */
static inline unsigned log_lead(const struct record *record, struct cell entry)
{
	if (log_is_partly_refunded(entry) && !log_is_narrow(record->width))
		return 0;
	return cell_word(entry) & log_lead_max(record);
}

static inline unsigned log_span(const struct record *record, struct cell entry)
{
	unsigned field = (cell_word(entry) & 0x1ffff) >> log_lead_bits(record);

	if (!log_is_narrow(record->width))
		return 1u << 2 * field;
	return log_is_partly_refunded(entry) ? 1 : field;
}

/* Whether an entry is over that ends `ahead` ns from now. Leads matter only for few entries. */
static inline bool log_is_over(const struct record *record, struct cell entry, int64_t ahead)
{
	return ahead <= LOG_LEAD_MAX && (ahead <= 0 || ahead <= (int64_t)log_lead(record, entry));
}

/* For how long after `at` the entry counts. */
static inline int64_t log_ahead_ns(const struct record *record, struct cell entry, uint64_t at)
{
	return cell_ahead_ns(entry, at) - log_lead(record, entry);
}

/* The entry `back` before the header's own. */
static inline struct cell log_entry(const struct log_view *view, unsigned back)
{
	return record_load(view->record, record_back(view->record, view->index, back));
}

/* The refunded units of a PART. */
static inline unsigned log_refunded_units(const struct record *record, struct cell entry)
{
	unsigned low = cell_word(entry) & 0x1ffff;

	return log_is_narrow(record->width) ? low >> log_lead_bits(record) : low & log_lead_max(record);
}

/* Whether the sum of an entry may be that of one before `newest`. Sums wrap. */
static inline bool log_sum_is_before(struct cell entry, struct cell newest)
{
	return ((log_sum(newest) - log_sum(entry)) & LOG_SUM) <= ALGO_LOG_MAX;
}

/* The fields of a record's entry. */
struct log_fields {
	uint64_t until_ns;
	unsigned sum;
	unsigned span; /* at least 1 */
	unsigned lead_ns;
	unsigned state;          /* bits LOG_… */
	unsigned refunded_units; /* of a PART */
};

struct cell log_make_entry(const struct record *record, struct log_fields entry);

/*
 * Gives a new header its name (`until`), `least_name_ns` or later, and the lead with which it ends
 * at `end_ns`.
 */
void log_set_name_and_lead(struct log_view *header, uint64_t least_name_ns, uint64_t end_ns);

/*
 * Changes the lead to one that any header can store. The entry then ends later, by microseconds at
 * most.
 */
void log_shorten_lead(struct log_view *header);

/*
 * The lead of a header in 4 bits: 0, or the number of bits of a power of two, or one of the last
 * two codes.
 */
enum {
	LOG_LEAD_SIMPLE = 13, /* the greatest number of bits */
	LOG_LEAD_OWN = 14,    /* the header ends when the cell at its own index does */
	LOG_LEAD_NEWEST = 15, /* or when the entry before it does */
};
unsigned log_pack_lead(const struct log_view *header);

/* Whether the header's cell can store the lead, so that a reader finds the same end. */
bool log_header_fits(const struct log_view *header);

/* Wants a header of these fields. `is_final`: the call is decided once the header is swapped. */
void log_want_header(struct record_change *change, const struct log_view *header, bool is_final);

void log_want_entry(struct record_change *change, const struct log_view *view, unsigned back,
                    struct cell before, struct cell after);

/* The next change of a refund. */
void log_refund(const struct record_step *step, const struct log_view *view,
                struct record_change *change);

/* The kind of a step that continues from log_progress. */
enum log_next_step {
	LOG_NEXT_REFUND, /* mark or close the next entry of a refund */
	LOG_NEXT_MOVE,   /* move the next entry to the cell of one that is GONE */
	LOG_NEXT_EXPIRE, /* expire the next oldest entry */
};

/* The next change of a step that continues, without a view. */
void log_continue_step(const struct record_step *step, struct record_change *change);

/*
 * The next change that expires the oldest entry if the others alone fill the quota. Returns false
 * if there is none.
 */
bool log_expire_replaced(const struct log_view *view, uint64_t quota, struct record_change *change);

/* Reads a header's word into a view whose `record` and `until_ns` are set. */
void log_unpack_header(struct cell header, struct log_view *view);

/* Moving to a wider record: log_widen.c. */

/**
 * Wants the change that closes a live header, after its entry is in its own cell. Returns false if
 * nothing is in use.
 */
bool log_want_close_header(const struct record_step *step, struct record_change *change);
/** The header's value before it was closed. */
struct cell log_reopened_header(const struct record_state *closed);
/**
 * Wants to freeze the next cell, from index `from` on, of a closed header's record. Returns false
 * if all are frozen.
 */
bool log_want_freeze_cell(const struct record *record, unsigned from, struct record_change *change);

/* The entries to copy from a frozen record. */
struct log_copy {
	struct log_view view;
	unsigned entry_count;
	unsigned base_sum; /* the sum before the oldest entry */
};

struct log_copy log_copy_of(const struct record_state *closed);
/**
 * Wants the next entry, from index `from` on, in the new record, and after the last one the new
 * header.
 */
void log_want_copy_entry(const struct log_copy *copy, const struct record *to, unsigned from,
                         struct record_change *change);

/* The swaps of an acquire, in their order. */
struct log_append {
	unsigned index;
	bool entry_is_stored; /* the header's entry is in its cell; otherwise swap this first: */
	struct cell before, entry;
	struct cell header;
	uint64_t until_ns; /* the `until` of the header after the acquire or denial */
};

/**
 * Acquires at once from a narrow log with entries in its record. If it returns true, the decision
 * stands once `*append` is carried out, or, of a denial, if the header is unchanged. If it returns
 * false, the general step has to decide.
 */
bool log_try_acquire(const struct record_step *step, uint64_t cost, struct algo_decision *out,
                     struct log_append *append);

#endif
