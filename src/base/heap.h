/*
 * heap.h: implements a binary heap, which finds the node that is due first.
 *
 * The nodes are members of their owners' structs. Adding and removing take logarithmic time, and
 * constant time for nodes that are due last. The heap's memory is a pointer for each node.
 */
#ifndef BASE_HEAP_H
#define BASE_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct heap_node {
	uint64_t due;
	size_t index; /* in heap->nodes; set by the heap */
};

/* A zeroed heap is empty. */
struct heap {
	struct heap_node **nodes;
	size_t count, capacity;
};

/** The node that is due first, or NULL. If several are due at the same time, it is any of them. */
static inline struct heap_node *heap_first(const struct heap *heap)
{
	return heap->count > 0 ? heap->nodes[0] : NULL;
}

/** The caller must not change node->due before it removes the node. Returns false if out of memory. */
bool heap_add(struct heap *heap, struct heap_node *node);
/** `node` is in the heap. */
void heap_remove(struct heap *heap, struct heap_node *node);
/** Sorts heap->nodes by due time. A sorted array is a heap, too. */
void heap_sort(struct heap *heap);
/** Frees the heap's memory, not the nodes. */
void heap_free(struct heap *heap);

#endif
