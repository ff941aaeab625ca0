/*
 * A group is sent as a whole or not at all: if calls are nearly full, if a client has as many
 * operations as it may, and if memory runs out. At fake nodes (fake_nodes.h).
 */
#include "../failing.h"
#include "fake_nodes.h"
#include "counters.h"

#include "redis/client_inside.h"

#define PORT       7000
#define TIMEOUT_NS (3600 * NS_PER_S) /* no test waits */
#define CHAIN      3

/* How many keys each call has that was sent since, such as "63 2 ". */
static const char *keys_sent(struct fake *p)
{
	static char counts[200];
	struct connection *connection = redis_attempt_connection(line_to(p, PORT)->attempt);
	struct slice out = connection_unsent_bytes(connection);
	const char *at = out.data, *end = out.data + out.len;

	counts[0] = '\0';
	while (at && (at = memmem(at, (size_t)(end - at), "EVALSHA\r\n$40\r\n", 14))) {
		at = memchr(at + 14 + 40 + 2, '\n', 8); /* behind the length of the number */
		snprintf(counts + strlen(counts), sizeof counts - strlen(counts), "%d ", atoi(at + 1));
	}
	connection_drop_sent_bytes(connection, out.len);
	return counts;
}

static void submit_group(struct fake *p, struct one *group, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		group[i].operation.is_all_or_nothing = true;
		group[i].operation.next = i + 1 < n ? &group[i + 1].operation : NULL;
	}
	p->store->kind->submit(p->client, &group[0].operation);
}

/* An operation on the key of that number; the names of limits distinguish operations on one key. */
static void make(struct fake *p, struct one *one, unsigned key, const char *limit)
{
	char name[16];

	snprintf(name, sizeof name, "%u", key);
	make_one(p, one, name, key);
	one->operation.step.key.hash = hash_bytes(&(struct hash_key){1, key}, limit, strlen(limit));
	one->operation.limit_name = limit;
}

static void groups_that_lie_between_others_are_not_cut_in_two(void **state)
{
	static char limits[CALL_COMMANDS_FULL - 1][8];
	static struct one ones[CALL_COMMANDS_FULL - 1], group[CHAIN];
	struct fake *p = fake_open("redis-cluster://h:7000", TIMEOUT_NS);

	(void)state;
	for (size_t i = 0; i < CALL_COMMANDS_FULL - 1; i++) {
		snprintf(limits[i], sizeof limits[i], "l%zu", i);
		make(p, &ones[i], 1, limits[i]);
		submit(p, &ones[i]);
	}
	make(p, &group[0], 1, "first");
	make(p, &group[1], 2, "between");
	make(p, &group[2], 1, "last");
	submit_group(p, group, CHAIN);
	redis_client_flush(p->client);
	assert_string_equal(sent(p, PORT), "PING ");
	answer(p, PORT, "+PONG\r\n");
	assert_string_equal(keys_sent(p), "49 "); /* the other goes when they are answered */
	end(p);
}

static void a_group_beyond_the_bound_fails_as_a_whole(void **state)
{
	struct fake *p = fake_open("redis://h:7000", TIMEOUT_NS);
	struct one *ones = calloc(CLIENT_OPERATIONS_MAX - 1, sizeof *ones), group[2];

	(void)state;
	for (size_t i = 0; i < CLIENT_OPERATIONS_MAX - 1; i++) {
		make(p, &ones[i], 1, "l");
		submit(p, &ones[i]);
	}
	make(p, &group[0], 2, "token");
	make(p, &group[1], 2, "refund");
	submit_group(p, group, 2);
	assert_failed(&group[0]);
	assert_failed(&group[1]);
	make(p, &group[0], 2, "alone");
	submit(p, &group[0]);
	assert_false(group[0].is_done);
	end(p);
	free(ones);
}

static bool is_connected(struct fake *p)
{
	find_names(p);
	return p->count > 0 && p->lines[p->count - 1].attempt;
}

/* Every allocation fails once, that of the connection too. */
static void a_group_without_memory_is_not_sent_in_part(void **state)
{
	bool had_enough = false;

	(void)state;
	for (unsigned nth = 1; !had_enough; nth++) {
		struct fake *p = fake_open("redis://h:7000", TIMEOUT_NS);
		struct one group[CHAIN];

		for (unsigned i = 0; i < CHAIN; i++)
			make(p, &group[i], 1, i == 0 ? "a" : i == 1 ? "b" : "c");
		failing = nth;
		submit_group(p, group, CHAIN);
		redis_client_flush(p->client);
		if (is_connected(p))
			answer(p, PORT, "+PONG\r\n");
		had_enough = failing > 0;
		failing = 0;
		for (unsigned i = 0; i < CHAIN; i++) {
			assert_int_equal(group[i].is_done, group[0].is_done);
			assert_true(!group[i].is_done || group[i].operation.status != WEIR_OK);
		}
		if (is_connected(p))
			assert_string_equal(keys_sent(p), group[0].is_done ? "" : "3 ");
		assert_true(group[0].is_done || is_connected(p));
		end(p);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(groups_that_lie_between_others_are_not_cut_in_two),
	    cmocka_unit_test(a_group_beyond_the_bound_fails_as_a_whole),
	    cmocka_unit_test(a_group_without_memory_is_not_sent_in_part),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
