/* count_phases.c: how many keys of a limit are in which phase. */
#include <string.h>

#include "rows/health.h"
#include "store/memory.h"
#include "store/store.h"

/* A larger table is counted by so many sets, spread evenly, as the hash spreads keys. */
#define SETS_MAX UINT64_C(16384)

/* Only a head that is HELD is of a key whose phase is not closed, so hardly any row is read. */
static void count_cell(const struct wide_table *wide, const struct algo_limit *limit,
                       uint64_t index, uint64_t now_ns, uint64_t counts[HEALTH_PHASE_COUNT])
{
	bool whole = wide->table.load_is_atomic;
	struct cell head = cell_load(&wide->table.cells[index], whole);
	unsigned width = wide->section.row_cells;
	struct row row = {wide->rows + index * width, width, cell_tag(head), whole};
	struct health_look look;

	if (cell_is_empty(head) || !cell_is_pinned(head) || cell_ahead_ns(head, now_ns) <= 0)
		return;
	health_row_phase(limit, now_ns, &row, &look);
	counts[look.health.phase]++;
}

static void count_table(const struct wide_table *wide, const struct algo_limit *limit,
                        uint64_t now_ns, uint64_t counts[HEALTH_PHASE_COUNT])
{
	uint64_t sets = wide->table.sets, sample = u64_min(sets, SETS_MAX);
	uint64_t seen[HEALTH_PHASE_COUNT] = {0};

	for (uint64_t i = 0; i < sample; i++)
		for (uint64_t j = 0; j < TABLE_SET_CELLS; j++)
			count_cell(wide, limit, i * (sets / sample) * TABLE_SET_CELLS + j, now_ns, seen);
	for (int phase = 0; phase < HEALTH_PHASE_COUNT; phase++)
		counts[phase] += (uint64_t)((u128)seen[phase] * sets / sample);
}

void store_count_phases(const struct store *store, const struct algo_limit *limit, uint64_t now_ns,
                        uint64_t counts[HEALTH_PHASE_COUNT])
{
	const struct wide_table *wide = memory_wide(memory_of(store), limit->identity);

	memset(counts, 0, HEALTH_PHASE_COUNT * sizeof *counts);
	for (; wide; wide = wide_usable_former(wide))
		count_table(wide, algo_current(limit), now_ns, counts);
	counts[HEALTH_CLOSED] = 0;
}
