/* A client at a real Redis that fails in all ways. Commands are those of counters.h. */
#include "scene.h"
#include "counters.h"

#define KEYS_MAX 300

static void open_client(struct scene *s, const char *user, uint64_t timeout_ns)
{
	open_store(s, user, (struct redis_options){.timeout_ns = timeout_ns});
	assert_int_equal(algo_limit_init(&s->limit,
	                                 &(struct weir_limit_options){
	                                     .algorithm = WEIR_ALGORITHM_FIXED_WINDOW, .rate = {5}},
	                                 NULL),
	                 WEIR_OK);
}

/* With a Redis that has both scripts. */
static struct scene *begin(const char *const *more)
{
	struct scene *s = calloc(1, sizeof *s);
	struct one ones[2];

	s->server = server_start(more);
	open_client(s, "", 0);
	make(s, &ones[0], "first", 1);
	make(s, &ones[1], "second", 1);
	run(s, ones, 2);
	assert_int_equal(ask(s, "first", &ones[0]), WEIR_OK);
	redis_store_stats(s->store, &s->before);
	return s;
}

static void equal_requests_are_one_command(void **state)
{
	struct scene *s = begin(NULL);
	struct one ones[9];
	struct redis_stats stats;

	(void)state;
	for (size_t i = 0; i < 9; i++)
		make(s, &ones[i], i == 4 ? "other" : "hot", 1);
	run(s, ones, 9);
	for (size_t i = 0; i < 9; i++) {
		assert_int_equal(ones[i].operation.status, WEIR_OK);
		assert_int_equal(ones[i].operation.outcome.allowed,
		                 i < 6); /* five of eight, and the other */
	}
	stats = stats_of(s);
	assert_int_equal(stats.calls, 1);
	assert_int_equal(stats.steps, 2);
	assert_true(stats.is_up);
	end(s);
}

static void requests_are_gathered_while_calls_are_under_way(void **state)
{
	struct scene *s = begin(NULL);
	struct one ones[10];

	(void)state;
	for (size_t i = 0; i < 10; i++) {
		make(s, &ones[i], i == 9 ? "other" : "hot", 1);
		submit(s, &ones[i], 1); /* an iteration each */
	}
	blocking_run(s->transport, &s->pending);
	for (size_t i = 0; i < 10; i++) {
		assert_int_equal(ones[i].operation.status, WEIR_OK);
		assert_int_equal(ones[i].operation.outcome.allowed, i < 5 || i == 9);
	}
	assert_int_equal(stats_of(s).calls, 2);
	assert_int_equal(stats_of(s).steps, 3);
	end(s);
}

static void requests_of_another_cost_keep_their_order(void **state)
{
	static const uint64_t costs[] = {2, 2, 1, 2, 1};
	static const bool allowed[] = {true, true, true, false, false};
	struct scene *s = begin(NULL);
	struct one ones[5];

	(void)state;
	for (size_t i = 0; i < 5; i++)
		make(s, &ones[i], "k", costs[i]);
	run(s, ones, 5);
	for (size_t i = 0; i < 5; i++)
		assert_int_equal(ones[i].operation.outcome.allowed, allowed[i]);
	assert_int_equal(stats_of(s).steps, 4);
	end(s);
}

static void an_iteration_of_many_keys_is_a_few_calls(void **state)
{
	struct scene *s = begin(NULL);
	static struct one ones[KEYS_MAX];

	(void)state;
	for (size_t i = 0; i < KEYS_MAX; i++) {
		char key[16];

		snprintf(key, sizeof key, "k%zu", i);
		make(s, &ones[i], key, 1);
	}
	run(s, ones, KEYS_MAX);
	for (size_t i = 0; i < KEYS_MAX; i++)
		assert_true(ones[i].operation.status == WEIR_OK && ones[i].operation.outcome.allowed);
	assert_int_equal(stats_of(s).calls, (KEYS_MAX + CALL_COMMANDS_FULL - 1) / CALL_COMMANDS_FULL);
	end(s);
}

/* Submits them as one group. */
static void run_group(struct scene *s, struct one *ones, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		ones[i].operation.is_all_or_nothing = true;
		ones[i].operation.next = i + 1 < n ? &ones[i + 1].operation : NULL;
	}
	s->store->kind->submit(s->client, &ones[0].operation);
	redis_client_flush(s->client);
	blocking_run(s->transport, &s->pending);
}

static void a_command_group_is_all_or_nothing(void **state)
{
	struct scene *s = begin(NULL);
	struct one ones[3], one;

	(void)state;
	for (size_t i = 0; i < 3; i++)
		make(s, &ones[i], i == 1 ? "little" : i == 0 ? "a" : "b", i == 1 ? 4 : 1);
	run_group(s, ones, 3);
	for (size_t i = 0; i < 3; i++)
		assert_true(ones[i].operation.outcome.allowed && !ones[i].operation.withheld);
	for (size_t i = 0; i < 3; i++)
		make(s, &ones[i], i == 1 ? "little" : i == 0 ? "a" : "b", i == 1 ? 4 : 1);
	run_group(s, ones, 3);
	assert_true(ones[0].operation.withheld && !ones[1].operation.withheld &&
	            ones[2].operation.withheld);
	assert_false(ones[1].operation.outcome.allowed);
	assert_int_equal(ask(s, "a", &one), WEIR_OK);
	assert_int_equal(one.operation.outcome.remaining, 3); /* as the group left it before */
	end(s);
}

/* Each would pass alone; the first is charged, and the maker of the group refunds that. */
static void commands_on_one_key_are_no_group(void **state)
{
	struct scene *s = begin(NULL);
	struct one ones[2];

	(void)state;
	for (size_t i = 0; i < 2; i++)
		make(s, &ones[i], "little", 3);
	run_group(s, ones, 2);
	assert_true(ones[0].operation.outcome.allowed && !ones[0].operation.withheld);
	assert_true(!ones[1].operation.outcome.allowed && !ones[1].operation.withheld);
	end(s);
}

static void a_group_is_never_cut_in_two(void **state)
{
	struct scene *s = begin(NULL);
	static struct one ones[CALL_COMMANDS_MAX - 1], group[3];

	(void)state;
	for (size_t i = 0; i < CALL_COMMANDS_MAX - 1; i++) {
		char key[16];

		snprintf(key, sizeof key, "k%zu", i);
		make(s, &ones[i], key, 1);
		s->store->kind->submit(s->client, &ones[i].operation);
	}
	for (size_t i = 0; i < 3; i++)
		make(s, &group[i], i == 2 ? "none" : i == 1 ? "h" : "g", i == 2 ? 6 : 1);
	run_group(s, group, 3);
	assert_true(group[0].operation.withheld && group[1].operation.withheld);
	assert_int_equal(stats_of(s).calls, 2);
	end(s);
}

static void commands_are_repeated(void **state)
{
	struct scene *s = begin(NULL);
	struct one ones[2];

	(void)state;
	make(s, &ones[0], "again", 1);
	make(s, &ones[1], "at once", 1);
	run(s, ones, 2);
	assert_int_equal(ones[0].operation.status, WEIR_OK);
	assert_int_equal(ones[1].operation.status, WEIR_OK);
	assert_true(ones[1].order < ones[0].order);
	assert_int_equal(stats_of(s).calls, 3);
	end(s);
}

static void a_command_with_an_invalid_reply_fails_alone(void **state)
{
	struct scene *s = begin(NULL);
	struct one ones[2];

	(void)state;
	make(s, &ones[0], "nonsense", 1);
	make(s, &ones[1], "sense", 1);
	run(s, ones, 2);
	assert_int_equal(ones[0].operation.status, WEIR_ESTORE);
	assert_int_equal(ones[1].operation.status, WEIR_OK);
	assert_int_equal(stats_of(s).failed, 1);
	assert_int_equal(s->away, 0);
	end(s);
}

static void flushed_scripts_are_loaded_again(void **state)
{
	struct scene *s = begin(NULL);
	struct one ones[2 * CALL_COMMANDS_MAX], one;
	char answer[64];

	(void)state;
	assert_int_equal(ask(s, "k", &one), WEIR_OK);
	for (size_t round = 0; round < 3; round++) {
		command(s, answer, sizeof answer, "SCRIPT FLUSH");
		for (size_t i = 0; i < 2 * CALL_COMMANDS_MAX; i++) {
			char key[16];

			snprintf(key, sizeof key, "k%zu", i);
			make(s, &ones[i], key, 1);
		}
		run(s, ones, 2 * CALL_COMMANDS_MAX);
		for (size_t i = 0; i < 2 * CALL_COMMANDS_MAX; i++)
			assert_true(ones[i].operation.status == WEIR_OK && ones[i].operation.outcome.allowed);
		assert_int_equal(ask(s, "k", &one), WEIR_OK);
		assert_int_equal(one.operation.outcome.remaining, 3 - round);
	}
	assert_int_equal(s->away, 0);
	end(s);
}

static void a_redis_that_dies_costs_one_round_and_recovers_by_itself(void **state)
{
	struct scene *s = begin(NULL);
	struct one one;

	(void)state;
	assert_int_equal(ask(s, "k", &one), WEIR_OK);
	server_kill(&s->server);
	assert_int_equal(ask(s, "k", &one), WEIR_ESTORE);
	assert_int_equal(s->away, 1);
	assert_non_null(strstr(s->why, "127.0.0.1:"));
	for (size_t i = 0; i < 20; i++)
		assert_int_equal(ask(s, "k", &one), WEIR_ESTORE);
	assert_false(stats_of(s).is_up);
	server_start_in(&s->server, "--port", NULL);
	await_recovery(s); /* nobody asks for anything */
	assert_int_equal(ask(s, "k", &one), WEIR_OK);
	assert_int_equal(stats_of(s).switches, 1);
	assert_int_equal(s->back, 1);
	end(s);
}

static void a_redis_that_is_missing_at_the_start_is_found(void **state)
{
	struct scene *s = calloc(1, sizeof *s);
	struct one one;

	(void)state;
	s->server = server_make();
	open_client(s, "", 0);
	assert_int_equal(ask(s, "k", &one), WEIR_ESTORE);
	assert_int_equal(s->away, 1);
	server_start_in(&s->server, "--port", NULL);
	await_recovery(s);
	assert_int_equal(ask(s, "k", &one), WEIR_OK);
	end(s);
}

/* For a new key; again, where the timeout was too short for a machine that stands still. */
static void ask_patiently(struct scene *s, struct one *one)
{
	static unsigned number;
	char key[16];

	snprintf(key, sizeof key, "new %u", ++number);
	while (ask(s, key, one) != WEIR_OK) {
		await_recovery(s);
		snprintf(key, sizeof key, "new %u", ++number);
	}
}

/* Redis may carry out the sent call; nothing is sent again. */
static void a_redis_that_hangs_costs_one_timeout(void **state)
{
	struct scene *s = calloc(1, sizeof *s);
	struct one ones[8], one;
	struct redis_stats stats;
	unsigned long before;

	(void)state;
	s->server = server_start(NULL);
	open_client(s, "", 200 * NS_PER_MS);
	ask_patiently(s, &one);
	before = calls_of(s);
	stats = stats_of(s);
	kill(s->server.pid, SIGSTOP);
	for (size_t i = 0; i < 8; i++)
		make(s, &ones[i], "k", 1);
	run(s, ones, 8);
	for (size_t i = 0; i < 8; i++)
		assert_int_equal(ones[i].operation.status, WEIR_ESTORE);
	for (size_t i = 0; i < 20; i++)
		assert_int_equal(ask(s, "k", &one), WEIR_ESTORE);
	assert_int_equal(stats_of(s).calls, stats.calls + 1);
	assert_int_equal(stats_of(s).switches, stats.switches + 1);
	assert_true(stats_of(s).timeouts > stats.timeouts);
	assert_non_null(strstr(s->why, "no answer within 200 ms"));
	kill(s->server.pid, SIGCONT);
	await_recovery(s);
	assert_in_range(calls_of(s), before, before + 1);
	ask_patiently(s, &one);
	assert_int_equal(one.operation.outcome.remaining, 4);
	end(s);
}

static void a_lost_connection_is_opened_again_at_once(void **state)
{
	struct scene *s = begin(NULL);
	struct one one;
	char answer[64];

	(void)state;
	assert_int_equal(ask(s, "k", &one), WEIR_OK);
	command(s, answer, sizeof answer, "CLIENT KILL TYPE normal SKIPME yes");
	assert_int_equal(ask(s, "k", &one), WEIR_OK); /* it had nothing on its way */
	assert_int_equal(s->away, 0);
	make(s, &one, "k", 1);
	kill(s->server.pid, SIGSTOP);
	submit(s, &one, 1);
	blocking_poll(s->transport);
	server_kill(&s->server);
	blocking_run(s->transport, &s->pending);
	assert_int_equal(one.operation.status, WEIR_ESTORE);
	assert_int_equal(stats_of(s).timeouts, 0);
	server_start_in(&s->server, "--port", NULL);
	await_recovery(s);
	end(s);
}

static void a_redis_that_refuses_writes_is_unavailable(void **state)
{
	static const struct {
		const char *spoil, *mend, *why;
	} cases[] = {
	    {"CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0", "OOM"},
	    {"REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE", ""},
	    {"CONFIG SET min-replicas-to-write 3", "CONFIG SET min-replicas-to-write 0", "NOREPLICAS"},
	};
	static const char *const protected[] = {"--replica-serve-stale-data", "yes", NULL};
	char answer[64];

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct scene *s = begin(protected);
		struct one one;

		assert_int_equal(ask(s, "k", &one), WEIR_OK);
		command(s, answer, sizeof answer, cases[i].spoil);
		assert_int_equal(answer[0], '+');
		assert_int_equal(ask(s, "k", &one), WEIR_ESTORE);
		assert_int_equal(s->away, 1);
		assert_non_null(strstr(s->why, cases[i].why));
		/* A probe that is due finds it as it was. */
		s->awaits_recovery = 1;
		assert_int_equal(ask(s, "k", &one), WEIR_ESTORE);
		assert_int_equal(s->back, 0);
		command(s, answer, sizeof answer, cases[i].mend);
		assert_int_equal(answer[0], '+');
		await_recovery(s);
		assert_int_equal(ask(s, "k", &one), WEIR_OK);
		assert_int_equal(one.operation.outcome.remaining, 3);
		end(s);
	}
}

static void a_wrong_or_missing_password_is_reported_without_its_text(void **state)
{
	static const char *const more[] = {"--requirepass", "right", NULL};
	static const char *const users[] = {"", ":wrong-one@"};

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct scene *s = calloc(1, sizeof *s);
		struct one one;

		s->server = server_start(more);
		open_client(s, users[i], 0);
		assert_int_equal(ask(s, "k", &one), WEIR_ESTORE);
		assert_int_equal(s->away, 1);
		assert_non_null(strstr(s->why, i == 0 ? "NOAUTH" : "refuses"));
		assert_null(strstr(s->why, "wrong-one"));
		assert_null(strstr(redis_store_name(s->store), "wrong-one"));
		end(s);
	}
}

/* Operations beyond the bound fail at once. */
static void operations_are_bounded(void **state)
{
	const size_t n = (64 << 10) + 10;
	struct scene *s = begin(NULL);
	struct one *ones = calloc(n, sizeof *ones);
	size_t failed = 0;

	(void)state;
	s->limit.quota = n;
	for (size_t i = 0; i < n; i++)
		make(s, &ones[i], i % 2 ? "a" : "b", 1);
	run(s, ones, n);
	for (size_t i = 0; i < n; i++)
		failed += ones[i].operation.status == WEIR_ESTORE;
	assert_int_equal(failed, 10);
	assert_true(stats_of(s).steps < 200);
	free(ones);
	end(s);
}

static void a_client_that_closes_fails_its_operations(void **state)
{
	struct scene *s = begin(NULL);
	struct one ones[2];

	(void)state;
	make(s, &ones[0], "k", 1);
	make(s, &ones[1], "l", 1);
	submit(s, ones, 1);
	s->store->kind->submit(s->client, &ones[1].operation);
	end(s);
	assert_int_equal(ones[0].operation.status, WEIR_ESTORE);
	assert_int_equal(ones[1].operation.status, WEIR_ESTORE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(equal_requests_are_one_command),
	    cmocka_unit_test(requests_are_gathered_while_calls_are_under_way),
	    cmocka_unit_test(requests_of_another_cost_keep_their_order),
	    cmocka_unit_test(an_iteration_of_many_keys_is_a_few_calls),
	    cmocka_unit_test(a_command_group_is_all_or_nothing),
	    cmocka_unit_test(commands_on_one_key_are_no_group),
	    cmocka_unit_test(a_group_is_never_cut_in_two),
	    cmocka_unit_test(commands_are_repeated),
	    cmocka_unit_test(a_command_with_an_invalid_reply_fails_alone),
	    cmocka_unit_test(flushed_scripts_are_loaded_again),
	    cmocka_unit_test(a_redis_that_dies_costs_one_round_and_recovers_by_itself),
	    cmocka_unit_test(a_redis_that_is_missing_at_the_start_is_found),
	    cmocka_unit_test(a_redis_that_hangs_costs_one_timeout),
	    cmocka_unit_test(a_lost_connection_is_opened_again_at_once),
	    cmocka_unit_test(a_redis_that_refuses_writes_is_unavailable),
	    cmocka_unit_test(a_wrong_or_missing_password_is_reported_without_its_text),
	    cmocka_unit_test(operations_are_bounded),
	    cmocka_unit_test(a_client_that_closes_fails_its_operations),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
