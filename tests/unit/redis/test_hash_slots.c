#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "redis/nodes/hash_slots.h"

#define INTEGER(value)                                                                             \
	{                                                                                              \
		.type = REDIS_INTEGER, .integer = (value)                                                  \
	}
#define TEXT(value)                                                                                \
	{                                                                                              \
		.type = REDIS_TEXT, .text = {(value), sizeof(value) - 1 }                                  \
	}
#define ARRAY(list)                                                                                \
	{                                                                                              \
		.type = REDIS_ARRAY, .items = (list), .count = sizeof(list) / sizeof(list[0])              \
	}

static const struct redis_host asked = {"seed.example", 7000};

/* The results of CLUSTER KEYSLOT of redis-server. */
static void a_key_has_the_slot_that_redis_gives_it(void **state)
{
	static const struct {
		const char *name;
		unsigned slot;
	} cases[] = {
	    {"foo", 12182},
	    {"{user1000}.following", 3443},
	    {"foo{}{bar}", 8363},
	    {"foo{{bar}}zap", 4015},
	    {"foo{bar}{zap}", 5061},
	    {"a{b", 13340},
	    {"{}", 15257},
	    {"x}{y", 9970},
	    {"", 0},
	    {"123456789", 12739},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_int_equal(hash_slot_of(slice_of(cases[i].name)), cases[i].slot);
	assert_int_equal(hash_slot_of(SLICE("weir:{10.0.0.1}:login")),
	                 hash_slot_of(SLICE("weir:{10.0.0.1}:x")));
}

static void ranges_are_read_from_cluster_slots(void **state)
{
	const struct redis_reply named[] = {TEXT("10.0.0.7"), INTEGER(7001), TEXT("id")};
	const struct redis_reply replica[] = {TEXT("10.0.0.8"), INTEGER(7002), TEXT("id2")};
	const struct redis_reply nameless[] = {{.type = REDIS_NIL}, INTEGER(7003)};
	const struct redis_reply one[] = {INTEGER(0), INTEGER(5460), ARRAY(named), ARRAY(replica)};
	const struct redis_reply two[] = {INTEGER(16383), INTEGER(16383), ARRAY(nameless)};
	const struct redis_reply entries[] = {ARRAY(one), ARRAY(two)};
	const struct redis_reply reply = ARRAY(entries);
	struct hash_slots_range range;

	(void)state;
	assert_true(hash_slots_read_range(&reply, 0, &asked, &range));
	assert_int_equal(range.first, 0);
	assert_int_equal(range.last, 5460);
	assert_string_equal(range.host.name, "10.0.0.7");
	assert_int_equal(range.host.port, 7001);
	assert_true(hash_slots_read_range(&reply, 1, &asked, &range));
	assert_int_equal(range.first, 16383);
	assert_string_equal(range.host.name, "seed.example");
	assert_int_equal(range.host.port, 7003);
	assert_false(hash_slots_read_range(&reply, 2, &asked, &range));
}

static void assert_no_range(struct redis_reply entry)
{
	const struct redis_reply reply = {.type = REDIS_ARRAY, .items = &entry, .count = 1};
	struct hash_slots_range range;

	assert_false(hash_slots_read_range(&reply, 0, &asked, &range));
}

static void invalid_entries_are_no_ranges(void **state)
{
	static char long_name[REDIS_HOST_MAX + 2]; /* one byte too long, and the NUL */

	memset(long_name, 'a', sizeof(long_name) - 1);
	const struct redis_reply good[] = {TEXT("10.0.0.7"), INTEGER(7001)};
	const struct redis_reply unknown[] = {TEXT("?"), INTEGER(7001)};
	const struct redis_reply blank[] = {TEXT("10.0.0.7\r\n"), INTEGER(7001)};
	const struct redis_reply too_long[] = {TEXT(long_name), INTEGER(7001)};
	const struct redis_reply no_port[] = {TEXT("10.0.0.7"), INTEGER(0)};
	const struct redis_reply high_port[] = {TEXT("10.0.0.7"), INTEGER(65536)};
	const struct redis_reply low_port[] = {TEXT("10.0.0.7"), INTEGER(-1)};
	const struct redis_reply number[] = {INTEGER(7001), INTEGER(7001)};
	const struct redis_reply *masters[] = {unknown,   blank,    too_long, no_port,
	                                       high_port, low_port, number};

	(void)state;
	for (size_t i = 0; i < sizeof(masters) / sizeof(masters[0]); i++) {
		const struct redis_reply master = {.type = REDIS_ARRAY, .items = masters[i], .count = 2};
		const struct redis_reply entry[] = {INTEGER(0), INTEGER(1), master};

		assert_no_range((struct redis_reply)ARRAY(entry));
	}
	const struct redis_reply half[] = {INTEGER(0), INTEGER(1)};
	const struct redis_reply reversed[] = {INTEGER(5), INTEGER(4), ARRAY(good)};
	const struct redis_reply beyond[] = {INTEGER(0), INTEGER(16384), ARRAY(good)};
	const struct redis_reply below[] = {INTEGER(-1), INTEGER(4), ARRAY(good)};
	const struct redis_reply words[] = {TEXT("0"), TEXT("1"), ARRAY(good)};
	const struct redis_reply flat[] = {INTEGER(0), INTEGER(1), TEXT("10.0.0.7")};
	const struct redis_reply lone[] = {
	    INTEGER(0), INTEGER(1), {.type = REDIS_ARRAY, .items = good, .count = 1}};

	assert_no_range((struct redis_reply)ARRAY(half));
	assert_no_range((struct redis_reply)ARRAY(reversed));
	assert_no_range((struct redis_reply)ARRAY(beyond));
	assert_no_range((struct redis_reply)ARRAY(below));
	assert_no_range((struct redis_reply)ARRAY(words));
	assert_no_range((struct redis_reply)ARRAY(flat));
	assert_no_range((struct redis_reply)ARRAY(lone));
	assert_no_range((struct redis_reply)INTEGER(3));
	const struct redis_reply error = {.type = REDIS_ERROR, .text = SLICE("ERR no cluster")};
	struct hash_slots_range range;

	assert_false(hash_slots_read_range(&error, 0, &asked, &range));
}

static void errors_redirect(void **state)
{
	struct redis_host to;
	unsigned slot = 0;

	(void)state;
	assert_int_equal(
	    hash_slots_read_redirect(SLICE("MOVED 3999 127.0.0.1:6381"), &asked, &slot, &to),
	    HASH_SLOTS_MOVED);
	assert_int_equal(slot, 3999);
	assert_string_equal(to.name, "127.0.0.1");
	assert_int_equal(to.port, 6381);
	assert_int_equal(
	    hash_slots_read_redirect(SLICE("ASK 16383 2001:db8::1:6381"), &asked, &slot, &to),
	    HASH_SLOTS_ASK);
	assert_int_equal(slot, 16383);
	assert_string_equal(to.name, "2001:db8::1");
	assert_int_equal(hash_slots_read_redirect(SLICE("MOVED 0 :6382"), &asked, &slot, &to),
	                 HASH_SLOTS_MOVED);
	assert_string_equal(to.name, "seed.example");
	assert_int_equal(to.port, 6382);
}

static void other_errors_redirect_nothing(void **state)
{
	static const char *const texts[] = {
	    "",
	    "MOVED",
	    "MOVED ",
	    "MOVED x a:1",
	    "MOVED 16384 a:1",
	    "MOVED -1 a:1",
	    "MOVED 1",
	    "MOVED 1 ",
	    "MOVED 1 a",
	    "MOVED 1 a:",
	    "MOVED 1 a:0",
	    "MOVED 1 a:65536",
	    "MOVED 1 a b:1",
	    "MOVED 1 ?:1",
	    "ASKED 1 a:1",
	    "ERR MOVED 1 a:1",
	    "TRYAGAIN Multiple keys request during rehashing of slot",
	};
	struct redis_host to;
	unsigned slot;

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		assert_int_equal(hash_slots_read_redirect(slice_of(texts[i]), &asked, &slot, &to),
		                 HASH_SLOTS_STAY);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_key_has_the_slot_that_redis_gives_it),
	    cmocka_unit_test(ranges_are_read_from_cluster_slots),
	    cmocka_unit_test(invalid_entries_are_no_ranges),
	    cmocka_unit_test(errors_redirect),
	    cmocka_unit_test(other_errors_redirect_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
