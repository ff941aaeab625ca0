/*
 * Tests that a limit whose table becomes larger, by `keys` or by wider records, goes on as if the
 * table had always been so large. A twin whose table is as large from the start gets the same calls
 * at the same times, and each answer has to be the same.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <weir/weir.h>

#include "path.h"

#define NOW     UINT64_C(1700000000000000000)
#define S       UINT64_C(1000000000)
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define ROUNDS 20
#else
#define ROUNDS 100
#endif
#define CALLS   120
#define PERMITS 16
#define KEYS    3

/* The same limit before a reload, and after it. */
struct change {
	const char *name;
	struct weir_limit_options before, after;
};

#define RATE(count) .rate = {count, 10, WEIR_UNIT_SECOND}
#define BOTH(options, ...)                                                                         \
	.before = {__VA_ARGS__, .keys = 60, options}, .after = {__VA_ARGS__, .keys = 3000, options}

static const struct weir_breaker_options some = {.minimum = 3,
                                                 .sleep_ns = 4 * S,
                                                 .window_ns = 20 * S,
                                                 .ramp_ns = WEIR_ZERO,
                                                 .max_concurrent = 3,
                                                 .permit_timeout_ns = 30 * S};
static const struct weir_breaker_options flock = {.minimum = 3,
                                                  .sleep_ns = 4 * S,
                                                  .window_ns = 20 * S,
                                                  .ramp_ns = WEIR_ZERO,
                                                  .permit_timeout_ns = 30 * S};

static const struct weir_adaptive_options eight = {.max = 8};

static const struct change more_keys[] = {
    {"sliding_window", BOTH(RATE(6), .algorithm = WEIR_ALGORITHM_SLIDING_WINDOW, .slots = 5)},
    {"sliding_counter", BOTH(RATE(6), .algorithm = WEIR_ALGORITHM_SLIDING_COUNTER)},
    {"sliding_log", BOTH(RATE(6), .algorithm = WEIR_ALGORITHM_SLIDING_LOG)},
    {"long sliding_log", BOTH(RATE(200), .algorithm = WEIR_ALGORITHM_SLIDING_LOG)},
    {"base", BOTH(RATE(3), .algorithm = WEIR_ALGORITHM_BASE, .base = 4)},
    {"concurrency", BOTH(.max = 5, .algorithm = WEIR_ALGORITHM_CONCURRENCY, .lease_ns = 20 * S)},
    {"breaker with places", BOTH(.breaker = &some, .algorithm = WEIR_ALGORITHM_BREAKER)},
    {"breaker", BOTH(.breaker = &flock, .algorithm = WEIR_ALGORITHM_BREAKER)},
    {"adaptive", BOTH(.adaptive = &eight, .algorithm = WEIR_ALGORITHM_ADAPTIVE)},
    {"throttle", BOTH(.retry_ns = S, .algorithm = WEIR_ALGORITHM_THROTTLE)},
};

/* Counts that need wider records. */
#define LOG(few, many)                                                                             \
	{                                                                                              \
		"sliding_log " #few " to " #many, {RATE(few), .algorithm = WEIR_ALGORITHM_SLIDING_LOG},    \
		{                                                                                          \
			RATE(many), .algorithm = WEIR_ALGORITHM_SLIDING_LOG                                    \
		}                                                                                          \
	}

static const struct change wider_records[] = {
    LOG(8, 15),
    LOG(11, 40),
    LOG(5, 120),
    LOG(10, 400),
    LOG(30, 1000),
    LOG(150, 300),
    {"concurrency",
     {.max = 5, .algorithm = WEIR_ALGORITHM_CONCURRENCY, .lease_ns = 20 * S},
     {.max = 40, .algorithm = WEIR_ALGORITHM_CONCURRENCY, .lease_ns = 20 * S}},
};

static uint64_t u_min(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t state;

static uint64_t draw(uint64_t below)
{
	state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (state >> 33) % below;
}

/* One of the two tables, with the permits taken from it. */
struct side {
	weir_table *table;
	weir_limit *limits[2];
	const weir_limit *limit;
	struct weir_permit permits[PERMITS];
};

static void open_side(struct side *side, const struct change *change, const char *file)
{
	const struct weir_table_options options = {.capacity = 1000, .path = file};

	assert_int_equal(weir_table_open(&options, &side->table, NULL), WEIR_OK);
	assert_int_equal(weir_limit_open(&change->before, &side->limits[0], NULL), WEIR_OK);
	assert_int_equal(weir_limit_open(&change->after, &side->limits[1], NULL), WEIR_OK);
	side->limit = side->limits[0];
	memset(side->permits, 0, sizeof side->permits);
}

static void close_side(struct side *side)
{
	weir_limit_close(side->limits[0]);
	weir_limit_close(side->limits[1]);
	weir_table_close(side->table);
}

struct call {
	unsigned op, permit, part;
	uint64_t cost, now_ns;
	char key;
};

/* Returns the status, and what the limit says of the key then. */
static int run(struct side *side, const struct call *call, struct weir_decision *d)
{
	struct weir_permit *permit = &side->permits[call->permit], part = *permit;
	int status;

	memset(d, 0, sizeof *d);
	if (call->part && part.cost > 1)
		part.cost--;
	switch (call->op) {
	case 0:
		return weir_peek(side->table, side->limit, (struct weir_key){&call->key, 1}, call->cost,
		                 call->now_ns, d);
	case 1:
		return weir_refund_permit(side->table, side->limit, (struct weir_key){&call->key, 1}, &part,
		                          call->now_ns, d);
	case 2:
	case 3:
		status = weir_report(side->table, side->limit, (struct weir_key){&call->key, 1}, permit,
		                     &(struct weir_report){.outcome = call->op == 2 ? WEIR_OUTCOME_SUCCESS
		                                                                    : WEIR_OUTCOME_FAILURE,
		                                           .latency_ns = S,
		                                           .now_ns = call->now_ns});
		assert_int_equal(weir_peek(side->table, side->limit, (struct weir_key){&call->key, 1}, 1,
		                           call->now_ns, d),
		                 0);
		return status;
	case 4:
		return weir_refund(side->table, side->limit, (struct weir_key){&call->key, 1}, call->cost,
		                   call->now_ns, d);
	case 5:
		return weir_reset(side->table, side->limit, (struct weir_key){&call->key, 1}, call->now_ns,
		                  d);
	default:
		return weir_ask(
		    side->table, side->limit, (struct weir_key){&call->key, 1},
		    &(struct weir_ask){.cost = call->cost, .now_ns = call->now_ns, .permit = permit}, d);
	}
}

static void grow(struct side *side)
{
	assert_int_equal(weir_table_reserve(side->table, side->limits[1], NULL), WEIR_OK);
	side->limit = side->limits[1];
}

static struct call draw_call(const struct change *change, uint64_t now_ns)
{
	bool many = change->before.algorithm != WEIR_ALGORITHM_BREAKER &&
	            change->before.algorithm != WEIR_ALGORITHM_ADAPTIVE &&
	            change->before.algorithm != WEIR_ALGORITHM_THROTTLE;
	uint64_t kind = draw(40);
	unsigned permit = (unsigned)draw(PERMITS);

	return (struct call){
	    .op = kind < 6 ? 0 : kind < 16 ? 1 + (unsigned)draw(3) : kind == 16 ? 4 : kind == 17 ? 5 : 6,
	    .permit = permit,
	    .part = draw(5) == 0,
	    .cost = many ? 1 + draw(3) / 2 : 1,
	    .now_ns = now_ns,
	    .key = (char)('a' + permit % KEYS)};
}

/* The file is the larger table's: the twin has another one, or memory, which decides the same. */
static void play(const struct change *change, const char *file, uint64_t seed)
{
	struct side grown, twin;
	uint64_t now_ns = NOW, when;

	state = seed;
	when = draw(CALLS);
	open_side(&grown, change, file);
	open_side(&twin, change, NULL);
	assert_int_equal(weir_table_reserve(grown.table, grown.limits[0], NULL), WEIR_OK);
	assert_int_equal(weir_table_reserve(twin.table, twin.limits[1], NULL), WEIR_OK);
	for (uint64_t i = 0; i < CALLS; i++) {
		struct call call;
		struct weir_decision a, b;
		int status[2];

		if (i == when) {
			grow(&grown);
			twin.limit = twin.limits[1];
		}
		now_ns += draw(3) == 0 ? 0 : draw(2) ? draw(S / 4) : draw(3 * S);
		call = draw_call(change, now_ns);
		weir_seed(i);
		status[0] = run(&grown, &call, &a);
		weir_seed(i);
		status[1] = run(&twin, &call, &b);
		if (status[0] != status[1] || a.allowed != b.allowed || a.remaining != b.remaining ||
		    a.retry_after_ns != b.retry_after_ns || a.reset_after_ns != b.reset_after_ns)
			fail_msg("%s, seed %llu, call %llu of kind %u, grown at %llu: status %d and %d, allowed %d "
			         "and %d, remaining %llu and %llu, retry %llu and %llu, reset %llu and %llu",
			         change->name, (unsigned long long)seed, (unsigned long long)i, call.op,
			         (unsigned long long)when, status[0], status[1], a.allowed, b.allowed,
			         (unsigned long long)a.remaining, (unsigned long long)b.remaining,
			         (unsigned long long)a.retry_after_ns, (unsigned long long)b.retry_after_ns,
			         (unsigned long long)a.reset_after_ns, (unsigned long long)b.reset_after_ns);
	}
	close_side(&grown);
	close_side(&twin);
	if (file)
		assert_int_equal(unlink(file), 0);
}

static void play_all(const struct change *changes, size_t n)
{
	for (size_t i = 0; i < n; i++)
		for (uint64_t seed = 1; seed <= ROUNDS; seed++)
			play(&changes[i], seed % 10 == 0 ? path : NULL, seed);
}

static void more_keys_change_nothing_else(void **context)
{
	(void)context;
	play_all(more_keys, sizeof more_keys / sizeof *more_keys);
}

static void wider_records_change_nothing_else(void **context)
{
	(void)context;
	play_all(wider_records, sizeof wider_records / sizeof *wider_records);
}

/*
 * From a count of 2^16 on, a header has another form. A twin whose count stays below that gets the
 * same calls, and is reloaded at the same times, between the small count and the large one.
 */
static void play_forms(const struct weir_limit_options *options, const char *file, uint64_t seed)
{
	struct change far = {.before = *options, .after = *options}, near = far;
	struct side sides[2];
	uint64_t now_ns = NOW;
	bool is_large = seed % 2;

	state = seed;
	far.after.rate.count = 70000;
	near.after.rate.count = 65000;
	open_side(&sides[0], &far, file);
	open_side(&sides[1], &near, NULL);
	for (uint64_t i = 0; i < CALLS; i++) {
		struct weir_decision d[2];
		struct call call;
		int status[2];

		is_large ^= draw(8) == 0;
		now_ns += draw(3) == 0 ? 0 : draw(2) ? draw(S / 4) : draw(3 * S);
		call = draw_call(&far, now_ns);
		for (unsigned j = 0; j < 2; j++) {
			sides[j].limit = sides[j].limits[is_large];
			status[j] = run(&sides[j], &call, &d[j]);
		}
		if (status[0] != status[1] || d[0].allowed != d[1].allowed ||
		    d[0].quota - d[0].remaining != d[1].quota - d[1].remaining ||
		    d[0].retry_after_ns != d[1].retry_after_ns || d[0].reset_after_ns != d[1].reset_after_ns)
			fail_msg("seed %llu, call %llu of kind %u: status %d and %d, allowed %d and %d, in use %llu "
			         "and %llu, retry %llu and %llu, reset %llu and %llu",
			         (unsigned long long)seed, (unsigned long long)i, call.op, status[0], status[1],
			         d[0].allowed, d[1].allowed, (unsigned long long)(d[0].quota - d[0].remaining),
			         (unsigned long long)(d[1].quota - d[1].remaining),
			         (unsigned long long)d[0].retry_after_ns, (unsigned long long)d[1].retry_after_ns,
			         (unsigned long long)d[0].reset_after_ns, (unsigned long long)d[1].reset_after_ns);
	}
	close_side(&sides[0]);
	close_side(&sides[1]);
	if (file)
		assert_int_equal(unlink(file), 0);
}

static void a_count_that_crosses_2_to_the_16_changes_nothing_else(void **context)
{
	static const struct weir_limit_options kinds[] = {
	    {RATE(6), .algorithm = WEIR_ALGORITHM_SLIDING_WINDOW, .slots = 5},
	    {RATE(6), .algorithm = WEIR_ALGORITHM_SLIDING_COUNTER},
	};

	(void)context;
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
		for (uint64_t seed = 1; seed <= ROUNDS; seed++)
			play_forms(&kinds[i], seed % 10 == 0 ? path : NULL, seed);
}

/* The slot's count needs more than 16 bits, and a smaller limit denies until the slot is over. */
static void a_large_count_keeps_its_time_under_a_small_limit(void **context)
{
	const struct change change = {
	    .before = {RATE(100000), .algorithm = WEIR_ALGORITHM_SLIDING_WINDOW, .slots = 5},
	    .after = {RATE(50000), .algorithm = WEIR_ALGORITHM_SLIDING_WINDOW, .slots = 5}};
	struct weir_permit permits[2];
	struct weir_decision d;
	struct side side;

	(void)context;
	open_side(&side, &change, NULL);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(
		    weir_ask(side.table, side.limits[0], (struct weir_key){"k", 1},
		             &(struct weir_ask){.cost = 45000, .now_ns = NOW, .permit = &permits[i]}, &d),
		    WEIR_OK);
		assert_true(d.allowed);
	}
	weir_acquire(side.table, side.limits[1], (struct weir_key){"k", 1}, 1, NOW + 5 * S, &d);
	assert_false(d.allowed);
	assert_int_equal(d.retry_after_ns, 5 * S);
	weir_refund_permit(side.table, side.limits[1], (struct weir_key){"k", 1}, &permits[1],
	                   NOW + 7 * S, &d);
	assert_true(d.allowed);
	assert_int_equal(d.remaining, 5000);
	weir_acquire(side.table, side.limits[1], (struct weir_key){"k", 1}, 5000, NOW + 7 * S, &d);
	assert_true(d.allowed);
	weir_peek(side.table, side.limits[1], (struct weir_key){"k", 1}, 45000, NOW + 8 * S, &d);
	assert_false(d.allowed);
	assert_int_equal(d.retry_after_ns, 2 * S);
	close_side(&side);
}

/* Permits that nobody reports stay in flight for all of a play. */
static const struct weir_breaker_options by_time = {.minimum = 3,
                                                    .sleep_ns = 4 * S,
                                                    .window_ns = 20 * S,
                                                    .ramp_ns = WEIR_ZERO,
                                                    .permit_timeout_ns = 10000 * S};
static const struct weir_breaker_options by_calls = {.minimum = 3,
                                                     .sleep_ns = 4 * S,
                                                     .calls = 40,
                                                     .ramp_ns = WEIR_ZERO,
                                                     .permit_timeout_ns = 10000 * S};

/*
 * A breaker whose max_concurrent changes, in its records or to wider ones. The twin's stays, and
 * neither is reached.
 */
static void play_breaker(const struct weir_breaker_options *kind, uint64_t few, uint64_t many,
                         uint64_t seed)
{
	struct weir_breaker_options before = *kind, after = *kind, same = *kind;
	const struct change changing = {
	    .before = {.breaker = &before, .algorithm = WEIR_ALGORITHM_BREAKER},
	    .after = {.breaker = &after, .algorithm = WEIR_ALGORITHM_BREAKER}};
	const struct change constant = {
	    .before = {.breaker = &same, .algorithm = WEIR_ALGORITHM_BREAKER},
	    .after = {.breaker = &same, .algorithm = WEIR_ALGORITHM_BREAKER}};
	struct side sides[2];
	uint64_t now_ns = NOW;
	bool is_many = false;

	before.max_concurrent = few;
	after.max_concurrent = many;
	same.max_concurrent = 300;
	state = seed;
	open_side(&sides[0], &changing, seed % 5 == 0 ? path : NULL);
	open_side(&sides[1], &constant, NULL);
	for (uint64_t i = 0; i < CALLS; i++) {
		struct weir_decision d[2];
		struct call call;
		uint64_t in_use[2];
		int status[2];

		is_many ^= draw(20) == 0;
		sides[0].limit = sides[0].limits[is_many];
		now_ns += draw(3) == 0 ? 0 : draw(2) ? draw(S / 4) : draw(3 * S);
		call = draw_call(&changing, now_ns);
		/* Without a bound, permits of one part of time are told apart by their number only. */
		if (call.op == 4 || (call.op == 5 && (few == 0 || many == 0)))
			call.op = 0;
		for (unsigned j = 0; j < 2; j++) {
			weir_seed(i);
			status[j] = run(&sides[j], &call, &d[j]);
			in_use[j] = d[j].quota - d[j].remaining;
		}
		if ((is_many ? many : few) == 0 || d[1].remaining <= 1) /* probes */
			in_use[0] = in_use[1];
		if (status[0] != status[1] || d[0].allowed != d[1].allowed || in_use[0] != in_use[1] ||
		    d[0].retry_after_ns != d[1].retry_after_ns)
			fail_msg(
			    "%llu and %llu, seed %llu, call %llu of kind %u, key %c: status %d and %d, allowed "
			    "%d and %d, in use %llu and %llu, retry %llu and %llu",
			    (unsigned long long)few, (unsigned long long)many, (unsigned long long)seed,
			    (unsigned long long)i, call.op, call.key, status[0], status[1], d[0].allowed,
			    d[1].allowed, (unsigned long long)in_use[0], (unsigned long long)in_use[1],
			    (unsigned long long)d[0].retry_after_ns, (unsigned long long)d[1].retry_after_ns);
	}
	close_side(&sides[0]);
	close_side(&sides[1]);
	if (seed % 5 == 0)
		assert_int_equal(unlink(path), 0);
}

static void another_max_concurrent_changes_nothing_else(void **context)
{
	static const uint64_t pairs[][2] = {{85, 100}, {40, 100}, {85, 500},
	                                    {90, 0},   {50, 0},   {0, 400}};

	(void)context;
	for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
		for (uint64_t seed = 1; seed <= ROUNDS; seed++) {
			play_breaker(&by_time, pairs[i][0], pairs[i][1], seed);
			play_breaker(&by_calls, pairs[i][0], pairs[i][1], seed);
		}
	}
}

/* A bound that is lowered counts what is in flight. */
static void permits_in_flight_count_towards_a_lower_bound(void **context)
{
	static const uint64_t bounds[][2] = {{5, 2}, {0, 2}, {100, 2}, {2, 40}, {40, 3}, {0, 200}};

	(void)context;
	for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++) {
		struct weir_breaker_options before = by_time, after = by_time;
		const struct change change = {
		    .before = {.breaker = &before, .algorithm = WEIR_ALGORITHM_BREAKER},
		    .after = {.breaker = &after, .algorithm = WEIR_ALGORITHM_BREAKER}};
		uint64_t held = bounds[i][0] ? u_min(bounds[i][0], 30) : 30, most = bounds[i][1];
		struct weir_permit permits[30], more;
		struct weir_decision d;
		struct side side;

		before.max_concurrent = bounds[i][0];
		after.max_concurrent = most;
		open_side(&side, &change, i % 2 ? path : NULL);
		for (uint64_t n = 0; n < held; n++) {
			assert_int_equal(weir_ask(side.table, side.limits[0], (struct weir_key){"k", 1},
			                          &(struct weir_ask){.now_ns = NOW + n, .permit = &permits[n]},
			                          &d),
			                 WEIR_OK);
			assert_true(d.allowed);
		}
		for (uint64_t n = held; n > 0; n--) {
			assert_int_equal(weir_ask(side.table, side.limits[1], (struct weir_key){"k", 1},
			                          &(struct weir_ask){.now_ns = NOW + 100, .permit = &more}, &d),
			                 WEIR_OK);
			assert_int_equal(d.allowed, n < most);
			if (d.allowed)
				assert_int_equal(
				    weir_report(side.table, side.limits[1], (struct weir_key){"k", 1}, &more,
				                &(struct weir_report){.latency_ns = 1, .now_ns = NOW + 100}),
				    WEIR_OK);
			assert_int_equal(
			    weir_report(side.table, side.limits[1], (struct weir_key){"k", 1}, &permits[n - 1],
			                &(struct weir_report){.latency_ns = 1, .now_ns = NOW + 100}),
			    WEIR_OK);
			assert_int_equal(
			    weir_report(side.table, side.limits[1], (struct weir_key){"k", 1}, &permits[n - 1],
			                &(struct weir_report){.latency_ns = 1, .now_ns = NOW + 100}),
			    WEIR_ENOTFOUND);
		}
		assert_int_equal(
		    weir_peek(side.table, side.limits[1], (struct weir_key){"k", 1}, 1, NOW + 100, &d),
		    WEIR_OK);
		assert_int_equal(d.remaining, most);
		close_side(&side);
		if (i % 2)
			assert_int_equal(unlink(path), 0);
	}
}

#define THREADS 3
#define RACES   200
#define STEPS   60

/* Threads that take and give back while the limit's records become wider. */
static struct {
	struct side side;
	const weir_limit *limit;
	unsigned done;
	int64_t taken;
} race;

static void *take_and_give(void *context)
{
	struct weir_permit permits[STEPS];
	uint64_t mix = (uint64_t)(uintptr_t)context;
	struct weir_decision d;
	int64_t taken = 0;

	for (unsigned i = 0; i < STEPS; i++) {
		const weir_limit *limit = __atomic_load_n(&race.limit, __ATOMIC_ACQUIRE);

		permits[i].id = 0;
		if (weir_ask(race.side.table, limit, (struct weir_key){"k", 1},
		             &(struct weir_ask){.now_ns = NOW, .permit = &permits[i]}, &d) != WEIR_OK)
			abort();
		taken += d.allowed;
		mix = mix * UINT64_C(6364136223846793005) + 1;
		if (i > 0 && (mix >> 60) % 2 == 0 && permits[i - 1].id != 0 &&
		    weir_refund_permit(race.side.table, limit, (struct weir_key){"k", 1}, &permits[i - 1],
		                       NOW, &d) == WEIR_OK &&
		    d.allowed)
			taken--;
		__atomic_fetch_add(&race.done, 1, __ATOMIC_RELEASE);
	}
	__atomic_fetch_add(&race.taken, taken, __ATOMIC_RELAXED);
	return NULL;
}

static void records_widen_while_others_take_and_give_back(void **context)
{
	(void)context;
	for (uint64_t round = 0; round < RACES; round++) {
		const struct change *change = &wider_records[round % 6];
		struct weir_decision d;
		pthread_t threads[THREADS];

		state = round;
		race.done = 0;
		race.taken = 0;
		open_side(&race.side, change, NULL);
		assert_int_equal(weir_table_reserve(race.side.table, race.side.limits[0], NULL), WEIR_OK);
		race.limit = race.side.limits[0];
		for (uintptr_t i = 0; i < THREADS; i++)
			assert_int_equal(pthread_create(&threads[i], NULL, take_and_give,
			                                (void *)(uintptr_t)(round * THREADS + i)), 0);
		for (uint64_t when = draw(STEPS * THREADS / 2);
		     __atomic_load_n(&race.done, __ATOMIC_ACQUIRE) < when;)
			;
		assert_int_equal(weir_table_reserve(race.side.table, race.side.limits[1], NULL), WEIR_OK);
		__atomic_store_n(&race.limit, race.side.limits[1], __ATOMIC_RELEASE);
		for (unsigned i = 0; i < THREADS; i++)
			pthread_join(threads[i], NULL);
		assert_int_equal(
		    weir_peek(race.side.table, race.side.limits[1], (struct weir_key){"k", 1}, 0, NOW, &d),
		    WEIR_OK);
		if (d.quota - d.remaining != (uint64_t)race.taken)
			fail_msg("%s, round %llu: %lld taken, %llu in use", change->name,
			         (unsigned long long)round, (long long)race.taken,
			         (unsigned long long)(d.quota - d.remaining));
		close_side(&race.side);
	}
}

/* Threads that ask for the last permit of a bound, beside permits of the bound before. */
static void *take_the_last(void *unused)
{
	(void)unused;
	for (unsigned i = 0; i < 20 * STEPS; i++) {
		const weir_limit *limit = __atomic_load_n(&race.limit, __ATOMIC_ACQUIRE);
		struct weir_permit permit;
		struct weir_decision d;

		if (weir_ask(race.side.table, limit, (struct weir_key){"k", 1},
		             &(struct weir_ask){.now_ns = NOW + i, .permit = &permit}, &d) != WEIR_OK)
			abort();
		if (!d.allowed)
			continue;
		if (__atomic_add_fetch(&race.taken, 1, __ATOMIC_SEQ_CST) > 1)
			__atomic_store_n(&race.done, 1, __ATOMIC_RELAXED);
		__atomic_sub_fetch(&race.taken, 1, __ATOMIC_SEQ_CST);
		if (weir_report(race.side.table, limit, (struct weir_key){"k", 1}, &permit,
		                &(struct weir_report){.latency_ns = 1, .now_ns = NOW + i}) != WEIR_OK)
			abort();
	}
	return NULL;
}

static void no_more_are_in_flight_than_the_new_bound(void **context)
{
	static const uint64_t bounds[][2] = {{5, 4}, {0, 4}, {13, 14}, {100, 3}};

	(void)context;
	for (uint64_t round = 0; round < RACES; round++) {
		struct weir_breaker_options before = by_time, after = by_time;
		const struct change change = {
		    .before = {.breaker = &before, .algorithm = WEIR_ALGORITHM_BREAKER},
		    .after = {.breaker = &after, .algorithm = WEIR_ALGORITHM_BREAKER}};
		pthread_t threads[THREADS];
		struct weir_decision d;

		before.max_concurrent = bounds[round % 4][0];
		after.max_concurrent = bounds[round % 4][1];
		open_side(&race.side, &change, NULL);
		race.done = 0;
		race.taken = 0;
		for (uint64_t n = 1; n < after.max_concurrent; n++) {
			struct weir_permit permit;

			assert_int_equal(weir_ask(race.side.table, race.side.limits[0],
			                          (struct weir_key){"k", 1},
			                          &(struct weir_ask){.now_ns = NOW, .permit = &permit}, &d),
			                 WEIR_OK);
			assert_true(d.allowed);
		}
		race.limit = race.side.limits[1];
		assert_int_equal(weir_table_reserve(race.side.table, race.limit, NULL), WEIR_OK);
		for (unsigned i = 0; i < THREADS; i++)
			assert_int_equal(pthread_create(&threads[i], NULL, take_the_last, NULL), 0);
		for (unsigned i = 0; i < THREADS; i++)
			pthread_join(threads[i], NULL);
		assert_int_equal(race.done, 0);
		assert_int_equal(weir_peek(race.side.table, race.limit, (struct weir_key){"k", 1}, 1,
		                           NOW + 20 * STEPS, &d),
		                 WEIR_OK);
		assert_int_equal(d.remaining, 1);
		close_side(&race.side);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(wider_records_change_nothing_else),
	    cmocka_unit_test(records_widen_while_others_take_and_give_back),
	    cmocka_unit_test(more_keys_change_nothing_else),
	    cmocka_unit_test(another_max_concurrent_changes_nothing_else),
	    cmocka_unit_test(permits_in_flight_count_towards_a_lower_bound),
	    cmocka_unit_test(no_more_are_in_flight_than_the_new_bound),
	    cmocka_unit_test(a_count_that_crosses_2_to_the_16_changes_nothing_else),
	    cmocka_unit_test(a_large_count_keeps_its_time_under_a_small_limit),
	};

	return cmocka_run_group_tests(tests, path_choose, path_remove);
}
