#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/heap.h"

#define N 200

struct item {
	struct heap_node node;
	bool in;
};

static uint32_t draw(uint32_t *seed)
{
	*seed = *seed * 1664525 + 1013904223;
	return *seed >> 16;
}

static uint64_t least_due(const struct item *items)
{
	uint64_t least = UINT64_MAX;

	for (int i = 0; i < N; i++)
		if (items[i].in && items[i].node.due < least)
			least = items[i].node.due;
	return least;
}

static void an_empty_heap_has_no_first(void **state)
{
	struct heap heap = {0};

	(void)state;
	assert_null(heap_first(&heap));
	heap_free(&heap);
}

static void the_first_is_due_first_whatever_is_added_and_removed(void **state)
{
	static struct item items[N];
	struct heap heap = {0};
	uint32_t seed = 7;

	(void)state;
	for (int step = 0; step < 20000; step++) {
		struct item *item = &items[draw(&seed) % N];
		bool first = draw(&seed) % 4 == 0 && heap.count > 0;

		if (first)
			item = (struct item *)((char *)heap_first(&heap) - offsetof(struct item, node));
		if (item->in) {
			heap_remove(&heap, &item->node);
			item->in = false;
		} else {
			item->node.due = draw(&seed) % 50; /* many are due at once */
			assert_true(heap_add(&heap, &item->node));
			item->in = true;
		}
		if (step % 100 == 0) {
			heap_sort(&heap);
			for (size_t i = 1; i < heap.count; i++)
				assert_true(heap.nodes[i - 1]->due <= heap.nodes[i]->due);
		}
		if (heap.count > 0)
			assert_int_equal(heap_first(&heap)->due, least_due(items));
		else
			assert_int_equal(least_due(items), UINT64_MAX);
	}
	heap_free(&heap);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(an_empty_heap_has_no_first),
	    cmocka_unit_test(the_first_is_due_first_whatever_is_added_and_removed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
