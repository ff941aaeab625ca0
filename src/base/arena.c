/*
 * arena.c: allocates memory that is freed all at once. An arena hands out parts of larger chunks,
 * and frees only these.
 */
#include "base/arena.h"

#include <stdalign.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK_SIZE ((size_t)16 << 10)

struct arena_chunk {
	struct arena_chunk *next;
	size_t size, used; /* bytes of `data` */
	bool is_borrowed;  /* the memory is the caller's, see arena_borrow */
	alignas(max_align_t) unsigned char data[];
};

/* Makes the arena's newest chunk, with space for at least `size` bytes. NULL without memory. */
static struct arena_chunk *add_chunk(struct arena *arena, size_t size)
{
	size_t chunk_size = size > CHUNK_SIZE ? size : CHUNK_SIZE;
	struct arena_chunk *chunk = malloc(sizeof *chunk + chunk_size);

	if (chunk) {
		*chunk = (struct arena_chunk){.next = arena->chunks, .size = chunk_size};
		arena->chunks = chunk;
	}
	return chunk;
}

void *arena_alloc(struct arena *arena, size_t size)
{
	struct arena_chunk *chunk = arena->chunks;
	size_t align = alignof(max_align_t);
	void *memory;

	if (size > SIZE_MAX / 2)
		return NULL;
	size = (size + align - 1) / align * align;
	if (!chunk || chunk->size - chunk->used < size)
		chunk = add_chunk(arena, size);
	if (!chunk)
		return NULL;
	memory = chunk->data + chunk->used;
	chunk->used += size;
	arena->used += size;
	return memset(memory, 0, size);
}

/* The caller's memory becomes the first chunk. */
void arena_borrow(struct arena *arena, void *memory, size_t size)
{
	struct arena_chunk *chunk = memory;

	*chunk = (struct arena_chunk){.size = size - sizeof *chunk, .is_borrowed = true};
	*arena = (struct arena){.chunks = chunk};
}

void *arena_array(struct arena *arena, size_t n, size_t size)
{
	size_t bytes;

	return __builtin_mul_overflow(n, size, &bytes) ? NULL : arena_alloc(arena, bytes);
}

char *arena_copy(struct arena *arena, struct slice text)
{
	char *copy = arena_alloc(arena, text.len + 1);

	if (copy && text.len > 0)
		memcpy(copy, text.data, text.len);
	return copy;
}

static void free_chunks(struct arena_chunk *chunk)
{
	while (chunk) {
		struct arena_chunk *next = chunk->next;

		if (!chunk->is_borrowed)
			free(chunk);
		chunk = next;
	}
}

/*
 * Keeps the newest chunk for the next use, unless it is unusually large, and frees the others. An
 * arena with borrowed memory is not reset.
 */
void arena_reset(struct arena *arena)
{
	struct arena_chunk *newest = arena->chunks;

	arena->used = 0;
	if (!newest)
		return;
	free_chunks(newest->next);
	newest->next = NULL;
	if (newest->size > CHUNK_SIZE) {
		free(newest);
		arena->chunks = NULL;
	} else {
		newest->used = 0;
	}
}

void arena_free(struct arena *arena)
{
	free_chunks(arena->chunks);
	*arena = (struct arena){0};
}
