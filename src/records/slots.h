/*
 * slots.h: the cells of slots, see slots.c, and decisions at once.
 */
#ifndef RECORDS_SLOTS_H
#define RECORDS_SLOTS_H

#include "records/record.h"

/* In the generation of a header: nothing is in use, its record says nothing. */
#define SLOTS_RESET 12

/* In the generations of cells: 3 * that of the limit + kind of the cell. */
enum { SLOTS_OPEN, SLOTS_SEALED, SLOTS_VOID, SLOTS_KINDS };
_Static_assert(SLOTS_GENERATIONS *SLOTS_KINDS <= SLOTS_RESET, "all fit in a cell");

/**
 * Whether an acquire is granted by a header, open and all that is in use, whose slot time has
 * left: by a swap for change->header, which is sealed, and what slots_open wants then.
 */
bool slots_seal(const struct record_step *on, struct record_change *change);
/** The change that it wants next, CELL or HEADER; the outcome stands after the latter. */
void slots_open(const struct record_step *on, struct algo_decision *out,
                struct record_change *change);

/**
 * After a refund's change of a cell: whether an older slot has units that the refund still wants,
 * and the change of that slot's cell. It needs the same header, not another step.
 */
bool slots_refund_older(const struct record_step *on, struct record_change *change);

/** The cell, saying nothing. */
struct cell slots_void(struct cell cell);

/** Whether a step at this time on a header that is live needs the record. */
static inline bool slots_needs_record(const struct algo_limit *limit, uint64_t now_ns,
                                      struct cell header)
{
	const struct slots_params *params = &limit->slots;

	return limit->generation & SLOTS_BARE ||
	       cell_ahead_ns(header, now_ns) <= (int64_t)(params->period_ns - params->slot_ns);
}

/*
 * At once where it can be: what an acquire takes in the slot of a header that says all. False
 * if there is more to it; else *after is to be swapped for the header, and the outcome stands.
 */
static inline bool slots_take(const struct algo_limit *limit, struct cell header, uint64_t now_ns,
                              uint64_t cost, struct algo_decision *out, struct cell *after)
{
	const struct slots_params *params = &limit->slots;
	uint64_t ahead = header.high - (now_ns << 4 | limit->generation * SLOTS_KINDS);
	uint64_t age_ns = params->period_ns - (ahead >> 4), before = cell_word(header) >> 16, room;

	/* Open or void; not in a slot that is over, nor one that has not begun. */
	if ((ahead & 15 & ~(uint64_t)SLOTS_VOID) != SLOTS_OPEN || age_ns >= params->slot_ns)
		return false;
	if (params->weighted)
		before = slots_fading(before, params->slot_ns - age_ns, params->slot_ns);
	room = sat_sub(params->count, before + (cell_word(header) & 0xffff));
	if (cost - 1 >= room)
		return false;
	algo_decision_allow(out);
	out->remaining = room - cost;
	out->reset_after_ns = ahead >> 4;
	*after = (struct cell){header.low + cost, header.high};
	return true;
}

#endif
