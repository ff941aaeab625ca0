/*
 * map.h: implements a hash map from numbers of 64 bits to structs, by open addressing with linear
 * probing.
 *
 * A value is a struct whose first member is its key. A key of 0 marks a free slot, so 0 is replaced
 * by 1. The low bits of the key choose the slot, so use keys whose low bits are spread evenly, such
 * as hashes. For texts from outside use a keyed hash (base/hash.h, base/keyhash.h), so that clients
 * can't send many keys of one slot.
 *
 * At most three quarters of the slots are occupied. Values move when the map grows and when another
 * value is removed, so a pointer to a value is valid until then.
 *
 *     struct tally { uint64_t key; unsigned times; };
 *     struct map map = MAP_OF(struct tally, 1000);
 *     struct tally *tally = map_add(&map, hash);
 *
 *     if (tally)
 *         tally->times++;
 */
#ifndef BASE_MAP_H
#define BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"

struct map {
	char *slots;       /* NULL before the first value */
	size_t value_size; /* bytes of a value */
	size_t mask;       /* the number of slots, which is a power of two, less one */
	size_t count, max; /* of values */
};

/** An empty map of at most `most` values of a type. */
#define MAP_OF(type, most) ((struct map){.value_size = sizeof(type), .max = (most)})

/* As the key is stored: 0 marks a free slot. */
static inline uint64_t map_stored_key(uint64_t key)
{
	return key ? key : 1;
}

/** The slot of the key's value, or the free slot where it belongs. The map has slots. */
static inline void *map_slot(const struct map *map, uint64_t key)
{
	size_t i = key & map->mask;

	for (;; i = (i + 1) & map->mask) {
		void *slot = map->slots + i * map->value_size;
		uint64_t found = *(const uint64_t *)slot;

		if (found == key || found == 0)
			return slot;
	}
}

/** The key's value, or NULL if there is none. */
static inline void *map_find(const struct map *map, uint64_t key)
{
	void *slot = map->slots ? map_slot(map, map_stored_key(key)) : NULL;

	return slot && *(const uint64_t *)slot != 0 ? slot : NULL;
}

/**
 * Returns the key's value. If there is none, adds one that is zero but for its key. Returns NULL if
 * out of memory, or if the map is full.
 */
void *map_add(struct map *map, uint64_t key);
/** Removes a value of the map. */
void map_remove(struct map *map, void *value);

/**
 * Enumerates the values. Returns the first one in slot *at or behind it, and sets *at to the slot
 * behind that; or returns NULL. Begin with *at = 0. After map_remove of the value that was
 * returned, decrease *at by one, since another value may have moved into its slot.
 */
void *map_next(const struct map *map, size_t *at);

/* The first member of a value whose key is a text. Only the value added last may be removed. */
struct map_text {
	uint64_t hash; /* larger by 1 or more if other texts have the same hash */
	struct slice text;
};

/** The value of a text, whose hash is given, or NULL. */
static inline void *map_find_text(const struct map *map, uint64_t hash, struct slice text)
{
	struct map_text *value;

	while ((value = map_find(map, hash)) && !slice_equal(value->text, text))
		hash++;
	return value;
}

/**
 * Returns the value of a text. If there is none, adds one that is zero but for its hash and text,
 * which is not copied. Returns NULL if out of memory, or if the map is full.
 */
void *map_add_text(struct map *map, uint64_t hash, struct slice text);

/** Frees the memory. The map is empty afterwards. */
void map_free(struct map *map);

#endif
