/*
 * breaker_window.c: counts the results in a circuit breaker's window, in *parts* of time or in
 * *blocks* of calls, in cells of the key's record.
 *
 * Each result is one swap of one cell. The low word of a cell is its *name*, made of its phase and
 * part, so a call that counts for another part starts the cell anew. The high word is
 *
 *     of a part     slow calls 21 | failures 21 | calls 21
 *     of a block    number 27 | calls 5 | the outcomes of 16 calls, 2 bits each
 *
 * With parts of time the record has several *stripes*, each with a window of its own, so that
 * threads seldom write the same cell; the window is the sum of them all. After a reload of the
 * limit a cell may have an *in-flight entry* (a count of permits) in place of results. The record
 * is called *mixed* then, and only the first stripe's window is sure to have none.
 */
#include "records/breaker_record.h"
#include "records/breaker_cells.h"

#define COUNT_BITS 21
#define COUNT_MAX  ((UINT64_C(1) << COUNT_BITS) - 1)

#define LATER_WINDOWS_MAX 16 /* by which is_later_part() recognizes a stalled call */

#define BLOCK_NUMBERS  27
#define BLOCK_OUTCOMES 32 /* bits */

/* The name of a cell for results of a part in the snapshot's phase. One other in 2^31 is equal. */
static uint64_t name_of_part(const struct breaker_snapshot *snapshot, uint32_t tag, uint64_t number)
{
	uint64_t mixed = (snapshot->state.since_ns ^ number * UINT64_C(0xff51afd7ed558ccd)) *
	                 UINT64_C(0x9e3779b97f4a7c15);

	return (uint64_t)tag << 32 | BREAKER_NAME_BIT | (mixed >> 32);
}

/* The index of a part in the first stripe. */
static unsigned index_of_window_part(const struct breaker_params *params, uint64_t part)
{
	unsigned cells = breaker_window_cells(params);

	return BREAKER_WINDOW_AT +
	       (unsigned)(part - cells * divide_by(part, cells, params->entry_inverse));
}

/*
 * Whether a call may start a cell anew that it has loaded before. It may not if its phase has
 * ended, because the cell may have results of the next phase. If the phase ends after this read,
 * the first call that counts in the next phase changes the cell, and the swap of this call fails.
 */
static bool phase_is_unchanged(const struct record_state *at,
                               const struct breaker_snapshot *snapshot)
{
	struct cell phase = record_load(&at->record, BREAKER_PHASE_AT);

	return cell_bits(phase) == cell_bits(snapshot->phase_cell);
}

/*
 * Whether a name is that of a later part with the same index. A call that has stalled for up to
 * LATER_WINDOWS_MAX windows finds this out here, and erases nothing.
 */
__attribute__((noinline, cold)) static bool is_later_part(const struct breaker_params *params,
                                                          const struct breaker_snapshot *snapshot,
                                                          uint32_t tag, uint64_t part,
                                                          uint64_t name)
{
	for (unsigned i = 0; i < LATER_WINDOWS_MAX; i++) {
		part += breaker_window_cells(params);
		if (name_of_part(snapshot, tag, part) == name)
			return true;
	}
	return false;
}

/*
 * Chooses and loads the cell that counts a part in a stripe. If an in-flight entry has that cell,
 * the part is counted in the first stripe. Returns the cell's index.
 */
static unsigned load_cell_of_part(const struct breaker_params *params, const struct record *record,
                                  uint64_t part, uint64_t name, unsigned stripe, struct cell *cell)
{
	unsigned in_first_stripe = index_of_window_part(params, part);
	unsigned index = in_first_stripe + stripe * breaker_stride(params);

	*cell = record_load(record, index);
	if (cell->low == name || !breaker_is_in_flight(params, *cell, record->tag))
		return index;
	*cell = record_load(record, in_first_stripe);
	return in_first_stripe;
}

/* Counts results in the cell of their part and stripe. */
static void add_to_part(const struct breaker_params *params, const struct record_state *at,
                        const struct breaker_snapshot *snapshot,
                        const struct breaker_results *results)
{
	uint64_t part = breaker_part(params, results->ended_at_ns), count = results->count;
	uint64_t name = name_of_part(snapshot, at->record.tag, part);
	struct cell before, after;
	unsigned index;

	do {
		bool starts_anew;

		index = load_cell_of_part(params, &at->record, part, name, results->stripe, &before);
		starts_anew = before.low != name;
		if (starts_anew && (is_later_part(params, snapshot, at->record.tag, part, before.low) ||
		                    !phase_is_unchanged(at, snapshot)))
			return;
		after = (struct cell){name, starts_anew ? 0 : before.high};
		/* A part with 2^21 calls counts no more: their failure rate is exact enough. */
		if ((after.high & COUNT_MAX) + count > COUNT_MAX)
			return;
		after.high += count | (results->result.failed ? count << COUNT_BITS : 0) |
		              (results->result.slow ? count << 2 * COUNT_BITS : 0);
	} while (!record_swap(at, index, before, after) && record_is_own(at));
}

/*
 * Adds a part of all stripes that the record has to `sum`. Returns false if no stripe has the part.
 * Most cells are ruled out by their low word, before the whole cell is loaded at a higher cost.
 */
static bool add_part_of_stripes(const struct breaker_params *params, const struct record *record,
                                const struct breaker_snapshot *snapshot, uint64_t part,
                                struct breaker_tally *sum)
{
	unsigned index = index_of_window_part(params, part), stripes = breaker_stripes(params);
	unsigned stride = breaker_stride(params);
	uint64_t name = name_of_part(snapshot, record->tag, part);
	bool any = false;

	for (unsigned i = 0; i < stripes && index < record->width; i++, index += stride) {
		struct cell cell;

		if (breaker_low(record, index) != name)
			continue;
		cell = record_load(record, index);
		if (cell.low != name) /* changed since */
			continue;
		any = true;
		sum->calls += cell.high & COUNT_MAX;
		sum->failures += cell.high >> COUNT_BITS & COUNT_MAX;
		sum->slow += cell.high >> 2 * COUNT_BITS;
	}
	return any;
}

/*
 * Adds up the parts in the window. Returns how long the newest result still counts: the record must
 * be stored for so long. With `finished_only` the part of now is stored, but it is in the window
 * only once it is over.
 */
static uint64_t tally_parts(const struct breaker_params *params, const struct record *record,
                            const struct breaker_snapshot *snapshot, uint64_t now_ns,
                            struct breaker_tally *tally)
{
	uint64_t now_part = breaker_part(params, now_ns), until_ns = now_ns;
	uint64_t first = sat_sub(now_part, params->parts);

	for (uint64_t part = first; part <= now_part; part++) {
		struct breaker_tally sum = {0};
		uint64_t counts_until_ns = breaker_part_counts_until_ns(params, part);
		bool is_in_window = breaker_has_part(params, part, now_part);

		if (counts_until_ns <= now_ns || !add_part_of_stripes(params, record, snapshot, part, &sum))
			continue;
		until_ns = counts_until_ns;
		if (!is_in_window)
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

/* Whether a block is later than another. Block numbers wrap. */
static bool block_is_later(struct cell block, struct cell other)
{
	return ((block_number(block) - block_number(other)) & 1 << (BLOCK_NUMBERS - 1)) == 0;
}

/* Finds the newest block of the window. Returns its index in the window, or -1. */
static int find_newest_block(const struct breaker_params *params, const struct record *record,
                             uint64_t name, struct cell *newest)
{
	int found = -1;

	for (unsigned i = 0; i < breaker_window_cells(params); i++) {
		struct cell block = record_load(record, BREAKER_WINDOW_AT + i);

		if (block.low == name && (found < 0 || block_is_later(block, *newest))) {
			*newest = block;
			found = (int)i;
		}
	}
	return found;
}

/*
 * Chooses the block to add to: the newest, or if that is full the next one, which another thread
 * may have opened already. Returns its index. Sets `*before` to the cell as it is, and `*after` to
 * the block to which the caller adds before it swaps the two.
 */
static unsigned choose_block(const struct breaker_params *params, const struct record *record,
                             uint64_t name, struct cell *before, struct cell *after)
{
	int newest = find_newest_block(params, record, name, before);
	uint64_t next_number = newest < 0 ? 0 : block_next(block_number(*before));
	unsigned next_index = BREAKER_WINDOW_AT + (unsigned)(newest + 1) % breaker_window_cells(params);
	bool next_is_open;

	if (newest >= 0 && block_count(*before) < BREAKER_BLOCK) {
		*after = *before;
		return BREAKER_WINDOW_AT + (unsigned)newest;
	}
	*before = record_load(record, next_index);
	next_is_open = before->low == name && block_number(*before) == next_number;
	*after = next_is_open ? *before : (struct cell){name, next_number << (64 - BLOCK_NUMBERS)};
	return next_index;
}

/* Adds the same result `count` times; each swap adds as many as the block has capacity for. */
static void add_to_blocks(const struct breaker_params *params, const struct record_state *at,
                          const struct breaker_snapshot *snapshot, struct breaker_result result,
                          uint64_t count)
{
	uint64_t name = name_of_part(snapshot, at->record.tag, 0);
	uint64_t outcome = (uint64_t)(result.failed | result.slow << 1);
	struct cell before, after;
	unsigned index;

	while (count > 0) {
		uint64_t left = count;

		index = choose_block(params, &at->record, name, &before, &after);
		if (before.low != name && !phase_is_unchanged(at, snapshot))
			return;
		for (; left > 0 && block_count(after) < BREAKER_BLOCK; left--)
			after.high += (UINT64_C(1) << BLOCK_OUTCOMES) | outcome << 2 * block_count(after);
		if (record_swap(at, index, before, after))
			count = left;
		else if (!record_is_own(at))
			return;
	}
}

/*
 * Sums up the last `calls` outcomes, from the newest on. Returns for how long the record must be
 * stored. The cells are a ring: the oldest block ends the loop, because the cell before it has not
 * the number before it.
 */
static uint64_t tally_blocks(const struct breaker_params *params, const struct record *record,
                             const struct breaker_snapshot *snapshot, struct breaker_tally *tally)
{
	uint64_t name = name_of_part(snapshot, record->tag, 0);
	struct cell block = {0, 0}, before;
	int index = find_newest_block(params, record, name, &block);

	while (index >= 0 && tally->calls < params->calls) {
		for (unsigned i = block_count(block); i-- > 0 && tally->calls < params->calls;) {
			unsigned outcome = block.high >> 2 * i & 3;

			tally->calls++;
			tally->failures += outcome & 1;
			tally->slow += outcome >> 1;
		}
		index = (index > 0 ? index : (int)breaker_window_cells(params)) - 1;
		before = record_load(record, BREAKER_WINDOW_AT + (unsigned)index);
		if (before.low != name || block_next(block_number(before)) != block_number(block))
			break;
		block = before;
	}
	return tally->calls > 0 ? BREAKER_RETENTION_MIN_NS : 0;
}

/*
 * Adds the counts of `replaced`, a cell that an in-flight entry replaces, to the same part of the
 * first stripe. A name doesn't reveal its part, so the parts of the window are tried. Blocks are
 * dropped.
 */
void breaker_record_move_counts(const struct algo_limit *limit, const struct record_state *at,
                                const struct breaker_snapshot *snapshot, struct cell replaced,
                                uint64_t now_ns)
{
	const struct breaker_params *params = &limit->breaker;
	uint64_t part, first;
	struct cell before, after;
	unsigned index;

	if (params->part_ns == 0)
		return;
	part = breaker_part(params, now_ns);
	first = sat_sub(part, params->parts);
	while (part > first && name_of_part(snapshot, at->record.tag, part) != replaced.low)
		part--;
	if (name_of_part(snapshot, at->record.tag, part) != replaced.low)
		return;
	index = index_of_window_part(params, part);
	do {
		uint64_t counted;

		before = record_load(&at->record, index);
		counted = before.low == replaced.low ? before.high : 0;
		after = (struct cell){replaced.low, counted + replaced.high};
		if ((counted & COUNT_MAX) + (replaced.high & COUNT_MAX) > COUNT_MAX)
			return; /* a full part counts no more */
	} while (!record_swap(at, index, before, after) && record_is_own(at));
}

/* Counts results of calls in the window of the snapshot's phase. */
void breaker_record_count(const struct algo_limit *limit, const struct record_state *at,
                          const struct breaker_snapshot *snapshot,
                          const struct breaker_results *results, uint64_t now_ns)
{
	const struct breaker_params *params = &limit->breaker;

	if (params->part_ns == 0) {
		add_to_blocks(params, at, snapshot, results->result,
		              u64_min(results->count, params->calls));
	} else if (breaker_part_counts_until_ns(params, breaker_part(params, results->ended_at_ns)) >
	           now_ns) {
		add_to_part(params, at, snapshot, results);
	}
}

uint64_t breaker_record_tally(const struct algo_limit *limit, const struct record *record,
                              const struct breaker_snapshot *snapshot, uint64_t now_ns,
                              struct breaker_tally *tally)
{
	*tally = (struct breaker_tally){0};
	return breaker_record_add_tally(limit, record, snapshot, now_ns, tally);
}

/* Sums up all stripes of a mixed record, in which other parameters may have counted. */
__attribute__((noinline, cold)) static uint64_t
tally_mixed(const struct algo_limit *limit, const struct record *record,
            const struct breaker_snapshot *snapshot, uint64_t now_ns, struct breaker_tally *tally)
{
	struct breaker_params stripes = limit->breaker;

	stripes.max_concurrent = 0;
	return tally_parts(&stripes, record, snapshot, now_ns, tally);
}

uint64_t breaker_record_add_tally(const struct algo_limit *limit, const struct record *record,
                                  const struct breaker_snapshot *snapshot, uint64_t now_ns,
                                  struct breaker_tally *tally)
{
	if (!record->cells)
		return 0;
	if (limit->breaker.part_ns == 0)
		return tally_blocks(&limit->breaker, record, snapshot, tally);
	if (__builtin_expect(snapshot->is_mixed, 0))
		return tally_mixed(limit, record, snapshot, now_ns, tally);
	return tally_parts(&limit->breaker, record, snapshot, now_ns, tally);
}
