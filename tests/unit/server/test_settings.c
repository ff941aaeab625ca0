#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "rules/model.h"
#include "server/config/settings.h"

static char *environment(const char *name)
{
	if (strcmp(name, "WEIR_HTTP") == 0)
		return "127.0.0.1:2";
	if (strcmp(name, "WEIR_CAPACITY") == 0)
		return "22";
	return strcmp(name, "WEIR_RESP") == 0 ? "" : NULL;
}

static void flags_beat_the_environment_which_beats_the_file_which_beats_defaults(void **state)
{
	struct weir_config file = {.listen_http.address.text = "127.0.0.1:4",
	                           .listen_resp.address.text = "127.0.0.1:3",
	                           .capacity = 33};
	struct weir_config empty = {0};
	struct settings settings = {.text = {[SETTING_HTTP] = "127.0.0.1:1"}};
	struct settings_plan plan;

	(void)state;
	settings_add_environment(&settings, environment);
	assert_int_equal(settings_resolve(&settings, &file, &plan, NULL), WEIR_OK);
	assert_int_equal(ntohs(plan.http.v4.sin_port), 1);
	assert_int_equal(ntohs(plan.resp.v4.sin_port), 3); /* an empty variable is not set */
	assert_int_equal(plan.capacity, 22);
	assert_int_equal(settings_resolve(&(struct settings){0}, &file, &plan, NULL), WEIR_OK);
	assert_int_equal(plan.capacity, 33);
	assert_int_equal(settings_resolve(&(struct settings){0}, &empty, &plan, NULL), WEIR_OK);
	assert_int_equal(ntohs(plan.http.v4.sin_port), 8080);
	assert_int_equal(ntohs(plan.resp.v4.sin_port), 6380);
	assert_int_equal(plan.capacity, 1000000);
	assert_true(plan.threads >= 1);
	assert_string_equal(plan.path, "");
	assert_int_equal(plan.sync_ns, 0);
	file = (struct weir_config){.store.text = "file:/var/lib/weir/state", .sync_ns = 5};
	assert_int_equal(settings_resolve(&(struct settings){0}, &file, &plan, NULL), WEIR_OK);
	assert_string_equal(plan.path, "/var/lib/weir/state");
	assert_int_equal(plan.capacity, 0); /* the capacity of the existing file */
	assert_int_equal(plan.sync_ns, 5);
	assert_int_equal(plan.owner, 0);
	assert_int_equal(plan.group, 0);
	file.store_owner = "nobody";
	file.store_group = "1234"; /* some groups have a number alone */
	assert_int_equal(settings_resolve(&(struct settings){0}, &file, &plan, NULL), WEIR_OK);
	assert_int_equal(plan.owner, 65534);
	assert_int_equal(plan.group, 1234);
	settings = (struct settings){.text = {[SETTING_SYNC] = "1s"}};
	assert_int_equal(settings_resolve(&settings, &file, &plan, NULL), WEIR_OK);
	assert_int_equal(plan.sync_ns, 1000000000);
}

static void impossible_values_are_refused_by_name(void **state)
{
	static const struct {
		enum setting setting;
		const char *text, *message;
	} bad[] = {
	    {SETTING_HTTP, "nowhere", "http: expected HOST:PORT"},
	    {SETTING_RESP, "127.0.0.1:70000", "resp: expected HOST:PORT"},
	    {SETTING_CAPACITY, "0", "capacity: expected 1 to"},
	    {SETTING_CAPACITY, "many", "found 'many'"},
	    {SETTING_THREADS, "-1", "threads: expected 1 to 256, found '-1'"},
	    {SETTING_THREADS, "257", "threads: expected 1 to 256, found '257'"},
	    {SETTING_STORE, "reddis", "store: expected memory, file:PATH or a URL such as redis://"},
	    {SETTING_STORE, "http://me:secret@h?password=x", "found 'http://…@h?…'"},
	    {SETTING_SYNC, "1",
	     "sync: expected a number and one of ms s m h d w, such as 1s, found '1'"},
	    {SETTING_STORE, "file:", "found 'file:'"},
	    {SETTING_GRPC, "127.0.0.1:1", "grpc: not supported yet"},
	};
	struct weir_config empty = {0};

	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		struct settings settings = {0};
		struct settings_plan plan;
		struct weir_error error = {0};

		settings.text[bad[i].setting] = bad[i].text;
		assert_true(settings_resolve(&settings, &empty, &plan, &error) < 0);
		assert_non_null(strstr(error.message, bad[i].message));
	}
}

static void unknown_accounts_are_refused_by_name(void **state)
{
	struct weir_config file = {.store_owner = "no-such-user"};
	struct settings_plan plan;
	struct weir_error error;

	(void)state;
	assert_int_equal(settings_resolve(&(struct settings){0}, &file, &plan, &error), WEIR_EINVAL);
	assert_string_equal(error.message,
	                    "store_owner: expected a user of this system, found 'no-such-user'");
	file = (struct weir_config){.store_group = "4294967295"}; /* this number means no group */
	assert_int_equal(settings_resolve(&(struct settings){0}, &file, &plan, &error), WEIR_EINVAL);
	assert_string_equal(error.message,
	                    "store_group: expected a group of this system, found '4294967295'");
	file = (struct weir_config){.listen_resp = {{"unix:/a", NULL, 3, 9}, .owner = "no-such-user"}};
	assert_int_equal(settings_resolve(&(struct settings){0}, &file, &plan, &error), WEIR_EINVAL);
	assert_string_equal(error.message,
	                    "resp: owner: expected a user of this system, found 'no-such-user'");
	assert_int_equal(error.line, 3);
	assert_int_equal(error.column, 9);
}

static void a_flag_takes_the_place_of_a_whole_listener(void **state)
{
	struct weir_config file = {.listen_http = {{.text = "unix:/a"}, 0660, "65534", "1234"}};
	struct settings settings = {.text = {[SETTING_HTTP] = "unix:/b"}};
	struct settings_plan plan;

	(void)state;
	assert_int_equal(settings_resolve(&(struct settings){0}, &file, &plan, NULL), WEIR_OK);
	assert_string_equal(plan.http.local.sun_path, "/a");
	assert_int_equal(plan.http.mode, 0660);
	assert_int_equal(plan.http.owner, 65534);
	assert_int_equal(plan.http.group, 1234);
	assert_int_equal(settings_resolve(&settings, &file, &plan, NULL), WEIR_OK);
	assert_string_equal(plan.http.local.sun_path, "/b");
	assert_int_equal(plan.http.mode + plan.http.owner + plan.http.group, 0);
}

static void the_log_is_text_unless_json_is_set(void **state)
{
	struct settings settings = {0};
	struct weir_error error = {0};
	enum log_format format = LOG_JSON;

	(void)state;
	assert_int_equal(settings_log_format(&settings, &format, NULL), WEIR_OK);
	assert_int_equal(format, LOG_TEXT);
	settings.text[SETTING_LOG_FORMAT] = "json";
	assert_int_equal(settings_log_format(&settings, &format, NULL), WEIR_OK);
	assert_int_equal(format, LOG_JSON);
	settings.text[SETTING_LOG_FORMAT] = "xml";
	assert_int_equal(settings_log_format(&settings, &format, &error), WEIR_EINVAL);
	assert_string_equal(error.message, "log-format: expected text or json, found 'xml'");
	assert_int_equal(format, LOG_TEXT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(flags_beat_the_environment_which_beats_the_file_which_beats_defaults),
	    cmocka_unit_test(impossible_values_are_refused_by_name),
	    cmocka_unit_test(a_flag_takes_the_place_of_a_whole_listener),
	    cmocka_unit_test(unknown_accounts_are_refused_by_name),
	    cmocka_unit_test(the_log_is_text_unless_json_is_set),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
