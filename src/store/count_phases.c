/*
 * count_phases.c: counts the keys of a circuit breaker that are in each phase other than closed,
 * for metrics. A key's header is a cell in the limit's table. Its phase is in the record, a row of
 * further cells that the table has for each header. While a phase is not closed, the header is
 * PINNED, so that no other key evicts it.
 */
#include <string.h>

#include "records/breaker_record.h"
#include "store/memory.h"
#include "store/store.h"

/* A larger table is counted by this number of its sets: the hash spreads keys evenly over sets. */
#define SETS_MAX UINT64_C(16384)

/* Counts a key if its header is pinned and has not expired: so hardly any record is read. */
static void count_cell(const struct wide_table *wide, const struct algo_limit *limit,
                       uint64_t index, uint64_t now_ns, uint64_t counts[BREAKER_PHASE_COUNT])
{
	bool load_is_atomic = wide->table.load_is_atomic;
	struct cell header = cell_load(&wide->table.cells[index], load_is_atomic);
	unsigned width = wide->section.record_cells;
	struct record record = {wide->records + index * width, width, cell_tag(header), load_is_atomic};
	bool has_expired = cell_ahead_ns(header, now_ns) <= 0;
	struct breaker_snapshot snapshot;

	if (cell_is_empty(header) || !cell_is_pinned(header) || has_expired)
		return;
	breaker_record_read_phase(limit, now_ns, &record, &snapshot);
	counts[snapshot.state.phase]++;
}

/* Counts a sample of the table's sets, and scales the counts to all of them. */
static void count_table(const struct wide_table *wide, const struct algo_limit *limit,
                        uint64_t now_ns, uint64_t counts[BREAKER_PHASE_COUNT])
{
	uint64_t sets = wide->table.sets, sample = u64_min(sets, SETS_MAX);
	uint64_t sampled[BREAKER_PHASE_COUNT] = {0};

	for (uint64_t i = 0; i < sample; i++)
		for (uint64_t j = 0; j < TABLE_SET_CELLS; j++)
			count_cell(wide, limit, i * (sets / sample) * TABLE_SET_CELLS + j, now_ns, sampled);
	for (int phase = 0; phase < BREAKER_PHASE_COUNT; phase++)
		counts[phase] += (uint64_t)((u128)sampled[phase] * sets / sample);
}

void store_count_phases(const struct store *store, const struct algo_limit *limit, uint64_t now_ns,
                        uint64_t counts[BREAKER_PHASE_COUNT])
{
	const struct wide_table *wide = memory_wide(memory_of(store), limit->identity);

	memset(counts, 0, BREAKER_PHASE_COUNT * sizeof *counts);
	for (; wide; wide = wide_usable_former(wide))
		count_table(wide, algo_current(limit), now_ns, counts);
	counts[BREAKER_CLOSED] = 0;
}
