/*
 * health_window.c: the results in the window of a row, in parts of time or in blocks of calls.
 *
 * Each result is one swap of one cell. A cell has the name of its phase and part, so a call that
 * counts for another part begins the cell anew.
 */
#include "rows/health.h"
#include "rows/health_cells.h"

#define COUNT_BITS 21
#define COUNT_MAX  ((UINT64_C(1) << COUNT_BITS) - 1)

#define LATER_MOST 16 /* windows */

#define BLOCK_NUMBERS  27
#define BLOCK_OUTCOMES 32 /* bits */

/* The name of the results of the phase that was seen. One phase in 2^31 has the same. */
static uint64_t name_of(const struct health_look *look, uint32_t tag, uint64_t number)
{
	uint64_t mixed = (look->health.since_ns ^ number * UINT64_C(0xff51afd7ed558ccd)) *
	                 UINT64_C(0x9e3779b97f4a7c15);

	return (uint64_t)tag << 32 | HEALTH_NAME_BIT | (mixed >> 32);
}

/* The place of a part in the first stripe. */
static unsigned place_of_part(const struct health_params *params, uint64_t part)
{
	unsigned cells = health_window_cells(params);

	return HEALTH_WINDOW_AT +
	       (unsigned)(part - cells * divide_by(part, cells, params->place_inverse));
}

/*
 * Whether a call may begin to count where others have counted, in a cell that it has loaded before
 * this. It may not if its phase has ended: the results there may be those of the next phase. If
 * the phase ends after this look, whoever counts in the next changes the cell, and the call's swap
 * fails.
 */
static bool may_begin(const struct row_state *at, const struct health_look *look)
{
	struct cell phase = row_load(&at->row, HEALTH_PHASE_AT);

	return cell_bits(phase) == cell_bits(look->phase);
}

/*
 * Whether a name is that of a later part with the same place. A call that has stalled for up to
 * LATER_MOST windows finds out so, and erases nothing.
 */
__attribute__((noinline, cold)) static bool is_later_part(const struct health_params *params,
                                                          const struct health_look *look,
                                                          uint32_t tag, uint64_t part,
                                                          uint64_t name)
{
	for (unsigned i = 0; i < LATER_MOST; i++) {
		part += health_window_cells(params);
		if (name_of(look, tag, part) == name)
			return true;
	}
	return false;
}

static void add_part(const struct health_params *params, const struct row_state *at,
                     const struct health_look *look, const struct health_ends *ends)
{
	uint64_t part = health_part(params, ends->at_ns), count = ends->count;
	unsigned place = place_of_part(params, part) + ends->stripe * health_stride(params);
	uint64_t name = name_of(look, at->row.tag, part);
	struct cell before, after;

	do {
		before = row_load(&at->row, place);
		/* The window of the first stripe never has a permit. */
		if (before.low != name && health_flies_anyhow(params, before, at->row.tag))
			before = row_load(&at->row, place = place_of_part(params, part));
		if (before.low != name &&
		    (is_later_part(params, look, at->row.tag, part, before.low) || !may_begin(at, look)))
			return;
		after = (struct cell){name, before.low == name ? before.high : 0};
		/* As many tell the share as well as more would. */
		if ((after.high & COUNT_MAX) + count > COUNT_MAX)
			return;
		after.high += count | (ends->result.failed ? count << COUNT_BITS : 0) |
		              (ends->result.slow ? count << 2 * COUNT_BITS : 0);
	} while (!row_swap(at, place, before, after) && row_is_own(at));
}

/*
 * A part of all stripes, or only of those that the row has. Returns false if nothing was counted in
 * it.
 */
static bool add_up(const struct health_params *params, const struct row *row,
                   const struct health_look *look, uint64_t part, struct health_tally *sum)
{
	unsigned place = place_of_part(params, part), stripes = health_stripes(params);
	unsigned stride = health_stride(params);
	uint64_t name = name_of(look, row->tag, part);
	bool any = false;

	for (unsigned i = 0; i < stripes && place < row->width; i++, place += stride) {
		struct cell cell;

		if (health_low(row, place) != name)
			continue;
		cell = row_load(row, place);
		if (cell.low != name)
			continue;
		any = true;
		sum->calls += cell.high & COUNT_MAX;
		sum->failures += cell.high >> COUNT_BITS & COUNT_MAX;
		sum->slow += cell.high >> 2 * COUNT_BITS;
	}
	return any;
}

static uint64_t tally_parts(const struct health_params *params, const struct row *row,
                            const struct health_look *look, uint64_t now_ns,
                            struct health_tally *tally)
{
	uint64_t now_part = health_part(params, now_ns), until_ns = now_ns;
	uint64_t first = sat_sub(now_part, params->parts);

	for (uint64_t part = first; part <= now_part; part++) {
		struct health_tally sum = {0};

		if (health_part_end_ns(params, part) <= now_ns || !add_up(params, row, look, part, &sum))
			continue;
		until_ns = health_part_end_ns(params, part);
		if (!health_has_part(params, part, now_part))
			continue;
		tally->calls += sum.calls;
		tally->failures += sum.failures;
		tally->slow += sum.slow;
	}
	return until_ns - now_ns;
}

static uint64_t block_number(struct cell block)
{
	return block.high >> (64 - BLOCK_NUMBERS);
}

static unsigned block_count(struct cell block)
{
	return block.high >> BLOCK_OUTCOMES & 31;
}

static uint64_t block_next(uint64_t number)
{
	return (number + 1) & ((UINT64_C(1) << BLOCK_NUMBERS) - 1);
}

/* Whether a block is a later one than another. */
static bool is_later(struct cell block, struct cell other)
{
	return ((block_number(block) - block_number(other)) & 1 << (BLOCK_NUMBERS - 1)) == 0;
}

/* The newest block of the window, or -1. */
static int newest_block(const struct health_params *params, const struct row *row, uint64_t name,
                        struct cell *newest)
{
	int found = -1;

	for (unsigned i = 0; i < health_window_cells(params); i++) {
		struct cell block = row_load(row, HEALTH_WINDOW_AT + i);

		if (block.low == name && (found < 0 || is_later(block, *newest))) {
			*newest = block;
			found = (int)i;
		}
	}
	return found;
}

/*
 * The block to add to: the newest, or where that is full the one behind it, which is the newest
 * by now where somebody else has opened it.
 */
static unsigned open_block(const struct health_params *params, const struct row *row, uint64_t name,
                           struct cell *before, struct cell *after)
{
	int newest = newest_block(params, row, name, before);
	uint64_t number = newest < 0 ? 0 : block_next(block_number(*before));
	unsigned place;

	*after = *before;
	if (newest >= 0 && block_count(*before) < HEALTH_BLOCK)
		return HEALTH_WINDOW_AT + (unsigned)newest;
	place = HEALTH_WINDOW_AT + (unsigned)(newest + 1) % health_window_cells(params);
	*before = row_load(row, place);
	*after = before->low == name && block_number(*before) == number
	             ? *before
	             : (struct cell){name, number << (64 - BLOCK_NUMBERS)};
	return place;
}

/* Adds the same result `count` times, as many of them in one swap as a block has room for. */
static void add_to_blocks(const struct health_params *params, const struct row_state *at,
                          const struct health_look *look, struct health_result result,
                          uint64_t count)
{
	uint64_t name = name_of(look, at->row.tag, 0);
	uint64_t outcome = (uint64_t)(result.failed | result.slow << 1);
	struct cell before, after;
	unsigned place;

	while (count > 0) {
		uint64_t left = count;

		place = open_block(params, &at->row, name, &before, &after);
		if (before.low != name && !may_begin(at, look))
			return;
		for (; left > 0 && block_count(after) < HEALTH_BLOCK; left--)
			after.high += (UINT64_C(1) << BLOCK_OUTCOMES) | outcome << 2 * block_count(after);
		if (row_swap(at, place, before, after))
			count = left;
		else if (!row_is_own(at))
			return;
	}
}

/* The last `calls` outcomes, from the newest on. */
static uint64_t tally_blocks(const struct health_params *params, const struct row *row,
                             const struct health_look *look, struct health_tally *tally)
{
	uint64_t name = name_of(look, row->tag, 0);
	struct cell block = {0, 0}, before;
	int place = newest_block(params, row, name, &block);

	while (place >= 0 && tally->calls < params->calls) {
		for (unsigned i = block_count(block); i-- > 0 && tally->calls < params->calls;) {
			unsigned outcome = block.high >> 2 * i & 3;

			tally->calls++;
			tally->failures += outcome & 1;
			tally->slow += outcome >> 1;
		}
		place = (place > 0 ? place : (int)health_window_cells(params)) - 1;
		before = row_load(row, HEALTH_WINDOW_AT + (unsigned)place);
		if (before.low != name || block_next(block_number(before)) != block_number(block))
			break;
		block = before;
	}
	return tally->calls > 0 ? HEALTH_LEAST_NS : 0;
}

void health_row_count_again(const struct algo_limit *limit, const struct row_state *at,
                            const struct health_look *look, struct cell part, uint64_t now_ns)
{
	const struct health_params *params = &limit->health;
	uint64_t number = health_part(params, now_ns), first = sat_sub(number, params->parts);
	struct cell before, after;
	unsigned place;

	while (number > first && name_of(look, at->row.tag, number) != part.low)
		number--;
	if (params->part_ns == 0 || name_of(look, at->row.tag, number) != part.low)
		return;
	place = place_of_part(params, number);
	do {
		before = row_load(&at->row, place);
		after = (struct cell){part.low, part.high + (before.low == part.low ? before.high : 0)};
		if ((after.high & COUNT_MAX) < (part.high & COUNT_MAX))
			return;
	} while (!row_swap(at, place, before, after) && row_is_own(at));
}

void health_row_count(const struct algo_limit *limit, const struct row_state *at,
                      const struct health_look *look, const struct health_ends *ends,
                      uint64_t now_ns)
{
	const struct health_params *params = &limit->health;

	if (params->part_ns == 0) {
		add_to_blocks(params, at, look, ends->result, u64_min(ends->count, params->calls));
	} else if (health_part_end_ns(params, health_part(params, ends->at_ns)) > now_ns) {
		add_part(params, at, look, ends);
	}
}

uint64_t health_row_tally(const struct algo_limit *limit, const struct row *row,
                          const struct health_look *look, uint64_t now_ns,
                          struct health_tally *tally)
{
	*tally = (struct health_tally){0};
	return health_row_add_tally(limit, row, look, now_ns, tally);
}

/* In a mixed row all stripes that other parameters may have counted in. */
__attribute__((noinline, cold)) static uint64_t
tally_mixed(const struct algo_limit *limit, const struct row *row, const struct health_look *look,
            uint64_t now_ns, struct health_tally *tally)
{
	struct health_params stripes = limit->health;

	stripes.max_concurrent = 0;
	return tally_parts(&stripes, row, look, now_ns, tally);
}

uint64_t health_row_add_tally(const struct algo_limit *limit, const struct row *row,
                              const struct health_look *look, uint64_t now_ns,
                              struct health_tally *tally)
{
	if (!row->cells)
		return 0;
	if (limit->health.part_ns == 0)
		return tally_blocks(&limit->health, row, look, tally);
	if (__builtin_expect(look->mixed, 0))
		return tally_mixed(limit, row, look, now_ns, tally);
	return tally_parts(&limit->health, row, look, now_ns, tally);
}
