/* Tests the numbers of reloads that requests ask for: when each is done, and with which message. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "server/config/reload_requests.h"

static void test_a_request_is_done_by_the_first_reload_that_begins_later(void **state)
{
	struct reload_requests requests;
	char message[RELOAD_MESSAGE_MAX];
	uint64_t first, second;

	(void)state;
	assert_int_equal(reload_requests_open(&requests), WEIR_OK);
	assert_false(reload_requests_begin(&requests));
	first = reload_requests_ask(&requests);
	assert_true(reload_requests_begin(&requests));
	second = reload_requests_ask(&requests);
	reload_requests_end(&requests, "wrong");
	assert_true(reload_requests_is_done(&requests, first, message));
	assert_string_equal(message, "wrong");
	assert_false(reload_requests_is_done(&requests, second, message));
	assert_true(reload_requests_begin(&requests));
	reload_requests_end(&requests, "");
	assert_true(reload_requests_is_done(&requests, second, message));
	assert_string_equal(message, "");
	reload_requests_close(&requests);
}

static void test_after_the_last_reload_none_waits(void **state)
{
	struct reload_requests requests;
	char message[RELOAD_MESSAGE_MAX];
	uint64_t done, early, late;

	(void)state;
	assert_int_equal(reload_requests_open(&requests), WEIR_OK);
	done = reload_requests_ask(&requests);
	assert_true(reload_requests_begin(&requests));
	reload_requests_end(&requests, "");
	early = reload_requests_ask(&requests);
	assert_false(reload_requests_is_done(&requests, early, message));
	reload_requests_stop(&requests);
	late = reload_requests_ask(&requests);
	assert_true(reload_requests_is_done(&requests, done, message));
	assert_string_equal(message, "");
	assert_true(reload_requests_is_done(&requests, early, message));
	assert_string_equal(message, "not reloaded: the server stops");
	assert_true(reload_requests_is_done(&requests, late, message));
	assert_string_equal(message, "not reloaded: the server stops");
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
