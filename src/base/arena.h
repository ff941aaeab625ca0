/*
 * arena.h: allocates memory that is freed all at once.
 *
 * One for a rule file while it is read, one for the requests of a loop turn.
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
 * Begins with `memory`, aligned for any type, of at least 64 bytes, which stays the caller's: a
 * small arena on the stack takes nothing from the heap.
 */
void arena_borrow(struct arena *arena, void *memory, size_t size);

/** `size` bytes, zeroed, aligned for any type; NULL when there is no memory. */
void *arena_alloc(struct arena *arena, size_t size);
/** The same for `n` elements, NULL also when n * size overflows. */
void *arena_array(struct arena *arena, size_t n, size_t size);
/** A copy with a NUL behind it, or NULL. */
char *arena_copy(struct arena *arena, struct slice text);
/** Forgets everything, keeping one chunk for the next use. */
void arena_reset(struct arena *arena);
void arena_free(struct arena *arena);

#endif
