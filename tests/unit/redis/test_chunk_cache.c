/* Chunks: grants never exceed the limit, and unused units return. */
#include <pthread.h>

#include "scene.h"

#include "redis/cache/chunks.h"
#include "redis/client_inside.h"

#define NOW UINT64_C(1700000000000000000)

static void init(struct algo_limit *limit, const struct weir_limit_options *options, uint64_t chunk)
{
	algo_limit_free(limit);
	assert_int_equal(algo_limit_init(limit, options, NULL), WEIR_OK);
	limit->identity = 1;
	limit->chunk = chunk;
}

static struct scene *begin(const struct weir_limit_options *options, uint64_t chunk, bool is_given)
{
	struct scene *s = calloc(1, sizeof *s);

	s->server = server_start(NULL);
	open_store(s, "", (struct redis_options){.denied_cache_ns = NS_PER_S, .given_time = is_given});
	init(&s->limit, options, chunk);
	s->now_ns = NOW;
	return s;
}

static const struct weir_limit_options window = {.algorithm = WEIR_ALGORITHM_FIXED_WINDOW,
                                                 .rate = {1000, 1, WEIR_UNIT_HOUR}};
static const struct weir_limit_options first = {.algorithm = WEIR_ALGORITHM_FIXED_WINDOW,
                                                .align = WEIR_ALIGN_FIRST_REQUEST,
                                                .rate = {1000, 1, WEIR_UNIT_HOUR}};
static const struct weir_limit_options bucket = {.rate = {1000, 1, WEIR_UNIT_SECOND}, .burst = 100};

/* Word by word as without a chunk, since there is but one server. */
static void a_window_is_handed_out_in_chunks(void **state)
{
	static const struct weir_limit_options *const options[] = {&window, &first};

	(void)state;
	for (size_t k = 0; k < 2; k++) {
		struct scene *s = begin(options[k], 50, true);

		for (uint64_t i = 1; i <= 1000; i++) {
			struct store_operation operation = ask_op(s, ALGO_ACQUIRE, 1);

			assert_true(operation.outcome.allowed);
			assert_int_equal(operation.outcome.remaining, 1000 - i);
			assert_int_equal(operation.outcome.reason,
			                 i == 1000 ? WEIR_REASON_HIT_QUOTA : WEIR_REASON_OK);
			assert_true(operation.outcome.reset_after_ns > 0);
			assert_int_equal(operation.until_ns, NOW + operation.outcome.reset_after_ns);
		}
		for (uint64_t i = 0; i < 10; i++)
			assert_false(acquire(s, 1).allowed);
		assert_in_range(stats_of(s).steps, 1000 / 50, 1000 / 50 + 30);
		assert_in_range(stats_of(s).granted_by_chunks, 900, 1000);
		end(s);
	}
}

static void a_chunk_ends_with_its_window(void **state)
{
	struct scene *s = begin(&first, 500, true);

	(void)state;
	for (uint64_t i = 0; i < 10; i++)
		assert_true(acquire(s, 1).allowed);
	s->now_ns = NOW + 3600 * NS_PER_S;
	assert_int_equal(acquire(s, 1).remaining, 999);
	for (uint64_t i = 2; i <= 1000; i++)
		assert_int_equal(acquire(s, 1).remaining, 1000 - i);
	assert_false(acquire(s, 1).allowed);
	end(s);
}

/* As after a rest. */
static void return_chunks(struct scene *s)
{
	struct redis_store *store = (struct redis_store *)s->store;
	struct redis_client *client = (struct redis_client *)s->client;
	uint64_t next_ns;
	struct store_operation *operations =
	    chunk_release_idle(store->chunks, client, s->now_ns, true, &next_ns);

	client->is_stopping = true;
	if (operations)
		s->store->kind->submit(s->client, operations);
	ask_op(s, ALGO_PEEK, 1); /* behind them */
	client->is_stopping = false;
}

static uint64_t draw(uint64_t *seed, uint64_t n)
{
	*seed = *seed * UINT64_C(6364136223846793005) + 1442695040888963407;
	return (*seed >> 33) % n;
}

/* Another server at the same Redis and bucket. */
static void join(struct scene *s, const struct scene *first_of_all)
{
	*s = (struct scene){.server = first_of_all->server, .now_ns = NOW};
	open_store(s, "", (struct redis_options){.denied_cache_ns = NS_PER_S, .given_time = true});
	init(&s->limit, &bucket, 20);
}

static void leave(struct scene *s)
{
	redis_client_close(s->client);
	blocking_close(s->transport);
	redis_store_close(s->store);
	algo_limit_free(&s->limit);
}

/* Acquires at both until both deny. */
static size_t exhaust(struct scene *one, struct scene *other)
{
	size_t allowed = 0;

	while (acquire(one, 1).allowed)
		allowed++;
	while (acquire(other, 1).allowed)
		allowed++;
	while (acquire(one, 1).allowed)
		allowed++;
	return allowed;
}

static void a_chunk_is_returned_to_a_bucket_even_after_later_charges(void **state)
{
	struct scene *s = begin(&bucket, 20, true), other;

	(void)state;
	join(&other, s);
	for (size_t i = 0; i < 2; i++)
		assert_true(acquire(s, 1).allowed);
	for (size_t i = 0; i < 2; i++)
		assert_true(acquire(&other, 1).allowed);
	return_chunks(s);
	assert_int_equal(ask_op(s, ALGO_PEEK, 1).outcome.remaining, 100 - 2 - 2 - 20);
	s->now_ns = other.now_ns = NOW + 22 * NS_PER_MS;
	assert_int_equal(exhaust(s, &other), 100);
	leave(&other);
	end(s);
}

/* Used units leak, and held units do not. */
static void held_units_of_a_bucket_do_not_leak(void **state)
{
	static const uint64_t rests_ms[] = {0, 10, 25};

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		struct scene *s = begin(&bucket, 20, true), other;

		join(&other, s);
		assert_true(acquire(s, 1).allowed && acquire(s, 1).allowed);
		s->now_ns = other.now_ns = NOW + rests_ms[i] * NS_PER_MS;
		assert_int_equal(exhaust(&other, s), rests_ms[i] == 0 ? 98 : 100);
		leave(&other);
		end(s);
	}
}

/* They begin to leak then, although the bucket was as new before. */
static void units_count_from_when_they_were_used(void **state)
{
	struct scene *s = begin(&bucket, 20, true), other;

	(void)state;
	join(&other, s);
	assert_true(acquire(s, 1).allowed && acquire(s, 1).allowed);
	s->now_ns = other.now_ns = NOW + 50 * NS_PER_MS;
	for (size_t i = 0; i < 20; i++)
		assert_true(acquire(s, 1).allowed);
	return_chunks(s);
	assert_int_equal(exhaust(&other, &other), 80);
	leave(&other);
	end(s);
}

/*
 * Units that a server has used and not reported count after a refund that finds nothing more in
 * use.
 */
static void a_refund_preserves_unsettled_uses_of_chunks(void **state)
{
	struct scene *s = begin(&bucket, 20, true), other;

	(void)state;
	join(&other, s);
	assert_true(acquire(s, 1).allowed && acquire(s, 1).allowed);
	assert_true(acquire(&other, 60).allowed);
	for (size_t i = 0; i < 18; i++)
		assert_true(acquire(s, 1).allowed);
	/* 80 were used, of which 50 have leaked; Redis knows of 62. */
	s->now_ns = other.now_ns = NOW + 50 * NS_PER_MS;
	ask_op(&other, ALGO_REFUND, 28);
	return_chunks(s);
	assert_in_range(exhaust(&other, &other), 100 - 18, 100 - 2);
	leave(&other);
	end(s);
}

/* A server with a lower burst converts the state, and leaves the entries as they are. */
static void a_chunk_outlives_a_change_of_parameters(void **state)
{
	static const struct weir_limit_options lower = {.rate = {1000, 1, WEIR_UNIT_SECOND},
	                                                .burst = 80};
	struct scene *s = begin(&bucket, 20, true), other;

	(void)state;
	join(&other, s);
	init(&other.limit, &lower, 20);
	assert_true(acquire(s, 1).allowed && acquire(s, 1).allowed);
	s->now_ns = other.now_ns = NOW + 10 * NS_PER_MS; /* the used units have leaked */
	assert_int_equal(exhaust(&other, &other), 80 - 20);
	for (size_t i = 0; i < 20; i++)
		assert_true(acquire(s, 1).allowed);
	assert_false(acquire(&other, 1).allowed);
	leave(&other);
	end(s);
}

/*
 * Several servers at one bucket, each busy or idle at random. In any span of time no more passes
 * than the burst and the tokens of that span; and nearly as much.
 */
static void a_bucket_is_never_exceeded(void **state)
{
	enum { SERVERS = 3, STEPS = 4000 };
	const char *given = getenv("WEIR_TEST_SEED");
	uint64_t seed = given ? strtoull(given, NULL, 10) : (uint64_t)getpid();
	struct scene *s = begin(&bucket, 20, true), others[SERVERS - 1], *servers[SERVERS] = {s};
	struct {
		uint64_t at_ns, passed;
	} *seen = calloc(STEPS, sizeof *seen);
	uint64_t passed = 0, busy = 0;

	(void)state;
	print_message("WEIR_TEST_SEED=%llu\n", (unsigned long long)seed);
	for (size_t i = 1; i < SERVERS; i++)
		join(servers[i] = &others[i - 1], s);
	for (size_t i = 0; i < STEPS; i++) {
		struct scene *one = servers[(draw(&seed, 4) == 0 ? draw(&seed, SERVERS) : busy)];
		uint64_t cost = draw(&seed, 10) == 0 ? 3 : 1;

		one->now_ns = s->now_ns;
		if (acquire(one, cost).allowed)
			passed += cost;
		if (draw(&seed, 30) == 0)
			return_chunks(one);
		seen[i].at_ns = s->now_ns;
		seen[i].passed = passed;
		if (draw(&seed, 200) == 0)
			busy = draw(&seed, SERVERS);
		s->now_ns +=
		    draw(&seed, 2) * NS_PER_MS / 2 + (draw(&seed, 100) == 0) * draw(&seed, 150) * NS_PER_MS;
	}
	for (size_t from = 1; from < STEPS; from += 7)
		for (size_t to = from; to < STEPS; to += 3) {
			uint64_t span_ns = seen[to].at_ns - seen[from].at_ns;

			if (seen[to].passed - seen[from - 1].passed > 100 + span_ns / NS_PER_MS)
				fail_msg("steps %zu to %zu: %llu in %llu us", from, to,
				         (unsigned long long)(seen[to].passed - seen[from - 1].passed),
				         (unsigned long long)span_ns / 1000);
		}
	assert_true(stats_of(s).granted_by_chunks > 0);
	for (size_t i = 1; i < SERVERS; i++)
		leave(servers[i]);
	free(seen);
	end(s);
}

static void alone_a_bucket_gives_all_of_its_rate(void **state)
{
	struct scene *s = begin(&bucket, 10, true);
	uint64_t passed = 0;

	(void)state;
	for (uint64_t i = 0; i < 4000; i++) {
		passed += acquire(s, 1).allowed;
		s->now_ns += NS_PER_MS / 2;
	}
	assert_in_range(passed, 100 + 2000 - 20, 100 + 2000);
	end(s);
}

static void a_reset_forgets_the_used_units_of_a_chunk(void **state)
{
	struct scene *s = begin(&window, 1000, true);

	(void)state;
	for (uint64_t i = 0; i < 10; i++)
		assert_true(acquire(s, 1).allowed);
	ask_op(s, ALGO_RESET, 0);
	for (uint64_t i = 1; i <= 1000; i++)
		assert_int_equal(acquire(s, 1).remaining, 1000 - i);
	assert_false(acquire(s, 1).allowed);
	end(s);
}

static void a_peek_counts_the_units_held_here_as_free(void **state)
{
	struct scene *s = begin(&window, 500, true);

	(void)state;
	for (uint64_t i = 0; i < 10; i++)
		assert_true(acquire(s, 1).allowed);
	assert_int_equal(ask_op(s, ALGO_PEEK, 1).outcome.remaining, 990);
	assert_int_equal(acquire(s, 1).remaining, 989);
	end(s);
}

/* Those that wait for a chunk, and find it too small. */
static void equal_requests_of_an_iteration_get_the_units_that_are_left(void **state)
{
	struct scene *s = begin(&window, 100, true);
	struct one ones[1100];
	size_t allowed = 0;

	(void)state;
	for (size_t i = 0; i < 1100; i++)
		make(s, &ones[i], "k", 1);
	run(s, ones, 1100);
	for (size_t i = 0; i < 1100; i++) {
		assert_int_equal(ones[i].operation.status, WEIR_OK);
		allowed += ones[i].operation.outcome.allowed;
	}
	while (acquire(s, 1).allowed)
		allowed++;
	assert_int_equal(allowed, 1000);
	end(s);
}

/*
 * The chunk has all units of one limit while a group asks for one of them. The group's first call
 * leaves the chunk to the command that takes it, so both of its limits have to be asked again.
 */
static void a_group_waits_for_the_units_of_a_chunk(void **state)
{
	static const struct weir_limit_options slow = {.rate = {1000, 1, WEIR_UNIT_DAY}, .burst = 1000};
	static const struct weir_limit_options *const options[] = {&window, &slow};

	(void)state;
	for (size_t k = 0; k < 4; k++) {
		struct scene *s = begin(options[k / 2], 1000, true);
		struct algo_limit plain = {0};
		struct one alone, group[2], *chunked = &group[k % 2], *other = &group[1 - k % 2];

		init(&plain, &first, 0);
		assert_true(acquire(s, 1).allowed);
		make(s, &alone, "k", 1);
		make(s, chunked, "k", 1);
		make(s, other, "other", 1);
		other->operation.step.limit = &plain;
		s->store->kind->submit(s->client, &alone.operation);
		for (size_t i = 0; i < 2; i++)
			group[i].operation.is_all_or_nothing = true;
		group[0].operation.next = &group[1].operation;
		run(s, group, 1);
		for (size_t i = 0; i < 2; i++) {
			assert_int_equal(group[i].operation.status, WEIR_OK);
			assert_false(group[i].operation.withheld);
			assert_true(group[i].operation.outcome.allowed);
		}
		assert_int_equal(other->operation.outcome.remaining, 999);
		algo_limit_free(&plain);
		end(s);
	}
}

/* The units that Redis counts as in use, by its own clock. */
static uint64_t in_use(struct scene *s)
{
	struct algo_limit plain = s->limit;
	struct one one;

	plain.chunk = 0;
	blocking_poll(s->transport);
	make(s, &one, "k", 1);
	one.operation.step.call.op = ALGO_PEEK;
	one.operation.step.limit = &plain;
	run(s, &one, 1);
	assert_int_equal(one.operation.status, WEIR_OK);
	return plain.quota - one.operation.outcome.remaining;
}

static void unused_units_are_returned(void **state)
{
	static const struct weir_limit_options slow = {.rate = {1000, 1, WEIR_UNIT_DAY}, .burst = 1000};
	static const struct weir_limit_options *const options[] = {&first, &slow};

	(void)state;
	for (size_t k = 0; k < 2; k++) {
		struct scene *s = begin(options[k], 500, false);
		uint64_t taken = 0, used;

		do { /* repeated if the machine stood still until the chunk was returned */
			assert_true(acquire(s, 1).allowed);
			taken++;
			used = in_use(s);
		} while (used == taken);
		assert_in_range(used, 400 + taken - 1, 500 + taken);
		for (size_t i = 0; in_use(s) != taken; i++) {
			assert_true(i < 6000);
			poll(NULL, 0, 10);
		}
		assert_true(acquire(s, 1000 - taken).allowed);
		end(s);
	}
}

static void a_chunk_grants_while_redis_is_unavailable(void **state)
{
	struct scene *s = begin(&window, 500, true);
	size_t allowed = 0;
	struct one one;

	(void)state;
	for (uint64_t i = 0; i < 5; i++)
		assert_true(acquire(s, 1).allowed);
	server_kill(&s->server);
	while (ask(s, "k", &one) == WEIR_OK && one.operation.outcome.allowed)
		allowed++;
	assert_in_range(allowed, 400, 500);
	assert_int_equal(one.operation.status, WEIR_ESTORE);
	end(s);
}

static void keys_beyond_the_table_ask_for_each_request(void **state)
{
	struct scene *s = begin(&window, 100, true);

	(void)state;
	for (size_t round = 0; round < 3; round++)
		for (size_t i = 0; i < 6000; i += 60) {
			static struct one ones[60];

			for (size_t j = 0; j < 60; j++) {
				char key[16];

				snprintf(key, sizeof key, "k%zu", i + j);
				make(s, &ones[j], key, 1);
			}
			run(s, ones, 60);
			for (size_t j = 0; j < 60; j++)
				assert_int_equal(ones[j].operation.outcome.remaining, 999 - round);
		}
	end(s);
}

static void chunks_apply_to_buckets_and_windows(void **state)
{
	static const struct {
		struct weir_limit_options options;
		bool applies;
	} cases[] = {
	    {{.rate = {50}}, true},
	    {{.algorithm = WEIR_ALGORITHM_LEAKY_BUCKET, .rate = {50}}, true},
	    {{.algorithm = WEIR_ALGORITHM_FIXED_WINDOW, .rate = {50}}, true},
	    {{.algorithm = WEIR_ALGORITHM_RESETTING_BUCKET, .rate = {50}}, true},
	    {{.algorithm = WEIR_ALGORITHM_SLIDING_WINDOW, .rate = {50}}, false},
	    {{.algorithm = WEIR_ALGORITHM_SLIDING_LOG, .rate = {50}}, false},
	    {{.algorithm = WEIR_ALGORITHM_PACER, .rate = {50}}, false},
	    {{.algorithm = WEIR_ALGORITHM_LEAKY_QUEUE, .rate = {50}}, false},
	    {{.algorithm = WEIR_ALGORITHM_CONCURRENCY, .max = 50}, false},
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct algo_limit limit = {0};
		struct store_operation operation = {.step = {.limit = &limit, .call = {.cost = 1}}};

		init(&limit, &cases[i].options, 10);
		assert_int_equal(chunk_applies(&operation), cases[i].applies);
		operation.step.call.cost = 11;
		assert_false(chunk_applies(&operation));
		operation.step.call.cost = 1;
		operation.is_all_or_nothing = true;
		assert_false(chunk_applies(&operation));
		algo_limit_free(&limit);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_window_is_handed_out_in_chunks),
	    cmocka_unit_test(a_chunk_ends_with_its_window),
	    cmocka_unit_test(a_chunk_is_returned_to_a_bucket_even_after_later_charges),
	    cmocka_unit_test(held_units_of_a_bucket_do_not_leak),
	    cmocka_unit_test(units_count_from_when_they_were_used),
	    cmocka_unit_test(a_refund_preserves_unsettled_uses_of_chunks),
	    cmocka_unit_test(a_chunk_outlives_a_change_of_parameters),
	    cmocka_unit_test(a_bucket_is_never_exceeded),
	    cmocka_unit_test(alone_a_bucket_gives_all_of_its_rate),
	    cmocka_unit_test(a_reset_forgets_the_used_units_of_a_chunk),
	    cmocka_unit_test(a_peek_counts_the_units_held_here_as_free),
	    cmocka_unit_test(equal_requests_of_an_iteration_get_the_units_that_are_left),
	    cmocka_unit_test(a_group_waits_for_the_units_of_a_chunk),
	    cmocka_unit_test(unused_units_are_returned),
	    cmocka_unit_test(a_chunk_grants_while_redis_is_unavailable),
	    cmocka_unit_test(keys_beyond_the_table_ask_for_each_request),
	    cmocka_unit_test(chunks_apply_to_buckets_and_windows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
