/* measure.h: gives benchmark programs the time, cheap random numbers and medians. */
#ifndef BENCH_MEASURE_H
#define BENCH_MEASURE_H

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define MEASURE_ROUNDS 5

static inline uint64_t measure_read(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* Time that this thread has run: others on the machine do not count. */
static inline uint64_t measure_now_ns(void)
{
	return measure_read(CLOCK_THREAD_CPUTIME_ID);
}

struct measure_thread {
	void (*run)(void *);
	void *context;
	pthread_barrier_t *start;
	uint64_t ns; /* out: how long it took */
};

static inline void *measure_thread(void *argument)
{
	struct measure_thread *thread = argument;

	pthread_barrier_wait(thread->start);
	thread->ns = measure_now_ns();
	thread->run(thread->context);
	thread->ns = measure_now_ns() - thread->ns;
	return NULL;
}

/*
 * The time that each of two threads takes, on average, for `run(mine)` and `run(others)` at once;
 * 0 when there is no thread.
 */
static inline uint64_t measure_beside(void (*run)(void *), void *mine, void *others)
{
	pthread_barrier_t start;
	struct measure_thread one = {run, mine, &start, 0}, other = {run, others, &start, 0};
	pthread_t thread;

	pthread_barrier_init(&start, NULL, 2);
	if (pthread_create(&thread, NULL, measure_thread, &other) != 0)
		return 0;
	measure_thread(&one);
	pthread_join(thread, NULL);
	pthread_barrier_destroy(&start);
	return (one.ns + other.ns) / 2;
}

/* Memory of this process that is there; 0 when the system does not tell. */
static inline uint64_t measure_resident_bytes(void)
{
	unsigned long pages = 0;
	FILE *statm = fopen("/proc/self/statm", "r");

	if (statm) {
		if (fscanf(statm, "%*u %lu", &pages) != 1)
			pages = 0;
		fclose(statm);
	}
	return (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* xorshift64*: cheap beside a read of memory. */
static inline uint64_t measure_draw(uint64_t *seed)
{
	*seed ^= *seed >> 12;
	*seed ^= *seed << 25;
	*seed ^= *seed >> 27;
	return *seed * UINT64_C(0x2545f4914f6cdd1d);
}

static inline uint64_t measure_draw_below(uint64_t *seed, uint64_t bound)
{
	return (uint64_t)(((unsigned __int128)measure_draw(seed) * bound) >> 64);
}

static inline int measure_ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Sorts them. */
static inline void measure_print_median(const char *name, double ns[MEASURE_ROUNDS])
{
	qsort(ns, MEASURE_ROUNDS, sizeof *ns, measure_ascending);
	printf("%s %.2f ns\n", name, ns[MEASURE_ROUNDS / 2]);
	fflush(stdout);
}

/* Runs `measure`, which returns nanoseconds per operation, and prints the median. */
static inline void measure_print(const char *name, double (*measure)(void *), void *context)
{
	double ns[MEASURE_ROUNDS];

	for (int round = 0; round < MEASURE_ROUNDS; round++)
		ns[round] = measure(context);
	measure_print_median(name, ns);
}

#endif
