/*
 * spans4.c: looks IPv4 addresses up in a set of ranges, which are sorted and merged. The first bits
 * of an address are its slot; an index says at which range each slot begins.
 */
#include "rules/match/spans4.h"

#include <stdlib.h>

#include <weir/weir.h>

#include "base/os/os.h"

#define SLOT_SPANS 8 /* about so many ranges begin in a slot */
#define BITS_MAX   24

int spans4_open(struct spans4 *spans, size_t most)
{
	*spans = (struct spans4){0};
	if (most == 0)
		return WEIR_OK;
	spans->items_size = most * sizeof *spans->items;
	spans->items = os_pages_map(spans->items_size);
	return spans->items ? WEIR_OK : WEIR_ENOMEM;
}

/* A range is one number: its first address in the high half, its last one in the low half. */
static uint32_t first_of(uint64_t item)
{
	return (uint32_t)(item >> 32);
}

static uint32_t last_of(uint64_t item)
{
	return (uint32_t)item;
}

void spans4_add(struct spans4 *spans, uint32_t first, uint32_t last)
{
	spans->items[spans->count++] = (uint64_t)first << 32 | last;
}

static int compare_ipv4_starts(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* Files are often sorted, and sorting takes memory. */
static bool is_sorted(const struct spans4 *spans)
{
	for (size_t i = 1; i < spans->count; i++)
		if (spans->items[i] < spans->items[i - 1])
			return false;
	return true;
}

/* Merges ranges that overlap, and with `join_touching` also ranges without a gap between. */
static void merge_ipv4_ranges(struct spans4 *spans, bool join_touching)
{
	size_t merged = 0;

	for (size_t i = 0; i < spans->count; i++) {
		uint64_t item = spans->items[i], *before = merged > 0 ? &spans->items[merged - 1] : NULL;

		if (!before || first_of(item) > (uint64_t)last_of(*before) + join_touching)
			spans->items[merged++] = item;
		else if (last_of(item) > last_of(*before))
			*before += last_of(item) - last_of(*before); /* it ends where `item` does */
	}
	spans->count = merged;
}

static size_t slot_of(const struct spans4 *spans, uint32_t address)
{
	return (uint64_t)address >> spans->shift;
}

/* Builds the index: starts[slot] is the first range that begins in the slot or behind it. */
static int build_slot_starts(struct spans4 *spans)
{
	unsigned bits = 0;
	size_t item = 0;

	while (bits < BITS_MAX && (SLOT_SPANS << bits) < (int64_t)spans->count)
		bits++;
	spans->shift = 32 - bits;
	spans->starts_size = (((size_t)1 << bits) + 1) * sizeof *spans->starts;
	spans->starts = os_pages_map(spans->starts_size);
	if (!spans->starts)
		return WEIR_ENOMEM;
	for (size_t slot = 0; slot <= (size_t)1 << bits; slot++) {
		while (item < spans->count && slot_of(spans, first_of(spans->items[item])) < slot)
			item++;
		spans->starts[slot] = (uint32_t)item;
	}
	return WEIR_OK;
}

int spans4_sort(struct spans4 *spans, enum spans4_touching touching)
{
	if (spans->count == 0)
		return WEIR_OK;
	if (!is_sorted(spans))
		qsort(spans->items, spans->count, sizeof *spans->items, compare_ipv4_starts);
	merge_ipv4_ranges(spans, touching == SPANS4_JOIN);
	return build_slot_starts(spans);
}

void spans4_close(struct spans4 *spans)
{
	os_pages_unmap(spans->items, spans->items_size);
	os_pages_unmap(spans->starts, spans->starts_size);
}

/*
 * Whether a range has the address. Only the last range that begins at or before the address can
 * have it; the search moves `behind` just past that range, which may be of an earlier slot. It is a
 * binary search in the slot, without a branch that depends on an address.
 */
bool spans4_have(const struct spans4 *spans, uint32_t address)
{
	size_t slot = slot_of(spans, address);
	const uint64_t *behind = spans->items + spans->starts[slot];
	size_t n = spans->starts[slot + 1] - spans->starts[slot];

	while (n > 0) {
		size_t half = (n + 1) / 2;

		behind += first_of(behind[half - 1]) <= address ? half : 0;
		n -= half;
	}
	return behind > spans->items && last_of(behind[-1]) >= address;
}
