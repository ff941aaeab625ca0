/* reserve.h: which tables a store has for its limits. */
#ifndef STORE_RESERVE_H
#define STORE_RESERVE_H

#include "store/memory.h"

/**
 * Lets a limit's new table take over from the one that it had, unless that is as large.
 * `memory` is the section's, and unmapped when it is not taken. Errors: ENOMEM, EFULL.
 */
int reserve_publish(struct memory *store, const struct section *section, void *memory,
                    struct weir_error *error);

#endif
