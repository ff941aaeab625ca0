/* publish.h: a new table takes over from the one that its limit had. */
#ifndef STORE_PUBLISH_H
#define STORE_PUBLISH_H

#include "store/memory.h"

/** Whether a limit's table, and `more` tables in all, may be added. 0 or EFULL. */
int publish_check(const struct memory *store, uint64_t identity, size_t more,
                  struct weir_error *error);

/**
 * Lets a limit's new table take over from the one that it had, unless that is as large.
 * `memory` is the section's, and unmapped when it is not taken. Errors: ENOMEM, EFULL.
 */
int publish_section(struct memory *store, const struct section *section, void *memory,
                    struct weir_error *error);

#endif
