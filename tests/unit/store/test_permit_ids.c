/* Ids of permits: no two are equal, in whichever thread or child of a fork they are drawn. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "store/permit.h"

#define DRAWN   400
#define THREADS 4

static int ascending(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static void assert_all_differ(uint64_t *ids, size_t n)
{
	qsort(ids, n, sizeof *ids, ascending);
	for (size_t i = 0; i < n; i++) {
		assert_int_not_equal(ids[i], 0);
		if (i > 0)
			assert_int_not_equal(ids[i], ids[i - 1]);
	}
}

static void *draw(void *context)
{
	uint64_t *ids = context;

	for (size_t i = 0; i < DRAWN; i++)
		ids[i] = permit_random_id();
	return NULL;
}

static void no_id_is_drawn_twice(void **unused)
{
	static uint64_t ids[2 * DRAWN];

	(void)unused;
	draw(ids);
	draw(ids + DRAWN);
	assert_all_differ(ids, 2 * DRAWN);
}

static void threads_draw_ids_of_their_own_in_stripes_of_their_own(void **unused)
{
	static uint64_t ids[THREADS * DRAWN];
	pthread_t threads[THREADS];
	unsigned stripes = 0;

	(void)unused;
	for (size_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, draw, ids + i * DRAWN), 0);
	for (size_t i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	for (size_t i = 0; i < THREADS; i++) {
		uint64_t stripe = ids[i * DRAWN] >> ALGO_STRIPE_SHIFT;

		stripes |= 1u << stripe;
		for (size_t j = 0; j < DRAWN; j++)
			assert_int_equal(ids[i * DRAWN + j] >> ALGO_STRIPE_SHIFT, stripe);
	}
	assert_int_equal(stripes, (1u << THREADS) - 1);
	assert_all_differ(ids, THREADS * DRAWN);
}

/* The parent has drawn before, so that a child has all that it knew then. */
static void a_child_of_a_fork_draws_others(void **unused)
{
	static uint64_t ids[3 * DRAWN];
	size_t size = DRAWN * sizeof *ids;
	int ends[2][2], status;

	(void)unused;
	permit_random_id(); /* and so the second half of a hash is at hand */
	for (int i = 0; i < 2; i++) {
		pid_t child;

		assert_int_equal(pipe(ends[i]), 0);
		child = fork();
		assert_true(child >= 0);
		if (child == 0) {
			draw(ids);
			_exit(write(ends[i][1], ids, size) == (ssize_t)size ? 0 : 1);
		}
		assert_int_equal(read(ends[i][0], ids + i * DRAWN, size), size);
		assert_int_equal(waitpid(child, &status, 0), child);
		assert_int_equal(status, 0);
		close(ends[i][0]);
		close(ends[i][1]);
	}
	draw(ids + 2 * DRAWN);
	assert_all_differ(ids, 3 * DRAWN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(no_id_is_drawn_twice),
	    cmocka_unit_test(threads_draw_ids_of_their_own_in_stripes_of_their_own),
	    cmocka_unit_test(a_child_of_a_fork_draws_others),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
