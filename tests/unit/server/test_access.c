/* Tests which requests are permitted, by class, peer and headers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "server/access/access.h"

#define LOCAL  "127.0.0.1"
#define REMOTE "10.1.2.3"

static const struct request_origin nothing_said;

/* Whether a request is permitted; otherwise the message contains `why`, unless that is NULL. */
static bool is_permitted(const struct weir_config *config, const char *peer,
                         enum request_class class, struct request_origin origin, const char *why)
{
	struct request request = {.kind = REQUEST_LIMIT, .class = class, .origin = &origin};
	struct weir_error error = {0};
	struct ip ip;
	int status;

	assert_true(ip_parse(slice_of(peer), &ip));
	status = access_check_origin(config, &ip, request.class, request.origin, &error);
	if (status == WEIR_OK)
		status = access_check_peer(config, &ip, request.class, request.origin, &error);
	assert_true(status == WEIR_OK || status == WEIR_EPERM);
	if (status == WEIR_OK || !why)
		return status == WEIR_OK;
	if (!strstr(error.message, why))
		fail_msg("expected '%s' in '%s'", why, error.message);
	/* the message is not truncated */
	assert_true(strlen(error.message) < sizeof error.message - 1);
	assert_true(access_matters(request.class, request.origin));
	return false;
}

static void only_this_machine_changes_and_administrates(void **state)
{
	static const char *const own[] = {"127.0.0.1", "127.255.255.254", "::1", "::ffff:127.0.0.2"};
	static const char *const others[] = {"10.1.2.3",
	                                     "128.0.0.1",
	                                     "126.255.255.255",
	                                     "::2",
	                                     "2001:db8:aaaa:bbbb:cccc:dddd:eeee:ffff",
	                                     "::127.0.0.1"};
	struct weir_config config = {0};

	(void)state;
	for (enum request_class class = REQUEST_FREE; class <= REQUEST_ADMIN; class ++) {
		for (size_t i = 0; i < sizeof own / sizeof *own; i++)
			assert_true(is_permitted(&config, own[i], class, nothing_said, NULL));
		for (size_t i = 0; i < sizeof others / sizeof *others; i++)
			assert_int_equal(is_permitted(&config, others[i], class, nothing_said, "`protected`"),
			                 class <= REQUEST_ASK);
	}
}

static void a_forwarded_request_may_only_ask(void **state)
{
	const struct request_origin passed_on = {.forwarded = true};
	struct weir_config config = {0};

	(void)state;
	assert_true(is_permitted(&config, LOCAL, REQUEST_FREE, passed_on, NULL));
	assert_true(is_permitted(&config, LOCAL, REQUEST_ASK, passed_on, NULL));
	assert_false(is_permitted(&config, LOCAL, REQUEST_CHANGE, passed_on, "X-Forwarded-*"));
	assert_false(is_permitted(&config, LOCAL, REQUEST_ADMIN, passed_on, "`protected`"));
}

static void protected_permits_networks_or_everybody(void **state)
{
	const struct request_origin passed_on = {.forwarded = true};
	struct weir_config config = {.protected_count = 2};
	struct ip_range networks[2];

	(void)state;
	assert_true(ip_range_parse(SLICE("10.1.0.0/16"), &networks[0]));
	assert_true(ip_range_parse(SLICE("fd00::/8"), &networks[1]));
	config.protected = networks;
	assert_true(is_permitted(&config, REMOTE, REQUEST_ADMIN, nothing_said, NULL));
	assert_true(is_permitted(&config, "fd12::1", REQUEST_CHANGE, nothing_said, NULL));
	assert_true(is_permitted(&config, "::1", REQUEST_ADMIN, nothing_said, NULL));
	assert_false(is_permitted(&config, "10.2.0.1", REQUEST_CHANGE, nothing_said, "found 10.2.0.1"));
	assert_false(is_permitted(&config, REMOTE, REQUEST_CHANGE, passed_on, "passes on"));
	config = (struct weir_config){.unprotected = true};
	assert_true(is_permitted(&config, "10.2.0.1", REQUEST_ADMIN, passed_on, NULL));
}

/* The author of a page can make any name lead to this server's address. */
static void unknown_hosts_may_ask_from_other_machines_only(void **state)
{
	static const char *const known[] = {"127.0.0.1", "10.1.2.3",  "[::1]",         "[2001:db8::1]",
	                                    "localhost", "LocalHost", "w.example.com", "W.Example.COM"};
	static const char *const unknown[] = {"example.com",   "127.0.0.1.example.com",
	                                      "localhost.com", "x.w.example.com",
	                                      "2130706433",    "127.1",
	                                      "[::1",          "w.example.com.evil.example"};
	static const char *const hosts[] = {"limits.example.com", "w.example.com"};
	struct weir_config config = {.hosts = hosts, .host_count = 2, .unprotected = true};

	(void)state;
	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		for (enum request_class class = REQUEST_FREE; class <= REQUEST_ADMIN; class ++)
			assert_true(is_permitted(&config, i % 2 ? LOCAL : REMOTE, class,
			                         (struct request_origin){.host = slice_of(known[i])}, NULL));
	for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) {
		const struct request_origin origin = {.host = slice_of(unknown[i])};

		for (enum request_class class = REQUEST_FREE; class <= REQUEST_ADMIN; class ++)
			assert_false(is_permitted(&config, LOCAL, class, origin, "`hosts`"));
		assert_true(is_permitted(&config, REMOTE, REQUEST_ASK, origin, NULL));
		assert_false(is_permitted(&config, REMOTE, REQUEST_CHANGE, origin, unknown[i]));
		assert_false(is_permitted(&config, REMOTE, REQUEST_ADMIN, origin, "`hosts`"));
	}
}

static void foreign_pages_may_not_even_ask(void **state)
{
	const struct request_origin foreign = {.is_from_foreign_page = true,
	                                       .host = SLICE("127.0.0.1")};
	struct weir_config config = {.unprotected = true};

	(void)state;
	for (enum request_class class = REQUEST_FREE; class <= REQUEST_ADMIN; class ++) {
		assert_false(is_permitted(&config, LOCAL, class, foreign, "Origin"));
		assert_false(is_permitted(&config, REMOTE, class, foreign, "Sec-Fetch-Site"));
	}
}

static void admin_calls_come_by_their_own_listener_only(void **state)
{
	struct weir_error error;

	(void)state;
	for (enum request_class class = REQUEST_FREE; class < REQUEST_ADMIN; class ++) {
		assert_int_equal(access_check_listener(false, class, &error), WEIR_OK);
		assert_int_equal(access_check_listener(true, class, &error), WEIR_OK);
	}
	assert_int_equal(access_check_listener(true, REQUEST_ADMIN, &error), WEIR_OK);
	assert_int_equal(access_check_listener(false, REQUEST_ADMIN, &error), WEIR_EPERM);
	assert_non_null(strstr(error.message, "`listen.admin`"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(admin_calls_come_by_their_own_listener_only),
	    cmocka_unit_test(only_this_machine_changes_and_administrates),
	    cmocka_unit_test(a_forwarded_request_may_only_ask),
	    cmocka_unit_test(protected_permits_networks_or_everybody),
	    cmocka_unit_test(unknown_hosts_may_ask_from_other_machines_only),
	    cmocka_unit_test(foreign_pages_may_not_even_ask),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
