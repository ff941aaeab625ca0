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
 *     header, of a limit below 2^16        earlier 16 | count 16
 *     header, of any other limit           count; of 2^32 see make_header in slots.c
 *
 * `earlier` is the sum of the record's slots, valid while now is in the header's slot, because
 * slots end where others begin. Within a slot a call therefore reads and swaps the header alone,
 * and reads the record only when a slot is opened. After a change of the limit a header keeps its
 * form until its word changes, and longer where its count needs more than 16 bits.
 *
 * A refund to an older slot first swaps the record's cell and then lowers `earlier`. Record cells
 * only lose units, so a sum that was read is never too low. A process that dies between the two
 * swaps leaves `earlier` too high until the next refund or slot.
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

/*
 * The generation of a cell is 3 * that of the limit + one of these kinds. OPEN is the usual one.
 * The limit's generation tells its number of slots from others (by one bit), and has the form,
 * BARE.
 */
enum { SLOTS_OPEN, SLOTS_SEALED, SLOTS_VOID, SLOTS_KINDS };
_Static_assert(SLOTS_GENERATIONS *SLOTS_KINDS <= SLOTS_RESET, "all fit in a cell");

/* The greatest number of units in a header that also stores the sum of the earlier slots. */
#define SLOTS_FIELD_MAX 0xffffu

/* Whether a header that is neither reset nor moved stores the sum of the record's slots. */
static inline bool slots_header_has_sum(struct cell header)
{
	return !(cell_generation(header) / SLOTS_KINDS & SLOTS_BARE);
}

/* A header that was reset or moved is void, too. */
static inline unsigned slots_header_kind(struct cell header)
{
	unsigned generation = cell_generation(header);

	return generation < SLOTS_RESET ? generation % SLOTS_KINDS : SLOTS_VOID;
}

/*
 * The units in a header. The word of a moved header is the units - 1; that of a bare
 * header is the units, except that 0 stands for 2^32 in one that is not open.
 */
static inline uint64_t slots_header_units(struct cell header)
{
	unsigned generation = cell_generation(header);
	uint32_t word = cell_word(header);

	if (generation >= SLOTS_RESET)
		return generation == RECORD_MOVED ? (uint64_t)word + 1 : 0;
	if (slots_header_has_sum(header))
		return word & SLOTS_FIELD_MAX;
	return word == 0 && generation % SLOTS_KINDS != SLOTS_OPEN ? ALGO_COUNT_MAX : word;
}

/* The units in a cell of the record, which has one at least. */
static inline uint64_t slots_cell_units(struct cell cell)
{
	return (uint64_t)cell_word(cell) + 1;
}

/* The generation of record cells under a header of this one. They have no form. */
static inline unsigned slots_cell_generation(unsigned generation)
{
	return (generation & ~(unsigned)SLOTS_BARE) * SLOTS_KINDS;
}

/*
 * Tells the slots before the header's that are not over by their cell's `until`. Times are in a
 * cell's unit, 1/16 ns, from now on.
 */
struct live_slots {
	uint64_t now_16ths; /* with the generation of live cells in the low bits */
	int64_t after, before;
	uint32_t tag;
};

/*
 * The range of `until` of the slots that count beside the header's: not over now, and before the
 * header. A thread whose clock lags behind the header's slot takes the header's time.
 */
static inline struct live_slots slots_live_at(uint64_t period_ns, uint64_t now_ns,
                                              struct cell header, uint32_t tag)
{
	int64_t header_ahead = (int64_t)((header.high & ~UINT64_C(15)) - (now_ns << 4));
	int64_t header_start = header_ahead - (int64_t)(period_ns << 4);

	return (struct live_slots){now_ns << 4 |
	                               slots_cell_generation(cell_generation(header) / SLOTS_KINDS),
	                           header_start > 0 ? header_start : 0, header_ahead, tag};
}

static inline bool slots_is_live(const struct live_slots *live, struct cell cell)
{
	int64_t ahead = (int64_t)(cell.high - live->now_16ths);

	return (ahead & 15) == SLOTS_OPEN && ahead > live->after && ahead < live->before &&
	       cell_tag(cell) == live->tag;
}

/**
 * Whether an acquire opens a new slot: the header is open, has all that is in use, and its slot is
 * over. If so, change->header is the sealed header to swap in, and slots_open() says what follows.
 */
bool slots_seal(const struct record_step *step, struct record_change *change);
/** Wants the next change, CELL or HEADER. The decision stands after HEADER. */
void slots_open(const struct record_step *step, struct algo_decision *out,
                struct record_change *change);

/**
 * After a refund has changed a cell: whether an older slot has units that the refund still wants,
 * and the change of that slot's cell. It needs the same header, but no other step.
 */
bool slots_refund_older(const struct record_step *step, struct record_change *change);

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
static inline bool slots_try_acquire(const struct algo_limit *limit, struct cell header,
                                     uint64_t now_ns, uint64_t cost, struct algo_decision *out,
                                     struct cell *after)
{
	const struct slots_params *params = &limit->slots;
	uint64_t ahead = header.high - (now_ns << 4 | limit->generation * SLOTS_KINDS);
	uint64_t age_ns = params->period_ns - (ahead >> 4), free_units;
	uint64_t earlier_units = cell_word(header) >> 16;

	/* The header is open or void, and now is in its slot. */
	if ((ahead & 15 & ~(uint64_t)SLOTS_VOID) != SLOTS_OPEN || age_ns >= params->slot_ns)
		return false;
	if (params->weighted)
		earlier_units = slots_fading(earlier_units, params->slot_ns - age_ns, params->slot_ns);
	free_units = sat_sub(params->count, earlier_units + (cell_word(header) & 0xffff));
	if (cost - 1 >= free_units) /* more than is free, or 0 */
		return false;
	algo_decision_allow(out);
	out->remaining = free_units - cost;
	out->reset_after_ns = ahead >> 4;
	*after = (struct cell){header.low + cost, header.high};
	return true;
}

#endif
