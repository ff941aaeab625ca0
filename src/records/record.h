/*
 * record.h: states of more than one word, and the pure step that decides on one.
 *
 * Such a *wide* state is a header and a record. The header is the key's own cell in a table: it
 * holds the newest entry, and its `until` is that of the whole state. The record is an array of
 * cells of the same shape behind the header, with the other entries. A decision counts once its
 * value is swapped into the header. An entry of the record is swapped on behalf of one header
 * value. docs/design/wide-states.md proves that this is exact, and says what a crash leaves.
 *
 * A step reads the record, which other threads may be writing, and names the one cell that is to
 * change next. The caller carries the change out and calls the step again, until a step wants
 * nothing more or its last change has been made.
 */
#ifndef RECORDS_RECORD_H
#define RECORDS_RECORD_H

#include "algo/algo.h"
#include "algo/uses/uses.h"
#include "base/cell.h"

/*
 * The generation of a header whose use has moved to a later table of the limit, where the key has
 * to be looked up first. The word of such a header of slots is the use - 1; a log's word stays as
 * it was (log_widen.c). Nothing is granted on it again, so it is metadata and no state of the key.
 */
#define RECORD_MOVED CELL_METADATA

struct record {
	struct cell *cells; /* NULL if the key has no header yet */
	unsigned width;
	uint32_t tag; /* the key's; a record cell with another tag was left by another key */
	bool load_is_atomic;
};

/* Where a wide state is, with the header's value as it was read. */
struct record_state {
	struct cell *cell; /* the header's; NULL if there is none */
	struct cell header;
	struct record record;
};

/* Reads the header again. */
static inline struct cell record_header(const struct record_state *state)
{
	return cell_load(state->cell, state->record.load_is_atomic);
}

static inline struct cell record_load(const struct record *record, unsigned index)
{
	return cell_load(&record->cells[index], record->load_is_atomic);
}

/** Whether the header's cell, and therefore the record, still belongs to the key. */
static inline bool record_is_own(const struct record_state *state)
{
	return (uint32_t)(cell_peek_low(state->cell) >> 32) == state->record.tag;
}

/**
 * Swaps a cell of a record that another key may have taken over: reads the header's tag first. A
 * cell with the key's tag is only changed by calls on that key.
 */
static inline bool record_swap(const struct record_state *state, unsigned index, struct cell before,
                               struct cell after)
{
	return record_is_own(state) && cell_swap(&state->record.cells[index], before, after);
}

/*
 * The index at which the search for one request's entry begins, spread so that threads seldom meet.
 */
static inline unsigned record_start(uint64_t mixed, unsigned count)
{
	uint32_t high = (uint32_t)((mixed * UINT64_C(0x9e3779b97f4a7c15)) >> 32);

	return (unsigned)((uint64_t)high * count >> 32);
}

/** Whether a header keeps its record with the key until `until_ns`. */
static inline bool header_retains(struct cell header, uint32_t tag, uint64_t until_ns)
{
	return cell_tag(header) == tag && cell_ahead_ns(header, until_ns) >= 0;
}

/*
 * A header that no other key may evict while entries of its record count is PINNED, and its word is
 *
 *     version 17 | closing 1 | 14 bits for the kind of record
 *
 * It is closed when the last entry is released: one swap marks it as closing, a second one unpins
 * it if a read of all entries in between has found none (docs/design/reported-states.md).
 */
#define RECORD_CLOSING   (1U << 14)
#define RECORD_WORD_MASK (RECORD_CLOSING - 1)

/**
 * Whether such a header keeps its record with the key until `until_ns`, and no thread closes it.
 */
static inline bool header_pins_record(struct cell header, uint32_t tag, uint64_t until_ns)
{
	return header_retains(header, tag, until_ns) && cell_is_pinned(header) &&
	       !(cell_word(header) & RECORD_CLOSING);
}

/** The header after a release: its version is one higher. */
static inline struct cell header_released(struct cell header, bool closing)
{
	uint32_t word = (cell_word(header) + 2 * RECORD_CLOSING) & ~RECORD_CLOSING;

	return cell_with_word(header, word | (closing ? RECORD_CLOSING : 0));
}

/* The next index, and the one `back` before; the record is a ring. */
static inline unsigned record_next(const struct record *record, unsigned index)
{
	return index + 1 < record->width ? index + 1 : 0;
}

static inline unsigned record_back(const struct record *record, unsigned index, unsigned back)
{
	return index >= back ? index - back : index + record->width - back;
}

enum record_want {
	RECORD_WANT_NOTHING, /* the decision stands if the header is unchanged */
	RECORD_WANT_AGAIN,   /* another thread has changed the record: step again */
	RECORD_WANT_HEADER,  /* swap the header for `header` */
	RECORD_WANT_CELL,    /* if the header is unchanged, swap `before` at `index` for `after` */
};

/* How far a call has come in the record of a log, for its next step under the same header. */
struct log_progress {
	uint64_t read_at_ns;   /* the time for which the record was read */
	uint16_t live_count;   /* entries live then; if 0, the next step reads the record anew */
	uint16_t back;         /* how many entries before the header's the step continues */
	uint16_t units_in_use; /* while the oldest entries are expired */
	uint16_t next_step;    /* enum log_next_step */
};

/* Values of `is_final` in record_change. */
enum { RECORD_INTERIM = false, RECORD_FINAL = true };

struct record_change {
	enum record_want want;
	bool is_final; /* the decision stands once this change is made */
	bool
	    voids_record_first; /* with HEADER: first pass all cells of the record through slots_void */
	struct cell header;
	unsigned index;
	struct cell before, after;
	bool then_header;      /* with CELL: then swap the header for `header` as well */
	unsigned older_slots;  /* with CELL: so many the refund may read yet (slots_refund_older) */
	uint64_t refunded;     /* units that the change takes off the cost of a refund */
	uint64_t unit_name_ns; /* the time by which a refund names the units; the header's
	                          `until` if this is 0 */
	uint64_t gap_name_ns;  /* with a log's refund: `gap_name_ns` of the next step, unless 0 */
	struct log_progress progress; /* with CELL: that of the next step, if the header is unchanged */
};

/* The input of a step. An empty, spent or claimed header needs no record. */
struct record_step {
	const struct algo_limit *limit;
	const struct algo_call *call;
	uint64_t now_ns;
	uint64_t window_end_ns; /* as in algo_time */
	struct cell header;
	const struct record *record;
	uint64_t
	    gap_name_ns; /* name of the oldest entry whose gap this refund must still close, or 0 */
	struct log_progress progress; /* of a log; a step that continues wants CELL or AGAIN */
};

/**
 * Decides on a wide state, and says which change comes next. Operations are those of algo_step. An
 * acquire that is denied writes nothing, except where other parameters or a clock that was set back
 * since have written the header: then it may bring the header up to date.
 */
void record_decide(const struct record_step *step, struct algo_decision *out,
                   struct record_change *change);

/**
 * Replaces each of the first `count` cells that have the key's tag by `voided(cell)`, because an
 * earlier life of the key has left them. Returns false if the header has changed.
 */
bool record_void_cells(const struct record_state *at, unsigned count,
                       struct cell (*voided)(struct cell));

/** The header that closes one of slots in a former table: RECORD_MOVED with its use, or empty. */
struct cell record_moved_header(const struct record_step *step);

/**
 * Adds the units in use, by when they end, to `uses`, which has capacity for the record's width +
 * 1. The result is right if the header is unchanged afterwards.
 */
void record_read_uses(const struct algo_limit *limit, const struct algo_time *time,
                      struct cell header, const struct record *record, struct uses *uses);

/* The operations of one kind of record, behind the functions above. */
struct record_ops {
	void (*decide)(const struct record_step *step, struct algo_decision *out,
	               struct record_change *change);
	uint64_t (*units_in_use)(const struct record_step *step); /* of a live header of slots */
	void (*read_uses)(const struct record_step *step, struct uses *uses);
};

extern const struct record_ops record_slots, record_log, record_day, record_leases;

static inline bool header_is_live(struct cell header, uint64_t now_ns)
{
	return !cell_is_empty(header) && !cell_is_claim(header) && cell_ahead_ns(header, now_ns) > 0;
}

#endif
