/*
 * inflight.c: keeps how the simulated requests that have passed will end, in a heap by the time at
 * which each is to end.
 */
#include "simulate/inflight.h"

#include <stdlib.h>
#include <string.h>

/* Allocated with only the charges that it has, which are rarely more than one or two. */
struct entry {
	struct heap_node node;
	struct request_end end;
};

/* The size of *end up to the last of its charges. */
static size_t used_size(const struct request_end *end)
{
	return offsetof(struct request_end, permits.charges) +
	       end->permits.count * sizeof *end->permits.charges;
}

/* Stores a copy of *end until inflight_pop. Returns false without memory. */
bool inflight_add(struct inflight *inflight, uint64_t due_ns, const struct request_end *end)
{
	size_t size = used_size(end);
	struct entry *entry = malloc(offsetof(struct entry, end) + size);

	if (!entry)
		return false;
	entry->node.due = due_ns;
	memcpy((char *)entry + offsetof(struct entry, end), end, size);
	if (heap_add(&inflight->heap, &entry->node))
		return true;
	free(entry);
	return false;
}

/* Removes and returns the end that is due next. There must be one. */
struct request_end inflight_pop(struct inflight *inflight)
{
	struct heap_node *first = heap_first(&inflight->heap);
	struct entry *entry = (struct entry *)first;
	struct request_end end = {0};

	heap_remove(&inflight->heap, first);
	memcpy(&end, (char *)entry + offsetof(struct entry, end), used_size(&entry->end));
	free(entry);
	return end;
}

void inflight_close(struct inflight *inflight)
{
	while (inflight->heap.count > 0)
		inflight_pop(inflight);
	heap_free(&inflight->heap);
}
