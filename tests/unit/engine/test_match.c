/* The index finds what asking every rule finds, over random rules and requests. */
#include "engine/rules/rule_match.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/text/path.h"
#include "config.h"

static const char *const names[] = {"path", "ip", "user", "host", "method"};
static const char *const texts[] = {"/",      "/a",  "/a/b",     "/api", "/api/v1",
                                    "x",      "",    "10.1.2.3", "/API", "/api/",
                                    "/a;x/b", "/A/", "7",        "-7",   "99999999999999999999"};
static const char *const addresses[] = {"10.1.2.3", "10.200.0.1",  "192.168.1.7",
                                        "::1",      "2001:db8::5", "no address"};
static const char *const ranges[] = {
    "10.0.0.0/8", "10.1.0.0/16", "192.168.1.*",       "::/0",
    "10.1.2.3",   "0.0.0.0/0",   "10.1.2.1-10.1.2.4", "2001:db8::/32"};
#define PICK(array) ((array)[(unsigned)rand() % (sizeof(array) / sizeof *(array))])
#define RULES       200
#define LISTED      SLICE("7\n/api\n10.0.0.0/8\n")

static struct rules_value random_value(bool is_ip, const struct dictionary *dictionary)
{
	switch (rand() % 12) {
	case 0:
		return (struct rules_value){.test = RULES_ANY};
	case 1:
		return (struct rules_value){.test = RULES_NONE};
	case 2:
	case 3:
		return is_ip ? range(PICK(ranges)) : prefix(PICK(texts));
	case 4:
		return (struct rules_value){.test = RULES_IP_PATTERN,
		                            .pattern = {{10, 0, 0, 3}, {255, 0, 0, rand() % 2 ? 255 : 0}}};
	case 5:
		return (struct rules_value){
		    .test = RULES_NUMBERS,
		    .numbers = {rand() % 2 ? INT64_MIN : 7, rand() % 2 ? INT64_MAX : 7}};
	case 6:
		return (struct rules_value){.test = RULES_LISTED, .dictionary = dictionary};
	default:
		return is_ip ? range(PICK(ranges)) : equal(PICK(texts));
	}
}

static void random_rule(struct rules_rule *rule, const struct dictionary *dictionary,
                        struct arena *arena)
{
	struct rules_condition *conditions = arena_array(arena, 3, sizeof *conditions);

	rule->conditions = conditions;
	rule->condition_count = (size_t)rand() % 4;
	rule->path_variants = (enum rules_switch)(rand() % 3);
	for (size_t i = 0; i < rule->condition_count; i++) {
		size_t n = 1 + (size_t)rand() % 3;
		struct rules_value *values = arena_array(arena, n, sizeof *values);

		conditions[i].attribute = PICK(names);
		for (size_t j = 0; j < n; j++)
			values[j] = random_value(conditions[i].attribute == names[1], dictionary);
		conditions[i].values = values;
		conditions[i].value_count = n;
		conditions[i].negated = rand() % 4 == 0;
	}
}

static bool value_holds(const struct rules_value *value, struct slice text)
{
	struct ip ip;

	switch (value->test) {
	case RULES_EQUAL:
		return slice_equal(value->text, text);
	case RULES_PREFIX:
		return text.len >= value->text.len &&
		       memcmp(text.data, value->text.data, value->text.len) == 0;
	case RULES_IP_RANGE:
		return ip_parse(text, &ip) && ip_in_range(&ip, &value->range);
	case RULES_IP_PATTERN:
		return ip_parse(text, &ip) &&
		       memcmp(ip.bytes, "\0\0\0\0\0\0\0\0\0\0\xff\xff\x0a", 13) == 0 &&
		       (value->pattern.mask[3] == 0 || ip.bytes[15] == 3);
	case RULES_LISTED: /* see LISTED */
		return ip_parse(text, &ip)
		           ? memcmp(ip.bytes, "\0\0\0\0\0\0\0\0\0\0\xff\xff\x0a", 13) == 0
		           : slice_equal(text, SLICE("7")) || slice_equal(text, SLICE("/api"));
	case RULES_NUMBERS: /* of the texts there are three numbers: 7, -7 and one that is too large */
		return (slice_equal(text, SLICE("7")) && value->numbers.last >= 7) ||
		       (slice_equal(text, SLICE("-7")) && value->numbers.first <= -7) ||
		       (text.len == 20 && value->numbers.last == INT64_MAX);
	case RULES_ANY:
		return text.len > 0;
	case RULES_NONE:
		return text.len == 0;
	}
	return false;
}

/* The same of a path and all its variants: a slash behind what folded to none. */
static bool variant_holds(const struct rules_value *value, struct slice text, struct arena *arena)
{
	struct slice folded, want;
	bool directory = value->text.len > 1 && value->text.data[value->text.len - 1] == '/';
	char path[64], start[64];

	assert_int_equal(path_fold(arena, text, &folded), 0);
	if (value->test != RULES_EQUAL && value->test != RULES_PREFIX)
		return value_holds(value, folded);
	assert_int_equal(path_fold(arena, value->text, &want), 0);
	if (value->test == RULES_EQUAL)
		return slice_equal(folded, want);
	snprintf(path, sizeof path, "%.*s%s", (int)folded.len, folded.data, folded.len > 1 ? "/" : "");
	snprintf(start, sizeof start, "%.*s%s", (int)want.len, want.data, directory ? "/" : "");
	return strncmp(path, start, strlen(start)) == 0;
}

/* The meaning of a rule, computed the long way. */
static bool applies(const struct rules_rule *rule, bool variants, struct arena *arena,
                    const struct weir_attribute *attributes, size_t n)
{
	for (size_t i = 0; i < rule->condition_count; i++) {
		const struct rules_condition *condition = &rule->conditions[i];
		const struct weir_attribute *found = NULL;
		bool holds = false;

		for (size_t a = 0; a < n; a++)
			if (strcmp(attributes[a].name, condition->attribute) == 0)
				found = &attributes[a];
		for (size_t j = 0; j < condition->value_count; j++) {
			const struct rules_value *value = &condition->values[j];
			struct slice text = {found ? found->value : NULL, found ? found->value_len : 0};
			bool folded = variants && strcmp(condition->attribute, "path") == 0;

			if (!found)
				holds |= value->test == RULES_NONE;
			else
				holds |= folded ? variant_holds(value, text, arena) : value_holds(value, text);
		}
		if (condition->negated ? holds || !found || found->value_len == 0 : !holds)
			return false;
	}
	return true;
}

static void test_the_index_finds_what_asking_each_rule_finds(void **context)
{
	const char *seed_text = getenv("WEIR_TEST_SEED");
	unsigned seed = seed_text ? (unsigned)strtoul(seed_text, NULL, 10) : 20261121, applied = 0;
	struct dictionary *dictionary;

	(void)context;
	assert_int_equal(dictionary_read(LISTED, NULL, &dictionary, NULL), 0);
	printf("WEIR_TEST_SEED=%u\n", seed);
	srand(seed);
	for (int round = 0; round < 20; round++) {
		struct arena arena = {0}, turn = {0};
		struct rules_rule rules[RULES] = {0};
		struct weir_config config = {
		    .rules = rules, .rule_count = RULES, .path_variants = (enum rules_switch)(round % 3)};
		struct hash_key key = {seed, (uint64_t)round};
		struct match *match;

		for (int i = 0; i < RULES; i++)
			random_rule(&rules[i], dictionary, &arena);
		match = match_new(&config, &key, &arena);
		assert_non_null(match);
		for (int request = 0; request < 200; request++) {
			struct weir_attribute attributes[5];
			size_t n = 0;
			struct match_found found;
			size_t next = 0;

			for (size_t i = 0; i < 5; i++) {
				const char *value = i == 1 ? PICK(addresses) : PICK(texts);

				if (rand() % 4)
					attributes[n++] = (struct weir_attribute){names[i], value, strlen(value)};
			}
			assert_true(match_rules(match, match_values(match, attributes, n, &turn), &turn, &found));
			for (size_t i = 0; i < RULES; i++) {
				enum rules_switch said =
				    rules[i].path_variants ? rules[i].path_variants : config.path_variants;
				bool expected = applies(&rules[i], said == RULES_YES, &turn, attributes, n);

				applied += expected;
				assert_int_equal(next < found.count && found.rules[next] == i, expected);
				next += expected;
			}
			assert_int_equal(next, found.count);
			arena_reset(&turn);
		}
		arena_free(&turn);
		arena_free(&arena);
	}
	dictionary_close(dictionary);
	assert_true(applied > 10000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_the_index_finds_what_asking_each_rule_finds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
