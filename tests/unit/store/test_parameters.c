/*
 * A bucket whose parameters change: its use leaks by the old rate until the change, and by the new
 * rate from then on, no matter who asks, and how often.
 *
 * A store notes the change at the time of its own clock, so each test reads that clock before and
 * after, and asks at times from then on. No test waits.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "path.h"
#include "store/memory.h"

#define IDENTITY 7
#define TIMES    40

/* A change by which the key of a limit whose `used` units are in use gets one after `due_ns`. */
struct change {
	const char *name;
	struct weir_limit_options before, after;
	uint64_t used, due_ns;
};

#define DAILY(count) .rate = {count, 1, WEIR_UNIT_DAY}

static const struct change changes[] = {
    {"token_bucket", {DAILY(10), .burst = 5}, {DAILY(86400), .burst = 5}, 5, NS_PER_S},
    {"token_bucket, parts of a nanosecond",
     {DAILY(7), .burst = 5},
     {DAILY(86401), .burst = 5},
     5,
     NS_PER_S},
    {"token_bucket, burst",
     {DAILY(86400), .burst = 3600},
     {DAILY(86400), .burst = 2},
     3600,
     NS_PER_S},
    {"leaky_bucket",
     {DAILY(10), .burst = 5, .algorithm = WEIR_ALGORITHM_LEAKY_BUCKET},
     {DAILY(86400), .burst = 5, .algorithm = WEIR_ALGORITHM_LEAKY_BUCKET},
     5,
     NS_PER_S},
    {"pacer",
     {DAILY(10), .slack = 4, .max_wait_ns = WEIR_ZERO, .algorithm = WEIR_ALGORITHM_PACER},
     {DAILY(86400), .slack = 4, .max_wait_ns = WEIR_ZERO, .algorithm = WEIR_ALGORITHM_PACER},
     5,
     NS_PER_S},
    {"leaky_queue",
     {DAILY(10), .burst = 4, .algorithm = WEIR_ALGORITHM_LEAKY_QUEUE},
     {DAILY(86400), .burst = 4, .algorithm = WEIR_ALGORITHM_LEAKY_QUEUE},
     5,
     NS_PER_S},
    {"warm_up",
     {DAILY(10), .cold = 1, .max_wait_ns = WEIR_ZERO, .algorithm = WEIR_ALGORITHM_WARM_UP},
     {DAILY(86400), .cold = 1, .max_wait_ns = WEIR_ZERO, .algorithm = WEIR_ALGORITHM_WARM_UP},
     1,
     NS_PER_S},
    {"warm_up, shorter wait",
     {DAILY(86400), .cold = 1, .max_wait_ns = 7200 * NS_PER_S, .algorithm = WEIR_ALGORITHM_WARM_UP},
     {DAILY(43200), .cold = 1, .max_wait_ns = NS_PER_S, .algorithm = WEIR_ALGORITHM_WARM_UP},
     7201,
     2 * NS_PER_S},
};

static struct {
	struct store *store;
	struct algo_limit limits[2];
	const struct algo_limit *limit;
} it;

static void open_store(const char *file)
{
	assert_int_equal(
	    store_open(&(struct weir_table_options){.capacity = 1000, .path = file}, &it.store, NULL), 0);
}

static uint64_t clock_of_store(void)
{
	return clock_now(store_clock(it.store));
}

static void join(unsigned i, const struct weir_limit_options *options)
{
	assert_int_equal(algo_limit_init(&it.limits[i], options, NULL), 0);
	it.limits[i].identity = IDENTITY;
	store_assign_generation(it.store, &it.limits[i]);
	it.limit = &it.limits[i];
}

static void end(void)
{
	algo_limit_free(&it.limits[0]);
	algo_limit_free(&it.limits[1]);
	store_close(it.store);
}

static struct algo_decision run_call(struct algo_call call, uint64_t now_ns, uint64_t *until_ns)
{
	const struct algo_limit *by = it.limit;
	struct store_step step = {.store = it.store, .limit = by, .call = call, .at = moment_given(now_ns)};
	struct algo_decision out;

	assert_int_equal(store_admit(it.store, by, store_hash(it.store, IDENTITY, "key", 3), &step.key), 0);
	*until_ns = store_run(&step, &by, &out);
	return out;
}

static struct algo_decision run(enum algo_op op, uint64_t cost, uint64_t now_ns)
{
	uint64_t until_ns;

	return run_call((struct algo_call){.op = op, .cost = cost}, now_ns, &until_ns);
}

static void take(uint64_t units, uint64_t now_ns)
{
	for (; units > 0 && units < 100; units--)
		assert_true(run(ALGO_ACQUIRE, 1, now_ns).allowed);
	if (units > 0)
		assert_true(run(ALGO_ACQUIRE, units, now_ns).allowed);
}

/* A reload, or a restart where the states are in a file. Returns a time after that. */
static uint64_t change_to(const struct change *change, const char *file)
{
	if (file) {
		store_close(it.store);
		open_store(file);
	}
	join(1, &change->after);
	if (!file)
		algo_hand_over(&it.limits[0], &it.limits[1]);
	return clock_of_store();
}

/* Takes all at its beginning. Returns a time after the change. */
static uint64_t changed(const struct change *change, const char *file)
{
	uint64_t before_ns, after_ns;

	open_store(file);
	join(0, &change->before);
	before_ns = clock_of_store();
	take(change->used, before_ns);
	if (run(ALGO_ACQUIRE, 1, before_ns).allowed)
		fail_msg("%s: more than %llu", change->name, (unsigned long long)change->used);
	after_ns = change_to(change, file);
	if (run(ALGO_PEEK, 1, before_ns + change->due_ns / 2).allowed)
		fail_msg("%s: granted too early", change->name);
	return after_ns;
}

static void begin_file(const char *file)
{
	if (file)
		unlink(file);
}

static void a_key_waits_for_the_new_rate_alone(void **context)
{
	(void)context;
	for (size_t i = 0; i < 2 * (sizeof changes / sizeof *changes); i++) {
		const struct change *change = &changes[i / 2];
		const char *file = i % 2 ? path : NULL;
		struct algo_decision out;
		uint64_t now_ns;

		begin_file(file);
		now_ns = changed(change, file);
		/* However often it was asked before. */
		for (unsigned n = 0; n < TIMES; n++) {
			out = run(n % 3 ? ALGO_PEEK : ALGO_ACQUIRE, 1, now_ns);
			if (out.allowed || out.retry_after_ns > change->due_ns)
				break;
		}
		if (!out.allowed && out.retry_after_ns > change->due_ns)
			fail_msg("%s: retry after %llu", change->name, (unsigned long long)out.retry_after_ns);
		out = run(ALGO_ACQUIRE, 1, now_ns + change->due_ns);
		if (!out.allowed)
			fail_msg("%s: denied, retry after %llu", change->name,
			         (unsigned long long)out.retry_after_ns);
		end();
	}
}

/* Only the last request acquires: the time that the peek has named holds all the same. */
static void a_peek_says_when_the_next_request_passes(void **context)
{
	(void)context;
	for (size_t i = 0; i < 2 * (sizeof changes / sizeof *changes); i++) {
		const struct change *change = &changes[i / 2];
		const char *file = i % 2 ? path : NULL;
		struct algo_decision out;
		uint64_t now_ns;

		begin_file(file);
		now_ns = changed(change, file);
		out = run(ALGO_PEEK, 1, now_ns);
		if (!run(ALGO_ACQUIRE, 1, now_ns + out.retry_after_ns).allowed)
			fail_msg("%s: denied after %llu", change->name, (unsigned long long)out.retry_after_ns);
		end();
	}
}

/* Nothing of what is in use is forgotten while it is denied. */
static void a_burst_that_was_lowered_and_raised_again_grants_no_more(void **context)
{
	const struct weir_limit_options high = {DAILY(10), .burst = 30}, low = {DAILY(10), .burst = 20};
	uint64_t now_ns;

	(void)context;
	open_store(NULL);
	join(0, &high);
	now_ns = clock_of_store();
	take(30, now_ns);
	join(1, &low);
	algo_hand_over(&it.limits[0], &it.limits[1]);
	now_ns = clock_of_store();
	for (unsigned i = 0; i < TIMES; i++)
		assert_false(run(ALGO_ACQUIRE, 1, now_ns).allowed);
	algo_limit_free(&it.limits[0]);
	join(0, &high);
	algo_hand_over(&it.limits[1], &it.limits[0]);
	assert_false(run(ALGO_ACQUIRE, 1, clock_of_store()).allowed);
	/* Each of the 30 tokens takes its 2.4 hours. */
	assert_int_equal(run(ALGO_PEEK, 1, now_ns + 10 * NS_PER_DAY / 10).remaining, 10);
	end();
}

/* As two servers with different parameters: one after the other asks, at each step. */
static void two_that_take_turns_grant_what_one_would(void **context)
{
	const struct weir_limit_options pairs[][2] = {
	    {{DAILY(86400), .burst = 100}, {DAILY(86400), .burst = 5}},
	    {{DAILY(10), .burst = 5}, {DAILY(86400), .burst = 5}},
	    {{DAILY(86400), .burst = 5}, {DAILY(10), .burst = 100}},
	    {{DAILY(86401), .burst = 50}, {DAILY(86399), .burst = 20}},
	    {{DAILY(86400), .slack = 9, .max_wait_ns = WEIR_ZERO, .algorithm = WEIR_ALGORITHM_PACER},
	     {DAILY(10), .slack = 4, .max_wait_ns = WEIR_ZERO, .algorithm = WEIR_ALGORITHM_PACER}},
	};

	(void)context;
	for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
		uint64_t start_ns, granted = 0, last_ns = 0, most;

		open_store(NULL);
		join(0, &pairs[i][0]);
		join(1, &pairs[i][1]);
		start_ns = clock_of_store();
		most = u64_max(it.limits[0].quota, it.limits[1].quota);
		for (uint64_t t = 0; t < 400; t++) {
			it.limit = &it.limits[t % 2];
			while (run(ALGO_ACQUIRE, 1, start_ns + t * NS_PER_S / 2).allowed) {
				granted++;
				last_ns = t * NS_PER_S / 2;
			}
			if (granted > most + t / 2 + 1)
				fail_msg("pair %zu: %llu granted in %llu s", i, (unsigned long long)granted,
				         (unsigned long long)t / 2);
		}
		/* Nor does a denial of one renew that of the other. */
		if (i != 1 && i != 2 && i != 4 && last_ns < 190 * NS_PER_S)
			fail_msg("pair %zu: nothing was granted after %llu s", i,
			         (unsigned long long)(last_ns / NS_PER_S));
		end();
	}
}

/* Another process decides by the old parameters meanwhile, by states that this one has not seen. */
static void a_process_of_the_old_parameters_is_believed(void **context)
{
	const struct weir_limit_options slow = {DAILY(10), .burst = 5}, fast = {DAILY(86400), .burst = 5};
	uint64_t now_ns, granted = 0;
	int status;
	pid_t pid;

	(void)context;
	begin_file(path);
	open_store(path);
	join(1, &fast);
	now_ns = clock_of_store() + 1000 * NS_PER_S;
	/* The child has the file of its own, as another server has. */
	pid = fork();
	if (pid == 0) {
		open_store(path);
		join(0, &slow);
		it.limit = &it.limits[0];
		for (unsigned i = 0; i < 5; i++)
			granted += run(ALGO_ACQUIRE, 1, now_ns).allowed;
		_exit(granted == 5 ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	it.limit = &it.limits[1];
	assert_false(run(ALGO_ACQUIRE, 1, now_ns).allowed);
	assert_true(run(ALGO_ACQUIRE, 1, now_ns + NS_PER_S).allowed);
	end();
}

/*
 * Two limits in use, as of two servers, and more than a day's worth in use beyond the lower burst.
 * The use that a cut would hide counts for the higher burst, so the lower one gives nothing back.
 */
static void a_refund_by_a_lower_burst_hides_no_use(void **context)
{
	const struct weir_limit_options high = {DAILY(10), .burst = 60}, low = {DAILY(10), .burst = 5};
	struct algo_call acquire = {.op = ALGO_ACQUIRE, .cost = 46}, refund = {.op = ALGO_REFUND, .cost = 3};
	uint64_t now_ns, name_ns;

	(void)context;
	for (unsigned named = 0; named < 2; named++) {
		open_store(NULL);
		join(0, &high);
		join(1, &low);
		now_ns = clock_of_store();
		for (unsigned i = 0; i < 4; i++) { /* both are seen to be in use */
			it.limit = &it.limits[i % 2];
			assert_true(run(ALGO_ACQUIRE, 1, now_ns).allowed);
		}
		it.limit = &it.limits[0];
		assert_true(run_call(acquire, now_ns, &name_ns).allowed);
		it.limit = &it.limits[1];
		assert_false(run(ALGO_ACQUIRE, 1, now_ns).allowed);
		refund.until_ns = named ? name_ns : 0;
		assert_int_equal(run_call(refund, now_ns, &name_ns).allowed, !named);
		assert_false(run(ALGO_ACQUIRE, 1, now_ns).allowed);
		it.limit = &it.limits[0];
		assert_int_equal(run(ALGO_PEEK, 1, now_ns).remaining, 10);
		end();
	}
}

#define HOUR (3600 * NS_PER_S)

/* A reload after so long. */
static void reload_after(uint64_t ns, const struct weir_limit_options *options)
{
	unsigned next = it.limit == &it.limits[0];

	memory_of(it.store)->clock.offset_ns += ns;
	if (it.limit == &it.limits[0] || it.limit == &it.limits[1])
		algo_limit_free(&it.limits[next]);
	join(next, options);
	algo_hand_over(&it.limits[!next], &it.limits[next]);
}

/* Nobody asks for the key in the meantime, and no reload cuts its use. */
static void a_key_leaks_by_each_rate_in_turn(void **context)
{
	static const struct weir_limit_options slow[] = {
	    {DAILY(1), .burst = 20},
	    {DAILY(1), .burst = 20, .algorithm = WEIR_ALGORITHM_LEAKY_BUCKET},
	    {DAILY(1), .slack = 19, .max_wait_ns = WEIR_ZERO, .algorithm = WEIR_ALGORITHM_PACER},
	};

	(void)context;
	for (size_t i = 0; i < 2 * (sizeof slow / sizeof *slow); i++) {
		struct weir_limit_options fast = slow[i / 2], small = fast;

		fast.rate.count = 24;
		small.rate.count = 7;
		small.burst = small.burst ? 2 : 0;
		small.slack = small.slack ? 1 : 0;
		begin_file(i % 2 ? path : NULL);
		open_store(i % 2 ? path : NULL);
		join(0, &slow[i / 2]);
		algo_limit_init(&it.limits[1], &fast, NULL);
		take(20, clock_of_store());
		reload_after(2 * NS_PER_DAY, &fast);
		reload_after(3 * HOUR, &slow[i / 2]);
		reload_after(NS_PER_DAY, &small);
		reload_after(3 * NS_PER_DAY / 7 + 1, &fast);
		/* 20 - 2 - 3 - 1 - 3 */
		if (run(ALGO_PEEK, 1, clock_of_store()).remaining != 9)
			fail_msg("case %zu: %llu remain", i,
			         (unsigned long long)run(ALGO_PEEK, 1, clock_of_store()).remaining);
		end();
	}
}

/* By the old rate, its time would be over when it is first asked for. */
static void a_key_leaks_by_a_slower_rate_beyond_its_time(void **context)
{
	static const struct weir_limit_options fast[] = {
	    {DAILY(240), .burst = 20},
	    {DAILY(240), .slack = 19, .max_wait_ns = WEIR_ZERO, .algorithm = WEIR_ALGORITHM_PACER},
	};

	(void)context;
	for (size_t i = 0; i < 2 * (sizeof fast / sizeof *fast); i++) {
		struct weir_limit_options slow = fast[i / 2];

		slow.rate.count = 2;
		begin_file(i % 2 ? path : NULL);
		open_store(i % 2 ? path : NULL);
		join(0, &fast[i / 2]);
		algo_limit_init(&it.limits[1], &slow, NULL);
		take(20, clock_of_store());
		reload_after(HOUR / 2, &slow);
		memory_of(it.store)->clock.offset_ns += NS_PER_DAY;
		/* 20 - 5 - 2 */
		assert_int_equal(run(ALGO_PEEK, 1, clock_of_store()).remaining, 7);
		take(7, clock_of_store());
		assert_false(run(ALGO_ACQUIRE, 1, clock_of_store()).allowed);
		memory_of(it.store)->clock.offset_ns += 11 * NS_PER_DAY;
		assert_int_equal(run(ALGO_PEEK, 1, clock_of_store()).remaining, 20);
		end();
	}
}

/* There are not as many generations as reloads. */
static void reloads_by_turns_forget_nothing(void **context)
{
	const struct weir_limit_options pair[] = {{DAILY(2), .burst = 20}, {DAILY(3), .burst = 20}};

	(void)context;
	open_store(NULL);
	join(0, &pair[0]);
	algo_limit_init(&it.limits[1], &pair[1], NULL);
	take(19, clock_of_store());
	for (unsigned i = 1; i < TIMES; i++) {
		reload_after(0, &pair[i % 2]);
		assert_int_equal(run(ALGO_PEEK, 1, clock_of_store()).remaining, 1);
	}
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_key_waits_for_the_new_rate_alone),
	    cmocka_unit_test(a_peek_says_when_the_next_request_passes),
	    cmocka_unit_test(a_burst_that_was_lowered_and_raised_again_grants_no_more),
	    cmocka_unit_test(two_that_take_turns_grant_what_one_would),
	    cmocka_unit_test(a_refund_by_a_lower_burst_hides_no_use),
	    cmocka_unit_test(a_key_leaks_by_each_rate_in_turn),
	    cmocka_unit_test(a_key_leaks_by_a_slower_rate_beyond_its_time),
	    cmocka_unit_test(reloads_by_turns_forget_nothing),
	    cmocka_unit_test(a_process_of_the_old_parameters_is_believed),
	};

	return cmocka_run_group_tests(tests, path_choose, path_remove);
}
