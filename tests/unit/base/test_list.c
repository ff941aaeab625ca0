#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/list.h"

#define N 20

struct item {
	int number;
	struct list_node node;
};

/* Compares the list, in both directions, with the numbers of `expected`. */
static void assert_list(const struct list *list, const int *expected, int count)
{
	const struct list_node *node = list_last(list);
	int i = 0;

	LIST_EACH (list, struct item, node, item) {
		assert_true(i < count);
		assert_int_equal(item->number, expected[i++]);
	}
	assert_int_equal(i, count);
	for (; node; node = list_previous(list, node))
		assert_int_equal(list_of(node, struct item, node)->number, expected[--i]);
	assert_int_equal(i, 0);
}

static void a_list_of_zeros_is_empty(void **state)
{
	struct list list = {0};

	(void)state;
	assert_list(&list, NULL, 0);
	assert_null(list_pop(&list));
	assert_null(list_of(list.first, struct item, node));
}

static void a_node_of_zeros_is_in_no_list(void **state)
{
	struct list list = {0};
	struct item item = {0};

	(void)state;
	assert_false(list_has(&item.node));
	list_remove(&list, &item.node);
	list_append(&list, &item.node);
	assert_true(list_has(&item.node));
	assert_ptr_equal(list_pop(&list), &item.node);
	assert_false(list_has(&item.node));
	assert_list(&list, NULL, 0);
}

/* As an array does it, whose first `count` numbers are those of the list. */
static void remove_number(int *expected, int *count, int number)
{
	int kept = 0;

	for (int i = 0; i < *count; i++)
		if (expected[i] != number)
			expected[kept++] = expected[i];
	*count = kept;
}

static void it_holds_what_was_added_and_not_removed_in_order(void **state)
{
	struct item items[N] = {0};
	struct list list = {0};
	int expected[N], count = 0;
	uint32_t seed = 3;

	(void)state;
	for (int step = 0; step < 5000; step++) {
		struct item *item = &items[(seed = seed * 1664525 + 1013904223) >> 16 & 15];

		item->number = (int)(item - items);
		if (list_has(&item->node)) {
			list_remove(&list, &item->node);
			remove_number(expected, &count, item->number);
		} else if (seed >> 24 & 1) {
			list_append(&list, &item->node);
			expected[count++] = item->number;
		} else {
			list_insert(&list, &item->node, list.first);
			for (int i = count++; i > 0; i--)
				expected[i] = expected[i - 1];
			expected[0] = item->number;
		}
		assert_list(&list, expected, count);
	}
}

static void a_loop_may_remove_what_it_is_at(void **state)
{
	struct item items[N] = {0};
	struct list list = {0};
	int expected[N], count = 0;

	(void)state;
	for (int i = 0; i < N; i++) {
		items[i].number = i;
		list_append(&list, &items[i].node);
		if (i % 3 == 1)
			expected[count++] = i;
	}
	LIST_EACH (&list, struct item, node, item)
		if (item->number % 3 != 1) {
			list_remove(&list, &item->node);
			item->node.next = NULL;
		}
	assert_list(&list, expected, count);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_list_of_zeros_is_empty),
	    cmocka_unit_test(a_node_of_zeros_is_in_no_list),
	    cmocka_unit_test(a_loop_may_remove_what_it_is_at),
	    cmocka_unit_test(it_holds_what_was_added_and_not_removed_in_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
