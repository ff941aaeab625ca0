/*
 * history.c: a note for each generation of a limit, in a cell like a key's.
 *
 *     key      the limit's identity, and the generation
 *     until    years ahead, in its low 32 bits the burst less one (of a paced limit
 *              the low bits of it, which only have to tell parameters apart)
 *     word     the count less one; the period is part of the identity
 *
 * Of two who make the same generation at once, one writes its note, by the protocol
 * of every insertion, and the other finds it. No state reaches as far ahead, but for
 * buckets that take longer than that to fill, so nothing evicts a note.
 */
#include "store/history.h"

#include "store/memory.h"

#define NOTE_NS (UINT64_C(12) * 365 * NS_PER_DAY)

static struct table_place place_of(const struct weir_table *store, const struct algo_limit *limit,
                                   unsigned generation)
{
	uint8_t key = (uint8_t)generation;

	/* The identity of no limit: that of this one under another name. */
	return table_place(&store->table, memory_hash(store, ~limit->identity, &key, sizeof key));
}

static struct cell note_make(const struct table_place *place, const struct bucket_params *params,
                             uint64_t now_ns)
{
	uint64_t until_ns = ((now_ns + NOTE_NS) >> 32 << 32) | (uint32_t)(params->burst - 1);

	return cell_make(place->tag, until_ns, (uint32_t)(params->count - 1), CELL_NOTE);
}

static uint64_t note_count(struct cell note)
{
	return (uint64_t)cell_word(note) + 1;
}

static bool note_has_burst(struct cell note, uint64_t burst)
{
	return (uint32_t)(note.high >> 4) == (uint32_t)(burst - 1);
}

/* In the order of preference: our own, none, the oldest. */
static int64_t preference(const struct table_slot *slot, const struct bucket_params *params,
                          uint64_t now_ns)
{
	if (!slot->cell || !cell_is_note(slot->value))
		return INT64_MIN + 1;
	if (note_count(slot->value) == params->count && note_has_burst(slot->value, params->burst))
		return INT64_MIN;
	return cell_ahead_ns(slot->value, now_ns);
}

static bool join(struct weir_table *store, struct algo_limit *limit, uint64_t now_ns)
{
	struct table_place place, best_place = {0};
	struct table_slot slot, best = {0};
	int64_t least = INT64_MAX;

	for (unsigned i = 0; i < CELL_GENERATIONS; i++) {
		place = place_of(store, limit, i);
		slot = table_find(&store->table, &place);
		if (preference(&slot, &limit->bucket, now_ns) >= least)
			continue;
		least = preference(&slot, &limit->bucket, now_ns);
		best = slot;
		best_place = place;
		limit->generation = i;
	}
	return table_store(&store->table, &best_place, best,
	                   note_make(&best_place, &limit->bucket, now_ns), now_ns, NULL) ||
	       (!best.cell && table_is_full(&store->table, &best_place, now_ns)); /* no room */
}

void history_join(struct weir_table *store, struct algo_limit *limit)
{
	while (algo_is_bucket(limit) && !join(store, limit, clock_now(&store->clock)))
		;
}

void history_convert(const struct weir_table *store, const struct algo_limit *limit,
                     unsigned generation, uint64_t now_ns, struct algo_state *state)
{
	struct table_place place = place_of(store, limit, generation);
	struct table_slot slot = table_find(&store->table, &place);
	struct bucket_params from;
	struct bucket_shape token = {1, 0, 0}; /* whatever it was: use is counted in tokens */
	bool known = slot.cell && cell_is_note(slot.value);

	if (!algo_is_bucket(limit))
		return;
	if (known)
		bucket_init(&from, note_count(slot.value), limit->period_ns, &token);
	bucket_convert(known ? &from : NULL, &limit->bucket, now_ns, state);
}
