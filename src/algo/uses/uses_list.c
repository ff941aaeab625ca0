/*
 * uses_list.c: inserts a use, a number of units that count until a time, into a list. The list is
 * sorted by that time and then by the use's id; uses that are equal in both are merged.
 */
#include <string.h>

#include "algo/uses/uses.h"

static bool is_before(const struct uses_entry *a, const struct uses_entry *b)
{
	return a->until_ns < b->until_ns || (a->until_ns == b->until_ns && a->id < b->id);
}

static bool is_equal(const struct uses_entry *a, const struct uses_entry *b)
{
	return a->until_ns == b->until_ns && a->id == b->id;
}

/* The caller has made space for one more use. */
void uses_add(struct uses *uses, struct uses_entry fresh)
{
	struct uses_entry *end = &uses->entries[uses->count], *position = end;

	while (position > uses->entries && is_before(&fresh, position - 1))
		position--;
	if (position > uses->entries && is_equal(position - 1, &fresh)) {
		position[-1].units += fresh.units;
		return;
	}
	memmove(position + 1, position, (size_t)(end - position) * sizeof fresh);
	*position = fresh;
	uses->count++;
}
