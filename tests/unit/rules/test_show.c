/* Limits shown as the file has them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "rules/show.h"

#define TAIL ",\"on_store_failure\":\"local\""

static void limits_are_shown_as_written_with_their_defaults(void **state)
{
	static const char *const table[][2] = {
	    {"token_bucket, rate: 10/100ms, burst: 7",
	     "\"algorithm\":\"token_bucket\",\"rate\":\"10/100ms\",\"burst\":7" TAIL},
	    {"token_bucket, rate: 500/s, chunk: 07%, store: redis://u:p@h",
	     "\"algorithm\":\"token_bucket\",\"rate\":\"500/s\",\"burst\":500" TAIL ",\"chunk\":\"7%\""},
	    {"token_bucket, rate: 5/s", "\"algorithm\":\"token_bucket\",\"rate\":\"5/s\",\"burst\":5" TAIL},
	    {"leaky_bucket, rate: 5/60m, on_store_failure: open",
	     "\"algorithm\":\"leaky_bucket\",\"rate\":\"5/60m\",\"capacity\":5,"
	     "\"on_store_failure\":\"open\""},
	    {"fixed_window, rate: 5/month, timezone: Asia/Shanghai",
	     "\"algorithm\":\"fixed_window\",\"rate\":\"5/month\",\"align\":\"calendar\","
	     "\"timezone\":\"Asia/Shanghai\"" TAIL},
	    {"fixed_window, rate: 5/2w",
	     "\"algorithm\":\"fixed_window\",\"rate\":\"5/2w\",\"align\":\"calendar\","
	     "\"timezone\":\"UTC\",\"week_start\":\"monday\"" TAIL},
	    {"fixed_window, rate: 5/d, align: first_request",
	     "\"algorithm\":\"fixed_window\",\"rate\":\"5/d\",\"align\":\"first_request\"" TAIL},
	    {"sliding_window, rate: 5/m",
	     "\"algorithm\":\"sliding_window\",\"rate\":\"5/m\",\"slots\":10" TAIL},
	    {"sliding_window, rate: 5/m, slots: 1000",
	     "\"algorithm\":\"sliding_window\",\"rate\":\"5/m\",\"slots\":1000" TAIL},
	    {"sliding_log, rate: 5/h, keys: 7",
	     "\"algorithm\":\"sliding_log\",\"rate\":\"5/h\",\"keys\":7" TAIL},
	    {"sliding_log, rate: 10000/h", "\"algorithm\":\"sliding_log\",\"rate\":\"10000/h\"" TAIL},
	    {"pacer, rate: 5/s",
	     "\"algorithm\":\"pacer\",\"rate\":\"5/s\",\"slack\":10,\"max_wait\":\"30s\"" TAIL},
	    {"pacer, rate: 5/s, slack: 0, max_wait: 120000ms",
	     "\"algorithm\":\"pacer\",\"rate\":\"5/s\",\"slack\":0,\"max_wait\":\"2m\"" TAIL},
	    {"leaky_queue, rate: 5/s, max_wait: 0m",
	     "\"algorithm\":\"leaky_queue\",\"rate\":\"5/s\",\"capacity\":5,\"max_wait\":\"0s\"" TAIL},
	    {"leaky_queue, rate: 5/s, capacity: 7",
	     "\"algorithm\":\"leaky_queue\",\"rate\":\"5/s\",\"capacity\":7" TAIL},
	    {"random, deny: 2.50e-1",
	     "\"algorithm\":\"random\",\"deny\":0.25,\"retry\":\"1s\"" TAIL},
	    {"random, deny: 1.000, retry: 90s",
	     "\"algorithm\":\"random\",\"deny\":1,\"retry\":\"90s\"" TAIL},
	    {"random, deny: 0.001", "\"algorithm\":\"random\",\"deny\":0.001,\"retry\":\"1s\"" TAIL},
	    {"sliding_counter, rate: 5/m", "\"algorithm\":\"sliding_counter\",\"rate\":\"5/m\"" TAIL},
	    {"concurrency, max: 7",
	     "\"algorithm\":\"concurrency\",\"max_wait\":\"30s\",\"max\":7,\"queue\":0,\"lease\":\"30s\","
	     "\"retry\":\"1s\"" TAIL},
	    {"concurrency, max: 10000, queue: 5, max_wait: 0s, lease: 1m, retry: 3s",
	     "\"algorithm\":\"concurrency\",\"max_wait\":\"0s\",\"max\":10000,\"queue\":5,"
	     "\"lease\":\"1m\",\"retry\":\"3s\"" TAIL},
	    {"base, base: 10, rate: 1/5s",
	     "\"algorithm\":\"base\",\"base\":10,\"rate\":\"1/5s\",\"timezone\":\"UTC\"" TAIL},
	    {"base, base: 1, rate: 2/m, timezone: Asia/Shanghai",
	     "\"algorithm\":\"base\",\"base\":1,\"rate\":\"2/m\",\"timezone\":\"Asia/Shanghai\"" TAIL},
	    {"resetting_bucket, rate: 1/3h", "\"algorithm\":\"resetting_bucket\",\"rate\":\"1/3h\"" TAIL},
	};

	(void)state;
	for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
		struct buffer yaml = {0}, out = {0};
		struct weir_config *config;

		buffer_printf(&yaml, "limits: { l: { algorithm: %s } }", table[i][0]);
		assert_int_equal(weir_config_read_yaml(yaml.data, yaml.len, NULL, &config, NULL), WEIR_OK);
		rules_show_limit(&config->limits[0], &out);
		buffer_add(&out, "", 1);
		assert_string_equal(out.data, table[i][1]);
		buffer_free(&out);
		buffer_free(&yaml);
		weir_config_close(config);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(limits_are_shown_as_written_with_their_defaults),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
