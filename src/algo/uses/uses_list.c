/* uses_list.c: inserts a use into a list of uses, which is sorted. */
#include <string.h>

#include "algo/uses/uses.h"

static bool is_before(const struct uses_entry *a, const struct uses_entry *b)
{
	return a->until_ns < b->until_ns || (a->until_ns == b->until_ns && a->id < b->id);
}

void uses_add(struct uses *uses, struct uses_entry fresh)
{
	struct uses_entry *use = &uses->entries[uses->count];

	while (use > uses->entries && is_before(&fresh, use - 1))
		use--;
	if (use > uses->entries && !is_before(use - 1, &fresh)) {
		use[-1].units += fresh.units;
		return;
	}
	memmove(use + 1, use, (size_t)(&uses->entries[uses->count++] - use) * sizeof fresh);
	*use = fresh;
}
