/*
 * servers.h: servers whose limits are at one store, which completes steps later: when it is told
 * to, or at once.
 */
#ifndef TESTS_ENGINE_SERVERS_H
#define TESTS_ENGINE_SERVERS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "config.h"
#include "engine/engine.h"

#define NOW UINT64_C(1700000000000000000)

enum { BUCKET, WINDOW, PLACES, HERE, OPEN, CLOSED, LIMITS };

static struct rules_limit limits[LIMITS] = {
    [BUCKET] = {.options = {.name = "bucket", .rate = {9, 1, WEIR_UNIT_HOUR}, .burst = 7}},
    [WINDOW] = {.options = {.name = "window",
                            .algorithm = WEIR_ALGORITHM_FIXED_WINDOW,
                            .rate = {5, 1, WEIR_UNIT_HOUR},
                            .align = WEIR_ALIGN_FIRST_REQUEST}},
    [PLACES] = {.options = {.name = "places",
                            .algorithm = WEIR_ALGORITHM_CONCURRENCY,
                            .max = 1,
                            .queue = 9}},
    [HERE] = {.options = {.name = "here", .rate = {4, 1, WEIR_UNIT_HOUR}}},
    [OPEN] = {.options = {.name = "open", .rate = {6, 1, WEIR_UNIT_HOUR}},
              .on_store_failure = RULES_OPEN},
    [CLOSED] = {.options = {.name = "closed", .rate = {6, 1, WEIR_UNIT_HOUR}},
                .on_store_failure = RULES_CLOSED},
};

static const char *const by_user[] = {"user"};
static const size_t three[] = {HERE, BUCKET, WINDOW}, mixed[] = {WINDOW, PLACES, HERE},
                    strict[] = {BUCKET, OPEN}, waiting[] = {PLACES, CLOSED};

#define EQUALS(text_)                                                                              \
	(const struct rules_condition[])                                                               \
	{                                                                                              \
		{                                                                                          \
			"path", &(const struct rules_value){RULES_EQUAL, {text_, sizeof text_ - 1}}, 1         \
		}                                                                                          \
	}

static const struct rules_rule rules[] = {
    {.name = "three",
     .conditions = EQUALS("three"),
     .condition_count = 1,
     .key = by_user,
     .key_count = 1,
     .limits = three,
     .limit_count = 3},
    {.name = "mixed",
     .conditions = EQUALS("mixed"),
     .condition_count = 1,
     .key = by_user,
     .key_count = 1,
     .limits = mixed,
     .limit_count = 3},
    {.name = "strict",
     .conditions = EQUALS("strict"),
     .condition_count = 1,
     .key = by_user,
     .key_count = 1,
     .limits = strict,
     .limit_count = 2,
     .has_on_store_failure = true,
     .on_store_failure = RULES_CLOSED},
    {.name = "waiting",
     .conditions = EQUALS("waiting"),
     .condition_count = 1,
     .key = by_user,
     .key_count = 1,
     .limits = waiting,
     .limit_count = 2},
};

/* The shared store. It does a chain when a test says so, or at once. */
struct shared {
	struct store store; /* first */
	struct store_client client;
	struct store *states;
	bool is_away, is_slow, withholds_all;
	struct store_operation *waiting[8]; /* chains that it has not done yet */
	size_t waiting_count;
	uint64_t now_ns; /* by its own clock; 0: as that of the server that asks */
	size_t chains, jobs;    /* so far */
	const char *limit_name; /* of the last job */
};

struct server {
	struct weir_config config;
	weir_table *table;
	weir_engine *engine;
	struct store_client *client;
	struct decision_context context;
	struct arena arena;
	struct plan plan;
	struct weir_decision d;
	size_t failed[3];
	bool is_ready;
};

static struct shared redis;

static inline void carry_out(struct store_operation *job)
{
	struct store_step step = job->step;
	const struct algo_limit *by = step.limit;

	step.store = redis.states;
	if (redis.now_ns != 0)
		step.at = moment_given(redis.now_ns);
	job->clock_ns = step.at.wall_ns;
	step.key.hash = store_hash(redis.states, by->identity, job->key_name.data, job->key_name.len);
	assert_int_equal(store_admit(redis.states, by, step.key.hash, &step.key), WEIR_OK);
	job->until_ns = store_run(&step, &by, &job->outcome);
}

/* The rest of its answer counts for nothing. */
static inline void withhold(struct store_operation *job)
{
	job->withheld = true;
	job->outcome.allowed = true;
	job->until_ns = NOW + 1;
}

/* Whether none is refused of those that are all or nothing. */
static inline bool all_pass(struct store_operation *chain)
{
	bool passes = true;

	for (struct store_operation *job = chain; job && job->is_all_or_nothing; job = job->next) {
		enum algo_op op = job->step.call.op;

		if (op == ALGO_REFUND)
			continue;
		job->step.call.op = ALGO_PEEK;
		carry_out(job);
		job->step.call.op = op;
		passes &= job->outcome.allowed;
	}
	return passes;
}

static inline void do_job(struct store_operation *job, bool passes)
{
	if (redis.is_away)
		job->status = WEIR_ESTORE;
	else if (redis.withholds_all)
		withhold(job);
	else if (passes)
		carry_out(job);
	else if (job->step.call.op == ALGO_REFUND || job->outcome.allowed)
		withhold(job);
}

static inline void do_chain(struct store_operation *chain)
{
	struct store_operation *next;
	bool passes = all_pass(chain);

	for (struct store_operation *job = chain; job; job = job->next)
		do_job(job, passes);
	for (struct store_operation *job = chain; job; job = next) {
		next = job->next;
		job->done(job);
	}
}

static inline void do_waiting(void)
{
	size_t n = redis.waiting_count;

	redis.waiting_count = 0;
	for (size_t i = 0; i < n; i++)
		do_chain(redis.waiting[i]);
}

static inline void submit(struct store_client *client, struct store_operation *chain)
{
	assert_ptr_equal(client->store, &redis.store);
	redis.chains++;
	for (struct store_operation *job = chain; job; job = job->next, redis.jobs++)
		redis.limit_name = job->limit_name;
	if (redis.is_slow)
		redis.waiting[redis.waiting_count++] = chain;
	else
		do_chain(chain);
}

static const struct store_kind kind = {submit};

static inline void become_ready(void *context, struct plan *plan)
{
	struct server *s = context;

	assert_ptr_equal(plan, &s->plan);
	s->is_ready = true;
}

static inline void note_failed(void *context, const struct plan_step *step,
                               enum rules_failure policy)
{
	(void)step;
	((struct server *)context)->failed[policy]++;
}

static inline void open_server(struct server *s, uint64_t nodes)
{
	const struct weir_table_options options = {.capacity = 1000};
	struct store *stores[LIMITS] = {0};

	*s = (struct server){.config = {LIMITS_OF(limits), RULES_OF(rules), .nodes = nodes},
	                     .client = &redis.client};
	assert_int_equal(weir_table_open(&options, &s->table, NULL), WEIR_OK);
	s->table->remote = &redis.store;
	stores[HERE] = s->table->store;
	assert_int_equal(engine_open(&s->config, s->table, stores, &s->engine, NULL), WEIR_OK);
	s->context = (struct decision_context){.table = s->table,
	                                       .at = moment_given(NOW),
	                                       .owner = s,
	                                       .store_failed = note_failed,
	                                       .plan_ready = become_ready,
	                                       .store_clients = &s->client};
}

static inline void close_server(struct server *s)
{
	weir_engine_close(s->engine);
	weir_table_close(s->table);
	arena_free(&s->arena);
}

static inline void open_redis(void)
{
	const struct weir_table_options options = {.capacity = 1000};

	redis = (struct shared){.store = {&kind, 0}};
	redis.client.store = &redis.store;
	assert_int_equal(store_open(&options, &redis.states, NULL), WEIR_OK);
}

static inline void close_redis(void)
{
	assert_int_equal(redis.waiting_count, 0);
	store_close(redis.states);
}

static inline const struct weir_limit *limit_at(const struct server *s, size_t i)
{
	return engine_limit_at(s->engine, i);
}

/* The units that "u" has left, at the store, or in memory (of a local limit, or HERE). */
static inline uint64_t left(const struct server *s, const struct weir_limit *limit)
{
	struct store_operation job = {
	    .step = {.limit = &limit->algo, .call = {.op = ALGO_PEEK}, .at = moment_given(NOW)},
	    .key_name = SLICE("u")};
	struct weir_decision d;

	if (engine_remote_store(s->table, limit)) {
		carry_out(&job);
		return job.outcome.remaining;
	}
	assert_int_equal(weir_peek(s->table, limit, (struct weir_key){"u", 1}, 1, NOW, &d), WEIR_OK);
	return d.remaining;
}

static inline enum engine_state ask(struct server *s, size_t limit, enum algo_op op, uint64_t cost)
{
	assert_int_equal(engine_prepare_limit(s->table, limit_at(s, limit),
	                                      &(struct algo_call){op, cost}, SLICE("u"), &s->plan),
	                 WEIR_OK);
	return engine_run(&s->context, &s->plan, &s->d);
}

static inline void prepare(struct server *s, const char *path, bool wants_permit)
{
	const struct weir_attribute attributes[] = {{"path", path, strlen(path)}, {"user", "u", 1}};

	assert_int_equal(engine_prepare_rules(s->engine, &(struct algo_call){ALGO_ACQUIRE, 1},
	                                      &(struct engine_attributes){attributes, 2, 99}, &s->arena,
	                                      &s->plan),
	                 WEIR_OK);
	assert_true(engine_is_remote(&s->plan));
	if (wants_permit)
		assert_int_equal(engine_want_permit(&s->plan), WEIR_OK);
}

static inline enum engine_state check(struct server *s, const char *path, bool wants_permit)
{
	prepare(s, path, wants_permit);
	return engine_run(&s->context, &s->plan, &s->d);
}

#endif
