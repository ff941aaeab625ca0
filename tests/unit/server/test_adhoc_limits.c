#include "server/requests/adhoc_limits.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static struct weir_limit *get(struct adhoc *adhoc, struct arena *arena, uint64_t burst,
                              uint64_t count, uint64_t period_s)
{
	struct request_adhoc params = {burst, count, period_s};
	struct weir_limit *limit;
	struct weir_error error;

	assert_int_equal(adhoc_limit(adhoc, &params, arena, &limit, &error), WEIR_OK);
	return limit;
}

static void assert_is(const struct weir_limit *limit, uint64_t burst, uint64_t count,
                      uint64_t period_s)
{
	assert_int_equal(limit->algo.quota, burst);
	assert_int_equal(limit->algo.bucket.count, count);
	assert_int_equal(limit->algo.period_ns, period_s * NS_PER_S);
}

static void the_same_parameters_give_the_same_limit(void **state)
{
	struct adhoc *adhoc = calloc(1, sizeof *adhoc);
	struct arena arena = {0};
	struct weir_limit *limit = get(adhoc, &arena, 10, 5, 60);

	(void)state;
	assert_is(limit, 10, 5, 60);
	assert_ptr_equal(get(adhoc, &arena, 10, 5, 60), limit);
	adhoc_release_limits(adhoc);
	assert_ptr_equal(get(adhoc, &arena, 10, 5, 60), limit);
	assert_int_equal(arena.used, 0);
	free(adhoc);
}

/* Uses ten times as many limits as there are slots, each different in one parameter. */
static void no_limit_changes_within_an_intake(void **state)
{
	enum { N = 10 * ADHOC_SLOTS };
	struct adhoc *adhoc = calloc(1, sizeof *adhoc);
	struct arena arena = {0};
	struct weir_limit *limits[N];

	(void)state;
	for (int batch = 0; batch < 2; batch++) {
		for (uint64_t i = 0; i < N; i++)
			limits[i] = get(adhoc, &arena, 1 + i % 3, 1 + i / 3 % 5, 1 + i / 15);
		for (uint64_t i = 0; i < N; i++)
			assert_is(limits[i], 1 + i % 3, 1 + i / 3 % 5, 1 + i / 15);
		adhoc_release_limits(adhoc);
		arena_reset(&arena);
	}
	arena_free(&arena);
	free(adhoc);
}

/* Otherwise the first limits would have the slots for ever. */
static void colliding_limits_are_forgotten_between_intakes(void **state)
{
	struct adhoc *adhoc = calloc(1, sizeof *adhoc);
	struct arena arena = {0};
	uint64_t burst = 1;

	(void)state;
	while (arena.used == 0) /* until a limit finds its slot taken */
		get(adhoc, &arena, burst++, 1, 1);
	adhoc_release_limits(adhoc);
	arena_reset(&arena);
	get(adhoc, &arena, burst - 1, 1, 1);
	assert_int_equal(arena.used, 0);
	arena_free(&arena);
	free(adhoc);
}

static void refused_parameters_are_not_cached(void **state)
{
	struct adhoc *adhoc = calloc(1, sizeof *adhoc);
	struct arena arena = {0};
	struct request_adhoc params = {10, UINT64_MAX, 1};
	struct weir_limit *limit;
	struct weir_error error;

	(void)state;
	for (int i = 0; i < 2; i++)
		assert_int_equal(adhoc_limit(adhoc, &params, &arena, &limit, &error), WEIR_ERANGE);
	assert_is(get(adhoc, &arena, 10, 5, 60), 10, 5, 60);
	arena_free(&arena);
	free(adhoc);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_same_parameters_give_the_same_limit),
	    cmocka_unit_test(no_limit_changes_within_an_intake),
	    cmocka_unit_test(colliding_limits_are_forgotten_between_intakes),
	    cmocka_unit_test(refused_parameters_are_not_cached),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
