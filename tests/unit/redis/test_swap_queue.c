/*
 * Servers that swap the value of one key at a real Redis: the test makes each call, at a given
 * time.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "real.h"

#define START_NS UINT64_C(1700000000000000000)
#define TURN_US  10000

static struct real real;
static struct command_result end;
static uint64_t now_ns;

/*
 * Limits decided by C, by a swap for each request: intervals that change as the key warms up, and
 * short slots.
 */
static const struct weir_limit_options options[] = {
    {.algorithm = WEIR_ALGORITHM_WARM_UP,
     .rate = {5, 1, WEIR_UNIT_MINUTE},
     .max_wait_ns = 100 * NS_PER_S},
    {.algorithm = WEIR_ALGORITHM_SLIDING_WINDOW, .rate = {7}, .slots = 100},
};

#define LIMITS (sizeof options / sizeof *options)

static struct algo_limit limits[LIMITS];

static struct redis_command server(const struct algo_limit *limit, uint32_t number)
{
	return (struct redis_command){.limit = limit,
	                              .key = SLICE("key"),
	                              .call = {.op = ALGO_ACQUIRE, .cost = 1},
	                              .request_count = 1,
	                              .queue_ticket = number,
	                              .reservation_us = TURN_US,
	                              .uses_given_time = true};
}

/* One call. */
static enum command_end ask(struct redis_command *step)
{
	redisReply *found;
	struct redis_reply *reply;

	step->local_time = moment_given(now_ns);
	found = real_call(&real, &step, 1);
	reply = real_reply(found);
	command_read(&step, 1, 0, reply, &end);
	real_free(reply);
	freeReplyObject(found);
	if (end.end == COMMAND_DONE)
		command_free_swap(step);
	return end.end;
}

/* All of a request. Whether it was granted. */
static bool take(const struct algo_limit *limit, uint32_t number)
{
	struct redis_command step = server(limit, number);

	while (ask(&step) == COMMAND_AGAIN)
		;
	assert_int_equal(end.end, COMMAND_DONE);
	return end.outcomes[0].allowed;
}

/* A server that has read the value, and whose swap comes after another's. */
static struct redis_command late_server(const struct algo_limit *limit, uint32_t number)
{
	struct redis_command step = server(limit, number);

	assert_int_equal(ask(&step), COMMAND_AGAIN);
	assert_true(take(limit, 99));
	assert_int_equal(ask(&step), COMMAND_AGAIN);
	return step;
}

static void clear(void)
{
	now_ns = START_NS;
	freeReplyObject(real_do(&real, "DEL key"));
}

/* A script writes the value, and the servers after it stay in the queue. */
static void a_refund_preserves_the_queue(void **state)
{
	struct redis_command slow, fast = server(&limits[1], 2), refund = server(&limits[1], 3);

	(void)state;
	clear();
	assert_true(take(&limits[1], 99));
	slow = late_server(&limits[1], 1);
	refund.call.op = ALGO_REFUND;
	assert_int_equal(ask(&refund), COMMAND_DONE);
	assert_int_equal(end.outcomes[0].remaining, limits[1].quota - 1);
	assert_int_equal(ask(&fast), COMMAND_AGAIN);
	assert_int_equal(ask(&fast), COMMAND_LATER);
	assert_int_equal(ask(&slow), COMMAND_AGAIN);
	assert_int_equal(ask(&slow), COMMAND_DONE);
	assert_int_equal(end.outcomes[0].remaining, limits[1].quota - 2);
	command_free_swap(&fast);
}

/* A server that is far from Redis reads, and finds the value changed whenever it writes. */
static void a_slow_server_is_not_starved_by_fast_ones(void **state)
{
	(void)state;
	for (size_t i = 0; i < LIMITS; i++) {
		struct redis_command slow, fast[3];

		clear();
		slow = late_server(&limits[i], 1);
		for (size_t k = 0; k < 3; k++) {
			fast[k] = server(&limits[i], (uint32_t)k + 2);
			assert_int_equal(ask(&fast[k]), COMMAND_AGAIN);
			for (unsigned tries = 0; tries < 40; tries++) /* and as often as they like */
				assert_int_equal(ask(&fast[k]), COMMAND_LATER);
		}
		assert_int_equal(ask(&slow), COMMAND_DONE);
		assert_true(end.outcomes[0].allowed);
		/* Then the key is reserved for each of the others, in the order in which they came. */
		for (size_t k = 0; k < 3; k++) {
			for (size_t later = k + 1; later < 3; later++)
				assert_int_equal(ask(&fast[later]), COMMAND_LATER);
			assert_int_equal(ask(&fast[k]), COMMAND_AGAIN); /* the value is another */
			assert_int_equal(ask(&fast[k]), COMMAND_DONE);
			assert_true(end.outcomes[0].allowed);
		}
		assert_true(take(&limits[i], 99));
	}
}

/* As in memory, though three servers met at each: no unit is lost, nor granted twice. */
static void queued_servers_get_exactly_the_limit(void **state)
{
	(void)state;
	for (size_t i = 0; i < LIMITS; i++) {
		unsigned alone = 0, together = 0;

		clear();
		while (take(&limits[i], 1))
			alone++;
		clear();
		for (unsigned round = 0; round < 20; round++) {
			struct redis_command steps[3];
			bool ended[3] = {false};

			for (uint32_t k = 0; k < 3; k++)
				steps[k] = server(&limits[i], k + 1);
			for (unsigned left = 3; left > 0;) {
				for (size_t k = 0; k < 3; k++) {
					if (ended[k] || ask(&steps[k]) != COMMAND_DONE)
						continue;
					ended[k] = true;
					together += end.outcomes[0].allowed;
					left--;
				}
			}
		}
		assert_int_equal(together, alone);
	}
}

static void a_dead_server_delays_others_for_its_reservation(void **state)
{
	(void)state;
	for (size_t i = 0; i < LIMITS; i++) {
		struct redis_command dead, waiting, other;

		clear();
		dead = late_server(&limits[i], 1);
		command_free_swap(&dead);
		waiting = server(&limits[i], 2);
		assert_int_equal(ask(&waiting), COMMAND_AGAIN);
		other = server(&limits[i], 3);
		assert_int_equal(ask(&other), COMMAND_AGAIN);
		now_ns = START_NS + (TURN_US - 1) * 1000;
		assert_int_equal(ask(&waiting), COMMAND_LATER); /* and will never ask again */
		assert_int_equal(ask(&other), COMMAND_LATER);
		command_free_swap(&waiting);
		now_ns = START_NS + TURN_US * 1000;
		assert_int_equal(ask(&other), COMMAND_DONE);
		assert_true(end.outcomes[0].allowed);
		assert_true(take(&limits[i], 4)); /* the queue is empty */
	}
}

/* A key without a state is gone when its reservation ends. */
static void an_ended_reservation_leaves_no_key(void **state)
{
	struct redis_command step = server(&limits[0], 1);

	(void)state;
	clear();
	assert_int_equal(ask(&step), COMMAND_AGAIN);
	assert_true(take(&limits[0], 2));
	freeReplyObject(real_do(&real, "DEL key"));
	assert_true(take(&limits[0], 2));
	freeReplyObject(real_do(&real, "SET key %s", "nonsense"));
	assert_int_equal(ask(&step), COMMAND_AGAIN);
	assert_true(real_number(&real, "EXISTS key") == 1);
	freeReplyObject(real_do(&real, "DEL key"));
	command_free_swap(&step);
	step = server(&limits[0], 1);
	assert_true(take(&limits[0], 2));
	assert_int_equal(ask(&step), COMMAND_AGAIN);
	freeReplyObject(real_do(&real, "DEL key"));
	assert_int_equal(ask(&step), COMMAND_AGAIN); /* too late: it was not deleted then */
	assert_true(real_number(&real, "PTTL key") > 0);
	command_free_swap(&step);
}

/* By Redis's own clock: a state that is not in use any more after 20 s. */
static void a_reservation_outlives_the_state(void **state)
{
	struct algo_limit limit;
	struct redis_command steps[2];

	(void)state;
	freeReplyObject(real_do(&real, "DEL key"));
	assert_int_equal(
	    algo_limit_init(&limit,
	                    &(struct weir_limit_options){.algorithm = WEIR_ALGORITHM_WARM_UP,
	                                                 .rate = {10, 1, WEIR_UNIT_MINUTE},
	                                                 .warm_up_ns = 20 * NS_PER_S},
	                    NULL),
	    WEIR_OK);
	for (uint32_t i = 0; i < 2; i++) {
		steps[i] = server(&limit, i + 1);
		steps[i].uses_given_time = false;
		steps[i].reservation_us = 60000000;
		assert_int_equal(ask(&steps[i]), COMMAND_AGAIN);
	}
	assert_int_equal(ask(&steps[0]), COMMAND_DONE);
	assert_in_range(real_number(&real, "PTTL key"), 1, 45000);
	assert_int_equal(ask(&steps[1]), COMMAND_AGAIN);
	assert_in_range(real_number(&real, "PTTL key"), 50000, 60001);
	command_free_swap(&steps[1]);
	freeReplyObject(real_do(&real, "DEL key"));
	algo_limit_free(&limit);
}

/* One that is denied after all lets others go on at once. */
static void a_denied_server_leaves_the_queue(void **state)
{
	(void)state;
	for (size_t i = 0; i < LIMITS; i++) {
		struct redis_command late, other, question;

		clear();
		late = server(&limits[i], 1);
		assert_int_equal(ask(&late), COMMAND_AGAIN);
		while (take(&limits[i], 2))
			;
		assert_int_equal(ask(&late), COMMAND_AGAIN); /* its reservation, which it does not use */
		assert_int_equal(ask(&late), COMMAND_DONE);
		assert_false(end.outcomes[0].allowed);

		other = server(&limits[i], 3);
		other.call.op = ALGO_REFUND;
		other.attempt.no_script_decides = true;
		while (ask(&other) == COMMAND_AGAIN)
			;
		assert_int_equal(end.end, COMMAND_DONE);
		question = server(&limits[i], 4);
		question.call.op = ALGO_PEEK;
		assert_int_equal(ask(&question), COMMAND_DONE);
		assert_true(end.outcomes[0].allowed);
	}
}

/* While others wait, peeks are answered, and a reset deletes the reservation with the key. */
static void peeks_and_resets_do_not_wait(void **state)
{
	struct redis_command late, step;

	(void)state;
	clear();
	late = late_server(&limits[0], 1);
	step = server(&limits[0], 2);
	step.call.op = ALGO_PEEK;
	assert_int_equal(ask(&step), COMMAND_DONE);
	assert_true(end.outcomes[0].reset_after_ns > 0);
	step.call = (struct algo_call){.op = ALGO_RESET};
	assert_int_equal(ask(&step), COMMAND_DONE);
	assert_true(end.until_ns[0] > now_ns && end.until_ns[0] < UINT64_MAX);
	assert_true(take(&limits[0], 3));
	command_free_swap(&late);
}

/* Groups neither reserve keys nor overtake a reservation. */
static void a_group_waits_for_a_reservation(void **state)
{
	struct redis_command late, steps[2];
	struct command_result ends[2];
	unsigned later = 0;

	(void)state;
	clear();
	late = late_server(&limits[0], 1);
	for (size_t i = 0; i < 2; i++) {
		steps[i] = server(&limits[i], 2);
		steps[i].group = 1;
		steps[i].local_time = moment_given(now_ns);
	}
	steps[1].key = SLICE("other");
	for (unsigned call = 0; call < 4; call++) {
		struct redis_command *list[] = {&steps[0], &steps[1]};
		redisReply *found = real_call(&real, list, 2);
		struct redis_reply *reply = real_reply(found);

		for (size_t i = 0; i < 2; i++)
			command_read(list, 2, i, reply, &ends[i]);
		real_free(reply);
		freeReplyObject(found);
		assert_int_equal(ends[0].end, ends[1].end);
		later += ends[0].end == COMMAND_LATER;
		if (call == 2)
			assert_int_equal(ask(&late), COMMAND_DONE);
	}
	assert_int_equal(later, 2);
	real_steps(&real, (struct redis_command *[]){&steps[0], &steps[1]}, 2, ends);
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(ends[i].end, COMMAND_DONE);
		assert_true(ends[i].outcomes[0].allowed);
	}
	freeReplyObject(real_do(&real, "DEL other"));
}

/* A group of two, of which another server swaps the first in front of each of its calls, so often.
 */
static enum command_end lose(const struct algo_limit *limit, unsigned losses,
                             struct command_result ends[2])
{
	struct redis_command steps[2] = {server(limit, 2), server(&limits[0], 2)};
	struct redis_command *list[] = {&steps[0], &steps[1]};

	clear();
	freeReplyObject(real_do(&real, "DEL other"));
	steps[1].key = SLICE("other");
	for (size_t i = 0; i < 2; i++) {
		steps[i].group = 1;
		steps[i].local_time = moment_given(now_ns);
	}
	do {
		redisReply *found;
		struct redis_reply *reply;

		if (losses > 0 && losses--)
			assert_true(take(limit, 99));
		found = real_call(&real, list, 2);
		reply = real_reply(found);
		for (size_t i = 0; i < 2; i++)
			command_read(list, 2, i, reply, &ends[i]);
		real_free(reply);
		freeReplyObject(found);
		assert_int_equal(ends[0].end, ends[1].end);
	} while (ends[0].end == COMMAND_AGAIN);
	for (size_t i = 0; i < 2; i++)
		command_free_swap(&steps[i]);
	return ends[0].end;
}

/*
 * A group reserves nothing. It loses a try if another server has swapped since the try before;
 * after 32 lost tries it fails, and has taken nothing. One try that it wins is enough.
 */
static void a_group_fails_only_when_others_were_faster_32_times(void **state)
{
	struct algo_limit limit;
	struct command_result ends[2];
	struct redis_command question;

	(void)state;
	assert_int_equal(
	    algo_limit_init(&limit,
	                    &(struct weir_limit_options){.algorithm = WEIR_ALGORITHM_SLIDING_WINDOW,
	                                                 .rate = {1000},
	                                                 .slots = 100},
	                    NULL),
	    WEIR_OK);
	for (unsigned losses = 1; losses <= 33; losses++) { /* the first is before it has read */
		bool has_won = losses <= 32;

		assert_int_equal(lose(&limit, losses, ends), has_won ? COMMAND_DONE : COMMAND_FAILED);
		assert_int_equal(real_number(&real, "EXISTS other"), has_won);
		question = server(&limit, 3);
		question.call.op = ALGO_PEEK;
		assert_int_equal(ask(&question), COMMAND_DONE);
		assert_int_equal(end.outcomes[0].remaining, 1000 - losses - has_won);
	}
	freeReplyObject(real_do(&real, "DEL other"));
	algo_limit_free(&limit);
}

static int open_redis(void **state)
{
	(void)state;
	for (size_t i = 0; i < LIMITS; i++)
		assert_int_equal(algo_limit_init(&limits[i], &options[i], NULL), WEIR_OK);
	real_open(&real);
	return 0;
}

static int close_redis(void **state)
{
	(void)state;
	real_close(&real);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_refund_preserves_the_queue),
	    cmocka_unit_test(a_slow_server_is_not_starved_by_fast_ones),
	    cmocka_unit_test(queued_servers_get_exactly_the_limit),
	    cmocka_unit_test(a_dead_server_delays_others_for_its_reservation),
	    cmocka_unit_test(an_ended_reservation_leaves_no_key),
	    cmocka_unit_test(a_reservation_outlives_the_state),
	    cmocka_unit_test(a_denied_server_leaves_the_queue),
	    cmocka_unit_test(peeks_and_resets_do_not_wait),
	    cmocka_unit_test(a_group_waits_for_a_reservation),
	    cmocka_unit_test(a_group_fails_only_when_others_were_faster_32_times),
	};

	return cmocka_run_group_tests(tests, open_redis, close_redis);
}
