/*
 * yardsticks: measures the steps that no decision can avoid on this machine.
 *
 * Prints `name value unit` lines, medians. A figure of the library or of the
 * server is read as a multiple of one of these, so that machines compare.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>

#include "../measure.h"

#define LOOPS  2000000 /* of what stays in the core */
#define READS  1024000 /* of memory, a multiple of BATCH */
#define BATCH  32
#define MEMORY ((size_t)1 << 30) /* far beyond any cache */
#define LINES  (MEMORY / sizeof(struct line))

struct line {
	uint64_t next;
	uint64_t unused[7];
} __attribute__((aligned(64)));

struct bench {
	struct line *lines;
	uint64_t seed;
	uint64_t sink; /* keeps results alive */
};

/* Each measure returns nanoseconds per operation. */

static double clock_read(void *context)
{
	struct bench *bench = context;
	uint64_t start = measure_now_ns();

	for (uint64_t i = 0; i < LOOPS; i++)
		bench->sink += measure_read(CLOCK_MONOTONIC);
	return (double)(measure_now_ns() - start) / LOOPS;
}

static double cas_8(void *context)
{
	struct bench *bench = context;
	uint64_t word = 0, start = measure_now_ns();

	for (uint64_t i = 0; i < LOOPS; i++)
		bench->sink += __sync_bool_compare_and_swap(&word, i, i + 1);
	return (double)(measure_now_ns() - start) / LOOPS;
}

static double cas_16(void *context)
{
	struct bench *bench = context;
	unsigned __int128 word __attribute__((aligned(16))) = 0;
	uint64_t start = measure_now_ns();

	for (uint64_t i = 0; i < LOOPS; i++)
		bench->sink += __sync_bool_compare_and_swap(&word, i, (unsigned __int128)i + 1);
	return (double)(measure_now_ns() - start) / LOOPS;
}

static double dependent_read(void *context)
{
	struct bench *bench = context;
	uint64_t at = measure_draw_below(&bench->seed, LINES), start = measure_now_ns();

	for (uint64_t i = 0; i < READS; i++)
		at = bench->lines[at].next;
	bench->sink += at;
	return (double)(measure_now_ns() - start) / READS;
}

/* Counts one word up: what one grant of a hot key can't do without. */
static void count_up(void *word)
{
	unsigned __int128 *count = word, seen = 0;

	for (uint64_t i = 0; i < LOOPS; i++) {
		unsigned __int128 found;

		while ((found = __sync_val_compare_and_swap(count, seen, seen + 1)) != seen)
			seen = found;
		seen++;
	}
}

/* The cost of one such step for each of two threads that take them on one word. */
static double cas_16_2_threads(void *context)
{
	/* A line of its own. */
	struct {
		unsigned __int128 count;
		uint64_t unused[14];
	} word __attribute__((aligned(128))) = {0, {0}};

	(void)context;
	return (double)measure_beside(count_up, &word.count, &word.count) / LOOPS;
}

static void read_batches(void *context)
{
	struct bench *bench = context;
	uint64_t seed = bench->seed, sum = 0;
	struct line *batch[BATCH];

	for (uint64_t i = 0; i < READS; i += BATCH) {
		for (int j = 0; j < BATCH; j++) {
			batch[j] = &bench->lines[measure_draw_below(&seed, LINES)];
			__builtin_prefetch(batch[j]);
		}
		for (int j = 0; j < BATCH; j++)
			sum += batch[j]->next;
	}
	bench->seed = seed;
	bench->sink += sum;
}

static double prefetched_read(void *context)
{
	struct bench *bench = context;
	uint64_t start = measure_now_ns();

	read_batches(bench);
	return (double)(measure_now_ns() - start) / READS;
}

/* The cost of one read for each of two threads that read at once. */
static double prefetched_read_2_threads(void *context)
{
	struct bench *bench = context;
	struct bench other = *bench;
	uint64_t ns;

	other.seed = measure_draw(&bench->seed);
	ns = measure_beside(read_batches, bench, &other);
	bench->sink += other.sink;
	return (double)ns / READS;
}

/* One cycle through all lines in random order (Sattolo), so that no read is guessed ahead. */
static bool make_cycle(struct bench *bench)
{
	bench->lines = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (bench->lines == MAP_FAILED)
		return false;
	madvise(bench->lines, MEMORY, MADV_HUGEPAGE);
	for (uint64_t i = 0; i < LINES; i++)
		bench->lines[i].next = i;
	for (uint64_t i = LINES - 1; i > 0; i--) {
		uint64_t j = measure_draw_below(&bench->seed, i), next = bench->lines[i].next;

		bench->lines[i].next = bench->lines[j].next;
		bench->lines[j].next = next;
	}
	return true;
}

int main(void)
{
	static const struct {
		const char *name;
		double (*measure)(void *);
	} measures[] = {
	    {"clock_read", clock_read},
	    {"cas_8", cas_8},
	    {"cas_16", cas_16},
	    {"cas_16_2_threads", cas_16_2_threads},
	    {"dependent_read", dependent_read},
	    {"prefetched_read", prefetched_read},
	    {"prefetched_read_2_threads", prefetched_read_2_threads},
	};
	struct bench bench = {.seed = UINT64_C(0x9e3779b97f4a7c15)};

	if (!make_cycle(&bench)) {
		fprintf(stderr, "yardsticks: expected %zu MiB of memory, found less\n", MEMORY >> 20);
		return 1;
	}
	for (size_t i = 0; i < sizeof measures / sizeof *measures; i++)
		measure_print(measures[i].name, measures[i].measure, &bench);
	return bench.sink == 1; /* which it never is */
}
