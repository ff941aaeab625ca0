/* The options of a request besides its cost, at limiters, tables and rules. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <weir/engine.h>
#include <weir/limiter.h>

#include "../engine/config.h"
#include "base/time/clock.h"
#include "engine/table.h"
#include "wait/waitlist.h"

#define NOW UINT64_C(1700000000000000000)

enum { FEW, RELIEF, LANE, SPACED, QUEUE };

static const struct rules_limit limits[] = {
    [FEW] = {.options = {.name = "few", .rate = {10, 1, WEIR_UNIT_HOUR}, .burst = 10}},
    [RELIEF] = {.options = {.name = "relief", .algorithm = WEIR_ALGORITHM_RANDOM, .deny = 0.3}},
    [LANE] = {.options = {.name = "lane",
                          .algorithm = WEIR_ALGORITHM_CONCURRENCY,
                          .max = 1,
                          .queue = 2,
                          .max_wait_ns = 3600 * NS_PER_S,
                          .lease_ns = 3600 * NS_PER_S}},
    [SPACED] = {.options = {.name = "spaced",
                            .algorithm = WEIR_ALGORITHM_PACER,
                            .rate = {1000, 1, WEIR_UNIT_SECOND},
                            .slack = WEIR_ZERO}},
    [QUEUE] = {.options = {.name = "queue",
                           .algorithm = WEIR_ALGORITHM_LEAKY_QUEUE,
                           .rate = {1000, 1, WEIR_UNIT_SECOND}}},
};
static const size_t few[] = {FEW}, relief[] = {RELIEF}, lane[] = {LANE}, spaced[] = {SPACED},
                    queue[] = {QUEUE};

/* One that applies where the attribute `kind` is that. */
#define RULE(kind_text, of, ...)                                                                   \
	{                                                                                              \
		.name = kind_text,                                                                         \
		.conditions =                                                                              \
		    &(const struct rules_condition){                                                       \
		        .attribute = "kind",                                                               \
		        .values = &(const struct rules_value){.test = RULES_EQUAL,                         \
		                                              .text = {kind_text, sizeof kind_text - 1}},  \
		        .value_count = 1},                                                                 \
		.condition_count = 1, LIMITS_OF(of), __VA_ARGS__                                           \
	}

static const struct rules_rule rules[] = {
    RULE("few", few, ),
    RULE("page", relief, ),
    RULE("prefetch", relief, .priority = 9, .has_priority = true),
    RULE("lane", lane, ),
    RULE("spaced", spaced, ),
    RULE("queue", queue, ),
};

static const struct weir_config config = {
    .limits = limits, .limit_count = sizeof limits / sizeof *limits, RULES_OF(rules)};

/* One way to ask of the limit `name`. */
struct way {
	weir_limiter *limiter;
	weir_table *table;
	weir_engine *engine;
	enum { LIMITER, TABLE, RULES, WAYS } kind;
	const char *name;
	const struct weir_limit_options options;
};

static void open_way(struct way *way)
{
	assert_int_equal(weir_limiter_open(&way->options, &way->limiter, NULL), 0);
	assert_int_equal(weir_table_open(&(struct weir_table_options){.capacity = 1000}, &way->table, NULL),
	                 0);
	assert_int_equal(weir_engine_open(&config, way->table, &way->engine, NULL), 0);
}

static void close_way(struct way *way)
{
	weir_limiter_close(way->limiter);
	weir_engine_close(way->engine);
	weir_table_close(way->table);
}

static int ask(const struct way *way, const char *kind, const struct weir_ask *ask,
               struct weir_decision *d)
{
	const struct weir_attribute attribute = {"kind", kind, strlen(kind)};
	struct weir_permits permits;
	struct weir_permit permit;
	struct weir_ask asked = *ask;

	if (way->kind == RULES)
		asked.permits = &permits;
	else
		asked.permit = &permit;
	switch (way->kind) {
	case LIMITER:
		return weir_limiter_ask(way->limiter, &asked, d);
	case TABLE:
		return weir_ask(way->table, weir_engine_limit(way->engine, way->name, strlen(way->name)),
		                (struct weir_key){"", 0}, &asked, d);
	default:
		return weir_engine_ask(way->engine, &attribute, 1, &asked, d);
	}
}

static void zero_is_the_default_of_all(void **state)
{
	static const struct {
		struct weir_ask ask;
		uint64_t remaining;
	} cases[] = {
	    {{.now_ns = NOW}, 9},
	    {{.cost = 3, .now_ns = NOW}, 6},
	    {{.cost = WEIR_ZERO, .now_ns = NOW}, 6},
	    {{.cost = 2, .priority = 9, .now_ns = NOW}, 4},
	    {{.deadline_ns = WEIR_NOW}, 3},
	    {{.now_ns = WEIR_NOW, .deadline_ns = WEIR_FOREVER}, 2},
	};

	(void)state;
	for (int kind = 0; kind < WAYS; kind++) {
		struct way way = {
		    .kind = kind, .name = "few", .options = {.rate = {10, 1, WEIR_UNIT_HOUR}, .burst = 10}};
		struct weir_decision d;

		open_way(&way);
		for (size_t i = 0; i < 4; i++) {
			assert_int_equal(ask(&way, "few", &cases[i].ask, &d), 0);
			assert_true(d.allowed);
			assert_int_equal(d.remaining, cases[i].remaining);
		}
		close_way(&way);
		open_way(&way); /* by its own clock */
		for (size_t i = 4; i < sizeof cases / sizeof *cases; i++) {
			assert_int_equal(ask(&way, "few", &cases[i].ask, &d), 0);
			assert_true(d.allowed);
			assert_int_equal(d.remaining, cases[i].remaining + 6);
		}
		close_way(&way);
	}
}

/* Each constant has one meaning, so one that is given by mistake is refused. */
_Static_assert(WEIR_ZERO != WEIR_NOW && WEIR_ZERO != WEIR_FOREVER && WEIR_NOW != WEIR_FOREVER,
               "an explicit zero, the present and no deadline differ");

static void a_permit_of_another_kind_is_refused(void **state)
{
	(void)state;
	for (int kind = 0; kind < WAYS; kind++) {
		struct way way = {.kind = kind, .name = "few", .options = {.rate = {10}}};
		const struct weir_attribute attribute = {"kind", "few", 3};
		struct weir_permits permits;
		struct weir_permit permit;
		struct weir_decision d;
		const struct weir_ask one = {.permit = &permit}, all = {.permits = &permits};

		open_way(&way);
		if (kind == LIMITER)
			assert_int_equal(weir_limiter_ask(way.limiter, &all, &d), WEIR_EINVAL);
		else if (kind == TABLE)
			assert_int_equal(weir_ask(way.table, weir_engine_limit(way.engine, "few", 3),
			                          (struct weir_key){"", 0}, &all, &d),
			                 WEIR_EINVAL);
		else
			assert_int_equal(weir_engine_ask(way.engine, &attribute, 1, &one, &d), WEIR_EINVAL);
		close_way(&way);
	}
}

/* Every call that takes a key. An empty key needs no address. */
static void a_key_without_an_address_is_refused(void **state)
{
	const struct weir_key bad = {NULL, 1}, empty = {NULL, 0};
	const struct weir_report success = {0};
	struct weir_request request = {.key = bad, .cost = 1};
	struct weir_permit permit = {0};
	struct weir_decision d;
	weir_limit *limit;
	weir_table *table;

	(void)state;
	assert_int_equal(weir_limit_open(&(struct weir_limit_options){.rate = {5}}, &limit, NULL), 0);
	assert_int_equal(weir_table_open(NULL, &table, NULL), 0);
	request.limit = limit;
	assert_int_equal(weir_acquire(table, limit, bad, 1, WEIR_NOW, &d), WEIR_EINVAL);
	assert_int_equal(weir_peek(table, limit, bad, 1, WEIR_NOW, &d), WEIR_EINVAL);
	assert_int_equal(weir_refund(table, limit, bad, 1, WEIR_NOW, &d), WEIR_EINVAL);
	assert_int_equal(weir_reset(table, limit, bad, WEIR_NOW, &d), WEIR_EINVAL);
	assert_int_equal(weir_ask(table, limit, bad, &(struct weir_ask){0}, &d), WEIR_EINVAL);
	assert_int_equal(weir_refund_permit(table, limit, bad, &permit, WEIR_NOW, &d), WEIR_EINVAL);
	assert_int_equal(weir_report(table, limit, bad, &permit, &success), WEIR_EINVAL);
	assert_int_equal(weir_acquire_batch(table, &request, 1, WEIR_NOW, &d), WEIR_EINVAL);
	assert_int_equal(request.status, WEIR_EINVAL);
	assert_int_equal(weir_acquire(table, limit, empty, 1, WEIR_NOW, &d), WEIR_OK);
	assert_int_equal(d.remaining, 4);
	weir_table_close(table);
	weir_limit_close(limit);
}

static void a_report_with_an_unknown_field_is_refused(void **state)
{
	const struct weir_report unknown = {.reserved = {1}};
	struct weir_permit permit;
	struct weir_decision d;
	weir_limiter *limiter;

	(void)state;
	assert_int_equal(weir_limiter_open(&(struct weir_limit_options){.rate = {5}}, &limiter, NULL),
	                 0);
	assert_int_equal(weir_limiter_ask(limiter, &(struct weir_ask){.permit = &permit}, &d), 0);
	assert_int_equal(weir_limiter_report(limiter, &permit, &unknown), WEIR_EINVAL);
	weir_limiter_close(limiter);
}

static void what_is_not_known_is_refused(void **state)
{
	static const struct {
		struct weir_ask ask;
		int status;
	} cases[] = {
	    {{.priority = 10}, WEIR_ERANGE},
	    {{.priority = UINT64_MAX}, WEIR_ERANGE},
	    {{.reserved = {0, 1}}, WEIR_EINVAL},
	    {{.now_ns = WEIR_ZERO}, WEIR_EINVAL},
	    {{.deadline_ns = WEIR_ZERO}, WEIR_EINVAL},
	    {{.now_ns = NOW, .deadline_ns = WEIR_FOREVER}, WEIR_EINVAL},
	    {{.cost = 11, .now_ns = NOW}, WEIR_ECOST},
	    {{.cost = 11, .deadline_ns = WEIR_FOREVER}, WEIR_ECOST},
	};

	(void)state;
	for (int kind = 0; kind < WAYS; kind++) {
		struct way way = {
		    .kind = kind, .name = "few", .options = {.rate = {10, 1, WEIR_UNIT_HOUR}, .burst = 10}};
		struct weir_decision d;

		open_way(&way);
		for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
			assert_int_equal(ask(&way, "few", &cases[i].ask, &d), cases[i].status);
		assert_int_equal(ask(&way, "few", &(struct weir_ask){.now_ns = NOW}, &d), 0);
		assert_int_equal(d.remaining, 9);
		close_way(&way);
	}
}

/* "a paced limit with cost 2 and WAIT 0 can never pass, but answers 'retry after 100 ms'" */
static void a_cost_that_no_caller_with_such_a_deadline_can_have_is_an_error(void **state)
{
	static const size_t paced[] = {SPACED, QUEUE};

	(void)state;
	for (int kind = 0; kind < WAYS; kind++)
		for (size_t i = 0; i < 2; i++) {
			const struct weir_limit_options *options = &limits[paced[i]].options;
			struct way way = {.kind = kind, .name = options->name, .options = *options};
			struct weir_decision d;

			open_way(&way);
			assert_int_equal(
			    ask(&way, way.name, &(struct weir_ask){.cost = 2, .deadline_ns = WEIR_NOW}, &d),
			    WEIR_ECOST);
			assert_int_equal(
			    ask(&way, way.name, &(struct weir_ask){.cost = 2, .deadline_ns = 1}, &d),
			    WEIR_ECOST);
			assert_int_equal(ask(&way, way.name, &(struct weir_ask){.deadline_ns = WEIR_NOW}, &d),
			                 0);
			assert_true(d.allowed);
			assert_int_equal(
			    ask(&way, way.name, &(struct weir_ask){.cost = 2, .deadline_ns = WEIR_FOREVER}, &d),
			    0);
			assert_true(d.allowed);
			close_way(&way);
		}
}

/* 18 of 60 requests are shed, and 20 have the lowest priority. */
static void the_lowest_are_shed_first(void **state)
{
	(void)state;
	for (int kind = 0; kind < WAYS; kind++) {
		struct way way = {.kind = kind,
		                  .name = "relief",
		                  .options = {.algorithm = WEIR_ALGORITHM_RANDOM, .deny = 0.3}};
		struct weir_decision d;

		open_way(&way);
		for (int i = 0; i < 60; i++) {
			const struct weir_ask low = {.priority = 9, .now_ns = NOW}, high = {.now_ns = NOW};

			assert_int_equal(ask(&way, "page", i < 20 ? &low : &high, &d), 0);
			assert_true(d.allowed || i < 20);
		}
		close_way(&way);
	}
}

static void a_rule_beats_the_caller(void **state)
{
	struct way way = {.kind = RULES, .options = {.rate = {1}}};
	struct weir_decision d;

	(void)state;
	open_way(&way);
	for (int i = 0; i < 60; i++) {
		assert_int_equal(ask(&way, i < 20 ? "prefetch" : "page", &(struct weir_ask){.now_ns = NOW}, &d),
		                 0);
		assert_true(d.allowed || i < 20);
	}
	close_way(&way);
}

struct caller {
	struct way *way;
	uint64_t priority;
	pthread_t thread;
	struct weir_decision d;
	int status;
	bool done;
};

static void *wait_for_it(void *context)
{
	struct caller *caller = context;

	caller->status = ask(caller->way, "lane",
	                     &(struct weir_ask){.priority = caller->priority,
	                                        .deadline_ns = WEIR_FOREVER}, &caller->d);
	__atomic_store_n(&caller->done, true, __ATOMIC_RELEASE);
	return NULL;
}

static bool is_done(struct caller *caller)
{
	return __atomic_load_n(&caller->done, __ATOMIC_ACQUIRE);
}

/* Until it waits, or is done. Of a limiter nobody sees how many wait: others are tried instead. */
static void come(struct caller *callers, size_t n, size_t waiting)
{
	struct waitlist *list;

	pthread_create(&callers[n].thread, NULL, wait_for_it, &callers[n]);
	do
		sched_yield();
	while (!is_done(&callers[n]) &&
	       (!(list = waitlist_at(&callers[n].way->table->waiting)) || waitlist_count(list) < waiting));
}

/* The 9 that came last is dropped for the 0, and the other 9 for the 3. */
static void a_thread_that_waits_is_dropped_for_a_higher_one(void **state)
{
	static const uint64_t priorities[] = {9, 9, 0, 3};
	static const size_t dropped[] = {1, 0};

	(void)state;
	for (int kind = TABLE; kind < WAYS; kind++) {
		struct way way = {.kind = kind, .name = "lane", .options = {.rate = {1}}};
		struct caller callers[4];
		struct weir_decision d;

		open_way(&way);
		assert_int_equal(ask(&way, "lane", &(struct weir_ask){0}, &d), 0);
		assert_true(d.allowed);
		for (size_t i = 0; i < 4; i++) {
			callers[i] = (struct caller){.way = &way, .priority = priorities[i]};
			come(callers, i, i < 2 ? i + 1 : 2);
			if (i < 2)
				continue;
			pthread_join(callers[dropped[i - 2]].thread, NULL);
			assert_int_equal(callers[dropped[i - 2]].status, 0);
			assert_false(callers[dropped[i - 2]].d.allowed);
			assert_int_equal(callers[dropped[i - 2]].d.reason, WEIR_REASON_QUEUE_FULL);
			assert_true(callers[dropped[i - 2]].d.retry_after_ns > 0);
		}
		for (size_t i = 2; i < 4; i++) { /* each is woken by a reset, which frees its place */
			weir_reset(way.table, weir_engine_limit(way.engine, "lane", 4),
			           (struct weir_key){"", 0}, WEIR_NOW, &d);
			pthread_join(callers[i].thread, NULL);
			assert_true(callers[i].d.allowed);
			assert_true(i == 3 || !is_done(&callers[3]));
		}
		close_way(&way);
	}
}

/* One place, room for one more: of all threads but the lowest the last ones pass. */
static void a_limiter_drops_its_threads_too(void **state)
{
	struct way way = {.kind = LIMITER,
	                  .options = {.algorithm = WEIR_ALGORITHM_CONCURRENCY,
	                              .max = 1,
	                              .queue = 1,
	                              .max_wait_ns = 3600 * NS_PER_S,
	                              .lease_ns = 3600 * NS_PER_S}};
	struct caller callers[3];
	struct weir_permit held;
	struct weir_decision d;

	(void)state;
	open_way(&way);
	assert_int_equal(weir_limiter_ask(way.limiter, &(struct weir_ask){.permit = &held}, &d), 0);
	for (size_t i = 0; i < 3; i++) {
		callers[i] = (struct caller){.way = &way, .priority = 9 - 4 * i};
		pthread_create(&callers[i].thread, NULL, wait_for_it, &callers[i]);
	}
	/* In whatever order they come, the two of 9 and 5 are denied. */
	for (size_t i = 0; i < 2; i++) {
		pthread_join(callers[i].thread, NULL);
		assert_int_equal(callers[i].d.reason, WEIR_REASON_QUEUE_FULL);
	}
	assert_false(is_done(&callers[2]));
	assert_int_equal(weir_limiter_report(way.limiter, &held, &(struct weir_report){0}), 0);
	pthread_join(callers[2].thread, NULL);
	assert_true(callers[2].d.allowed);
	close_way(&way);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(zero_is_the_default_of_all),
	    cmocka_unit_test(what_is_not_known_is_refused),
	    cmocka_unit_test(a_permit_of_another_kind_is_refused),
	    cmocka_unit_test(a_key_without_an_address_is_refused),
	    cmocka_unit_test(a_report_with_an_unknown_field_is_refused),
	    cmocka_unit_test(a_cost_that_no_caller_with_such_a_deadline_can_have_is_an_error),
	    cmocka_unit_test(the_lowest_are_shed_first),
	    cmocka_unit_test(a_rule_beats_the_caller),
	    cmocka_unit_test(a_thread_that_waits_is_dropped_for_a_higher_one),
	    cmocka_unit_test(a_limiter_drops_its_threads_too),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
