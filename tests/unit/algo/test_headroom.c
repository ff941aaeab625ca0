/* Tests the room over a limit for higher priorities. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "algo/priority/headroom.h"
#include "base/number.h"

#define NOW (UINT64_C(1700000000) * NS_PER_S)

/* A request of a lower class passes, then one of a higher class is denied. */
static bool denied_beside(struct headroom *headroom, unsigned higher, unsigned lower,
                          uint64_t quota)
{
	headroom_record_pass(headroom, lower, quota, 1);
	return headroom_record_denial(headroom, higher, quota, 1);
}

static void only_a_class_above_a_present_one_has_room(void **state)
{
	struct headroom headroom = {{0}};

	(void)state;
	assert_true(headroom_record_request(&headroom, 3, NOW));
	assert_false(headroom_record_request(&headroom, 3, NOW + 1));
	assert_false(headroom_record_denial(&headroom, 3, 20, 0)); /* no lower class is present */
	assert_true(headroom_record_request(&headroom, 7, NOW));
	assert_true(denied_beside(&headroom, 3, 7, 20));
	assert_int_equal(headroom_extra(&headroom, 3, 20), HEADROOM_GROW);
	assert_false(headroom_record_denial(&headroom, 7, 20, 0));
	assert_int_equal(headroom_extra(&headroom, 7, 20), 0);
	assert_false(headroom_record_denial(&headroom, PRIORITY_LOWEST, 20, 0));
	assert_int_equal(headroom_extra(&headroom, 0, 20), 0); /* it was never denied */
}

static void room_ends_at_four_roots_of_the_limit(void **state)
{
	struct headroom headroom = {{0}};
	unsigned fewer = 0;

	(void)state;
	headroom_record_request(&headroom, 0, NOW);
	headroom_record_request(&headroom, 9, NOW);
	for (unsigned i = 0; i < 20; i++)
		denied_beside(&headroom, 0, 9, 101);
	assert_int_equal(headroom_extra(&headroom, 0, 101), 40);
	assert_int_equal(headroom_extra(&headroom, 0, 24), 16); /* the limit has fallen */
	assert_int_equal(headroom_extra(&headroom, 0, 4), 4);   /* at most twice the limit in all */
	for (uint64_t draw = 0; draw < 800; draw++)
		fewer += headroom_record_pass(&headroom, 0, 101, draw);
	assert_int_equal(fewer, 2);
	assert_int_equal(headroom_extra(&headroom, 0, 101), 38);
}

/* The class alone exceeds the capacity: its requests would wait, however large the room. */
static void half_of_the_room_stays_if_no_lower_class_passes(void **state)
{
	struct headroom headroom = {{0}};

	(void)state;
	headroom_record_request(&headroom, 0, NOW);
	headroom_record_request(&headroom, 9, NOW);
	for (unsigned i = 0; i < 4; i++)
		denied_beside(&headroom, 0, 9, 20);
	assert_int_equal(headroom_extra(&headroom, 0, 20), 4 * HEADROOM_GROW);
	for (uint64_t draw = 0; draw < 20 * HEADROOM_VAIN; draw++)
		headroom_record_denial(&headroom, 0, 20, draw);
	assert_int_equal(headroom_extra(&headroom, 0, 20), 8); /* two roots */
	headroom = (struct headroom){{0}};
	headroom_record_request(&headroom, 0, NOW);
	headroom_record_request(&headroom, 9, NOW);
	assert_true(
	    headroom_record_denial(&headroom, 0, 20, 1)); /* they passed before this class asked */
	assert_int_equal(headroom_extra(&headroom, 0, 20), 1);
	for (uint64_t draw = 0; draw < 20; draw++)
		headroom_record_denial(&headroom, 0, 20, draw);
	assert_int_equal(headroom_extra(&headroom, 0, 20), 8);
}

static void a_probe_denies_lower_classes_first(void **state)
{
	struct headroom_limits limits = {.quota = 18, .quota_without_probe = 24, .is_probe = true};
	struct headroom headroom = {{0}};

	(void)state;
	assert_int_equal(headroom_quota(&headroom, 0, &limits), 18); /* no priorities */
	headroom_record_request(&headroom, 2, NOW);
	headroom_record_request(&headroom, 9, NOW);
	denied_beside(&headroom, 2, 9, 24);
	denied_beside(&headroom, 2, 9, 24);
	assert_int_equal(headroom_quota(&headroom, 2, &limits), 24 + 2 * HEADROOM_GROW);
	assert_int_equal(headroom_quota(&headroom, 9, &limits), 18 - 6 / HEADROOM_DEEPER);
	limits.quota_without_probe = 60;
	assert_int_equal(headroom_quota(&headroom, 9, &limits), 18 - HEADROOM_GROW); /* half of the room */
	limits.is_probe_of_all = true;
	assert_int_equal(headroom_quota(&headroom, 2, &limits), 18);
	limits.quota = 2;
	assert_int_equal(headroom_quota(&headroom, 9, &limits), 1); /* some pass, so the probe ends */
	limits = (struct headroom_limits){.quota = 24, .quota_without_probe = 24};
	assert_int_equal(headroom_quota(&headroom, 2, &limits), 24 + 2 * HEADROOM_GROW);
	assert_int_equal(headroom_quota(&headroom, 9, &limits), 24);
}

static void room_ends_when_a_class_sends_no_request_for_ten_seconds(void **state)
{
	struct headroom headroom = {{0}};

	(void)state;
	headroom_record_request(&headroom, 1, NOW);
	headroom_record_request(&headroom, 5, NOW);
	denied_beside(&headroom, 1, 5, 20);
	/* The lower classes are absent: the class has no room. */
	assert_true(headroom_record_request(&headroom, 1, NOW + 9 * NS_PER_S));
	assert_int_equal(headroom_extra(&headroom, 1, 20), HEADROOM_GROW);
	assert_true(headroom_record_request(&headroom, 1, NOW + 10 * NS_PER_S));
	assert_int_equal(headroom_extra(&headroom, 1, 20), 0);
	/* They are present again, and the class has its former room. */
	assert_true(headroom_record_request(&headroom, 5, NOW + 12 * NS_PER_S));
	assert_int_equal(headroom_extra(&headroom, 1, 20), HEADROOM_GROW);
	/* The class itself was absent. */
	assert_true(headroom_record_request(&headroom, 5, NOW + 21 * NS_PER_S));
	assert_int_equal(headroom_extra(&headroom, 1, 20), 0);
	assert_true(headroom_record_request(&headroom, 1, NOW + 22 * NS_PER_S));
	assert_int_equal(headroom_extra(&headroom, 1, 20), 0);
}

static void a_clock_that_lags_a_little_changes_nothing(void **state)
{
	struct headroom headroom = {{0}};

	(void)state;
	headroom_record_request(&headroom, 0, NOW);
	headroom_record_request(&headroom, 9, NOW);
	denied_beside(&headroom, 0, 9, 20);
	for (uint64_t s = 1; s < HEADROOM_S; s++)
		assert_false(headroom_record_request(&headroom, 0, NOW - s * NS_PER_S));
	assert_true(headroom_record_request(&headroom, 0, NOW - 100 * NS_PER_S)); /* it was set back */
	assert_int_equal(headroom_extra(&headroom, 0, 20), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(only_a_class_above_a_present_one_has_room),
	    cmocka_unit_test(room_ends_at_four_roots_of_the_limit),
	    cmocka_unit_test(half_of_the_room_stays_if_no_lower_class_passes),
	    cmocka_unit_test(a_probe_denies_lower_classes_first),
	    cmocka_unit_test(room_ends_when_a_class_sends_no_request_for_ten_seconds),
	    cmocka_unit_test(a_clock_that_lags_a_little_changes_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
