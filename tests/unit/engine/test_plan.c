/*
 * Plans whose limits are at stores that complete chains of steps later, in any order, with
 * errors, on other threads; and whose clients leave at any time. Whatever happens, what each key
 * has in use in the end, at the store and in memory, is what the plans hold that were allowed.
 *
 * Replay a run by its seed: WEIR_TEST_SEED=... .
 */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "config.h"
#include "engine/engine.h"

#define NOW   UINT64_C(1700000000000000000)
#define KEYS  3
#define PLANS 3000
#define ALIVE 40 /* at once */
#define JOBS  (ALIVE * 8)
#define QUOTA 200

/* A store that keeps states in memory, but comes to a chain when it is told to. */
struct later {
	struct store store;
	struct store_client client; /* that all threads share */
	struct store *states;
	struct store_operation *chains[JOBS];
	size_t count;
	pthread_mutex_t lock, states_lock;
	pthread_cond_t filled;
	bool closing;
};

static const size_t all[] = {0, 1, 2, 3, 4, 7, 8}, shadowed[] = {5, 6};
static const char *const by_key[] = {"key"};
static const struct rules_rule rules[] = {
    {.name = "all", .key = by_key, .key_count = 1, .limits = all, .limit_count = 7},
    {.name = "tried", .key = by_key, .key_count = 1, .limits = shadowed, .limit_count = 2,
     .mode = RULES_SHADOW},
};

#define WINDOW(name_, quota, policy)                                                               \
	{                                                                                              \
		.on_store_failure = (policy), .options = {                                                 \
			.name = (name_),                                                                       \
			.algorithm = WEIR_ALGORITHM_FIXED_WINDOW,                                              \
			.rate = {quota, 1, WEIR_UNIT_HOUR},                                                    \
			.align = WEIR_ALIGN_FIRST_REQUEST                                                      \
		}                                                                                          \
	}
#define PLACES(name_, most)                                                                        \
	{                                                                                              \
		.options = {.name = (name_), .algorithm = WEIR_ALGORITHM_CONCURRENCY, .max = (most) }      \
	}

static struct rules_limit limits[] = {
    WINDOW("here", QUOTA, 0),    WINDOW("there", QUOTA, RULES_OPEN),
    WINDOW("elsewhere", QUOTA - 3, RULES_CLOSED),
    PLACES("places", QUOTA - 5), PLACES("here, too", QUOTA), WINDOW("shadow", 5, 0),
    PLACES("shadow places", QUOTA - 8), WINDOW("beside", QUOTA - 2, RULES_LOCAL),
    PLACES("beside, too", QUOTA - 7),
};
#define LIMITS (sizeof limits / sizeof *limits)

/* At which of the stores each limit is; -1: in the table. */
static const int at_store[LIMITS] = {-1, 0, 1, 1, -1, 0, 1, 0, 1};

/* The place where a step took something. */
enum place { AT_STORE, IN_MEMORY, PLACE_COUNT };

struct request {
	struct plan plan;
	struct arena arena;
	struct weir_decision decision;
	enum engine_state state;
	size_t key;
	bool used, cancelled;
	struct request *next_ready;
};

struct scene {
	struct weir_table *table;
	weir_engine *engine;
	struct weir_config config;
	struct later later[2];
	struct store_client *store_clients[2];
	struct request requests[ALIVE];
	/* By plans that were allowed, and have not been cancelled since. */
	uint64_t held[LIMITS][KEYS][PLACE_COUNT];
	uint64_t seed, started, allowed, denied, cancelled, waited;
	uint64_t failed[3]; /* steps, by what happened instead */
	struct decision_context context;
	pthread_mutex_t lock; /* of: */
	struct request *ready;
	uint64_t lost[LIMITS][KEYS]; /* taken at a store that did not say so, or not given back */
	uint64_t withheld;
};

static uint64_t draw(uint64_t *seed, uint64_t n)
{
	*seed = *seed * UINT64_C(6364136223846793005) + 1442695040888963407;
	return (*seed >> 33) % n;
}

static void submit(struct store_client *client, struct store_operation *chain)
{
	struct later *later = (struct later *)client->store;

	pthread_mutex_lock(&later->lock);
	assert_true(later->count < JOBS);
	later->chains[later->count++] = chain;
	pthread_cond_signal(&later->filled);
	pthread_mutex_unlock(&later->lock);
}

static const struct store_kind kind = {submit};

static uint64_t carry_out(struct store *states, const struct store_operation *job, enum algo_op op,
                          struct algo_decision *outcome)
{
	struct store_step step = job->step;
	const struct algo_limit *by = step.limit;

	step.store = states;
	step.call.op = op;
	assert_int_equal(store_admit(states, by, step.key.hash, &step.key), WEIR_OK);
	return store_run(&step, &by, outcome);
}

/* Notes a step that failed but was done, or a refund that was not done. */
static void lose(struct scene *s, const struct store_operation *job)
{
	const struct weir_limit *limit = (const struct weir_limit *)job->step.limit;

	pthread_mutex_lock(&s->lock);
	s->lost[engine_limit_index(s->engine, limit)][job->key_name.data[0] - 'a'] +=
	    job->step.call.cost;
	pthread_mutex_unlock(&s->lock);
}

/* A step that fails is done, half of the time, and nobody is told. */
static void fail_step(struct scene *s, struct later *later, struct store_operation *job,
                      uint64_t *seed)
{
	enum algo_op op = job->step.call.op;
	bool is_done = draw(seed, 2) == 0;
	struct algo_decision outcome;

	job->status = WEIR_ESTORE;
	if (is_done)
		carry_out(later->states, job, op, &outcome);
	if (is_done ? op == ALGO_ACQUIRE && outcome.allowed : op == ALGO_REFUND)
		lose(s, job);
}

/* Whether none is refused, of those that are all or nothing. */
static bool all_pass(struct later *later, struct store_operation *chain)
{
	bool pass = true;

	for (struct store_operation *job = chain; job; job = job->next) {
		assert_true(job->is_all_or_nothing);
		carry_out(later->states, job, ALGO_PEEK, &job->outcome);
		pass &= job->outcome.allowed;
	}
	return pass;
}

/* A chain whose keys lie together is one group, or all of it fails; else each is for itself. */
static void decide(struct scene *s, struct later *later, struct store_operation *chain,
                   uint64_t *seed)
{
	bool lies_together = chain->is_all_or_nothing && draw(seed, 2) == 0;
	bool fails = draw(seed, 60) == 0;
	bool passes = !lies_together || fails || all_pass(later, chain);

	for (struct store_operation *job = chain; job; job = job->next) {
		job->status = WEIR_OK;
		if (lies_together ? fails : draw(seed, 60) == 0) {
			fail_step(s, later, job, seed);
		} else if (passes) {
			job->until_ns = carry_out(later->states, job, job->step.call.op, &job->outcome);
		} else {
			job->withheld = job->outcome.allowed;
			job->until_ns = NOW + 1; /* counts for nothing */
			__atomic_fetch_add(&s->withheld, job->withheld, __ATOMIC_RELAXED);
		}
	}
}

static void complete(struct scene *s, struct later *later, struct store_operation *chain,
                     uint64_t *seed)
{
	struct store_operation *next;

	pthread_mutex_lock(&later->states_lock);
	decide(s, later, chain, seed);
	pthread_mutex_unlock(&later->states_lock);
	for (struct store_operation *job = chain; job; job = next) {
		next = job->next;
		job->done(job);
	}
}

/* Takes any of the chains; NULL: there is none. Under the lock. */
static struct store_operation *take_chain(struct later *later, uint64_t *seed)
{
	size_t i = later->count > 0 ? draw(seed, later->count) : 0;
	struct store_operation *chain = later->chains[i];

	if (later->count == 0)
		return NULL;
	later->chains[i] = later->chains[--later->count];
	return chain;
}

static void note_failed(void *context, const struct plan_step *step, enum rules_failure policy)
{
	struct scene *s = context;

	assert_true(step->remote);
	s->failed[policy]++;
}

static void become_ready(void *context, struct plan *plan)
{
	struct scene *s = context;
	struct request *request = (struct request *)((char *)plan - offsetof(struct request, plan));

	pthread_mutex_lock(&s->lock);
	request->next_ready = s->ready;
	s->ready = request;
	pthread_mutex_unlock(&s->lock);
}

/* Counts what the request's plan holds, or (`sign` -1) no longer holds. */
static void count(struct scene *s, const struct request *r, int sign)
{
	for (size_t i = 0; i < r->plan.step_count; i++) {
		const struct plan_step *step = &r->plan.steps[i];

		size_t limit = engine_limit_index(s->engine, step->limit);
		bool local = step->limit->origin || at_store[limit] < 0;

		if (step->charged)
			s->held[limit][r->key][local ? IN_MEMORY : AT_STORE] += (uint64_t)sign * r->plan.cost;
	}
}

static void go_on(struct scene *s, struct request *r, enum engine_state state)
{
	r->state = state;
	s->waited += state == ENGINE_WAITS;
	if (state != ENGINE_DONE)
		return;
	if (!r->cancelled && r->decision.allowed) {
		s->allowed++;
		count(s, r, 1);
		if (draw(&s->seed, 3) > 0) { /* most come back, or all quotas would soon be used up */
			count(s, r, -1);
			r->cancelled = true;
			go_on(s, r, engine_cancel(&s->context, &r->plan));
			return;
		}
	}
	s->denied += !r->decision.allowed;
	assert_int_equal(r->plan.status, WEIR_OK);
	s->cancelled += r->cancelled;
	arena_free(&r->arena);
	r->used = false;
}

static void start(struct scene *s, struct request *r)
{
	const struct algo_call call = {ALGO_ACQUIRE, 1 + draw(&s->seed, 3)};
	struct weir_attribute key = {"key", NULL, 1};

	*r = (struct request){.used = true, .key = draw(&s->seed, KEYS)};
	key.value = &"abc"[r->key];
	assert_int_equal(engine_prepare_rules(s->engine, &call,
	                                      &(struct engine_attributes){&key, 1, WEIR_KEY_MAX},
	                                      &r->arena, &r->plan),
	                 WEIR_OK);
	assert_int_equal(engine_want_permit(&r->plan), WEIR_OK);
	r->plan.max_wait_ns = draw(&s->seed, 3) == 0 ? 2 * 3600 * NS_PER_S : WEIR_ZERO;
	s->started++;
	go_on(s, r, engine_run(&s->context, &r->plan, &r->decision));
}

static void leave(struct scene *s, struct request *r)
{
	bool waits = r->state == ENGINE_WAITS;

	if (r->cancelled)
		return;
	r->cancelled = true;
	r->state = engine_cancel(&s->context, &r->plan);
	assert_int_equal(r->state, waits ? ENGINE_DONE : ENGINE_SUBMITTED);
	if (waits)
		go_on(s, r, ENGINE_DONE);
}

/* A waiting request tries again, as the first of its key, or gives up. */
static void stir(struct scene *s, struct request *r)
{
	if (draw(&s->seed, 4) == 0) {
		go_on(s, r, engine_deny(&s->context, &r->plan, WEIR_REASON_WAIT_TOO_LONG, &r->decision));
		return;
	}
	r->plan.queue_position = WAIT_FIRST;
	go_on(s, r, engine_resume(&s->context, &r->plan, &r->decision));
}

static bool resume_one(struct scene *s)
{
	struct request *r;

	pthread_mutex_lock(&s->lock);
	r = s->ready;
	s->ready = r ? r->next_ready : NULL;
	pthread_mutex_unlock(&s->lock);
	if (r)
		go_on(s, r, engine_resume(&s->context, &r->plan, &r->decision));
	return r != NULL;
}

/* Anything that may happen next, but for what stores do. Whether plans are left. */
static bool do_anything(struct scene *s)
{
	struct request *r = &s->requests[draw(&s->seed, ALIVE)];
	bool left = false;

	if (draw(&s->seed, 2) == 0)
		resume_one(s);
	else if (!r->used && s->started < PLANS)
		start(s, r);
	else if (r->used && draw(&s->seed, 8) == 0)
		leave(s, r);
	else if (r->used && r->state == ENGINE_WAITS)
		stir(s, r);
	for (size_t i = 0; i < ALIVE; i++)
		left |= s->requests[i].used;
	return left || s->started < PLANS;
}

static void open_scene(struct scene *s, uint64_t seed)
{
	const struct weir_table_options options = {.capacity = 1000};
	struct store *stores[LIMITS];

	*s = (struct scene){.seed = seed, .lock = PTHREAD_MUTEX_INITIALIZER};
	print_message("WEIR_TEST_SEED=%llu\n", (unsigned long long)seed);
	s->config = (struct weir_config){LIMITS_OF(limits), RULES_OF(rules), .nodes = 2};
	assert_int_equal(weir_table_open(&options, &s->table, NULL), WEIR_OK);
	for (size_t i = 0; i < 2; i++) {
		struct later *later = &s->later[i];

		later->store = (struct store){&kind, i};
		later->client.store = &later->store;
		s->store_clients[i] = &later->client;
		pthread_mutex_init(&later->lock, NULL);
		pthread_mutex_init(&later->states_lock, NULL);
		pthread_cond_init(&later->filled, NULL);
		assert_int_equal(store_open(&options, &later->states, NULL), WEIR_OK);
	}
	s->table->remote = &s->later[0].store;
	for (size_t i = 0; i < LIMITS; i++)
		stores[i] = at_store[i] < 0    ? s->table->store
		            : at_store[i] == 0 ? NULL
		                               : &s->later[1].store;
	assert_int_equal(engine_open(&s->config, s->table, stores, &s->engine, NULL), WEIR_OK);
	s->context = (struct decision_context){.table = s->table,
	                                       .at = moment_given(NOW),
	                                       .owner = s,
	                                       .store_failed = note_failed,
	                                       .plan_ready = become_ready,
	                                       .store_clients = s->store_clients};
}

static uint64_t in_use(const struct scene *s, const struct weir_limit *limit, struct store *states,
                       size_t key)
{
	struct store_operation peek = {.step = {.limit = &limit->algo, .at = moment_given(NOW)}};
	struct algo_decision outcome;

	if (!limit)
		return 0;
	peek.step.key.hash = store_hash(s->table->store, limit->algo.identity, &"abc"[key], 1);
	carry_out(states, &peek, ALGO_PEEK, &outcome);
	return limit->algo.quota - outcome.remaining;
}

static void check_limit(const struct scene *s, size_t i, size_t key)
{
	const struct weir_limit *limit = engine_limit_at(s->engine, i);
	const struct weir_limit *here = at_store[i] < 0 ? limit : limit->local;
	const uint64_t *held = s->held[i][key];

	assert_int_equal(in_use(s, here, s->table->store, key), held[IN_MEMORY]);
	if (at_store[i] >= 0)
		assert_int_equal(in_use(s, limit, s->later[at_store[i]].states, key),
		                 held[AT_STORE] + s->lost[i][key]);
}

static void close_scene(struct scene *s)
{
	for (size_t i = 0; i < LIMITS; i++)
		for (size_t key = 0; key < KEYS; key++)
			if (strcmp(limits[i].options.name, "shadow") != 0) /* what it takes is not given back */
				check_limit(s, i, key);
	print_message("%llu allowed, %llu denied, %llu cancelled, %llu waited, %llu withheld, failed: "
	              "%llu local, %llu open, %llu closed\n",
	              (unsigned long long)s->allowed, (unsigned long long)s->denied,
	              (unsigned long long)s->cancelled, (unsigned long long)s->waited,
	              (unsigned long long)s->withheld, (unsigned long long)s->failed[RULES_LOCAL],
	              (unsigned long long)s->failed[RULES_OPEN],
	              (unsigned long long)s->failed[RULES_CLOSED]);
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(s->later[i].count, 0);
		store_close(s->later[i].states);
		pthread_mutex_destroy(&s->later[i].lock);
		pthread_mutex_destroy(&s->later[i].states_lock);
		pthread_cond_destroy(&s->later[i].filled);
	}
	weir_engine_close(s->engine);
	weir_table_close(s->table);
}

/* Many random plans meet all of these. */
static void assert_all_happened(const struct scene *s)
{
	assert_true(s->allowed > 0 && s->denied > 0 && s->cancelled > 0 && s->waited > 0);
	assert_true(s->withheld > 0);
	for (size_t i = 0; i < 3; i++)
		assert_true(s->failed[i] > 0);
}

static void plans_end_with_what_they_should_have_taken(void **state)
{
	static struct scene s;
	struct timespec now;
	const char *given = getenv("WEIR_TEST_SEED");
	bool left = true;

	(void)state;
	clock_gettime(CLOCK_REALTIME, &now);
	open_scene(&s, given ? strtoull(given, NULL, 10) : (uint64_t)now.tv_nsec);
	while (left) {
		struct later *later = &s.later[draw(&s.seed, 2)];
		struct store_operation *chain = take_chain(later, &s.seed);

		if (chain)
			complete(&s, later, chain, &s.seed);
		left = do_anything(&s);
	}
	assert_all_happened(&s);
	close_scene(&s);
}

struct worker {
	struct scene *scene;
	struct later *later;
	uint64_t seed;
	pthread_t thread;
};

static void *complete_all(void *argument)
{
	struct worker *worker = argument;
	struct later *later = worker->later;
	struct store_operation *chain;

	for (;;) {
		pthread_mutex_lock(&later->lock);
		while (later->count == 0 && !later->closing)
			pthread_cond_wait(&later->filled, &later->lock);
		chain = take_chain(later, &worker->seed);
		pthread_mutex_unlock(&later->lock);
		if (!chain)
			return NULL;
		complete(worker->scene, later, chain, &worker->seed);
	}
}

static void steps_are_completed_by_other_threads(void **state)
{
	static struct scene s;
	struct worker workers[4];

	(void)state;
	open_scene(&s, 1);
	for (size_t i = 0; i < 4; i++) {
		workers[i] = (struct worker){&s, &s.later[i % 2], i, 0};
		assert_int_equal(pthread_create(&workers[i].thread, NULL, complete_all, &workers[i]), 0);
	}
	while (do_anything(&s))
		sched_yield();
	for (size_t i = 0; i < 2; i++) {
		pthread_mutex_lock(&s.later[i].lock);
		s.later[i].closing = true;
		pthread_cond_broadcast(&s.later[i].filled);
		pthread_mutex_unlock(&s.later[i].lock);
	}
	for (size_t i = 0; i < 4; i++)
		pthread_join(workers[i].thread, NULL);
	assert_true(s.allowed > 0 && s.denied > 0);
	close_scene(&s);
}

/* One limit in the table would pass, the other one's store has the last word. */
static void a_direct_call_is_submitted_too(void **state)
{
	static struct scene s;
	const struct algo_call call = {ALGO_ACQUIRE, QUOTA};
	const struct weir_limit *limit;
	struct weir_decision d;
	struct plan *plan = &s.requests[0].plan;

	(void)state;
	open_scene(&s, 2);
	limit = engine_limit_at(s.engine, 1);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(engine_prepare_limit(s.table, limit, &call, SLICE("a"), plan), WEIR_OK);
		assert_int_equal(engine_run(&s.context, plan, &d), ENGINE_SUBMITTED);
		s.ready = NULL;
		complete(&s, &s.later[0], take_chain(&s.later[0], &s.seed), &s.seed);
		assert_non_null(s.ready);
		assert_int_equal(engine_resume(&s.context, plan, &d), ENGINE_DONE);
		assert_int_equal(d.allowed, i == 0);
		assert_string_equal(d.limit, "there");
	}
	s.held[1][0][AT_STORE] = QUOTA;
	close_scene(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(plans_end_with_what_they_should_have_taken),
	    cmocka_unit_test(steps_are_completed_by_other_threads),
	    cmocka_unit_test(a_direct_call_is_submitted_too),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
