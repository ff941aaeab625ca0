/* Errors of a fake Redis: the calls that fail, the reasons reported, and the next calls. */
#include "fake_nodes.h"
#include "counters.h"

#define PORT       6379
#define TIMEOUT_NS (3600 * NS_PER_S) /* no test waits */

struct refusal {
	const char *text;
	bool is_unavailable; /* for all calls: else this one fails alone */
	bool is_lost;   /* and the connection is of no use */
	bool is_within; /* commands of scripts are refused, so the recovery check tries them */
};

static const struct refusal refusals[] = {
    {"LOADING Redis is loading the dataset in memory", true, true},
    {"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.", true, true},
    {"READONLY You can't write against a read only replica.", true, true},
    {"NOAUTH Authentication required.", true, true},
    {"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.", true,
     false},
    {"MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist.", true,
     false},
    {"OOM command not allowed when used memory > 'maxmemory'.", true, false},
    {"NOREPLICAS Not enough good replicas to write.", true, false},
    {"NOPERM this user has no permissions to run the 'evalsha' command", true, false},
    {"ERR Error running script (call to f_1): @user_script:7: -MISCONF Errors writing to the AOF",
     true, false},
    {"ERR unknown command 'EVALSHA'", true, false},
    {"ERR The user executing the script can't run this command or subcommand script: 4, on "
     "@user_script:1.",
     true, false, true},
    {"ERR Error running script (call to f_1): @user_script:1: @user_script: 1: The user executing "
     "the script can't run this command or subcommand",
     true, false, true},
    {"ERR ACL failure in script: User a has no permissions to run the 'time' command", true, false,
     true},
    {"ERR Error running script (call to f_1): @user_script:1: -NOPERM no permissions", true, false,
     true},
    {"WRONGTYPE Operation against a key holding the wrong kind of value", false, false},
    {"ERR what nobody has seen", false, false},
};

static void ask(struct fake *p, struct one *one, const char *key)
{
	make_one(p, one, key, (uint64_t)key[0]);
	submit(p, one);
	redis_client_flush(p->client);
}

static void assert_reported(const struct fake *p, const struct refusal *refusal)
{
	const char *code = strstr(refusal->text, ": -");
	char word[16];

	sscanf(code ? code + 3 : refusal->text, "%15s", word);
	assert_int_equal(p->away, refusal->is_unavailable);
	if (refusal->is_unavailable)
		assert_non_null(strstr(p->why, word));
}

/*
 * A request for an unavailable node is not sent; the first recovery check shows the refused
 * command.
 */
static void assert_recovers(struct fake *p, const struct refusal *refusal)
{
	uint64_t now_ns = os_monotonic_ns();
	const char *asked = refusal->is_within ? "SCRIPT EVALSHA SET " : "EVALSHA SET ";
	const char *loaded = refusal->is_within ? "+OK\r\n" : "";
	char text[400];
	struct one one;

	ask(p, &one, "c");
	assert_failed(&one);
	redis_client_tick(p->client, now_ns + 2 * NS_PER_S);
	if (refusal->is_lost)
		accept_line(p, PORT, "EVALSHA SET ");
	else
		assert_string_equal(sent(p, PORT), asked);
	snprintf(text, sizeof text, "%s-%s\r\n+OK\r\n", loaded, refusal->text);
	if (!refusal->is_lost) {
		answer(p, PORT, text);
		assert_int_equal(p->back, 0);
		redis_client_tick(p->client, now_ns + 4 * NS_PER_S);
		assert_string_equal(sent(p, PORT), asked);
	}
	snprintf(text, sizeof text, "%s%s\r\n+OK\r\n", loaded,
	         refusal->is_within ? ":1" : "-NOSCRIPT No matching script.");
	answer(p, PORT, text);
	assert_int_equal(p->back, 1);
	assert_int_equal(p->away, 1);
}

static void each_error_concerns_its_call_or_the_node(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
		const struct refusal *refusal = &refusals[i];
		struct fake *p = fake_open("redis://h", TIMEOUT_NS);
		struct one first, second;
		char text[400];

		ask(p, &first, "a");
		accept_line(p, PORT, "EVALSHA ");
		ask(p, &second, "b"); /* few commands are sent at once */
		assert_string_equal(sent(p, PORT), "EVALSHA ");
		snprintf(text, sizeof text, "-%s\r\n-%s\r\n", refusal->text, refusal->text);
		answer(p, PORT, text);
		assert_failed(&first);
		assert_failed(&second);
		assert_reported(p, refusal);
		if (refusal->is_unavailable) {
			assert_int_equal(p->lines[0].attempt == NULL, refusal->is_lost);
			assert_recovers(p, refusal);
		}
		ask(p, &first, "d");
		assert_string_equal(sent(p, PORT), "EVALSHA ");
		answer(p, PORT, "*2\r\n$1\r\n1\r\n*3\r\n:1\r\n:4\r\n:0\r\n");
		assert_granted(&first);
		end(p);
	}
}

/* This may be no Redis, or replies are out of step with calls: the connection has to be closed. */
static void a_reply_that_no_script_gives_ends_the_connection(void **state)
{
	static const char *const replies[][2] = {
	    {"+OK\r\n", "expected an array from a script, found a text"},
	    {":9223372036854775807\r\n", "expected an array from a script, found a number"},
	    {"$-1\r\n", "expected an array from a script, found nothing"},
	    {"*0\r\n", "expected 1 values and a time from a script, found 0 values and no time"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof replies / sizeof *replies; i++) {
		struct fake *p = fake_open("redis://h", TIMEOUT_NS);
		struct one one;

		ask(p, &one, "a");
		accept_line(p, PORT, "EVALSHA ");
		answer(p, PORT, replies[i][0]);
		assert_failed(&one);
		assert_int_equal(p->away, 1);
		assert_non_null(strstr(p->why, replies[i][1]));
		assert_null(p->lines[0].attempt);
		redis_client_tick(p->client, os_monotonic_ns() + 2 * NS_PER_S);
		accept_line(p, PORT, "EVALSHA SET ");
		answer(p, PORT, "+OK\r\n+OK\r\n"); /* to a script that is not there */
		assert_int_equal(p->back, 0);
		redis_client_tick(p->client, os_monotonic_ns() + 4 * NS_PER_S);
		assert_string_equal(sent(p, PORT), "EVALSHA SET ");
		answer(p, PORT, "-NOSCRIPT No matching script.\r\n+OK\r\n");
		assert_int_equal(p->back, 1);
		end(p);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(each_error_concerns_its_call_or_the_node),
	    cmocka_unit_test(a_reply_that_no_script_gives_ends_the_connection),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
