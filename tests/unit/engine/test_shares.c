/*
 * While Redis is away each of `nodes` servers grants a share by its own counts. All together grant no
 * more than docs/distributed.md says: what one limit of the same rate would grant, and at once its
 * quota, or `nodes` where that is more.
 */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/engine.h"

#define DAY_START UINT64_C(1700006400000000000) /* in UTC, where windows of whole minutes begin, too */
#define STEPS     120
#define NODES_MAX 120

struct kind {
	const char *name;
	struct weir_limit_options options;
	uint64_t at_once; /* all that one limit grants at once */
	uint64_t more;    /* units beside the rate: free in a day, or of a window that began before */
	bool is_adhoc;
};

#define RATE(count_, period_, unit_) .rate = {count_, period_, WEIR_UNIT_##unit_}

static const struct kind kinds[] = {
    {"token_bucket", {RATE(60, 1, MINUTE), .burst = 100}, 100},
    {"token_bucket of the default burst", {RATE(51, 7, SECOND)}, 51},
    {"token_bucket, 1/s", {RATE(1, 1, SECOND), .burst = 1}, 1},
    {"token_bucket, slow and deep", {RATE(2, 1, HOUR), .burst = 60}, 60},
    {"leaky_bucket",
     {.algorithm = WEIR_ALGORITHM_LEAKY_BUCKET, RATE(5, 1, MINUTE), .burst = 40},
     40},
    {"leaky_queue",
     {.algorithm = WEIR_ALGORITHM_LEAKY_QUEUE,
      RATE(30, 1, MINUTE),
      .burst = 25,
      .max_wait_ns = 5 * NS_PER_S},
     1},
    {"leaky_queue of the default capacity",
     {.algorithm = WEIR_ALGORITHM_LEAKY_QUEUE, RATE(4, 1, MINUTE)},
     1},
    {"pacer, slack 50",
     {.algorithm = WEIR_ALGORITHM_PACER,
      RATE(60, 1, MINUTE),
      .slack = 50,
      .max_wait_ns = 2 * NS_PER_S},
     51},
    {"pacer of the default slack", {.algorithm = WEIR_ALGORITHM_PACER, RATE(60, 1, MINUTE)}, 11},
    {"pacer, slack 0",
     {.algorithm = WEIR_ALGORITHM_PACER,
      RATE(2, 1, MINUTE),
      .slack = WEIR_ZERO,
      .max_wait_ns = WEIR_ZERO},
     1},
    {"warm_up",
     {.algorithm = WEIR_ALGORITHM_WARM_UP, RATE(40, 1, MINUTE), .max_wait_ns = 9 * NS_PER_S},
     1},
    {"warm_up, 1/s",
     {.algorithm = WEIR_ALGORITHM_WARM_UP, RATE(1, 1, SECOND), .max_wait_ns = WEIR_ZERO},
     1},
    {"fixed_window", {.algorithm = WEIR_ALGORITHM_FIXED_WINDOW, RATE(100, 1, MINUTE)}, 100},
    {"fixed_window, 3/d",
     {.algorithm = WEIR_ALGORITHM_FIXED_WINDOW, RATE(3, 1, DAY), .timezone = "Asia/Shanghai"},
     3,
     3},
    {"fixed_window, 2/w",
     {.algorithm = WEIR_ALGORITHM_FIXED_WINDOW,
      RATE(2, 1, WEEK),
      .week_start = WEIR_WEEKDAY_SUNDAY},
     2,
     2},
    {"fixed_window, 5/month", {.algorithm = WEIR_ALGORITHM_FIXED_WINDOW, RATE(5, 1, MONTH)}, 5, 5},
    {"fixed_window of the first request",
     {.algorithm = WEIR_ALGORITHM_FIXED_WINDOW,
      RATE(7, 1, MINUTE),
      .align = WEIR_ALIGN_FIRST_REQUEST},
     7},
    {"resetting_bucket", {.algorithm = WEIR_ALGORITHM_RESETTING_BUCKET, RATE(12, 10, SECOND)}, 12},
    {"sliding_window", {.algorithm = WEIR_ALGORITHM_SLIDING_WINDOW, RATE(33, 1, MINUTE)}, 33, 33},
    {"sliding_window, 1/s",
     {.algorithm = WEIR_ALGORITHM_SLIDING_WINDOW, RATE(1, 1, SECOND), .slots = 7},
     1,
     1},
    {"sliding_counter", {.algorithm = WEIR_ALGORITHM_SLIDING_COUNTER, RATE(50, 1, MINUTE)}, 50, 50},
    {"sliding_counter, 2/s",
     {.algorithm = WEIR_ALGORITHM_SLIDING_COUNTER, RATE(2, 1, SECOND)},
     2,
     2},
    {"sliding_log", {.algorithm = WEIR_ALGORITHM_SLIDING_LOG, RATE(20, 1, MINUTE)}, 20},
    {"base", {.algorithm = WEIR_ALGORITHM_BASE, .base = 31, RATE(10, 10, MINUTE)}, 10, 30},
    {"base, little free", {.algorithm = WEIR_ALGORITHM_BASE, .base = 2, RATE(1, 1, MINUTE)}, 1, 1},
    {"a command's", {RATE(30, 60, SECOND), .burst = 16}, 16, .is_adhoc = true},
    {"a command's, 1/s", {RATE(1, 1, SECOND), .burst = 1}, 1, .is_adhoc = true},
};

/* One server. */
struct node {
	weir_table *table;
	struct weir_limit local;
};

static void open_origin(const struct kind *kind, struct weir_limit *origin)
{
	const struct weir_limit_options *o = &kind->options;

	if (kind->is_adhoc)
		assert_int_equal(limit_init_adhoc(origin, o->burst, o->rate.count, o->rate.period, NULL),
		                 0);
	else
		assert_int_equal(limit_init(origin, o, NULL), WEIR_OK);
}

static void open_node(struct node *node, const struct kind *kind, const struct weir_limit *origin,
                      uint64_t nodes)
{
	struct weir_error error = {0};
	struct store *store;
	int status;

	assert_int_equal(weir_table_open(&(struct weir_table_options){.capacity = 100}, &node->table, NULL),
	                 WEIR_OK);
	store = node->table->store;
	status = kind->is_adhoc
	             ? limit_init_adhoc_local(&node->local, origin, nodes, store)
	             : limit_init_local(&node->local, origin, &kind->options, nodes, store, &error);
	if (status != WEIR_OK)
		fail_msg("%s, %" PRIu64 " nodes: %s", kind->name, nodes, error.message);
}

static void close_node(struct node *node, const struct kind *kind)
{
	if (!kind->is_adhoc)
		limit_free(&node->local);
	weir_table_close(node->table);
}

static bool acquire(const struct node *node, uint64_t now_ns, struct weir_decision *d)
{
	const struct decision_context context = {.table = node->table, .at = moment_given(now_ns)};
	struct plan plan;

	assert_int_equal(engine_prepare_limit(node->table, &node->local,
	                                      &(struct algo_call){ALGO_ACQUIRE, 1}, SLICE("k"), &plan),
	                 WEIR_OK);
	assert_int_equal(engine_decide(&context, &plan, d), ENGINE_DONE);
	return d->allowed;
}

/* Passes before the end of each step of time, by when their turn comes. */
struct passes {
	uint64_t step_ns;
	uint64_t of[STEPS];
};

static void count(struct passes *passes, uint64_t after_ns)
{
	uint64_t step = after_ns / passes->step_ns;

	if (step < STEPS)
		passes->of[step]++;
}

/* Each server is asked for as much as it grants, from rest on. */
static void ask_all(const struct node *nodes, uint64_t n, struct passes *passes)
{
	for (uint64_t step = 0; step < STEPS; step++)
		for (uint64_t i = 0; i < n; i++) {
			uint64_t after_ns = step * passes->step_ns;
			struct weir_decision d;

			while (acquire(&nodes[i], DAY_START + after_ns, &d))
				count(passes, after_ns + d.wait_ns);
		}
}

static void check_share(const struct kind *kind, uint64_t n)
{
	static struct node nodes[NODES_MAX];
	uint64_t period_ns, rate = kind->options.rate.count, sum = 0;
	struct weir_limit origin;
	struct passes passes = {0};

	open_origin(kind, &origin);
	period_ns = origin.algo.period_ns;
	for (uint64_t i = 0; i < n; i++)
		open_node(&nodes[i], kind, &origin, n);
	/* Six periods of a server; of a day's free units not more than the day. */
	passes.step_ns = period_ns / STEPS * 6 * u64_max(1, ceil_div(n, rate));
	if (kind->options.algorithm == WEIR_ALGORITHM_BASE)
		passes.step_ns = u64_min(passes.step_ns, (NS_PER_DAY - 1) / STEPS);
	ask_all(nodes, n, &passes);
	for (uint64_t step = 0; step < STEPS; step++) {
		uint64_t time_ns = (step + 1) * passes.step_ns;
		uint64_t by_rate = (uint64_t)((u128)rate * time_ns / period_ns);

		sum += passes.of[step];
		if (sum > kind->more + u64_max(kind->at_once, n) + by_rate + 1)
			fail_msg("%s, %" PRIu64 " nodes: %" PRIu64 " passed in %" PRIu64 " ms", kind->name, n, sum,
			         time_ns / NS_PER_MS);
		if (step == 0)
			assert_true(sum >= n); /* each grants one at least */
	}
	/* And half of the rate, or more. */
	if (2 * sum < (u128)rate * STEPS * passes.step_ns / period_ns)
		fail_msg("%s, %" PRIu64 " nodes: only %" PRIu64 " passed", kind->name, n, sum);
	for (uint64_t i = 0; i < n; i++)
		close_node(&nodes[i], kind);
	if (!kind->is_adhoc)
		limit_free(&origin);
}

static void all_servers_together_grant_one_more_limit(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
		const uint64_t numbers[] = {1, 3, 10, kinds[i].options.rate.count + 7};

		for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++)
			check_share(&kinds[i], numbers[k]);
	}
}

static void places_are_divided(void **state)
{
	static const uint64_t places[] = {1, 7, 100}, numbers[] = {1, 3, 10, 107};
	static struct node nodes[NODES_MAX];

	(void)state;
	for (size_t p = 0; p < sizeof places / sizeof *places; p++)
		for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++) {
			const struct kind kind = {
			    "concurrency",
			    {.algorithm = WEIR_ALGORITHM_CONCURRENCY, .max = places[p], .queue = 50}};
			uint64_t held = 0;
			struct weir_limit origin;
			struct weir_decision d;

			open_origin(&kind, &origin);
			for (uint64_t i = 0; i < numbers[k]; i++) {
				open_node(&nodes[i], &kind, &origin, numbers[k]);
				while (acquire(&nodes[i], DAY_START, &d))
					held++;
				close_node(&nodes[i], &kind);
			}
			assert_in_range(held, numbers[k], u64_max(places[p], numbers[k]));
			limit_free(&origin);
		}
}

/* Counts of a period that is longer for more nodes mean another time. */
static void another_number_of_nodes_keeps_only_counts_of_the_same_period(void **state)
{
	static const uint64_t numbers[] = {2, 5, 10, 20};
	const struct kind kind = {"few", {RATE(5, 1, MINUTE)}, 5};
	struct weir_limit origin;
	struct node nodes[4];

	(void)state;
	open_origin(&kind, &origin);
	for (size_t i = 0; i < 4; i++)
		open_node(&nodes[i], &kind, &origin, numbers[i]);
	assert_int_equal(nodes[0].local.algo.identity, nodes[1].local.algo.identity);
	assert_int_not_equal(nodes[1].local.algo.identity, nodes[2].local.algo.identity);
	assert_int_not_equal(nodes[2].local.algo.identity, nodes[3].local.algo.identity);
	for (size_t i = 0; i < 4; i++)
		close_node(&nodes[i], &kind);
	limit_free(&origin);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(all_servers_together_grant_one_more_limit),
	    cmocka_unit_test(places_are_divided),
	    cmocka_unit_test(another_number_of_nodes_keeps_only_counts_of_the_same_period),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
