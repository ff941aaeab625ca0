/*
 * http2_memory.c: lists of freed pieces by size.
 *
 * The pieces of many open streams are more than malloc keeps at hand, and it then joins and splits
 * them again.
 */
#include "proto/http2/http2_memory.h"

#include <stdlib.h>
#include <string.h>

#if defined __has_feature
#define SANITIZED __has_feature(address_sanitizer)
#elif defined __SANITIZE_ADDRESS__
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

#define STEP_BYTES 64 /* between the sizes */
#define SIZES      16
/*
 * Steps of all pieces kept. The address sanitizer sees the use of freed memory only if it is freed.
 */
#define RETAINED_MAX ((size_t)(SANITIZED ? 0 : (128 << 10) / STEP_BYTES))

/* Before each piece, whose alignment is that of malloc. */
struct piece {
	_Alignas(16) size_t steps; /* of its size; 0 if it is longer than those that are kept */
	struct piece *next;        /* in the list of its size */
};

static _Thread_local __attribute__((tls_model("initial-exec"))) struct {
	struct piece *free[SIZES + 1];
	size_t retained; /* steps of these, where a piece counts one more for itself */
} pool;

static void *of_piece(struct piece *piece)
{
	return piece ? piece + 1 : NULL;
}

static void *take(size_t size, void *context)
{
	size_t steps = (size + STEP_BYTES - 1) / STEP_BYTES;
	struct piece *piece;

	(void)context;
	if (steps > SIZES) {
		piece = size < SIZE_MAX - sizeof *piece ? malloc(sizeof *piece + size) : NULL;
		steps = 0;
	} else if (pool.free[steps]) {
		piece = pool.free[steps];
		pool.free[steps] = piece->next;
		pool.retained -= steps + 1;
		return of_piece(piece);
	} else {
		piece = malloc(sizeof *piece + steps * STEP_BYTES);
	}
	if (piece)
		piece->steps = steps;
	return of_piece(piece);
}

static void give_back(void *memory, void *context)
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

static void *take_zeroed(size_t count, size_t size, void *context)
{
	void *memory = size > 0 && count > SIZE_MAX / size ? NULL : take(count * size, context);

	return memory ? memset(memory, 0, count * size) : NULL;
}

static void *resize(void *memory, size_t size, void *context)
{
	struct piece *piece = memory ? (struct piece *)memory - 1 : NULL;
	void *larger;

	if (!piece)
		return take(size, context);
	if (piece->steps == 0)
		return size < SIZE_MAX - sizeof *piece ? of_piece(realloc(piece, sizeof *piece + size))
		                                       : NULL;
	if (size <= piece->steps * STEP_BYTES)
		return memory;
	larger = take(size, context);
	if (larger) {
		memcpy(larger, memory, piece->steps * STEP_BYTES);
		give_back(memory, context);
	}
	return larger;
}

nghttp2_mem *http2_memory(void)
{
	static nghttp2_mem memory = {NULL, take, give_back, take_zeroed, resize};

	return &memory;
}
