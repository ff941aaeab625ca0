/*
 * cell.h: defines a cell, the state of one key in 16 bytes, which is read as a whole and changed by
 * one compare-and-swap. A wider state has a record of such cells besides.
 *
 *     high word   until 60        when the state expires, in nanoseconds modulo 2^60
 *                 generation 4    which parameters of the limit wrote it; or PINNED, ADHOC,
 *                                 METADATA or CLAIM (below)
 *     low word    tag 32          half of the key's hash, never 0
 *                 word 32         further state of the algorithm
 *
 * All zero is empty. The expiry can be read without knowing the algorithm, and an expired cell
 * means the same as an empty one.
 *
 * Atomicity. Every write is a 16-byte compare-and-swap (cmpxchg16b; on arm64 an exclusive pair). It
 * is spelled with __sync, since GCC turns 16-byte __atomic operations into library calls. A load is
 * no compare-and-swap, because it must not dirty the line. On x86-64 it is an aligned 16-byte SSE
 * load, which Intel and AMD guarantee to be atomic on every processor with AVX. On arm64 it is an
 * LDP, which is atomic from LSE2 (Armv8.4) on. Only processors without that guarantee load by a
 * compare-and-swap.
 */
#ifndef BASE_CELL_H
#define BASE_CELL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/number.h"

struct cell {
	_Alignas(16) uint64_t low;
	uint64_t high;
};

_Static_assert(sizeof(struct cell) == 16, "a cell is one compare-and-swap");

#define CELL_UNTIL_BITS  60
#define CELL_GENERATIONS 13 /* 0 to 12; the values from 13 on mark other uses: */
#define CELL_PINNED      13 /* in tables of wide states: not evicted before it expires */
#define CELL_ADHOC       13 /* among one-word states: its parameters came with the request */
#define CELL_METADATA    14 /* a record of the store, such as the parameters of a generation */
#define CELL_CLAIM       15 /* a key that is being inserted: no state yet */

static inline u128 cell_bits(struct cell cell)
{
	return (u128)cell.high << 64 | cell.low;
}

static inline uint32_t cell_tag(struct cell cell)
{
	return (uint32_t)(cell.low >> 32);
}

static inline uint32_t cell_word(struct cell cell)
{
	return (uint32_t)cell.low;
}

static inline unsigned cell_generation(struct cell cell)
{
	return cell.high & 15;
}

static inline bool cell_is_claim(struct cell cell)
{
	return cell_generation(cell) == CELL_CLAIM;
}

static inline bool cell_is_pinned(struct cell cell)
{
	return cell_generation(cell) == CELL_PINNED;
}

static inline bool cell_is_metadata(struct cell cell)
{
	return cell_generation(cell) == CELL_METADATA;
}

static inline bool cell_is_empty(struct cell cell)
{
	return cell.low == 0;
}

/* The time until the cell expires; 0 or negative if it is expired. */
static inline int64_t cell_ahead_ns(struct cell cell, uint64_t now_ns)
{
	return (int64_t)((cell.high & ~UINT64_C(15)) - (now_ns << 4)) >> 4;
}

static inline struct cell cell_make(uint32_t tag, uint64_t until_ns, uint32_t word,
                                    unsigned generation)
{
	return (struct cell){(uint64_t)tag << 32 | word, until_ns << 4 | generation};
}

/* The same cell with another word. */
static inline struct cell cell_with_word(struct cell cell, uint32_t word)
{
	return (struct cell){cell.low >> 32 << 32 | word, cell.high};
}

/* The same cell with another generation. */
static inline struct cell cell_with_generation(struct cell cell, unsigned generation)
{
	return (struct cell){cell.low, (cell.high & ~UINT64_C(15)) | generation};
}

/* Counts accesses in a test that bounds the work of a request; it compiles the callers again. */
#ifdef CELL_COUNTS
void cell_touch(const struct cell *cell);
#else
static inline void cell_touch(const struct cell *cell)
{
	(void)cell;
}
#endif

/* Whether plain 16-byte loads are atomic on this processor. */
bool cell_load_is_atomic(void);

/*
 * The thread sanitizer would replace a 16-byte access by one under a lock of this process, which
 * other processes do not know. Without it, tests run the shipped code, and count grants instead.
 */
#define CELL_NOT_SANITIZED __attribute__((no_sanitize("thread")))

/* Memory order: acquire. */
CELL_NOT_SANITIZED static inline struct cell cell_load(struct cell *cell, bool load_is_atomic)
{
	struct cell value;

	cell_touch(cell);
	if (__builtin_expect(load_is_atomic, 1)) {
#if defined(__x86_64__)
		long long whole __attribute__((vector_size(16)));

		__asm__ volatile("movdqa %3, %2\n\tmovq %2, %0\n\tpextrq $1, %2, %1"
		                 : "=r"(value.low), "=r"(value.high), "=&x"(whole)
		                 : "m"(*cell)
		                 : "memory");
		return value;
#elif defined(__aarch64__)
		__asm__ volatile("ldp %0, %1, %2\n\tdmb ishld"
		                 : "=r"(value.low), "=r"(value.high)
		                 : "Q"(*cell)
		                 : "memory");
		return value;
#endif
	}
	u128 bits = __sync_val_compare_and_swap((u128 *)cell, 0, 0);

	value = (struct cell){(uint64_t)bits, (uint64_t)(bits >> 64)};
	return value;
}

/* Reads the low word alone, relaxed: enough to see which key's cell it is. */
static inline uint64_t cell_peek_low(const struct cell *cell)
{
	cell_touch(cell);
	return __atomic_load_n(&cell->low, __ATOMIC_RELAXED);
}

/*
 * Reads a cell in two loads, acquire. If another thread changes it meanwhile, one half may be older
 * than the other. For readers of thousands of cells that tolerate this.
 */
static inline struct cell cell_peek(const struct cell *cell)
{
	cell_touch(cell);
	return (struct cell){__atomic_load_n(&cell->low, __ATOMIC_ACQUIRE),
	                     __atomic_load_n(&cell->high, __ATOMIC_ACQUIRE)};
}

/* Memory order: acquire and release. Later loads may pass it on arm64 (base/os/fence.h). */
CELL_NOT_SANITIZED static inline bool cell_swap(struct cell *cell, struct cell before, struct cell after)
{
	cell_touch(cell);
#if defined(__x86_64__)
	bool swapped;

	/* The built-in function would pass its operands through memory. */
	__asm__ volatile("lock cmpxchg16b %1"
	                 : "=@ccz"(swapped), "+m"(*cell), "+a"(before.low), "+d"(before.high)
	                 : "b"(after.low), "c"(after.high)
	                 : "memory");
	return swapped;
#else
	return __sync_bool_compare_and_swap((u128 *)cell, cell_bits(before), cell_bits(after));
#endif
}

/**
 * Spins for 2 µs without touching the cell, then prefetches its line for writing.
 *
 * If threads retry at once, the line moves from core to core for each step, which takes several
 * times as long as a step. While one of two threads backs off, the other makes some forty steps on
 * a line that its core owns. Afterwards the first thread owns the line before it loads the cell, so
 * its swap nearly always succeeds, and both threads get through equally often.
 */
__attribute__((noinline, cold)) void cell_back_off(struct cell *cell);

/* For a cell that many threads change at once. If it returns false, load the cell and try again. */
static inline bool cell_swap_or_back_off(struct cell *cell, struct cell before, struct cell after)
{
	bool swapped = cell_swap(cell, before, after);

	if (__builtin_expect(!swapped, 0))
		cell_back_off(cell);
	return swapped;
}

#endif
