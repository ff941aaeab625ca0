/*
 * spans4.h: looks IPv4 addresses up in a set of ranges, which is made once, in a read or two of
 * memory.
 *
 * The ranges are sorted and do not touch each other, eight bytes each. The first bits of an address
 * are an index into `starts`, which names the few ranges that may begin there: one or two cache
 * lines. The last range that begins at or before the address contains it, or none does. `starts`
 * takes half a byte or a byte for each range, and is mostly in the cache.
 */
#ifndef RULES_SPANS4_H
#define RULES_SPANS4_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct spans4 {
	uint64_t *items;  /* first address << 32 | last */
	uint32_t *starts; /* of each value of the first bits, and the end of the last */
	unsigned shift;   /* of an address, to these bits */
	size_t count;
	size_t items_size, starts_size; /* bytes */
};

/** Allocates space for up to `most` ranges. Returns 0 or ENOMEM. */
int spans4_open(struct spans4 *spans, size_t most);
void spans4_add(struct spans4 *spans, uint32_t first, uint32_t last);

/* Ranges that overlap become one. Those that only touch: */
enum spans4_touching { SPANS4_APART, SPANS4_JOIN };

/** Call it when all ranges are added: only then are they found. Returns 0 or ENOMEM. */
int spans4_sort(struct spans4 *spans, enum spans4_touching touching);
void spans4_close(struct spans4 *spans);

/** The bytes of memory that it takes. */
static inline size_t spans4_size(const struct spans4 *spans)
{
	return spans->items_size + spans->starts_size;
}

bool spans4_have(const struct spans4 *spans, uint32_t address);

#endif
