/*
 * acquirer: acquires from a table's file until it is killed, and reports its grants.
 *
 *     acquirer FILE CAPACITY QUOTA KEYS REPORT SEED
 *     acquirer FILE CAPACITY QUOTA KEYS REPORT         only reads the grants that the file has
 *
 * REPORT is a file of this process's own, mapped, so that no report is lost with the process. For
 * each limit and key it has the numbers of requests, answers and grants. It also has the longest
 * processor time between two answers in each epoch, whose number another process increments.
 * Nothing here sleeps, so a process that waits for another uses processor time; one that is not
 * scheduled does not.
 *
 * All acquirers request the same keys at the same time, and always new ones: key `i` from the i /
 * RATE th millisecond on, until WINDOW newer ones are in use.
 */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <weir/weir.h>

#define EPOCHS 256
#define RATE   8
#define WINDOW 256

struct report {
	_Atomic uint64_t start_ns, epoch, answers, gap_ns[EPOCHS];
	struct {
		_Atomic uint32_t asked, answered, granted;
	} keys[];
};

static uint64_t clock_of(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void fail(const char *what)
{
	fprintf(stderr, "acquirer: %s\n", what);
	exit(1);
}

static struct report *map_report(const char *path, size_t keys)
{
	size_t size = sizeof(struct report) + 2 * keys * sizeof(((struct report *)0)->keys[0]);
	int fd = open(path, O_RDWR);
	void *memory;

	if (fd < 0)
		fail("no report");
	memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (memory == MAP_FAILED)
		fail("no report");
	close(fd);
	return memory;
}

static int name_of(char name[24], size_t key)
{
	return snprintf(name, 24, "k%zu", key);
}

static void take(weir_table *table, weir_limit *const limits[2], size_t keys, struct report *report,
                 unsigned seed)
{
	uint64_t last_ns = clock_of(CLOCK_THREAD_CPUTIME_ID);

	for (;;) {
		uint64_t newest = (clock_of(CLOCK_MONOTONIC) - report->start_ns) / 1000000 * RATE;
		size_t key = (newest + (size_t)rand_r(&seed) % WINDOW) % keys;
		unsigned which = (unsigned)rand_r(&seed) % 2;
		size_t place = which * keys + key, epoch = report->epoch % EPOCHS;
		struct weir_decision d;
		uint64_t at_ns;
		char name[24];
		int len = name_of(name, key);

		report->keys[place].asked++;
		if (weir_acquire(table, limits[which], (struct weir_key){name, (size_t)len}, 1, WEIR_NOW,
		                 &d) != WEIR_OK)
			fail("no decision");
		if (d.allowed)
			report->keys[place].granted++;
		report->keys[place].answered++;
		report->answers++;
		at_ns = clock_of(CLOCK_THREAD_CPUTIME_ID);
		if (at_ns - last_ns > report->gap_ns[epoch])
			report->gap_ns[epoch] = at_ns - last_ns;
		last_ns = at_ns;
	}
}

static void look(weir_table *table, weir_limit *const limits[2], size_t keys, struct report *report)
{
	struct weir_table_stats stats;
	struct weir_decision d;
	char name[24];

	weir_table_stats(table, WEIR_NOW, &stats);
	if (stats.evictions > 0)
		fail("keys were evicted: nothing can be compared");
	for (size_t place = 0; place < 2 * keys; place++) {
		int len = name_of(name, place % keys);

		weir_peek(table, limits[place / keys], (struct weir_key){name, (size_t)len}, 1, WEIR_NOW,
		          &d);
		report->keys[place].granted = (uint32_t)(d.quota - d.remaining);
	}
}

int main(int argc, char **argv)
{
	struct weir_table_options options = {0};
	struct weir_limit_options window = {.name = "window",
	                                    .algorithm = WEIR_ALGORITHM_FIXED_WINDOW,
	                                    .rate = {.period = 13, .unit = WEIR_UNIT_WEEK},
	                                    .align = WEIR_ALIGN_FIRST_REQUEST};
	struct weir_limit_options bucket = {.name = "bucket", .rate = {1, 13, WEIR_UNIT_WEEK}};
	struct weir_error error;
	weir_limit *limits[2];
	weir_table *table;
	size_t keys;

	if (argc < 6)
		fail("expected FILE CAPACITY QUOTA KEYS REPORT [SEED]");
	options.path = argv[1];
	options.capacity = strtoull(argv[2], NULL, 10);
	window.rate.count = bucket.burst = strtoull(argv[3], NULL, 10);
	keys = strtoull(argv[4], NULL, 10);
	if (weir_table_open(&options, &table, &error) != WEIR_OK ||
	    weir_limit_open(&window, &limits[0], &error) != WEIR_OK ||
	    weir_limit_open(&bucket, &limits[1], &error) != WEIR_OK)
		fail(error.message);
	if (argc > 6)
		take(table, limits, keys, map_report(argv[5], keys), (unsigned)atoi(argv[6]));
	look(table, limits, keys, map_report(argv[5], keys));
	weir_limit_close(limits[0]);
	weir_limit_close(limits[1]);
	weir_table_close(table);
	return 0;
}
