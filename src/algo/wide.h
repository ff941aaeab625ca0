/*
 * wide.h: states of more than one word, as rows of cells, and the step on them.
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
#ifndef ALGO_WIDE_H
#define ALGO_WIDE_H

#include "algo/algo.h"
#include "base/cell.h"

/* Cells of a row: a limit takes the first that it fits in. At 0 are the states of one word. */
#define ALGO_WIDTHS 5
static const unsigned algo_widths[ALGO_WIDTHS] = {0, 12, 128, 1024, 10240};

#define ALGO_SLOTS_DEFAULT 10
#define ALGO_SLOTS_MAX     1000
#define ALGO_LOG_MAX       10000

/* A number of slots has one of these generations, and with it the form of a head's word. */
#define ALGO_SLOTS_GENERATIONS 4

/*
 * In the generation of a head: its use, word + 1, belongs to a row of another
 * width, where it is to be looked for first. Nothing is granted on this one again.
 */
#define ALGO_MOVED 12

/* In the generation of a sliding window's head: nothing is in use, its row says nothing. */
#define ALGO_RESET_HEAD 13

struct algo_row {
	struct cell *cells;
	unsigned width;
	uint32_t tag; /* of the key: a row cell without it is another's leftover */
	bool load_is_atomic;
};

static inline struct cell algo_row_load(const struct algo_row *row, unsigned place)
{
	return cell_load(&row->cells[place], row->load_is_atomic);
}

enum algo_want {
	ALGO_WANT_NOTHING, /* the outcome stands, if the head is still the same */
	ALGO_WANT_HEAD,    /* swap the head for `head` */
	ALGO_WANT_CELL,    /* if the head is still the same, swap `before` at `place` for `after` */
};

struct algo_change {
	enum algo_want want;
	bool last;  /* once it is done, the outcome stands */
	bool clean; /* head: first pass all cells of the row through sliding_window_void */
	struct cell head;
	unsigned place;
	struct cell before, after;
	uint64_t given_back; /* what is then to be taken off the cost of a refund */
};

/**
 * One step of a limit with a width, on a head that may be empty, spent or
 * claimed; then the row is not looked at and may be {0}. Operations as in algo_step,
 * but that an acquire may have a head written by other parameters, or by a clock
 * since set back, brought up to date even when it is denied.
 */
void algo_step_wide(const struct algo_limit *limit, const struct algo_call *call,
                    const struct algo_time *time, struct cell head, const struct algo_row *row,
                    struct algo_outcome *out, struct algo_change *change);

/** What a head of another width comes to: ALGO_MOVED with its use; empty if it has none. */
struct cell algo_moved(const struct algo_limit *limit, uint64_t now_ns, struct cell head,
                       const struct algo_row *row);

/* The algorithms behind algo_step_wide. */
void sliding_window_step(const struct algo_limit *limit, const struct algo_call *call,
                         const struct algo_time *time, struct cell head, const struct algo_row *row,
                         struct algo_outcome *out, struct algo_change *change);
void sliding_log_step(const struct algo_limit *limit, const struct algo_call *call,
                      const struct algo_time *time, struct cell head, const struct algo_row *row,
                      struct algo_outcome *out, struct algo_change *change);
uint64_t sliding_window_use(const struct algo_limit *limit, uint64_t now_ns, struct cell head,
                            const struct algo_row *row);
uint64_t sliding_log_use(const struct algo_limit *limit, uint64_t now_ns, struct cell head,
                         const struct algo_row *row);

/**
 * The generation of a number of slots and of the form that a limit of this count has, where
 * nobody says otherwise; another of the same form is 2 away.
 */
unsigned sliding_window_generation(uint32_t slots, uint64_t count);

/** The cell, saying nothing. */
struct cell sliding_window_void(struct cell cell);

static inline bool algo_head_live(struct cell head, uint64_t now_ns)
{
	return !cell_is_empty(head) && !cell_is_claim(head) && cell_ahead_ns(head, now_ns) > 0;
}

#endif
