/* Every file that is refused, with the place and the words of its error. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include <weir/rules.h>

#include "base/buffer.h"

struct bad {
	const char *yaml;
	unsigned line, column;
	const char *message; /* a part of it */
};

static void assert_refused(struct slice yaml, int status, unsigned line, unsigned column,
                           const char *message)
{
	struct weir_error error = {0};
	weir_config *config = (weir_config *)&error;
	int got = weir_config_read_yaml(yaml.data, yaml.len, NULL, &config, &error);

	if (got != status || error.status != got || config || error.line != line ||
	    error.column != column || !strstr(error.message, message) ||
	    strncmp(error.message, "expected ", 9) != 0)
		fail_msg("%.400s\n%d at %u:%u %s\nwanted %d at %u:%u %s", yaml.data, got, error.line,
		         error.column, error.message, status, line, column, message);
}

static void assert_all_refused(const struct bad *cases, size_t n, int status)
{
	for (size_t i = 0; i < n; i++)
		assert_refused(slice_of(cases[i].yaml), status, cases[i].line, cases[i].column,
		               cases[i].message);
}

#define ASSERT_ALL_REFUSED(cases, status)                                                          \
	assert_all_refused(cases, sizeof(cases) / sizeof *(cases), status)

static void unknown_keys_are_refused(void **state)
{
	static const struct bad cases[] = {
	    {"limit: {}", 1, 1, "the file (listen, store, store_owner, store_group, "},
	    {"listen: {\n http: \":1\", htp: \":2\" }", 2, 14,
	     "listen (http, resp, admin), found \"htp\""},
	    {"listen: { grpc: \":1\" }", 1, 17, "found grpc, which is not supported yet"},
	    {"limits:\n  a:\n    algorithm: token_bucket\n    rat: 5/s", 4, 5,
	     "token_bucket (algorithm, rate, burst, on_store_failure, store, chunk), found \"rat\""},
	    {"rules: [{ answer: deny, mtch: {} }]", 1, 25, "found \"mtch\""},
	    {"\"a\\nb\": 1", 1, 1, "found \"a?b\""},
	    {"käse: 1\n", 1, 1, "found \"käse\""},
	    {"# ä\n{ prefix: \"ä\", x: 1 }", 2, 16, "found \"x\""},
	    {"ääääääääääääääääääääääääääääääääääää: 1", 1, 1, "found \"ääääääääääääääääääääääää…\""},
	};

	(void)state;
	ASSERT_ALL_REFUSED(cases, WEIR_EINVAL);
}

static void duplicates_are_refused(void **state)
{
	static const struct bad cases[] = {
	    {"nodes: 1\nnodes: 1", 2, 1, "the file once, found \"nodes\" again"},
	    {"limits:\n  b: { algorithm: token_bucket, rate: 5/s }\n"
	     "  a: { algorithm: token_bucket, rate: 5/s }\n"
	     "  b: { algorithm: token_bucket, rate: 5/s }",
	     4, 3, "each limit once, found \"b\" again"},
	    {"limits: { CL.THROTTLE: { algorithm: token_bucket, rate: 5/s } }", 1, 11,
	     "expected a name other than a command's, found \"CL.THROTTLE\""},
	    {"limits:\n  THROTTLE: { algorithm: token_bucket, rate: 5/s }", 2, 3,
	     "other than a command's"},
	    {"limits: { a: { algorithm: token_bucket, rate: 5/s, rate: 5/s } }", 1, 52,
	     "\"rate\" again"},
	    {"rules: [{ name: x, answer: deny },\n { name: x, answer: allow }]", 2, 10,
	     "each rule once, found \"x\" again"},
	    {"rules: [{ name: rule-2, answer: deny },\n { answer: allow }]", 2, 2, "\"rule-2\" again"},
	    {"rules: [{ answer: deny, match: { a: 1, a: 2 } }]", 1, 40, "each attribute once"},
	    {"limits: { a: { algorithm: token_bucket, rate: 5/s } }\n"
	     "rules: [{ limits: [a], key: [ip, ip] }]",
	     2, 34, "each attribute once"},
	    {"limits: { a: { algorithm: token_bucket, rate: 5/s } }\nrules: [{ limits: [a, a] }]", 2,
	     23, "each limit once"},
	    {"rules: [{ answer: deny, result: { a: 1, a: 2 } }]", 1, 41, "each field once"},
	};

	(void)state;
	ASSERT_ALL_REFUSED(cases, WEIR_EINVAL);
}

static void wrong_types_are_refused(void **state)
{
	static const struct bad cases[] = {
	    {"text", 1, 1, "the file as a mapping, found \"text\""},
	    {"[]", 1, 1, "the file as a mapping, found a list"},
	    {"listen: 8080", 1, 9, "listen as a mapping, found \"8080\""},
	    {"listen: { http: [] }", 1, 17, "http of 1 to 4096 bytes"},
	    {"listen: { http: { mode: 0660 } }", 1, 17, "path"},
	    {"listen: { http: { path: a.sock } }", 1, 25, "unix:/PATH, found 'unix:a.sock'"},
	    {"listen: { http: { path: /a, port: 1 } }", 1, 29, "path, mode, owner, group"},
	    {"listen: { http: { path: /a, mode: 0680 } }", 1, 35,
	     "a mode in octal digits such as 0660"},
	    {"listen: { http: { path: /a, mode: 01777 } }", 1, 35, "a mode in octal digits"},
	    {"listen: { http: { path: /a, mode: 77777777777777777 } }", 1, 35,
	     "a mode in octal digits"},
	    {"listen: { http: { path: /a, mode: 000 } }", 1, 35, "a mode in octal digits"},
	    {"listen: { http: { path: /a, mode: [] } }", 1, 35, "a mode in octal digits"},
	    {"listen: { http: { path: /a, mode: rw } }", 1, 35, "a mode in octal digits"},
	    {"listen: { http: { path: /a, group: \"\" } }", 1, 36, "group of 1 to 64 bytes"},
	    {"store:", 1, 7, "found nothing"},
	    {"store: \"\"", 1, 8, "found \"\""},
	    {"store: { a: b }", 1, 8, "found a mapping"},
	    {"store: /var/lib/weir", 1, 8,
	     "memory, file:PATH or a URL such as redis://127.0.0.1:6379/0, "
	     "found '/var/lib/weir'"},
	    {"store: http://me:secret@h/x@y?z", 1, 8, "found 'http://…@y?…'"},
	    {"store: \"redis://me:se\\ncret@h\"", 1, 8,
	     "control characters, found one at character 14"},
	    {"store: \"redis://me:se\\0cret@h\"", 1, 8, "4096 bytes without a NUL, found others"},
	    {"store_timeout: 0s", 1, 16, "a time from 1ms to a minute such as 20ms, found \"0s\""},
	    {"store_timeout: 61s", 1, 16, "a minute such as 20ms, found \"61s\""},
	    {"denied_cache: 2m", 1, 15, "a time of a minute at most such as 1s, or 0s, found \"2m\""},
	    {"store_poll: 50", 1, 13, "a time from 1ms to a minute such as 20ms, found \"50\""},
	    {"prefix: \"a{b\"", 1, 9, "a prefix without { and }"},
	    {"prefix: \"a}\"", 1, 9, "a prefix without { and }"},
	    {"prefix: 0123456789012345678901234567890123456789012345678901234567890123x", 1, 9,
	     "0 to 64 bytes"},
	    {"prefix: \"a\\0b\"", 1, 9, "without control characters, found \"a?b\""},
	    {"capacity: many", 1, 11, "a whole number from 1 to 4294967296, found \"many\""},
	    {"limits: []", 1, 9, "a mapping of names to limits, found a list"},
	    {"limits:", 1, 8, "found nothing"},
	    {"limits: { a: 5/s }", 1, 14, "a limit such as"},
	    {"limits: { \"\": {} }", 1, 11, "a name of 1 to 64 bytes"},
	    {"limits: { \"a\\nb\": {} }", 1, 11, "without control characters"},
	    {"limits: { [a]: {} }", 1, 11, "a name, found a list"},
	    {"limits: { aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa: {} }", 1, 11,
	     "a name of 1 to 64 bytes"},
	    {"rules: {}", 1, 8, "a list of rules, found a mapping"},
	    {"rules: [a]", 1, 9, "a rule such as"},
	    {"rules: [{ answer: deny, match: [a] }]", 1, 32, "a mapping of attributes"},
	    {"rules: [{ answer: deny, match: { a: [[b]] } }]", 1, 38, "a value, found a list"},
	    {"rules: [{ answer: deny, match: { a: [] } }]", 1, 37, "at least one value"},
	    {"rules: [{ answer: deny, match: { a: } }]", 1, 37, "a value, found nothing"},
	    {"rules: [{ answer: deny, result: [a] }]", 1, 33, "a mapping of fields"},
	    {"rules: [{ limits: a }]", 1, 19, "a list of limits"},
	    {"rules: [{ limits: [] }]", 1, 19, "at least one limit, found an empty list"},
	    {"trusted_proxies: 10.0.0.0/8", 1, 18, "a list of addresses"},
	    {"trusted_proxies: [10.0.0.0/33]", 1, 19, "an address, 10.0.0.0/8"},
	    {"protected: 10.0.0.0/8", 1, 12, "yes, no or a list of addresses, found \"10.0.0.0/8\""},
	    {"protected: {}", 1, 12, "yes, no or a list of addresses, found a mapping"},
	    {"protected: [localhost]", 1, 13, "an address, 10.0.0.0/8"},
	    {"denials: { rotate: 7999 }", 1, 20, "a size from 8kB to 1GB such as 64MB, found"},
	    {"denials: { rotate: 64mb }", 1, 20, "a size from 8kB to 1GB such as 64MB, found"},
	    {"denials: { rotate: MB }", 1, 20, "a size from 8kB to 1GB"},
	    {"denials: { rotate: 99999999999999999999GB }", 1, 20, "a size from 8kB to 1GB"},
	    {"denials: { rotate: 1001MB }", 1, 20, "a size from 8kB to 1GB"},
	    {"denials: { files: 0 }", 1, 19, "1 to 100"},
	    {"denials: { file: \"\" }", 1, 18, ""},
	    {"denials: { attributes: path }", 1, 24, "rule, none or a list of attributes, found"},
	    {"denials: { attributes: {} }", 1, 24,
	     "rule, none or a list of attributes, found a mapping"},
	    {"denials: { attributes: [path, [a]] }", 1, 31, "a name"},
	    {"denials: { attributes: [path, path] }", 1, 31, "path"},
	    {"hosts: weir.example.com", 1, 8, "a list of names"},
	    {"hosts: [\"weir.example.com:80\"]", 1, 9, "such as limits.example.com, without a port"},
	    {"hosts: [weir, \"*\"]", 1, 15, "such as limits.example.com"},
	    {"hosts: [\"\"]", 1, 9, "such as limits.example.com"},
	    {"hosts: [weir.]", 1, 9, "such as limits.example.com"},
	    {"hosts: [[weir]]", 1, 9, "such as limits.example.com"},
	};

	(void)state;
	ASSERT_ALL_REFUSED(cases, WEIR_EINVAL);
}

static void impossible_values_are_refused(void **state)
{
	static const struct bad cases[] = {
	    {"sync: 5", 1, 7, "expected a number and one of ms s m h d w, such as 1s, found \"5\""},
	    {"sync: 0s", 1, 7, "expected a number and one of ms s m h d w, such as 1s, found \"0s\""},
	    {"connections: 0", 1, 14, "found \"0\""},
	    {"idle: { http: 0 }", 1, 15, "expected a number and one of ms s m h d w"},
	    {"idle: { grpc: 1s }", 1, 9, "idle (http, resp), found \"grpc\""},
	    {"capacity: 0", 1, 11, "found \"0\""},
	    {"capacity: -1", 1, 11, "found \"-1\""},
	    {"capacity: 99999999999999999999", 1, 11, "found \"99999999999999999999\""},
	    {"nodes: 65537", 1, 8, "from 1 to 65536"},
	    {"ipv6_prefix: 0", 1, 14, "from 1 to 128, found \"0\""},
	    {"ipv6_prefix: 129", 1, 14, "from 1 to 128, found \"129\""},
	    {"retry_jitter: 1.5", 1, 15, "expected a number from 0 to 1 such as 0.25, found \"1.5\""},
	    {"ipv6_prefix: /64", 1, 14, "from 1 to 128, found \"/64\""},
	    {"limits: { a: { algorithm: token_bucket, rate: 5/s } }\n"
	     "rules: [{ limits: [a], key: [ip], ipv6_prefix: 129 }]",
	     2, 48, "from 1 to 128, found \"129\""},
	    {"limits: { a: { algorithm: token_bucket, rate: 5/s } }\n"
	     "rules: [{ limits: [a], priority: 10 }]",
	     2, 34, "a whole number from 0 to 9, found \"10\""},
	    {"limits: { a: { algorithm: token_bucket, rate: 5/s } }\n"
	     "rules: [{ limits: [a], priority: high }]",
	     2, 34, "from 0 to 9, found \"high\""},
	    {"limits: { a: { algorithm: token_bucket } }", 1, 14, "rate in token_bucket, found none"},
	    {"limits: { a: { rate: 5/s } }", 1, 14, "algorithm in a limit, found none"},
	    {"limits: { a: { algorithm: bucket, rate: 5/s } }", 1, 27,
	     "token_bucket, leaky_bucket, fixed_window, resetting_bucket, sliding_window, sliding_log, "
	     "pacer, leaky_queue, random, …, found \"bucket\""},
	    {"limits: { a: { algorithm: breaker, failure_rate: 0.5 } }", 1, 50,
	     "a part of the calls from 1% to 100% such as 50%"},
	    {"limits: { a: { algorithm: breaker, window: 1s, calls: 9 } }", 1, 44,
	     "expected this or calls, found both"},
	    {"limits: { a: { algorithm: breaker, failures: 3, minimum: 9 } }", 1, 58,
	     "expected this or failures, found both"},
	    {"limits: { a: { algorithm: breaker, failure_rate: 9%, failures: 3 } }", 1, 50,
	     "expected this or failures, found both"},
	    {"limits: { a: { algorithm: breaker, failures: 0 } }", 1, 46,
	     "a whole number from 1 to 1000000, found \"0\""},
	    {"limits: { a: { algorithm: concurrency } }", 1, 14, "max in concurrency, found none"},
	    {"limits: { a: { algorithm: concurrency, max: 10001 } }", 1, 45,
	     "a whole number from 1 to 10000, found \"10001\""},
	    {"limits: { a: { algorithm: concurrency, max: 1, lease: 0s } }", 1, 55, "a time from 1ms"},
	    {"limits: { a: { algorithm: concurrency, max: 1, rate: 5/s } }", 1, 48, "found \"rate\""},
	    {"limits: { a: { algorithm: sliding_window, rate: 5/s, slots: 0 } }", 1, 61,
	     "a whole number from 1 to 1000, found \"0\""},
	    {"limits: { a: { algorithm: sliding_window, rate: 5/s,\n slots: 1001 } }", 2, 9,
	     "a whole number from 1 to 1000, found \"1001\""},
	    {"limits: { a: { algorithm: sliding_window, rate: 5/month } }", 1, 49, "fixed length"},
	    {"limits: { a: { algorithm: sliding_log, rate: 10001/s } }", 1, 46,
	     "1 to 10000, found 10001"},
	    {"limits: { a: { algorithm: token_bucket, rate: 5 } }", 1, 47, "a rate"},
	    {"limits: { a: { algorithm: token_bucket, rate: 0/s } }", 1, 47, "found \"0/s\""},
	    {"limits: { a: { algorithm: token_bucket, rate: -5/s } }", 1, 47, "found \"-5/s\""},
	    {"limits: { a: { algorithm: token_bucket, rate: 5000000000/s } }", 1, 47,
	     "found 5000000000"},
	    {"limits: { a: { algorithm: token_bucket, rate: 5/month } }", 1, 47, "fixed length"},
	    {"limits: { a: { algorithm: resetting_bucket, rate: 5/367d } }", 1, 51, "a year at most"},
	    {"limits: { a: { algorithm: token_bucket, rate: 5/s, burst: 0 } }", 1, 59,
	     "from 1 to 4294967296, found \"0\""},
	    {"limits: { a: { algorithm: token_bucket, rate: 1/d, burst: 4294967296 } }", 1, 59,
	     "refilled within"},
	    {"limits: { a: { algorithm: token_bucket, rate: 1/s, burst: 4294967296 } }", 1, 59,
	     "refilled within 16 years"},
	    {"limits: { a: { algorithm: pacer, rate: 5/s, slack: -1 } }", 1, 52,
	     "a whole number from 0 to 4294967295, found \"-1\""},
	    {"limits: { a: { algorithm: pacer, rate: 1/d, slack: 6000 } }", 1, 52, "refilled within"},
	    {"limits: { a: { algorithm: pacer, rate: 5/s, max_wait: 30 } }", 1, 55,
	     "a time of a year at most such as 30s or 100ms, found \"30\""},
	    {"limits: { a: { algorithm: pacer, rate: 5/s, max_wait: 1month } }", 1, 55, "a time"},
	    {"limits: { a: { algorithm: pacer, rate: 5/s, max_wait: 367d } }", 1, 55, "a time"},
	    {"limits: { a: { algorithm: leaky_queue, rate: 5/s, max_wait: 99999999999999999999w } }", 1,
	     61, "a time"},
	    {"limits: { a: { algorithm: base, rate: 1/5s } }", 1, 14, "base in base, found none"},
	    {"limits: { a: { algorithm: base, base: 10 } }", 1, 14, "rate in base, found none"},
	    {"limits: { a: { algorithm: base, base: 0, rate: 1/5s } }", 1, 39,
	     "a whole number from 1 to 4294967296, found \"0\""},
	    {"limits: { a: { algorithm: base, base: 4294967295, rate: 3/5s } }", 1, 39,
	     "1 to 4294967294, found 4294967295"},
	    {"limits: { a: { algorithm: base, base: 10, rate: 1/month } }", 1, 49, "fixed length"},
	    {"limits: { a: { algorithm: base, base: 10, rate: 1/5s, timezone: Asia/Shanghia } }", 1, 65,
	     "found \"Asia/Shanghia\""},
	    {"limits: { a: { algorithm: token_bucket, base: 10, rate: 1/5s } }", 1, 41,
	     "found \"base\""},
	    {"limits: { a: { algorithm: random } }", 1, 14, "deny in random, found none"},
	    {"limits: { a: { algorithm: random, deny: 1.1 } }", 1, 41,
	     "a number from 0 to 1 such as 0.25, found \"1.1\""},
	    {"limits: { a: { algorithm: random, deny: -0 } }", 1, 41, "a number from 0 to 1"},
	    {"limits: { a: { algorithm: random, deny: 0, retry: 0s } }", 1, 51,
	     "a time from 1ms to a year such as 1s or 100ms, found \"0s\""},
	    {"limits: { a: { algorithm: fixed_window, rate: 5/d, timezone: Asia/Nowhere } }", 1, 62,
	     ""},
	    {"limits: { a: { algorithm: fixed_window, rate: 5/d, timezone: ../../passwd } }", 1, 62,
	     ""},
	    {"limits: { a: { algorithm: fixed_window, rate: 5/d, align: no } }", 1, 59,
	     "align to be one of calendar, first_request, found \"no\""},
	    {"limits: { a: { algorithm: fixed_window, rate: 5/w, week_start: mon } }", 1, 64, "monday"},
	    {"rules: [{ answer: perhaps }]", 1, 19, "answer to be one of allow, deny"},
	    {"rules: [{ answer: deny, mode: off }]", 1, 31, "enforce, shadow"},
	    {"limits: { a: { algorithm: token_bucket, rate: 5/s } }\nrules: [{ limits: [b] }]", 2, 20,
	     "the name of a limit (a), found \"b\""},
	    {"rules: [{ limits: [b] }]", 1, 20, "(there are none)"},
	};

	(void)state;
	ASSERT_ALL_REFUSED(cases, WEIR_EINVAL);
}

static void parameters_of_another_algorithm_are_refused(void **state)
{
	static const struct bad cases[] = {
	    {"limits: { a: { algorithm: fixed_window, rate: 5/s, burst: 5 } }", 1, 52,
	     "fixed_window (algorithm, rate, align, timezone, week_start, on_store_failure, store, "
	     "chunk)"},
	    {"limits: { a: { algorithm: token_bucket, rate: 5/s, timezone: UTC } }", 1, 52,
	     "token_bucket"},
	    {"limits: { a: { algorithm: token_bucket, rate: 5/s, capacity: 5 } }", 1, 52,
	     "token_bucket"},
	    {"limits: { a: { algorithm: leaky_bucket, rate: 5/s, burst: 5 } }", 1, 52, "capacity"},
	    {"limits: { a: { align: calendar, algorithm: resetting_bucket, rate: 5/s } }", 1, 16,
	     "resetting_bucket (algorithm, rate, on_store_failure, store, chunk)"},
	    {"limits: { a: { algorithm: sliding_log, rate: 5/s, slots: 10 } }", 1, 51,
	     "sliding_log (algorithm, rate, keys, on_store_failure, store), found \"slots\""},
	    {"limits: { a: { algorithm: sliding_window, rate: 5/s, burst: 10 } }", 1, 54,
	     "sliding_window (algorithm, rate, slots, keys, on_store_failure, store)"},
	    {"limits: { a: { algorithm: random, deny: 0.5, rate: 5/s } }", 1, 46,
	     "random (algorithm, deny, retry, on_store_failure), found \"rate\""},
	    {"limits: { a: { algorithm: leaky_queue, rate: 5/s, slack: 1 } }", 1, 51,
	     "leaky_queue (algorithm, rate, capacity, max_wait, on_store_failure, store), found "
	     "\"slack\""},
	    {"limits: { a: { algorithm: token_bucket, rate: 5/s, keys: 10 } }", 1, 52,
	     "token_bucket (algorithm, rate, burst, on_store_failure, store, chunk), found \"keys\""},
	    {"limits: { a: { algorithm: fixed_window, rate: 5/d, align: first_request,\n"
	     " timezone: UTC } }",
	     2, 12, "calendar windows only"},
	    {"limits: { a: { algorithm: token_bucket, rate: 5/s, store: file:/state } }", 1, 59,
	     "memory or a URL such as redis://127.0.0.1:6379/0, found a file"},
	    {"limits: { a: { algorithm: token_bucket, rate: 5/s, store: [a] } }", 1, 59,
	     "found a list"},
	    {"limits: { a: { algorithm: random, deny: 0.5, store: memory } }", 1, 46,
	     "found \"store\""},
	    {"limits: { a: { algorithm: sliding_log, rate: 5/s, chunk: 5% } }", 1, 51,
	     "found \"chunk\""},
	    {"limits: { a: { algorithm: sliding_counter, rate: 5/s, chunk: 5% } }", 1, 55,
	     "found \"chunk\""},
	    {"limits: { a: { algorithm: base, base: 3, rate: 5/s, chunk: 5% } }", 1, 53,
	     "found \"chunk\""},
	    {"limits: { a: { algorithm: concurrency, max: 5, chunk: 5% } }", 1, 48, "found \"chunk\""},
	    {"limits: { a: { algorithm: pacer, rate: 5/s, chunk: 5% } }", 1, 45, "found \"chunk\""},
	    {"limits: { a: { algorithm: warm_up, rate: 5/s, chunk: 5% } }", 1, 47, "found \"chunk\""},
	    {"limits: { a: { algorithm: token_bucket, rate: 5/s, chunk: 5 } }", 1, 59,
	     "a part of the quota from 1% to 100% such as 5%, found \"5\""},
	    {"limits: { a: { algorithm: token_bucket, rate: 5/s, chunk: 0% } }", 1, 59, "found \"0%\""},
	    {"limits: { a: { algorithm: token_bucket, rate: 5/s, chunk: 101% } }", 1, 59, "found"},
	    {"limits: { a: { algorithm: token_bucket, rate: 5/s, chunk: \"%\" } }", 1, 59,
	     "found \"%\""},
	    {"limits: { a: { algorithm: token_bucket, rate: 5/s, chunk: [5%] } }", 1, 59, "a list"},
	};

	(void)state;
	ASSERT_ALL_REFUSED(cases, WEIR_EINVAL);
}

static void a_rule_has_limits_or_an_answer(void **state)
{
	static const struct bad cases[] = {
	    {"rules:\n  - name: x\n    match: { a: 1 }", 2, 5,
	     "limits or answer in a rule, found neither"},
	    {"rules: [{ answer: deny, limits: [a] }]", 1, 25, "a rule with an answer (name,"},
	    {"limits: { a: { algorithm: token_bucket, rate: 5/s } }\n"
	     "rules: [{ limits: [a], key: [user], ipv6_prefix: 56 }]",
	     2, 50, "ip in the key beside ipv6_prefix"},
	    {"rules: [{ answer: deny, match: { ip: 1.1.1.1 }, path_variants: false }]", 1, 64,
	     "path in match or key beside path_variants"},
	    {"rules: [{ answer: deny, match: { path: /a }, path_variants: 1 }]", 1, 61,
	     "one of yes, no, true, false, found \"1\""},
	    {"rules: [{ answer: deny, ipv6_prefix: 56 }]", 1, 25, "found \"ipv6_prefix\""},
	    {"rules: [{ answer: deny, key: [ip] }]", 1, 25, "found \"key\""},
	    {"rules: [{ answer: deny, priority: 1 }]", 1, 25, "found \"priority\""},
	};

	(void)state;
	ASSERT_ALL_REFUSED(cases, WEIR_EINVAL);
}

static void attributes_that_never_come_and_too_many_are_refused(void **state)
{
	static const struct bad cases[] = {
	    {"rules: [{ answer: deny, match: { header.: 1 } }]", 1, 34, "header.NAME, cookie.NAME or"},
	    {"rules: [{ answer: deny, match: { \"header.a b\": 1 } }]", 1, 34, "found \"header.a b\""},
	    {"rules: [{ answer: deny, match: { header.ä: 1 } }]", 1, 34, "found \"header.ä\""},
	    {"rules: [{ answer: deny, match: { cookie.: 1 } }]", 1, 34, "found \"cookie.\""},
	    {"limits: { a: { algorithm: token_bucket, rate: 5/s } }\n"
	     "rules: [{ limits: [a], key: [query.] }]",
	     2, 30, "found \"query.\""},
	};
	char yaml[4096] = "rules:\n- answer: deny\n  match:\n";
	size_t len = strlen(yaml);

	(void)state;
	ASSERT_ALL_REFUSED(cases, WEIR_EINVAL);
	for (int i = 0; i <= 60; i++)
		len += (size_t)snprintf(yaml + len, sizeof yaml - len, "    header.x-%d: 1\n", i);
	assert_refused(slice_of(yaml), WEIR_EINVAL, 64, 5, "at most 60 attributes header.NAME");
}

static void results_have_no_names_of_our_own(void **state)
{
	static const struct bad cases[] = {
	    {"rules: [{ answer: deny, result: { code: 1, allowed: true } }]", 1, 44,
	     "the answer itself does not use (allowed, limit, "},
	    {"rules:\n- answer: deny\n  result:\n    Retry_After_MS: 0", 4, 5,
	     "degraded, rule, permit, error), found \"Retry_After_MS\""},
	    {"rules: [{ answer: deny, result: { \"err\\x6fr\": {} } }]", 1, 35, "found \"error\""},
	};

	(void)state;
	ASSERT_ALL_REFUSED(cases, WEIR_EINVAL);
}

static void matchers_that_mean_nothing_are_refused(void **state)
{
	static const struct bad cases[] = {
	    {"rules: [{ answer: deny, match: { ip: localhost } }]", 1, 38, "an address"},
	    {"rules: [{ answer: deny, match: { ip: \"\" } }]", 1, 38, "an address"},
	    {"rules: [{ answer: deny, match: { ip: \"!\" } }]", 1, 38, "a value after !, found \"!\""},
	    {"rules: [{ answer: deny, match: { ip: \"!x\" } }]", 1, 38, "an address"},
	    {"rules: [{ answer: deny, match: { ip: 1-5 } }]", 1, 38, "an address"},
	    {"rules: [{ answer: deny, match: { ip: \">5\" } }]", 1, 38, "an address"},
	    {"rules: [{ answer: deny, match: { ip: 10.0.0.0/33 } }]", 1, 38,
	     "a range of addresses such as 10.0.0.0/8 or 10.0.0.1-10.0.0.9, found \"10.0.0.0/33\""},
	    {"rules: [{ answer: deny, match: { path: /a*/b } }]", 1, 40, "expected * alone"},
	    {"rules: [{ answer: deny, match: { path: /a** } }]", 1, 40, "expected * alone"},
	    {"rules: [{ answer: deny, match: { host: \"*.com\" } }]", 1, 40, "expected * alone"},
	    {"rules: [{ answer: deny, match: { host: a* } }]", 1, 40, "expected * alone"},
	    {"rules: [{ answer: deny, match: { a: \">x\" } }]", 1, 37,
	     "a whole number of 64 bits after >, found \">x\"; write a backslash in front"},
	    {"rules: [{ answer: deny, match: { a: \"<\" } }]", 1, 37, "after <, found \"<\""},
	    {"rules: [{ answer: deny, match: { a: \">=5\" } }]", 1, 37, "after >, found \">=5\""},
	    {"rules: [{ answer: deny, match: { a: 5-1 } }]", 1, 37, "such as 1-5 of whole numbers"},
	    {"rules: [{ answer: deny, match: { a: \"!!x\" } }]", 1, 37, "a value after !"},
	    {"rules: [{ answer: deny, match: { a: [x, \"!y\"] } }]", 1, 41,
	     "! before all values of a list or before none, found \"!y\""},
	    {"rules: [{ answer: deny, match: { a: [\"!x\", y] } }]", 1, 44, "before none, found \"y\""},
	    {"rules: [{ answer: deny, match: { a: { not: [b, \"!c\"] } } }]", 1, 48,
	     "a value without ! under not"},
	    {"rules: [{ answer: deny, match: { a: { not: [] } } }]", 1, 44, "at least one value"},
	    {"rules: [{ answer: deny, match: { a: { all: [] } } }]", 1, 44, "at least one value"},
	    {"rules: [{ answer: deny, match: { a: { all: x } } }]", 1, 44,
	     "a list of values, lists and"},
	    {"rules: [{ answer: deny, match: { a: {} } }]", 1, 37, "found an empty mapping"},
	    {"rules: [{ answer: deny, match: { a: { is: x } } }]", 1, 39,
	     "a value (in, not_in, not, all), found \"is\""},
	    {"rules: [{ answer: deny, match: { a: [{ not: x }] } }]", 1, 38,
	     "a value, found a mapping"},
	    {"rules: [{ answer: deny, match: { a: \"in:f\" } }]", 1, 37,
	     "a mapping such as { in: FILE }, found \"in:f\"; write"},
	    {"rules: [{ answer: deny, match: { a: \"not_in: f\" } }]", 1, 37,
	     "a mapping such as { in: FILE }, found \"not_in: f\""},
	    {"rules: [{ answer: deny, match: { a: { in: \"\" } } }]", 1, 43, "the name of a file"},
	    {"rules: [{ answer: deny, match: { a: { in: [[x]] } } }]", 1, 44, "the name of a file"},
	    {"rules: [{ answer: deny, match: { a: { in: [/no/such] } } }]", 1, 44,
	     "a dictionary, found \"/no/such\": expected a readable file, found: No such file"},
	};

	(void)state;
	ASSERT_ALL_REFUSED(cases, WEIR_EINVAL);
}

static void rules_with_limits_answer_in_their_order_only(void **state)
{
	static const struct bad cases[] = {
	    {"limits: { l: { algorithm: token_bucket, rate: 5/s } }\n"
	     "rules: [{ answer: allow, limits: [l] }]",
	     2, 26,
	     "a rule with an answer (name, answer, path_variants, match, mode, ip_numbers, result), "
	     "found \"limits\""},
	    {"limits: { l: { algorithm: token_bucket, rate: 5/s } }\n"
	     "rules: [{ answer: deny, limits: [l] }]\norder: first",
	     2, 19, "expected allow beside limits, found \"deny\""},
	    {"order: some", 1, 8, "found \"some\""},
	};

	(void)state;
	ASSERT_ALL_REFUSED(cases, WEIR_EINVAL);
}

static void feedback_goes_with_a_log_alone(void **state)
{
	static const struct bad cases[] = {
	    {"limits: { l: { algorithm: token_bucket, rate: 5/s }, m: { algorithm: sliding_log, rate: "
	     "5/s } }\n"
	     "rules: [{ key: [ip], limits: [m], feedback: [1, 2] },\n"
	     "        { name: r, key: [ip], limits: [m, l], feedback: [1, 0] }]",
	     3, 17, "expected limits of sliding_log beside the feedback of rule \"r\", found \"l\""},
	};

	(void)state;
	ASSERT_ALL_REFUSED(cases, WEIR_EINVAL);
}

static void yaml_that_hides_things_is_refused(void **state)
{
	static const struct bad cases[] = {
	    {"limits: &a {}\nrules: *a", 2, 8, "written out, found an alias"},
	    {"a: [[&a x], *a]", 1, 13, "found an alias"},
	    {"*a : 1", 1, 1, "found an alias"},
	    {"rules: [{ answer: deny, match: { a: !x } }]", 1, 37, "no tag, found one"},
	    {"nodes: !!int 1", 1, 8, "no tag"},
	    {"nodes: 1\n---\nnodes: 2", 2, 1, "one document, found a second one"},
	    {"a: {? [b] : c}", 1, 7, "expected a name"},
	};

	(void)state;
	ASSERT_ALL_REFUSED(cases, WEIR_EINVAL);
}

static void what_is_no_yaml_is_refused(void **state)
{
	static const struct bad cases[] = {
	    {"a: [", 2, 1, "expected YAML, found: "},
	    {"nodes: 1\n\tx: 1", 2, 1, "expected blanks to indent by, found a tab"},
	    {"a: [&a x, &a y]", 1, 11, "found duplicate anchor"},
	    {"nodes: 1\n# \xc3\xa4 \xff", 2, 5, "UTF-8"},
	    {"prefix: a\x01", 1, 10, "control characters"},
	};
	struct buffer deep = {0};

	(void)state;
	ASSERT_ALL_REFUSED(cases, WEIR_ESYNTAX);
	assert_refused(SLICE("nodes: 1\0"), WEIR_ESYNTAX, 1, 9, "control characters");
	assert_refused(SLICE("\xff\xfen\0o\0"), WEIR_ESYNTAX, 1, 1, "UTF-8");
	for (int i = 0; i < 1 << 20; i++)
		buffer_add_text(&deep, "[");
	/* Left to libyaml alone this would take hours. */
	assert_refused((struct slice){deep.data, deep.len}, WEIR_EINVAL, 1, 33, "at most 32 levels");
	buffer_free(&deep);
}

static void long_lists_of_names_are_cut(void **state)
{
	(void)state;
	for (int width = 2; width < 40; width++) {
		struct buffer yaml = {0};

		buffer_add_text(&yaml, "limits:\n");
		for (int i = 0; i < 80; i++)
			buffer_printf(&yaml, " %0*d: { algorithm: token_bucket, rate: 1/s }\n", width, i);
		buffer_add_text(&yaml, "rules: [{ limits: [x] }]\n");
		assert_refused((struct slice){yaml.data, yaml.len}, WEIR_EINVAL, 82, 20,
		               ", …), found \"x\"");
		buffer_free(&yaml);
	}
}

static void results_are_bounded(void **state)
{
	struct buffer yaml = {0};

	(void)state;
	buffer_add_text(&yaml, "rules: [{ answer: deny, result: { a: [");
	for (int i = 0; i < 5000; i++)
		buffer_add_text(&yaml, "1, ");
	buffer_add_text(&yaml, "1] } }]");
	assert_refused((struct slice){yaml.data, yaml.len}, WEIR_EINVAL, 1, 33, "at most 4096 bytes");
	buffer_free(&yaml);
}

static void files_are_bounded(void **state)
{
	size_t len = ((size_t)16 << 20) + 1;
	char *text = malloc(len);
	weir_config *config;
	struct weir_error error;

	(void)state;
	assert_non_null(text);
	memset(text, '#', len);
	assert_int_equal(weir_config_read_yaml(text, len, NULL, &config, &error), WEIR_ELONG);
	assert_null(config);
	assert_int_equal(weir_config_read_yaml(text, len - 1, NULL, &config, &error), 0);
	weir_config_close(config);
	free(text);
}

static void no_text_has_no_length(void **state)
{
	struct weir_error error;
	weir_config *config;

	(void)state;
	assert_refused((struct slice){NULL, 5}, WEIR_EINVAL, 0, 0, "a text of 5 bytes, found NULL");
	assert_int_equal(weir_config_read_yaml(NULL, 0, NULL, &config, &error), WEIR_OK);
	weir_config_close(config);
}

static void files_that_cannot_be_read_say_why(void **state)
{
	struct weir_error error;
	weir_config *config;

	(void)state;
	assert_int_equal(weir_config_read_file("/nonexistent/file", &config, &error), WEIR_EIO);
	assert_null(config);
	assert_string_equal(error.message,
	                    "expected a readable file, found: No such file or directory");
	assert_int_equal(weir_config_read_file("/", &config, &error), WEIR_EIO);
	assert_string_equal(error.message, "expected a readable file, found: Is a directory");
	assert_int_equal(weir_config_read_file("/nonexistent/file", &config, NULL), WEIR_EIO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(unknown_keys_are_refused),
	    cmocka_unit_test(duplicates_are_refused),
	    cmocka_unit_test(wrong_types_are_refused),
	    cmocka_unit_test(impossible_values_are_refused),
	    cmocka_unit_test(parameters_of_another_algorithm_are_refused),
	    cmocka_unit_test(a_rule_has_limits_or_an_answer),
	    cmocka_unit_test(attributes_that_never_come_and_too_many_are_refused),
	    cmocka_unit_test(results_have_no_names_of_our_own),
	    cmocka_unit_test(matchers_that_mean_nothing_are_refused),
	    cmocka_unit_test(rules_with_limits_answer_in_their_order_only),
	    cmocka_unit_test(feedback_goes_with_a_log_alone),
	    cmocka_unit_test(yaml_that_hides_things_is_refused),
	    cmocka_unit_test(what_is_no_yaml_is_refused),
	    cmocka_unit_test(long_lists_of_names_are_cut),
	    cmocka_unit_test(results_are_bounded),
	    cmocka_unit_test(files_are_bounded),
	    cmocka_unit_test(no_text_has_no_length),
	    cmocka_unit_test(files_that_cannot_be_read_say_why),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
