/* A client whose master fake Sentinels name (fake_nodes.h). Commands are those of counters.h. */
#include "fake_nodes.h"
#include "counters.h"

#include "redis/nodes/sentinels.h"

#define TIMEOUT_NS (3600 * NS_PER_S) /* no test waits */
#define URL        "redis+sentinel://h:1,h:2,h:3/m"
#define FIRST      7000 /* a server */
#define SECOND     7001

#define GRANTED "*2\r\n$1\r\n1\r\n*3\r\n:1\r\n:4\r\n:0\r\n"
#define MASTER  "*2\r\n$4\r\nrole\r\n$6\r\nmaster\r\n+PONG\r\n"
#define REPLICA "*2\r\n$4\r\nrole\r\n$7\r\nreplica\r\n+PONG\r\n"
#define NONE    "*-1\r\n"
#define NO_LIST "*0\r\n"

static void tick(struct fake *p, uint64_t after_ns)
{
	redis_client_tick(p->client, os_monotonic_ns() + after_ns);
	find_names(p);
}

static void name(struct fake *p, unsigned sentinel, unsigned master)
{
	char text[64];

	snprintf(text, sizeof text, "*2\r\n$9\r\n127.0.0.1\r\n$4\r\n%u\r\n", master);
	answer(p, sentinel, text);
}

/* All Sentinels are connected and asked, and name no other Sentinels. */
static struct fake *begin(const char *url, unsigned sentinels)
{
	struct fake *p = fake_open(url, TIMEOUT_NS);

	tick(p, 0);
	for (unsigned i = 1; i <= sentinels; i++)
		accept_line(p, i, "SENTINEL SENTINEL ");
	return p;
}

/* The first answer of a Sentinel, and none to the question for others. */
static void name_first(struct fake *p, unsigned sentinel, unsigned master)
{
	name(p, sentinel, master);
	answer(p, sentinel, NO_LIST);
}

static void greet(struct fake *p, unsigned port, const char *role, const char *names)
{
	assert_string_equal(sent(p, port), "HELLO PING ");
	answer(p, port, role);
	if (names)
		assert_string_equal(sent(p, port), names);
}

static void ask(struct fake *p, struct one *one)
{
	static unsigned number;
	char key[16];

	snprintf(key, sizeof key, "%u", ++number);
	make_one(p, one, key, number);
	submit(p, one);
	redis_client_flush(p->client);
}

static void ask_granted(struct fake *p, unsigned port)
{
	struct one one;

	ask(p, &one);
	assert_string_equal(sent(p, port), "EVALSHA ");
	answer(p, port, GRANTED);
	assert_granted(&one);
}

static bool has_line(const struct fake *p, unsigned port)
{
	for (size_t i = 0; i < p->count; i++)
		if (p->lines[i].port == port && p->lines[i].attempt)
			return true;
	return false;
}

/* All name the first server, which has granted something. */
static struct fake *begin_at_first(void)
{
	struct fake *p = begin(URL, 3);
	struct one one;

	for (unsigned i = 1; i <= 3; i++)
		name_first(p, i, FIRST);
	ask(p, &one);
	greet(p, FIRST, MASTER, "EVALSHA ");
	answer(p, FIRST, GRANTED);
	assert_granted(&one);
	return p;
}

/* A later round, in which all are asked once. */
static void begin_round(struct fake *p, uint64_t after_ns)
{
	tick(p, after_ns);
	for (unsigned i = 1; i <= 3; i++)
		assert_string_equal(sent(p, i), "SENTINEL ");
}

static void requests_wait_until_most_sentinels_have_named_the_master(void **state)
{
	struct fake *p = begin(URL, 3);
	struct one one;

	(void)state;
	ask(p, &one);
	name_first(p, 2, SECOND);
	tick(p, 2 * NS_PER_MS);
	assert_false(has_line(p, SECOND));
	assert_false(one.is_done);
	name_first(p, 1, FIRST);
	name_first(p, 3, FIRST);
	tick(p, 4 * NS_PER_MS);
	assert_false(has_line(p, SECOND));
	greet(p, FIRST, MASTER, "EVALSHA ");
	answer(p, FIRST, GRANTED);
	assert_granted(&one);
	ask_granted(p, FIRST);
	end(p);
}

static void sentinels_that_do_not_answer_are_not_waited_for_long(void **state)
{
	struct fake *p = begin(URL, 3);
	struct one one;

	(void)state;
	ask(p, &one);
	name_first(p, 3, SECOND);
	tick(p, 2 * NS_PER_MS);
	assert_false(has_line(p, SECOND));
	tick(p, SENTINELS_SOON_NS);
	tick(p, SENTINELS_SOON_NS + 2 * NS_PER_MS);
	greet(p, SECOND, MASTER, "EVALSHA ");
	/* A late answer counts, too. */
	name_first(p, 1, FIRST);
	name_first(p, 2, FIRST);
	ask(p, &one);
	greet(p, FIRST, MASTER, "EVALSHA ");
	end(p);
}

static void of_two_named_equally_often_the_first_sentinel_decides(void **state)
{
	(void)state;
	for (unsigned first = 1; first <= 2; first++) {
		struct fake *p = begin("redis+sentinel://h:1,h:2/m", 2);
		struct one one;

		name_first(p, first, first == 1 ? FIRST : SECOND);
		name_first(p, 3 - first, first == 1 ? SECOND : FIRST);
		ask(p, &one);
		greet(p, FIRST, MASTER, "EVALSHA ");
		assert_false(has_line(p, SECOND));
		end(p);
	}
}

static void a_switch_is_followed_while_the_old_master_answers(void **state)
{
	struct fake *p = begin_at_first();
	struct one one;

	(void)state;
	begin_round(p, SENTINELS_POLL_NS);
	name(p, 1, SECOND);
	name(p, 2, FIRST);
	ask_granted(p, FIRST); /* until most name another server */
	name(p, 3, SECOND);
	ask(p, &one);
	greet(p, SECOND, MASTER, "EVALSHA ");
	answer(p, SECOND, GRANTED);
	assert_granted(&one);
	tick(p, SENTINELS_POLL_NS);
	assert_false(has_line(p, FIRST));
	assert_int_equal(p->away + p->back, 0);
	end(p);
}

static void a_named_replica_loses_against_any_other(void **state)
{
	struct fake *p = begin_at_first();
	struct one one;

	(void)state;
	ask(p, &one);
	sent(p, FIRST);
	answer(p, FIRST, "-READONLY You can't write against a read only replica.\r\n");
	assert_failed(&one);
	assert_int_equal(p->away, 1);
	assert_non_null(strstr(p->why, "READONLY"));
	tick(p, SENTINELS_SOON_NS);
	for (unsigned i = 1; i <= 3; i++)
		sent(p, i);
	name(p, 1, FIRST);
	name(p, 2, FIRST);
	name(p, 3, SECOND);
	/* It is probed before anything is counted there. */
	ask(p, &one);
	assert_failed(&one);
	greet(p, SECOND, MASTER, "EVALSHA SET ");
	assert_int_equal(p->back, 0);
	answer(p, SECOND, "-NOSCRIPT No matching script.\r\n+OK\r\n");
	assert_int_equal(p->back, 1);
	ask_granted(p, SECOND);
	end(p);
}

static void a_replica_gets_nothing_but_the_greeting(void **state)
{
	struct fake *p = begin(URL, 3);
	struct one one;

	(void)state;
	for (unsigned i = 1; i <= 3; i++)
		name_first(p, i, FIRST);
	ask(p, &one);
	greet(p, FIRST, REPLICA, NULL);
	assert_failed(&one);
	assert_false(has_line(p, FIRST));
	assert_string_equal(p->why, "127.0.0.1:7000: expected a master, found a replica");
	end(p);
}

static void a_server_that_is_no_redis_gets_no_writes(void **state)
{
	static const struct {
		const char *reply, *why;
	} others[] = {
	    {"*2\r\n$4\r\nmode\r\n$8\r\nsentinel\r\n+PONG\r\n", "expected a master, found a Sentinel"},
	    {"+OK\r\n+PONG\r\n", "found another reply to HELLO"},
	    {"*3\r\n$4\r\nrole\r\n:1\r\n$4\r\nrole\r\n+PONG\r\n", "found another reply to HELLO"},
	    {"-ERR unknown command 'HELLO'\r\n+PONG\r\n", "Redis says ERR unknown command"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
		struct fake *p = begin(URL, 3);
		struct one one;

		for (unsigned n = 1; n <= 3; n++)
			name_first(p, n, FIRST);
		ask(p, &one);
		greet(p, FIRST, others[i].reply, NULL);
		assert_failed(&one);
		assert_non_null(strstr(p->why, others[i].why));
		end(p);
	}
}

static void a_master_that_is_lost_is_asked_for_again(void **state)
{
	struct fake *p = begin_at_first();
	struct line *line = line_to(p, FIRST);
	struct redis_attempt *lost = line->attempt;
	struct one one;

	(void)state;
	ask(p, &one);
	line->attempt = NULL;
	redis_attempt_lost(lost, "reset");
	assert_failed(&one);
	begin_round(p, SENTINELS_SOON_NS);
	for (unsigned i = 1; i <= 3; i++)
		name(p, i, SECOND);
	ask(p, &one);
	greet(p, SECOND, MASTER, "EVALSHA SET ");
	answer(p, SECOND, "-NOSCRIPT No matching script.\r\n+OK\r\n");
	ask_granted(p, SECOND);
	assert_int_equal(p->away, 1);
	assert_int_equal(p->back, 1);
	end(p);
}

static void without_a_master_requests_fail_and_the_reason_is_reported_once(void **state)
{
	struct fake *p = begin(URL, 3);
	struct one one;

	(void)state;
	ask(p, &one);
	for (unsigned i = 1; i <= 3; i++) {
		answer(p, i, NONE);
		answer(p, i, NO_LIST);
	}
	tick(p, 2 * TIMEOUT_NS);
	assert_failed(&one);
	assert_int_equal(p->away, 1);
	assert_string_equal(p->why, "no Sentinel names a master 'm'; h:3: this Sentinel knows no master 'm'");
	ask(p, &one); /* at once, from now on */
	assert_failed(&one);
	assert_int_equal(p->away, 1);
	end(p);
}

/* Otherwise it could name many others, and outvote the rest. */
static void sentinels_that_are_learnt_do_not_vote_beside_those_of_the_url(void **state)
{
	const struct redis_url url = {
	    .master_name = "m", .hosts = (struct redis_host[]){{"h", 1}, {"h", 2}}, .host_count = 2};
	const struct redis_host to[] = {{"127.0.0.1", FIRST}, {"127.0.0.1", SECOND}};
	struct redis_reply named[2][2], masters[2], list[40], fields[40][4];
	static char ports[40][8];
	struct cluster *cluster;
	unsigned nodes[SENTINELS_MAX], asker;
	size_t n;
	struct redis_host found;

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		named[i][0] = (struct redis_reply){.type = REDIS_TEXT, .text = slice_of(to[i].name)};
		named[i][1] =
		    (struct redis_reply){.type = REDIS_TEXT, .text = i == 0 ? SLICE("7000") : SLICE("7001")};
		masters[i] = (struct redis_reply){.type = REDIS_ARRAY, .items = named[i], .count = 2};
	}
	for (unsigned i = 0; i < 40; i++) {
		snprintf(ports[i], sizeof ports[i], "%u", 100 + i);
		fields[i][0] = (struct redis_reply){.type = REDIS_TEXT, .text = SLICE("ip")};
		fields[i][1] = (struct redis_reply){.type = REDIS_TEXT, .text = SLICE("h")};
		fields[i][2] = (struct redis_reply){.type = REDIS_TEXT, .text = SLICE("port")};
		fields[i][3] = (struct redis_reply){.type = REDIS_TEXT, .text = slice_of(ports[i])};
		list[i] = (struct redis_reply){.type = REDIS_ARRAY, .items = fields[i], .count = 4};
	}
	assert_int_equal(cluster_open(&cluster, &url), WEIR_OK);
	assert_true(sentinels_begin_round(cluster, &asker, NS_PER_S, nodes, &n));
	assert_int_equal(n, 2);
	sentinels_add_learnt(cluster,
	                     &(struct redis_reply){.type = REDIS_ARRAY, .items = list, .count = 40});
	sentinels_fail(cluster, 0, "hangs");
	sentinels_fail(cluster, 1, "hangs");
	/* Now that none of the URL answers, others are asked, but not all. */
	assert_true(sentinels_begin_round(cluster, &asker, 9 * NS_PER_S, nodes, &n));
	assert_int_equal(n, 2 + SENTINELS_LEARNT_MAX);
	for (size_t i = 2; i < n; i++)
		sentinels_answer(cluster, nodes[i], &masters[1]);
	sentinels_end_overdue_round(cluster, 10 * NS_PER_S);
	cluster_add_user(cluster, cluster_node_of(cluster, 0), &found);
	assert_int_equal(found.port, SECOND);
	cluster_remove_user(cluster, cluster_node_of(cluster, 0));
	sentinels_answer(cluster, 1, &masters[0]);
	cluster_add_user(cluster, cluster_node_of(cluster, 0), &found);
	assert_int_equal(found.port, FIRST);
	cluster_remove_user(cluster, cluster_node_of(cluster, 0));
	assert_true(sentinels_begin_round(cluster, &asker, 20 * NS_PER_S, nodes, &n));
	assert_int_equal(n, 2);
	cluster_close(cluster);
}

static void one_client_asks_for_all(void **state)
{
	struct fake *p = begin_at_first(), *q = calloc(1, sizeof *q);

	(void)state;
	q->transport.kind = &fake_kind;
	q->limit = p->limit;
	q->store = p->store;
	assert_int_equal(redis_client_open(q->store, &q->transport, &q->client), WEIR_OK);
	tick(q, SENTINELS_POLL_NS);
	assert_int_equal(q->count, 0);
	begin_round(p, SENTINELS_POLL_NS);
	tick(q, 2 * SENTINELS_POLL_NS);
	assert_int_equal(q->count, 0);
	/* The other may be gone: it is a call of the library, maybe. */
	tick(q, 4 * SENTINELS_POLL_NS);
	assert_int_equal(q->count, 3);
	redis_client_close(q->client);
	free(q);
	end(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(requests_wait_until_most_sentinels_have_named_the_master),
	    cmocka_unit_test(sentinels_that_do_not_answer_are_not_waited_for_long),
	    cmocka_unit_test(of_two_named_equally_often_the_first_sentinel_decides),
	    cmocka_unit_test(a_switch_is_followed_while_the_old_master_answers),
	    cmocka_unit_test(a_named_replica_loses_against_any_other),
	    cmocka_unit_test(a_replica_gets_nothing_but_the_greeting),
	    cmocka_unit_test(a_server_that_is_no_redis_gets_no_writes),
	    cmocka_unit_test(a_master_that_is_lost_is_asked_for_again),
	    cmocka_unit_test(without_a_master_requests_fail_and_the_reason_is_reported_once),
	    cmocka_unit_test(sentinels_that_are_learnt_do_not_vote_beside_those_of_the_url),
	    cmocka_unit_test(one_client_asks_for_all),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
