/* Tests the numbers of reloads that requests ask for: when each is done, and with which message. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "server/config/reload_requests.h"

static void test_a_request_is_done_by_the_first_reload_that_begins_later(void **state)
{
	struct reload_requests requests = {0};
	struct reload_result result;
	uint64_t first, second;

	(void)state;
	assert_int_equal(reload_requests_open(&requests), WEIR_OK);
	assert_false(reload_requests_begin(&requests));
	first = reload_requests_ask(&requests);
	assert_true(reload_requests_begin(&requests));
	second = reload_requests_ask(&requests);
	reload_requests_end(&requests, &(struct reload_result){"wrong", "\"tls\""});
	assert_true(reload_requests_is_done(&requests, first, &result));
	assert_string_equal(result.message, "wrong");
	assert_string_equal(result.restart_needed, "\"tls\"");
	assert_false(reload_requests_is_done(&requests, second, &result));
	assert_true(reload_requests_begin(&requests));
	reload_requests_end(&requests, &(struct reload_result){0});
	assert_true(reload_requests_is_done(&requests, second, &result));
	assert_string_equal(result.message, "");
	reload_requests_close(&requests);
}

static void test_after_the_last_reload_none_waits(void **state)
{
	struct reload_requests requests = {0};
	struct reload_result result;
	uint64_t done, early, late;

	(void)state;
	assert_int_equal(reload_requests_open(&requests), WEIR_OK);
	done = reload_requests_ask(&requests);
	assert_true(reload_requests_begin(&requests));
	reload_requests_end(&requests, &(struct reload_result){0});
	early = reload_requests_ask(&requests);
	assert_false(reload_requests_is_done(&requests, early, &result));
	reload_requests_stop(&requests);
	late = reload_requests_ask(&requests);
	assert_true(reload_requests_is_done(&requests, done, &result));
	assert_string_equal(result.message, "");
	assert_true(reload_requests_is_done(&requests, early, &result));
	assert_string_equal(result.message, "not reloaded: the server stops");
	assert_true(reload_requests_is_done(&requests, late, &result));
	assert_string_equal(result.message, "not reloaded: the server stops");
	reload_requests_close(&requests);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_a_request_is_done_by_the_first_reload_that_begins_later),
	    cmocka_unit_test(test_after_the_last_reload_none_waits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
