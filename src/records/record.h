/*
 * records.h: states of more than one word, as records of cells, and the step on them.
 *
 * The key's own cell, its header, holds the newest entry, and `until` of it is
 * that of the whole state. Behind the header stands a record of cells of the same
 * shape with the entries before it. Only what is swapped into the header decides;
 * a record cell is written on behalf of a header, by a compare-and-swap, too.
 * docs/design/wide-states.md says why that is exact, and what a crash leaves.
 *
 * The step stays pure. It reads the record, which others may be writing, and says
 * which one cell should be changed next; its caller carries that out and steps
 * again until a step wants nothing more, or its last want was met.
 */
#ifndef RECORDS_RECORDS_H
#define RECORDS_RECORDS_H

#include "algo/algo.h"
#include "algo/uses/uses.h"
#include "base/cell.h"

/*
 * In the generation of a header: its use belongs to a later table of the limit, where it is to be
 * looked for first. Of slots it is word + 1; a log's word stays as it was (log_move.c). Nothing is
 * granted on this header again, so it is a note: no state of the key any more.
 */
#define RECORD_MOVED CELL_METADATA

struct record {
	struct cell *cells; /* NULL if the key has no header yet */
	unsigned width;
	uint32_t tag; /* of the key: a record cell without it is another's leftover */
	bool load_is_atomic;
};

/* A header: its place, its value when it was found, and its record. */
struct record_state {
	struct cell *cell; /* NULL if there is none */
	struct cell header;
	struct record record;
};

/* The header as it is now. */
static inline struct cell record_header(const struct record_state *state)
{
	return cell_load(state->cell, state->record.load_is_atomic);
}

static inline struct cell record_load(const struct record *record, unsigned place)
{
	return cell_load(&record->cells[place], record->load_is_atomic);
}

/** Whether the record is still that of the key. */
static inline bool record_is_own(const struct record_state *state)
{
	return (uint32_t)(cell_peek_low(state->cell) >> 32) == state->record.tag;
}

/**
 * Swaps a cell of a record that may be another key's, so it reads the header first. Only the key
 * itself changes cells that have its tag.
 */
static inline bool record_swap(const struct record_state *state, unsigned place, struct cell before,
                               struct cell after)
{
	return record_is_own(state) && cell_swap(&state->record.cells[place], before, after);
}

/* The place from which an entry of one request is searched: threads seldom meet there. */
static inline unsigned record_start(uint64_t mixed, unsigned places)
{
	uint32_t high = (uint32_t)((mixed * UINT64_C(0x9e3779b97f4a7c15)) >> 32);

	return (unsigned)((uint64_t)high * places >> 32);
}

/** Whether a header keeps the record the key's until then. */
static inline bool header_retains(struct cell header, uint32_t tag, uint64_t until_ns)
{
	return cell_tag(header) == tag && cell_ahead_ns(header, until_ns) >= 0;
}

/*
 * A header that is let go once no entry is held, by two swaps and a read of the entries in between
 * (docs/design/wide-states.md), is HELD, and its word is
 *
 *     version 17 | closing 1 | 14 for the kind of entries
 */
#define RECORD_CLOSING   (1U << 14)
#define RECORD_WORD_MASK (RECORD_CLOSING - 1)

/** Whether such a header keeps the record the key's until then, and no thread is letting it go. */
static inline bool header_is_held(struct cell header, uint32_t tag, uint64_t until_ns)
{
	return header_retains(header, tag, until_ns) && cell_is_pinned(header) &&
	       !(cell_word(header) & RECORD_CLOSING);
}

/** The header after a release, which counts in its version. */
static inline struct cell header_released(struct cell header, bool closing)
{
	uint32_t word = (cell_word(header) + 2 * RECORD_CLOSING) & ~RECORD_CLOSING;

	return (struct cell){header.low >> 32 << 32 | word | (closing ? RECORD_CLOSING : 0),
	                     header.high};
}

/* The place after another, and that so many before it, round and round. */
static inline unsigned record_next(const struct record *record, unsigned place)
{
	return place + 1 < record->width ? place + 1 : 0;
}

static inline unsigned record_back(const struct record *record, unsigned place, unsigned back)
{
	return place >= back ? place - back : place + record->width - back;
}

enum record_want {
	RECORD_WANT_NOTHING, /* the outcome stands, if the header is still the same */
	RECORD_WANT_AGAIN,   /* others were at it meanwhile */
	RECORD_WANT_HEADER,  /* swap the header for `header` */
	RECORD_WANT_CELL,    /* if the header is still the same, swap `before` at `place` for `after` */
};

/* How far a call has come in the record of a log, for a next step under the same header. */
struct log_progress {
	uint64_t at;   /* the time for which the record was read */
	uint16_t live; /* entries that were; if 0, the next step reads the record anew */
	uint16_t back; /* the place from which it continues, from the header's */
	uint16_t use;  /* units, while the oldest entries are forgotten */
	uint16_t next; /* what the step does: enum log_next */
};

struct record_change {
	enum record_want want;
	bool last;  /* once it is done, the outcome stands */
	bool clean; /* header: first pass all cells of the record through slots_void */
	struct cell header;
	unsigned place;
	struct cell before, after;
	unsigned older; /* cell: in so many places before it a refund may go on (slots_refund_older) */
	bool then_header;    /* cell: once that is done, swap the header for `header` as well */
	uint64_t given_back; /* what is then to be taken off the cost of a refund */
	uint64_t name_ns;    /* the time that a refund may name; 0 for the header's */
	uint64_t gone_ns;    /* what is then `gone_ns` of the refund's steps, if not 0 */
	struct log_progress
	    way; /* cell: what is then `way` of the next step, if the header is the same */
};

/* The input of a step. If the header is empty, spent or claimed, no record is needed. */
struct record_step {
	const struct algo_limit *limit;
	const struct algo_call *call;
	uint64_t now_ns;
	uint64_t window_end_ns; /* as in algo_time */
	struct cell header;
	const struct record *record;
	uint64_t gone_ns; /* name of the oldest entry that the refund has yet to close, or 0 */
	struct log_progress
	    way; /* if a log's refund goes on: then it wants a cell, or AGAIN to look anew */
};

/**
 * One step of a limit with records. Operations as in algo_step, but that an acquire may have a
 * header written by other parameters, or by a clock since set back, brought up to date even when it
 * is denied.
 */
void record_decide(const struct record_step *on, struct algo_decision *out,
                   struct record_change *change);

/**
 * Voids the first `count` cells of a record that an earlier life of the key has left, on behalf of
 * the header. Returns false if the header has changed.
 */
bool record_clean(const struct record_state *at, unsigned count,
                  struct cell (*voided)(struct cell));

/**
 * The header of slots that replaces one in a former table: RECORD_MOVED with its use; empty if it
 * has none.
 */
struct cell record_moved(const struct record_step *on);

/**
 * Adds the meaning of a header and its record to `uses`, which has room for all of the record and
 * one more. It is right if the header is the same afterwards.
 */
void record_read_uses(const struct algo_limit *limit, const struct algo_time *time,
                      struct cell header, const struct record *record, struct uses *uses);

/* A way to keep records, behind the functions above. */
struct record_kind {
	void (*step)(const struct record_step *on, struct algo_decision *out,
	             struct record_change *change);
	uint64_t (*use)(const struct record_step *on); /* of a live header; slots only */
	void (*read)(const struct record_step *on, struct uses *uses);
};

extern const struct record_kind record_slots, record_log, record_day, record_leases;

static inline bool header_is_live(struct cell header, uint64_t now_ns)
{
	return !cell_is_empty(header) && !cell_is_claim(header) && cell_ahead_ns(header, now_ns) > 0;
}

#endif
