/*
 * history.c: a note for each generation of a limit, in a cell like a key's.
 *
 *     key      the limit's identity, and the generation
 *     until    years ahead, in its low 32 bits the second number of struct algo_note
 *     word     its first number; the period is part of the identity
 *
 * Of two who make the same generation at once, one writes its note, by the protocol
 * of every insertion, and the other finds it. No state reaches as far ahead, but for
 * buckets that take longer than that to fill, so nothing evicts a note.
 */
#include "store/history.h"

#include "store/memory.h"

#define NOTE_NS (UINT64_C(12) * 365 * NS_PER_DAY)

static struct table_spot spot_of(const struct memory *store, const struct algo_limit *limit,
                                   unsigned generation)
{
	uint8_t key = (uint8_t)generation;

	/* The identity of no limit: that of this one under another name. */
	return table_spot(&store->table, memory_hash(store, ~limit->identity, &key, sizeof key));
}

static struct cell note_make(const struct table_spot *spot, const struct algo_note *note,
                             uint64_t now_ns)
{
	uint64_t until_ns = ((now_ns + NOTE_NS) >> 32 << 32) | note->second;

	return cell_make(spot->tag, until_ns, note->first, CELL_NOTE);
}

static struct algo_note note_of(struct cell cell)
{
	return (struct algo_note){cell_word(cell), (uint32_t)(cell.high >> 4)};
}

/* In the order of preference: our own, none, the oldest. */
static int64_t preference(const struct table_slot *slot, const struct algo_note *note,
                          uint64_t now_ns)
{
	struct algo_note found;

	if (!slot->cell || !cell_is_note(slot->value))
		return INT64_MIN + 1;
	found = note_of(slot->value);
	if (found.first == note->first && found.second == note->second)
		return INT64_MIN;
	return cell_ahead_ns(slot->value, now_ns);
}

static bool is_in(const struct table *table, const struct cell *cell)
{
	return cell >= table->cells && cell < table->cells + table->sets * TABLE_SET_CELLS;
}

static bool join(struct memory *store, struct algo_limit *limit, uint64_t now_ns)
{
	struct algo_note note = limit->algorithm->note(limit);
	struct table_spot spot, best_spot = {0};
	struct table_slot slot, best = {0}, former = {0};
	int64_t least = INT64_MAX;
	bool done;

	for (unsigned i = 0; i < CELL_GENERATIONS; i++) {
		spot = spot_of(store, limit, i);
		slot = memory_find_all(store, &spot, NULL, now_ns);
		if (preference(&slot, &note, now_ns) >= least)
			continue;
		least = preference(&slot, &note, now_ns);
		best = slot;
		best_spot = spot;
		limit->generation = i;
	}
	if (best.cell && !is_in(&store->table, best.cell)) {
		/* Others will want it when the former table is gone. */
		former = best;
		best = (struct table_slot){NULL, {0, 0}};
	}
	done = table_store(&store->table, &best_spot, best, note_make(&best_spot, &note, now_ns),
	                   now_ns, NULL);
	if (done && former.cell)
		cell_swap(former.cell, former.value, (struct cell){0, 0});
	return done || (!best.cell && table_is_full(&store->table, &best_spot, now_ns)); /* no room */
}

void store_join(struct store *store, struct algo_limit *limit)
{
	struct memory *memory = memory_of(store);

	while (limit->algorithm->note && !join(memory, limit, clock_now(&memory->clock)))
		;
}

void history_convert(const struct memory *store, const struct algo_limit *limit,
                     unsigned generation, uint64_t now_ns, struct algo_state *state)
{
	struct table_spot spot = spot_of(store, limit, generation);
	struct table_slot slot = memory_find_all(store, &spot, NULL, now_ns);
	bool known = slot.cell && cell_is_note(slot.value);
	struct algo_note from = note_of(slot.value);

	if (limit->algorithm->convert)
		limit->algorithm->convert(limit, known ? &from : NULL, now_ns, state);
}
