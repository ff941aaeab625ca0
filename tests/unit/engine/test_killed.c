/*
 * Processes killed while they charge two limits: each leaves one charge at most of what
 * was not answered.
 *
 * WEIR_TEST_SEED=N replays the choices; the scheduler's are its own.
 */
#include <sched.h>
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
#include <weir/engine.h>

#include "config.h"

#define NOW       UINT64_C(1700000000000000000)
#define PROCESSES 2
#define KILLS     200
#define STRIDE    4000 /* requests between two kills */
#define QUOTA     3    /* of a user */
#define TRIES     8 /* so processes meet at the last of it, and one takes back its charge of `all` */
#define USERS     (KILLS * (STRIDE + PROCESSES) / TRIES + 1)
#define ALL       (USERS * TRIES)

struct shared {
	uint64_t asked, granted, stop; /* asks no more once `stop` is reached */
};

static const struct rules_limit limits[] = {
    {.options = {.name = "all",
                 .algorithm = WEIR_ALGORITHM_RESETTING_BUCKET,
                 .rate = {ALL, 1, WEIR_UNIT_HOUR}}},
    {.options = {.name = "user",
                 .algorithm = WEIR_ALGORITHM_RESETTING_BUCKET,
                 .rate = {QUOTA, 1, WEIR_UNIT_HOUR}}},
};
static const char *const by_user[] = {"user"};
static const size_t first[] = {0}, second[] = {1};
static const struct rules_rule rules[] = {
    {.name = "all", .limits = first, .limit_count = 1},
    {.name = "user", .key = by_user, .key_count = 1, .limits = second, .limit_count = 1},
};
static const struct weir_config config = {LIMITS_OF(limits), RULES_OF(rules)};

static void ask_until_killed(weir_engine *engine, struct shared *shared)
{
	for (;;) {
		uint64_t user;
		struct weir_attribute attribute = {"user", (const char *)&user, sizeof user};
		struct weir_decision d;

		while (__atomic_load_n(&shared->asked, __ATOMIC_RELAXED) >=
		       __atomic_load_n(&shared->stop, __ATOMIC_RELAXED))
			sched_yield();
		user = __atomic_fetch_add(&shared->asked, 1, __ATOMIC_RELAXED) / TRIES;
		if (weir_engine_acquire(engine, &attribute, 1, 1, NOW, &d) == WEIR_OK && d.allowed)
			__atomic_fetch_add(&shared->granted, 1, __ATOMIC_RELAXED);
	}
}

static uint64_t used(weir_table *table, weir_engine *engine, const char *name, const void *key,
                     size_t len)
{
	struct weir_decision d;

	weir_peek(table, weir_engine_limit(engine, name, strlen(name)), (struct weir_key){key, len}, 1,
	          NOW, &d);
	return d.quota - d.remaining;
}

static void a_process_killed_in_between_leaves_at_most_a_partial_charge(void **state)
{
	struct shared *shared =
	    mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	const char *given = getenv("WEIR_TEST_SEED");
	unsigned seed = given ? (unsigned)atoi(given) : (unsigned)time(NULL);
	char path[] = "/tmp/weir-killed-XXXXXX";
	struct weir_table_options options = {.capacity = 2 * USERS, .path = path};
	pid_t pids[PROCESSES] = {0};
	uint64_t of_users = 0;
	weir_engine *engine;
	weir_table *table;

	(void)state;
	print_message("WEIR_TEST_SEED=%u\n", seed);
	close(mkstemp(path));
	unlink(path);
	assert_int_equal(weir_table_open(&options, &table, NULL), WEIR_OK);
	unlink(path); /* forked, the others have it */
	assert_int_equal(weir_engine_open(&config, table, &engine, NULL), WEIR_OK);
	for (unsigned kills = 0; kills < KILLS; kills++) {
		uint64_t until = kills * STRIDE + (unsigned)rand_r(&seed) % (STRIDE / 2);

		for (unsigned i = 0; i < PROCESSES; i++)
			if (pids[i] == 0 && (pids[i] = fork()) == 0)
				ask_until_killed(engine, shared);
		__atomic_store_n(&shared->stop, (kills + 1) * STRIDE, __ATOMIC_RELAXED);
		while (__atomic_load_n(&shared->asked, __ATOMIC_RELAXED) < until)
			sched_yield();
		kill(pids[kills % PROCESSES], SIGKILL);
		waitpid(pids[kills % PROCESSES], NULL, 0);
		pids[kills % PROCESSES] = 0;
	}
	for (unsigned i = 0; i < PROCESSES; i++)
		if (pids[i] > 0) {
			kill(pids[i], SIGKILL);
			waitpid(pids[i], NULL, 0);
		}
	for (uint64_t user = 0; user < USERS; user++)
		of_users += used(table, engine, "user", &user, sizeof user);
	assert_in_range(of_users, shared->granted, shared->granted + KILLS + PROCESSES);
	assert_in_range(used(table, engine, "all", "", 0), shared->granted,
	                shared->granted + KILLS + PROCESSES);
	weir_engine_close(engine);
	weir_table_close(table);
	munmap(shared, sizeof *shared);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_process_killed_in_between_leaves_at_most_a_partial_charge),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
