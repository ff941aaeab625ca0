/*
 * map.h: values by a number of 64 bits, side by side in one array (open addressing, linear
 * probing).
 *
 * A value is a struct whose first member is its key. 0 marks a free place, so the key 0 is taken
 * for 1. The place of a value is the low bits of its key: use a number that is spread over these
 * bits, such as a hash, and for texts from outside a keyed hash (base/hash.h, base/keyhash.h).
 * Otherwise a client could send many keys that share one place.
 *
 * At most three quarters of the places are taken. Values move when the map grows and when another
 * value is removed, so a pointer to one lasts until then.
 *
 *     struct seen { uint64_t key; unsigned times; };
 *     struct map map = MAP_OF(struct seen, 1000);
 *     struct seen *seen = map_add(&map, hash);
 *
 *     if (seen)
 *         seen->times++;
 */
#ifndef BASE_MAP_H
#define BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"

struct map {
	char *places;      /* NULL before the first value */
	size_t stride;     /* bytes of a value */
	size_t mask;       /* one less than the number of places, which is a power of two */
	size_t count, max; /* of values */
};

/** An empty map of at most `most` values of a type. */
#define MAP_OF(type, most) ((struct map){.stride = sizeof(type), .max = (most)})

static inline uint64_t map_key(uint64_t key)
{
	return key ? key : 1;
}

/** The place of the key's value, or the free one where it belongs. The map has places. */
static inline void *map_slot(const struct map *map, uint64_t key)
{
	size_t i = key & map->mask;

	for (;; i = (i + 1) & map->mask) {
		void *place = map->places + i * map->stride;
		uint64_t found = *(const uint64_t *)place;

		if (found == key || found == 0)
			return place;
	}
}

/** The key's value, or NULL if there is none. */
static inline void *map_find(const struct map *map, uint64_t key)
{
	void *place = map->places ? map_slot(map, map_key(key)) : NULL;

	return place && *(const uint64_t *)place != 0 ? place : NULL;
}

/**
 * The same. If there is none, makes one of zeros behind its key; NULL if out of memory, or full.
 */
void *map_add(struct map *map, uint64_t key);
/** Removes a value of the map. */
void map_remove(struct map *map, void *value);

/**
 * The first value in the places from number *at on, which becomes the number behind it; or NULL.
 * Begin with 0. After map_remove of the value that this returned, go on with the number of its own
 * place.
 */
void *map_next(const struct map *map, size_t *at);

/* The beginning of a value whose key is a text. Such values are never removed but for the newest.
 */
struct map_text {
	uint64_t hash; /* or a number behind it, where another text has the same hash */
	struct slice text;
};

/** The value of that text, whose hash the caller has, or NULL. */
static inline void *map_find_text(const struct map *map, uint64_t hash, struct slice text)
{
	struct map_text *value;

	while ((value = map_find(map, hash)) && !slice_equal(value->text, text))
		hash++;
	return value;
}

/**
 * The same. If there is none, makes one of zeros behind its text, which is not copied; NULL if out
 * of memory, or full.
 */
void *map_add_text(struct map *map, uint64_t hash, struct slice text);

/** Frees the memory: the map is empty again. */
void map_free(struct map *map);

#endif
