/* A client at a fake cluster (fake_nodes.h). Commands are those of counters.h. */
#include "fake_nodes.h"
#include "counters.h"

#include "redis/nodes/hash_slots.h"

#define TIMEOUT_NS (3600 * NS_PER_S) /* no test waits */
#define SEED       7000
#define HALF       (HASH_SLOTS / 2)

/* The answers of nodes. */
#define GRANTED  "*2\r\n$1\r\n1\r\n*3\r\n:1\r\n:4\r\n:0\r\n"
#define GRANTED2 "*3\r\n$1\r\n1\r\n*3\r\n:1\r\n:4\r\n:0\r\n*3\r\n:1\r\n:4\r\n:0\r\n"
#define TRYAGAIN "-TRYAGAIN Multiple keys request during rehashing of slot\r\n"
#define NOTHING  "*0\r\n" /* as a list of slots */

static struct fake *begin(void)
{
	return fake_open("redis-cluster://h:7000", TIMEOUT_NS);
}

/* A key in the lower or upper half of all slots. */
static void make(struct fake *p, struct one *one, bool is_upper)
{
	static unsigned number;
	char key[16], name[32];

	do {
		snprintf(key, sizeof key, "%u", number++);
		snprintf(name, sizeof name, "weir:{%s}:l", key);
	} while ((hash_slot_of(slice_of(name)) >= HALF) != is_upper);
	make_one(p, one, key, number);
}

static void ask(struct fake *p, struct one *one, bool is_upper)
{
	make(p, one, is_upper);
	submit(p, one);
	redis_client_flush(p->client);
}

static void answer_redirect(struct fake *p, unsigned port, const char *word, const struct one *one,
                            unsigned to)
{
	char text[64], name[32];

	snprintf(name, sizeof name, "weir:{%s}:l", one->key);
	snprintf(text, sizeof text, "-%s %u h:%u\r\n", word, hash_slot_of(slice_of(name)), to);
	answer(p, port, text);
}

/* The lower half of the slots is at one node, the upper at the other. */
static void answer_map(struct fake *p, unsigned port, unsigned lower, unsigned upper)
{
	char text[200];

	snprintf(text, sizeof text,
	         "*2\r\n*3\r\n:0\r\n:%u\r\n*2\r\n$1\r\nh\r\n:%u\r\n"
	         "*3\r\n:%u\r\n:%u\r\n*2\r\n$1\r\nh\r\n:%u\r\n",
	         HALF - 1, lower, HALF, HASH_SLOTS - 1, upper);
	answer(p, port, text);
}

/* A map of two nodes, 7000 and 7001, with a connection to each. */
static struct fake *begin_with_map(void)
{
	struct fake *p = begin();
	struct one one;

	ask(p, &one, true);
	accept_line(p, SEED, "CLUSTER EVALSHA ");
	answer_map(p, SEED, SEED, 7001);
	answer_redirect(p, SEED, "MOVED", &one, 7001);
	accept_line(p, 7001, "EVALSHA ");
	answer(p, 7001, GRANTED);
	assert_granted(&one);
	return p;
}

/* Redirections put the map in doubt; lets a second pass, and answers the question that follows. */
static void settle(struct fake *p, unsigned lower, unsigned upper)
{
	unsigned asked = 0;

	redis_client_tick(p->client, os_monotonic_ns() + 10 * NS_PER_S);
	find_names(p);
	for (size_t i = 0; i < p->count && asked == 0; i++)
		if (p->lines[i].attempt && strstr(sent(p, p->lines[i].port), "CLUSTER"))
			asked = p->lines[i].port;
	assert_int_not_equal(asked, 0);
	answer_map(p, asked, lower, upper);
}

static void keys_go_to_the_nodes_that_the_map_names(void **state)
{
	struct fake *p = begin_with_map();
	struct one lower, upper;

	(void)state;
	make(p, &lower, false);
	make(p, &upper, true);
	submit(p, &lower);
	submit(p, &upper);
	redis_client_flush(p->client);
	assert_string_equal(sent(p, SEED), "EVALSHA ");
	assert_string_equal(sent(p, 7001), "EVALSHA ");
	answer(p, 7001, GRANTED);
	assert_granted(&upper);
	assert_false(lower.is_done);
	answer(p, SEED, GRANTED);
	assert_granted(&lower);
	assert_int_equal(p->count, 2);
	end(p);
}

static void keys_of_two_slots_are_two_calls(void **state)
{
	struct fake *p = begin_with_map();
	struct one ones[2];

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		make(p, &ones[i], false);
		submit(p, &ones[i]);
	}
	redis_client_flush(p->client);
	assert_string_equal(sent(p, SEED), "EVALSHA EVALSHA ");
	end(p);
	assert_failed(&ones[1]);
}

static void a_slot_that_has_moved_is_followed_and_remembered(void **state)
{
	struct fake *p = begin_with_map();
	struct one one, same;

	(void)state;
	ask(p, &one, false);
	assert_string_equal(sent(p, SEED), "EVALSHA ");
	answer_redirect(p, SEED, "MOVED", &one, 7001);
	assert_string_equal(sent(p, 7001), "EVALSHA ");
	answer(p, 7001, GRANTED);
	assert_granted(&one);
	same = one;
	same.is_done = false;
	submit(p, &same);
	redis_client_flush(p->client);
	assert_string_equal(sent(p, 7001), "EVALSHA ");
	answer(p, 7001, GRANTED);
	assert_granted(&same);
	end(p);
}

static void a_key_that_is_moving_is_redirected_once(void **state)
{
	struct fake *p = begin_with_map();
	struct one one, same;

	(void)state;
	ask(p, &one, false);
	assert_string_equal(sent(p, SEED), "EVALSHA ");
	answer_redirect(p, SEED, "ASK", &one, 7002);
	accept_line(p, 7002, "ASKING EVALSHA ");
	answer(p, 7002, "+OK\r\n");
	answer(p, 7002, GRANTED);
	assert_granted(&one);
	same = one;
	same.is_done = false;
	submit(p, &same);
	redis_client_flush(p->client);
	assert_string_equal(sent(p, SEED), "EVALSHA ");
	end(p);
}

static void a_script_that_the_other_node_lacks_is_loaded_there(void **state)
{
	struct fake *p = begin_with_map();
	struct one one;

	(void)state;
	ask(p, &one, false);
	assert_string_equal(sent(p, SEED), "EVALSHA ");
	answer_redirect(p, SEED, "ASK", &one, 7002);
	accept_line(p, 7002, "ASKING EVALSHA ");
	answer(p, 7002, "+OK\r\n-NOSCRIPT No matching script.\r\n");
	assert_string_equal(sent(p, 7002), "SCRIPT ASKING EVALSHA ");
	answer(p, 7002, "$1\r\nx\r\n+OK\r\n" GRANTED);
	assert_granted(&one);
	end(p);
}

/* Two keys of one slot, in one call or under way for a while. */
static void make_two(struct fake *p, struct one *ones)
{
	for (size_t i = 0; i < 2; i++) {
		make(p, &ones[i], false);
		memcpy(ones[i].key, ones[0].key, sizeof ones[0].key);
	}
	ones[1].operation.limit_name = "m";
	ones[1].operation.step.limit = &p->limit;
	ones[1].operation.step.call.cost = 2;
}

static void commands_whose_keys_are_split_go_one_by_one(void **state)
{
	struct fake *p = begin_with_map();
	struct one ones[2];

	(void)state;
	make_two(p, ones);
	submit(p, &ones[0]);
	submit(p, &ones[1]);
	redis_client_flush(p->client);
	assert_string_equal(sent(p, SEED), "EVALSHA ");
	answer(p, SEED, TRYAGAIN);
	assert_string_equal(sent(p, SEED), "EVALSHA EVALSHA ");
	answer(p, SEED, GRANTED);
	assert_granted(&ones[0]);
	answer_redirect(p, SEED, "ASK", &ones[1], 7001);
	assert_string_equal(sent(p, 7001), "ASKING EVALSHA ");
	answer(p, 7001, "+OK\r\n" GRANTED);
	assert_granted(&ones[1]);
	end(p);
}

static void a_group_whose_keys_are_split_waits(void **state)
{
	struct fake *p = begin_with_map();
	struct one ones[2];

	(void)state;
	make_two(p, ones);
	ones[0].operation.is_all_or_nothing = ones[1].operation.is_all_or_nothing = true;
	ones[0].operation.next = &ones[1].operation;
	submit(p, &ones[0]);
	redis_client_flush(p->client);
	for (unsigned i = 0; i < 3; i++) {
		assert_string_equal(sent(p, SEED), "EVALSHA ");
		answer(p, SEED, TRYAGAIN);
		assert_string_equal(sent(p, SEED), "");
		redis_client_tick(p->client, os_monotonic_ns() + 100 * NS_PER_MS);
	}
	assert_string_equal(sent(p, SEED), "EVALSHA ");
	answer(p, SEED, GRANTED2);
	assert_granted(&ones[0]);
	assert_granted(&ones[1]);
	end(p);
}

/* Repeats a command so late that its node can't answer in time; it fails. */
static void make_again_too_late(struct fake *p, struct one *one, uint64_t *now_ns)
{
	ask(p, one, false);
	assert_string_equal(sent(p, SEED), "EVALSHA ");
	*now_ns = os_monotonic_ns() + TIMEOUT_NS;
	answer(p, SEED, TRYAGAIN);
	assert_string_equal(sent(p, SEED), "EVALSHA "); /* alone */
	answer(p, SEED, TRYAGAIN);
	redis_client_tick(p->client, *now_ns - NS_PER_S); /* its deadline was before */
	assert_string_equal(sent(p, SEED), "EVALSHA ");
	assert_false(one->is_done);
	redis_client_tick(p->client, *now_ns);
	redis_client_tick(p->client, *now_ns); /* the bytes that arrived before were read */
	assert_failed(one);
}

/* Unless it does not answer within the time that each call has. */
static void a_late_last_try_leaves_the_node_available(void **state)
{
	(void)state;
	for (unsigned answers = 0; answers < 3; answers++) {
		struct fake *p = begin_with_map();
		uint64_t now_ns;
		struct one one;

		make_again_too_late(p, &one, &now_ns);
		assert_int_equal(p->away, 0);
		if (answers == 0) {
			redis_client_tick(p->client, now_ns + TIMEOUT_NS / 2);
			redis_client_tick(p->client, now_ns + TIMEOUT_NS / 2);
			assert_true(p->away > 0);
		} else {
			answer(p, SEED, answers == 1 ? GRANTED : "-WRONGTYPE Operation\r\n");
			ask(p, &one, false);
			assert_string_equal(sent(p, SEED), "EVALSHA ");
			answer(p, SEED, GRANTED);
			assert_granted(&one);
			assert_int_equal(p->away, 0);
		}
		end(p);
	}
}

static void a_group_waits_until_its_deadline(void **state)
{
	struct fake *p = begin_with_map();
	struct one ones[2];
	struct redis_stats stats;

	(void)state;
	make_two(p, ones);
	ones[0].operation.is_all_or_nothing = ones[1].operation.is_all_or_nothing = true;
	ones[0].operation.next = &ones[1].operation;
	submit(p, &ones[0]);
	redis_client_flush(p->client);
	answer(p, SEED, TRYAGAIN);
	redis_client_tick(p->client, os_monotonic_ns() + TIMEOUT_NS);
	assert_failed(&ones[0]);
	assert_failed(&ones[1]);
	redis_store_stats(p->store, &stats);
	assert_true(stats.is_up);
	end(p);
}

static void nodes_that_name_each_other_are_not_followed_for_ever(void **state)
{
	struct fake *p = begin_with_map();
	struct one one;

	(void)state;
	ask(p, &one, false);
	for (unsigned i = 0; !one.is_done; i++) {
		assert_true(i < 50);
		answer_redirect(p, SEED + i % 2, "MOVED", &one, SEED + (i + 1) % 2);
	}
	assert_failed(&one);
	end(p);
}

static void a_node_that_is_lost_fails_its_own_keys_until_another_has_them(void **state)
{
	struct fake *p = begin_with_map();
	struct one lower, upper;
	struct redis_stats stats;

	(void)state;
	ask(p, &upper, true);
	sent(p, 7001);
	struct redis_attempt *lost = line_to(p, 7001)->attempt;

	line_to(p, 7001)->attempt = NULL;
	redis_attempt_lost(lost, "reset");
	assert_failed(&upper);
	ask(p, &upper, true);
	assert_failed(&upper);
	redis_store_stats(p->store, &stats);
	assert_false(stats.is_up);
	assert_int_equal(p->away, 1);
	assert_int_equal(p->back, 0);
	ask(p, &lower, false);
	answer(p, SEED, strstr(sent(p, SEED), "CLUSTER") ? NOTHING GRANTED : GRANTED);
	assert_granted(&lower);
	settle(p, SEED, 7003);
	redis_client_tick(p->client, os_monotonic_ns() + 11 * NS_PER_S);
	assert_int_equal(p->away, 1);
	assert_int_equal(p->back, 1);
	ask(p, &upper, true);
	accept_line(p, 7003, "EVALSHA ");
	answer(p, 7003, GRANTED);
	assert_granted(&upper);
	redis_store_stats(p->store, &stats);
	assert_true(stats.is_up);
	end(p);
}

static void a_connection_of_an_earlier_era_is_replaced(void **state)
{
	struct fake *p = begin_with_map(), *q = calloc(1, sizeof *q);
	struct one one, two;

	(void)state;
	q->transport.kind = &fake_kind;
	q->limit = p->limit;
	q->store = p->store;
	assert_int_equal(redis_client_open(q->store, &q->transport, &q->client), WEIR_OK);
	ask(q, &two, true);
	accept_line(q, 7001, "EVALSHA ");
	answer(q, 7001, GRANTED);
	/* The other client finds the node unavailable, and then recovered. */
	ask(p, &one, true);
	struct line *lost = line_to(p, 7001);
	struct redis_attempt *attempt = lost->attempt;

	lost->attempt = NULL;
	redis_attempt_lost(attempt, "reset");
	accept_line(p, 7001, "EVALSHA SET ");
	answer(p, 7001, "-NOSCRIPT No matching script.\r\n+OK\r\n");
	ask(q, &two, true);
	assert_null(q->lines[0].attempt);
	accept_line(q, 7001, "EVALSHA ");
	answer(q, 7001, GRANTED);
	assert_granted(&two);
	ask(p, &one, true);
	assert_string_equal(sent(p, 7001), "EVALSHA ");
	redis_client_close(q->client);
	free(q);
	end(p);
}

static void an_unavailable_node_is_not_asked_again(void **state)
{
	struct fake *p = begin_with_map();
	struct one one;

	(void)state;
	ask(p, &one, true);
	sent(p, 7001);
	answer(p, 7001, "-CLUSTERDOWN The cluster is down\r\n");
	assert_failed(&one);
	ask(p, &one, true);
	assert_failed(&one);
	assert_string_equal(sent(p, 7001), "");
	redis_client_tick(p->client, os_monotonic_ns() + 2 * NS_PER_S);
	assert_non_null(strstr(sent(p, 7001), "EVALSHA SET "));
	answer(p, 7001, "-CLUSTERDOWN The cluster is down\r\n-CLUSTERDOWN The cluster is down\r\n");
	ask(p, &one, true);
	assert_failed(&one);
	redis_client_tick(p->client, os_monotonic_ns() + 9 * NS_PER_S);
	answer(p, 7001, "-MOVED 1 h:7000\r\n-MOVED 1 h:7000\r\n");
	ask(p, &one, true);
	assert_false(one.is_done);
	end(p);
}

/* The URL names it, and no key goes there. */
static void a_node_without_slots_may_be_dead(void **state)
{
	struct fake *p = begin_with_map();
	struct redis_attempt *attempt;
	struct line *gone;

	(void)state;
	settle(p, 7001, 7001);
	gone = line_to(p, SEED);
	attempt = gone->attempt;
	gone->attempt = NULL;
	redis_attempt_lost(attempt, "reset");
	for (unsigned i = 0; i < 3; i++)
		redis_client_tick(p->client, os_monotonic_ns() + (20 + i) * NS_PER_S);
	assert_int_equal(p->away + p->back, 0);
	end(p);
}

static void a_slot_that_nobody_serves_fails_alone(void **state)
{
	struct fake *p = begin_with_map();
	struct one one;

	(void)state;
	ask(p, &one, true);
	sent(p, 7001);
	answer(p, 7001, "-CLUSTERDOWN Hash slot not served\r\n");
	assert_failed(&one);
	ask(p, &one, true);
	assert_string_equal(sent(p, 7001), "EVALSHA ");
	end(p);
}

static void connections_to_removed_nodes_are_closed(void **state)
{
	struct fake *p = begin_with_map();
	struct line *gone = line_to(p, 7001);

	(void)state;
	settle(p, SEED, 7003);
	redis_client_tick(p->client, os_monotonic_ns() + 11 * NS_PER_S);
	assert_null(gone->attempt);
	assert_non_null(line_to(p, SEED)->attempt); /* the URL names it */
	end(p);
}

static void invalid_redirections_make_a_node_unavailable(void **state)
{
	struct fake *p = begin_with_map();
	struct one one;
	struct redis_stats stats;

	(void)state;
	ask(p, &one, true);
	answer(p, 7001, "-MOVED 99999 h:7003\r\n");
	assert_failed(&one);
	redis_store_stats(p->store, &stats);
	assert_false(stats.is_up);
	assert_int_equal(p->count, 2);
	end(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(keys_go_to_the_nodes_that_the_map_names),
	    cmocka_unit_test(keys_of_two_slots_are_two_calls),
	    cmocka_unit_test(a_slot_that_has_moved_is_followed_and_remembered),
	    cmocka_unit_test(a_key_that_is_moving_is_redirected_once),
	    cmocka_unit_test(a_script_that_the_other_node_lacks_is_loaded_there),
	    cmocka_unit_test(commands_whose_keys_are_split_go_one_by_one),
	    cmocka_unit_test(a_group_whose_keys_are_split_waits),
	    cmocka_unit_test(a_group_waits_until_its_deadline),
	    cmocka_unit_test(a_late_last_try_leaves_the_node_available),
	    cmocka_unit_test(nodes_that_name_each_other_are_not_followed_for_ever),
	    cmocka_unit_test(a_node_that_is_lost_fails_its_own_keys_until_another_has_them),
	    cmocka_unit_test(a_connection_of_an_earlier_era_is_replaced),
	    cmocka_unit_test(an_unavailable_node_is_not_asked_again),
	    cmocka_unit_test(a_node_without_slots_may_be_dead),
	    cmocka_unit_test(a_slot_that_nobody_serves_fails_alone),
	    cmocka_unit_test(connections_to_removed_nodes_are_closed),
	    cmocka_unit_test(invalid_redirections_make_a_node_unavailable),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
