/* arena.c: allocates from chunks of 16 KiB, which are freed together. */
#include "base/arena.h"

#include <stdalign.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK_SIZE ((size_t)16 << 10)

struct arena_chunk {
	struct arena_chunk *next;
	size_t size, used;
	bool borrowed;
	alignas(max_align_t) unsigned char data[];
};

void *arena_alloc(struct arena *arena, size_t size)
{
	struct arena_chunk *chunk = arena->chunks;
	size_t align = alignof(max_align_t);
	void *memory;

	if (size > SIZE_MAX / 2)
		return NULL;
	size = (size + align - 1) / align * align;
	if (!chunk || chunk->size - chunk->used < size) {
		size_t room = size > CHUNK_SIZE ? size : CHUNK_SIZE;

		chunk = malloc(sizeof *chunk + room);
		if (!chunk)
			return NULL;
		*chunk = (struct arena_chunk){.next = arena->chunks, .size = room};
		arena->chunks = chunk;
	}
	memory = chunk->data + chunk->used;
	chunk->used += size;
	arena->used += size;
	return memset(memory, 0, size);
}

void arena_borrow(struct arena *arena, void *memory, size_t size)
{
	struct arena_chunk *chunk = memory;

	*chunk = (struct arena_chunk){.size = size - sizeof *chunk, .borrowed = true};
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

		if (!chunk->borrowed)
			free(chunk);
		chunk = next;
	}
}

void arena_reset(struct arena *arena)
{
	struct arena_chunk *keep = arena->chunks;

	arena->used = 0;
	if (!keep)
		return;
	free_chunks(keep->next);
	keep->next = NULL;
	if (keep->size > CHUNK_SIZE) {
		free(keep);
		arena->chunks = NULL;
	} else {
		keep->used = 0;
	}
}

void arena_free(struct arena *arena)
{
	free_chunks(arena->chunks);
	*arena = (struct arena){0};
}
