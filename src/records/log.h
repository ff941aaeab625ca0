/*
 * log.h: the cells of a log, for the files of records/log*.c.
 *
 * An entry is an allowed request: its time T and its cost. The header is the newest; the
 * others stand in the record in the order in which they came, round and round. In both
 * `until` = T + period + lead, and the word is
 *
 *                       header                                  record
 *     up to 128 cells   cost 7 | place 7 | span 7 | lead 7 | 4   sum 15 | 3 | span 7 | lead 7
 *     more              cost 14 | place 14 | lead 4              sum 15 | span 3 | lead 14
 *
 * where place is the header's own in the record; sum is that of all costs up to and with
 * this entry, modulo 2^15, so what is in use is a difference of two; and span is a hint
 * how many entries of the record were live when the next one came: of a record's entry
 * itself included, and a header repeats that of the entry before it. In 3 bits it is
 * the greatest power of 4 that is not more. FIRST: nothing before this entry is to be looked
 * at, and no span reaches there. A header of cost 0 was given back, or is a reset, and its
 * place is free.
 *
 * No two of a key have the same `until`, so it names one entry, and no header comes back. An
 * entry is over `lead` nanoseconds before, when its own time is. In 4 bits a lead is 0, a
 * power of two up to 2^12, or that which makes the header end when the entry before it does, or
 * when what is in its place does, which may be a note, GONE. Names are chosen so that one of
 * them fits. Only where more names are given out at one instant than a lead can tell,
 * entries end later than they should, by microseconds at most.
 */
#ifndef RECORDS_LOG_H
#define RECORDS_LOG_H

#include "records/record.h"

/* The word of a header; whoever is about to decide can fetch what it points at. */
struct log_header {
	unsigned cost, index, span, lead; /* of records that are not narrow no span, and a code */
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
 * Bits of an entry's generation. MOVING: to the place before it, which is that of one GONE. Both
 * bits are PART: of one GONE only some units are given back, which its span says, or its lead in
 * records that are not narrow. The entry that comes next takes over the rest.
 */
enum { LOG_LATER = 0, LOG_FIRST = 1, LOG_GONE = 2, LOG_MOVING = 4, LOG_PART = 6 };

#define LOG_SUM 0x7fffu

_Static_assert(2 * ALGO_LOG_MAX <= LOG_SUM, "before and after are told apart");

/* A state as it stands for this call. */
struct log_view {
	const struct record *record;
	uint64_t until_ns; /* the header's name */
	uint64_t use;      /* all of it */
	unsigned cost, index, span, lead, first;
	unsigned live;           /* entries of the record that are */
	unsigned base;           /* sum before the oldest live one */
	struct cell own, newest; /* what is in the header's place, and in the one before */
	uint64_t at;             /* now, or the newest entry's time if that is ahead */
	bool written;            /* the header says so; else there is nothing, or: */
	bool moved;              /* use that a header has to take over as one entry */
};

static inline unsigned log_sum(struct cell entry)
{
	return cell_word(entry) >> 17;
}

/* Bits of the lead in a record's entry. */
static inline unsigned log_lead_bits(const struct record *record)
{
	return log_is_narrow(record->width) ? 7 : 14;
}

/* The most that the cost of a header may be. */
static inline unsigned log_cost_max(const struct record *record)
{
	return log_is_narrow(record->width) ? 0x7f : 0x3fff;
}

static inline unsigned log_lead_max(const struct record *record)
{
	return (1u << log_lead_bits(record)) - 1;
}

static inline bool log_is(struct cell entry, unsigned state)
{
	return cell_generation(entry) & state;
}

static inline bool log_is_part(struct cell entry)
{
	return (cell_generation(entry) & LOG_PART) == LOG_PART;
}

static inline bool log_is_moving(struct cell entry)
{
	return (cell_generation(entry) & LOG_PART) == LOG_MOVING;
}

/* The most in any record. */
#define LOG_LEAD_MAX 0x3fff

/* In a record that is not narrow, one that is GONE in part may seem to end later, by its lead. */
static inline unsigned log_lead(const struct record *record, struct cell entry)
{
	if (log_is_part(entry) && !log_is_narrow(record->width))
		return 0;
	return cell_word(entry) & log_lead_max(record);
}

static inline unsigned log_span(const struct record *record, struct cell entry)
{
	unsigned field = (cell_word(entry) & 0x1ffff) >> log_lead_bits(record);

	if (!log_is_narrow(record->width))
		return 1u << 2 * field;
	return log_is_part(entry) ? 1 : field;
}

/* Whether the entry is over, which ends so far ahead. Few entries' leads make a difference. */
static inline bool log_is_over(const struct record *record, struct cell entry, int64_t ahead)
{
	return ahead <= LOG_LEAD_MAX && (ahead <= 0 || ahead <= (int64_t)log_lead(record, entry));
}

/* How long the entry counts from then on. */
static inline int64_t log_ahead_ns(const struct record *record, struct cell entry, uint64_t at)
{
	return cell_ahead_ns(entry, at) - log_lead(record, entry);
}

/* The entry `back` places before the header's. */
static inline struct cell log_entry(const struct log_view *view, unsigned back)
{
	return record_load(view->record, record_back(view->record, view->index, back));
}

/* The units of a PART that are given back. */
static inline unsigned log_part(const struct record *record, struct cell entry)
{
	unsigned low = cell_word(entry) & 0x1ffff;

	return log_is_narrow(record->width) ? low >> log_lead_bits(record) : low & log_lead_max(record);
}

static inline bool log_is_before(struct cell entry, struct cell newest)
{
	return ((log_sum(newest) - log_sum(entry)) & LOG_SUM) <= ALGO_LOG_MAX;
}

/* An entry of the record. */
struct log_fields {
	uint64_t until_ns;
	unsigned sum;
	unsigned span; /* at least 1 */
	unsigned lead, state;
	unsigned part; /* of a PART: log_part */
};

struct cell log_make(const struct record *record, struct log_fields entry);

/* Gives a header that is to be a name, `least_ns` or later, and the lead that makes it end then. */
void log_set_name(struct log_view *header, uint64_t least_ns, uint64_t end_ns);

/* Makes the lead one that any header can tell. The entry then ends later, by microseconds at most.
 */
void log_shorten_lead(struct log_view *header);

/*
 * The lead of a header in 4 bits: the number of bits of a power of two, 0 for 0, or one of the last
 * two.
 */
enum {
	LOG_LEAD_SIMPLE = 13, /* the greatest of the former */
	LOG_LEAD_OWN = 14,    /* the header ends when the entry in its own place does */
	LOG_LEAD_NEWEST = 15, /* or when the entry before it does */
};
unsigned log_pack_lead(const struct log_view *header);

/* Whether a header with that name, lead, first, own and newest can be told from its cell. */
bool log_header_fits(const struct log_view *header);

/* Wants the header of which the view has name, cost, place, span, lead, first, own and newest. */
void log_want_header(struct record_change *change, const struct log_view *header, bool last);

void log_want_entry(struct record_change *change, const struct log_view *view, unsigned back,
                    struct cell before, struct cell after);

/* The next change that a refund wants. */
void log_refund(const struct record_step *on, const struct log_view *view,
                struct record_change *change);

/* What a step with a way does. */
enum log_next {
	LOG_REFUNDS, /* a refund continues */
	LOG_MOVES,   /* entries move to the places of those that are GONE */
	LOG_FORGETS, /* the next oldest entry ends */
};

/* The next change of a step with a way, which needs no view. */
void log_continue(const struct record_step *on, struct record_change *change);

/*
 * The next change that forgets the oldest entry where the others alone fill the count: it is over
 * now. Returns false if there is none.
 */
bool log_forget_replaced(const struct log_view *view, uint64_t count, struct record_change *change);

/* Reads all that a header's word tells; `record` and `until_ns` are there. */
void log_unpack_header(struct cell header, struct log_view *view);

/* To a wider record: log_widen.c. */

/**
 * Wants the change that closes a live header, after its entry is in its place. False: nothing is in
 * use.
 */
bool log_want_close(const struct record_step *on, struct record_change *change);
/** The header as it was before it was closed. */
struct cell log_reopened(const struct record_state *closed);
/**
 * Wants the next cell of a closed header's record, from a place on, to be frozen. Returns false if
 * all are.
 */
bool log_want_freeze(const struct record *record, unsigned from, struct record_change *change);

/* What is copied from a frozen record. */
struct log_copy {
	struct log_view view;
	unsigned entries, base; /* and the sum before the oldest */
};

struct log_copy log_copy_of(const struct record_state *closed);
/** Wants the next entry, from a place on, in the new record, at last the new header. */
void log_want_copy(const struct log_copy *copy, const struct record *to, unsigned from,
                   struct record_change *change);

/* The swaps of an acquire from a log, one after the other. */
struct log_append {
	unsigned index;
	bool is_there; /* the header's entry, in its place; else: */
	struct cell before, entry;
	struct cell header;
	uint64_t until_ns; /* the header's, also of one that stays */
};

/**
 * At once where it can be: what an acquire wants of a narrow log with entries in its record.
 * False if there is more to it; else the outcome stands once *append is done, or of a
 * denial, while the header stays the same.
 */
bool log_try_acquire(const struct record_step *on, uint64_t cost, struct algo_decision *out,
                     struct log_append *append);

#endif
