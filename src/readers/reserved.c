/*
 * reserved.c: knows the names of fields that Weir itself writes into answers, so that results in
 * rule files can't have fields of the same names.
 */
#include "readers/reserved.h"

#include "base/text/decision_fields.h"

static const struct slice ours[] = {
#define NAME(name) SLICE(#name),
    DECISION_FIELDS(NAME)
#undef NAME
};

bool reserved_field(struct slice name)
{
	for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
		if (slice_equal_nocase(name, ours[i]))
			return true;
	return false;
}

struct phrase reserved_fields(void)
{
	struct phrase known = {0};

	for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
		phrase_add(&known, ours[i]);
	return known;
}
