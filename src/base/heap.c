/* heap.c: adds, removes and sorts the nodes of a binary heap, whose first node is due first. */
#include "base/heap.h"

#include <stdlib.h>

#define FIRST_CAPACITY 64

static void set_node(struct heap *heap, size_t index, struct heap_node *node)
{
	heap->nodes[index] = node;
	node->index = index;
}

/*
 * Fills the hole at `index` with `node`: moves the ancestors that are due later than it down first.
 */
static void sift_up(struct heap *heap, size_t index, struct heap_node *node)
{
	while (index > 0 && heap->nodes[(index - 1) / 2]->due > node->due) {
		set_node(heap, index, heap->nodes[(index - 1) / 2]);
		index = (index - 1) / 2;
	}
	set_node(heap, index, node);
}

/*
 * Moves the hole at `index` down to a leaf, and returns its index: at each level the child that is
 * due first moves up.
 */
static size_t sift_hole_down(struct heap *heap, size_t index)
{
	size_t child;

	while ((child = 2 * index + 1) < heap->count) {
		if (child + 1 < heap->count && heap->nodes[child + 1]->due < heap->nodes[child]->due)
			child++;
		set_node(heap, index, heap->nodes[child]);
		index = child;
	}
	return index;
}

bool heap_add(struct heap *heap, struct heap_node *node)
{
	if (heap->count == heap->capacity) {
		size_t capacity = heap->capacity ? 2 * heap->capacity : FIRST_CAPACITY;
		struct heap_node **nodes = realloc(heap->nodes, capacity * sizeof *nodes);

		if (!nodes)
			return false;
		heap->nodes = nodes;
		heap->capacity = capacity;
	}
	sift_up(heap, heap->count++, node);
	return true;
}

/*
 * The last node of the array fills the hole that `node` leaves. If both are due at the same time,
 * it may stand there; otherwise the hole moves down to a leaf, and the last node up from there.
 */
void heap_remove(struct heap *heap, struct heap_node *node)
{
	struct heap_node *last = heap->nodes[--heap->count];

	if (node->due == last->due)
		set_node(heap, node->index, last);
	else
		sift_up(heap, sift_hole_down(heap, node->index), last);
}

static int compare_due(const void *left, const void *right)
{
	const struct heap_node *a = *(struct heap_node *const *)left;
	const struct heap_node *b = *(struct heap_node *const *)right;

	return (a->due > b->due) - (a->due < b->due);
}

void heap_sort(struct heap *heap)
{
	if (heap->count > 0) /* otherwise there may be no array */
		qsort(heap->nodes, heap->count, sizeof *heap->nodes, compare_due);
	for (size_t i = 0; i < heap->count; i++)
		heap->nodes[i]->index = i;
}

void heap_free(struct heap *heap)
{
	free(heap->nodes);
	*heap = (struct heap){0};
}
