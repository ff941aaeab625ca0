/*
 * Makes the same requests at the same times of a table at Redis and of one in memory: their
 * decisions must be equal.
 *
 * Replay a run by its seed: WEIR_TEST_SEED=... .
 */
#include "server.h"

#include <time.h>

#include "base/number.h"
#include "redis/client_pool.h"

#define STEPS    400
#define KEYS     3
#define START_NS UINT64_C(1700000000000000000)

static uint64_t seed;

static uint64_t draw(uint64_t below)
{
	/* splitmix64 */
	uint64_t z = seed += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return (z ^ z >> 31) % below;
}

static const struct weir_limit_options limits[] = {
    {.name = "bucket", .rate = {5}, .burst = 7},
    {.name = "thirds", .rate = {3, 7, WEIR_UNIT_MILLISECOND}, .burst = 4},
    {.name = "leaky",
     .algorithm = WEIR_ALGORITHM_LEAKY_BUCKET,
     .rate = {10, 1, WEIR_UNIT_SECOND},
     .burst = 3},
    {.name = "day", .algorithm = WEIR_ALGORITHM_FIXED_WINDOW, .rate = {20, 1, WEIR_UNIT_MINUTE}},
    {.name = "zone",
     .algorithm = WEIR_ALGORITHM_FIXED_WINDOW,
     .rate = {9, 1, WEIR_UNIT_DAY},
     .timezone = "Europe/Berlin"},
    {.name = "first",
     .algorithm = WEIR_ALGORITHM_FIXED_WINDOW,
     .rate = {6, 5, WEIR_UNIT_SECOND},
     .align = WEIR_ALIGN_FIRST_REQUEST},
    {.name = "resetting",
     .algorithm = WEIR_ALGORITHM_RESETTING_BUCKET,
     .rate = {6, 5, WEIR_UNIT_SECOND}},
    {.name = "sliding",
     .algorithm = WEIR_ALGORITHM_SLIDING_WINDOW,
     .rate = {10, 5, WEIR_UNIT_SECOND},
     .slots = 5},
    {.name = "counter",
     .algorithm = WEIR_ALGORITHM_SLIDING_COUNTER,
     .rate = {10, 5, WEIR_UNIT_SECOND}},
    {.name = "log", .algorithm = WEIR_ALGORITHM_SLIDING_LOG, .rate = {10, 5, WEIR_UNIT_SECOND}},
    {.name = "pacer",
     .algorithm = WEIR_ALGORITHM_PACER,
     .rate = {10},
     .slack = 2,
     .max_wait_ns = NS_PER_S},
    {.name = "queue", .algorithm = WEIR_ALGORITHM_LEAKY_QUEUE, .rate = {10}, .burst = 5},
    {.name = "base", .algorithm = WEIR_ALGORITHM_BASE, .rate = {2, 1, WEIR_UNIT_SECOND}, .base = 8},
    {.name = "warm",
     .algorithm = WEIR_ALGORITHM_WARM_UP,
     .rate = {10},
     .warm_up_ns = 2 * NS_PER_S,
     .max_wait_ns = NS_PER_S},
    {.name = "places", .algorithm = WEIR_ALGORITHM_CONCURRENCY, .max = 4, .lease_ns = 2 * NS_PER_S},
};

static weir_table *open_at(const struct server *server)
{
	char url[64];
	struct store_caller *caller;
	weir_table *table;

	snprintf(url, sizeof url, "redis://127.0.0.1:%u", server->port);
	assert_int_equal(weir_table_open(NULL, &table, NULL), WEIR_OK);
	assert_int_equal(
	    pool_open(
	        &(struct redis_options){
	            .url = url, .prefix = "weir:", .timeout_ns = 20 * NS_PER_S, .given_time = true},
	        &caller, NULL),
	    WEIR_OK);
	assert_int_equal(weir_private_table_call(table, caller, 0), WEIR_OK);
	return table;
}

/* One call, the same for each table. */
struct asked {
	unsigned op, key;
	uint64_t cost, now_ns;
	struct weir_permit *permit; /* handed out last for the key, of this table */
};

static int ask(weir_table *table, const weir_limit *limit, const struct asked *asked,
               struct weir_decision *d)
{
	char key[2] = {(char)('a' + asked->key), '\0'};

	*d = (struct weir_decision){0};
	switch (asked->op) {
	case 0:
		return weir_peek(table, limit, (struct weir_key){key, 1}, asked->cost, asked->now_ns, d);
	case 1:
		return weir_refund(table, limit, (struct weir_key){key, 1}, asked->cost, asked->now_ns, d);
	case 2:
		return weir_reset(table, limit, (struct weir_key){key, 1}, asked->now_ns, d);
	case 3:
		return weir_ask(table, limit, (struct weir_key){key, 1},
		                &(struct weir_ask){
		                    .cost = asked->cost, .now_ns = asked->now_ns, .permit = asked->permit},
		                d);
	case 4:
		return weir_refund_permit(table, limit, (struct weir_key){key, 1}, asked->permit,
		                          asked->now_ns, d);
	default:
		return weir_acquire(table, limit, (struct weir_key){key, 1}, asked->cost, asked->now_ns, d);
	}
}

static bool is_same(const struct weir_decision *a, const struct weir_decision *b)
{
	return a->allowed == b->allowed && a->paced == b->paced && a->reason == b->reason &&
	       a->quota == b->quota && a->remaining == b->remaining &&
	       a->retry_after_ns == b->retry_after_ns && a->reset_after_ns == b->reset_after_ns &&
	       a->window_ns == b->window_ns && a->wait_ns == b->wait_ns;
}

static void compare(const char *name, size_t step, const struct asked *asked,
                    const struct weir_decision *a, const struct weir_decision *b)
{
	const struct weir_decision *each[] = {a, b};

	if (is_same(a, b))
		return;
	for (size_t i = 0; i < 2; i++)
		print_error("%s: allowed %d, %s, remaining %ju, retry %ju, reset %ju, wait %ju\n",
		            i ? "redis" : "memory", each[i]->allowed, weir_reason_text(each[i]->reason),
		            (uintmax_t)each[i]->remaining, (uintmax_t)each[i]->retry_after_ns,
		            (uintmax_t)each[i]->reset_after_ns, (uintmax_t)each[i]->wait_ns);
	fail_msg("%s, step %zu: op %u, cost %ju, at %ju", name, step, asked->op, (uintmax_t)asked->cost,
	         (uintmax_t)(asked->now_ns - START_NS));
}

static void run(weir_table *memory, weir_table *redis, const struct weir_limit_options *options)
{
	struct weir_permit in_memory[KEYS] = {{0}}, at_redis[KEYS] = {{0}};
	uint64_t now_ns = START_NS;
	weir_limit *limit;

	assert_int_equal(weir_limit_open(options, &limit, NULL), WEIR_OK);
	for (size_t i = 0; i < STEPS; i++) {
		static const unsigned char ops[] = {0, 1, 2, 3, 3, 4, 4, 5, 5, 5, 5, 5, 5, 5, 5, 5};
		struct asked asked = {.op = ops[draw(sizeof ops)],
		                      .key = (unsigned)draw(KEYS),
		                      .cost = draw(8) == 0 ? draw(5) : 1};
		struct weir_decision a, b;
		int status;

		asked.now_ns = now_ns += draw(4) == 0 ? draw(2 * NS_PER_S) : draw(NS_PER_S / 8);
		asked.permit = &in_memory[asked.key];
		status = ask(memory, limit, &asked, &a);
		asked.permit = &at_redis[asked.key];
		if (ask(redis, limit, &asked, &b) != status)
			fail_msg("%s, step %zu: in memory %s", options->name, i, weir_strerror(status));
		if (status == WEIR_OK)
			compare(options->name, i, &asked, &a, &b);
		assert_int_equal(in_memory[asked.key].until_ns, at_redis[asked.key].until_ns);
	}
	weir_limit_close(limit);
}

static void decisions_at_redis_equal_those_in_memory(void **state)
{
	struct server server = server_start(NULL);
	weir_table *redis = open_at(&server), *memory;
	const char *given = getenv("WEIR_TEST_SEED");

	(void)state;
	seed = given ? strtoull(given, NULL, 10) : (uint64_t)time(NULL);
	print_message("WEIR_TEST_SEED=%ju\n", (uintmax_t)seed);
	assert_int_equal(weir_table_open(NULL, &memory, NULL), WEIR_OK);
	for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
		run(memory, redis, &limits[i]);
	weir_table_close(memory);
	weir_table_close(redis);
	server_stop(&server);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(decisions_at_redis_equal_those_in_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
