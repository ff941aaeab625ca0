/* Refunds of all that rules took, and threads that wait by rules. */
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

#include "../engine/config.h"
#include "base/os/os.h"
#include "engine/limit.h"
#include "engine/table.h"

#define SECOND UINT64_C(1000000000)
#define NOW    (UINT64_C(1700000000) * SECOND)

enum { PLACES, HOURLY, FLIGHT, PACED, OTHER, BRIEF, MINUTE };

static const struct rules_limit limits[] = {
    [PLACES] = {.options = {.name = "places",
                            .algorithm = WEIR_ALGORITHM_CONCURRENCY,
                            .max = 3,
                            .queue = 1,
                            .lease_ns = 1000 * SECOND}},
    [HOURLY] = {.options = {.name = "hourly", .rate = {3, 1, WEIR_UNIT_HOUR}}},
    [FLIGHT] = {.options = {.name = "flight", .algorithm = WEIR_ALGORITHM_CONCURRENCY, .max = 1}},
    [PACED] = {.options = {.name = "paced",
                           .algorithm = WEIR_ALGORITHM_PACER,
                           .rate = {1, 10, WEIR_UNIT_MILLISECOND},
                           .slack = WEIR_ZERO}},
    [OTHER] = {.options = {.name = "other", .rate = {3, 1, WEIR_UNIT_HOUR}}},
    [MINUTE] = {.options = {.name = "minute", .rate = {3, 1, WEIR_UNIT_MINUTE}}},
    [BRIEF] = {.options = {.name = "brief",
                           .algorithm = WEIR_ALGORITHM_CONCURRENCY,
                           .max = 3,
                           .queue = 2,
                           .max_wait_ns = 20 * SECOND / 1000}},
};
static const char *const by_key[] = {"key"}, *const by_user[] = {"user"};
static const size_t both[] = {PLACES, HOURLY}, places[] = {PLACES}, hourly[] = {HOURLY},
                    flight[] = {FLIGHT}, paced[] = {HOURLY, PACED}, buckets[] = {HOURLY, OTHER},
                    brief[] = {HOURLY, BRIEF}, mixed[] = {HOURLY, MINUTE},
                    shorter_first[] = {MINUTE, HOURLY};

#define RULE(of) {.name = #of, .key = by_key, .key_count = 1, LIMITS_OF(of)}

static const struct rules_rule by_both[] = {RULE(both)}, by_places[] = {RULE(places)},
                               twice[] = {RULE(places), RULE(places)},
                               by_pace[] = {RULE(paced)}, by_buckets[] = {RULE(buckets)},
                               by_brief[] = {RULE(brief)}, by_mixed[] = {RULE(mixed)},
                               by_shorter_first[] = {RULE(shorter_first)},
                               in_shadow[] = {RULE(hourly),
                                              {.name = "shadow",
                                               .key = by_user,
                                               .key_count = 1,
                                               LIMITS_OF(flight),
                                               .mode = RULES_SHADOW}};

struct scene {
	struct weir_config config;
	weir_table *table;
	weir_engine *engine;
	const char *user;
	struct weir_decision d;
	struct weir_permits permits;
};

static void open_engine(struct scene *s, const struct rules_rule *rules, size_t n)
{
	s->config = (struct weir_config){LIMITS_OF(limits), .rules = rules, .rule_count = n};
	assert_int_equal(weir_engine_open(&s->config, s->table, &s->engine, NULL), 0);
}

#define OPEN(s, rules) (open_scene(s), open_engine(s, rules, sizeof(rules) / sizeof *(rules)))

static void open_scene(struct scene *s)
{
	memset(s, 0xff, sizeof *s);
	s->user = "u";
	assert_int_equal(
	    weir_table_open(&(struct weir_table_options){.capacity = 1000}, &s->table, NULL), 0);
}

static void close_scene(struct scene *s)
{
	weir_engine_close(s->engine);
	weir_table_close(s->table);
}

static int acquire_with(struct scene *s, uint64_t cost, struct weir_permits *permits)
{
	struct weir_attribute attributes[] = {{"key", "k", 1}, {"user", s->user, 1}};

	return weir_engine_ask(
	    s->engine, attributes, 2,
	    &(struct weir_ask){.cost = cost ? cost : WEIR_ZERO, .now_ns = NOW, .permits = permits},
	    &s->d);
}

static bool acquire(struct scene *s, uint64_t cost)
{
	assert_int_equal(acquire_with(s, cost, &s->permits), 0);
	assert_int_equal(s->permits.id != 0, s->d.allowed);
	return s->d.allowed;
}

static int refund(struct scene *s, uint64_t now_ns)
{
	return weir_engine_refund(s->engine, &s->permits, now_ns, &s->d);
}

static int report(struct scene *s)
{
	return weir_engine_report(s->engine, &s->permits, &(struct weir_report){.now_ns = NOW});
}

static uint64_t left(struct scene *s, const char *limit, const char *key)
{
	struct weir_decision d;

	assert_int_equal(weir_peek(s->table, weir_engine_limit(s->engine, limit, strlen(limit)),
	                           (struct weir_key){key, 1}, 1, NOW, &d),
	                 0);
	return d.remaining;
}

static void assert_left(struct scene *s, uint64_t of_places, uint64_t of_hour)
{
	assert_int_equal(left(s, "places", "k"), of_places);
	assert_int_equal(left(s, "hourly", "k"), of_hour);
}

static void a_value_without_an_address_is_refused(void **state)
{
	const struct weir_attribute bad = {"key", NULL, 1};
	struct scene s;

	(void)state;
	OPEN(&s, by_both);
	assert_int_equal(weir_engine_acquire(s.engine, &bad, 1, 1, NOW, &s.d), WEIR_EINVAL);
	close_scene(&s);
}

static void what_is_denied_has_no_permits_and_holds_nothing(void **state)
{
	struct scene s;

	(void)state;
	OPEN(&s, by_both);
	assert_true(acquire(&s, 2));
	assert_int_equal(s.permits.count, 2);
	assert_left(&s, 1, 1);
	assert_false(acquire(&s, 2));
	assert_int_equal(s.permits.count, 0);
	assert_int_equal(refund(&s, NOW), WEIR_ENOTFOUND);
	assert_int_equal(report(&s), WEIR_ENOTFOUND);
	assert_left(&s, 1, 1);
	close_scene(&s);
}

/* It is seen only when the first place is taken that there is none for the second. */
static void places_are_given_back_when_a_later_limit_refuses(void **state)
{
	(void)state;
	for (int named = 0; named < 2; named++) {
		struct weir_permits permits;
		struct scene s;

		OPEN(&s, twice);
		assert_int_equal(acquire_with(&s, 1, named ? &permits : NULL), 0);
		assert_true(s.d.allowed);
		assert_int_equal(acquire_with(&s, 1, named ? &permits : NULL), 0);
		assert_false(s.d.allowed);
		assert_int_equal(left(&s, "places", "k"), 1);
		close_scene(&s);
	}
}

static void a_refund_gives_all_back_once(void **state)
{
	struct scene s;

	(void)state;
	OPEN(&s, by_both);
	acquire(&s, 1);
	acquire(&s, 2);
	assert_int_equal(refund(&s, NOW), 0);
	assert_true(s.d.allowed);
	assert_int_equal(s.d.remaining, 2);
	assert_left(&s, 2, 2);
	assert_int_equal(refund(&s, NOW), WEIR_ENOTFOUND);
	assert_false(s.d.allowed);
	assert_left(&s, 2, 2);
	acquire(&s, 1);
	assert_int_equal(refund(&s, NOW + 3600 * SECOND), WEIR_ENOTFOUND);
	close_scene(&s);
}

static void part_of_it_is_given_back(void **state)
{
	struct scene s;

	(void)state;
	OPEN(&s, by_buckets);
	weir_acquire(s.table, weir_engine_limit(s.engine, "other", 5), (struct weir_key){"k", 1}, 1,
	             NOW, &s.d);
	acquire(&s, 2);
	s.permits.cost = 0;
	assert_int_equal(refund(&s, NOW), 0); /* it asks, and is still held */
	assert_int_equal(s.d.remaining, 0);
	s.permits.cost = 1;
	assert_int_equal(refund(&s, NOW), 0);
	assert_int_equal(s.d.remaining, 1); /* of the tightest */
	assert_int_equal(left(&s, "hourly", "k"), 2);
	assert_int_equal(left(&s, "other", "k"), 1);
	close_scene(&s);
}

static void permits_are_good_while_any_of_their_limits_knows_of_them(void **state)
{
	struct scene s;

	(void)state;
	OPEN(&s, by_mixed);
	acquire(&s, 1);
	assert_int_equal(refund(&s, NOW + 60 * SECOND), 0);
	assert_string_equal(s.d.limit, "hourly");
	assert_int_equal(s.d.remaining, 3);
	close_scene(&s);
}

/* A unit of the first comes back after 20 s, of the second after 20 minutes. */
static void a_denial_names_the_first_limit_and_tells_the_longest_wait(void **state)
{
	struct scene s;

	(void)state;
	OPEN(&s, by_shorter_first);
	assert_true(acquire(&s, 3));
	for (int i = 0; i < 2; i++) {
		assert_false(acquire(&s, 1));
		assert_string_equal(s.d.limit, "minute");
		assert_int_equal(s.d.retry_after_ns, 1200 * SECOND);
	}
	close_scene(&s);
}

/* Places that were taken without one are told by when their leases end. */
static void permits_without_a_name_give_nothing_back(void **state)
{
	struct scene s;

	(void)state;
	OPEN(&s, by_both);
	assert_int_equal(acquire_with(&s, 1, NULL), 0);
	acquire(&s, 1);
	s.permits.id = 0;
	assert_int_equal(refund(&s, NOW), WEIR_ENOTFOUND);
	assert_int_equal(report(&s), WEIR_ENOTFOUND);
	assert_left(&s, 1, 1);
	close_scene(&s);
}

static void a_report_frees_places_once_and_all_else_stays_taken(void **state)
{
	struct scene s;

	(void)state;
	OPEN(&s, by_both);
	acquire(&s, 1);
	acquire(&s, 1);
	assert_int_equal(
	    weir_engine_report(s.engine, &s.permits,
	                       &(struct weir_report){.outcome = WEIR_OUTCOME_COUNT, .now_ns = NOW}),
	    WEIR_EINVAL);
	assert_int_equal(weir_engine_report(
	                     s.engine, &s.permits,
	                     &(struct weir_report){.outcome = (enum weir_outcome) - 1, .now_ns = NOW}),
	                 WEIR_EINVAL);
	assert_int_equal(report(&s), 0);
	assert_left(&s, 2, 1);
	assert_int_equal(report(&s), WEIR_ENOTFOUND);
	assert_int_equal(refund(&s, NOW), WEIR_ENOTFOUND);
	assert_left(&s, 2, 1);
	close_scene(&s);
}

/* A limit that is gone gets nothing back; the others get all. */
static void permits_outlive_the_engine(void **state)
{
	const struct rules_limit fewer[] = {limits[PLACES]};
	struct scene s;
	const struct weir_config config = {LIMITS_OF(fewer), RULES_OF(by_places)};
	weir_engine *first;

	(void)state;
	OPEN(&s, by_both);
	first = s.engine;
	acquire(&s, 1);
	acquire(&s, 2);
	assert_int_equal(weir_engine_open(&config, s.table, &s.engine, NULL), 0);
	assert_int_equal(refund(&s, NOW), 0);
	assert_int_equal(left(&s, "places", "k"), 2);
	assert_int_equal(refund(&s, NOW), WEIR_ENOTFOUND);
	weir_engine_close(s.engine);
	s.engine = first;
	assert_left(&s, 2, 0);
	close_scene(&s);
}

static void seventeen_charges_are_too_long(void **state)
{
	struct weir_limit_options options = {.rate = {3, 1, WEIR_UNIT_HOUR}};
	struct rules_limit many[WEIR_PERMITS_MAX + 1];
	size_t all[WEIR_PERMITS_MAX + 1];
	char names[WEIR_PERMITS_MAX + 1][2] = {0};
	struct rules_rule rule = {.name = "all", .key = by_key, .key_count = 1, .limits = all};
	struct weir_config config = {LIMITS_OF(many), .rules = &rule, .rule_count = 1};
	struct scene s;

	(void)state;
	open_scene(&s);
	for (size_t i = 0; i <= WEIR_PERMITS_MAX; i++) {
		names[i][0] = (char)('a' + i);
		options.name = names[i];
		many[i] = (struct rules_limit){.options = options};
		all[i] = i;
	}
	rule.limit_count = WEIR_PERMITS_MAX + 1;
	assert_int_equal(weir_engine_open(&config, s.table, &s.engine, NULL), 0);
	assert_int_equal(acquire_with(&s, 1, &s.permits), WEIR_ELONG);
	assert_int_equal(s.permits.id, 0);
	assert_int_equal(left(&s, "a", "k"), 3);
	assert_int_equal(acquire_with(&s, 0, &s.permits), 0);
	assert_int_equal(acquire_with(&s, 1, NULL), 0);
	assert_int_equal(left(&s, "a", "k"), 2);
	weir_engine_close(s.engine);

	rule.limit_count = WEIR_PERMITS_MAX;
	assert_int_equal(weir_engine_open(&config, s.table, &s.engine, NULL), 0);
	assert_true(acquire(&s, 1));
	assert_int_equal(s.permits.count, WEIR_PERMITS_MAX);
	assert_int_equal(refund(&s, NOW), 0);
	for (size_t i = 0; i < WEIR_PERMITS_MAX; i++)
		assert_int_equal(left(&s, names[i], "k"), 2);
	s.permits.count = WEIR_PERMITS_MAX + 1;
	assert_int_equal(refund(&s, NOW), WEIR_EINVAL);
	assert_int_equal(report(&s), WEIR_EINVAL);
	close_scene(&s);
}

static void there_are_no_permits_of_nothing(void **state)
{
	struct scene s;

	(void)state;
	OPEN(&s, by_both);
	assert_int_equal(acquire_with(&s, 0, &s.permits), 0);
	assert_int_equal(s.permits.id, 0);
	memset(&s.permits, 0xff, sizeof s.permits);
	assert_int_equal(acquire_with(&s, 4, &s.permits), WEIR_ECOST);
	assert_int_equal(s.permits.id, 0);
	weir_engine_close(s.engine);
	open_engine(&s, NULL, 0);
	assert_int_equal(acquire_with(&s, 1, &s.permits), 0);
	assert_true(s.d.allowed);
	assert_int_equal(s.permits.id, 0);
	assert_int_equal(refund(&s, NOW), WEIR_ENOTFOUND);
	close_scene(&s);
}

/* Even where its place has no name, and another's could be taken for it. */
static void what_is_denied_holds_no_place_of_a_shadow_rule_nor_frees_anothers(void **state)
{
	struct scene s;

	(void)state;
	OPEN(&s, in_shadow);
	for (int i = 0; i < 4; i++) {
		assert_int_equal(acquire_with(&s, 1, NULL), 0);
		assert_int_equal(s.d.allowed, i < 3);
		assert_int_equal(left(&s, "flight", "u"), 0);
	}
	s.user = "v";
	assert_int_equal(acquire_with(&s, 1, NULL), 0);
	assert_false(s.d.allowed);
	assert_int_equal(left(&s, "flight", "v"), 1);
	assert_false(acquire(&s, 1));
	assert_int_equal(s.permits.count, 0);
	close_scene(&s);
}

struct caller {
	struct scene *scene;
	uint64_t deadline_ns;
	struct weir_decision d;
	struct weir_permits permits;
	pthread_t thread;
	int status;
};

static void *call(void *context)
{
	struct caller *caller = context;
	struct weir_attribute key = {"key", "k", 1};

	caller->status = weir_engine_ask(
	    caller->scene->engine, &key, 1,
	    &(struct weir_ask){.deadline_ns = caller->deadline_ns, .permits = &caller->permits},
	    &caller->d);
	return NULL;
}

static uint64_t hash_of(struct scene *s, const char *name)
{
	const struct weir_limit *limit = weir_engine_limit(s->engine, name, strlen(name));

	return store_hash(s->table->store, limit->algo.identity, "k", 1);
}

static void until_it_waits_for(struct scene *s, const char *name)
{
	uint64_t hash = hash_of(s, name);

	while (!waitlist_has(waitlist_at(&s->table->waiting), hash))
		sched_yield();
}

/* Begins a call in a thread of its own, which waits for the key of that limit then. */
static void call_for_ever(struct scene *s, struct caller *caller, const char *name)
{
	*caller = (struct caller){.scene = s, .deadline_ns = WEIR_FOREVER};
	pthread_create(&caller->thread, NULL, call, caller);
	until_it_waits_for(s, name);
}

/* By the library's own clock, as those who wait. */
static struct weir_permits take_now(struct scene *s, uint64_t cost)
{
	struct weir_attribute key = {"key", "k", 1};
	struct weir_permits permits;

	assert_int_equal(
	    weir_engine_ask(s->engine, &key, 1,
	                    &(struct weir_ask){.cost = cost ? cost : WEIR_ZERO, .permits = &permits},
	                    &s->d),
	    0);
	assert_true(s->d.allowed);
	return permits;
}

static void reset(struct scene *s, const char *limit)
{
	weir_reset(s->table, weir_engine_limit(s->engine, limit, strlen(limit)),
	           (struct weir_key){"k", 1}, WEIR_NOW, &s->d);
}

static void a_place_is_waited_for_and_its_queue_is_bounded(void **state)
{
	struct weir_permits first;
	struct caller next, third;
	struct scene s;

	(void)state;
	OPEN(&s, by_places);
	take_now(&s, 2);
	first = take_now(&s, 1);
	next = third = (struct caller){.scene = &s, .deadline_ns = WEIR_FOREVER};
	third.permits.id = 1;
	pthread_create(&next.thread, NULL, call, &next);
	until_it_waits_for(&s, "places");
	call(&third);
	assert_false(third.d.allowed);
	assert_int_equal(third.d.reason, WEIR_REASON_QUEUE_FULL);
	assert_string_equal(third.d.rule, "places");
	assert_int_equal(third.permits.id, 0);
	third.deadline_ns = WEIR_NOW;
	call(&third);
	assert_int_equal(third.d.reason, WEIR_REASON_OVER_LIMIT);

	assert_int_equal(weir_engine_report(s.engine, &first,
	                                    &(struct weir_report){.outcome = WEIR_OUTCOME_FAILURE}),
	                 0);
	pthread_join(next.thread, NULL);
	assert_int_equal(next.status, 0);
	assert_true(next.d.allowed);
	assert_true(next.d.wait_ns > 0);
	assert_int_equal(weir_engine_refund(s.engine, &next.permits, WEIR_NOW, &s.d), 0);
	assert_int_equal(s.d.remaining, 1);
	close_scene(&s);
}

static void each_key_that_denies_is_waited_for(void **state)
{
	struct caller caller;
	struct scene s;

	(void)state;
	OPEN(&s, by_buckets);
	take_now(&s, 3);
	call_for_ever(&s, &caller, "hourly");
	reset(&s, "hourly");
	until_it_waits_for(&s, "other");
	weir_peek(s.table, weir_engine_limit(s.engine, "hourly", 6), (struct weir_key){"k", 1}, 1,
	          WEIR_NOW, &s.d);
	assert_int_equal(s.d.remaining, 3);
	reset(&s, "other");
	pthread_join(caller.thread, NULL);
	assert_true(caller.d.allowed);
	assert_int_equal(caller.permits.count, 2);
	assert_int_equal(waitlist_count(waitlist_at(&s.table->waiting)), 0);

	/* Known to come too late, at once. */
	take_now(&s, 2);
	caller.deadline_ns = os_wall_ns() + 60 * SECOND;
	call(&caller);
	assert_int_equal(caller.d.reason, WEIR_REASON_WAIT_TOO_LONG);
	assert_int_equal(caller.permits.id, 0);
	close_scene(&s);
}

static void no_wake(struct waiter *waiter)
{
	(void)waiter;
}

/* Two that wait and never try, before the caller comes: the first for one key, one for another. */
struct queues {
	struct waitlist *room;
	struct waiter before, other;
};

/*
 * Begins a call that waits behind `before`, so that it tries for the first time when that leaves.
 * Of a call that is the first at once nobody knows when it has tried.
 */
static void call_behind(struct scene *s, struct caller *caller, struct queues *queues,
                        const char *name, const char *other)
{
	*caller = (struct caller){.scene = s, .deadline_ns = WEIR_FOREVER};
	*queues = (struct queues){.room = waitlist_get_or_make(&s->table->waiting),
	                          .before = {.wake = no_wake, .hash = hash_of(s, name)},
	                          .other = {.wake = no_wake, .hash = hash_of(s, other)}};
	assert_int_equal(waitlist_join(queues->room, &queues->before, 1), WAITLIST_FIRST);
	assert_int_equal(waitlist_join(queues->room, &queues->other, 1), WAITLIST_FIRST);
	pthread_create(&caller->thread, NULL, call, caller);
	while (waitlist_count(queues->room) < 3)
		sched_yield();
}

/* Once: who then is the first there goes before those who have come to the first key since. */
static void the_first_for_one_key_does_not_overtake_at_another(void **state)
{
	struct waiter since = {.wake = no_wake};
	struct queues queues;
	struct caller caller;
	struct scene s;

	(void)state;
	OPEN(&s, by_buckets);
	take_now(&s, 3);
	call_behind(&s, &caller, &queues, "hourly", "other");
	reset(&s, "other");
	reset(&s, "hourly");
	waitlist_leave(queues.room, &queues.before);
	while (waitlist_has(queues.room, queues.before.hash))
		sched_yield();
	weir_peek(s.table, weir_engine_limit(s.engine, "other", 5), (struct weir_key){"k", 1}, 1,
	          WEIR_NOW, &s.d);
	assert_int_equal(s.d.remaining, 3);
	while (waitlist_count(queues.room) < 2)
		sched_yield();
	since.hash = queues.before.hash;
	assert_int_equal(waitlist_join(queues.room, &since, 1), WAITLIST_FIRST);
	waitlist_leave(queues.room, &queues.other);
	pthread_join(caller.thread, NULL);
	assert_true(caller.d.allowed);
	waitlist_leave(queues.room, &since);
	close_scene(&s);
}

/* Nor when its time there is over, though the place is free. */
static void the_first_for_one_key_is_denied_behind_others_at_another(void **state)
{
	struct queues queues;
	struct caller caller;
	struct scene s;

	(void)state;
	OPEN(&s, by_brief);
	take_now(&s, 3);
	reset(&s, "brief");
	call_behind(&s, &caller, &queues, "hourly", "brief");
	reset(&s, "hourly");
	waitlist_leave(queues.room, &queues.before);
	pthread_join(caller.thread, NULL);
	assert_false(caller.d.allowed);
	assert_int_equal(caller.d.reason, WEIR_REASON_WAIT_TOO_LONG);
	waitlist_leave(queues.room, &queues.other);
	close_scene(&s);
}

static void a_turn_is_slept_for(void **state)
{
	uint64_t start_ns = os_monotonic_ns();
	struct caller caller;
	struct scene s;

	(void)state;
	OPEN(&s, by_pace);
	caller = (struct caller){.scene = &s, .deadline_ns = WEIR_FOREVER};
	call(&caller);
	call(&caller);
	assert_true(caller.d.allowed);
	assert_true(os_monotonic_ns() - start_ns >= 9 * SECOND / 1000);
	close_scene(&s);
}

static enum weir_reason reason_at(struct scene *s, uint64_t deadline_ns)
{
	struct weir_attribute key = {"key", "k", 1};

	assert_int_equal(
	    weir_engine_ask(s->engine, &key, 1, &(struct weir_ask){.deadline_ns = deadline_ns}, &s->d),
	    0);
	return s->d.reason;
}

static void a_deadline_that_is_over_is_the_reason_of_a_denial(void **state)
{
	struct scene s;

	(void)state;
	OPEN(&s, by_buckets);
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(reason_at(&s, 1), WEIR_REASON_OK);
	assert_int_equal(reason_at(&s, 1), WEIR_REASON_WAIT_TOO_LONG);
	assert_string_equal(s.d.limit, "hourly");
	assert_int_equal(reason_at(&s, WEIR_NOW), WEIR_REASON_OVER_LIMIT);
	close_scene(&s);
}

/* A rule file may serve a server, too. A program has opened its table before. */
static void the_store_and_the_capacity_of_a_file_have_no_effect(void **state)
{
	struct weir_table_stats before, after;
	struct scene s;

	(void)state;
	open_scene(&s);
	weir_table_stats(s.table, NOW, &before);
	s.config = (struct weir_config){LIMITS_OF(limits), .rules = by_both, .rule_count = 1,
	                                .capacity = 5, .store = {.text = "redis://127.0.0.1:1"}};
	assert_int_equal(weir_engine_open(&s.config, s.table, &s.engine, NULL), 0);
	assert_true(acquire(&s, 1));
	assert_left(&s, 2, 2);
	weir_table_stats(s.table, NOW, &after);
	assert_int_equal(after.capacity, before.capacity);
	close_scene(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_value_without_an_address_is_refused),
	    cmocka_unit_test(what_is_denied_has_no_permits_and_holds_nothing),
	    cmocka_unit_test(places_are_given_back_when_a_later_limit_refuses),
	    cmocka_unit_test(a_refund_gives_all_back_once),
	    cmocka_unit_test(part_of_it_is_given_back),
	    cmocka_unit_test(permits_are_good_while_any_of_their_limits_knows_of_them),
	    cmocka_unit_test(a_denial_names_the_first_limit_and_tells_the_longest_wait),
	    cmocka_unit_test(permits_without_a_name_give_nothing_back),
	    cmocka_unit_test(a_report_frees_places_once_and_all_else_stays_taken),
	    cmocka_unit_test(permits_outlive_the_engine),
	    cmocka_unit_test(seventeen_charges_are_too_long),
	    cmocka_unit_test(there_are_no_permits_of_nothing),
	    cmocka_unit_test(what_is_denied_holds_no_place_of_a_shadow_rule_nor_frees_anothers),
	    cmocka_unit_test(a_place_is_waited_for_and_its_queue_is_bounded),
	    cmocka_unit_test(each_key_that_denies_is_waited_for),
	    cmocka_unit_test(the_first_for_one_key_does_not_overtake_at_another),
	    cmocka_unit_test(the_first_for_one_key_is_denied_behind_others_at_another),
	    cmocka_unit_test(a_turn_is_slept_for),
	    cmocka_unit_test(a_deadline_that_is_over_is_the_reason_of_a_denial),
	    cmocka_unit_test(the_store_and_the_capacity_of_a_file_have_no_effect),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
