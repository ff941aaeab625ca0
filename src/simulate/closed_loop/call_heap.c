#include "simulate/closed_loop/call_heap.h"

#include <stdlib.h>

#define CAPACITY_INITIAL 1024

static bool before(const struct event *a, const struct event *b)
{
	return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->order < b->order;
}

bool call_heap_push(struct call_heap *heap, uint64_t at_ns, enum event_kind kind, uint32_t call)
{
	struct event event = {at_ns, heap->order++, call, kind};
	size_t i, parent;

	if (heap->count == heap->capacity) {
		size_t capacity = heap->capacity ? 2 * heap->capacity : CAPACITY_INITIAL;
		struct event *events = realloc(heap->events, capacity * sizeof *events);

		if (!events)
			return false;
		heap->events = events;
		heap->capacity = capacity;
	}
	for (i = heap->count++; i > 0 && before(&event, &heap->events[parent = (i - 1) / 2]);
	     i = parent)
		heap->events[i] = heap->events[parent];
	heap->events[i] = event;
	return true;
}

struct event call_heap_pop(struct call_heap *heap)
{
	struct event first = heap->events[0], last = heap->events[--heap->count];
	size_t i = 0, child;

	while ((child = 2 * i + 1) < heap->count) {
		if (child + 1 < heap->count && before(&heap->events[child + 1], &heap->events[child]))
			child++;
		if (!before(&heap->events[child], &last))
			break;
		heap->events[i] = heap->events[child];
		i = child;
	}
	heap->events[i] = last;
	return first;
}

void call_heap_free(struct call_heap *heap)
{
	free(heap->events);
}
