/*
 * call_heap.h: the future events of the model by time, and events of one time in the order of
 * scheduling. base/heap.h keeps no order among those, so two runs of a seed could differ.
 */
#ifndef SIMULATE_CALL_HEAP_H
#define SIMULATE_CALL_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum event_kind {
	ENDS,   /* the server ends a call */
	ASKS,   /* the client of a call makes the attempt */
	ENTERS, /* a call has waited for the limit */
	BEGINS, /* a client sends a request; `call` is its number */
};

struct event {
	uint64_t at_ns;
	uint64_t order;
	uint32_t call;
	enum event_kind kind;
};

/* Zeroed is empty. */
struct call_heap {
	struct event *events;
	size_t count, capacity;
	uint64_t order;
};

/** Returns false if memory is short. */
bool call_heap_push(struct call_heap *heap, uint64_t at_ns, enum event_kind kind, uint32_t call);
/** Removes and returns the first event. There must be one. */
struct event call_heap_pop(struct call_heap *heap);
/** Multiplies the time from now to each event of a kind. */
void call_heap_stretch(struct call_heap *heap, enum event_kind kind, uint64_t now_ns,
                       double factor);
void call_heap_free(struct call_heap *heap);

#endif
