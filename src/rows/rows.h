/*
 * rows.h: states of more than one word, as rows of cells, and the step on them.
 *
 * The key's own cell, its head, holds the newest entry, and `until` of it is
 * that of the whole state. Behind the head stands a row of cells of the same
 * shape with the entries before it. Only what is swapped into the head decides;
 * a row cell is written on behalf of a head, by a compare-and-swap, too.
 * docs/design/wide-states.md says why that is exact, and what a crash leaves.
 *
 * The step stays pure. It reads the row, which others may be writing, and says
 * which one cell should be changed next; its caller carries that out and steps
 * again until a step wants nothing more, or its last want was met.
 */
#ifndef ROWS_ROWS_H
#define ROWS_ROWS_H

#include "algo/algo.h"
#include "algo/uses/uses.h"
#include "base/cell.h"

/*
 * In the generation of a head: its use belongs to a later table of the limit, where it is to be
 * looked for first. Of slots it is word + 1; a log's word stays as it was (log_move.c). Nothing is
 * granted on this head again, so it is a note: no state of the key any more.
 */
#define ROW_MOVED CELL_METADATA

struct row {
	struct cell *cells; /* NULL if the key has no head yet */
	unsigned width;
	uint32_t tag; /* of the key: a row cell without it is another's leftover */
	bool load_is_atomic;
};

/* A head: its place, its value when it was found, and its row. */
struct row_state {
	struct cell *cell; /* NULL if there is none */
	struct cell head;
	struct row row;
};

/* The head as it is now. */
static inline struct cell row_head(const struct row_state *state)
{
	return cell_load(state->cell, state->row.load_is_atomic);
}

static inline struct cell row_load(const struct row *row, unsigned place)
{
	return cell_load(&row->cells[place], row->load_is_atomic);
}

/** Whether the row is still that of the key. */
static inline bool row_is_own(const struct row_state *state)
{
	return (uint32_t)(cell_peek_low(state->cell) >> 32) == state->row.tag;
}

/**
 * Swaps a cell of a row that may be another key's, so it reads the head first. Only the key itself
 * changes cells that have its tag.
 */
static inline bool row_swap(const struct row_state *state, unsigned place, struct cell before,
                            struct cell after)
{
	return row_is_own(state) && cell_swap(&state->row.cells[place], before, after);
}

/* The place from which a record of one request is searched: threads seldom meet there. */
static inline unsigned row_start(uint64_t mixed, unsigned places)
{
	uint32_t high = (uint32_t)((mixed * UINT64_C(0x9e3779b97f4a7c15)) >> 32);

	return (unsigned)((uint64_t)high * places >> 32);
}

/** Whether a head keeps the row the key's until then. */
static inline bool row_is_kept(struct cell head, uint32_t tag, uint64_t until_ns)
{
	return cell_tag(head) == tag && cell_ahead_ns(head, until_ns) >= 0;
}

/*
 * A head that is let go once no record is held, by two swaps and a read of the records in between
 * (docs/design/wide-states.md), is HELD, and its word is
 *
 *     version 17 | closing 1 | 14 for the kind of records
 */
#define ROW_CLOSING   (1U << 14)
#define ROW_WORD_MASK (ROW_CLOSING - 1)

/** Whether such a head keeps the row the key's until then, and no thread is letting it go. */
static inline bool row_is_held(struct cell head, uint32_t tag, uint64_t until_ns)
{
	return row_is_kept(head, tag, until_ns) && cell_is_pinned(head) &&
	       !(cell_word(head) & ROW_CLOSING);
}

/** The head after a release, which counts in its version. */
static inline struct cell row_released(struct cell head, bool closing)
{
	uint32_t word = (cell_word(head) + 2 * ROW_CLOSING) & ~ROW_CLOSING;

	return (struct cell){head.low >> 32 << 32 | word | (closing ? ROW_CLOSING : 0), head.high};
}

/* The place after another, and that so many before it, round and round. */
static inline unsigned row_next(const struct row *row, unsigned place)
{
	return place + 1 < row->width ? place + 1 : 0;
}

static inline unsigned row_back(const struct row *row, unsigned place, unsigned back)
{
	return place >= back ? place - back : place + row->width - back;
}

enum row_want {
	ROW_WANT_NOTHING, /* the outcome stands, if the head is still the same */
	ROW_WANT_AGAIN,   /* others were at it meanwhile */
	ROW_WANT_HEAD,    /* swap the head for `head` */
	ROW_WANT_CELL,    /* if the head is still the same, swap `before` at `place` for `after` */
};

/* How far a call has come in the row of a log, for a next step under the same head. */
struct row_way {
	uint64_t at;   /* the time for which the row was read */
	uint16_t live; /* entries that were; if 0, the next step reads the row anew */
	uint16_t back; /* the place from which it continues, from the head's */
	uint16_t use;  /* units, while the oldest entries are forgotten */
	uint16_t next; /* what the step does: enum log_next */
};

struct row_change {
	enum row_want want;
	bool last;  /* once it is done, the outcome stands */
	bool clean; /* head: first pass all cells of the row through slots_void */
	struct cell head;
	unsigned place;
	struct cell before, after;
	unsigned older; /* cell: in so many places before it a refund may go on (slots_refund_older) */
	bool then_head; /* cell: once that is done, swap the head for `head` as well */
	uint64_t given_back; /* what is then to be taken off the cost of a refund */
	uint64_t name_ns;    /* the time that a refund may name; 0 for the head's */
	uint64_t gone_ns;    /* what is then `gone_ns` of the refund's steps, if not 0 */
	struct row_way way;  /* cell: what is then `way` of the next step, if the head is the same */
};

/* The input of a step. If the head is empty, spent or claimed, no row is needed. */
struct row_step {
	const struct algo_limit *limit;
	const struct algo_call *call;
	uint64_t now_ns;
	uint64_t window_end_ns; /* as in algo_time */
	struct cell head;
	const struct row *row;
	uint64_t gone_ns; /* name of the oldest entry that the refund has yet to close, or 0 */
	struct row_way way; /* if a log's refund goes on: then it wants a cell, or AGAIN to look anew */
};

/**
 * One step of a limit with rows. Operations as in algo_step, but that an acquire may have a head
 * written by other parameters, or by a clock since set back, brought up to date even when it is
 * denied.
 */
void rows_step(const struct row_step *on, struct algo_decision *out, struct row_change *change);

/**
 * Voids the first `count` cells of a row that an earlier life of the key has left, on behalf of the
 * head. Returns false if the head has changed.
 */
bool rows_clean(const struct row_state *at, unsigned count, struct cell (*voided)(struct cell));

/**
 * The head of slots that replaces one in a former table: ROW_MOVED with its use; empty if it has
 * none.
 */
struct cell rows_moved(const struct row_step *on);

/**
 * Adds the meaning of a head and its row to `uses`, which has room for all of the row and one
 * more. It is right if the head is the same afterwards.
 */
void rows_read(const struct algo_limit *limit, const struct algo_time *time, struct cell head,
               const struct row *row, struct uses *uses);

/* A way to keep rows, behind the functions above. */
struct row_kind {
	void (*step)(const struct row_step *on, struct algo_decision *out, struct row_change *change);
	uint64_t (*use)(const struct row_step *on); /* of a live head; slots only */
	void (*read)(const struct row_step *on, struct uses *uses);
};

extern const struct row_kind row_slots, row_log, row_day, row_places;

static inline bool row_head_live(struct cell head, uint64_t now_ns)
{
	return !cell_is_empty(head) && !cell_is_claim(head) && cell_ahead_ns(head, now_ns) > 0;
}

#endif
