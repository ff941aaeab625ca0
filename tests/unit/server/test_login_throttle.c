/* Tests how wrong logins are counted by address, and how many passwords may wait. */
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "server/access/login_throttle.h"

#define FAILURES 10 /* of one address at once */

static struct ip address_of(const char *text)
{
	struct ip ip;

	assert_true(ip_parse(slice_of(text), &ip));
	return ip;
}

static bool charge(struct login_throttle *logins, const char *text)
{
	struct ip ip = address_of(text);
	struct weir_error error;

	return login_throttle_charge(logins, &ip, &error);
}

static void use_up(struct login_throttle *logins, const char *text)
{
	for (int i = 0; i < FAILURES; i++)
		assert_true(charge(logins, text));
	assert_false(charge(logins, text));
}

static void failures_count_for_an_address_or_a_network(void **state)
{
	struct login_throttle logins = {0};

	(void)state;
	assert_int_equal(login_throttle_open(&logins), WEIR_OK);
	use_up(&logins, "192.0.2.1");
	use_up(&logins, "192.0.2.2");
	use_up(&logins, "2001:db8:0:1::1");
	assert_false(charge(&logins, "2001:db8:0:1:ffff:ffff:ffff:ffff"));
	use_up(&logins, "2001:db8:0:2::1");
	use_up(&logins, "2001:db8:1:1::1");
	login_throttle_close(&logins);
}

static void a_refunded_login_was_no_failure(void **state)
{
	const char *const addresses[] = {"192.0.2.1", "2001:db8::1"};
	struct login_throttle logins = {0};

	(void)state;
	assert_int_equal(login_throttle_open(&logins), WEIR_OK);
	for (size_t i = 0; i < 2; i++) {
		struct ip ip = address_of(addresses[i]);

		for (int j = 0; j < 3 * FAILURES; j++) {
			assert_true(charge(&logins, addresses[i]));
			login_throttle_refund(&logins, &ip);
		}
		use_up(&logins, addresses[i]);
		login_throttle_refund(&logins, &ip);
		assert_true(charge(&logins, addresses[i]));
		assert_false(charge(&logins, addresses[i]));
	}
	login_throttle_close(&logins);
}

/* A reload opens the throttle again; addresses keep their counts. */
static void opening_again_forgets_nothing(void **state)
{
	struct login_throttle logins = {0};

	(void)state;
	assert_int_equal(login_throttle_open(&logins), WEIR_OK);
	use_up(&logins, "192.0.2.1");
	assert_int_equal(login_throttle_open(&logins), WEIR_OK);
	assert_false(charge(&logins, "192.0.2.1"));
	login_throttle_close(&logins);
}

static void *wait_for(void *semaphore)
{
	while (sem_wait(semaphore) != 0)
		;
	return NULL;
}

static void *do_nothing(void *argument)
{
	return argument;
}

static void the_number_of_waiting_passwords_is_bounded_and_one_is_computed(void **state)
{
	struct login_throttle logins = {0};
	struct weir_pool_stats stats;
	sem_t go_on;

	(void)state;
	assert_int_equal(sem_init(&go_on, 0, 0), 0);
	assert_int_equal(login_throttle_open(&logins), WEIR_OK);
	assert_int_equal(weir_pool_submit(logins.pool, wait_for, &go_on, NULL), WEIR_OK);
	for (int i = 0; i < 64; i++)
		assert_int_equal(weir_pool_submit(logins.pool, do_nothing, NULL, NULL), WEIR_OK);
	assert_int_equal(weir_pool_submit(logins.pool, do_nothing, NULL, NULL), WEIR_EFULL);
	weir_pool_stats(logins.pool, &stats);
	assert_int_equal(stats.workers, 1);
	sem_post(&go_on);
	login_throttle_close(&logins);
	assert_null(logins.pool);
	sem_destroy(&go_on);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(failures_count_for_an_address_or_a_network),
	    cmocka_unit_test(a_refunded_login_was_no_failure),
	    cmocka_unit_test(opening_again_forgets_nothing),
	    cmocka_unit_test(the_number_of_waiting_passwords_is_bounded_and_one_is_computed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
