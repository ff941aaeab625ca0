/*
 * slots.h: counts a limit's units in S slots of its period, for sliding windows and sliding
 * counters.
 *
 * Slot k begins at ceil(k * period / S) after the Unix epoch. The header is the newest slot in
 * which something was consumed; its own cell in the record is the one at k mod S. Both have
 *
 *     until = start + period,    generation = 3 * that of S and the form + kind
 *
 * where the form is the header's alone. A slot is therefore one of the last S exactly while its
 * `until` is ahead of now, and a sum over the record needs neither slot numbers nor divisions. The
 * words are
 *
 *     record cell                          count - 1
 *     header, of a limit below 2^16        before 16 | count 16
 *     header, of any other limit           count; of 2^32 see make_slots_header in slots.c
 *
 * `before` is the sum of the record's slots, valid while now is in the header's slot, because slots
 * end where others begin. Within a slot a call therefore reads and swaps the header alone, and
 * reads the record only when a slot is opened. After a change of the limit a header keeps its form
 * until its word changes, and longer where its count needs more than 16 bits.
 *
 * A refund to an older slot first swaps the record's cell and then lowers `before`. Record cells
 * only lose units, so a sum that was read is never too low. A process that dies between the two
 * swaps leaves `before` too high until the next refund or slot.
 *
 * When now has reached a later slot, the header is sealed (its count is final), copied to its cell
 * in the record, and swapped for the new slot. These are three compare-and-swaps; each call that
 * meets a sealed header carries out those that are left. A new key's header is void: its record
 * says nothing until the header is sealed, and then the record is cleaned of an earlier life of the
 * key. A header is void, too, if it takes over all use because S has changed or because a clock
 * that was set back finds it further ahead than ALGO_SKEW_NS. A reset header counts nothing.
 *
 * A sliding counter has two slots. The older one counts by its share that overlaps the last period.
 *
 * The header's slot never goes back, not even by a reset. So each slot is sealed once, with one
 * count, and a value that was computed for one state of the key fits no other.
 */
#ifndef RECORDS_SLOTS_H
#define RECORDS_SLOTS_H

#include "records/record.h"

/* The generation of a header of which nothing is in use. Its record is ignored. */
#define SLOTS_RESET 12

/* The generation of a cell is 3 * that of the limit + one of these kinds. */
enum { SLOTS_OPEN, SLOTS_SEALED, SLOTS_VOID, SLOTS_KINDS };
_Static_assert(SLOTS_GENERATIONS *SLOTS_KINDS <= SLOTS_RESET, "all fit in a cell");

/**
 * Whether an acquire opens a new slot: the header is open, has all that is in use, and its slot is
 * over. If so, change->header is the sealed header to swap in, and slots_open() says what follows.
 */
bool slots_seal(const struct record_step *on, struct record_change *change);
/** Wants the next change, CELL or HEADER. The decision stands after HEADER. */
void slots_open(const struct record_step *on, struct algo_decision *out,
                struct record_change *change);

/**
 * After a refund has changed a cell: whether an older slot has units that the refund still wants,
 * and the change of that slot's cell. It needs the same header, but no other step.
 */
bool slots_refund_older(const struct record_step *on, struct record_change *change);

/** Returns the cell with the kind VOID. */
struct cell slots_void(struct cell cell);

/** Whether a step at `now_ns` on a live header reads the record. */
static inline bool slots_needs_record(const struct algo_limit *limit, uint64_t now_ns,
                                      struct cell header)
{
	const struct slots_params *params = &limit->slots;

	return limit->generation & SLOTS_BARE ||
	       cell_ahead_ns(header, now_ns) <= (int64_t)(params->period_ns - params->slot_ns);
}

/*
 * Acquires at once in the slot of a header that has all that is in use. If it returns true,
 * `*after` is to be swapped for the header, and then the decision stands. If it returns false, the
 * general step has to decide.
 */
static inline bool slots_take(const struct algo_limit *limit, struct cell header, uint64_t now_ns,
                              uint64_t cost, struct algo_decision *out, struct cell *after)
{
	const struct slots_params *params = &limit->slots;
	uint64_t ahead = header.high - (now_ns << 4 | limit->generation * SLOTS_KINDS);
	uint64_t age_ns = params->period_ns - (ahead >> 4), before = cell_word(header) >> 16, room;

	/* The header is open or void, and now is in its slot. */
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
