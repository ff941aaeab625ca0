#include "rows/accepts.h"

#define PASSED_AT 0
#define PARTS_AT  1

#define COUNT_MAX ((UINT64_C(1) << 31) - 1)

#define DEMAND_BITS 21
#define DEMAND_MAX  ((UINT64_C(1) << DEMAND_BITS) - 1)

/* A part's number as a cell has it. */
static uint32_t number_in_cell(const struct accepts_params *params, uint64_t part)
{
	uint64_t lengths = (params->part_ns ^ params->parts) * UINT64_C(0x9e3779b97f4a7c15);

	return (uint32_t)part + (uint32_t)(lengths >> 32);
}

/* How many parts after `part` that of a cell is. */
static int32_t parts_after(const struct accepts_params *params, uint64_t low, uint64_t part)
{
	return (int32_t)((uint32_t)low - number_in_cell(params, part));
}

static bool has_tag(uint64_t low, uint32_t tag)
{
	return (uint32_t)(low >> 32) == tag;
}

static struct accepts_part unpack(struct cell cell)
{
	return (struct accepts_part){cell.high >> 32, cell.high >> 1 & COUNT_MAX, cell.high & 1};
}

static struct cell pack(uint64_t low, struct accepts_part part)
{
	return (struct cell){low, part.requests << 32 | part.accepts << 1 | part.failed};
}

/* The first cell behind the parts, and behind all, of a row that may be another limit's. */
static unsigned parts_end(const struct accepts_params *params, const struct row *row)
{
	return (unsigned)u64_min(PARTS_AT + params->parts, row->width);
}

static unsigned row_end(const struct accepts_params *params, const struct row *row)
{
	return (unsigned)u64_min(accepts_cells(params), row->width);
}

/* The part of a clock that is behind others lies in their time; one further ahead was set back. */
void accepts_row_time(const struct algo_limit *limit, const struct row *row,
                      struct accepts_state *state)
{
	const struct accepts_params *params = &limit->accepts;
	uint64_t part = accepts_part_of(params, state->now_ns);
	int32_t ahead = 0;

	for (unsigned i = PARTS_AT; row->cells && i < parts_end(params, row); i++) {
		uint64_t low = cell_peek_low(&row->cells[i]);
		int32_t after = has_tag(low, row->tag) ? parts_after(params, low, part) : 0;

		if (after > ahead && after < (int32_t)params->parts)
			ahead = after;
	}
	if (ahead > 0)
		state->now_ns = (part + (uint32_t)ahead) * params->part_ns;
	state->newest = part + (uint32_t)ahead;
}

static void look_at_pass(const struct algo_limit *limit, const struct row *row,
                         struct accepts_state *state)
{
	struct cell cell = row_load(row, PASSED_AT);
	int64_t ahead_ns = cell_ahead_ns(cell, state->now_ns);

	if (cell_tag(cell) == row->tag && ahead_ns <= (int64_t)limit->window_ns)
		state->passed_ns = u64_max(state->passed_ns, state->now_ns + (uint64_t)ahead_ns);
}

static void look_at_demand(const struct accepts_params *params, const struct row *row,
                           struct accepts_state *state)
{
	uint64_t slot = accepts_slot_of(params, state->newest);

	for (unsigned i = parts_end(params, row); i < row_end(params, row); i++) {
		struct cell cell = row_load(row, i);
		int32_t after = parts_after(params, cell.low, slot);
		unsigned first = 1 + (i - PARTS_AT - params->parts) % ACCEPTS_DEMAND_CELLS * ACCEPTS_CLASSES;

		if (!has_tag(cell.low, row->tag) || after > 0 || after <= -(int32_t)params->demand_slots)
			continue;
		for (unsigned k = 0; k < ACCEPTS_CLASSES; k++)
			state->demand.calls[first + k] += cell.high >> k * DEMAND_BITS & DEMAND_MAX;
	}
}

void accepts_row_look(const struct algo_limit *limit, const struct row *row,
                      struct accepts_state *state)
{
	const struct accepts_params *params = &limit->accepts;

	if (!row->cells)
		return;
	look_at_pass(limit, row, state);
	look_at_demand(params, row, state);
	for (unsigned i = PARTS_AT; i < parts_end(params, row); i++) {
		struct cell cell = row_load(row, i);
		int32_t after = parts_after(params, cell.low, state->newest);
		struct accepts_part *part, found = unpack(cell);

		if (!has_tag(cell.low, row->tag) || after > 0 || after <= -(int32_t)params->parts)
			continue;
		part = &state->parts[(int32_t)params->parts - 1 + after];
		part->requests += found.requests;
		part->accepts += found.accepts;
		part->failed |= found.failed;
	}
}

struct cell accepts_row_passed(const struct row *row)
{
	return row->cells ? row_load(row, PASSED_AT) : (struct cell){0, 0};
}

bool accepts_row_pass(const struct row_state *at, struct cell before, uint64_t now_ns)
{
	return row_swap(at, PASSED_AT, before, cell_make(at->row.tag, now_ns, 0, 0));
}

/* If a sum would not fit, halves both counts, so that their ratio stays. */
static void add(struct accepts_part *part, struct accepts_part more)
{
	if (part->requests + more.requests > COUNT_MAX || part->accepts + more.accepts > COUNT_MAX) {
		part->requests /= 2;
		part->accepts /= 2;
	}
	part->requests += more.requests;
	part->accepts += more.accepts;
	part->failed |= more.failed;
}

/* The place of a part in a row of its limit's width. */
static unsigned place_of(const struct accepts_params *params, uint64_t part)
{
	return PARTS_AT + (unsigned)(part % params->parts);
}

void accepts_row_add(const struct algo_limit *limit, const struct row_state *at, uint64_t part,
                     struct accepts_part more)
{
	unsigned place = place_of(&limit->accepts, part);
	uint64_t low = (uint64_t)at->row.tag << 32 | number_in_cell(&limit->accepts, part);
	struct accepts_part counts;
	struct cell before;

	do {
		before = row_load(&at->row, place);
		counts = before.low == low ? unpack(before) : (struct accepts_part){0};
		add(&counts, more);
	} while (!row_swap(at, place, before, pack(low, counts)) && row_is_own(at));
}

void accepts_row_demand(const struct algo_limit *limit, const struct row_state *at, uint64_t part,
                        unsigned priority)
{
	const struct accepts_params *params = &limit->accepts;
	uint64_t slot = accepts_slot_of(params, part);
	unsigned shift = (priority - 1) % ACCEPTS_CLASSES * DEMAND_BITS;
	unsigned place = PARTS_AT + params->parts +
	                 (unsigned)(slot % params->demand_slots) * ACCEPTS_DEMAND_CELLS +
	                 (priority - 1) / ACCEPTS_CLASSES;
	uint64_t low = (uint64_t)at->row.tag << 32 | number_in_cell(params, slot);
	struct cell before, after;

	do {
		before = row_load(&at->row, place);
		after = (struct cell){low, before.low == low ? before.high : 0};
		if ((after.high >> shift & DEMAND_MAX) == DEMAND_MAX)
			return;
		after.high += UINT64_C(1) << shift;
	} while (!row_swap(at, place, before, after) && row_is_own(at));
}

uint64_t accepts_row_take(const struct algo_limit *limit, const struct row_state *at, uint64_t part,
                          uint64_t n)
{
	unsigned place = place_of(&limit->accepts, part);
	uint64_t low = (uint64_t)at->row.tag << 32 | number_in_cell(&limit->accepts, part);
	struct accepts_part counts;
	struct cell before;
	uint64_t taken;

	if (place >= at->row.width) /* a former row, of other parameters */
		return 0;
	do {
		before = row_load(&at->row, place);
		counts = before.low == low ? unpack(before) : (struct accepts_part){0};
		taken = u64_min(counts.requests, n);
		counts.requests -= taken;
	} while (taken > 0 && !row_swap(at, place, before, pack(low, counts)) && row_is_own(at));
	return taken;
}

void accepts_row_clear(const struct algo_limit *limit, const struct row_state *at)
{
	for (unsigned i = 0; at->row.cells && i < row_end(&limit->accepts, &at->row); i++) {
		struct cell before;

		do
			before = row_load(&at->row, i);
		while (has_tag(before.low, at->row.tag) && row_is_own(at) &&
		       !cell_swap(&at->row.cells[i], before, (struct cell){0, 0}));
	}
}

/* The end of the state that a request now would leave. */
static uint64_t end_ns(const struct accepts_params *params, uint64_t now_ns)
{
	return u64_max(accepts_end_ns(params, accepts_part_of(params, now_ns)),
	               now_ns + ACCEPTS_PASS_NS);
}

bool accepts_row_fits(const struct algo_limit *limit, struct cell head, uint32_t tag,
                      uint64_t now_ns)
{
	return row_is_kept(head, tag, end_ns(&limit->accepts, now_ns));
}

struct cell accepts_row_head(const struct algo_limit *limit, uint32_t tag, uint64_t now_ns)
{
	const struct accepts_params *params = &limit->accepts;
	uint64_t longer_ns = (params->parts / 2) * params->part_ns;

	return cell_make(tag, end_ns(params, now_ns) + longer_ns, 0, 0);
}
