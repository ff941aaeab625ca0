/*
 * library: measures a decision through the public interface of libweir.
 *
 * Prints `name value unit` lines, medians. Keys are 20 bytes, drawn at random,
 * made in registers so that fetching them is not measured. With --permits only permits and
 * their reports.
 */
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include <weir/limiter.h>

#include "measure.h"

#define BATCH 32

struct bench {
	weir_limiter *limiter;
	weir_table *table;
	weir_limit *limit, *hot;
	uint64_t keys, operations, seed, now_ns, allowed;
	bool refunds; /* permits are given back so */
};

struct key {
	char bytes[20];
};

static const struct key any_key = {"account:        :id"};

/* Stored as the hash will load it: a load that spans two stores waits for all before it. */
static inline void key_number(struct key *key, uint64_t number)
{
	memcpy(key->bytes + 8, &number, sizeof number);
}

static double per_operation(const struct bench *bench, uint64_t start_ns)
{
	return (double)(measure_now_ns() - start_ns) / (double)bench->operations;
}

static double limiter_own_clock(void *context)
{
	struct bench *bench = context;
	uint64_t start = measure_now_ns();
	struct weir_decision d;

	for (uint64_t i = 0; i < bench->operations; i++) {
		weir_limiter_acquire(bench->limiter, 1, WEIR_NOW, &d);
		bench->allowed += d.allowed;
	}
	return per_operation(bench, start);
}

static void limiter(void *context)
{
	struct bench *bench = context;
	struct weir_decision d;

	for (uint64_t i = 0; i < bench->operations; i++) {
		weir_limiter_acquire(bench->limiter, 1, bench->now_ns++, &d);
		bench->allowed += d.allowed;
	}
}

static double limiter_given_time(void *context)
{
	uint64_t start = measure_now_ns();

	limiter(context);
	return per_operation(context, start);
}

static double keyed(struct bench *bench, bool own_clock)
{
	uint64_t start = measure_now_ns();
	struct key key = any_key;
	struct weir_decision d;

	for (uint64_t i = 0; i < bench->operations; i++) {
		key_number(&key, measure_draw_below(&bench->seed, bench->keys));
		weir_acquire(bench->table, bench->limit, (struct weir_key){&key, sizeof key}, 1,
		             own_clock ? WEIR_NOW : bench->now_ns++, &d);
		bench->allowed += d.allowed;
	}
	return per_operation(bench, start);
}

static double keyed_given_time(void *context)
{
	return keyed(context, false);
}

static double keyed_own_clock(void *context)
{
	return keyed(context, true);
}

static void batches(void *context)
{
	struct bench *bench = context;
	struct weir_request requests[BATCH];
	struct weir_decision d[BATCH];
	struct key keys[BATCH];

	for (int j = 0; j < BATCH; j++)
		keys[j] = any_key;
	for (uint64_t i = 0; i < bench->operations; i += BATCH) {
		for (int j = 0; j < BATCH; j++) {
			key_number(&keys[j], measure_draw_below(&bench->seed, bench->keys));
			requests[j] =
			    (struct weir_request){bench->limit, {&keys[j], sizeof keys[j]}, 1, WEIR_OK};
		}
		weir_acquire_batch(bench->table, requests, BATCH, bench->now_ns++, d);
		bench->allowed += d[0].allowed;
	}
}

static double keyed_batch(void *context)
{
	uint64_t start = measure_now_ns();

	batches(context);
	return per_operation(context, start);
}

/* The cost of `run` for each of two threads on one table. */
static double beside(struct bench *bench, void (*run)(void *))
{
	struct bench other = *bench;

	other.seed = measure_draw(&bench->seed);
	return (double)measure_beside(run, bench, &other) / (double)bench->operations;
}

static double limiter_2_threads(void *context)
{
	return beside(context, limiter);
}

static double keyed_batch_2_threads(void *context)
{
	return beside(context, batches);
}

/* One key, time standing still: all granted, or all denied, as the limit is. */
static void hot_key(void *context)
{
	struct bench *bench = context;
	uint64_t allowed = 0;
	struct weir_decision d;

	for (uint64_t i = 0; i < bench->operations; i++) {
		weir_acquire(bench->table, bench->hot, (struct weir_key){&any_key, sizeof any_key}, 1,
		             bench->now_ns, &d);
		allowed += d.allowed;
	}
	bench->allowed += allowed;
}

static double hot_key_1_thread(void *context)
{
	uint64_t start = measure_now_ns();

	hot_key(context);
	return per_operation(context, start);
}

static double hot_key_2_threads(void *context)
{
	return beside(context, hot_key);
}

/*
 * A permit and its report, or of a limit that learns nothing by reports its refund. Time is given,
 * or it is the library's own: then a permit and its report read a clock each.
 */
static inline void permits(struct bench *bench, bool own_clock)
{
	struct weir_decision d;
	struct weir_permit permit;

	for (uint64_t i = 0; i < bench->operations; i++) {
		uint64_t now_ns = own_clock ? WEIR_NOW : bench->now_ns++;

		weir_limiter_ask(bench->limiter, &(struct weir_ask){.now_ns = now_ns, .permit = &permit},
		                 &d);
		bench->allowed += d.allowed;
		if (bench->refunds)
			weir_limiter_refund_permit(bench->limiter, &permit, now_ns, &d);
		else
			weir_limiter_report(bench->limiter, &permit,
			                    &(struct weir_report){.latency_ns = 1, .now_ns = now_ns});
	}
}

static void permits_given(void *context)
{
	permits(context, false);
}

static double permits_given_time(void *context)
{
	uint64_t start = measure_now_ns();

	permits(context, false);
	return per_operation(context, start);
}

static double permits_own_clock(void *context)
{
	uint64_t start = measure_now_ns();

	permits(context, true);
	return per_operation(context, start);
}

static double permits_2_threads(void *context)
{
	return beside(context, permits_given);
}

/* The same on a key of a table, always the same one. */
static void permits_of_key(void *context)
{
	struct bench *bench = context;
	struct weir_decision d;
	struct weir_permit permit;

	for (uint64_t i = 0; i < bench->operations; i++) {
		uint64_t now_ns = bench->now_ns++;

		weir_ask(bench->table, bench->hot, (struct weir_key){&any_key, sizeof any_key},
		         &(struct weir_ask){.now_ns = now_ns, .permit = &permit}, &d);
		bench->allowed += d.allowed;
		if (bench->refunds)
			weir_refund_permit(bench->table, bench->hot,
			                   (struct weir_key){&any_key, sizeof any_key}, &permit, now_ns, &d);
		else
			weir_report(bench->table, bench->hot, (struct weir_key){&any_key, sizeof any_key},
			            &permit, &(struct weir_report){.latency_ns = 1, .now_ns = now_ns});
	}
}

static double permits_of_key_given_time(void *context)
{
	uint64_t start = measure_now_ns();

	permits_of_key(context);
	return per_operation(context, start);
}

static double permits_of_key_2_threads(void *context)
{
	return beside(context, permits_of_key);
}

/* Permits of two threads are compared with this: one line that both count on. */
static struct {
	_Alignas(128) uint64_t count;
	uint64_t unused[15];
} counter;

static void count_up(void *context)
{
	struct bench *bench = context;

	for (uint64_t i = 0; i < bench->operations; i++)
		__atomic_fetch_add(&counter.count, 1, __ATOMIC_SEQ_CST);
}

static double counter_2_threads(void *context)
{
	return beside(context, count_up);
}

static double clock_reads(void *context)
{
	struct bench *bench = context;
	uint64_t start = measure_now_ns(), sum = 0;

	for (uint64_t i = 0; i < bench->operations; i++)
		sum += measure_read(CLOCK_MONOTONIC) + measure_read(CLOCK_MONOTONIC);
	bench->allowed += sum > 0;
	return per_operation(bench, start);
}

/* Limits whose requests get permits, and the names of their figures. */
static const struct {
	struct weir_limit_options options;
	bool refunds;
	const char *own_clock, *given_time, *threads, *of_key, *of_key_threads;
} permit_limits[] = {
    {{.name = "breaker", .algorithm = WEIR_ALGORITHM_BREAKER},
     false,
     "breaker_own_clock",
     "breaker_given_time",
     "breaker_2_threads",
     "breaker_key_given_time",
     "breaker_key_2_threads"},
    {{.name = "adaptive", .algorithm = WEIR_ALGORITHM_ADAPTIVE},
     false,
     "adaptive_own_clock",
     "adaptive_given_time",
     "adaptive_2_threads",
     "adaptive_key_given_time",
     "adaptive_key_2_threads"},
    {{.name = "concurrency", .algorithm = WEIR_ALGORITHM_CONCURRENCY, .max = 100},
     true,
     "concurrency_own_clock",
     "concurrency_given_time",
     "concurrency_2_threads",
     "concurrency_key_given_time",
     "concurrency_key_2_threads"},
};

/* The cases with a given time advance it, so those that read the clock come first. */
static bool measure_permits_of(const struct bench *shared, size_t which)
{
	const struct weir_limit_options *options = &permit_limits[which].options;
	const struct weir_table_options small = {.capacity = 100000};
	struct bench bench = *shared;

	bench.refunds = permit_limits[which].refunds;
	if (weir_limiter_open(options, &bench.limiter, NULL) != 0 ||
	    weir_limit_open(options, &bench.hot, NULL) != 0 ||
	    weir_table_open(&small, &bench.table, NULL) != 0)
		return false;
	measure_print(permit_limits[which].own_clock, permits_own_clock, &bench);
	weir_limiter_close(bench.limiter);
	if (weir_limiter_open(options, &bench.limiter, NULL) != 0)
		return false;
	measure_print(permit_limits[which].given_time, permits_given_time, &bench);
	measure_print(permit_limits[which].threads, permits_2_threads, &bench);
	measure_print(permit_limits[which].of_key, permits_of_key_given_time, &bench);
	measure_print(permit_limits[which].of_key_threads, permits_of_key_2_threads, &bench);
	weir_limiter_close(bench.limiter);
	weir_limit_close(bench.hot);
	weir_table_close(bench.table);
	return true;
}

static bool measure_permits(struct bench *bench)
{
	bool ok = true;

	measure_print("clock_read_twice", clock_reads, bench);
	measure_print("counter_2_threads", counter_2_threads, bench);
	for (size_t i = 0; ok && i < sizeof permit_limits / sizeof *permit_limits; i++)
		ok = measure_permits_of(bench, i);
	return ok;
}

/* Every key is there before anything is measured. */
static bool open_table(struct bench *bench, const struct weir_table_options *options)
{
	uint64_t keys = options->capacity;
	struct key key = any_key;
	struct weir_decision d;

	weir_table_close(bench->table);
	bench->keys = keys;
	bench->table = NULL;
	if (weir_table_open(options, &bench->table, NULL) != 0)
		return false;
	for (uint64_t i = 0; i < keys; i++) {
		key_number(&key, i);
		weir_acquire(bench->table, bench->limit, (struct weir_key){&key, sizeof key}, 1,
		             bench->now_ns, &d);
	}
	return true;
}

/*
 * The same keys under a sliding limit: each key has been asked for in half of the
 * slots of the last period, so that there is a row to read.
 */
static bool open_sliding(struct bench *bench, const struct weir_limit_options *options)
{
	struct key key = any_key;
	struct weir_decision d;

	weir_table_close(bench->table);
	weir_limit_close(bench->limit);
	if (weir_limit_open(options, &bench->limit, NULL) != 0 ||
	    weir_table_open(&(struct weir_table_options){.capacity = 1000000}, &bench->table, NULL) != 0)
		return false;
	for (int slot = 0; slot < 5; slot++, bench->now_ns += UINT64_C(600000000000))
		for (uint64_t i = 0; i < bench->keys; i++) {
			key_number(&key, i);
			weir_acquire(bench->table, bench->limit, (struct weir_key){&key, sizeof key}, 1,
			             bench->now_ns, &d);
		}
	return true;
}

static bool measure_sliding(struct bench *bench)
{
	static const struct {
		const char *name, *batch;
		struct weir_limit_options options;
		uint64_t keys;
	} all[] = {
	    {"bucket_1m_given_time", "bucket_1m_batch", {.rate = {1000, 1, WEIR_UNIT_HOUR}}, 1000000},
	    {"sliding_window_1m_given_time",
	     "sliding_window_1m_batch",
	     {.algorithm = WEIR_ALGORITHM_SLIDING_WINDOW, .rate = {1000, 1, WEIR_UNIT_HOUR}},
	     1000000},
	    {"bucket_100k_given_time",
	     "bucket_100k_batch",
	     {.rate = {1000, 1, WEIR_UNIT_HOUR}},
	     100000},
	    {"sliding_window_100k_given_time",
	     "sliding_window_100k_batch",
	     {.algorithm = WEIR_ALGORITHM_SLIDING_WINDOW, .rate = {1000, 1, WEIR_UNIT_HOUR}},
	     100000},
	    {"sliding_log_100k_given_time",
	     "sliding_log_100k_batch",
	     {.algorithm = WEIR_ALGORITHM_SLIDING_LOG, .rate = {100, 1, WEIR_UNIT_HOUR}},
	     100000},
	};

	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		bench->keys = all[i].keys;
		if (!open_sliding(bench, &all[i].options))
			return false;
		measure_print(all[i].name, keyed_given_time, bench);
		measure_print(all[i].batch, keyed_batch, bench);
	}
	return true;
}

static bool measure_hot_key(struct bench *bench)
{
	const struct weir_limit_options all = {.name = "all", .rate = {1000000000}},
	                                none = {.name = "none", .rate = {1, 1, WEIR_UNIT_DAY}};

	/* An empty table, so that the key is at home. */
	if (weir_table_open(NULL, &bench->table, NULL) != 0 ||
	    weir_limit_open(&all, &bench->hot, NULL) != 0)
		return false;
	measure_print("hot_key", hot_key_1_thread, bench);
	measure_print("hot_key_2_threads", hot_key_2_threads, bench);
	weir_limit_close(bench->hot);
	if (weir_limit_open(&none, &bench->hot, NULL) != 0)
		return false;
	measure_print("hot_key_denied", hot_key_1_thread, bench);
	measure_print("hot_key_denied_2_threads", hot_key_2_threads, bench);
	weir_limit_close(bench->hot);
	weir_table_close(bench->table);
	bench->table = NULL;
	return true;
}

/* Memory of a key where 80% of the cells are taken, by names of `len` bytes. */
static bool measure_memory(struct bench *bench, const char *name, size_t len)
{
	uint64_t before = measure_resident_bytes(), keys;
	struct weir_table_stats stats;
	struct weir_decision d;
	char key[WEIR_KEY_MAX] = {0};
	weir_table *table;

	if (weir_table_open(NULL, &table, NULL) != 0)
		return false;
	weir_table_stats(table, bench->now_ns, &stats);
	keys = stats.cells * 8 / 10;
	for (uint64_t i = 0; i < keys; i++) {
		memcpy(key, &i, sizeof i);
		weir_acquire(table, bench->limit, (struct weir_key){key, len}, 1, bench->now_ns, &d);
	}
	printf("%s %.2f bytes\n", name, (double)(measure_resident_bytes() - before) / (double)keys);
	weir_table_close(table);
	return true;
}

/* Until a full file is there to be decided by. */
static bool measure_open(struct bench *bench)
{
	char directory[] = "/tmp/weir-bench-XXXXXX", path[64];
	struct weir_table_options options = {.capacity = 10000000, .path = path};
	double ms[MEASURE_ROUNDS] = {0};
	weir_table *table;
	bool ok;

	if (!mkdtemp(directory))
		return false;
	snprintf(path, sizeof path, "%s/table", directory);
	ok = open_table(bench, &options);
	for (int i = 0; ok && i < MEASURE_ROUNDS; i++) {
		uint64_t start = measure_read(CLOCK_MONOTONIC);

		ok = weir_table_open(&options, &table, NULL) == 0;
		ms[i] = (double)(measure_read(CLOCK_MONOTONIC) - start) / 1e6;
		if (ok)
			weir_table_close(table);
	}
	qsort(ms, MEASURE_ROUNDS, sizeof *ms, measure_ascending);
	if (ok)
		printf("open_10m_file %.3f ms\n", ms[MEASURE_ROUNDS / 2]);
	unlink(path);
	rmdir(directory);
	return ok;
}

int main(int argc, char **argv)
{
	bool permits_alone = argc > 1 && strcmp(argv[1], "--permits") == 0;
	bool quick = argc > 1 && strcmp(argv[argc - 1], "--quick") == 0;
	/* A thousand an hour: keys stay live and most requests are allowed. */
	const struct weir_limit_options often = {.rate = {1000, 1, WEIR_UNIT_HOUR}};
	const struct weir_limit_options always = {.rate = {1000000000}};
	struct timespec now;
	uint64_t resident;
	struct bench bench = {
	    .operations = (quick ? 100000 : 1000000) / BATCH * BATCH,
	    .seed = UINT64_C(0x9e3779b97f4a7c15),
	};

	clock_gettime(CLOCK_REALTIME, &now); /* where the library's own clock is, too */
	bench.now_ns = (uint64_t)now.tv_sec * 1000000000;
	if (!measure_permits(&bench))
		return 1;
	if (permits_alone)
		return 0;
	if (weir_limit_open(&often, &bench.limit, NULL) != 0 ||
	    weir_limiter_open(&always, &bench.limiter, NULL) != 0 || !measure_hot_key(&bench))
		return 1;
	resident = measure_resident_bytes();
	if (!open_table(&bench, &(struct weir_table_options){.capacity = 1000000}))
		return 1;
	printf("keyed_1m_memory %.2f bytes\n",
	       (double)(measure_resident_bytes() - resident) / (double)bench.keys);
	/* Its own clock comes last: to the given times behind it, what it grants is still in use. */
	measure_print("limiter_given_time", limiter_given_time, &bench);
	measure_print("limiter_2_threads", limiter_2_threads, &bench);
	measure_print("limiter_own_clock", limiter_own_clock, &bench);
	measure_print("keyed_1m_given_time", keyed_given_time, &bench);
	measure_print("keyed_1m_own_clock", keyed_own_clock, &bench);
	measure_print("keyed_1m_batch", keyed_batch, &bench);
	if (!measure_memory(&bench, "memory_80_percent_short_names", 8) ||
	    !measure_memory(&bench, "memory_80_percent_long_names", WEIR_KEY_MAX))
		return 1;
	if (!quick) {
		if (!open_table(&bench, &(struct weir_table_options){.capacity = 10000000}))
			return 1;
		measure_print("keyed_10m_given_time", keyed_given_time, &bench);
		measure_print("keyed_10m_own_clock", keyed_own_clock, &bench);
		measure_print("keyed_10m_batch", keyed_batch, &bench);
		measure_print("keyed_10m_batch_2_threads", keyed_batch_2_threads, &bench);
		if (!measure_open(&bench) || !measure_sliding(&bench))
			return 1;
	}
	weir_limiter_close(bench.limiter);
	weir_limit_close(bench.limit);
	weir_table_close(bench.table);
	return bench.allowed == 1; /* which it never is */
}
