/*
 * table.h: the key table: bounded, lock-free, free of pointers.
 *
 * A key's hash gives two sets of eight cells and a 32-bit tag; the key lives in
 * one of these sixteen cells or is idle. docs/design/key-table.md says how two
 * threads that meet on a new key end in one cell, and why; in short:
 *
 *   - Whoever finds no cell of its tag claims one (a cell that says nothing),
 *     then looks at all sixteen again.
 *   - A claim becomes a state only by a compare-and-swap of a thread that has
 *     seen no other cell of that tag since the claim was made. Other claims
 *     are removed first, higher addresses giving way to lower ones.
 *   - Every claim is unlike every other, so none is mistaken for an earlier one.
 *
 * All functions may be called from any thread, and from any process that maps
 * the same table.
 */
#ifndef TABLE_TABLE_H
#define TABLE_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"
#include "table/cell.h"

#define TABLE_SET_CELLS 8
#define TABLE_CAPACITY_MAX (UINT64_C(1) << 32)

/* The first bytes of a table's memory, drawn in docs/design/key-table.md. */
struct table_header {
	char magic[8];       /* "WEIRTBL\0" */
	uint32_t byte_order; /* 0x01020304 as written */
	uint32_t version;
	uint32_t header_size, cell_size, set_cells, reserved0;
	uint64_t capacity, sets;
	struct hash_key secret;
	_Alignas(128) uint64_t evictions; /* on a line of its own: written while others read */
	uint8_t reserved[4096 - 128 - sizeof(uint64_t)];
};

_Static_assert(sizeof(struct table_header) == 4096, "the cells start on a page");

struct table {
	struct table_header *header;
	struct cell *cells;
	uint64_t sets;
	size_t size; /* bytes of header and cells */
	struct hash_key secret;
	bool load_is_atomic;
};

/** Bytes that a table of `capacity` keys takes, or 0 when that is out of range. */
size_t table_size(uint64_t capacity);

/** Makes a new table in `memory`: zeroed, table_size() bytes, aligned to a page. */
void table_format(struct table *table, void *memory, uint64_t capacity,
                  const struct hash_key *secret);

/* Where a key can be. */
struct table_place {
	struct cell *sets[2];
	uint32_t tag;
};

/* Where it was found, and as what. cell is NULL when it was not. */
struct table_slot {
	struct cell *cell;
	struct cell value;
};

static inline uint64_t table_scale(uint64_t hash, uint64_t n)
{
	return (uint64_t)(((u128)hash * n) >> 64);
}

/* The tag is the hash's low half; both sets depend on the high half too, or two
 * keys of one tag would always share a set. */
static inline struct table_place table_place(const struct table *table, uint64_t hash)
{
	uint64_t mixed = (hash ^ hash >> 32) * UINT64_C(0x9e3779b97f4a7c15);
	uint64_t first = table_scale(hash, table->sets), second = table_scale(mixed, table->sets);
	uint32_t tag = (uint32_t)hash;

	second = second != first ? second : first + 1 < table->sets ? first + 1 : 0;
	return (struct table_place){{table->cells + first * TABLE_SET_CELLS,
	                             table->cells + second * TABLE_SET_CELLS},
	                            tag ? tag : 1};
}

/** Starts fetching both sets. */
static inline void table_prefetch(const struct table_place *place)
{
	for (int i = 0; i < 2; i++) {
		__builtin_prefetch(place->sets[i]);
		__builtin_prefetch(place->sets[i] + TABLE_SET_CELLS / 2);
	}
}

static inline bool table_find_in(const struct table *table, struct cell *set, uint32_t tag,
                                 struct table_slot *slot)
{
	unsigned hits = 0;

	for (int i = 0; i < TABLE_SET_CELLS; i++)
		hits |= (unsigned)(cell_peek_low(&set[i]) >> 32 == tag) << i;
	while (hits != 0) {
		struct cell *cell = &set[__builtin_ctz(hits)];

		slot->value = cell_load(cell, table->load_is_atomic);
		if (cell_tag(slot->value) == tag) {
			slot->cell = cell;
			return true;
		}
		hits &= hits - 1;
	}
	return false;
}

static inline struct table_slot table_find(const struct table *table,
                                           const struct table_place *place)
{
	struct table_slot slot = {NULL, {0, 0}};

	if (!table_find_in(table, place->sets[0], place->tag, &slot))
		table_find_in(table, place->sets[1], place->tag, &slot);
	return slot;
}

bool table_store_slow(struct table *table, const struct table_place *place, struct table_slot slot,
                      struct cell after, uint64_t now_ns);

/**
 * Puts `after` where `slot` was found, or where there is room when it was not;
 * `after` carries the place's tag, or is empty to forget the key. False when
 * the key has changed meanwhile: find it again, and decide again.
 */
static inline bool table_store(struct table *table, const struct table_place *place,
                               struct table_slot slot, struct cell after, uint64_t now_ns)
{
	if (__builtin_expect(slot.cell != NULL && !cell_is_claim(slot.value), 1))
		return cell_swap(slot.cell, slot.value, after);
	return table_store_slow(table, place, slot, after, now_ns);
}

/** Cells whose state has something to say now; beyond 2^16 cells estimated from a sample. */
uint64_t table_live(const struct table *table, uint64_t now_ns);

/** States that had to make room while they still had something to say. */
uint64_t table_evictions(const struct table *table);

#endif
