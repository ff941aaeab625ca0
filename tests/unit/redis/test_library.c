/* Tables of libweir_redis, and a Redis that dies, hangs and recovers. */
#include "server.h"

#include <pthread.h>
#include <time.h>

#include <weir/engine.h>
#include <weir/redis.h>
#include <weir/rules.h>

#include "base/number.h"
#include "base/os/os.h"

#define LONG_NS (20 * NS_PER_S) /* where no timeout is to be seen */

static weir_table *open_table(const struct server *server, uint64_t timeout_ns)
{
	char url[64];
	struct weir_error error = {0};
	weir_table *table;

	snprintf(url, sizeof url, "redis://127.0.0.1:%u", server->port);
	if (weir_redis_open(&(struct weir_redis_options){.url = url, .timeout_ns = timeout_ns}, &table,
	                    &error) != WEIR_OK)
		fail_msg("%s", error.message);
	return table;
}

static weir_limit *open_limit(const char *name, uint64_t quota)
{
	weir_limit *limit;

	assert_int_equal(
	    weir_limit_open(
	        &(struct weir_limit_options){.name = name, .rate = {quota, 1, WEIR_UNIT_HOUR}}, &limit,
	        NULL),
	    WEIR_OK);
	return limit;
}

static int acquire(weir_table *table, const weir_limit *limit, const char *key,
                   struct weir_decision *d)
{
	return weir_acquire(table, limit, (struct weir_key){key, strlen(key)}, 1, WEIR_NOW, d);
}

/* How often Redis has carried out a command, by its own statistics. */
static uint64_t count_commands(const struct server *server, const char *name)
{
	static const char question[] = "INFO commandstats\r\n";
	char text[32768], field[64];
	int fd = server_connect(server->port);
	size_t len = 0;
	const char *at;

	assert_int_equal(send(fd, question, sizeof question - 1, MSG_NOSIGNAL), sizeof question - 1);
	while (len < 4 || memcmp(text + len - 4, "\r\n\r\n", 4) != 0) {
		ssize_t n = recv(fd, text + len, sizeof text - 1 - len, 0);

		assert_true(n > 0);
		len += (size_t)n;
		text[len] = '\0';
		if (strstr(text, "cmdstat_info") || strcmp(text, "$20\r\n# Commandstats\r\n\r\n") == 0)
			break;
	}
	close(fd);
	snprintf(field, sizeof field, "cmdstat_%s:calls=", name);
	at = strstr(text, field);
	return at ? strtoull(at + strlen(field), NULL, 10) : 0;
}

static void options_are_checked(void **state)
{
	static const struct {
		struct weir_redis_options options;
		int status;
		const char *says;
	} bad[] = {
	    {{0}, WEIR_EINVAL, "url"},
	    {{.url = "memory"}, WEIR_EINVAL, "redis://"},
	    {{.url = "redis://h", .timeout_ns = 1}, WEIR_ERANGE, "timeout_ns"},
	    {{.url = "redis://h", .timeout_ns = 61 * NS_PER_S}, WEIR_ERANGE, "timeout_ns"},
	    {{.url = "redis://h", .denied_cache_ns = 61 * NS_PER_S}, WEIR_ERANGE, "denied_cache_ns"},
	    {{.url = "redis://h", .capacity = WEIR_CAPACITY_MAX + 1}, WEIR_ERANGE, ""},
	    {{.url = "redis://h", .prefix = "{a}"}, WEIR_EINVAL, "prefix: expected no { and }"},
	    {{.url = "redis://h", .nodes = 65537}, WEIR_ERANGE, "nodes: expected 65536 at most"},
	    {{.url = "redis://h",
	      .prefix = "a long prefix, a long prefix, a long prefix, a long prefix, a lon"},
	     WEIR_ERANGE,
	     "prefix: expected 64 bytes at most, found 65"},
	    {{.url = "redis://h", .reserved = {0, 1}}, WEIR_EINVAL, "reserved: expected 0, found 1"},
	    {{.url = "redis://u:hunter2@h:x"}, WEIR_EINVAL, "port"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		struct weir_error error = {0};
		weir_table *table;

		assert_int_equal(weir_redis_open(&bad[i].options, &table, &error), bad[i].status);
		assert_null(table);
		if (!strstr(error.message, bad[i].says) || strstr(error.message, "hunter2"))
			fail_msg("%zu: %s", i, error.message);
	}
}

static void a_table_is_open_before_its_redis_is(void **state)
{
	struct server server = server_make();
	weir_table *table = open_table(&server, LONG_NS);
	weir_limit *limit = open_limit("l", 5);
	struct weir_redis_stats stats;
	struct weir_decision d;

	(void)state;
	assert_int_equal(acquire(table, limit, "k", &d), WEIR_ESTORE);
	assert_false(d.allowed);
	assert_int_equal(d.reason, WEIR_REASON_STORE_FAILURE);
	assert_true(d.retry_after_ns > 0);
	assert_int_equal(weir_redis_stats(table, &stats), WEIR_OK);
	assert_int_equal(stats.up, 0);
	assert_int_equal(stats.switches, 1);
	assert_int_equal(stats.calls, 0);

	server_start_in(&server, "--port", NULL);
	for (int ms = 0; ms < SERVER_WAIT_MS && acquire(table, limit, "k", &d) != WEIR_OK; ms += 10)
		poll(NULL, 0, 10);
	assert_true(d.allowed);
	assert_int_equal(d.remaining, 4);
	assert_int_equal(weir_redis_stats(table, &stats), WEIR_OK);
	assert_int_equal(stats.up, 1);
	weir_limit_close(limit);
	weir_table_close(table);
	server_stop(&server);
}

static void assert_failure(const weir_table *table, const char *says)
{
	struct weir_error failure;

	assert_int_equal(weir_redis_failure(table, &failure), WEIR_OK);
	assert_int_equal(failure.status, says[0] ? WEIR_ESTORE : WEIR_OK);
	if (!strstr(failure.message, says) || (!says[0] && failure.message[0]) ||
	    strstr(failure.message, "hunter2"))
		fail_msg("%s", failure.message);
}

/* First Redis is not there, then it refuses the password, then it accepts it. */
static void a_caller_learns_why_redis_is_unavailable(void **state)
{
	struct server server = server_make();
	weir_limit *limit = open_limit("l", 5);
	struct weir_error error = {0};
	struct weir_decision d;
	weir_table *table;
	char url[64];

	(void)state;
	snprintf(url, sizeof url, "redis://:hunter2@127.0.0.1:%u", server.port);
	assert_int_equal(
	    weir_redis_open(&(struct weir_redis_options){.url = url, .timeout_ns = LONG_NS}, &table,
	                    &error),
	    WEIR_OK);
	assert_failure(table, "");
	assert_int_equal(acquire(table, limit, "k", &d), WEIR_ESTORE);
	assert_failure(table, "Connection refused");

	server_start_in(&server, "--port", (const char *const[]){"--requirepass", "other", NULL});
	for (int ms = 0; ms < SERVER_WAIT_MS; ms += 10) {
		struct weir_error failure;

		assert_int_equal(acquire(table, limit, "k", &d), WEIR_ESTORE);
		assert_int_equal(weir_redis_failure(table, &failure), WEIR_OK);
		if (strstr(failure.message, "password"))
			break;
		poll(NULL, 0, 10);
	}
	assert_failure(table, "Redis refuses user or password: WRONGPASS");
	weir_limit_close(limit);
	weir_table_close(table);
	server_stop(&server);
}

static void a_limit_is_for_all_tables_together(void **state)
{
	struct server server = server_start(NULL);
	weir_table *one = open_table(&server, LONG_NS), *two = open_table(&server, LONG_NS);
	weir_limit *limit = open_limit("l", 5);
	struct weir_decision d;

	(void)state;
	for (int i = 0; i < 5; i++) {
		assert_int_equal(acquire(i % 2 ? one : two, limit, "k", &d), WEIR_OK);
		assert_true(d.allowed);
		assert_int_equal(d.remaining, 4 - i);
	}
	assert_int_equal(acquire(one, limit, "k", &d), WEIR_OK);
	assert_false(d.allowed);
	assert_int_equal(acquire(two, limit, "other", &d), WEIR_OK);
	assert_true(d.allowed);
	weir_limit_close(limit);
	weir_table_close(one);
	weir_table_close(two);
	server_stop(&server);
}

#define THREADS 8
#define EACH    200

struct crowd {
	weir_table *table;
	weir_limit *limit;
	size_t allowed, errors;
};

static void *crowd_run(void *context)
{
	struct crowd *crowd = context;

	for (int i = 0; i < EACH; i++) {
		struct weir_decision d;

		if (acquire(crowd->table, crowd->limit, "hot", &d) != WEIR_OK)
			__atomic_add_fetch(&crowd->errors, 1, __ATOMIC_RELAXED);
		else if (d.allowed)
			__atomic_add_fetch(&crowd->allowed, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

static void threads_are_given_the_limit_exactly(void **state)
{
	struct server server = server_start(NULL);
	struct crowd crowd = {open_table(&server, LONG_NS), open_limit("l", THREADS * EACH / 2), 0, 0};
	pthread_t threads[THREADS];

	(void)state;
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, crowd_run, &crowd), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(crowd.errors, 0);
	assert_int_equal(crowd.allowed, THREADS * EACH / 2);
	weir_limit_close(crowd.limit);
	weir_table_close(crowd.table);
	server_stop(&server);
}

#define BATCH 48

static void a_batch_is_one_call(void **state)
{
	struct server server = server_start(NULL);
	weir_table *table = open_table(&server, LONG_NS);
	weir_limit *limit = open_limit("l", 2), *other = open_limit("other", 9);
	struct weir_request requests[BATCH];
	struct weir_decision decisions[BATCH];
	struct weir_redis_stats before, stats;
	uint64_t commands;
	char keys[BATCH][16];

	(void)state;
	for (size_t i = 0; i < BATCH; i++) {
		int len = snprintf(keys[i], sizeof keys[i], "key-%zu", i / 3);

		requests[i] = (struct weir_request){limit, {keys[i], (size_t)len}, 1, -1};
	}
	/* The other limit comes first, so that the script is there. */
	requests[0].limit = other;
	requests[3].limit = other;
	assert_int_equal(weir_acquire_batch(table, requests, 4, WEIR_NOW, decisions), WEIR_OK);
	requests[0].limit = limit;
	requests[3].limit = limit;
	requests[1].cost = 3;
	weir_redis_stats(table, &before);
	commands = count_commands(&server, "evalsha");
	assert_int_equal(weir_acquire_batch(table, requests, BATCH, WEIR_NOW, decisions), WEIR_ECOST);
	weir_redis_stats(table, &stats);
	assert_int_equal(stats.calls, before.calls + 1);
	assert_int_equal(stats.steps, before.steps + BATCH / 3);
	assert_int_equal(count_commands(&server, "evalsha"), commands + 1);
	for (size_t i = 0; i < BATCH; i++) {
		assert_int_equal(requests[i].status, i == 1 ? WEIR_ECOST : WEIR_OK);
		/* The first key's were taken before. */
		if (i != 1)
			assert_int_equal(decisions[i].allowed, i >= 3 && i % 3 < 2);
	}
	weir_limit_close(other);
	weir_limit_close(limit);
	weir_table_close(table);
	server_stop(&server);
}

static void a_redis_that_hangs_costs_one_timeout(void **state)
{
	struct server server = server_start(NULL);
	weir_table *table = open_table(&server, 20 * NS_PER_MS);
	weir_limit *limit = open_limit("l", 1000000);
	struct weir_redis_stats stats;
	struct weir_decision d;

	(void)state;
	while (acquire(table, limit, "k", &d) != WEIR_OK)
		poll(NULL, 0, 10);
	kill(server.pid, SIGSTOP);
	assert_int_equal(weir_redis_stats(table, &stats), WEIR_OK);
	for (int i = 0; i < 1000; i++)
		assert_int_equal(acquire(table, limit, "k", &d), WEIR_ESTORE);
	{
		struct weir_redis_stats after;

		/* The first was sent; those behind it are probes, at most one a second. */
		assert_int_equal(weir_redis_stats(table, &after), WEIR_OK);
		assert_int_equal(after.calls, stats.calls + 1);
		assert_int_equal(after.switches, stats.switches + 1);
		assert_int_equal(after.up, 0);
	}
	kill(server.pid, SIGCONT);
	for (int ms = 0; ms < SERVER_WAIT_MS && acquire(table, limit, "k", &d) != WEIR_OK; ms += 10)
		poll(NULL, 0, 10);
	assert_true(d.allowed);
	weir_limit_close(limit);
	weir_table_close(table);
	server_stop(&server);
}

/* The call that notices the recovery is decided at Redis. */
static void a_seldom_call_finds_that_redis_has_recovered(void **state)
{
	struct server server = server_start(NULL);
	weir_table *table = open_table(&server, LONG_NS);
	weir_limit *limit = open_limit("l", 1000);
	struct weir_decision d;

	(void)state;
	assert_int_equal(acquire(table, limit, "k", &d), WEIR_OK);
	server_kill(&server);
	assert_int_equal(acquire(table, limit, "k", &d), WEIR_ESTORE);
	server_start_in(&server, "--port", NULL);
	poll(NULL, 0, 1100);
	assert_int_equal(acquire(table, limit, "k", &d), WEIR_OK);
	assert_true(d.allowed);
	weir_limit_close(limit);
	weir_table_close(table);
	server_stop(&server);
}

/* An answer from a cached denial sends nothing, but time goes on for the calls after it. */
static void a_cached_denial_ends_in_time(void **state)
{
	struct server server = server_start(NULL);
	weir_table *table = open_table(&server, LONG_NS);
	struct weir_decision d;
	weir_limit *limit;
	int granted = 0;

	(void)state;
	assert_int_equal(
	    weir_limit_open(&(struct weir_limit_options){.rate = {1, 300, WEIR_UNIT_MILLISECOND}},
	                    &limit, NULL),
	    WEIR_OK);
	for (int ms = 0; granted < 4 && ms < SERVER_WAIT_MS; ms++) {
		assert_int_equal(acquire(table, limit, "k", &d), WEIR_OK);
		granted += d.allowed;
		poll(NULL, 0, 1);
	}
	assert_int_equal(granted, 4);
	weir_limit_close(limit);
	weir_table_close(table);
	server_stop(&server);
}

static void a_cached_denial_does_not_outlive_a_dead_redis_for_long(void **state)
{
	struct server server = server_start(NULL);
	weir_table *table = open_table(&server, LONG_NS);
	weir_limit *limit = open_limit("l", 1);
	struct weir_decision d;
	int status = WEIR_OK;

	(void)state;
	for (int i = 0; i < 3; i++)
		assert_int_equal(acquire(table, limit, "k", &d), WEIR_OK);
	assert_false(d.allowed);
	server_kill(&server);
	for (int ms = 0; status == WEIR_OK && ms < SERVER_WAIT_MS; ms++) {
		status = acquire(table, limit, "k", &d);
		poll(NULL, 0, 1);
	}
	assert_int_equal(status, WEIR_ESTORE);
	weir_limit_close(limit);
	weir_table_close(table);
	server_stop(&server);
}

static void a_connection_that_redis_has_closed_costs_nothing(void **state)
{
	struct server server = server_start(NULL);
	weir_table *table = open_table(&server, LONG_NS);
	weir_limit *limit = open_limit("l", 1000);
	struct weir_redis_stats stats;
	struct weir_decision d;
	int fd;

	(void)state;
	assert_int_equal(acquire(table, limit, "k", &d), WEIR_OK);
	fd = server_connect(server.port);
	assert_true(send(fd, "CLIENT KILL TYPE normal SKIPME yes\r\n", 36, MSG_NOSIGNAL) == 36);
	assert_true(recv(fd, &(char[64]){0}, 64, 0) > 0);
	close(fd);
	assert_int_equal(acquire(table, limit, "k", &d), WEIR_OK);
	assert_true(d.allowed);
	assert_int_equal(weir_redis_stats(table, &stats), WEIR_OK);
	assert_int_equal(stats.switches, 0);
	weir_limit_close(limit);
	weir_table_close(table);
	server_stop(&server);
}

/* On the parent's connection it would read the parent's replies. */
static void the_child_of_a_fork_connects_anew(void **state)
{
	struct server server = server_start(NULL);
	weir_table *table = open_table(&server, LONG_NS);
	weir_limit *limit = open_limit("l", 1000);
	struct weir_decision d;
	uint64_t before;
	int status;
	pid_t child;

	(void)state;
	assert_int_equal(acquire(table, limit, "k", &d), WEIR_OK);
	before = count_commands(&server, "ping");
	child = fork();
	if (child == 0) {
		int failed = acquire(table, limit, "k", &d) != WEIR_OK || d.remaining != 998;

		weir_table_close(table);
		_exit(failed);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(count_commands(&server, "ping"), before + 1);
	assert_int_equal(acquire(table, limit, "k", &d), WEIR_OK);
	assert_int_equal(d.remaining, 997);
	assert_int_equal(count_commands(&server, "ping"), before + 1);
	weir_limit_close(limit);
	weir_table_close(table);
	server_stop(&server);
}

/* Rules */

struct ruled {
	struct server server;
	weir_table *table;
	weir_config *config;
	weir_engine *engine;
};

static struct ruled open_rules(const char *rules, uint64_t timeout_ns)
{
	struct ruled r = {.server = server_start(NULL)};
	struct weir_error error = {0};

	r.table = open_table(&r.server, timeout_ns);
	if (weir_config_read_yaml(rules, strlen(rules), ".", &r.config, &error) != WEIR_OK ||
	    weir_engine_open(r.config, r.table, &r.engine, &error) != WEIR_OK)
		fail_msg("%u: %s", error.line, error.message);
	return r;
}

static void close_rules(struct ruled *r)
{
	weir_engine_close(r->engine);
	weir_config_close(r->config);
	weir_table_close(r->table);
	server_stop(&r->server);
}

static int ask_rules(struct ruled *r, const char *user, struct weir_decision *d,
                     struct weir_permits *permits)
{
	const struct weir_attribute attribute = {"user", user, strlen(user)};

	return weir_engine_ask(r->engine, &attribute, 1, &(struct weir_ask){.permits = permits}, d);
}

#define TWO_LIMITS                                                                                 \
	"limits:\n"                                                                                    \
	"  hour: { algorithm: fixed_window, rate: 3/h }\n"                                             \
	"  burst: { algorithm: token_bucket, rate: 5/h }\n"                                                                     \
	"rules:\n"                                                                                     \
	"  - { name: by-user, key: [user], limits: [hour, burst] }\n"

static void a_request_by_rules_charges_all_limits_or_none(void **state)
{
	struct ruled r = open_rules(TWO_LIMITS, LONG_NS);
	struct weir_redis_stats before, stats;
	struct weir_decision d;

	(void)state;
	for (int i = 0; i < 3; i++) {
		assert_int_equal(ask_rules(&r, "ann", &d, NULL), WEIR_OK);
		assert_true(d.allowed);
	}
	weir_redis_stats(r.table, &before);
	assert_int_equal(ask_rules(&r, "ann", &d, NULL), WEIR_OK);
	weir_redis_stats(r.table, &stats);
	assert_false(d.allowed);
	assert_string_equal(d.limit, "hour");
	assert_string_equal(d.rule, "by-user");
	assert_int_equal(stats.calls, before.calls + 1);
	assert_int_equal(weir_peek(r.table, weir_engine_limit(r.engine, "burst", 5),
	                           (struct weir_key){"ann", 3}, 1, WEIR_NOW, &d),
	                 WEIR_OK);
	assert_int_equal(d.remaining, 2);
	close_rules(&r);
}

static void charges_by_rules_are_refunded_once(void **state)
{
	struct ruled r = open_rules(TWO_LIMITS, LONG_NS);
	struct weir_permits permits[3];
	struct weir_decision d;

	(void)state;
	for (int i = 0; i < 3; i++)
		assert_int_equal(ask_rules(&r, "ann", &d, &permits[i]), WEIR_OK);
	assert_int_equal(permits[1].count, 2);
	assert_int_equal(weir_engine_report(r.engine, &permits[1], &(struct weir_report){0}), WEIR_OK);
	assert_int_equal(weir_engine_refund(r.engine, &permits[1], WEIR_NOW, &d), WEIR_OK);
	assert_int_equal(d.remaining, 1);
	assert_int_equal(weir_engine_refund(r.engine, &permits[1], WEIR_NOW, &d), WEIR_ENOTFOUND);
	assert_int_equal(ask_rules(&r, "ann", &d, NULL), WEIR_OK);
	assert_true(d.allowed);
	assert_int_equal(ask_rules(&r, "ann", &d, NULL), WEIR_OK);
	assert_false(d.allowed);
	close_rules(&r);
}

static void policies_decide_while_redis_is_unavailable(void **state)
{
	struct ruled r = open_rules(
	    "nodes: 2\n"
	    "limits:\n"
	    "  local: { algorithm: token_bucket, rate: 4/h }\n"
	    "  open: { algorithm: token_bucket, rate: 4/h, on_store_failure: open }\n"
	    "  closed: { algorithm: token_bucket, rate: 4/h, on_store_failure: closed }\n"
	    "rules:\n"
	    "  - { name: l, match: { user: local }, limits: [local] }\n"
	    "  - { name: o, match: { user: open }, limits: [open] }\n"
	    "  - { name: c, match: { user: closed }, limits: [closed] }\n", LONG_NS);
	struct weir_decision d;

	(void)state;
	server_kill(&r.server);
	for (int i = 0; i < 6; i++) {
		assert_int_equal(ask_rules(&r, "local", &d, NULL), WEIR_OK);
		assert_int_equal(d.allowed, i < 2);
		assert_int_equal(d.reason, i < 2 ? WEIR_REASON_STORE_LOCAL : WEIR_REASON_OVER_LIMIT);
		assert_true(d.degraded);
		assert_int_equal(ask_rules(&r, "open", &d, NULL), WEIR_OK);
		assert_true(d.allowed && d.degraded);
		assert_int_equal(d.reason, WEIR_REASON_STORE_OPEN);
		assert_int_equal(ask_rules(&r, "closed", &d, NULL), WEIR_OK);
		assert_true(!d.allowed && d.degraded);
		assert_int_equal(d.reason, WEIR_REASON_STORE_FAILURE);
	}
	close_rules(&r);
}

/* An answer by a rule whose limit was refused, or passed, without Redis. */
static void an_answer_that_follows_a_policy_is_degraded(void **state)
{
	struct ruled r = open_rules(
	    "order: first\n"
	    "limits:\n"
	    "  open: { algorithm: token_bucket, rate: 4/h, on_store_failure: open }\n"
	    "  closed: { algorithm: token_bucket, rate: 4/h, on_store_failure: closed }\n"
	    "  here: { algorithm: token_bucket, rate: 1/h, store: memory }\n"
	    "rules:\n"
	    "  - { name: a, match: { user: trusted }, limits: [closed], answer: allow }\n"
	    "  - { name: p, match: { user: passing }, limits: [open] }\n"
	    "  - { name: m, match: { user: here }, limits: [here], answer: allow }\n"
	    "  - { name: end, answer: deny }\n", LONG_NS);
	struct weir_decision d;

	(void)state;
	assert_int_equal(ask_rules(&r, "passing", &d, NULL), WEIR_OK);
	assert_true(d.reason == WEIR_REASON_LISTED && !d.allowed && !d.degraded);
	server_kill(&r.server);
	assert_int_equal(ask_rules(&r, "trusted", &d, NULL), WEIR_OK);
	assert_true(d.reason == WEIR_REASON_LISTED && d.allowed && d.degraded);
	assert_int_equal(ask_rules(&r, "passing", &d, NULL), WEIR_OK);
	assert_true(d.reason == WEIR_REASON_LISTED && !d.allowed && d.degraded);
	for (int i = 0; i < 2; i++)
		assert_int_equal(ask_rules(&r, "here", &d, NULL), WEIR_OK);
	assert_true(d.reason == WEIR_REASON_LISTED && !d.degraded);
	close_rules(&r);
}

static void a_table_that_closes_returns_its_chunks(void **state)
{
	static const char *const rules =
	    "limits:\n  much: { algorithm: fixed_window, rate: 1000/year, chunk: 50% }\n";
	struct ruled r = open_rules(rules, LONG_NS);
	weir_table *other = open_table(&r.server, LONG_NS);
	const weir_limit *limit = weir_engine_limit(r.engine, "much", 4);
	struct weir_decision d;

	(void)state;
	for (int i = 0; i < 5; i++)
		assert_int_equal(weir_acquire(r.table, limit, (struct weir_key){"k", 1}, 1, WEIR_NOW, &d),
		                 WEIR_OK);
	assert_int_equal(weir_peek(other, limit, (struct weir_key){"k", 1}, 1, WEIR_NOW, &d), WEIR_OK);
	assert_true(d.remaining < 600);
	weir_table_close(r.table);
	r.table = other;
	assert_int_equal(weir_peek(other, limit, (struct weir_key){"k", 1}, 1, WEIR_NOW, &d), WEIR_OK);
	assert_int_equal(d.remaining, 995);
	close_rules(&r);
}

static void a_limit_may_stay_in_memory(void **state)
{
	struct ruled r = open_rules(
	    "limits:\n"
	    "  here: { algorithm: token_bucket, rate: 4/h, store: memory }\n"
	    "  there: { algorithm: token_bucket, rate: 2/h }\n"
	    "rules:\n"
	    "  - { name: both, match: { user: both }, limits: [here, there] }\n"
	    "  - { name: memory, match: { user: memory }, limits: [here] }\n", LONG_NS);
	struct weir_redis_stats before, stats;
	struct weir_decision d;

	(void)state;
	for (int i = 0; i < 3; i++) {
		assert_int_equal(ask_rules(&r, "both", &d, NULL), WEIR_OK);
		assert_int_equal(d.allowed, i < 2);
	}
	assert_string_equal(d.limit, "there");
	weir_redis_stats(r.table, &before);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(ask_rules(&r, "memory", &d, NULL), WEIR_OK);
		assert_int_equal(d.allowed, i < 2); /* the denied one took nothing of it */
	}
	weir_redis_stats(r.table, &stats);
	assert_int_equal(stats.steps, before.steps);
	close_rules(&r);
}

static int open_engine(weir_table *table, const char *store, struct weir_error *error)
{
	char rules[300];
	weir_config *config;
	weir_engine *engine;
	int status;

	snprintf(rules, sizeof rules,
	         "limits:\n"
	         "  l: { algorithm: token_bucket, rate: 1/h, store: \"%s\" }\n", store);
	assert_int_equal(weir_config_read_yaml(rules, strlen(rules), ".", &config, error), WEIR_OK);
	status = weir_engine_open(config, table, &engine, error);
	weir_engine_close(engine);
	weir_config_close(config);
	return status;
}

static void a_limit_at_another_store_is_refused(void **state)
{
	struct weir_error error = {0};
	weir_table *table, *memory;

	(void)state;
	assert_int_equal(weir_redis_open(&(struct weir_redis_options){.url = "redis://:hunter2@one:7/2"},
	                                 &table, NULL), WEIR_OK);
	assert_int_equal(weir_table_open(NULL, &memory, NULL), WEIR_OK);
	assert_int_equal(open_engine(table, "memory", &error), WEIR_OK);
	assert_int_equal(open_engine(table, "redis://:hunter3@one:7/2", &error), WEIR_OK);
	assert_int_equal(open_engine(table, "redis://one:7/2", &error), WEIR_OK);
	assert_int_equal(open_engine(table, "rediss://one:7/2", &error), WEIR_EUNSUPPORTED);
	assert_int_equal(open_engine(table, "redis://:hunter2@one:7/1", &error), WEIR_EUNSUPPORTED);
	assert_int_equal(error.line, 2);
	assert_null(strstr(error.message, "hunter2"));
	assert_int_equal(open_engine(memory, "memory", &error), WEIR_OK);
	assert_int_equal(open_engine(memory, "redis://one:7/2", &error), WEIR_EUNSUPPORTED);
	weir_table_close(table);
	weir_table_close(memory);
}

/* Nothing notifies the thread that the entry is free. */
struct waiting {
	weir_table *table;
	weir_limit *limit;
	struct weir_decision d;
	int status;
};

static void *wait_run(void *context)
{
	struct waiting *w = context;

	w->status = weir_ask(w->table, w->limit, (struct weir_key){"k", 1},
	                     &(struct weir_ask){.deadline_ns = WEIR_FOREVER}, &w->d);
	return NULL;
}

static void a_thread_waits_for_an_entry_that_another_process_releases(void **state)
{
	struct server server = server_start(NULL);
	weir_table *one = open_table(&server, LONG_NS), *two = open_table(&server, LONG_NS);
	struct waiting w = {.table = two};
	struct weir_redis_stats stats;
	struct weir_permit permit;
	struct weir_decision d;
	pthread_t thread;

	(void)state;
	assert_int_equal(
	    weir_limit_open(&(struct weir_limit_options){.name = "places",
	                                                 .algorithm = WEIR_ALGORITHM_CONCURRENCY,
	                                                 .max = 1,
	                                                 .lease_ns = 3600 * NS_PER_S,
	                                                 .max_wait_ns = 3600 * NS_PER_S},
	                    &w.limit, NULL),
	    WEIR_OK);
	assert_int_equal(weir_ask(one, w.limit, (struct weir_key){"k", 1},
	                          &(struct weir_ask){.permit = &permit}, &d),
	                 WEIR_OK);
	assert_true(d.allowed);
	assert_int_equal(pthread_create(&thread, NULL, wait_run, &w), 0);
	for (int ms = 0; ms < SERVER_WAIT_MS; ms++) {
		weir_redis_stats(two, &stats);
		if (stats.steps > 1) /* it was denied, and has tried again */
			break;
		poll(NULL, 0, 1);
	}
	assert_true(stats.steps > 1);
	assert_int_equal(
	    weir_report(one, w.limit, (struct weir_key){"k", 1}, &permit, &(struct weir_report){0}),
	    WEIR_OK);
	pthread_join(thread, NULL);
	assert_int_equal(w.status, WEIR_OK);
	assert_true(w.d.allowed);
	weir_limit_close(w.limit);
	weir_table_close(one);
	weir_table_close(two);
	server_stop(&server);
}

static void waiting_ends_when_redis_fails(void **state)
{
	struct server server = server_start(NULL);
	struct waiting w = {.table = open_table(&server, LONG_NS), .limit = open_limit("l", 1)};
	struct weir_decision d;
	pthread_t thread;

	(void)state;
	assert_int_equal(acquire(w.table, w.limit, "k", &d), WEIR_OK);
	assert_int_equal(pthread_create(&thread, NULL, wait_run, &w), 0);
	for (int ms = 0; ms < SERVER_WAIT_MS; ms++) {
		struct weir_redis_stats stats;

		weir_redis_stats(w.table, &stats);
		if (stats.steps > 2)
			break;
		poll(NULL, 0, 1);
	}
	server_kill(&server);
	pthread_join(thread, NULL);
	assert_int_equal(w.status, WEIR_ESTORE);
	assert_false(w.d.allowed);
	weir_limit_close(w.limit);
	weir_table_close(w.table);
	server_stop(&server);
}

static void a_permit_is_good_in_any_process(void **state)
{
	struct server server = server_start(NULL);
	weir_table *one = open_table(&server, LONG_NS), *two = open_table(&server, LONG_NS);
	weir_limit *limit = open_limit("l", 2);
	struct weir_permit permit;
	struct weir_decision d;

	(void)state;
	assert_int_equal(weir_ask(one, limit, (struct weir_key){"k", 1},
	                          &(struct weir_ask){.cost = 2, .permit = &permit}, &d),
	                 WEIR_OK);
	assert_true(d.allowed);
	assert_int_equal(
	    weir_refund_permit(two, limit, (struct weir_key){"k", 1}, &permit, WEIR_NOW, &d), WEIR_OK);
	assert_int_equal(
	    weir_refund_permit(one, limit, (struct weir_key){"k", 1}, &permit, WEIR_NOW, &d),
	    WEIR_ENOTFOUND);
	assert_int_equal(d.remaining, 2);
	assert_int_equal(weir_acquire(one, limit, (struct weir_key){"k", 1}, 2, WEIR_NOW, &d), WEIR_OK);
	assert_int_equal(weir_reset(two, limit, (struct weir_key){"k", 1}, WEIR_NOW, &d), WEIR_OK);
	assert_int_equal(weir_acquire(one, limit, (struct weir_key){"k", 1}, 2, WEIR_NOW, &d), WEIR_OK);
	assert_true(d.allowed);
	assert_int_equal(weir_refund(two, limit, (struct weir_key){"k", 1}, 1, WEIR_NOW, &d), WEIR_OK);
	assert_int_equal(d.remaining, 1);
	weir_limit_close(limit);
	weir_table_close(one);
	weir_table_close(two);
	server_stop(&server);
}

static void other_tables_have_no_redis(void **state)
{
	struct weir_redis_stats stats;
	struct weir_error failure;
	weir_table *table;

	(void)state;
	assert_int_equal(weir_table_open(NULL, &table, NULL), WEIR_OK);
	assert_int_equal(weir_redis_stats(table, &stats), WEIR_EINVAL);
	assert_int_equal(weir_redis_failure(table, &failure), WEIR_EINVAL);
	weir_table_close(table);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(options_are_checked),
	    cmocka_unit_test(a_table_is_open_before_its_redis_is),
	    cmocka_unit_test(a_caller_learns_why_redis_is_unavailable),
	    cmocka_unit_test(a_limit_is_for_all_tables_together),
	    cmocka_unit_test(threads_are_given_the_limit_exactly),
	    cmocka_unit_test(a_batch_is_one_call),
	    cmocka_unit_test(a_redis_that_hangs_costs_one_timeout),
	    cmocka_unit_test(a_seldom_call_finds_that_redis_has_recovered),
	    cmocka_unit_test(a_cached_denial_ends_in_time),
	    cmocka_unit_test(a_cached_denial_does_not_outlive_a_dead_redis_for_long),
	    cmocka_unit_test(a_connection_that_redis_has_closed_costs_nothing),
	    cmocka_unit_test(the_child_of_a_fork_connects_anew),
	    cmocka_unit_test(a_request_by_rules_charges_all_limits_or_none),
	    cmocka_unit_test(charges_by_rules_are_refunded_once),
	    cmocka_unit_test(policies_decide_while_redis_is_unavailable),
	    cmocka_unit_test(an_answer_that_follows_a_policy_is_degraded),
	    cmocka_unit_test(a_table_that_closes_returns_its_chunks),
	    cmocka_unit_test(a_limit_may_stay_in_memory),
	    cmocka_unit_test(a_limit_at_another_store_is_refused),
	    cmocka_unit_test(a_thread_waits_for_an_entry_that_another_process_releases),
	    cmocka_unit_test(waiting_ends_when_redis_fails),
	    cmocka_unit_test(a_permit_is_good_in_any_process),
	    cmocka_unit_test(other_tables_have_no_redis),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
