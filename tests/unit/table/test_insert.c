/* The insertion protocol, step by step: what another thread left behind is put in place by hand. */
#include "table/table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define NOW UINT64_C(1700000000000000000)
#define SECOND NS_PER_S

struct fixture {
	struct table table;
	struct table_position position;
	struct cell *cells[TABLE_CANDIDATES]; /* of the place, by address */
};

static int compare_cells(const void *a, const void *b)
{
	const struct cell *x = *(struct cell *const *)a, *y = *(struct cell *const *)b;

	return (x > y) - (x < y);
}

static void setup(struct fixture *f)
{
	static const struct hash_key secret = {1, 2};
	size_t size = table_size(1000);
	void *memory = aligned_alloc(4096, (size + 4095) / 4096 * 4096);

	memset(memory, 0, size);
	table_format(memory, &(struct table_shape){.capacity = 1000}, &secret);
	table_attach(&f->table, memory, table_sets(1000));
	f->position = table_position(&f->table, UINT64_C(0x123456789abcdef0));
	for (int i = 0; i < TABLE_CANDIDATES; i++)
		f->cells[i] = table_cell(&f->position, table_run(&f->table, &f->position), (unsigned)i);
	qsort(f->cells, TABLE_CANDIDATES, sizeof *f->cells, compare_cells);
}

static void teardown(struct fixture *f)
{
	free(f->table.header);
}

static int count_tag(const struct fixture *f, uint32_t tag)
{
	int n = 0;

	for (int i = 0; i < TABLE_CANDIDATES; i++)
		n += cell_tag(*f->cells[i]) == tag;
	return n;
}

static struct cell state(const struct fixture *f, uint32_t word)
{
	return cell_make(f->position.tag, NOW + SECOND, word, 0);
}

/* As a caller does: until it holds. Returns how many tries it took. */
static int store(struct fixture *f, struct cell after)
{
	for (int tries = 1;; tries++) {
		struct observed_cell observed = table_find(&f->table, &f->position);

		assert_true(tries < 50);
		if (table_store(&f->table, &f->position, observed, after, NOW, NULL))
			return tries;
	}
}

static void test_a_new_key_gets_one_cell(void **context)
{
	struct fixture f;

	(void)context;
	setup(&f);
	assert_int_equal(store(&f, state(&f, 7)), 1);
	assert_int_equal(count_tag(&f, f.position.tag), 1);
	assert_int_equal(cell_word(table_find(&f.table, &f.position).value), 7);
	assert_false(cell_is_claim(table_find(&f.table, &f.position).value));
	teardown(&f);
}

static void test_a_state_that_appeared_after_the_look_wins(void **context)
{
	struct fixture f;
	struct observed_cell absent = {NULL, {0, 0}};

	(void)context;
	setup(&f);
	*f.cells[9] = state(&f, 3); /* another thread was done in between */
	assert_false(table_store(&f.table, &f.position, absent, state(&f, 4), NOW, NULL));
	assert_int_equal(count_tag(&f, f.position.tag), 1);
	assert_int_equal(cell_word(*f.cells[9]), 3);
	teardown(&f);
}

static void test_a_lower_claim_wins_and_is_helped(void **context)
{
	struct fixture f;
	struct observed_cell observed;

	(void)context;
	setup(&f);
	*f.cells[2] = cell_make(f.position.tag, NOW + SECOND, 99, CELL_CLAIM);
	*f.cells[5] = cell_make(f.position.tag, NOW + SECOND, 98, CELL_CLAIM);
	observed = (struct observed_cell){f.cells[5], *f.cells[5]};
	assert_false(table_store(&f.table, &f.position, observed, state(&f, 1), NOW, NULL));
	assert_true(cell_is_empty(*f.cells[5])); /* withdrawn */
	assert_true(cell_is_claim(*f.cells[2]));
	store(&f, state(&f, 1)); /* whoever made the lower claim is not waited for */
	assert_int_equal(count_tag(&f, f.position.tag), 1);
	assert_int_equal(cell_word(*f.cells[2]), 1);
	teardown(&f);
}

static void test_a_higher_claim_is_removed(void **context)
{
	struct fixture f;
	struct observed_cell observed;

	(void)context;
	setup(&f);
	*f.cells[2] = cell_make(f.position.tag, NOW + SECOND, 99, CELL_CLAIM);
	*f.cells[5] = cell_make(f.position.tag, NOW + SECOND, 98, CELL_CLAIM);
	observed = (struct observed_cell){f.cells[2], *f.cells[2]};
	assert_true(table_store(&f.table, &f.position, observed, state(&f, 1), NOW, NULL));
	assert_int_equal(count_tag(&f, f.position.tag), 1);
	teardown(&f);
}

static void test_a_claim_that_was_removed_holds_no_state(void **context)
{
	struct fixture f;
	struct observed_cell observed;

	(void)context;
	setup(&f);
	*f.cells[5] = cell_make(f.position.tag, NOW + SECOND, 98, CELL_CLAIM);
	observed = (struct observed_cell){f.cells[5], *f.cells[5]};
	*f.cells[5] = cell_make(f.position.tag, NOW + SECOND, 97, CELL_CLAIM); /* another's, later */
	assert_false(table_store(&f.table, &f.position, observed, state(&f, 1), NOW, NULL));
	assert_true(cell_is_claim(*f.cells[5]));
	teardown(&f);
}

static void test_an_abandoned_claim_is_taken_up(void **context)
{
	struct fixture f;

	(void)context;
	setup(&f);
	*f.cells[0] = cell_make(f.position.tag, NOW - SECOND, 5, CELL_CLAIM);
	store(&f, state(&f, 1));
	assert_int_equal(count_tag(&f, f.position.tag), 1);
	assert_int_equal(cell_word(*f.cells[0]), 1);
	teardown(&f);
}

static void fill(struct fixture *f, uint64_t soonest_ns)
{
	for (int i = 0; i < TABLE_CANDIDATES; i++)
		*f->cells[i] =
		    cell_make(1000 + (uint32_t)i,
		              soonest_ns + (uint64_t)(i * 7 % TABLE_CANDIDATES) * SECOND, (uint32_t)i, 0);
}

static void test_a_spent_state_makes_room_uncounted(void **context)
{
	struct fixture f;

	(void)context;
	setup(&f);
	fill(&f, NOW + SECOND);
	*f.cells[11] = cell_make(77, NOW, 1, 0); /* over at this very instant */
	store(&f, state(&f, 1));
	assert_int_equal(count_tag(&f, 77), 0);
	assert_int_equal(table_evictions(&f.table), 0);
	teardown(&f);
}

static void test_a_full_set_gives_up_the_state_that_ends_soonest(void **context)
{
	struct fixture f;
	struct cell last;

	(void)context;
	setup(&f);
	fill(&f, NOW + SECOND);
	last = *f.cells[41]; /* 41 * 7 % 48 == 47: reaches furthest */
	store(&f, state(&f, 1));
	assert_int_equal(count_tag(&f, 1000), 0); /* 0 * 7 % 48 == 0 */
	assert_int_equal(count_tag(&f, f.position.tag), 1);
	assert_memory_equal(f.cells[41], &last, sizeof last);
	assert_int_equal(table_evictions(&f.table), 1);
	teardown(&f);
}

static void test_of_states_that_end_together_the_least_used_goes(void **context)
{
	struct fixture f;

	(void)context;
	setup(&f);
	for (int i = 0; i < TABLE_CANDIDATES; i++)
		*f.cells[i] =
		    cell_make(1000 + (uint32_t)i, NOW + SECOND, (uint32_t)(i == 13 ? 2 : 50 + i), 0);
	store(&f, state(&f, 1));
	assert_int_equal(count_tag(&f, 1013), 0);
	teardown(&f);
}

/* Idle keys come back: the one that has been away longest is the one to forget. */
static void test_of_idle_cells_the_one_idle_longest_goes(void **context)
{
	struct fixture f;

	(void)context;
	setup(&f);
	for (unsigned i = 0; i < TABLE_CANDIDATES; i++)
		*table_cell(&f.position, table_run(&f.table, &f.position), i) =
		    cell_make(1000 + i, NOW - (i == 5 ? 9 * SECOND : SECOND), 1, 0);
	store(&f, state(&f, 1));
	assert_int_equal(count_tag(&f, 1005), 0);
	/* Empty is better still. */
	*table_cell(&f.position, table_run(&f.table, &f.position), 6) = (struct cell){0, 0};
	*table_find(&f.table, &f.position).cell = cell_make(1005, NOW - 9 * SECOND, 1, 0);
	store(&f, state(&f, 1));
	assert_int_equal(count_tag(&f, 1005), 1);
	assert_int_equal(table_evictions(&f.table), 0);
	teardown(&f);
}

static void test_claims_under_way_are_not_taken_from_others(void **context)
{
	struct fixture f;

	(void)context;
	setup(&f);
	fill(&f, NOW + SECOND);
	*f.cells[4] = cell_make(55, NOW + 1, 3, CELL_CLAIM); /* soonest, but a claim */
	store(&f, state(&f, 1));
	assert_int_equal(count_tag(&f, 55), 1);
	teardown(&f);
}

static void test_time_wraps_without_losing_order(void **context)
{
	uint64_t wrap = UINT64_C(1) << CELL_UNTIL_BITS;
	struct cell cell = cell_make(1, wrap + 5, 0, 0);

	(void)context;
	assert_int_equal(cell_ahead_ns(cell, wrap - 10), 15);
	assert_int_equal(cell_ahead_ns(cell, wrap + 10), -5);
	assert_int_equal(cell_ahead_ns(cell_make(1, 3 * wrap + 7, 0, 0), 3 * wrap), 7);
}

static void test_two_keys_of_one_tag_share_no_place_by_rule(void **context)
{
	struct fixture f;
	int shared = 0;

	(void)context;
	setup(&f);
	for (uint64_t i = 1; i <= 1000; i++) {
		struct table_position a = table_position(&f.table, 0x1234abcd | i << 40);
		struct table_position b = table_position(&f.table, 0x1234abcd | (i * 7919 + 1) << 40);

		assert_int_equal(a.tag, b.tag);
		shared += (a.home == b.home) + (table_run(&f.table, &a) == table_run(&f.table, &b));
	}
	assert_true(shared < 60); /* 161 sets: about 12 by chance */
	teardown(&f);
}

/* Spilling over is what keeps evictions rare: all places are used before one is. */
static void test_a_full_home_spills_into_the_run(void **context)
{
	struct fixture f;

	(void)context;
	setup(&f);
	fill(&f, NOW + SECOND);
	*table_cell(&f.position, table_run(&f.table, &f.position), TABLE_CANDIDATES - 1) =
	    (struct cell){0, 0};
	store(&f, state(&f, 1));
	assert_ptr_equal(
	    table_find(&f.table, &f.position).cell,
	    table_cell(&f.position, table_run(&f.table, &f.position), TABLE_CANDIDATES - 1));
	assert_int_equal(table_evictions(&f.table), 0);
	teardown(&f);
}

static void test_at_capacity_hardly_an_insertion_evicts(void **context)
{
	struct fixture f;
	uint64_t capacity = 100000, seed = 1;
	size_t size = table_size(capacity);
	void *memory = aligned_alloc(4096, (size + 4095) / 4096 * 4096);
	struct hash_key secret = {3, 4};

	(void)context;
	memset(memory, 0, size);
	table_format(memory, &(struct table_shape){.capacity = capacity}, &secret);
	table_attach(&f.table, memory, table_sets(capacity));
	for (uint64_t i = 0; i < capacity; i++) {
		seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
		f.position = table_position(&f.table, seed ^ seed >> 29);
		store(&f, state(&f, 1));
	}
	assert_true(table_evictions(&f.table) < capacity / 1000);
	assert_in_range(table_live(&f.table, NOW), capacity * 98 / 100, capacity * 102 / 100);
	free(memory);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_a_new_key_gets_one_cell),
	    cmocka_unit_test(test_a_state_that_appeared_after_the_look_wins),
	    cmocka_unit_test(test_a_lower_claim_wins_and_is_helped),
	    cmocka_unit_test(test_a_higher_claim_is_removed),
	    cmocka_unit_test(test_a_claim_that_was_removed_holds_no_state),
	    cmocka_unit_test(test_an_abandoned_claim_is_taken_up),
	    cmocka_unit_test(test_a_spent_state_makes_room_uncounted),
	    cmocka_unit_test(test_a_full_set_gives_up_the_state_that_ends_soonest),
	    cmocka_unit_test(test_of_states_that_end_together_the_least_used_goes),
	    cmocka_unit_test(test_of_idle_cells_the_one_idle_longest_goes),
	    cmocka_unit_test(test_claims_under_way_are_not_taken_from_others),
	    cmocka_unit_test(test_time_wraps_without_losing_order),
	    cmocka_unit_test(test_two_keys_of_one_tag_share_no_place_by_rule),
	    cmocka_unit_test(test_a_full_home_spills_into_the_run),
	    cmocka_unit_test(test_at_capacity_hardly_an_insertion_evicts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
