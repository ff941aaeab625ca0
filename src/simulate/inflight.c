#include "simulate/inflight.h"

#include <stdlib.h>
#include <string.h>

/* Allocated with only the charges that it has, which are rarely more than one or two. */
struct entry {
	struct heap_node node;
	struct ended ended;
};

static size_t size_of(const struct ended *ended)
{
	return offsetof(struct ended, permits.charges) +
	       ended->permits.count * sizeof *ended->permits.charges;
}

bool inflight_add(struct inflight *inflight, uint64_t due_ns, const struct ended *ended)
{
	size_t size = size_of(ended);
	struct entry *entry = malloc(offsetof(struct entry, ended) + size);

	if (!entry)
		return false;
	entry->node.due = due_ns;
	memcpy((char *)entry + offsetof(struct entry, ended), ended, size);
	if (heap_add(&inflight->heap, &entry->node))
		return true;
	free(entry);
	return false;
}

struct ended inflight_pop(struct inflight *inflight)
{
	struct heap_node *first = heap_first(&inflight->heap);
	struct entry *entry = (struct entry *)first;
	struct ended ended = {0};

	heap_remove(&inflight->heap, first);
	memcpy(&ended, (char *)entry + offsetof(struct entry, ended), size_of(&entry->ended));
	free(entry);
	return ended;
}

void inflight_close(struct inflight *inflight)
{
	while (inflight->heap.count > 0)
		inflight_pop(inflight);
	heap_free(&inflight->heap);
}
