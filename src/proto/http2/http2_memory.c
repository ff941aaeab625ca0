/*
 * http2_memory.c: allocates memory for the library nghttp2 from lists of freed pieces, one list for
 * each size.
 *
 * Many open streams free more pieces than malloc caches, and malloc then merges and splits them
 * again.
 */
#include "proto/http2/http2_memory.h"

#include <stdlib.h>
#include <string.h>

#include "base/number.h"

#if defined __has_feature
#define SANITIZED __has_feature(address_sanitizer)
#elif defined __SANITIZE_ADDRESS__
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

#define STEP_BYTES 64 /* sizes are multiples of this */
#define SIZES      16
/*
 * The bound of `retained`. With the address sanitizer 0, since it detects the use of freed
 * memory only if the memory is really freed.
 */
#define RETAINED_MAX ((size_t)(SANITIZED ? 0 : (128 << 10) / STEP_BYTES))

/* Precedes each piece, and keeps malloc's alignment. */
struct piece {
	_Alignas(16) size_t steps; /* of its size; 0 if no list has that size */
	struct piece *next;        /* in the list of free pieces of this size */
};

static _Thread_local __attribute__((tls_model("initial-exec"))) struct {
	struct piece *free[SIZES + 1];
	size_t retained; /* steps in the lists, plus one for each piece */
} pool;

static void *memory_of(struct piece *piece)
{
	return piece ? piece + 1 : NULL;
}

/* A size is counted in steps; pieces of more than SIZES steps come from malloc alone. */
static void *allocate_piece(size_t size, void *context)
{
	size_t steps = ceil_div(size, STEP_BYTES);
	struct piece *piece;

	(void)context;
	if (steps > SIZES) {
		piece = size < SIZE_MAX - sizeof *piece ? malloc(sizeof *piece + size) : NULL;
		steps = 0;
	} else if (pool.free[steps]) {
		piece = pool.free[steps];
		pool.free[steps] = piece->next;
		pool.retained -= steps + 1;
		return memory_of(piece);
	} else {
		piece = malloc(sizeof *piece + steps * STEP_BYTES);
	}
	if (piece)
		piece->steps = steps;
	return memory_of(piece);
}

static void release_piece(void *memory, void *context)
{
	struct piece *piece = memory ? (struct piece *)memory - 1 : NULL;

	(void)context;
	if (!piece)
		return;
	if (piece->steps == 0 || pool.retained + piece->steps >= RETAINED_MAX) {
		free(piece);
		return;
	}
	piece->next = pool.free[piece->steps];
	pool.free[piece->steps] = piece;
	pool.retained += piece->steps + 1;
}

static void *allocate_zeroed(size_t count, size_t size, void *context)
{
	void *memory =
	    size > 0 && count > SIZE_MAX / size ? NULL : allocate_piece(count * size, context);

	return memory ? memset(memory, 0, count * size) : NULL;
}

/* Does what realloc does. */
static void *resize_piece(void *memory, size_t size, void *context)
{
	struct piece *piece = memory ? (struct piece *)memory - 1 : NULL;
	void *larger;

	if (!piece)
		return allocate_piece(size, context);
	if (piece->steps == 0)
		return size < SIZE_MAX - sizeof *piece ? memory_of(realloc(piece, sizeof *piece + size))
		                                       : NULL;
	if (size <= piece->steps * STEP_BYTES)
		return memory;
	larger = allocate_piece(size, context);
	if (larger) {
		memcpy(larger, memory, piece->steps * STEP_BYTES);
		release_piece(memory, context);
	}
	return larger;
}

nghttp2_mem *http2_memory(void)
{
	static nghttp2_mem memory = {NULL, allocate_piece, release_piece, allocate_zeroed,
	                             resize_piece};

	return &memory;
}
