/* map.c: adds, removes and enumerates the values of a hash map. */
#include "base/map.h"

#include <stdlib.h>
#include <string.h>

#define SLOTS_FIRST 16

static uint64_t key_at(const struct map *map, size_t i)
{
	return *(const uint64_t *)(map->slots + i * map->stride);
}

void *map_next(const struct map *map, size_t *at)
{
	while (map->slots && *at <= map->mask) {
		size_t i = (*at)++;

		if (key_at(map, i) != 0)
			return map->slots + i * map->stride;
	}
	return NULL;
}

static bool grow(struct map *map)
{
	struct map grown = *map;
	const void *value;
	size_t at = 0;

	grown.mask = map->slots ? 2 * map->mask + 1 : SLOTS_FIRST - 1;
	grown.slots = calloc(grown.mask + 1, map->stride);
	if (!grown.slots)
		return false;
	while ((value = map_next(map, &at)))
		memcpy(map_slot(&grown, *(const uint64_t *)value), value, map->stride);
	free(map->slots);
	*map = grown;
	return true;
}

void *map_add(struct map *map, uint64_t key)
{
	void *value = map_find(map, key);

	if (value)
		return value;
	if (map->count >= map->max ||
	    ((!map->slots || map->count >= (map->mask + 1) / 4 * 3) && !grow(map)))
		return NULL;
	value = map_slot(map, map_key(key));
	*(uint64_t *)value = map_key(key);
	map->count++;
	return value;
}

void *map_add_text(struct map *map, uint64_t hash, struct slice text)
{
	struct map_text *value;

	while ((value = map_add(map, hash)) && value->text.data && !slice_equal(value->text, text))
		hash++;
	if (value &&
	    !value->text.data) /* an older value keeps its text, which lives as long as it does */
		value->text = text;
	return value;
}

/*
 * Removes a value and closes the gap: each value behind it moves into the gap, unless it would then
 * stand before the slot where its search begins. The slot that it left is the next gap.
 */
void map_remove(struct map *map, void *value)
{
	size_t gap = (size_t)((char *)value - map->slots) / map->stride;

	for (size_t i = (gap + 1) & map->mask; key_at(map, i) != 0; i = (i + 1) & map->mask) {
		size_t own = key_at(map, i) & map->mask;

		if (((i - own) & map->mask) < ((i - gap) & map->mask))
			continue;
		memcpy(map->slots + gap * map->stride, map->slots + i * map->stride, map->stride);
		gap = i;
	}
	memset(map->slots + gap * map->stride, 0, map->stride);
	map->count--;
}

void map_free(struct map *map)
{
	free(map->slots);
	map->slots = NULL;
	map->count = 0;
}
