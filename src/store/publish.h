/*
 * publish.h: makes a new table of states the newest one of its limit. The table that was the newest
 * before becomes its former table.
 */
#ifndef STORE_PUBLISH_H
#define STORE_PUBLISH_H

#include "store/memory.h"

/** Checks whether one table of the limit, and `more` tables in all, may be added. 0 or EFULL. */
int publish_check(const struct memory *store, uint64_t identity, size_t more,
                  struct weir_error *error);

/**
 * Makes the table in `memory` the newest one of its limit, unless the limit has one that is as
 * large and as wide. Unmaps `memory` if it is not used. Errors: ENOMEM, EFULL.
 */
int publish_section(struct memory *store, const struct section *section, void *memory,
                    struct weir_error *error);

#endif
