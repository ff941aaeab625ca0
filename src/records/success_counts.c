/*
 * success_counts.c: counts a key's recent requests, and how many the backend accepted, in the cells
 * of the key's record, for a limit that sheds load by success ratio.
 *
 * The record has the time of the last request that passed, the counts of each *part* of the window,
 * and the *demand*: requests by priority, in slots of time. A slot has several cells for the
 * priorities from 1 on, SUCCESS_CLASSES_PER_CELL in each; requests of the highest, 0, are not
 * counted. A cell's low word is the key's tag and the number of its part or slot, so old ones need
 * no cleaning.
 */
#include "records/success_counts.h"

#define PASSED_AT 0
#define PARTS_AT  1

#define COUNT_MAX ((UINT64_C(1) << 31) - 1)

#define DEMAND_BITS 21
#define DEMAND_MAX  ((UINT64_C(1) << DEMAND_BITS) - 1)

/* The number of a part or slot in a cell. Parts of another length have another offset. */
static uint32_t number_in_cell(const struct success_params *params, uint64_t part)
{
	uint64_t lengths = (params->part_ns ^ params->parts) * UINT64_C(0x9e3779b97f4a7c15);

	return (uint32_t)part + (uint32_t)(lengths >> 32);
}

/* How many parts after `part` the part of a cell is, or how many slots its slot after a slot. */
static int32_t number_after(const struct success_params *params, uint64_t low, uint64_t part)
{
	return (int32_t)((uint32_t)low - number_in_cell(params, part));
}

static bool has_tag(uint64_t low, uint32_t tag)
{
	return (uint32_t)(low >> 32) == tag;
}

static struct success_part unpack_part(struct cell cell)
{
	return (struct success_part){cell.high >> 32, cell.high >> 1 & COUNT_MAX, cell.high & 1};
}

static struct cell pack_part(uint64_t low, struct success_part part)
{
	return (struct cell){low, part.requests << 32 | part.accepts << 1 | part.failed};
}

/* The index behind the parts, and behind all cells, of a record that may be another limit's. */
static unsigned parts_end(const struct success_params *params, const struct record *record)
{
	return (unsigned)u64_min(PARTS_AT + params->parts, record->width);
}

static unsigned record_end(const struct success_params *params, const struct record *record)
{
	return (unsigned)u64_min(success_cells(params), record->width);
}

/*
 * Sets the state's newest part. If another server's clock is ahead of this one and has counted in a
 * later part, moves now_ns on to that part. A part further ahead than the window was written by a
 * clock set back since, and is ignored.
 */
void success_record_advance(const struct algo_limit *limit, const struct record *record,
                            struct success_state *state)
{
	const struct success_params *params = &limit->success;
	uint64_t part = success_part_of(params, state->now_ns);
	int32_t most_ahead = 0;

	for (unsigned i = PARTS_AT; record->cells && i < parts_end(params, record); i++) {
		uint64_t low = cell_peek_low(&record->cells[i]);
		int32_t ahead = has_tag(low, record->tag) ? number_after(params, low, part) : 0;

		if (ahead > most_ahead && ahead < (int32_t)params->parts)
			most_ahead = ahead;
	}
	state->newest = part + (uint32_t)most_ahead;
	if (most_ahead > 0)
		state->now_ns = state->newest * params->part_ns;
}

static void read_last_passed(const struct algo_limit *limit, const struct record *record,
                             struct success_state *state)
{
	struct cell cell = record_load(record, PASSED_AT);
	int64_t ahead_ns = cell_ahead_ns(cell, state->now_ns);

	if (cell_tag(cell) == record->tag && ahead_ns <= (int64_t)limit->window_ns)
		state->passed_ns = u64_max(state->passed_ns, state->now_ns + (uint64_t)ahead_ns);
}

static unsigned index_of_demand_cell(const struct success_params *params, uint64_t slot,
                                     unsigned priority)
{
	return PARTS_AT + params->parts +
	       (unsigned)(slot % params->demand_slots) * SUCCESS_DEMAND_CELLS +
	       (priority - 1) / SUCCESS_CLASSES_PER_CELL;
}

/* The first priority that the demand cell at `index` counts. */
static unsigned first_priority_of_cell(const struct success_params *params, unsigned index)
{
	unsigned cell_of_slot = (index - PARTS_AT - params->parts) % SUCCESS_DEMAND_CELLS;

	return 1 + cell_of_slot * SUCCESS_CLASSES_PER_CELL;
}

/* Adds the requests of each priority in the slots that still count. */
static void read_demand(const struct success_params *params, const struct record *record,
                        struct success_state *state)
{
	uint64_t slot = success_slot_of(params, state->newest);

	for (unsigned i = parts_end(params, record); i < record_end(params, record); i++) {
		struct cell cell = record_load(record, i);
		int32_t after = number_after(params, cell.low, slot);
		unsigned first_priority = first_priority_of_cell(params, i);

		if (!has_tag(cell.low, record->tag) || after > 0 || after <= -(int32_t)params->demand_slots)
			continue;
		for (unsigned k = 0; k < SUCCESS_CLASSES_PER_CELL; k++)
			state->demand.calls[first_priority + k] += cell.high >> k * DEMAND_BITS & DEMAND_MAX;
	}
}

/* Adds the record's counts to the state: parts by how long ago they were. */
void success_record_read(const struct algo_limit *limit, const struct record *record,
                         struct success_state *state)
{
	const struct success_params *params = &limit->success;

	if (!record->cells)
		return;
	read_last_passed(limit, record, state);
	read_demand(params, record, state);
	for (unsigned i = PARTS_AT; i < parts_end(params, record); i++) {
		struct cell cell = record_load(record, i);
		int32_t after = number_after(params, cell.low, state->newest);
		struct success_part *part, found = unpack_part(cell);

		if (!has_tag(cell.low, record->tag) || after > 0 || after <= -(int32_t)params->parts)
			continue;
		part = &state->parts[(int32_t)params->parts - 1 + after];
		part->requests += found.requests;
		part->accepts += found.accepts;
		part->failed |= found.failed;
	}
}

struct cell success_record_passed(const struct record *record)
{
	return record->cells ? record_load(record, PASSED_AT) : (struct cell){0, 0};
}

bool success_record_set_passed(const struct record_state *at, struct cell before, uint64_t now_ns)
{
	return record_swap(at, PASSED_AT, before, cell_make(at->record.tag, now_ns, 0, 0));
}

/* If a count would not fit, halves both, so that their ratio stays. */
static void add_to_part(struct success_part *part, struct success_part more)
{
	if (part->requests + more.requests > COUNT_MAX || part->accepts + more.accepts > COUNT_MAX) {
		part->requests /= 2;
		part->accepts /= 2;
	}
	part->requests += more.requests;
	part->accepts += more.accepts;
	part->failed |= more.failed;
}

/* The index of a part in a record of the limit's own width. */
static unsigned index_of_success_part(const struct success_params *params, uint64_t part)
{
	return PARTS_AT + (unsigned)(part % params->parts);
}

/* Adds `more` to the counts of a part. Gives up if another key takes over the record. */
void success_record_add(const struct algo_limit *limit, const struct record_state *at,
                        uint64_t part, struct success_part more)
{
	unsigned index = index_of_success_part(&limit->success, part);
	uint64_t low = (uint64_t)at->record.tag << 32 | number_in_cell(&limit->success, part);
	struct success_part counts;
	struct cell before;

	do {
		before = record_load(&at->record, index);
		counts = before.low == low ? unpack_part(before) : (struct success_part){0};
		add_to_part(&counts, more);
	} while (!record_swap(at, index, before, pack_part(low, counts)) && record_is_own(at));
}

/* Counts a request of a priority from 1 on in its slot of demand. */
void success_record_demand(const struct algo_limit *limit, const struct record_state *at,
                           uint64_t part, unsigned priority)
{
	const struct success_params *params = &limit->success;
	uint64_t slot = success_slot_of(params, part);
	unsigned shift = (priority - 1) % SUCCESS_CLASSES_PER_CELL * DEMAND_BITS;
	unsigned index = index_of_demand_cell(params, slot, priority);
	uint64_t low = (uint64_t)at->record.tag << 32 | number_in_cell(params, slot);
	struct cell before, after;

	do {
		before = record_load(&at->record, index);
		after = (struct cell){low, before.low == low ? before.high : 0};
		if ((after.high >> shift & DEMAND_MAX) == DEMAND_MAX)
			return;
		after.high += UINT64_C(1) << shift;
	} while (!record_swap(at, index, before, after) && record_is_own(at));
}

/* Takes up to `n` requests off a part. Returns how many. */
uint64_t success_record_refund(const struct algo_limit *limit, const struct record_state *at,
                               uint64_t part, uint64_t n)
{
	unsigned index = index_of_success_part(&limit->success, part);
	uint64_t low = (uint64_t)at->record.tag << 32 | number_in_cell(&limit->success, part);
	struct success_part counts;
	struct cell before;
	uint64_t refunded;

	if (index >= at->record.width) /* a former table's record, of other parameters */
		return 0;
	do {
		before = record_load(&at->record, index);
		counts = before.low == low ? unpack_part(before) : (struct success_part){0};
		refunded = u64_min(counts.requests, n);
		counts.requests -= refunded;
	} while (refunded > 0 && !record_swap(at, index, before, pack_part(low, counts)) &&
	         record_is_own(at));
	return refunded;
}

void success_record_clear(const struct algo_limit *limit, const struct record_state *at)
{
	for (unsigned i = 0; at->record.cells && i < record_end(&limit->success, &at->record); i++) {
		struct cell before;

		do
			before = record_load(&at->record, i);
		while (has_tag(before.low, at->record.tag) && record_is_own(at) &&
		       !cell_swap(&at->record.cells[i], before, (struct cell){0, 0}));
	}
}

/* When the state ends that a request now would leave. */
static uint64_t state_end_ns(const struct success_params *params, uint64_t now_ns)
{
	return u64_max(success_part_leaves_ns(params, success_part_of(params, now_ns)),
	               now_ns + SUCCESS_PASS_NS);
}

bool success_record_header_fits(const struct algo_limit *limit, struct cell header, uint32_t tag,
                                uint64_t now_ns)
{
	return header_retains(header, tag, state_end_ns(&limit->success, now_ns));
}

struct cell success_record_header(const struct algo_limit *limit, uint32_t tag, uint64_t now_ns)
{
	const struct success_params *params = &limit->success;
	uint64_t longer_ns = (params->parts / 2) * params->part_ns;

	return cell_make(tag, state_end_ns(params, now_ns) + longer_ns, 0, 0);
}
