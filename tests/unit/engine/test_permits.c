/* Permits: given back once, to where they came from, or nowhere. Time is virtual. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>
#include <weir/limiter.h>

#define SECOND UINT64_C(1000000000)
#define NOW    (UINT64_C(1700000000) * SECOND + SECOND / 4)

static weir_table *table;
static weir_limit *limit;
static struct weir_decision d;

/* Ten in ten seconds, whatever the algorithm. */
static void begin(enum weir_algorithm algorithm)
{
	struct weir_limit_options options = {
	    .algorithm = algorithm,
	    .rate = {10, 10, WEIR_UNIT_SECOND},
	    .slack = algorithm == WEIR_ALGORITHM_PACER ? 9 : 0,
	    .max_wait_ns = algorithm == WEIR_ALGORITHM_PACER ? WEIR_ZERO : 0,
	    .base = algorithm == WEIR_ALGORITHM_BASE,
	};

	assert_int_equal(weir_limit_open(&options, &limit, NULL), WEIR_OK);
	assert_int_equal(weir_table_open(NULL, &table, NULL), WEIR_OK);
}

static void end(void)
{
	weir_limit_close(limit);
	weir_table_close(table);
}

static struct weir_permit acquire(const char *key, uint64_t cost, uint64_t now_ns)
{
	struct weir_permit permit;

	assert_int_equal(weir_ask(table, limit, (struct weir_key){key, 1},
	                          &(struct weir_ask){.cost = cost ? cost : WEIR_ZERO,
	                                             .now_ns = now_ns,
	                                             .permit = &permit},
	                          &d),
	                 WEIR_OK);
	return permit;
}

static int refund(const char *key, const struct weir_permit *permit, uint64_t now_ns)
{
	int status = weir_refund_permit(table, limit, (struct weir_key){key, 1}, permit, now_ns, &d);

	assert_int_equal(d.allowed, status == WEIR_OK);
	return status;
}

static int report(const char *key, const struct weir_permit *permit, uint64_t now_ns)
{
	return weir_report(table, limit, (struct weir_key){key, 1}, permit,
	                   &(struct weir_report){.now_ns = now_ns});
}

static uint64_t remaining(const char *key, uint64_t now_ns)
{
	assert_int_equal(weir_peek(table, limit, (struct weir_key){key, 1}, 1, now_ns, &d), WEIR_OK);
	return d.remaining;
}

static const enum weir_algorithm counting[] = {
    WEIR_ALGORITHM_TOKEN_BUCKET,    WEIR_ALGORITHM_LEAKY_BUCKET,
    WEIR_ALGORITHM_FIXED_WINDOW,    WEIR_ALGORITHM_RESETTING_BUCKET,
    WEIR_ALGORITHM_SLIDING_WINDOW,  WEIR_ALGORITHM_SLIDING_LOG,
    WEIR_ALGORITHM_SLIDING_COUNTER, WEIR_ALGORITHM_PACER,
    WEIR_ALGORITHM_LEAKY_QUEUE,     WEIR_ALGORITHM_BASE,
};

#define FOR_EACH_COUNTING(i) for (size_t i = 0; i < sizeof counting / sizeof *counting; i++)

static void refund_twice(void **state)
{
	(void)state;
	FOR_EACH_COUNTING (i) {
		struct weir_permit permit;
		uint64_t quota;

		begin(counting[i]);
		quota = remaining("k", NOW);
		acquire("k", 2, NOW);
		permit = acquire("k", 3, NOW);
		assert_int_equal(permit.cost, 3);
		assert_true(permit.until_ns > NOW);
		assert_int_equal(report("k", &permit, NOW), WEIR_OK);
		assert_int_equal(refund("k", &permit, NOW), WEIR_OK);
		assert_int_equal(d.remaining, quota - 2);
		assert_int_equal(refund("k", &permit, NOW), WEIR_ENOTFOUND);
		assert_int_equal(d.remaining, quota - 2);
		assert_int_equal(report("k", &permit, NOW), WEIR_ENOTFOUND);
		assert_int_equal(remaining("k", NOW), quota - 2);
		end();
	}
}

static void refund_into_the_next_window(void **state)
{
	(void)state;
	FOR_EACH_COUNTING (i) {
		struct weir_permit permit;
		uint64_t left;

		begin(counting[i]);
		permit = acquire("k", 1, NOW);
		acquire("k", 5, permit.until_ns);
		left = d.remaining;
		assert_int_equal(report("k", &permit, permit.until_ns), WEIR_ENOTFOUND);
		assert_int_equal(refund("k", &permit, permit.until_ns), WEIR_ENOTFOUND);
		assert_int_equal(d.remaining, left);
		assert_int_equal(remaining("k", permit.until_ns), left);
		end();
	}
}

static void a_late_refund_goes_where_its_request_was(void **state)
{
	/* The first at NOW, others three seconds later; the first is given back after as many more. */
	static const struct {
		enum weir_algorithm algorithm;
		uint64_t first, others, before, after;
	} cases[] = {
	    {WEIR_ALGORITHM_FIXED_WINDOW, 3, 5, 2, 5},
	    {WEIR_ALGORITHM_RESETTING_BUCKET, 3, 5, 2, 5},
	    {WEIR_ALGORITHM_SLIDING_WINDOW, 3, 5, 2, 5},
	    {WEIR_ALGORITHM_SLIDING_COUNTER, 3, 5, 2, 5},
	    {WEIR_ALGORITHM_BASE, 3, 5, 2, 5},
	    {WEIR_ALGORITHM_TOKEN_BUCKET, 8, 1, 7, 9}, /* 6 of the 8 have leaked */
	    {WEIR_ALGORITHM_LEAKY_BUCKET, 7, 3, 6, 7},
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		uint64_t later = NOW + 3 * SECOND, last = NOW + 6 * SECOND;
		struct weir_permit permit;

		begin(cases[i].algorithm);
		permit = acquire("k", cases[i].first, NOW);
		acquire("k", cases[i].others, later);
		assert_int_equal(remaining("k", last), cases[i].before);
		assert_int_equal(refund("k", &permit, last), WEIR_OK);
		assert_int_equal(d.remaining, cases[i].after);
		end();
	}
}

static void what_a_window_of_base_counted_is_given_back_until_it_ends(void **state)
{
	const struct weir_limit_options options = {
	    .algorithm = WEIR_ALGORITHM_BASE, .base = 5, .rate = {2, 10, WEIR_UNIT_SECOND}};
	struct weir_permit free, windows, late;

	(void)state;
	assert_int_equal(weir_limit_open(&options, &limit, NULL), WEIR_OK);
	assert_int_equal(weir_table_open(NULL, &table, NULL), WEIR_OK);
	free = acquire("k", 2, NOW);
	acquire("k", 2, NOW);
	windows = acquire("k", 2, NOW);
	assert_int_equal(windows.until_ns, NOW + 10 * SECOND);
	/* Its units come back without it. The window of its request is closed, but not over. */
	weir_refund(table, limit, (struct weir_key){"k", 1}, 2, NOW, &d);
	late = acquire("k", 1, NOW + SECOND);
	assert_int_equal(d.remaining, 1);
	assert_int_equal(refund("k", &windows, NOW + SECOND), WEIR_OK);
	assert_int_equal(d.remaining, 3);
	assert_int_equal(refund("k", &late, NOW + 11 * SECOND), WEIR_ENOTFOUND);
	assert_int_equal(d.remaining, 3);
	assert_int_equal(refund("k", &free, NOW + 11 * SECOND), WEIR_OK);
	assert_int_equal(d.remaining, 5);
	end();
}

static void a_turn_behind_which_others_stand_is_not_given_back(void **state)
{
	struct weir_permit first;

	(void)state;
	begin(WEIR_ALGORITHM_LEAKY_QUEUE);
	first = acquire("k", 2, NOW);
	acquire("k", 1, NOW);
	assert_int_equal(refund("k", &first, NOW), WEIR_ENOTFOUND);
	assert_int_equal(d.remaining, 11 - 3);
	end();
}

static void refund_of_a_denied_request(void **state)
{
	(void)state;
	FOR_EACH_COUNTING (i) {
		struct weir_permit permit;
		uint64_t left;

		begin(counting[i]);
		acquire("k", remaining("k", NOW), NOW);
		permit = acquire("k", 1, NOW);
		assert_false(d.allowed);
		assert_int_equal(permit.id, 0);
		left = d.remaining;
		assert_int_equal(refund("k", &permit, NOW), WEIR_ENOTFOUND);
		assert_int_equal(report("k", &permit, NOW), WEIR_ENOTFOUND);
		assert_int_equal(remaining("k", NOW), left);
		end();
	}
}

static void what_takes_nothing_gets_no_permit(void **state)
{
	(void)state;
	begin(WEIR_ALGORITHM_TOKEN_BUCKET);
	assert_int_equal(acquire("k", 0, NOW).id, 0);
	assert_true(d.allowed);
	end();
	assert_int_equal(
	    weir_limit_open(&(struct weir_limit_options){.algorithm = WEIR_ALGORITHM_RANDOM}, &limit,
	                    NULL),
	    WEIR_OK);
	assert_int_equal(weir_table_open(NULL, &table, NULL), WEIR_OK);
	assert_int_equal(acquire("k", 1, NOW).id, 0);
	assert_true(d.allowed);
	end();
}

static void permit_of_another_key_or_limit(void **state)
{
	struct weir_permit permit;
	weir_limit *first, *second;

	(void)state;
	begin(WEIR_ALGORITHM_FIXED_WINDOW);
	first = limit;
	assert_int_equal(
	    weir_limit_open(&(struct weir_limit_options){.name = "other",
	                                                 .algorithm = WEIR_ALGORITHM_FIXED_WINDOW,
	                                                 .rate = {10, 10, WEIR_UNIT_SECOND}},
	                    &second, NULL),
	    WEIR_OK);
	permit = acquire("k", 4, NOW);
	acquire("j", 4, NOW);
	assert_int_equal(refund("j", &permit, NOW), WEIR_ENOTFOUND);
	assert_int_equal(remaining("j", NOW), 6);
	limit = second;
	acquire("k", 4, NOW);
	assert_int_equal(refund("k", &permit, NOW), WEIR_ENOTFOUND);
	assert_int_equal(remaining("k", NOW), 6);
	limit = first;
	assert_int_equal(refund("k", &permit, NOW), WEIR_OK);
	assert_int_equal(d.remaining, 10);
	weir_limit_close(second);
	end();
}

static void an_invented_or_altered_permit_gives_nothing_back(void **state)
{
	struct weir_permit permit, altered;

	(void)state;
	begin(WEIR_ALGORITHM_FIXED_WINDOW);
	permit = altered = acquire("k", 4, NOW);
	altered.id ^= UINT64_C(1) << 40;
	assert_int_equal(refund("k", &altered, NOW), WEIR_ENOTFOUND);
	altered.id = 0;
	assert_int_equal(refund("k", &altered, NOW), WEIR_ENOTFOUND);
	assert_int_equal(remaining("k", NOW), 6);
	assert_int_equal(
	    weir_report(table, limit, (struct weir_key){"k", 1}, &permit,
	                &(struct weir_report){.outcome = WEIR_OUTCOME_COUNT, .now_ns = NOW}),
	    WEIR_EINVAL);
	end();
}

static void part_of_a_permit_is_given_back_once(void **state)
{
	struct weir_permit permit;

	(void)state;
	begin(WEIR_ALGORITHM_FIXED_WINDOW);
	permit = acquire("k", 4, NOW);
	permit.cost = 1;
	assert_int_equal(refund("k", &permit, NOW), WEIR_OK);
	assert_int_equal(d.remaining, 7);
	permit.cost = 3;
	assert_int_equal(refund("k", &permit, NOW), WEIR_ENOTFOUND);
	assert_int_equal(d.remaining, 7);
	end();
}

static void a_limiter_names_the_window(void **state)
{
	weir_limiter *limiter;
	struct weir_permit permit, denied;

	(void)state;
	assert_int_equal(
	    weir_limiter_open(&(struct weir_limit_options){.algorithm = WEIR_ALGORITHM_FIXED_WINDOW,
	                                                   .rate = {2, 10, WEIR_UNIT_SECOND}},
	                      &limiter, NULL),
	    WEIR_OK);
	weir_limiter_ask(limiter, &(struct weir_ask){.cost = 2, .now_ns = NOW, .permit = &permit}, &d);
	weir_limiter_ask(limiter, &(struct weir_ask){.now_ns = NOW, .permit = &denied}, &d);
	assert_int_equal(denied.id, 0);
	assert_int_equal(weir_limiter_refund_permit(limiter, &denied, NOW, &d), WEIR_ENOTFOUND);
	assert_int_equal(
	    weir_limiter_report(limiter, &permit,
	                        &(struct weir_report){.outcome = WEIR_OUTCOME_FAILURE, .now_ns = NOW}),
	    WEIR_OK);
	assert_int_equal(weir_limiter_refund_permit(limiter, &permit, NOW, &d), WEIR_OK);
	assert_int_equal(d.remaining, 2);
	weir_limiter_acquire(limiter, 2, permit.until_ns, &d);
	assert_int_equal(weir_limiter_refund_permit(limiter, &permit, permit.until_ns, &d),
	                 WEIR_ENOTFOUND);
	assert_int_equal(d.remaining, 0);
	assert_int_equal(weir_limiter_report(limiter, &permit,
	                                     &(struct weir_report){.outcome = WEIR_OUTCOME_FAILURE,
	                                                           .now_ns = permit.until_ns}),
	                 WEIR_ENOTFOUND);
	weir_limiter_close(limiter);
}

static const struct weir_limit_options flight = {
    .algorithm = WEIR_ALGORITHM_CONCURRENCY, .max = 2, .lease_ns = 10 * SECOND};

static void a_report_takes_the_place_back_once(void **state)
{
	struct weir_permit first, second;

	(void)state;
	assert_int_equal(weir_limit_open(&flight, &limit, NULL), WEIR_OK);
	assert_int_equal(weir_table_open(NULL, &table, NULL), WEIR_OK);
	first = acquire("k", 1, NOW);
	second = acquire("k", 1, NOW);
	assert_int_equal(acquire("k", 1, NOW).id, 0);
	assert_int_equal(report("j", &first, NOW), WEIR_ENOTFOUND);
	assert_int_equal(report("k", &first, NOW), WEIR_OK);
	assert_int_equal(report("k", &first, NOW), WEIR_ENOTFOUND);
	assert_int_equal(refund("k", &first, NOW), WEIR_ENOTFOUND);
	assert_int_equal(remaining("k", NOW), 1);
	assert_int_equal(refund("k", &second, NOW), WEIR_OK);
	assert_int_equal(d.remaining, 2);
	first = acquire("k", 1, NOW);
	second = acquire("k", 1, first.until_ns);
	assert_int_equal(report("k", &first, first.until_ns), WEIR_ENOTFOUND);
	assert_int_equal(remaining("k", first.until_ns), 1);
	end();
}

static void a_limiter_takes_a_place_back_once(void **state)
{
	weir_limiter *limiter;
	struct weir_permit permits[3];

	(void)state;
	assert_int_equal(weir_limiter_open(&flight, &limiter, NULL), WEIR_OK);
	for (size_t i = 0; i < 3; i++)
		weir_limiter_ask(limiter, &(struct weir_ask){.now_ns = NOW, .permit = &permits[i]}, &d);
	assert_int_equal(permits[2].id, 0);
	assert_int_equal(
	    weir_limiter_report(limiter, &permits[0],
	                        &(struct weir_report){.outcome = WEIR_OUTCOME_TIMEOUT, .now_ns = NOW}),
	    0);
	assert_int_equal(
	    weir_limiter_report(limiter, &permits[0],
	                        &(struct weir_report){.outcome = WEIR_OUTCOME_TIMEOUT, .now_ns = NOW}),
	    WEIR_ENOTFOUND);
	assert_int_equal(weir_limiter_refund_permit(limiter, &permits[0], NOW, &d), WEIR_ENOTFOUND);
	assert_int_equal(d.remaining, 1);
	weir_limiter_close(limiter);
}

/* And makes it before the count that it is of, which lasts as long. */
static void a_permit_that_had_to_make_room_gives_nothing_back(void **state)
{
	struct weir_permit permit;

	(void)state;
	begin(WEIR_ALGORITHM_FIXED_WINDOW);
	weir_table_close(table);
	assert_int_equal(weir_table_open(&(struct weir_table_options){.capacity = 1}, &table, NULL), 0);
	permit = acquire("k", 3, NOW);
	weir_acquire(table, limit, (struct weir_key){"k", 1}, 5, NOW, &d);
	for (unsigned key = 0; key < 500; key++)
		weir_acquire(table, limit, (struct weir_key){&key, sizeof key}, 1, NOW, &d);
	assert_int_equal(refund("k", &permit, NOW), WEIR_ENOTFOUND);
	assert_int_equal(d.remaining, 2);
	end();
}

static void permit_across_a_restart(void **state)
{
	char path[] = "/tmp/weir-permits-XXXXXX";
	struct weir_table_options options = {.path = path, .capacity = 100};
	struct weir_permit permit;

	(void)state;
	close(mkstemp(path));
	unlink(path);
	begin(WEIR_ALGORITHM_FIXED_WINDOW);
	weir_table_close(table);
	assert_int_equal(weir_table_open(&options, &table, NULL), WEIR_OK);
	permit = acquire("k", 4, NOW);
	weir_table_close(table);
	assert_int_equal(weir_table_open(&options, &table, NULL), WEIR_OK);
	assert_int_equal(refund("k", &permit, NOW), WEIR_OK);
	assert_int_equal(d.remaining, 10);
	weir_table_close(table);
	assert_int_equal(weir_table_open(&options, &table, NULL), WEIR_OK);
	assert_int_equal(refund("k", &permit, NOW), WEIR_ENOTFOUND);
	end();
	unlink(path);
}

static void part_of_an_older_entry_of_a_log_is_given_back(void **state)
{
	struct weir_permit older, newer;

	(void)state;
	begin(WEIR_ALGORITHM_SLIDING_LOG);
	older = acquire("k", 3, NOW);
	newer = acquire("k", 1, NOW);
	acquire("k", 1, NOW);
	older.cost = 1;
	assert_int_equal(refund("k", &older, NOW), WEIR_OK);
	assert_int_equal(d.remaining, 6);
	assert_int_equal(refund("k", &newer, NOW), WEIR_OK);
	assert_int_equal(d.remaining, 7);
	assert_int_equal(refund("k", &older, NOW), WEIR_ENOTFOUND);
	end();
}

#define THREADS 3
#define ROUNDS  3000

struct race {
	struct weir_permit permits[ROUNDS];
	pthread_barrier_t start;
	unsigned won[THREADS];
};

struct runner {
	struct race *race;
	unsigned number;
	pthread_t thread;
};

static void *run(void *argument)
{
	struct runner *runner = argument;
	struct weir_decision mine;

	for (unsigned i = 0; i < ROUNDS; i++) {
		if (i % 100 == 0)
			pthread_barrier_wait(&runner->race->start);
		if (weir_refund_permit(table, limit, (struct weir_key){"k", 1}, &runner->race->permits[i],
		                       NOW, &mine) == 0)
			runner->race->won[runner->number]++;
	}
	return NULL;
}

static void of_several_who_give_back_at_once_one_does(void **state)
{
	struct race *race = calloc(1, sizeof *race);
	struct runner runners[THREADS];
	unsigned won = 0;

	(void)state;
	assert_int_equal(
	    weir_limit_open(&(struct weir_limit_options){.algorithm = WEIR_ALGORITHM_FIXED_WINDOW,
	                                                 .rate = {2 * ROUNDS, 1, WEIR_UNIT_DAY}},
	                    &limit, NULL),
	    WEIR_OK);
	assert_int_equal(weir_table_open(NULL, &table, NULL), WEIR_OK);
	for (unsigned i = 0; i < ROUNDS; i++) {
		race->permits[i] = acquire("k", 1, NOW);
		acquire("k", 1, NOW); /* so that what is given back too often is missed */
	}
	pthread_barrier_init(&race->start, NULL, THREADS);
	for (unsigned i = 0; i < THREADS; i++) {
		runners[i] = (struct runner){.race = race, .number = i};
		pthread_create(&runners[i].thread, NULL, run, &runners[i]);
	}
	for (unsigned i = 0; i < THREADS; i++) {
		pthread_join(runners[i].thread, NULL);
		won += race->won[i];
	}
	assert_int_equal(won, ROUNDS);
	assert_int_equal(remaining("k", NOW), ROUNDS);
	pthread_barrier_destroy(&race->start);
	free(race);
	end();
}

/* Whether the log is narrow or wide; and each permit's entry is told from what it has become. */
static void a_log_tells_when_it_has_no_entry_of_the_name(void **state)
{
	static const uint64_t counts[] = {10, 200};

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct weir_limit_options options = {.algorithm = WEIR_ALGORITHM_SLIDING_LOG,
		                                     .rate = {counts[i], 10, WEIR_UNIT_SECOND}};
		struct weir_permit first, second, third;
		weir_limiter *limiter;

		assert_int_equal(weir_limit_open(&options, &limit, NULL), WEIR_OK);
		assert_int_equal(weir_table_open(NULL, &table, NULL), WEIR_OK);
		first = acquire("k", 2, NOW);
		second = acquire("k", 3, NOW);
		weir_reset(table, limit, (struct weir_key){"k", 1}, NOW, &d);
		third = acquire("k", 4, NOW);
		assert_int_equal(refund("k", &first, NOW), WEIR_ENOTFOUND);
		assert_int_equal(refund("k", &second, NOW), WEIR_ENOTFOUND);
		assert_int_equal(d.remaining, counts[i] - 4);
		assert_int_equal(refund("k", &third, NOW), WEIR_OK);
		assert_int_equal(d.remaining, counts[i]);
		end();
		assert_int_equal(weir_limiter_open(&options, &limiter, NULL), WEIR_OK);
		weir_limiter_ask(limiter, &(struct weir_ask){.cost = 2, .now_ns = NOW, .permit = &first},
		                 &d);
		weir_limiter_ask(limiter, &(struct weir_ask){.cost = 3, .now_ns = NOW, .permit = &second},
		                 &d);
		assert_int_equal(weir_limiter_refund_permit(limiter, &first, NOW, &d), WEIR_OK);
		assert_int_equal(weir_limiter_refund_permit(limiter, &first, NOW, &d), WEIR_ENOTFOUND);
		assert_int_equal(d.remaining, counts[i] - 3);
		weir_limiter_close(limiter);
	}
}

#define HELD 5

struct user {
	unsigned *in_use; /* of all, and a little more at times: counted after and given up before */
	unsigned over;
	unsigned quota, lost;
	pthread_t thread;
};

static void *use_and_give_back(void *argument)
{
	struct user *user = argument;
	struct weir_permit held[HELD] = {{0}};
	struct weir_decision mine;

	for (unsigned i = 0; i < ROUNDS; i++) {
		struct weir_permit *permit = &held[i * 3 % HELD];
		unsigned cost = 1 + i % 2;

		if (permit->id != 0) { /* the oldest, or one with later ones of its own */
			__atomic_fetch_sub(user->in_use, (unsigned)permit->cost, __ATOMIC_SEQ_CST);
			user->lost += weir_refund_permit(table, limit, (struct weir_key){"k", 1}, permit, NOW,
			                                 &mine) != WEIR_OK;
		}
		weir_ask(table, limit, (struct weir_key){"k", 1},
		         &(struct weir_ask){
		             .cost = cost ? cost : WEIR_ZERO, .now_ns = NOW + i % 3, .permit = permit},
		         &mine);
		if (mine.allowed)
			user->over += __atomic_add_fetch(user->in_use, cost, __ATOMIC_SEQ_CST) > user->quota;
	}
	for (unsigned i = 1; i < HELD; i++) /* one of them is kept */
		if (held[i].id != 0) {
			__atomic_fetch_sub(user->in_use, (unsigned)held[i].cost, __ATOMIC_SEQ_CST);
			user->lost += weir_refund_permit(table, limit, (struct weir_key){"k", 1}, &held[i], NOW,
			                                 &mine) != WEIR_OK;
		}
	return NULL;
}

/*
 * The threads meet seldom: a fault that lets them pass shows once in twenty times. A sanitizer looks for
 * other faults.
 */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define REPEATS 4
#else
#define REPEATS 40
#endif

static void use_log(unsigned count)
{
	struct user users[THREADS];
	unsigned in_use = 0;

	assert_int_equal(
	    weir_limit_open(&(struct weir_limit_options){.algorithm = WEIR_ALGORITHM_SLIDING_LOG,
	                                                 .rate = {count, 1, WEIR_UNIT_DAY}},
	                    &limit, NULL),
	    WEIR_OK);
	assert_int_equal(weir_table_open(NULL, &table, NULL), WEIR_OK);
	if (count > 127) { /* all that there is room for, too */
		acquire("k", 129, NOW);
		in_use = 129;
	}
	for (unsigned i = 0; i < THREADS; i++) {
		users[i] = (struct user){.in_use = &in_use, .quota = count};
		pthread_create(&users[i].thread, NULL, use_and_give_back, &users[i]);
	}
	for (unsigned i = 0; i < THREADS; i++) {
		pthread_join(users[i].thread, NULL);
		assert_int_equal(users[i].over, 0);
		assert_int_equal(users[i].lost, 0);
	}
	assert_int_equal(remaining("k", NOW), count - in_use);
	end();
}

static void entries_given_back_while_others_are_taken_leave_an_exact_count(void **state)
{
	(void)state;
	for (unsigned i = 0; i < REPEATS; i++) {
		use_log(7);
		use_log(11);
		use_log(140);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(refund_twice),
	    cmocka_unit_test(refund_into_the_next_window),
	    cmocka_unit_test(a_late_refund_goes_where_its_request_was),
	    cmocka_unit_test(what_a_window_of_base_counted_is_given_back_until_it_ends),
	    cmocka_unit_test(a_turn_behind_which_others_stand_is_not_given_back),
	    cmocka_unit_test(refund_of_a_denied_request),
	    cmocka_unit_test(what_takes_nothing_gets_no_permit),
	    cmocka_unit_test(permit_of_another_key_or_limit),
	    cmocka_unit_test(an_invented_or_altered_permit_gives_nothing_back),
	    cmocka_unit_test(part_of_a_permit_is_given_back_once),
	    cmocka_unit_test(part_of_an_older_entry_of_a_log_is_given_back),
	    cmocka_unit_test(a_limiter_names_the_window),
	    cmocka_unit_test(a_report_takes_the_place_back_once),
	    cmocka_unit_test(a_limiter_takes_a_place_back_once),
	    cmocka_unit_test(a_permit_that_had_to_make_room_gives_nothing_back),
	    cmocka_unit_test(permit_across_a_restart),
	    cmocka_unit_test(of_several_who_give_back_at_once_one_does),
	    cmocka_unit_test(a_log_tells_when_it_has_no_entry_of_the_name),
	    cmocka_unit_test(entries_given_back_while_others_are_taken_leave_an_exact_count),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
