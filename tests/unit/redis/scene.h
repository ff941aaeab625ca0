/* scene.h: opens a store at a real Redis, with a client that blocks. */
#ifndef TEST_REDIS_SCENE_H
#define TEST_REDIS_SCENE_H

#include "server.h"

#include "algo/algo.h"
#include "redis/network/blocking.h"
#include "redis/redis.h"

#define TIMEOUT_NS (10 * NS_PER_S) /* on a busy machine, too */

struct scene {
	struct server server;
	struct store *store;
	struct store_client *client;
	struct blocking *transport;
	struct algo_limit limit;
	uint64_t now_ns; /* the time of operations, if the store accepts given times */
	size_t pending, away, back;
	size_t awaits_recovery; /* 1 until the store has recovered */
	char why[200];
	struct redis_stats before;
};

struct one {
	struct store_operation operation; /* first */
	struct scene *scene;
	char key[48];
	size_t order; /* in which it was done */
};

static size_t done_count;

static inline void done(struct store_operation *operation)
{
	struct one *one = (struct one *)operation;

	one->scene->pending--;
	one->order = ++done_count;
}

static inline void switched(void *context, const struct store *store, const char *why)
{
	struct scene *scene = context;

	assert_ptr_equal(store, scene->store);
	if (why)
		scene->away++;
	else
		scene->back++;
	if (!why)
		scene->awaits_recovery = 0;
	snprintf(scene->why, sizeof scene->why, "%s", why ? why : "");
}

/* `more` has the options that differ from the usual ones. */
static inline void open_store(struct scene *s, const char *user, struct redis_options more)
{
	char url[64];

	snprintf(url, sizeof url, "redis://%s127.0.0.1:%u", user, s->server.port);
	more.url = url;
	more.prefix = "weir:";
	more.timeout_ns = more.timeout_ns ? more.timeout_ns : TIMEOUT_NS;
	more.switched = switched;
	more.context = s;
	assert_int_equal(redis_store_open(&more, &s->store, NULL), WEIR_OK);
	s->transport = blocking_open();
	assert_int_equal(redis_client_open(s->store, blocking_transport(s->transport), &s->client),
	                 WEIR_OK);
	blocking_serve(s->transport, s->client);
}

static inline void end(struct scene *s)
{
	redis_client_close(s->client);
	blocking_close(s->transport);
	redis_store_close(s->store);
	server_stop(&s->server);
	algo_limit_free(&s->limit);
	free(s);
}

static inline void make(struct scene *s, struct one *one, const char *key, uint64_t cost)
{
	*one = (struct one){.scene = s};
	snprintf(one->key, sizeof one->key, "%s", key);
	one->operation = (struct store_operation){
	    .step = {.store = s->store,
	             .limit = &s->limit,
	             .key = {.hash = hash_bytes(&(struct hash_key){1, 2}, key, strlen(key))},
	             .call = {.op = ALGO_ACQUIRE, .cost = cost},
	             .at = moment_given(s->now_ns)},
	    .limit_name = "l",
	    .key_name = {one->key, strlen(one->key)},
	    .done = done,
	};
	s->pending++;
}

/* An iteration: submits all operations, then awaits their answers. */
static inline void submit(struct scene *s, struct one *ones, size_t n)
{
	for (size_t i = 0; i < n; i++)
		s->store->kind->submit(s->client, &ones[i].operation);
	redis_client_flush(s->client);
}

static inline void run(struct scene *s, struct one *ones, size_t n)
{
	submit(s, ones, n);
	blocking_run(s->transport, &s->pending);
}

static inline int ask(struct scene *s, const char *key, struct one *one)
{
	blocking_poll(s->transport);
	make(s, one, key, 1);
	run(s, one, 1);
	return one->operation.status;
}

/* One operation on the key "k", which must be done. */
static inline struct store_operation ask_op(struct scene *s, enum algo_op op, uint64_t cost)
{
	struct one one;

	blocking_poll(s->transport);
	make(s, &one, "k", cost);
	one.operation.step.call.op = op;
	run(s, &one, 1);
	assert_int_equal(one.operation.status, WEIR_OK);
	return one.operation;
}

static inline struct algo_decision acquire(struct scene *s, uint64_t cost)
{
	return ask_op(s, ALGO_ACQUIRE, cost).outcome;
}

static inline void await_recovery(struct scene *s)
{
	s->awaits_recovery = 1;
	blocking_run(s->transport, &s->awaits_recovery);
}

/* Asks the server on a connection of its own. */
static inline void command(struct scene *s, char *answer, size_t size, const char *line)
{
	int fd = server_connect(s->server.port);
	ssize_t got;

	assert_true(fd >= 0);
	assert_int_equal(write(fd, line, strlen(line)), strlen(line));
	assert_int_equal(write(fd, "\r\n", 2), 2);
	got = read(fd, answer, size - 1);
	assert_true(got > 0);
	answer[got] = '\0';
	close(fd);
}

/* How often Redis has carried out EVALSHA; not of a script that it does not have, as for a probe. */
static inline unsigned long calls_of(struct scene *s)
{
	char answer[16 << 10], *at, *failed;

	command(s, answer, sizeof answer, "INFO commandstats");
	at = strstr(answer, "cmdstat_evalsha:calls=");
	failed = at ? strstr(at, "failed_calls=") : NULL;
	return failed ? strtoul(at + 22, NULL, 10) - strtoul(failed + 13, NULL, 10) : 0;
}

/* Since the beginning of the test. */
static inline struct redis_stats stats_of(const struct scene *s)
{
	struct redis_stats stats;

	redis_store_stats(s->store, &stats);
	stats.calls -= s->before.calls;
	stats.steps -= s->before.steps;
	return stats;
}

#endif
