/*
 * library: what a decision costs through the public interface of libweir.
 *
 * Prints `name value unit` lines, medians. Keys are 20 bytes, drawn at random,
 * made in registers so that fetching them is not measured.
 */
#include <stdbool.h>
#include <string.h>

#include <weir/weir.h>

#include "measure.h"

#define BATCH 32

struct bench {
	weir_limiter *limiter;
	weir_table *table;
	weir_limit *limit;
	uint64_t keys, operations, seed, now_ns, allowed;
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

static double limiter_given_time(void *context)
{
	struct bench *bench = context;
	uint64_t start = measure_now_ns();
	struct weir_decision d;

	for (uint64_t i = 0; i < bench->operations; i++) {
		weir_limiter_acquire(bench->limiter, 1, bench->now_ns++, &d);
		bench->allowed += d.allowed;
	}
	return per_operation(bench, start);
}

static double keyed(struct bench *bench, bool own_clock)
{
	uint64_t start = measure_now_ns();
	struct key key = any_key;
	struct weir_decision d;

	for (uint64_t i = 0; i < bench->operations; i++) {
		key_number(&key, measure_draw_below(&bench->seed, bench->keys));
		weir_acquire(bench->table, bench->limit, &key, sizeof key, 1,
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

static double keyed_batch(void *context)
{
	struct bench *bench = context;
	struct weir_request requests[BATCH];
	struct weir_decision d[BATCH];
	struct key keys[BATCH];
	uint64_t start = measure_now_ns();

	for (int j = 0; j < BATCH; j++)
		keys[j] = any_key;
	for (uint64_t i = 0; i < bench->operations; i += BATCH) {
		for (int j = 0; j < BATCH; j++) {
			key_number(&keys[j], measure_draw_below(&bench->seed, bench->keys));
			requests[j] =
			    (struct weir_request){bench->limit, &keys[j], sizeof keys[j], 1, WEIR_OK};
		}
		weir_acquire_batch(bench->table, requests, BATCH, bench->now_ns++, d);
		bench->allowed += d[0].allowed;
	}
	return per_operation(bench, start);
}

/* Every key is there before anything is measured. */
static bool open_table(struct bench *bench, uint64_t keys)
{
	struct key key = any_key;
	struct weir_decision d;

	weir_table_close(bench->table);
	bench->keys = keys;
	if (weir_table_open(&(struct weir_table_options){.capacity = keys}, &bench->table, NULL) != 0)
		return false;
	for (uint64_t i = 0; i < keys; i++) {
		key_number(&key, i);
		weir_acquire(bench->table, bench->limit, &key, sizeof key, 1, bench->now_ns, &d);
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
			weir_acquire(bench->table, bench->limit, &key, sizeof key, 1, bench->now_ns, &d);
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
	    {"bucket_1m_given_time", "bucket_1m_batch", {.rate = {1000, 1, WEIR_HOUR}}, 1000000},
	    {"sliding_window_1m_given_time", "sliding_window_1m_batch",
	     {.algorithm = WEIR_SLIDING_WINDOW, .rate = {1000, 1, WEIR_HOUR}}, 1000000},
	    {"bucket_100k_given_time", "bucket_100k_batch", {.rate = {1000, 1, WEIR_HOUR}}, 100000},
	    {"sliding_window_100k_given_time", "sliding_window_100k_batch",
	     {.algorithm = WEIR_SLIDING_WINDOW, .rate = {1000, 1, WEIR_HOUR}}, 100000},
	    {"sliding_log_100k_given_time", "sliding_log_100k_batch",
	     {.algorithm = WEIR_SLIDING_LOG, .rate = {100, 1, WEIR_HOUR}}, 100000},
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

int main(int argc, char **argv)
{
	bool quick = argc > 1 && strcmp(argv[1], "--quick") == 0;
	/* A thousand an hour: keys stay live and most requests are allowed. */
	const struct weir_limit_options often = {.rate = {1000, 1, WEIR_HOUR}};
	const struct weir_limit_options always = {.rate = {1000000000}};
	struct timespec now;
	uint64_t resident = measure_resident_bytes();
	struct bench bench = {
	    .operations = (quick ? 100000 : 1000000) / BATCH * BATCH,
	    .seed = UINT64_C(0x9e3779b97f4a7c15),
	};

	clock_gettime(CLOCK_REALTIME, &now); /* where the library's own clock is, too */
	bench.now_ns = (uint64_t)now.tv_sec * 1000000000;
	if (weir_limit_open(&often, &bench.limit, NULL) != 0 ||
	    weir_limiter_open(&always, &bench.limiter, NULL) != 0 || !open_table(&bench, 1000000))
		return 1;
	printf("keyed_1m_memory %.2f bytes\n",
	       (double)(measure_resident_bytes() - resident) / (double)bench.keys);
	measure_print("limiter_own_clock", limiter_own_clock, &bench);
	measure_print("limiter_given_time", limiter_given_time, &bench);
	measure_print("keyed_1m_given_time", keyed_given_time, &bench);
	measure_print("keyed_1m_own_clock", keyed_own_clock, &bench);
	measure_print("keyed_1m_batch", keyed_batch, &bench);
	if (!quick) {
		if (!open_table(&bench, 10000000))
			return 1;
		measure_print("keyed_10m_given_time", keyed_given_time, &bench);
		measure_print("keyed_10m_own_clock", keyed_own_clock, &bench);
		measure_print("keyed_10m_batch", keyed_batch, &bench);
		if (!measure_sliding(&bench))
			return 1;
	}
	weir_limiter_close(bench.limiter);
	weir_limit_close(bench.limit);
	weir_table_close(bench.table);
	return bench.allowed == 1; /* which it never is */
}
