/*
 * map.c: adds, removes and enumerates the values of a hash map. A value is a struct whose first
 * member is its key of 64 bits, or the hash of its text. A key of 0 marks a free slot, so
 * map_stored_key stores 1 in its place. A search begins at the slot that the
 * key's low bits name (its home), and goes on to the next slots.
 */
#include "base/map.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_SLOT_COUNT 16

static uint64_t key_at(const struct map *map, size_t i)
{
	return *(const uint64_t *)(map->slots + i * map->value_size);
}

/* Returns the first value in slot *position or behind it, and sets *position to the slot behind. */
void *map_next(const struct map *map, size_t *position)
{
	while (map->slots && *position <= map->mask) {
		size_t i = (*position)++;

		if (key_at(map, i) != 0)
			return map->slots + i * map->value_size;
	}
	return NULL;
}

/* Moves all values to twice as many slots. Returns false if out of memory. */
static bool grow_map(struct map *map)
{
	struct map grown = *map;
	const void *value;
	size_t position = 0;

	grown.mask = map->slots ? 2 * map->mask + 1 : FIRST_SLOT_COUNT - 1;
	grown.slots = calloc(grown.mask + 1, map->value_size);
	if (!grown.slots)
		return false;
	while ((value = map_next(map, &position)))
		memcpy(map_slot(&grown, *(const uint64_t *)value), value, map->value_size);
	free(map->slots);
	*map = grown;
	return true;
}

/* Returns the key's value, or a new one, or NULL if the map is full or memory is. */
void *map_add(struct map *map, uint64_t key)
{
	void *value = map_find(map, key);
	bool must_grow;

	if (value)
		return value;
	must_grow = !map->slots || map->count >= (map->mask + 1) / 4 * 3;
	if (map->count >= map->max || (must_grow && !grow_map(map)))
		return NULL;
	value = map_slot(map, map_stored_key(key));
	*(uint64_t *)value = map_stored_key(key);
	map->count++;
	return value;
}

/* Returns the value of a text, or a new one. Texts of the same hash get the next free hashes. */
void *map_add_text(struct map *map, uint64_t hash, struct slice text)
{
	struct map_text *value;

	while ((value = map_add(map, hash)) && value->text.data && !slice_equal(value->text, text))
		hash++;
	if (value && !value->text.data) /* it is new */
		value->text = text;
	return value;
}

/*
 * Removes a value and closes the gap: each value behind it moves into the gap, unless the gap is
 * before its home, where its search begins. The slot that a value left is the next gap.
 */
void map_remove(struct map *map, void *value)
{
	size_t gap = (size_t)((char *)value - map->slots) / map->value_size;

	for (size_t i = (gap + 1) & map->mask; key_at(map, i) != 0; i = (i + 1) & map->mask) {
		size_t home = key_at(map, i) & map->mask;
		size_t home_distance = (i - home) & map->mask, gap_distance = (i - gap) & map->mask;

		if (home_distance < gap_distance) /* the gap is before its home */
			continue;
		memcpy(map->slots + gap * map->value_size, map->slots + i * map->value_size,
		       map->value_size);
		gap = i;
	}
	memset(map->slots + gap * map->value_size, 0, map->value_size);
	map->count--;
}

void map_free(struct map *map)
{
	free(map->slots);
	map->slots = NULL;
	map->count = 0;
}
