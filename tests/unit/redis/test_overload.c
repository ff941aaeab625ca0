/* A client with more requests than Redis carries out in time, at a fake node. */
#include "fake_nodes.h"
#include "counters.h"

#define PORT       6379
#define TIMEOUT_NS (20 * NS_PER_S) /* as the client's own clock counts, no test waits */
#define KEYS       1000

/* It is connected, and was asked for as many keys as there are. */
static struct fake *begin(struct one *ones)
{
	struct fake *p = fake_open("redis://h", TIMEOUT_NS);
	struct one first;
	char key[16];

	make_one(p, &first, "first", 1);
	submit(p, &first);
	redis_client_flush(p->client);
	accept_line(p, PORT, "EVALSHA ");
	answer(p, PORT, "-ERR first\r\n");
	assert_failed(&first);
	for (size_t i = 0; i < KEYS; i++) {
		snprintf(key, sizeof key, "%zu", i);
		make_one(p, &ones[i], key, i);
		submit(p, &ones[i]);
	}
	redis_client_flush(p->client);
	return p;
}

static size_t done_of(const struct one *ones)
{
	size_t n = 0;

	for (size_t i = 0; i < KEYS; i++)
		n += ones[i].is_done;
	return n;
}

static void few_calls_are_under_way_and_each_reply_permits_another(void **state)
{
	static struct one ones[KEYS];
	struct fake *p = begin(ones);
	size_t calls = 1;

	(void)state;
	assert_string_equal(sent(p, PORT), "EVALSHA ");
	assert_int_equal(redis_client_command_count(p->client), KEYS);
	while (done_of(ones) < KEYS) {
		size_t before = done_of(ones);

		answer(p, PORT, "-ERR an error of one call\r\n");
		assert_in_range(done_of(ones) - before, 1, CALL_COMMANDS_FULL);
		calls += strlen(sent(p, PORT)) / strlen("EVALSHA ");
	}
	assert_int_equal(calls, ceil_div(KEYS, CALL_COMMANDS_FULL));
	assert_int_equal(redis_client_command_count(p->client), 0);
	assert_int_equal(p->away, 0);
	end(p);
}

static void late_commands_fail_alone_and_redis_stays_available(void **state)
{
	static struct one ones[KEYS];
	struct fake *p = begin(ones);
	uint64_t now_ns = os_monotonic_ns();

	(void)state;
	redis_client_tick(p->client, now_ns + TIMEOUT_NS / 4);
	assert_int_equal(done_of(ones), 0);
	redis_client_tick(p->client, now_ns + TIMEOUT_NS / 2);
	assert_int_equal(done_of(ones), KEYS - CALL_COMMANDS_FULL);
	assert_failed(&ones[KEYS - 1]);
	assert_int_equal(p->away, 0);
	answer(p, PORT, "-ERR an error of one call\r\n");
	assert_int_equal(done_of(ones), KEYS);
	assert_int_equal(p->away, 0);
	end(p);
}

static void a_redis_that_answers_no_call_is_unavailable(void **state)
{
	static struct one ones[KEYS];
	struct fake *p = begin(ones);
	uint64_t now_ns = os_monotonic_ns();

	(void)state;
	redis_client_tick(p->client, now_ns + TIMEOUT_NS);
	redis_client_tick(p->client, now_ns + TIMEOUT_NS + NS_PER_S); /* it has looked for replies */
	assert_int_equal(done_of(ones), KEYS);
	assert_int_equal(p->away, 1);
	end(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(few_calls_are_under_way_and_each_reply_permits_another),
	    cmocka_unit_test(late_commands_fail_alone_and_redis_stays_available),
	    cmocka_unit_test(a_redis_that_answers_no_call_is_unavailable),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
