/*
 * arena.h: allocates memory that is freed all at once.
 *
 * For example, one arena serves a rule file while it is read, and one the requests of an iteration.
 */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include <stddef.h>

#include "base/slice.h"

struct arena_chunk;

struct arena {
	struct arena_chunk *chunks; /* newest first */
	size_t used;                /* bytes handed out since the last reset */
};

/**
 * Initializes the arena with `memory`, which is aligned for any type, has at least 64 bytes, and
 * remains the caller's. So a small arena on the stack takes nothing from the heap.
 */
void arena_borrow(struct arena *arena, void *memory, size_t size);

/** Allocates `size` zeroed bytes, aligned for any type. Returns NULL if there is no memory. */
void *arena_alloc(struct arena *arena, size_t size);
/** The same for `n` elements. Returns NULL also if n * size overflows. */
void *arena_array(struct arena *arena, size_t n, size_t size);
/** Copies `text` and appends a NUL. Returns NULL if there is no memory. */
char *arena_copy(struct arena *arena, struct slice text);
/** Frees all allocations, but one chunk remains for the next use. */
void arena_reset(struct arena *arena);
void arena_free(struct arena *arena);

#endif
