#include "rows/health.h"

#define PHASE_AT  0
#define FLIGHT_AT 1

#define FOR_EVER 1 /* in the generation of a phase */

#define COUNT_BITS 21
#define COUNT_MAX  ((UINT64_C(1) << COUNT_BITS) - 1)

#define BLOCK_NUMBERS  27
#define BLOCK_OUTCOMES 32 /* bits */

#define LEAST_NS NS_PER_DAY /* that a window of calls is kept at least */

/* The phase */

static struct cell pack(const struct health_state *health, uint32_t tag)
{
	uint32_t word = health->phase | health->flying << 3 | health->good << 10 | health->bad << 17 |
	                health->slow << 24;
	bool for_ever = health->since_ns == HEALTH_FOR_EVER;

	return cell_make(tag, for_ever ? 0 : health->since_ns, word, for_ever ? FOR_EVER : 0);
}

static struct health_state unpack(struct cell cell, uint32_t tag, uint64_t now_ns)
{
	uint32_t word = cell_word(cell);
	uint64_t since_ns = now_ns + (uint64_t)cell_ahead_ns(cell, now_ns);

	if (cell_tag(cell) != tag)
		return (struct health_state){.phase = HEALTH_CLOSED};
	return (struct health_state){.phase = word & 7,
	                             .since_ns = cell_generation(cell) == FOR_EVER ? HEALTH_FOR_EVER
	                                                                           : since_ns,
	                             .flying = word >> 3 & 127,
	                             .good = word >> 10 & 127,
	                             .bad = word >> 17 & 127,
	                             .slow = word >> 24 & 127};
}

/* Whether the row is the key's. */
static bool is_own(const struct row_state *at)
{
	return (uint32_t)(cell_peek_low(at->cell) >> 32) == at->row.tag;
}

/* What is not the key's is swapped after a look at the head; what is, only the key changes. */
static bool swap(const struct row_state *at, unsigned place, struct cell before, struct cell after)
{
	return is_own(at) && cell_swap(&at->row.cells[place], before, after);
}

bool health_row_turn(const struct row_state *at, const struct health_look *look,
                     const struct health_state *after)
{
	return swap(at, PHASE_AT, look->phase, pack(after, at->row.tag));
}

/* Flights */

static bool flies(struct cell cell, uint32_t tag)
{
	return cell_tag(cell) == tag && cell_word(cell) > 0;
}

static struct cell flight(uint32_t tag, uint64_t until_ns, uint32_t count)
{
	return cell_make(tag, until_ns, count, 0);
}

void health_row_phase(const struct algo_limit *limit, uint64_t now_ns, const struct row *row,
                      struct health_look *look)
{
	struct health_state kept;

	*look = (struct health_look){.first_ns = UINT64_MAX, .phase = row_load(row, PHASE_AT)};
	kept = unpack(look->phase, row->tag, now_ns);
	look->health = health_at(&limit->health, &kept, now_ns);
}

void health_row_look(const struct algo_limit *limit, uint64_t now_ns, const struct row *row,
                     struct health_look *look)
{
	const struct health_params *params = &limit->health;
	unsigned end = FLIGHT_AT + health_flight_cells(params);
	uint64_t own_ns;

	*look = (struct health_look){.first_ns = UINT64_MAX};
	if (!row->cells)
		return;
	health_row_phase(limit, now_ns, row, look);
	own_ns = look->health.since_ns + params->timeout_ns;
	for (unsigned i = FLIGHT_AT; i < end; i++) {
		struct cell cell = cell_peek(&row->cells[i]);
		int64_t ahead_ns = cell_ahead_ns(cell, now_ns);

		if (!flies(cell, row->tag))
			continue;
		/* Or a clock that was set back since has put it too far ahead. */
		if (ahead_ns <= 0 || ahead_ns > (int64_t)(params->timeout_ns + ALGO_SKEW_NS)) {
			look->overdue = i;
			continue;
		}
		look->in_flight += cell_word(cell);
		look->own += cell_ahead_ns(cell, own_ns) >= 0 ? cell_word(cell) : 0;
		look->first_ns = u64_min(look->first_ns, (uint64_t)ahead_ns);
		look->last_ns = u64_max(look->last_ns, (uint64_t)ahead_ns);
	}
}

/* Where permits of a time are counted together. */
static unsigned part_place(const struct health_params *params, uint64_t start_ns)
{
	return FLIGHT_AT + (unsigned)(start_ns / health_flight_ns(params) % HEALTH_FLIGHT_PARTS);
}

static enum health_taken take_together(const struct health_params *params,
                                       const struct row_state *at, struct health_permit permit,
                                       uint64_t now_ns)
{
	unsigned place = part_place(params, permit.start_ns);
	struct cell before = row_load(&at->row, place);
	uint64_t until_ns = permit.until_ns;
	uint32_t count = 0;

	if (flies(before, at->row.tag)) {
		int64_t more_ns = cell_ahead_ns(before, until_ns);

		if (cell_ahead_ns(before, now_ns) <= 0)
			return HEALTH_AGAIN; /* it has to end first */
		count = cell_word(before);
		until_ns += more_ns > 0 ? (uint64_t)more_ns : 0;
		if (count == UINT32_MAX)
			return HEALTH_FULL;
	}
	return swap(at, place, before, flight(at->row.tag, until_ns, count + 1)) ? HEALTH_TAKEN
	                                                                         : HEALTH_AGAIN;
}

/* The flight from which a permit's is looked for: threads seldom meet there. */
static unsigned first_place(const struct health_params *params, uint64_t until_ns)
{
	uint32_t mixed = (uint32_t)((until_ns * UINT64_C(0x9e3779b97f4a7c15)) >> 32);

	return (unsigned)((uint64_t)mixed * params->max_concurrent >> 32);
}

enum health_taken health_row_take(const struct algo_limit *limit, const struct row_state *at,
                                  struct health_permit permit, uint64_t now_ns)
{
	const struct health_params *params = &limit->health;
	unsigned i = 0;

	if (params->max_concurrent == 0)
		return take_together(params, at, permit, now_ns);
	i = first_place(params, permit.until_ns);
	for (unsigned n = 0; n < params->max_concurrent; n++, i = (i + 1) % params->max_concurrent) {
		struct cell before = row_load(&at->row, FLIGHT_AT + i);

		if (!flies(before, at->row.tag) &&
		    swap(at, FLIGHT_AT + i, before, flight(at->row.tag, permit.until_ns, 1)))
			return HEALTH_TAKEN;
	}
	return HEALTH_FULL;
}

/* The place of the flight that counts it, or 0. */
static unsigned find(const struct algo_limit *limit, const struct row_state *at,
                     struct health_permit permit, struct cell *cell)
{
	const struct health_params *params = &limit->health;
	unsigned i;

	if (params->max_concurrent == 0) {
		i = part_place(params, permit.start_ns);
		*cell = row_load(&at->row, i);
		return flies(*cell, at->row.tag) && cell_ahead_ns(*cell, permit.until_ns) >= 0 ? i : 0;
	}
	i = first_place(params, permit.until_ns);
	for (unsigned n = 0; n < params->max_concurrent; n++, i = (i + 1) % params->max_concurrent) {
		*cell = row_load(&at->row, FLIGHT_AT + i);
		if (flies(*cell, at->row.tag) && cell_ahead_ns(*cell, permit.until_ns) == 0)
			return FLIGHT_AT + i;
	}
	return 0;
}

bool health_row_has(const struct algo_limit *limit, const struct row_state *at,
                    struct health_permit permit)
{
	struct cell cell;

	return find(limit, at, permit, &cell) != 0;
}

bool health_row_give(const struct algo_limit *limit, const struct row_state *at,
                     struct health_permit permit)
{
	struct cell before, after;
	unsigned place;

	do {
		place = find(limit, at, permit, &before);
		if (place == 0)
			return false;
		after = (struct cell){before.low - 1, before.high};
	} while (!cell_swap(&at->row.cells[place], before, after));
	return true;
}

uint64_t health_row_end(const struct row_state *at, unsigned place, uint64_t now_ns,
                        uint64_t *until_ns)
{
	struct cell before = row_load(&at->row, place);
	uint32_t count = cell_word(before);

	*until_ns = now_ns + (uint64_t)cell_ahead_ns(before, now_ns);
	if (!flies(before, at->row.tag) ||
	    !cell_swap(&at->row.cells[place], before, flight(at->row.tag, *until_ns, 0)))
		return 0;
	return count;
}

/* The window */

/* Of what a phase that began then counts. Others are not seen, but for one in 2^32. */
static uint64_t name_of(const struct health_look *look, uint32_t tag, uint64_t number)
{
	uint64_t mixed = (look->health.since_ns ^ number * UINT64_C(0xff51afd7ed558ccd)) *
	                 UINT64_C(0x9e3779b97f4a7c15);

	return (uint64_t)tag << 32 | (mixed >> 32);
}

static unsigned window_at(const struct health_params *params)
{
	return FLIGHT_AT + health_flight_cells(params);
}

static void add_part(const struct health_params *params, const struct row_state *at,
                     const struct health_look *look, const struct health_ends *ends)
{
	uint64_t part = ends->at_ns / params->part_ns, count = ends->count;
	unsigned place = window_at(params) + (unsigned)(part % health_window_cells(params));
	uint64_t name = name_of(look, at->row.tag, part);
	struct cell before, after;

	do {
		before = row_load(&at->row, place);
		after = (struct cell){name, before.low == name ? before.high : 0};
		/* As many tell the share as well as more would. */
		if ((after.high & COUNT_MAX) + count > COUNT_MAX)
			return;
		after.high += count | (ends->result.failed ? count << COUNT_BITS : 0) |
		              (ends->result.slow ? count << 2 * COUNT_BITS : 0);
	} while (!swap(at, place, before, after) && is_own(at));
}

static uint64_t tally_parts(const struct health_params *params, const struct row *row,
                            const struct health_look *look, uint64_t now_ns,
                            struct health_tally *tally)
{
	uint64_t now_part = now_ns / params->part_ns, until_ns = now_ns;
	uint64_t first = sat_sub(now_part, params->parts);

	for (uint64_t part = first; part <= now_part; part++) {
		unsigned place = window_at(params) + (unsigned)(part % health_window_cells(params));
		struct cell cell = row_load(row, place);

		if (cell.low != name_of(look, row->tag, part) ||
		    health_part_end_ns(params, part) <= now_ns)
			continue;
		until_ns = health_part_end_ns(params, part);
		if (!health_has_part(params, part, now_part))
			continue;
		tally->calls += cell.high & COUNT_MAX;
		tally->failures += cell.high >> COUNT_BITS & COUNT_MAX;
		tally->slow += cell.high >> 2 * COUNT_BITS;
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
		struct cell block = row_load(row, window_at(params) + i);

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
		return window_at(params) + (unsigned)newest;
	place = window_at(params) + (unsigned)(newest + 1) % health_window_cells(params);
	*before = row_load(row, place);
	*after = before->low == name && block_number(*before) == number
	             ? *before
	             : (struct cell){name, number << (64 - BLOCK_NUMBERS)};
	return place;
}

static void add_to_block(const struct health_params *params, const struct row_state *at,
                         const struct health_look *look, struct health_result result)
{
	uint64_t name = name_of(look, at->row.tag, 0);
	uint64_t outcome = (uint64_t)(result.failed | result.slow << 1);
	struct cell before, after;
	unsigned place;

	do {
		place = open_block(params, &at->row, name, &before, &after);
		after.high += (UINT64_C(1) << BLOCK_OUTCOMES) | outcome << 2 * block_count(after);
	} while (!swap(at, place, before, after) && is_own(at));
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
		before = row_load(row, window_at(params) + (unsigned)place);
		if (before.low != name || block_next(block_number(before)) != block_number(block))
			break;
		block = before;
	}
	return tally->calls > 0 ? LEAST_NS : 0;
}

void health_row_count(const struct algo_limit *limit, const struct row_state *at,
                      const struct health_look *look, const struct health_ends *ends,
                      uint64_t now_ns)
{
	const struct health_params *params = &limit->health;

	if (params->part_ns == 0) {
		for (uint64_t i = 0; i < u64_min(ends->count, params->calls); i++)
			add_to_block(params, at, look, ends->result);
	} else if (health_part_end_ns(params, ends->at_ns / params->part_ns) > now_ns) {
		add_part(params, at, look, ends);
	}
}

uint64_t health_row_tally(const struct algo_limit *limit, const struct row *row,
                          const struct health_look *look, uint64_t now_ns,
                          struct health_tally *tally)
{
	*tally = (struct health_tally){0};
	if (!row->cells)
		return 0;
	if (limit->health.part_ns == 0)
		return tally_blocks(&limit->health, row, look, tally);
	return tally_parts(&limit->health, row, look, now_ns, tally);
}

/* The head */

/* Closed: permits, and then a window that their ends may be counted in. */
static uint64_t needs_ns(const struct algo_limit *limit, const struct health_state *health,
                         uint64_t now_ns)
{
	const struct health_params *params = &limit->health;
	uint64_t window_ns = params->part_ns ? (params->parts + 2) * params->part_ns : LEAST_NS;

	return u64_max(params->timeout_ns + health_flight_ns(params) + window_ns,
	               u64_min(health_ahead_ns(params, health, now_ns), ALGO_HORIZON_NS / 2));
}

static bool must_be_held(const struct health_state *health)
{
	return health->phase != HEALTH_CLOSED;
}

bool health_row_fits(const struct algo_limit *limit, struct cell head, uint32_t tag,
                     const struct health_state *health, uint64_t now_ns)
{
	return cell_tag(head) == tag && cell_is_held(head) == must_be_held(health) &&
	       cell_ahead_ns(head, now_ns + needs_ns(limit, health, now_ns)) >= 0;
}

struct cell health_row_head(const struct algo_limit *limit, uint32_t tag,
                            const struct health_state *health, uint64_t now_ns)
{
	uint64_t ahead_ns = u64_min(2 * needs_ns(limit, health, now_ns), ALGO_HORIZON_NS);

	return cell_make(tag, now_ns + ahead_ns, 0, must_be_held(health) ? CELL_HELD : 0);
}
