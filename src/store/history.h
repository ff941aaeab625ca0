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

/**
 * Gives a bucket the generation that its parameters have in this table: theirs, if
 * they were there before, else a new one. Of more than CELL_GENERATIONS the one
 * begins anew that was joined longest ago; states that were written under it, and
 * still live, are then read under the wrong parameters. Other limits have none.
 */
void history_join(struct memory *store, struct algo_limit *limit);

/** A live state of that generation, as `limit` would have it; all in use where nobody knows. */
__attribute__((noinline, cold)) void history_convert(const struct memory *store,
                                                     const struct algo_limit *limit,
                                                     unsigned generation, uint64_t now_ns,
                                                     struct algo_state *state);

#endif
