/* A configuration that is printed and read again is the same, whatever it was read from. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/buffer.h"
#include "readers/koala/koala.h"
#include "readers/yaml/print.h"

static void assert_text(const char *a, const char *b)
{
	assert_int_equal(a == NULL, b == NULL);
	if (a)
		assert_string_equal(a, b);
}

static void assert_value(const struct rules_value *a, const struct rules_value *b)
{
	assert_int_equal(a->test, b->test);
	assert_int_equal(a->text.len, b->text.len);
	assert_memory_equal(a->text.data, b->text.data, a->text.len);
	switch (a->test) {
	case RULES_IP_RANGE:
		assert_memory_equal(&a->range, &b->range, sizeof a->range);
		break;
	case RULES_IP_PATTERN:
		assert_memory_equal(&a->pattern, &b->pattern, sizeof a->pattern);
		break;
	case RULES_NUMBERS:
		assert_memory_equal(&a->numbers, &b->numbers, sizeof a->numbers);
		break;
	default:
		break;
	}
}

static void assert_rule(const struct rules_rule *a, const struct rules_rule *b)
{
	assert_string_equal(a->name, b->name);
	assert_int_equal(a->condition_count, b->condition_count);
	for (size_t i = 0; i < a->condition_count; i++) {
		const struct rules_condition *one = &a->conditions[i], *other = &b->conditions[i];

		assert_string_equal(one->attribute, other->attribute);
		assert_int_equal(one->negated, other->negated);
		assert_int_equal(one->value_count, other->value_count);
		for (size_t j = 0; j < one->value_count; j++)
			assert_value(&one->values[j], &other->values[j]);
	}
	assert_int_equal(a->key_count, b->key_count);
	for (size_t i = 0; i < a->key_count; i++)
		assert_string_equal(a->key[i], b->key[i]);
	assert_int_equal(a->limit_count, b->limit_count);
	for (size_t i = 0; i < a->limit_count; i++)
		assert_int_equal(a->limits[i], b->limits[i]);
	assert_int_equal(a->ipv6_prefix, b->ipv6_prefix);
	assert_int_equal(a->ip_numbers, b->ip_numbers);
	assert_int_equal(a->path_variants, b->path_variants);
	assert_int_equal(a->mode, b->mode);
	assert_int_equal(a->answer, b->answer);
	assert_memory_equal(a->feedback, b->feedback, sizeof a->feedback);
	assert_int_equal(a->has_priority, b->has_priority);
	assert_int_equal(a->priority, b->priority);
	assert_int_equal(a->has_on_store_failure, b->has_on_store_failure);
	assert_int_equal(a->on_store_failure, b->on_store_failure);
	assert_text(a->result, b->result);
}

static void assert_limit(const struct rules_limit *a, const struct rules_limit *b)
{
	struct weir_limit_options one = a->options, other = b->options;

	assert_string_equal(one.name, other.name);
	assert_text(one.timezone, other.timezone);
	if (one.rate.period == 0) /* which says the same as 1 */
		one.rate.period = other.rate.period;
	one.name = other.name;
	one.timezone = other.timezone;
	assert_memory_equal(&one, &other, sizeof one);
	assert_int_equal(a->on_store_failure, b->on_store_failure);
	assert_text(a->store.text, b->store.text);
	assert_int_equal(a->chunk_percent, b->chunk_percent);
}

static void assert_ranges(const struct ip_range *a, size_t n, const struct ip_range *b, size_t m)
{
	assert_int_equal(n, m);
	assert_memory_equal(a, b, n * sizeof *a);
}

static void assert_listen(const struct rules_listen *a, const struct rules_listen *b)
{
	assert_text(a->address.text, b->address.text);
	assert_int_equal(a->mode, b->mode);
	assert_text(a->owner, b->owner);
	assert_text(a->group, b->group);
}

static void assert_config(const struct weir_config *a, const struct weir_config *b)
{
	assert_listen(&a->listen_http, &b->listen_http);
	assert_listen(&a->listen_resp, &b->listen_resp);
	assert_listen(&a->listen_admin, &b->listen_admin);
	assert_text(a->store.text, b->store.text);
	assert_int_equal(a->capacity, b->capacity);
	assert_text(a->store_owner, b->store_owner);
	assert_text(a->store_group, b->store_group);
	assert_int_equal(a->sync_ns, b->sync_ns);
	assert_int_equal(a->nodes, b->nodes);
	assert_int_equal(a->has_nodes, b->has_nodes);
	assert_int_equal(a->ipv6_prefix, b->ipv6_prefix);
	assert_int_equal(a->path_variants, b->path_variants);
	assert_text(a->prefix, b->prefix);
	assert_int_equal(a->store_timeout_ns, b->store_timeout_ns);
	assert_int_equal(a->denied_cache_ns, b->denied_cache_ns);
	assert_int_equal(a->store_poll_ns, b->store_poll_ns);
	assert_true(a->retry_jitter == b->retry_jitter);
	assert_int_equal(a->connections, b->connections);
	assert_int_equal(a->idle_http_ns, b->idle_http_ns);
	assert_int_equal(a->idle_resp_ns, b->idle_resp_ns);
	assert_ranges(a->trusted_proxies, a->trusted_proxy_count, b->trusted_proxies,
	              b->trusted_proxy_count);
	assert_ranges(a->protected, a->protected_count, b->protected, b->protected_count);
	assert_int_equal(a->unprotected, b->unprotected);
	assert_int_equal(a->host_count, b->host_count);
	for (size_t i = 0; i < a->host_count; i++)
		assert_string_equal(a->hosts[i], b->hosts[i]);
	assert_int_equal(a->denials.attributes, b->denials.attributes);
	assert_int_equal(a->denials.listed_count, b->denials.listed_count);
	for (size_t i = 0; i < a->denials.listed_count; i++)
		assert_string_equal(a->denials.listed[i], b->denials.listed[i]);
	assert_text(a->denials.file, b->denials.file);
	assert_int_equal(a->denials.rotate, b->denials.rotate);
	assert_int_equal(a->denials.files, b->denials.files);
	assert_int_equal(a->denials.keep, b->denials.keep);
	assert_int_equal(a->denials.key, b->denials.key);
	assert_int_equal(a->order, b->order);
	assert_text(a->koala.timezone, b->koala.timezone);
	assert_text(a->koala.unmatched, b->koala.unmatched);
	assert_text(a->koala.unexceeded, b->koala.unexceeded);
	assert_int_equal(a->forwarded.count, b->forwarded.count);
	assert_int_equal(a->limit_count, b->limit_count);
	for (size_t i = 0; i < a->limit_count; i++)
		assert_limit(&a->limits[i], &b->limits[i]);
	assert_int_equal(a->rule_count, b->rule_count);
	for (size_t i = 0; i < a->rule_count; i++)
		assert_rule(&a->rules[i], &b->rules[i]);
}

static weir_config *read_yaml(struct slice text)
{
	struct weir_error error;
	weir_config *config;

	if (weir_config_read_yaml(text.data, text.len, NULL, &config, &error) != 0)
		fail_msg("%u:%u: %s\n%.*s", error.line, error.column, error.message, (int)text.len,
		         text.data);
	return config;
}

/* Closes it. */
static void assert_printed(weir_config *config)
{
	weir_config *defaults = weir_private_config_new(), *again;
	struct buffer out = {0};

	yaml_print(config, defaults, &out);
	assert_false(out.failed);
	again = read_yaml((struct slice){out.data ? out.data : "", out.len});
	assert_config(config, again);
	weir_config_close(again);
	weir_config_close(config);
	weir_config_close(defaults);
	buffer_free(&out);
}

static void our_own_files_are_printed(void **state)
{
	static const char *const files[] = {
	    "",
	    "listen: { http: 127.0.0.1:0, resp: \"[::1]:6380\" }\n"
	    "store: \"redis://u:p w@h:6379/0\"\ncapacity: 5\nsync: 250ms\nnodes: 3\nprefix: \"\"\n"
	    "store_timeout: 5ms\ndenied_cache: 0s\nstore_poll: 1m\nstore_owner: root\n"
	    "store_group: \"a b\"\nipv6_prefix: 48\npath_variants: no\nretry_jitter: 0.25\n"
	    "trusted_proxies: [127.0.0.0/8, \"::1\", 10.0.0.1-10.0.0.9, \"2001:db8::/32\", \"::/0\", "
	    "0.0.0.0/0, 10.0.0.*]\nconnections: 50\nidle: { resp: 10m, http: 0s }\n"
	    "hosts: [limits.example.com, 1e5]\nprotected: [10.0.0.0/8]\n"
	    "koala: { timezone: Europe/Berlin, unmatched: { a: 1 }, unexceeded: {} }\n",
	    "listen: { http: \"unix:/run/a b\", resp: { path: /run/c, mode: 0660, owner: weir, group: "
	    "\"1\" } }",
	    "listen: { http: { path: /run/a }, resp: { path: \"/run/c: d\", group: www-data },\n  "
	    "admin: unix:/run/w }",
	    "denials: { keep: 7, key: full, attributes: [path, header.x-y, \"a b\"] }\n",
	    "denials: { attributes: none, headers: no }\n",
	    "denials: { attributes: [], file: \"/var/lib/a b\", rotate: 64MiB, files: 9 }\n",
	    "denials: { file: off, rotate: 8001 }\n",
	    "nodes: 1\nprotected: no\nstore: memory\nlisten: { http: 127.0.0.1:1 }\nidle: { http: "
	    "1500ms }",
	    "order: first\nlimits:\n"
	    "  a: { algorithm: token_bucket, rate: 5/s, burst: 7, store: memory }\n"
	    "  \"b: c\": { algorithm: leaky_bucket, rate: 5/100ms, store: redis://u:p@h, chunk: 3% }\n"
	    "  c: { algorithm: concurrency, max: 5, queue: 3, lease: 5m, on_store_failure: open }\n"
	    "  d: { algorithm: fixed_window, rate: 5/2w, week_start: sunday, timezone: UTC }\n"
	    "  e: { algorithm: pacer, rate: 5/s, slack: 0, max_wait: 0s }\n"
	    "  f: { algorithm: random, deny: 0.125, retry: 1500ms }\n"
	    "  g: { algorithm: warm_up, rate: 5/s, cold: 2.5, warm_up: 1s }\n"
	    "  h: { algorithm: sliding_window, rate: 5/s, slots: 60, keys: 9 }\n"
	    "  i: { algorithm: sliding_log, rate: 5/s }\n"
	    "  \"true\": { algorithm: fixed_window, rate: 1/month }\n"
	    "rules:\n"
	    "  - { name: \"null\", key: [ip, \"a b\"], limits: [a, \"b: c\"], ipv6_prefix: 56,\n"
	    "      on_store_failure: local, mode: shadow, priority: 9 }\n"
	    "  - { limits: [i], feedback: [0, 4], priority: 0 }\n"
	    "  - { match: { path: [\"/a*\", /b, \"\\\\*\", \"\\\\\\\\x\"], ip: [10.0.0.1, "
	    "\"10.*.0.*\", \"::1\"],\n"
	    "               u: [\"1-5\", \">7\", \"<-7\", \"\\\\1-5\", \"-5\", 10.0.0.1, \"\", "
	    "\"a\\u0085b\\x7f\"],\n"
	    "               v: { not: [x, \"*\"], all: [{ not: y }, [z, 1-2], \"!w\"] }, w: \"!*\",\n"
	    "               header.x-y: \"\\\\in: x\" },\n"
	    "      path_variants: yes, ip_numbers: yes, answer: deny, result: { n: [1, 2.5, \"1\", "
	    "null, {}], \"\": "
	    "\"é\\u2028\" } }\n"
	    "  - { limits: [a], answer: allow }\n",
	};

	(void)state;
	for (size_t i = 0; i < sizeof files / sizeof *files; i++)
		assert_printed(read_yaml(slice_of(files[i])));
}

static void files_of_koala_are_printed(void **state)
{
	static const char text[] =
	    "[rules]\n"
	    "rule : [count] [act=ask; uid=+;] [time=86400; count=1000;] [result=2; return=111]\n"
	    "rule : [count] [uid>5;uid<9;act=a-b,1-5,>x,\\x,+y, a: b] [count=5;time=60] "
	    "[return=112;result=2]\n"
	    "rule : [base] [act!=ask,1-5; ip=10.*.0.*,::1,10.0.0.0/8] [base=10; time=5; count=1;] "
	    "[result=2; return=115]\n"
	    "rule : [leak] [ip=+{~};b=+;ip!=x] [time=100; count=10; erase1=2] [result=2; return=12]\n"
	    "rule : [direct] [path=/a*,//,!x] [time=1; count=0;] [result=1; return=101]\n"
	    "rule : [direct] [header.a=*] [] [result=2; return=102]\n"
	    "rule : [count] [] [time=1; count=4294967296] [result=1; return=007]\n"
	    "[result]\n"
	    "0 : { }\n"
	    "1 : { \"a\" : \"\\u0000\\u007f\\u0085\\u2028\\ufeff\\ud83d\\ude00 # \\\" \\\\ : , {\" }\n"
	    "2 : { \"x\":[1e5,-0,2.50E-3,{\"\":null}], \"Ret_code\":\"x\" }\n";
	struct weir_config *config = weir_private_config_new();

	(void)state;
	assert_int_equal(koala_read(config, &(struct source){.text = SLICE(text)}), 0);
	assert_int_equal(config->remarks.errors, 0);
	assert_printed(config);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(our_own_files_are_printed),
	    cmocka_unit_test(files_of_koala_are_printed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
