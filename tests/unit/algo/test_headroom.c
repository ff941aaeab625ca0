/* Room over a limit for higher priorities. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "algo/headroom.h"
#include "base/number.h"

#define NOW (UINT64_C(1700000000) * NS_PER_S)

static void only_a_class_above_one_that_asks_has_room(void **state)
{
	struct headroom headroom = {{0}};

	(void)state;
	assert_true(headroom_see(&headroom, 3, NOW));
	assert_false(headroom_see(&headroom, 3, NOW + 1));
	assert_false(headroom_denied(&headroom, 3, 20)); /* nobody below it asks */
	assert_true(headroom_see(&headroom, 7, NOW));
	assert_true(headroom_denied(&headroom, 3, 20));
	assert_int_equal(headroom_over(&headroom, 3, 20), 1);
	assert_false(headroom_denied(&headroom, 7, 20));
	assert_int_equal(headroom_over(&headroom, 7, 20), 0);
	assert_false(headroom_denied(&headroom, PRIORITY_LOWEST, 20));
	assert_int_equal(headroom_over(&headroom, 0, 20), 0); /* it was never denied */
}

static void room_ends_at_four_roots_of_the_limit(void **state)
{
	struct headroom headroom = {{0}};
	unsigned denials = 0;

	(void)state;
	headroom_see(&headroom, 0, NOW);
	headroom_see(&headroom, 9, NOW);
	while (headroom_denied(&headroom, 0, 101))
		denials++;
	assert_int_equal(denials, 40);
	assert_int_equal(headroom_over(&headroom, 0, 101), 40);
	assert_int_equal(headroom_over(&headroom, 0, 24), 16); /* the limit has fallen */
	denials = 0;
	for (uint64_t draw = 0; draw < 800; draw++)
		denials += headroom_passed(&headroom, 0, draw);
	assert_int_equal(denials, 2);
	assert_int_equal(headroom_over(&headroom, 0, 101), 38);
}

static void room_is_gone_when_a_class_does_not_ask_for_ten_seconds(void **state)
{
	struct headroom headroom = {{0}};

	(void)state;
	headroom_see(&headroom, 1, NOW);
	headroom_see(&headroom, 5, NOW);
	headroom_denied(&headroom, 1, 20);
	/* Those below it are away: it has no more than they would. */
	assert_true(headroom_see(&headroom, 1, NOW + 9 * NS_PER_S));
	assert_int_equal(headroom_over(&headroom, 1, 20), 1);
	assert_true(headroom_see(&headroom, 1, NOW + 10 * NS_PER_S));
	assert_int_equal(headroom_over(&headroom, 1, 20), 0);
	/* They are back, and it has what it had. */
	assert_true(headroom_see(&headroom, 5, NOW + 12 * NS_PER_S));
	assert_int_equal(headroom_over(&headroom, 1, 20), 1);
	/* It was away itself. */
	assert_true(headroom_see(&headroom, 5, NOW + 21 * NS_PER_S));
	assert_int_equal(headroom_over(&headroom, 1, 20), 0);
	assert_true(headroom_see(&headroom, 1, NOW + 22 * NS_PER_S));
	assert_int_equal(headroom_over(&headroom, 1, 20), 0);
}

static void a_clock_that_lags_a_little_changes_nothing(void **state)
{
	struct headroom headroom = {{0}};

	(void)state;
	headroom_see(&headroom, 0, NOW);
	headroom_see(&headroom, 9, NOW);
	headroom_denied(&headroom, 0, 20);
	for (uint64_t s = 1; s < HEADROOM_S; s++)
		assert_false(headroom_see(&headroom, 0, NOW - s * NS_PER_S));
	assert_true(headroom_see(&headroom, 0, NOW - 100 * NS_PER_S)); /* it was set back */
	assert_int_equal(headroom_over(&headroom, 0, 20), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(only_a_class_above_one_that_asks_has_room),
	    cmocka_unit_test(room_ends_at_four_roots_of_the_limit),
	    cmocka_unit_test(room_is_gone_when_a_class_does_not_ask_for_ten_seconds),
	    cmocka_unit_test(a_clock_that_lags_a_little_changes_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
