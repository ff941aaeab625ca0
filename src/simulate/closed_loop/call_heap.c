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

static int compare(const void *a, const void *b)
{
	return before(a, b) ? -1 : before(b, a);
}

void call_heap_stretch(struct call_heap *heap, enum event_kind kind, uint64_t now_ns, double factor)
{
	for (size_t i = 0; i < heap->count; i++) {
		struct event *event = &heap->events[i];

		if (event->kind == kind)
			event->at_ns = now_ns + (uint64_t)((double)(event->at_ns - now_ns) * factor);
	}
	if (heap->count > 0)
		qsort(heap->events, heap->count, sizeof *heap->events, compare);
}

void call_heap_free(struct call_heap *heap)
{
	free(heap->events);
}
