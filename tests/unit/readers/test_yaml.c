/* The configurations that good files become. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buffer.h"
#include "rules/model.h"
#include "rules/rate.h"

static weir_config *read_text(const char *yaml)
{
	struct weir_error error;
	weir_config *config;

	if (weir_config_read_yaml(yaml, strlen(yaml), NULL, &config, &error) != 0)
		fail_msg("%u:%u: %s\n%s", error.line, error.column, error.message, yaml);
	return config;
}

static weir_config *read_file(const char *path)
{
	struct weir_error error;
	weir_config *config;

	if (weir_config_read_file(path, &config, &error) != 0)
		fail_msg("%s:%u:%u: %s", path, error.line, error.column, error.message);
	return config;
}

static void empty_files_are_the_defaults(void **state)
{
	static const char *const empty[] = {"",           "\n", "# only a comment\n", "---\n",
	                                    "---\n...\n", "{}", "\xef\xbb\xbf"};

	(void)state;
	for (size_t i = 0; i < sizeof empty / sizeof *empty; i++) {
		weir_config *config = read_text(empty[i]);

		assert_null(config->listen_http.address.text);
		assert_null(config->listen_resp.address.text);
		assert_null(config->store.text);
		assert_int_equal(config->capacity, 0);
		assert_int_equal(config->nodes, 1);
		assert_string_equal(config->prefix, "weir:");
		assert_false(config->has_nodes);
		assert_int_equal(config->store_timeout_ns, 20 * NS_PER_MS);
		assert_int_equal(config->denied_cache_ns, NS_PER_S);
		assert_int_equal(config->store_poll_ns, 50 * NS_PER_MS);
		assert_int_equal(config->trusted_proxy_count, 0);
		assert_int_equal(config->connections, 10000);
		assert_int_equal(config->idle_http_ns, 300000000000);
		assert_int_equal(config->idle_resp_ns, 0);
		assert_int_equal(config->limit_count, 0);
		assert_int_equal(config->rule_count, 0);
		weir_config_close(config);
	}
	weir_config_close(NULL);
}

static void limits_name_their_stores(void **state)
{
	weir_config *config =
	    read_text("store: file:/state\nlimits:\n"
	              "  a: { algorithm: token_bucket, rate: 5/s, store: memory }\n"
	              "  b: { algorithm: leaky_bucket, rate: 5/s, store: redis://u:p@h, chunk: 100% }\n"
	              "  c: { algorithm: concurrency, max: 5, store: redis-cluster://h }\n"
	              "  d: { algorithm: fixed_window, rate: 5/s, chunk: 1% }\n");
	const struct rules_limit *limits = config->limits;

	(void)state;
	assert_string_equal(config->store.text, "file:/state");
	assert_null(rules_store(&limits[0], "redis://other"));
	assert_int_equal(limits[0].chunk_percent, 0);
	assert_string_equal(rules_store(&limits[1], NULL), "redis://u:p@h");
	assert_int_equal(limits[1].store.line, 4);
	assert_int_equal(limits[1].store.column, 51);
	assert_int_equal(limits[1].chunk_percent, 100);
	assert_string_equal(rules_store(&limits[2], "redis://other"), "redis-cluster://h");
	assert_null(limits[3].store.text);
	assert_null(rules_store(&limits[3], NULL));
	assert_string_equal(rules_store(&limits[3], "redis://other"), "redis://other");
	assert_int_equal(limits[3].chunk_percent, 1);
	weir_config_close(config);
}

static void a_unix_socket_is_read_as_text_or_with_its_mode(void **state)
{
	weir_config *config =
	    read_text("listen:\n  http: unix:/run/h\n"
	              "  resp: { mode: 0640, path: /run/r, owner: weir, group: www-data }\n");

	(void)state;
	assert_string_equal(config->listen_http.address.text, "unix:/run/h");
	assert_int_equal(config->listen_http.mode, 0);
	assert_null(config->listen_http.owner);
	assert_string_equal(config->listen_resp.address.text, "unix:/run/r");
	assert_int_equal(config->listen_resp.address.line, 3);
	assert_int_equal(config->listen_resp.address.column, 29);
	assert_int_equal(config->listen_resp.mode, 0640);
	assert_string_equal(config->listen_resp.owner, "weir");
	assert_string_equal(config->listen_resp.group, "www-data");
	weir_config_close(config);
}

static void the_top_level_is_read(void **state)
{
	weir_config *config =
	    read_text("\xef\xbb\xbflisten: { http: 127.0.0.1:0, resp: \"[::1]:6380\" }\n"
	              "store: redis://h:6379/0\ncapacity: 5\nsync: 250ms\nnodes: 3\nprefix: \"\"\n"
	              "store_timeout: 5ms\ndenied_cache: 0s\nstore_poll: 1m\n"
	              "ipv6_prefix: 48\npath_variants: yes\nretry_jitter: 0.25\n"
	              "trusted_proxies: [127.0.0.0/8, \"::1\"]\n");
	struct ip ip;

	(void)state;
	assert_string_equal(config->listen_http.address.text, "127.0.0.1:0");
	assert_string_equal(config->listen_resp.address.text, "[::1]:6380");
	assert_string_equal(config->store.text, "redis://h:6379/0");
	assert_int_equal(config->capacity, 5);
	assert_int_equal(config->sync_ns, 250 * 1000000);
	assert_int_equal(config->nodes, 3);
	assert_int_equal(config->ipv6_prefix, 48);
	assert_int_equal(config->path_variants, RULES_YES);
	assert_true(config->retry_jitter == 0.25);
	assert_string_equal(config->prefix, "");
	assert_int_equal(config->store.line, 2);
	assert_int_equal(config->store.column, 8);
	assert_true(config->has_nodes);
	assert_int_equal(config->store_timeout_ns, 5 * NS_PER_MS);
	assert_int_equal(config->denied_cache_ns, 0);
	assert_int_equal(config->store_poll_ns, 60 * NS_PER_S);
	assert_int_equal(config->trusted_proxy_count, 2);
	assert_true(ip_parse(SLICE("127.9.9.9"), &ip));
	assert_true(ip_in_range(&ip, &config->trusted_proxies[0]));
	assert_false(ip_in_range(&ip, &config->trusted_proxies[1]));
	weir_config_close(config);
}

static void how_many_connections_and_for_how_long_is_read(void **state)
{
	weir_config *config = read_text("connections: 50\nidle: { resp: 10m, http: 0s }\n");

	(void)state;
	assert_int_equal(config->connections, 50);
	assert_int_equal(config->idle_http_ns, 0);
	assert_int_equal(config->idle_resp_ns, 600000000000);
	weir_config_close(config);
}

static void the_door_is_read(void **state)
{
	weir_config *config = read_text("hosts: [limits.example.com, weir]\nprotected: [10.0.0.0/8]\n");
	struct ip ip;

	(void)state;
	assert_int_equal(config->host_count, 2);
	assert_string_equal(config->hosts[0], "limits.example.com");
	assert_string_equal(config->hosts[1], "weir");
	assert_false(config->unprotected);
	assert_int_equal(config->protected_count, 1);
	assert_true(ip_parse(SLICE("10.9.9.9"), &ip));
	assert_true(ip_in_range(&ip, &config->protected[0]));
	weir_config_close(config);
	config = read_text("protected: no\n");
	assert_true(config->unprotected);
	weir_config_close(config);
	config = read_text("protected: yes\n");
	assert_false(config->unprotected);
	assert_int_equal(config->protected_count, 0);
	weir_config_close(config);
}

static void limits_are_read_in_their_order(void **state)
{
	weir_config *config = read_text(
	    "limits:\n"
	    "  z: { rate: 10/100ms, burst: 20, algorithm: token_bucket, on_store_failure: closed }\n"
	    "  leaky: { algorithm: leaky_bucket, rate: 5/m, capacity: 7 }\n"
	    "  \"a b\": { algorithm: fixed_window, rate: 5/w, week_start: sunday, timezone: UTC }\n"
	    "  first: { algorithm: fixed_window, rate: 5/2h, align: first_request }\n"
	    "  month: { algorithm: fixed_window, rate: 5/3month, align: calendar }\n"
	    "  reset: { algorithm: resetting_bucket, rate: \"5/d\", on_store_failure: open }\n"
	    "  slide: { algorithm: sliding_window, rate: 5/s, slots: 60 }\n"
	    "  log: { algorithm: sliding_log, rate: 10000/s }\n");
	const struct rules_limit *limits = config->limits;

	(void)state;
	assert_int_equal(config->limit_count, 8);
	assert_string_equal(limits[0].options.name, "z");
	assert_int_equal(limits[0].options.algorithm, WEIR_ALGORITHM_TOKEN_BUCKET);
	assert_int_equal(limits[0].options.rate.count, 10);
	assert_int_equal(limits[0].options.rate.period, 100);
	assert_int_equal(limits[0].options.rate.unit, WEIR_UNIT_MILLISECOND);
	assert_int_equal(limits[0].options.burst, 20);
	assert_int_equal(limits[0].on_store_failure, RULES_CLOSED);
	assert_int_equal(limits[1].options.algorithm, WEIR_ALGORITHM_LEAKY_BUCKET);
	assert_int_equal(limits[1].options.burst, 7);
	assert_int_equal(limits[1].on_store_failure, RULES_LOCAL);
	assert_int_equal(limits[1].line, 3);
	assert_int_equal(limits[1].column, 3);
	assert_string_equal(limits[2].options.name, "a b");
	assert_int_equal(limits[2].options.week_start, WEIR_WEEKDAY_SUNDAY);
	assert_string_equal(limits[2].options.timezone, "UTC");
	assert_int_equal(limits[2].options.align, WEIR_ALIGN_CALENDAR);
	assert_int_equal(limits[3].options.align, WEIR_ALIGN_FIRST_REQUEST);
	assert_null(limits[3].options.timezone);
	assert_int_equal(limits[3].options.rate.unit, WEIR_UNIT_HOUR);
	assert_int_equal(limits[4].options.rate.unit, WEIR_UNIT_MONTH);
	assert_int_equal(limits[4].options.rate.period, 3);
	assert_int_equal(limits[5].options.algorithm, WEIR_ALGORITHM_RESETTING_BUCKET);
	assert_int_equal(limits[5].options.burst, 0);
	assert_int_equal(limits[5].on_store_failure, RULES_OPEN);
	assert_int_equal(limits[6].options.algorithm, WEIR_ALGORITHM_SLIDING_WINDOW);
	assert_int_equal(limits[6].options.slots, 60);
	assert_int_equal(limits[7].options.algorithm, WEIR_ALGORITHM_SLIDING_LOG);
	assert_int_equal(limits[7].options.slots, 0);
	weir_config_close(config);
}

static void rules_name_limits_that_may_stand_after_them(void **state)
{
	weir_config *config =
	    read_text("rules:\n"
	              "  - { limits: [b, a], key: [user, ip], mode: shadow, on_store_failure: local,\n"
	              "      ipv6_prefix: 128 }\n"
	              "  - { name: listed, answer: deny, mode: enforce }\n"
	              "  - { answer: allow, match: { path: /a }, path_variants: true }\n"
	              "limits:\n"
	              "  b: { algorithm: token_bucket, rate: 1/s }\n"
	              "  c: { algorithm: token_bucket, rate: 1/s }\n"
	              "  a: { algorithm: token_bucket, rate: 1/s }\n");
	const struct rules_rule *rules = config->rules;

	(void)state;
	assert_int_equal(config->rule_count, 3);
	assert_string_equal(rules[0].name, "rule-1");
	assert_int_equal(rules[0].limit_count, 2);
	assert_int_equal(rules[0].limits[0], 0);
	assert_int_equal(rules[0].limits[1], 2);
	assert_int_equal(rules[0].key_count, 2);
	assert_string_equal(rules[0].key[0], "user");
	assert_string_equal(rules[0].key[1], "ip");
	assert_int_equal(rules[0].ipv6_prefix, 128);
	assert_int_equal(rules[0].path_variants, RULES_UNSET);
	assert_int_equal(rules[2].path_variants, RULES_YES);
	assert_int_equal(rules[0].mode, RULES_SHADOW);
	assert_int_equal(rules[0].answer, RULES_BY_LIMITS);
	assert_true(rules[0].has_on_store_failure);
	assert_int_equal(rules[0].condition_count, 0);
	assert_null(rules[0].result);
	assert_string_equal(rules[1].name, "listed");
	assert_int_equal(rules[1].answer, RULES_DENY);
	assert_int_equal(rules[1].mode, RULES_ENFORCE);
	assert_false(rules[1].has_on_store_failure);
	assert_string_equal(rules[2].name, "rule-3");
	assert_int_equal(rules[2].answer, RULES_ALLOW);
	weir_config_close(config);
}

/* `a: value` is test and text. */
static void assert_value(const char *attribute, const char *value, enum rules_test test,
                         const char *text)
{
	char yaml[256];
	weir_config *config;
	const struct rules_value *got;

	snprintf(yaml, sizeof yaml, "rules: [{ answer: deny, match: { x: 1, %s: %s } }]", attribute,
	         value);
	config = read_text(yaml);
	assert_int_equal(config->rules[0].condition_count, 2);
	assert_string_equal(config->rules[0].conditions[1].attribute, attribute);
	assert_int_equal(config->rules[0].conditions[1].value_count, 1);
	got = &config->rules[0].conditions[1].values[0];
	if (got->test != test || !slice_equal(got->text, slice_of(text)))
		fail_msg("%s is %d \"%.*s\"", value, (int)got->test, (int)got->text.len, got->text.data);
	weir_config_close(config);
}

/* 2^32 at 9/s come back in 15.1 years, and at 7/s in 19.4. */
static void buckets_refill_within_16_years(void **state)
{
	static const char *const algorithms[] = {"token_bucket, burst: ", "leaky_bucket, capacity: ",
	                                         "leaky_queue, capacity: ", "pacer, slack: "};
	struct weir_error error;
	weir_config *config;
	char yaml[128];

	(void)state;
	for (size_t i = 0; i < sizeof algorithms / sizeof *algorithms; i++) {
		uint64_t most = UINT64_C(4294967296) - (i == 3);

		snprintf(yaml, sizeof yaml, "limits: { a: { algorithm: %s%llu, rate: 9/s } }",
		         algorithms[i], (unsigned long long)most);
		weir_config_close(read_text(yaml));
		snprintf(yaml, sizeof yaml, "limits: { a: { algorithm: %s%llu, rate: 7/s } }",
		         algorithms[i], (unsigned long long)most);
		assert_int_equal(weir_config_read_yaml(yaml, strlen(yaml), NULL, &config, &error),
		                 WEIR_EINVAL);
	}
}

/* Describes conditions: the attribute, ! if negated, and the test and text of each value. */
static void describe(const struct rules_rule *rule, struct buffer *out)
{
	static const char *const tests[] = {
	    [RULES_EQUAL] = "=",       [RULES_PREFIX] = "prefix ", [RULES_IP_RANGE] = "range ",
	    [RULES_IP_PATTERN] = "~",  [RULES_LISTED] = "@",       [RULES_NUMBERS] = "#",
	    [RULES_ANY] = "any",       [RULES_NONE] = "none",
	};

	for (size_t i = 0; i < rule->condition_count; i++) {
		const struct rules_condition *condition = &rule->conditions[i];

		buffer_printf(out, "%s%s%s", i ? "; " : "", condition->attribute,
		              condition->negated ? " !" : "");
		for (size_t j = 0; j < condition->value_count; j++) {
			const struct rules_value *value = &condition->values[j];

			buffer_printf(out, " %s", tests[value->test]);
			if (value->test == RULES_NUMBERS)
				buffer_printf(out, "%lld..%lld", (long long)value->numbers.first,
				              (long long)value->numbers.last);
			else if (value->test < RULES_ANY)
				buffer_printf(out, "%.*s", (int)value->text.len, value->text.data);
			if (value->test == RULES_LISTED)
				buffer_printf(out, "(%zu)", dictionary_count(value->dictionary));
		}
	}
	buffer_add(out, "", 1);
}

static void assert_conditions(const char *directory, const char *match, const char *expected)
{
	struct buffer yaml = {0}, found = {0};
	struct weir_error error;
	weir_config *config;

	buffer_printf(&yaml, "rules: [{ answer: deny, match: %s }]", match);
	if (weir_config_read_yaml(yaml.data, yaml.len, directory, &config, &error) != 0)
		fail_msg("%s: %s", match, error.message);
	describe(&config->rules[0], &found);
	assert_string_equal(found.data, expected);
	weir_config_close(config);
	buffer_free(&yaml);
	buffer_free(&found);
}

static void conditions_have_many_forms(void **state)
{
	(void)state;
	assert_conditions(NULL, "{ a: \"!x\" }", "a ! =x");
	assert_conditions(NULL, "{ a: [\"!x\", \"!>5\", '!\\!y'] }", "a ! =x #6..9223372036854775807 =!y");
	assert_conditions(NULL, "{ a: { not: [x, 1-5] }, b: { not: y } }", "a ! =x #1..5; b ! =y");
	assert_conditions(NULL, "{ a: [\"<5\", 8-9, z, \"!*\"] }",
	                  "a #-9223372036854775808..4 #8..9 =z none");
	assert_conditions(NULL, "{ a: -5--1 }", "a #-5..-1");
	assert_conditions(NULL, "{ ip: [10.*.0.*, 10.0.0.*, \"*\"], path: \"!/api/*\" }",
	                  "ip ~10.*.0.* range 10.0.0.* any; path ! prefix /api/");
	assert_conditions(NULL, "{ a: { all: [\">5\", \"!7\", [8, 9], { not: z }] } }",
	                  "a #6..9223372036854775807; a ! =7; a =8 =9; a ! =z");
}

static void write_file(const char *directory, const char *name, const char *text)
{
	char path[128];
	FILE *file;

	snprintf(path, sizeof path, "%s/%s", directory, name);
	file = fopen(path, "w");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static void remove_file(const char *directory, const char *name)
{
	char path[128];

	snprintf(path, sizeof path, "%s/%s", directory, name);
	assert_int_equal(unlink(path), 0);
}

static void dictionaries_are_beside_the_rule_file(void **state)
{
	char directory[] = "/tmp/weir-yaml-XXXXXX", path[128];
	const struct rules_file *files;
	struct buffer found = {0};
	struct weir_error error;
	weir_config *config;

	(void)state;
	assert_non_null(mkdtemp(directory));
	write_file(directory, "staff", "ann\nbob\n");
	write_file(directory, "nets", "10.0.0.0/8\n");
	write_file(directory, "wrong", "ann\n10.0.0.0/33\n");
	assert_conditions(directory, "{ a: { in: staff } }", "a @staff(2)");
	assert_conditions(directory, "{ a: { not_in: [staff, nets], not: \"\", in: nets }, b: 1 }",
	                  "a @nets(1); a ! @staff(2) @nets(1); a ! =; b =1");
	snprintf(path, sizeof path, "%s/rules.yaml", directory);
	write_file(directory, "rules.yaml", "rules: [{ answer: deny, match: { a: { in: staff },"
	                                    " b: { not_in: [nets, staff] } } }]");
	assert_int_equal(weir_config_read_file(path, &config, NULL), 0);
	describe(&config->rules[0], &found);
	assert_string_equal(found.data, "a @staff(2); b ! @nets(1) @staff(2)");
	files = config->files;
	assert_string_equal(files->path, path);
	files = files->next;
	assert_string_equal(files->path + strlen(directory), "/staff");
	assert_string_equal(files->next->path + strlen(directory), "/nets");
	assert_null(files->next->next);
	weir_config_close(config);
	write_file(directory, "rules.yaml", "rules: [{ answer: deny, match: { a: { in: wrong } } }]");
	assert_int_equal(weir_config_read_file(path, &config, &error), WEIR_EINVAL);
	assert_string_equal(error.message,
	                    "expected a dictionary, found \"wrong\": line 2: expected a range of "
	                    "addresses such as 10.0.0.0/8 or 10.0.0.1-10.0.0.9, found 10.0.0.0/33");
	assert_int_equal(error.column, 43);
	remove_file(directory, "staff");
	remove_file(directory, "nets");
	remove_file(directory, "wrong");
	remove_file(directory, "rules.yaml");
	assert_int_equal(rmdir(directory), 0);
	buffer_free(&found);
}

static void rules_in_the_order_first_may_allow_beside_limits(void **state)
{
	weir_config *config = read_text("rules: [{ name: a, answer: allow, limits: [l], key: [ip] },\n"
	                                " { answer: deny }]\n"
	                                "limits: { l: { algorithm: token_bucket, rate: 1/s } }\n"
	                                "order: first");

	(void)state;
	assert_int_equal(config->order, RULES_FIRST);
	assert_int_equal(config->rules[0].answer, RULES_ALLOW);
	assert_int_equal(config->rules[0].limit_count, 1);
	assert_int_equal(config->rules[0].key_count, 1);
	weir_config_close(config);
	config = read_text("order: all");
	assert_int_equal(config->order, RULES_ALL);
	weir_config_close(config);
}

static void values_are_told_by_their_form(void **state)
{
	(void)state;
	assert_value("user", "123", RULES_EQUAL, "123");
	assert_value("user", "true", RULES_EQUAL, "true");
	assert_value("user", "\"\"", RULES_EQUAL, "");
	assert_value("user", "-5", RULES_EQUAL, "-5");
	assert_value("user", "2024-01-15", RULES_EQUAL, "2024-01-15");
	assert_value("user", "a-5", RULES_EQUAL, "a-5");
	assert_value("user", "1-", RULES_EQUAL, "1-");
	assert_value("user", "10.1.2.3", RULES_EQUAL, "10.1.2.3");
	assert_value("user", "\"*\"", RULES_ANY, "*");
	assert_value("user", "\"!*\"", RULES_NONE, "!*");
	assert_value("ip", "\"!*\"", RULES_NONE, "!*");
	assert_value("ip", "\"*\"", RULES_ANY, "*");
	assert_value("path", "\"*\"", RULES_ANY, "*");
	assert_value("path", "/login", RULES_EQUAL, "/login");
	assert_value("path", "/api/*", RULES_PREFIX, "/api/");
	assert_value("ip", "10.1.2.3", RULES_IP_RANGE, "10.1.2.3");
	assert_value("ip", "192.168.1.*", RULES_IP_RANGE, "192.168.1.*");
	assert_value("ip", "10.0.0.1-10.0.0.9", RULES_IP_RANGE, "10.0.0.1-10.0.0.9");
	assert_value("peer", "10.0.0.0/8", RULES_IP_RANGE, "10.0.0.0/8");
}

static void behind_a_backslash_all_is_text(void **state)
{
	(void)state;
	assert_value("path", "\\/api/*", RULES_EQUAL, "/api/*");
	assert_value("user", "\\*", RULES_EQUAL, "*");
	assert_value("user", "'\\!x'", RULES_EQUAL, "!x");
	assert_value("user", "'\\!*'", RULES_EQUAL, "!*");
	assert_value("user", "\"\\\\>5\"", RULES_EQUAL, ">5");
	assert_value("user", "\\1-5", RULES_EQUAL, "1-5");
	assert_value("user", "\\in:x", RULES_EQUAL, "in:x");
	assert_value("user", "\\10.0.0.0/8", RULES_EQUAL, "10.0.0.0/8");
	assert_value("ip", "\\unknown", RULES_EQUAL, "unknown");
	assert_value("user", "\\\\x", RULES_EQUAL, "\\x");
	assert_value("user", "\\", RULES_EQUAL, "");
}

static void what_requests_carry_is_listed_once(void **state)
{
	weir_config *config =
	    read_text("limits: { l: { algorithm: token_bucket, rate: 1/s } }\n"
	              "rules:\n"
	              "  - { match: { header.X-Key: \"*\", headers.x: 1 }, answer: deny }\n"
	              "  - { key: [ip, query.q, header.X-Key, header.x-key], limits: [l] }\n"
	              "  - { match: { \"cookie.a b\": \"!*\" }, key: [query.q], limits: [l] }\n");
	static const struct {
		const char *attribute, *name;
		enum forwarded_from in;
	} expected[] = {
	    {"header.X-Key", "X-Key", FORWARDED_FROM_HEADER},
	    {"query.q", "q", FORWARDED_FROM_QUERY},
	    {"header.x-key", "x-key", FORWARDED_FROM_HEADER},
	    {"cookie.a b", "a b", FORWARDED_FROM_COOKIE},
	};

	(void)state;
	assert_int_equal(config->forwarded.count, sizeof expected / sizeof *expected);
	for (size_t i = 0; i < config->forwarded.count; i++) {
		const struct forwarded_attribute *found = &config->forwarded.items[i];

		assert_string_equal(found->attribute, expected[i].attribute);
		assert_string_equal(found->name.data, expected[i].name);
		assert_int_equal(found->in, expected[i].in);
	}
	weir_config_close(config);
}

static void ip_values_hold_their_range(void **state)
{
	weir_config *config =
	    read_text("rules: [{ answer: deny, match: { ip: [1.2.3.4, 10.1.2.3/8] } }]");
	const struct rules_condition *condition = &config->rules[0].conditions[0];
	struct ip ip;

	(void)state;
	assert_int_equal(condition->value_count, 2);
	assert_true(ip_parse(SLICE("10.255.0.1"), &ip));
	assert_false(ip_in_range(&ip, &condition->values[0].range));
	assert_true(ip_in_range(&ip, &condition->values[1].range));
	weir_config_close(config);
}

static void results_become_json(void **state)
{
	weir_config *config = read_text(
	    "rules:\n- answer: deny\n  result:\n"
	    "    code: 1001\n    \"a\\\"b\": \"say \\\"hi\\\"\\n\"\n    quoted: \"7\"\n    neg: -2.50\n"
	    "    zero: 0\n    frac: 0.5\n    padded: 007\n    minus: -x\n    dot: 1.\n    yes: yes\n"
	    "    t: true\n    f: false\n    n: null\n    none:\n    empty: \"\"\n"
	    "    list: [1, [a, {}], { b: [] }]\n    why: { allowed: 1 }\n");

	(void)state;
	assert_string_equal(config->rules[0].result,
	                    "{\"code\":1001,\"a\\\"b\":\"say \\\"hi\\\"\\u000a\",\"quoted\":\"7\","
	                    "\"neg\":-2.50,\"zero\":0,\"frac\":0.5,\"padded\":\"007\",\"minus\":\"-x\","
	                    "\"dot\":\"1.\",\"yes\":\"yes\",\"t\":true,\"f\":false,\"n\":null,"
	                    "\"none\":null,\"empty\":\"\",\"list\":[1,[\"a\",{}],{\"b\":[]}],\"why\":{\"allowed\":1}}");
	weir_config_close(config);
}

static void many_limits_and_rules_are_read_in_good_time(void **state)
{
	enum { N = 20000 };
	char *yaml = test_malloc((size_t)N * 100), *end = yaml;
	weir_config *config;

	(void)state;
	end += sprintf(end, "limits:\n");
	for (int i = 0; i < N; i++)
		end += sprintf(end, " l%d: {algorithm: token_bucket, rate: 1/s}\n", i);
	end += sprintf(end, "rules:\n");
	for (int i = 0; i < N; i++)
		end += sprintf(end, " - {limits: [l%d]}\n", N - 1 - i);
	config = read_text(yaml);
	test_free(yaml);
	assert_int_equal(config->rule_count, N);
	for (size_t i = 0; i < N; i++)
		assert_int_equal(config->rules[i].limits[0], N - 1 - i);
	weir_config_close(config);
}

static void the_example_is_valid(void **state)
{
	weir_config *config = read_file(SOURCE_ROOT "/examples/weir.yaml");

	(void)state;
	assert_true(config->limit_count > 0 && config->rule_count > 0);
	weir_config_close(config);
}

static void examples_of_the_reference_are_valid(void **state)
{
	FILE *file = fopen(SOURCE_ROOT "/docs/rules.md", "r");
	char line[512], yaml[8192];
	size_t len = 0, examples = 0;
	bool inside = false;

	(void)state;
	assert_non_null(file);
	while (fgets(line, sizeof line, file)) {
		if (inside && strcmp(line, "```\n") == 0) {
			if (!strstr(yaml, " in: ")) /* tests/e2e/test_docs.py has its files */
				weir_config_close(read_text(yaml));
			examples++;
			inside = false;
		} else if (strcmp(line, "```yaml\n") == 0) {
			inside = true;
			len = 0;
		} else if (inside) {
			assert_true(len + strlen(line) < sizeof yaml);
			strcpy(yaml + len, line);
			len += strlen(line);
		}
	}
	fclose(file);
	assert_false(inside);
	assert_true(examples >= 5);
}

/* Finds the row of a key in the table of the top level: the text after its name. */
static void find_row(const char *key, char line[512])
{
	FILE *file = fopen(SOURCE_ROOT "/docs/rules.md", "r");
	char start[64];

	assert_non_null(file);
	snprintf(start, sizeof start, "| `%s` |", key);
	while (fgets(line, 512, file) && strncmp(line, start, strlen(start)) != 0)
		;
	assert_int_equal(strncmp(line, start, strlen(start)), 0);
	fclose(file);
}

static void defaults_of_stores_are_those_of_the_reference(void **state)
{
	weir_config *config = read_text("");
	const struct {
		const char *key;
		uint64_t ns; /* UINT64_MAX: `text` */
		const char *text;
	} rows[] = {
	    {"store_timeout", config->store_timeout_ns, NULL},
	    {"denied_cache", config->denied_cache_ns, NULL},
	    {"store_poll", config->store_poll_ns, NULL},
	    {"prefix", UINT64_MAX, config->prefix},
	};

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct buffer expected = {0};
		char line[512];

		find_row(rows[i].key, line);
		buffer_add_text(&expected, " | `");
		if (rows[i].text)
			buffer_add_text(&expected, rows[i].text);
		else
			duration_add(&expected, rows[i].ns);
		buffer_add(&expected, "` |\n", 5); /* its NUL, too */
		assert_string_equal(line + strlen(line) - expected.len + 1, expected.data);
		buffer_free(&expected);
	}
	weir_config_close(config);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(empty_files_are_the_defaults),
	    cmocka_unit_test(the_top_level_is_read),
	    cmocka_unit_test(a_unix_socket_is_read_as_text_or_with_its_mode),
	    cmocka_unit_test(limits_name_their_stores),
	    cmocka_unit_test(how_many_connections_and_for_how_long_is_read),
	    cmocka_unit_test(the_door_is_read),
	    cmocka_unit_test(limits_are_read_in_their_order),
	    cmocka_unit_test(rules_name_limits_that_may_stand_after_them),
	    cmocka_unit_test(buckets_refill_within_16_years),
	    cmocka_unit_test(values_are_told_by_their_form),
	    cmocka_unit_test(conditions_have_many_forms),
	    cmocka_unit_test(dictionaries_are_beside_the_rule_file),
	    cmocka_unit_test(rules_in_the_order_first_may_allow_beside_limits),
	    cmocka_unit_test(behind_a_backslash_all_is_text),
	    cmocka_unit_test(what_requests_carry_is_listed_once),
	    cmocka_unit_test(ip_values_hold_their_range),
	    cmocka_unit_test(results_become_json),
	    cmocka_unit_test(many_limits_and_rules_are_read_in_good_time),
	    cmocka_unit_test(the_example_is_valid),
	    cmocka_unit_test(examples_of_the_reference_are_valid),
	    cmocka_unit_test(defaults_of_stores_are_those_of_the_reference),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
