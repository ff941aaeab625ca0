/*
 * section.h: where in a store's memory which table is.
 *
 * A store has a table of one-word states and, on pages behind it, one for each
 * width of wide states, with as many rows behind its cells as it has cells. All
 * sizes follow from the store's capacity: wide tables have as many keys as make
 * the same number of row cells, SECTION_KEYS_MIN at least. What is not used
 * takes no memory.
 */
#ifndef STORE_SECTION_H
#define STORE_SECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "algo/wide.h"
#include "table/table.h"

#define SECTION_KEYS_MIN 40

struct section {
	uint64_t capacity;
	size_t offset;
	size_t table_size; /* of header and cells */
	size_t rows_offset;
	size_t end; /* where the next one begins */
};

/** `capacity` is in range; 0 is the width of one-word states. */
struct section section_of(uint64_t capacity, unsigned width);

/** Where the wide states begin, behind those of one word. */
static inline size_t section_wide_offset(uint64_t capacity)
{
	return section_of(capacity, 0).end;
}

/** All of a store. */
static inline size_t section_store_size(uint64_t capacity)
{
	return section_of(capacity, ALGO_WIDTHS - 1).end;
}

/** The header of a width in a new store. */
void section_format(struct table_header *header, uint64_t capacity, unsigned width,
                    const struct hash_key *secret);

/**
 * All that keeps a store from being used: its headers, as far as the first tells where
 * they are, and its size. `size` is at least a header's. Returns the number of defects.
 */
uint64_t section_check(const void *memory, size_t size, table_report *report, void *context);

/**
 * Puts the headers right as far as `size` reaches: the first from its copy, those of the
 * widths from the first, of which all but their counters follow. False when neither the
 * first nor its copy can be trusted.
 */
bool section_repair(void *memory, size_t size);

#endif
