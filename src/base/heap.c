#include "base/heap.h"

#include <stdlib.h>

#define FIRST_CAPACITY 64

static void put(struct heap *heap, size_t index, struct heap_node *node)
{
	heap->nodes[index] = node;
	node->index = index;
}

/* Puts `node` into the hole at `index`, or above it, past those due later. */
static void rise(struct heap *heap, size_t index, struct heap_node *node)
{
	while (index > 0 && heap->nodes[(index - 1) / 2]->due > node->due) {
		put(heap, index, heap->nodes[(index - 1) / 2]);
		index = (index - 1) / 2;
	}
	put(heap, index, node);
}

/* Moves the hole at `index` down to a leaf: the child due first moves up. */
static size_t sink(struct heap *heap, size_t index)
{
	size_t child;

	while ((child = 2 * index + 1) < heap->count) {
		if (child + 1 < heap->count && heap->nodes[child + 1]->due < heap->nodes[child]->due)
			child++;
		put(heap, index, heap->nodes[child]);
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
	rise(heap, heap->count++, node);
	return true;
}

/* The last one fills the hole. */
void heap_remove(struct heap *heap, struct heap_node *node)
{
	struct heap_node *last = heap->nodes[--heap->count];

	if (node->due == last->due)
		put(heap, node->index, last);
	else
		rise(heap, sink(heap, node->index), last);
}

static int compare(const void *left, const void *right)
{
	const struct heap_node *a = *(struct heap_node *const *)left;
	const struct heap_node *b = *(struct heap_node *const *)right;

	return (a->due > b->due) - (a->due < b->due);
}

void heap_sort(struct heap *heap)
{
	if (heap->count > 0) /* there may be no array */
		qsort(heap->nodes, heap->count, sizeof *heap->nodes, compare);
	for (size_t i = 0; i < heap->count; i++)
		heap->nodes[i]->index = i;
}

void heap_free(struct heap *heap)
{
	free(heap->nodes);
	*heap = (struct heap){0};
}
