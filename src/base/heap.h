/*
 * heap.h: finds the first of many that are due.
 *
 * A binary heap of nodes that stand in their owners' structs. Adding and removing take logarithmic
 * time, and constant time for nodes that are due last. Memory is a pointer a node.
 */
#ifndef BASE_HEAP_H
#define BASE_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct heap_node {
	uint64_t due;
	size_t index; /* the heap's own */
};

/* Zero: empty. */
struct heap {
	struct heap_node **nodes;
	size_t count, capacity;
};

/** If several are due at the same time, any of them may come first. */
static inline struct heap_node *heap_first(const struct heap *heap)
{
	return heap->count > 0 ? heap->nodes[0] : NULL;
}

/** `node->due` stays as it is until the node is removed. Returns false if out of memory. */
bool heap_add(struct heap *heap, struct heap_node *node);
/** `node` is in the heap. */
void heap_remove(struct heap *heap, struct heap_node *node);
/** Puts `nodes` in the order in which they are due, which is a heap, too. */
void heap_sort(struct heap *heap);
/** Frees the heap's memory, not the nodes. */
void heap_free(struct heap *heap);

#endif
