/*
 * table.c: computes the size of a key table, writes its header, and estimates how many live
 * states it has. The
 * table is a header and an array of sets of cells, in memory that processes may share.
 */
#include "table/table.h"

#include <string.h>

#define SAMPLE_SETS 8192

/*
 * Returns the number of sets for so many keys: 51/40 cells a key. With as many keys as its
 * capacity, 78% of the cells are occupied, and an insertion hardly ever finds all its candidates
 * occupied.
 */
uint64_t table_sets(uint64_t capacity)
{
	uint64_t cells = capacity + capacity / 40 * 11 + capacity % 40;

	return u64_max(1 + TABLE_RUN_SETS, ceil_div(cells, TABLE_SET_CELLS));
}

/* Returns the size in bytes, or 0 if the capacity is not allowed. */
size_t table_size(uint64_t capacity)
{
	if (capacity < 1 || capacity > WEIR_CAPACITY_MAX)
		return 0;
	return sizeof(struct table_header) +
	       table_sets(capacity) * TABLE_SET_CELLS * sizeof(struct cell);
}

uint64_t table_checksum(const void *fixed)
{
	static const struct hash_key key = {UINT64_C(0x7765697220686561), UINT64_C(0x6465722073756d31)};

	return hash_bytes(&key, fixed, TABLE_FIXED);
}

/* Writes the header of a new table, and a copy of its fixed fields, for repairs. */
void table_format(struct table_header *header, const struct table_shape *shape,
                  const struct hash_key *secret)
{
	memcpy(header->magic, TABLE_MAGIC, sizeof header->magic);
	header->byte_order = TABLE_BYTE_ORDER;
	header->version = TABLE_VERSION;
	header->header_size = sizeof *header;
	header->cell_size = sizeof(struct cell);
	header->set_cells = TABLE_SET_CELLS;
	header->is_draining = shape->is_draining;
	header->record_cells = shape->record_cells;
	header->capacity = shape->capacity;
	header->sets = table_sets(shape->capacity);
	header->secret = *secret;
	header->identity = shape->identity;
	header->size = shape->size;
	header->checksum = table_checksum(header);
	memcpy(header->fixed_copy, header, TABLE_FIXED);
	header->checksum_copy = header->checksum;
}

void table_attach(struct table *table, void *memory, uint64_t sets)
{
	struct table_header *header = memory;

	*table = (struct table){
	    .header = header,
	    .cells = (struct cell *)(header + 1),
	    .sets = sets,
	    .load_is_atomic = cell_load_is_atomic(),
	};
}

/* Estimates the number of live states from a sample of the sets. */
uint64_t table_live(const struct table *table, uint64_t now_ns)
{
	uint64_t sample = u64_min(table->sets, SAMPLE_SETS), live = 0;

	for (uint64_t i = 0; i < sample; i++) { /* any sets will do, since the hash spreads the keys */
		struct cell *set = table->cells + i * (table->sets / sample) * TABLE_SET_CELLS;

		for (int j = 0; j < TABLE_SET_CELLS; j++) {
			struct cell cell = cell_load(&set[j], table->load_is_atomic);

			live += !cell_is_empty(cell) && !cell_is_claim(cell) && !cell_is_metadata(cell) &&
			        cell_ahead_ns(cell, now_ns) > 0;
		}
	}
	return (uint64_t)((u128)live * table->sets / sample);
}

uint64_t table_sample_weight(const struct table *table)
{
	return ceil_div(table->sets, u64_min(table->sets, SAMPLE_SETS));
}

uint64_t table_evictions(const struct table *table)
{
	return __atomic_load_n(&table->header->evictions, __ATOMIC_RELAXED);
}
