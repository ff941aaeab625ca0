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

/* Cells of the narrowest rows and of the widest. */
#define ALGO_WIDTH_LEAST 12
#define ALGO_WIDTH_MOST  10240

#define ALGO_SLOTS_DEFAULT 10
#define ALGO_SLOTS_MAX     1000
#define ALGO_LOG_MAX       10000

/* The windows that a state of `base` tells apart. */
#define ALGO_BASE_PLACES 6

/*
 * In the generation of a head: its use, word + 1, belongs to a later table of the
 * limit, where it is to be looked for first. Nothing is granted on this one again,
 * so it is a note: no state of the key any more.
 */
#define ALGO_MOVED CELL_NOTE

/* In the generation of a sliding window's head: nothing is in use, its row says nothing. */
#define ALGO_RESET_HEAD 12

/*
 * In the generations of sliding windows: 3 * that of the limit + kind of the cell. The limit's
 * tells the form of a head's word, and two numbers of slots apart.
 */
enum { SLIDING_WINDOW_OPEN, SLIDING_WINDOW_SEALED, SLIDING_WINDOW_VOID, SLIDING_WINDOW_KINDS };
enum { SLIDING_WINDOW_BARE = 1, SLIDING_WINDOW_OTHER = 2, SLIDING_WINDOW_GENERATIONS = 4 };
_Static_assert(SLIDING_WINDOW_GENERATIONS *SLIDING_WINDOW_KINDS <= ALGO_RESET_HEAD,
               "all fit in a cell");

/*
 * The word of a sliding_log's head, see sliding_log.h. Here because who is about to decide
 * can fetch what it points at.
 */
struct algo_log_head {
	unsigned cost, place, span, lead; /* of rows that are not narrow no span, and a code */
};

static inline bool algo_log_is_narrow(unsigned row_cells)
{
	return row_cells <= 128;
}

static inline struct algo_log_head algo_log_head(unsigned row_cells, uint32_t word)
{
	if (algo_log_is_narrow(row_cells))
		return (struct algo_log_head){word >> 25, word >> 18 & 0x7f, word >> 11 & 0x7f,
		                              word >> 4 & 0x7f};
	return (struct algo_log_head){word >> 18, word >> 4 & 0x3fff, 0, word & 15};
}

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

/* The place after another, and that so many before it, round and round. */
static inline unsigned algo_row_next(const struct algo_row *row, unsigned place)
{
	return place + 1 < row->width ? place + 1 : 0;
}

static inline unsigned algo_row_back(const struct algo_row *row, unsigned place, unsigned back)
{
	return place >= back ? place - back : place + row->width - back;
}

enum algo_want {
	ALGO_WANT_NOTHING, /* the outcome stands, if the head is still the same */
	ALGO_WANT_AGAIN,   /* others were at it meanwhile */
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
	bool then_head; /* cell: once that is done, swap the head for `head` as well */
	uint64_t given_back; /* what is then to be taken off the cost of a refund */
	uint64_t name_ns;    /* the time that a refund may name; 0: the head's */
	uint64_t until_ns;   /* and which name it then goes on with, if not 0 */
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

/** The head that replaces one in a former table: ALGO_MOVED with its use; empty if it has none. */
struct cell algo_moved(const struct algo_limit *limit, uint64_t now_ns, struct cell head,
                       const struct algo_row *row);

/* The algorithms behind algo_step_wide. */
void sliding_window_step(const struct algo_limit *limit, const struct algo_call *call,
                         const struct algo_time *time, struct cell head, const struct algo_row *row,
                         struct algo_outcome *out, struct algo_change *change);
void sliding_log_step(const struct algo_limit *limit, const struct algo_call *call,
                      const struct algo_time *time, struct cell head, const struct algo_row *row,
                      struct algo_outcome *out, struct algo_change *change);
void base_step(const struct algo_limit *limit, const struct algo_call *call,
               const struct algo_time *time, struct cell head, const struct algo_row *row,
               struct algo_outcome *out, struct algo_change *change);
uint64_t sliding_window_use(const struct algo_limit *limit, uint64_t now_ns, struct cell head,
                            const struct algo_row *row);
uint64_t sliding_log_use(const struct algo_limit *limit, uint64_t now_ns, struct cell head,
                         const struct algo_row *row);

/**
 * Whether an acquire is granted by a head, open and all that is in use, whose slot time has
 * left: by a swap for change->head, which is sealed, and what sliding_window_open wants then.
 */
bool sliding_window_seal(const struct algo_limit *limit, struct cell head,
                         const struct algo_row *row, uint64_t now_ns, uint64_t cost,
                         struct algo_change *change);
/** What it wants next, CELL or HEAD; the outcome stands after the latter. */
void sliding_window_open(const struct algo_limit *limit, struct cell head,
                         const struct algo_row *row, uint64_t now_ns, uint64_t cost,
                         struct algo_outcome *out, struct algo_change *change);

/* What an acquire from a log is to swap, one after the other. */
struct algo_append {
	unsigned place;
	bool is_there; /* the head's entry, in its place; else: */
	struct cell before, entry;
	struct cell head;
	uint64_t until_ns; /* the head's, also of one that stays */
};

/**
 * At once where it can be: what an acquire wants of a narrow log with entries in its row.
 * False if there is more to it; else the outcome stands once *append is done, or of a
 * denial, while the head stays the same.
 */
bool sliding_log_try(const struct algo_limit *limit, struct cell head, const struct algo_row *row,
                     uint64_t now_ns, uint64_t cost, struct algo_outcome *out,
                     struct algo_append *append);

/** The generation of a limit of so many slots and such a count, where nobody says otherwise. */
unsigned sliding_window_generation(uint32_t slots, uint64_t count);

/** The cell, saying nothing. */
struct cell sliding_window_void(struct cell cell);

/** What the window before this one still counts when this one is so old: rounded up. */
uint64_t sliding_window_overlap(const struct slots_params *params, uint64_t before,
                                uint64_t age_ns);

/** Whether a step at this time on a head that is live needs the row. */
static inline bool sliding_window_needs_row(const struct algo_limit *limit, uint64_t now_ns,
                                            struct cell head)
{
	const struct slots_params *params = &limit->slots;

	return limit->generation & SLIDING_WINDOW_BARE ||
	       cell_ahead_ns(head, now_ns) <= (int64_t)(params->period_ns - params->slot_ns);
}

/*
 * At once where it can be: what an acquire takes in the slot of a head that says all. False
 * if there is more to it; else *after is to be swapped for the head, and the outcome stands.
 */
static inline bool sliding_window_take(const struct algo_limit *limit, struct cell head,
                                       uint64_t now_ns, uint64_t cost, struct algo_outcome *out,
                                       struct cell *after)
{
	const struct slots_params *params = &limit->slots;
	uint64_t ahead = head.high - (now_ns << 4 | limit->generation * SLIDING_WINDOW_KINDS);
	uint64_t age_ns = params->period_ns - (ahead >> 4), before = cell_word(head) >> 16, room;

	/* Open or void; not in a slot that is over, nor one that has not begun. */
	if ((ahead & 15 & ~(uint64_t)SLIDING_WINDOW_VOID) != SLIDING_WINDOW_OPEN ||
	    age_ns >= params->slot_ns)
		return false;
	if (params->weighted)
		before = sliding_window_overlap(params, before, age_ns);
	room = sat_sub(params->count, before + (cell_word(head) & 0xffff));
	if (cost - 1 >= room)
		return false;
	algo_outcome_open(out);
	out->remaining = room - cost;
	out->reset_after_ns = ahead >> 4;
	*after = (struct cell){head.low + cost, head.high};
	return true;
}

static inline bool algo_head_live(struct cell head, uint64_t now_ns)
{
	return !cell_is_empty(head) && !cell_is_claim(head) && cell_ahead_ns(head, now_ns) > 0;
}

#endif
