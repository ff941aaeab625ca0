/* Tests the sample of denials: its bounds, its filters, and its JSON. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/number.h"
#include "server/denials/denial_sample.h"

#define NOW     (UINT64_C(1800000000) * NS_PER_S)
#define THREADS 4

static struct denial denial_of(const char *key, const char *limit, uint64_t time_ns)
{
	return (struct denial){.time_ns = time_ns,
	                       .rule = "rule",
	                       .limit = limit,
	                       .key = slice_of(key),
	                       .reason = WEIR_REASON_OVER_LIMIT,
	                       .retry_after_ns = 1500001};
}

static void add(struct denial_sample *sample, struct denial denial)
{
	char id[DENIAL_ID_TEXT];

	assert_true(denial_sample_add(sample, &denial, id, NULL));
	assert_int_equal(strlen(id), DENIAL_ID_TEXT - 1);
}

/* The keys of the denials that are listed, in their order. */
static const char *keys_listed(struct denial_sample *sample, struct denial_filter filter)
{
	static char keys[400];
	struct buffer out = {0};
	const char *at;

	filter.count_max = filter.count_max ? filter.count_max : 100;
	denial_sample_list(sample, &filter, &out);
	buffer_add(&out, "", 1);
	assert_false(out.failed);
	*keys = '\0';
	for (at = out.data; (at = strstr(at, "\"key\":\"")); at++)
		snprintf(keys + strlen(keys), sizeof keys - strlen(keys), "%.*s ",
		         (int)strcspn(at + 7, "\""), at + 7);
	buffer_free(&out);
	return keys;
}

static void the_last_are_kept_and_listed_newest_first(void **state)
{
	static const char *const keys[] = {"a", "b", "c", "d", "e"};
	struct denial_sample *sample = denial_sample_open(3);
	uint64_t oldest_ns = 1;

	(void)state;
	assert_int_equal(denial_sample_count(sample, &oldest_ns), 0);
	assert_int_equal(oldest_ns, 0);
	assert_string_equal(keys_listed(sample, (struct denial_filter){0}), "");
	for (size_t i = 0; i < 5; i++) {
		add(sample, denial_of(keys[i], "limit", NOW + i * NS_PER_S));
		assert_int_equal(denial_sample_count(sample, &oldest_ns), u64_min(i + 1, 3));
		assert_int_equal(oldest_ns, NOW + sat_sub(i, 2) * NS_PER_S);
	}
	assert_string_equal(keys_listed(sample, (struct denial_filter){0}), "e d c ");
	assert_string_equal(keys_listed(sample, (struct denial_filter){.count_max = 2}), "e d ");
	assert_string_equal(keys_listed(sample, (struct denial_filter){.since_ns = NOW + 3 * NS_PER_S}),
	                    "e d ");
	denial_sample_close(sample);
}

static void a_filter_admits_whole_names(void **state)
{
	struct denial_sample *sample = denial_sample_open(10);
	struct denial direct = denial_of("ab", "one", NOW);

	(void)state;
	direct.rule = NULL;
	add(sample, denial_of("a", "bone", NOW));
	add(sample, denial_of("ab", "one", NOW));
	add(sample, direct);
	add(sample, denial_of("aaaaaaaaaaaaaaaa", "one", NOW));
	assert_string_equal(keys_listed(sample, (struct denial_filter){.key = SLICE("a")}), "a ");
	assert_string_equal(keys_listed(sample, (struct denial_filter){.key = SLICE("ab")}), "ab ab ");
	assert_string_equal(
	    keys_listed(sample, (struct denial_filter){.key = SLICE("x"),
	                                               .key_digests =
	                                                   SLICE("bbbbbbbbbbbbbbbbaaaaaaaaaaaaaaaa")}),
	    "aaaaaaaaaaaaaaaa ");
	assert_string_equal(keys_listed(sample, (struct denial_filter){.limit = SLICE("bone")}), "a ");
	assert_string_equal(keys_listed(sample, (struct denial_filter){.rule = SLICE("rule")}),
	                    "aaaaaaaaaaaaaaaa ab a ");
	denial_sample_close(sample);
}

static void a_filter_admits_the_denial_of_an_id(void **state)
{
	struct denial_sample *sample = denial_sample_open(3);
	struct denial denial = denial_of("a", "one", NOW);

	(void)state;
	denial_sample_restore(sample, &denial, "9fa7418724dded0b");
	add(sample, denial_of("b", "one", NOW));
	assert_string_equal(
	    keys_listed(sample, (struct denial_filter){.id = SLICE("9FA7418724dded0b")}), "a ");
	assert_string_equal(
	    keys_listed(sample, (struct denial_filter){.id = SLICE("9fa7418724dded0c")}), "");
	assert_string_equal(keys_listed(sample, (struct denial_filter){.id = SLICE("9fa7418724dded0")}),
	                    "");
	denial_sample_close(sample);
}

static void a_filter_admits_whole_digests_of_values(void **state)
{
	struct denial_sample *sample = denial_sample_open(10);
	struct denial denial = denial_of("3:ask3:ann", "one", NOW);

	(void)state;
	denial.values = SLICE("00000000000000aa11111111111111bb");
	add(sample, denial);
	add(sample, denial_of("bob", "one", NOW));
	assert_string_equal(
	    keys_listed(sample, (struct denial_filter){.key = SLICE("11111111111111bb")}),
	    "3:ask3:ann ");
	assert_string_equal(
	    keys_listed(sample, (struct denial_filter){.key = SLICE("ask"),
	                                               .key_digests = SLICE("00000000000000aa")}),
	    "3:ask3:ann ");
	assert_string_equal(
	    keys_listed(sample, (struct denial_filter){.key = SLICE("aa11111111111111")}), "");
	assert_string_equal(keys_listed(sample, (struct denial_filter){.limit = SLICE("one")}),
	                    "bob 3:ask3:ann ");
	denial_sample_close(sample);
}

static void a_filter_admits_whole_values_of_attributes(void **state)
{
	struct denial_sample *sample = denial_sample_open(10);
	struct denial denial = denial_of("", "one", NOW);

	(void)state;
	denial.attributes =
	    SLICE("{\"path\":\"/a\\\"b\\\":\",\"ip\":\"192.0.2.7\",\"header.x\":\"00000000000000aa\"}");
	denial.key = SLICE("found");
	add(sample, denial);
	add(sample, denial_of("bob", "one", NOW));
	for (size_t i = 0; i < 4; i++) {
		static const char *const keys[] = {"192.0.2.7", "/a\"b\":", "not it", "00000000000000aa"};
		static const char *const escaped[] = {"192.0.2.7", "/a\\\"b\\\":", "not it",
		                                      "00000000000000aa"};
		struct denial_filter filter = {.key = slice_of(keys[i]),
		                               .escaped_key = slice_of(escaped[i])};

		assert_string_equal(keys_listed(sample, filter), i == 2 ? "" : "found ");
	}
	for (size_t i = 0; i < 5; i++) { /* parts of values, a name, and what stands between them */
		static const char *const others[] = {"192.0.2", "ip", "path", ",", "/a\\"};

		assert_string_equal(
		    keys_listed(sample, (struct denial_filter){.key = slice_of(others[i]),
		                                               .escaped_key = slice_of(others[i])}),
		    "");
	}
	assert_string_equal(
	    keys_listed(sample, (struct denial_filter){.key = SLICE("token"),
	                                               .escaped_key = SLICE("token"),
	                                               .key_digests = SLICE("00000000000000aa")}),
	    "found ");
	denial_sample_close(sample);
}

static void a_denial_is_one_json_object_whatever_its_names_are(void **state)
{
	struct denial_sample *sample = denial_sample_open(1);
	struct denial denial = denial_of("\"</a>\xff", "l\\", NOW);
	static char attributes[DENIAL_TEXT_MAX];
	struct buffer out = {0};
	const char *end;

	(void)state;
	denial.attributes = SLICE("{\"ip\":\"::1\"}");
	add(sample, denial);
	denial_sample_list(sample, &(struct denial_filter){.count_max = 1}, &out);
	buffer_add(&out, "", 1);
	assert_non_null(strstr(out.data, "\"time\":\"2027-01-15T08:00:00Z\",\"rule\":\"rule\","
	                                 "\"limit\":\"l\\\\\",\"key\":\"\\\"</a>\xef\xbf\xbd\","
	                                 "\"reason\":\"over_limit\",\"retry_after_ms\":2,"
	                                 "\"shadow\":false,\"attributes\":{\"ip\":\"::1\"}}]"));
	out.len = 0;
	memset(attributes, ' ', sizeof attributes);
	denial.attributes = (struct slice){attributes, sizeof attributes};
	add(sample, denial);
	denial_sample_list(sample, &(struct denial_filter){.count_max = 1}, &out);
	buffer_add(&out, "", 1);
	end = strstr(out.data, "\"attributes\":{}}]");
	assert_non_null(end);
	assert_in_range(out.len, 1, DENIAL_TEXT_MAX);
	buffer_free(&out);
	denial_sample_close(sample);
}

static void a_share_admits_so_many_in_each_second(void **state)
{
	struct denial_share share = {0};
	unsigned admitted = 0;

	(void)state;
	for (unsigned i = 0; i < 100; i++)
		admitted += denial_share_admits(&share, NOW + i * NS_PER_S / 100, 7);
	assert_int_equal(admitted, 7);
	assert_true(denial_share_admits(&share, NOW + NS_PER_S, 7));
	assert_true(denial_share_admits(&share, NOW, 7)); /* the clock was set back */
	assert_false(denial_share_admits(&share, NOW + 9 * NS_PER_S, 0));
}

struct load {
	struct denial_sample *sample;
	struct denial_share share;
	_Atomic unsigned admitted;
};

static void *deny_many(void *context)
{
	struct load *load = context;

	for (unsigned i = 0; i < 2000; i++) {
		if (!denial_share_admits(&load->share, NOW + i % 2 * NS_PER_S / 2, 500))
			continue;
		add(load->sample, denial_of("key", "limit", NOW));
		atomic_fetch_add(&load->admitted, 1);
	}
	return NULL;
}

static void threads_share_a_second_exactly(void **state)
{
	struct load load = {.sample = denial_sample_open(100)};
	pthread_t threads[THREADS];
	uint64_t oldest_ns;

	(void)state;
	for (unsigned i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, deny_many, &load), 0);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(load.admitted, 500);
	assert_int_equal(denial_sample_count(load.sample, &oldest_ns), 100);
	denial_sample_close(load.sample);
}

static void *add_numbered(void *context)
{
	struct load *load = context;

	for (unsigned i = 1; i <= 20000; i++) {
		char key[16];

		snprintf(key, sizeof key, "%08u", i);
		add(load->sample, denial_of(key, "limit", NOW));
		atomic_store(&load->admitted, i);
	}
	return NULL;
}

/* A list takes the lock several times, so denials may be replaced under it. */
static void a_list_beside_a_thread_that_adds_is_in_order_and_without_gaps(void **state)
{
	struct load load = {.sample = denial_sample_open(1000)};
	pthread_t thread;
	unsigned before;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, add_numbered, &load), 0);
	do {
		struct denial_filter filter = {.count_max = 2000};
		struct buffer out = {0};
		unsigned last = 0, listed = 0, added;
		const char *at;

		before = atomic_load(&load.admitted);
		denial_sample_list(load.sample, &filter, &out);
		added = atomic_load(&load.admitted) + 1 - before; /* at most so many */
		buffer_add(&out, "", 1);
		assert_false(out.failed);
		for (at = out.data; (at = strstr(at, "\"key\":\"")); at += 7, listed++) {
			unsigned number = (unsigned)strtoul(at + 7, NULL, 10);

			assert_true(last == 0 ? number >= before : number == last - 1);
			last = number;
		}
		/* While this thread waits for a processor, all denials that it would list may be replaced. */
		assert_in_range(listed, before > 0 && added < 1000, 1000);
		buffer_free(&out);
	} while (before < 20000);
	pthread_join(thread, NULL);
	denial_sample_close(load.sample);
}

static void a_sample_of_none_lists_none(void **state)
{
	(void)state;
	assert_null(denial_sample_open(0));
	assert_string_equal(keys_listed(NULL, (struct denial_filter){0}), "");
	denial_sample_close(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_last_are_kept_and_listed_newest_first),
	    cmocka_unit_test(a_filter_admits_whole_names),
	    cmocka_unit_test(a_filter_admits_whole_digests_of_values),
	    cmocka_unit_test(a_filter_admits_the_denial_of_an_id),
	    cmocka_unit_test(a_filter_admits_whole_values_of_attributes),
	    cmocka_unit_test(a_denial_is_one_json_object_whatever_its_names_are),
	    cmocka_unit_test(a_share_admits_so_many_in_each_second),
	    cmocka_unit_test(threads_share_a_second_exactly),
	    cmocka_unit_test(a_list_beside_a_thread_that_adds_is_in_order_and_without_gaps),
	    cmocka_unit_test(a_sample_of_none_lists_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
