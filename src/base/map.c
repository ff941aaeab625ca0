#include "base/map.h"

#include <stdlib.h>
#include <string.h>

#define PLACES_FIRST 16

static uint64_t key_at(const struct map *map, size_t i)
{
	return *(const uint64_t *)(map->places + i * map->stride);
}

void *map_next(const struct map *map, size_t *at)
{
	while (map->places && *at <= map->mask) {
		size_t i = (*at)++;

		if (key_at(map, i) != 0)
			return map->places + i * map->stride;
	}
	return NULL;
}

static bool grow(struct map *map)
{
	struct map grown = *map;
	const void *value;
	size_t at = 0;

	grown.mask = map->places ? 2 * map->mask + 1 : PLACES_FIRST - 1;
	grown.places = calloc(grown.mask + 1, map->stride);
	if (!grown.places)
		return false;
	while ((value = map_next(map, &at)))
		memcpy(map_slot(&grown, *(const uint64_t *)value), value, map->stride);
	free(map->places);
	*map = grown;
	return true;
}

void *map_add(struct map *map, uint64_t key)
{
	void *value = map_find(map, key);

	if (value)
		return value;
	if (map->count >= map->max ||
	    ((!map->places || map->count >= (map->mask + 1) / 4 * 3) && !grow(map)))
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
	if (value && !value->text.data) /* a value that is there keeps its own: the caller's may end */
		value->text = text;
	return value;
}

/*
 * Closes the gap: a value behind it moves into the gap unless it would then stand before its own
 * place. Its old place is the next gap.
 */
void map_remove(struct map *map, void *value)
{
	size_t gap = (size_t)((char *)value - map->places) / map->stride;

	for (size_t i = (gap + 1) & map->mask; key_at(map, i) != 0; i = (i + 1) & map->mask) {
		size_t own = key_at(map, i) & map->mask;

		if (((i - own) & map->mask) < ((i - gap) & map->mask))
			continue;
		memcpy(map->places + gap * map->stride, map->places + i * map->stride, map->stride);
		gap = i;
	}
	memset(map->places + gap * map->stride, 0, map->stride);
	map->count--;
}

void map_free(struct map *map)
{
	free(map->places);
	map->places = NULL;
	map->count = 0;
}
