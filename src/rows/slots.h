/*
 * slots.h: the cells of slots, see slots.c, and decisions at once.
 */
#ifndef ROWS_SLOTS_H
#define ROWS_SLOTS_H

#include "rows/rows.h"

/* In the generation of a head: nothing is in use, its row says nothing. */
#define SLOTS_RESET 12

/* In the generations of cells: 3 * that of the limit + kind of the cell. */
enum { SLOTS_OPEN, SLOTS_SEALED, SLOTS_VOID, SLOTS_KINDS };
_Static_assert(SLOTS_GENERATIONS *SLOTS_KINDS <= SLOTS_RESET, "all fit in a cell");

/**
 * Whether an acquire is granted by a head, open and all that is in use, whose slot time has
 * left: by a swap for change->head, which is sealed, and what slots_open wants then.
 */
bool slots_seal(const struct row_step *on, struct row_change *change);
/** The change that it wants next, CELL or HEAD; the outcome stands after the latter. */
void slots_open(const struct row_step *on, struct algo_decision *out, struct row_change *change);

/**
 * After a refund's change of a cell: whether an older slot has units that the refund still wants,
 * and the change of that slot's cell. It needs the same head, not another step.
 */
bool slots_refund_older(const struct row_step *on, struct row_change *change);

/** The cell, saying nothing. */
struct cell slots_void(struct cell cell);

/** Whether a step at this time on a head that is live needs the row. */
static inline bool slots_needs_row(const struct algo_limit *limit, uint64_t now_ns,
                                   struct cell head)
{
	const struct slots_params *params = &limit->slots;

	return limit->generation & SLOTS_BARE ||
	       cell_ahead_ns(head, now_ns) <= (int64_t)(params->period_ns - params->slot_ns);
}

/*
 * At once where it can be: what an acquire takes in the slot of a head that says all. False
 * if there is more to it; else *after is to be swapped for the head, and the outcome stands.
 */
static inline bool slots_take(const struct algo_limit *limit, struct cell head, uint64_t now_ns,
                              uint64_t cost, struct algo_decision *out, struct cell *after)
{
	const struct slots_params *params = &limit->slots;
	uint64_t ahead = head.high - (now_ns << 4 | limit->generation * SLOTS_KINDS);
	uint64_t age_ns = params->period_ns - (ahead >> 4), before = cell_word(head) >> 16, room;

	/* Open or void; not in a slot that is over, nor one that has not begun. */
	if ((ahead & 15 & ~(uint64_t)SLOTS_VOID) != SLOTS_OPEN ||
	    age_ns >= params->slot_ns)
		return false;
	if (params->weighted)
		before = slots_fading(before, params->slot_ns - age_ns, params->slot_ns);
	room = sat_sub(params->count, before + (cell_word(head) & 0xffff));
	if (cost - 1 >= room)
		return false;
	algo_decision_allow(out);
	out->remaining = room - cost;
	out->reset_after_ns = ahead >> 4;
	*after = (struct cell){head.low + cost, head.high};
	return true;
}

#endif
