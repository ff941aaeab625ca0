/*
 * Tests permits of a concurrency limit one by one in virtual time, then with threads, and with
 * processes that are killed while they hold permits. A separate count says how many are in flight.
 *
 * WEIR_TEST_SEED=N replays the choices; the scheduler's are its own.
 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "path.h"
#include "records/leases.h"
#include "store/memory.h"

#define NOW   (UINT64_C(1700000000) * NS_PER_S)
#define LEASE (30 * NS_PER_S)
#define YEAR  (365 * NS_PER_DAY)

static struct store *store;
static struct algo_decision out;

static void open_table(uint64_t capacity, const char *file)
{
	assert_int_equal(
	    store_open(&(struct weir_table_options){.capacity = capacity, .path = file}, &store,
	                    NULL), WEIR_OK);
}

static void make(struct algo_limit *limit, uint64_t max)
{
	struct weir_limit_options options = {.algorithm = WEIR_ALGORITHM_CONCURRENCY, .max = max};

	assert_int_equal(algo_limit_init(limit, &options, NULL), WEIR_OK);
	limit->identity = 1;
}

/* Returns when the lease ends, 0 if denied. */
static uint64_t ask_key(const struct algo_limit *limit, struct algo_call call, uint64_t key,
                        uint64_t now_ns, struct algo_decision *answer)
{
	struct store_step step = {
	    .store = store, .limit = limit, .call = call, .at = moment_given(now_ns)};

	assert_int_equal(store_admit(store, limit, store_hash(store, limit->identity, &key, 8),
	                             &step.key),
	                 WEIR_OK);
	return store_run(&step, &limit, answer);
}

static uint64_t acquire(const struct algo_limit *limit, uint64_t cost, uint64_t permit,
                        uint64_t now_ns)
{
	return ask_key(limit, (struct algo_call){.op = ALGO_ACQUIRE, .cost = cost, .permit = permit}, 0,
	               now_ns, &out);
}

static bool give(const struct algo_limit *limit, uint64_t cost, uint64_t permit, uint64_t until_ns,
                 uint64_t now_ns)
{
	ask_key(limit, (struct algo_call){ALGO_REFUND, cost, until_ns, .permit = permit}, 0, now_ns,
	        &out);
	return out.allowed;
}

static uint64_t in_flight(const struct algo_limit *limit, uint64_t now_ns)
{
	ask_key(limit, (struct algo_call){.op = ALGO_PEEK, .cost = 1}, 0, now_ns, &out);
	return limit->quota - out.remaining;
}

static unsigned admitted(const struct algo_limit *limit, unsigned n, uint64_t now_ns)
{
	unsigned allowed = 0;

	while (n-- > 0)
		allowed += acquire(limit, 1, 0, now_ns) != 0;
	return allowed;
}

static int open_small(void **unused)
{
	(void)unused;
	open_table(1, NULL);
	return 0;
}

static int close_table(void **unused)
{
	(void)unused;
	store_close(store);
	return 0;
}

/* ---- one by one ---- */

static void max_are_in_flight_and_each_release_admits_one(void **unused)
{
	static const uint64_t maxima[] = {1, 2, 12, 13, 128, 1000, 10000};
	struct algo_limit limit;

	(void)unused;
	for (unsigned i = 0; i < 7; i++) {
		uint64_t max = maxima[i];

		make(&limit, max);
		limit.identity = i + 1;
		for (uint64_t n = 1; n <= max; n += max / 50 + 1) {
			uint64_t cost = n + max / 50 > max ? max - n + 1 : max / 50 + 1;

			assert_int_equal(acquire(&limit, cost, n, NOW), NOW + LEASE);
			assert_int_equal(out.remaining, max - n - cost + 1);
			assert_int_equal(out.reset_after_ns, LEASE);
		}
		assert_int_equal(acquire(&limit, 1, 9999, NOW + 1), 0);
		assert_int_equal(out.reason, WEIR_REASON_OVER_LIMIT);
		assert_int_equal(out.remaining, 0);
		assert_int_equal(out.retry_after_ns, NS_PER_S);
		assert_true(give(&limit, 1, 1, NOW + LEASE, NOW + 1));
		assert_int_equal(out.remaining, 1);
		assert_int_equal(acquire(&limit, 1, 9999, NOW + 1), NOW + LEASE + 1);
		ask_key(&limit, (struct algo_call){.op = ALGO_RESET}, 0, NOW + 1, &out);
		assert_int_equal(out.remaining, max);
		assert_int_equal(out.reset_after_ns, 0);
		assert_int_equal(in_flight(&limit, NOW + 1), 0);
		assert_int_equal(acquire(&limit, max, 1, NOW + 1), NOW + LEASE + 1);
	}
}

static void a_second_or_late_release_changes_nothing(void **unused)
{
	struct algo_limit limit;
	uint64_t until_ns;

	(void)unused;
	make(&limit, 5);
	until_ns = acquire(&limit, 2, 7, NOW);
	assert_int_equal(acquire(&limit, 2, 8, NOW), until_ns);
	assert_false(give(&limit, 2, 9, until_ns, NOW));
	assert_false(give(&limit, 2, 7, until_ns + 1, NOW));
	assert_false(give(&limit, 2, 0, until_ns, NOW) && in_flight(&limit, NOW) != 4);
	assert_true(give(&limit, 2, 7, until_ns, NOW));
	assert_int_equal(out.remaining, 3);
	assert_false(give(&limit, 2, 7, until_ns, NOW));
	assert_int_equal(out.remaining, 3);
	acquire(&limit, 2, 10, NOW + 1); /* where the first was */
	assert_false(give(&limit, 2, 7, until_ns, NOW + 1));
	assert_true(give(&limit, 2, 8, until_ns, until_ns - 1));
	assert_int_equal(out.remaining, 3);
	assert_false(give(&limit, 2, 10, until_ns + 1, until_ns + 1));
	assert_int_equal(in_flight(&limit, until_ns + 1), 0);
}

static void a_lease_ends_to_the_nanosecond_and_retry_says_when(void **unused)
{
	struct weir_limit_options options = {
	    .algorithm = WEIR_ALGORITHM_CONCURRENCY, .max = 2, .lease_ns = 1000, .retry_ns = 700};
	struct algo_limit limit;

	(void)unused;
	assert_int_equal(algo_limit_init(&limit, &options, NULL), WEIR_OK);
	acquire(&limit, 1, 0, NOW);
	acquire(&limit, 1, 0, NOW + 600);
	assert_int_equal(out.reset_after_ns, 1000);
	acquire(&limit, 1, 0, NOW + 600);
	assert_int_equal(out.retry_after_ns, 400);
	assert_int_equal(admitted(&limit, 1, NOW + 999), 0);
	assert_int_equal(admitted(&limit, 2, NOW + 1000), 1);
	assert_int_equal(out.retry_after_ns, 600);
	assert_int_equal(admitted(&limit, 3, NOW + 2000), 2);
	assert_int_equal(out.retry_after_ns, 700);
}

static void leases_without_a_permit_are_released_newest_first_and_others_stay(void **unused)
{
	struct algo_limit limit;

	(void)unused;
	make(&limit, 10);
	acquire(&limit, 1, UINT64_C(5) << 32, NOW + 9);
	for (unsigned i = 0; i < 3; i++)
		acquire(&limit, 2, 0, NOW + i);
	give(&limit, 3, 0, 0, NOW + 9);
	assert_int_equal(out.remaining, 6);
	assert_int_equal(in_flight(&limit, NOW + LEASE), 2); /* the second of the middle, the named */
	give(&limit, 99, 0, 0, NOW + 9);
	assert_int_equal(in_flight(&limit, NOW + 9), 1);
}

static void a_cost_that_does_not_fit_takes_nothing(void **unused)
{
	struct algo_limit limit;

	(void)unused;
	make(&limit, 5);
	acquire(&limit, 3, 1, NOW);
	assert_int_equal(acquire(&limit, 3, 2, NOW), 0);
	assert_int_equal(in_flight(&limit, NOW), 3);
	assert_int_equal(acquire(&limit, 0, 2, NOW), 0);
	assert_true(out.allowed);
	assert_int_equal(in_flight(&limit, NOW), 3);
}

/* ---- clocks ---- */

static void a_clock_that_lags_has_no_leases_of_its_own(void **unused)
{
	struct algo_limit limit;

	(void)unused;
	make(&limit, 10);
	assert_int_equal(admitted(&limit, 4, NOW), 4);
	assert_int_equal(admitted(&limit, 20, NOW - NS_PER_DAY + LEASE), 6);
	assert_int_equal(admitted(&limit, 20, NOW), 6); /* by then those leases were long over */
	assert_int_equal(admitted(&limit, 20, NOW), 0);
}

static void a_clock_set_back_by_years_holds_an_entry_for_one_lease(void **unused)
{
	struct algo_limit limit;

	(void)unused;
	make(&limit, 10);
	acquire(&limit, 4, 1, NOW);
	assert_int_equal(in_flight(&limit, NOW - YEAR), 4);
	assert_int_equal(admitted(&limit, 20, NOW - YEAR), 6);
	assert_int_equal(admitted(&limit, 20, NOW - YEAR + LEASE - 1), 0);
	assert_int_equal(admitted(&limit, 20, NOW - YEAR + LEASE), 10);
	assert_int_equal(admitted(&limit, 20, NOW + YEAR), 10); /* and set right again */
}

/* ---- room for keys ---- */

static uint64_t hold(const struct algo_limit *limit, uint64_t key, uint64_t now_ns)
{
	return ask_key(limit, (struct algo_call){.op = ALGO_ACQUIRE, .cost = 1, .permit = key + 1}, key,
	               now_ns, &out);
}

static void let_go(const struct algo_limit *limit, uint64_t key, uint64_t now_ns)
{
	ask_key(limit, (struct algo_call){ALGO_REFUND, 1, 0, .permit = key + 1}, key, now_ns, &out);
}

/* The flood meets the same limit: other limits have tables of their own. */
static void no_flood_evicts_a_key_with_leases(void **unused)
{
	struct algo_limit limit;
	unsigned denied = 0;

	(void)unused;
	make(&limit, 1);
	for (uint64_t key = 0; key < 20; key++)
		assert_true(hold(&limit, key, NOW));
	for (uint64_t key = 20; key < 20000; key++)
		denied += !hold(&limit, key, NOW + key);
	assert_true(denied > 19000);
	for (uint64_t key = 0; key < 20; key++)
		assert_false(hold(&limit, key, NOW + LEASE - 1));
}

static void a_table_full_of_permits_denies_until_there_is_room(void **unused)
{
	struct weir_limit_options log = {.algorithm = WEIR_ALGORITHM_SLIDING_LOG,
	                                 .rate = {1, 1, WEIR_UNIT_HOUR}};
	struct algo_limit limit, other;
	unsigned held = 0;

	(void)unused;
	make(&limit, 1);
	assert_int_equal(algo_limit_init(&other, &log, NULL), WEIR_OK);
	other.identity = 2;
	for (uint64_t key = 0; key < 1000; key++)
		held += hold(&limit, key, NOW) != 0;
	assert_int_equal(held, memory_wide(memory_of(store), 1)->table.sets * TABLE_SET_CELLS);
	hold(&limit, 5000, NOW);
	assert_int_equal(out.reason, WEIR_REASON_NO_ROOM);
	assert_int_equal(out.retry_after_ns, NS_PER_S);
	limit.retry_ns = 7 * NS_PER_S;
	hold(&limit, 5000, NOW);
	assert_int_equal(out.reason, WEIR_REASON_NO_ROOM);
	assert_int_equal(out.retry_after_ns, 7 * NS_PER_S);
	for (uint64_t cost = 0; cost < 2; cost++) { /* who only looks is told the same */
		ask_key(&limit, (struct algo_call){.op = ALGO_PEEK, .cost = cost}, 5000, NOW, &out);
		assert_false(out.allowed);
		assert_int_equal(out.reason, WEIR_REASON_NO_ROOM);
		assert_int_equal(out.reset_after_ns, out.retry_after_ns);
	}
	ask_key(&other, (struct algo_call){.op = ALGO_ACQUIRE, .cost = 1}, 5000, NOW, &out);
	assert_true(out.allowed);
	for (uint64_t key = 0; key < 1000; key++)
		let_go(&limit, key, NOW);
	assert_true(hold(&limit, 5000, NOW));
}

static void keys_without_leases_can_be_evicted(void **unused)
{
	struct weir_table_stats stats;
	struct algo_limit limit;

	(void)unused;
	make(&limit, 3);
	for (uint64_t key = 0; key < 20000; key++) {
		assert_true(hold(&limit, key, NOW));
		assert_true(hold(&limit, key, NOW));
		let_go(&limit, key, NOW);
		let_go(&limit, key, NOW);
	}
	store_stats(store, NOW, &stats);
	assert_int_equal(stats.live, 0);
	assert_int_equal(stats.evictions, 0);
}

/* ---- reloads ---- */

static void reload(struct algo_limit *old, struct algo_limit *next, uint64_t max)
{
	const struct algo_limit *limits = next;

	make(next, max);
	next->identity = old->identity;
	assert_int_equal(store_reserve(store, &limits, 1, NULL), WEIR_OK);
	algo_hand_over(old, next);
}

static void permits_in_flight_count_after_any_change_of_max(void **unused)
{
	static const uint64_t maxima[] = {10, 4, 6, 100, 8, 5000, 20};
	struct algo_limit limits[7];
	uint64_t until_ns;

	(void)unused;
	make(&limits[0], 10);
	until_ns = acquire(&limits[0], 3, 100, NOW);
	for (uint64_t i = 0; i < 4; i++)
		acquire(&limits[0], 1, 1 + i, NOW);
	for (unsigned i = 1; i < 7; i++) {
		reload(&limits[i - 1], &limits[i], maxima[i]);
		assert_int_equal(in_flight(&limits[i], NOW), u64_min(7, maxima[i]));
		assert_int_equal(admitted(&limits[0], 6000, NOW), maxima[i] > 7 ? maxima[i] - 7 : 0);
		give(&limits[0], 6000, 0, 0, NOW); /* by who has not heard, too */
	}
	for (uint64_t i = 0; i < 4; i++) {
		assert_true(give(&limits[6], 1, 1 + i, until_ns, NOW));
		assert_false(give(&limits[6], 1, 1 + i, until_ns, NOW));
	}
	assert_int_equal(out.remaining, 17);
	assert_true(give(&limits[6], 3, 100, until_ns, NOW));
	assert_int_equal(out.reset_after_ns, 0);
	assert_int_equal(admitted(&limits[6], 30, NOW), 20);
	assert_int_equal(admitted(&limits[6], 30, NOW + LEASE), 20);
}

/* In the record, and so by its header, which is raised once more when that was written long ago. */
static void leases_beyond_max_count_and_are_released(void **unused)
{
	for (uint64_t kept = 0; kept < 8; kept++) {
		struct algo_limit few, many, again;

		open_small(unused);
		make(&few, 4);
		acquire(&few, 1, 1, NOW);
		reload(&few, &many, 10);
		for (uint64_t id = 2; id <= 10; id++)
			acquire(&many, 1, id, NOW);
		assert_int_equal(in_flight(&many, NOW), 10);
		for (uint64_t id = 1; id <= 10; id++)
			if (id - 1 - kept >= 3)
				assert_true(give(&many, 1, id, NOW + LEASE, NOW));
		reload(&many, &again, 4);
		assert_true(acquire(&again, 1, 99, NOW + LEASE / 2));
		assert_int_equal(in_flight(&again, NOW + LEASE / 2), 4);
		for (uint64_t id = kept + 1; id <= kept + 3; id++)
			assert_true(give(&again, 1, id, NOW + LEASE, NOW + LEASE / 2));
		close_table(unused);
	}
}

/* ---- at once ---- */

/* The thread sanitizer sees a race in few rounds, and takes long for each. */
#ifdef __SANITIZE_THREAD__
#define FLIGHTS(n_) ((n_) / 10)
#else
#define FLIGHTS(n_) (n_)
#endif

struct crowd {
	const struct algo_limit *limit;
	unsigned max;    /* that may be in flight beside what is held all the time */
	unsigned rounds;
	uint64_t cost;   /* up to it */
	bool named;
	bool crowded;    /* other keys come and go, and take cells that say nothing */
	unsigned number, denied, in_flight, wrong;
};

static void come_and_go(const struct algo_limit *limit, uint64_t key)
{
	struct algo_call call = {.op = ALGO_ACQUIRE, .cost = 1, .permit = key};
	struct algo_decision answer;

	call.until_ns = ask_key(limit, call, key, NOW, &answer);
	call.op = ALGO_REFUND;
	ask_key(limit, call, key, NOW, &answer);
}

static void *fly(void *context)
{
	struct crowd *crowd = context;
	unsigned number = __atomic_add_fetch(&crowd->number, 1, __ATOMIC_RELAXED), seed = number;

	for (unsigned i = 0; i < crowd->rounds; i++) {
		uint64_t cost = 1 + (unsigned)rand_r(&seed) % crowd->cost;
		struct algo_call call = {.op = ALGO_ACQUIRE, .cost = cost};
		struct algo_decision answer;

		if (crowd->crowded)
			come_and_go(crowd->limit, 1 + (unsigned)rand_r(&seed) % 500);
		if (crowd->named)
			call.permit = (uint64_t)number << 20 | i << 1 | 1;
		call.until_ns = ask_key(crowd->limit, call, 0, NOW, &answer);
		if (!answer.allowed) {
			__atomic_add_fetch(&crowd->denied, 1, __ATOMIC_RELAXED);
			continue;
		}
		if (__atomic_add_fetch(&crowd->in_flight, cost, __ATOMIC_SEQ_CST) > crowd->max)
			__atomic_add_fetch(&crowd->wrong, 1, __ATOMIC_RELAXED);
		if (i % 2 == 0)
			sched_yield(); /* so that there is seldom room */
		__atomic_sub_fetch(&crowd->in_flight, cost, __ATOMIC_SEQ_CST);
		call.op = ALGO_REFUND;
		ask_key(crowd->limit, call, 0, NOW, &answer);
		if (!answer.allowed)
			__atomic_add_fetch(&crowd->wrong, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

#define THREADS 4

static void let_fly(struct crowd *crowd)
{
	uint64_t held = in_flight(crowd->limit, NOW);
	pthread_t threads[THREADS];

	for (unsigned i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, fly, crowd), 0);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(crowd->wrong, 0);
	assert_int_equal(in_flight(crowd->limit, NOW), held);
	assert_int_equal(out.reset_after_ns, held ? LEASE : 0);
	assert_int_equal(admitted(crowd->limit, 2 * crowd->max, NOW), crowd->max);
}

static void no_more_than_max_are_in_flight_whatever_threads_do(void **unused)
{
	struct algo_limit limit;

	(void)unused;
	for (unsigned i = 0; i < 10; i++) {
		unsigned max = 2U << i / 2 / 2;
		struct crowd crowd = {.limit = &limit, .max = max, .rounds = FLIGHTS(6000), .cost = max < 3 ? 1 : 3,
		                      .named = i % 2 == 0, .crowded = i / 2 % 2 == 0};

		make(&limit, max);
		limit.identity = i + 1;
		let_fly(&crowd);
	}
}

/* If there are more places than may be taken, no two requests take the last room at once. */
static void no_more_than_max_are_in_flight_beside_earlier_leases(void **unused)
{
	static const uint64_t reloads[][3] = {{12, 6, 7}, {12, 9, 13}, {100, 60, 64}, {3, 3, 14}};

	(void)unused;
	for (unsigned i = 0; i < 16; i++) {
		const uint64_t *reload_of = reloads[i % 4];
		struct algo_limit before, limit;
		struct crowd crowd = {.limit = &limit, .max = (unsigned)(reload_of[2] - reload_of[1]),
		                      .rounds = FLIGHTS(5000), .cost = 2, .named = true};

		make(&before, reload_of[0]);
		before.identity = limit.identity = 100 + i;
		for (uint64_t n = 0; n < reload_of[1]; n++)
			acquire(&before, 1, 1000 * i + n + 1, NOW);
		reload(&before, &limit, reload_of[2]);
		limit.identity = 100 + i;
		let_fly(&crowd);
	}
}

/* Holes that move while somebody looks for one. */
static void as_many_threads_as_entries_are_never_denied(void **unused)
{
	struct algo_limit limit;
	struct crowd crowd = {.limit = &limit, .max = THREADS, .rounds = FLIGHTS(40000), .cost = 1};

	(void)unused;
	make(&limit, THREADS);
	let_fly(&crowd);
	assert_int_equal(crowd.denied, 0);
}

static void reloads_under_load_let_no_more_pass(void **unused)
{
	enum { RELOADS = 1000 };
	static const uint64_t maxima[] = {3, 1, 2, 8, 3, 20, 5};
	struct algo_limit *limits = calloc(RELOADS + 1, sizeof *limits);
	struct crowd crowd = {.limit = &limits[0], .max = 20, .rounds = FLIGHTS(20000), .cost = 2,
	                      .named = true};
	pthread_t threads[THREADS];

	(void)unused;
	make(&limits[0], 3);
	for (unsigned i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, fly, &crowd), 0);
	for (unsigned i = 1; i <= RELOADS; i++)
		reload(&limits[i - 1], &limits[i], maxima[i % 7]);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(crowd.wrong, 0);
	assert_int_equal(in_flight(&limits[RELOADS], NOW), 0);
	assert_int_equal(admitted(&limits[0], 50, NOW), limits[RELOADS].quota);
	free(limits);
}

/* ---- killed ---- */

#define PROCESSES 3
#define MAX       5
#define ROUNDS    60

/* How many each of the processes holds, 16 bits each: at once, so it is never seen half. */
static unsigned sum_of(uint64_t flying)
{
	unsigned sum = 0;

	for (; flying != 0; flying >>= 16)
		sum += flying & 0xffff;
	return sum;
}

static void hold_until_killed(const struct algo_limit *limit, uint64_t now_ns, unsigned me,
                              uint64_t *in_flight, uint64_t *most)
{
	unsigned seed = me + 1;
	uint64_t one = UINT64_C(1) << 16 * me;

	open_table(0, path);
	for (uint64_t i = 0;; i++) {
		uint64_t permit = i << 8 | (me + 1), cost = 1 + (uint64_t)rand_r(&seed) % 3, until_ns;
		unsigned sum;

		until_ns = acquire(limit, cost, permit, now_ns);
		if (!until_ns)
			continue;
		sum = sum_of(__atomic_add_fetch(in_flight, cost * one, __ATOMIC_SEQ_CST));
		if (sum > MAX)
			__atomic_store_n(most, sum, __ATOMIC_SEQ_CST);
		__atomic_add_fetch(&most[1], 1, __ATOMIC_SEQ_CST);
		__atomic_sub_fetch(in_flight, cost * one, __ATOMIC_SEQ_CST);
		give(limit, cost, permit, until_ns, now_ns);
	}
}

static void killed_processes_hold_leases_until_these_end(void **unused)
{
	uint64_t *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	unsigned long lost = 0;
	struct algo_limit limit;

	(void)unused;
	make(&limit, MAX);
	open_table(100, path);
	for (unsigned round = 0; round < ROUNDS; round++) {
		uint64_t now_ns = NOW + round * LEASE;
		pid_t pids[PROCESSES];

		shared[0] = shared[2] = 0;
		for (unsigned i = 0; i < PROCESSES; i++)
			if ((pids[i] = fork()) == 0)
				hold_until_killed(&limit, now_ns, i, &shared[0], &shared[1]);
		for (unsigned i = 0; i < PROCESSES; i++) { /* each while the others go on */
			uint64_t enough = __atomic_load_n(&shared[2], __ATOMIC_SEQ_CST) + 50 + round % 7;

			while (__atomic_load_n(&shared[2], __ATOMIC_SEQ_CST) < enough &&
			       in_flight(&limit, now_ns) < MAX)
				sched_yield();
			kill(pids[i], SIGKILL);
			waitpid(pids[i], NULL, 0);
		}
		assert_int_equal(shared[1], 0);
		assert_in_range(in_flight(&limit, now_ns), sum_of(shared[0]), MAX);
		lost += in_flight(&limit, now_ns);
		assert_int_equal(in_flight(&limit, now_ns), in_flight(&limit, now_ns + LEASE - 1));
		assert_int_equal(in_flight(&limit, now_ns + LEASE), 0);
	}
	print_message("%lu places held by the dead\n", lost);
	assert_int_equal(admitted(&limit, 9, NOW + ROUNDS * LEASE), MAX);
	munmap(shared, 4096);
	store_close(store);
}

int main(void)
{
#define IN_A_SMALL_TABLE(test) cmocka_unit_test_setup_teardown(test, open_small, close_table)
	const struct CMUnitTest tests[] = {
	    IN_A_SMALL_TABLE(max_are_in_flight_and_each_release_admits_one),
	    IN_A_SMALL_TABLE(a_second_or_late_release_changes_nothing),
	    IN_A_SMALL_TABLE(a_lease_ends_to_the_nanosecond_and_retry_says_when),
	    IN_A_SMALL_TABLE(leases_without_a_permit_are_released_newest_first_and_others_stay),
	    IN_A_SMALL_TABLE(a_cost_that_does_not_fit_takes_nothing),
	    IN_A_SMALL_TABLE(a_clock_that_lags_has_no_leases_of_its_own),
	    IN_A_SMALL_TABLE(a_clock_set_back_by_years_holds_an_entry_for_one_lease),
	    IN_A_SMALL_TABLE(no_flood_evicts_a_key_with_leases),
	    IN_A_SMALL_TABLE(a_table_full_of_permits_denies_until_there_is_room),
	    IN_A_SMALL_TABLE(keys_without_leases_can_be_evicted),
	    IN_A_SMALL_TABLE(permits_in_flight_count_after_any_change_of_max),
	    cmocka_unit_test(leases_beyond_max_count_and_are_released),
	    IN_A_SMALL_TABLE(no_more_than_max_are_in_flight_whatever_threads_do),
	    IN_A_SMALL_TABLE(no_more_than_max_are_in_flight_beside_earlier_leases),
	    IN_A_SMALL_TABLE(as_many_threads_as_entries_are_never_denied),
	    IN_A_SMALL_TABLE(reloads_under_load_let_no_more_pass),
	    cmocka_unit_test(killed_processes_hold_leases_until_these_end),
	};

	return cmocka_run_group_tests(tests, path_choose, path_remove);
}
