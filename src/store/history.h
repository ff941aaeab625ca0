/*
 * history.h: under which parameters a bucket's state was written.
 *
 * A state tells the generation of its parameters, and the table keeps what each
 * generation of a limit stands for: as long as its states and where its states
 * are, so after a restart and in other processes too.
 */
#ifndef STORE_HISTORY_H
#define STORE_HISTORY_H

#include "algo/algo.h"
#include "table/table.h"

struct memory;

/** A live state of that generation, as `limit` would have it; all in use where nobody knows. */
__attribute__((noinline, cold)) void history_convert(const struct memory *store,
                                                     const struct algo_limit *limit,
                                                     unsigned generation, uint64_t now_ns,
                                                     struct algo_state *state);

#endif
