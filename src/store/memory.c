#include "store/memory.h"

#include <string.h>

#include "base/error.h"
#include "base/os.h"

#define CAPACITY_DEFAULT 1000000

int memory_open(struct weir_table *store, const struct weir_table_options *options,
                struct weir_error *error)
{
	uint64_t capacity = options && options->capacity ? options->capacity : CAPACITY_DEFAULT;
	size_t size = table_size(capacity);
	struct hash_key secret;
	void *memory;

	if (size == 0)
		return error_set(error, WEIR_ERANGE, "capacity: expected 1 to %llu keys, found %llu",
		                 (unsigned long long)TABLE_CAPACITY_MAX, (unsigned long long)capacity);
	if (options && options->secret)
		memcpy(&secret, options->secret, sizeof secret);
	else if (os_random(&secret, sizeof secret) != WEIR_OK)
		return error_set(error, WEIR_EIO, "the system gives no random bytes");
	memory = os_pages_map(size);
	if (!memory)
		return error_set(error, WEIR_ENOMEM, "capacity: no memory for %llu keys (%zu bytes)",
		                 (unsigned long long)capacity, size);
	table_format(&store->table, memory, capacity, &secret);
	store->clock = clock_start();
	return WEIR_OK;
}

void memory_close(struct weir_table *store)
{
	os_pages_unmap(store->table.header, store->table.size);
}

/* A state that is over equals none, so a cell that says nothing unpacks to none. */
static inline struct algo_state unpack(struct cell cell, uint64_t now_ns)
{
	int64_t ahead = cell_ahead_ns(cell, now_ns);

	if (cell_is_empty(cell) || ahead <= 0 || cell_is_claim(cell))
		return (struct algo_state){0, 0};
	return (struct algo_state){now_ns + (uint64_t)ahead, cell_word(cell)};
}

static inline struct cell pack(uint32_t tag, struct algo_state state, unsigned generation)
{
	if (state.until_ns == 0)
		return (struct cell){0, 0};
	return cell_make(tag, state.until_ns, state.word, generation);
}

void memory_locate(const struct weir_table *store, struct memory_key *key)
{
	struct table_place place = table_place(&store->table, key->hash);
	unsigned hits = table_hits(place.home, place.tag);

	if (hits != 0)
		key->cell = &place.home[__builtin_ctz(hits)];
	else
		table_prefetch_run(&place);
}

/* Where it was seen, if it is still there; else wherever it is. */
static inline struct table_slot find(const struct table *table, const struct table_place *place,
                                     struct cell *seen)
{
	struct table_slot slot = {seen, {0, 0}};

	if (seen) {
		slot.value = cell_load(seen, table->load_is_atomic);
		if (cell_tag(slot.value) == place->tag)
			return slot;
	}
	return table_find(table, place);
}

uint64_t memory_apply(struct weir_table *store, const struct algo_limit *limit,
                      const struct memory_key *key, const struct algo_call *call,
                      const struct algo_time *time, struct algo_outcome *out)
{
	struct table_place place = table_place(&store->table, key->hash);

	limit = algo_current(limit);
	for (;;) {
		struct table_slot slot = find(&store->table, &place, key->cell);
		struct algo_state state = unpack(slot.value, time->now_ns);
		unsigned generation = cell_generation(slot.value);

		if (generation != limit->generation && state.until_ns != 0) {
			/* Written by earlier parameters, or by later ones that took over just now. */
			limit = algo_current(limit);
			if (generation != limit->generation)
				algo_convert(limit, generation, time->now_ns, &state);
		}
		if (!algo_step(limit, call, time, &state, out) ||
		    table_store(&store->table, &place, slot,
		                pack(place.tag, state, limit->generation), time->now_ns))
			return state.until_ns;
	}
}

void memory_apply_cell(struct cell *cell, bool load_is_atomic, const struct algo_limit *limit,
                       const struct algo_call *call, const struct algo_time *time,
                       struct algo_outcome *out)
{
	for (;;) {
		struct cell before = cell_load(cell, load_is_atomic);
		struct algo_state state = unpack(before, time->now_ns);

		if (!algo_step(limit, call, time, &state, out) ||
		    cell_swap(cell, before, pack(1, state, 0)))
			return;
	}
}
