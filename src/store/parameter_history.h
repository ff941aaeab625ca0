/*
 * parameter_history.h: under which parameters a bucket's state was written.
 *
 * A state tells the generation of its parameters, and the table keeps what each
 * generation of a limit stands for: as long as its states and where its states
 * are, so after a restart and in other processes too. The table also keeps which
 * generation took over last, and when: docs/design/parameter-changes.md.
 */
#ifndef STORE_PARAMETER_HISTORY_H
#define STORE_PARAMETER_HISTORY_H

#include "algo/algo.h"
#include "table/table.h"

struct memory;

/* A state of one word that another generation than the limit's has written. */
struct history_state {
	struct memory *store;
	const struct algo_limit *limit;
	uint64_t hash; /* of the key */
	struct cell cell;
};

/* In place of an end: the use was cut for this call alone, since a limit in use elsewhere counts it
 * whole. */
#define HISTORY_HIDDEN (ALGO_CUT - 1)

/**
 * The state as `limit` would have it; all in use if no note tells its parameters. Returns the end
 * that the state would have without a cut, ALGO_CUT or HISTORY_HIDDEN. `writes`: for an operation
 * that may change the state.
 */
uint64_t history_convert(const struct history_state *of, bool writes, uint64_t now_ns,
                         struct algo_state *state);

/**
 * Notes that the state which has become `cell` was cut, and would end then. The next conversion of
 * this very state finds the note.
 */
void history_record_cut(const struct history_state *of, struct cell cell, uint64_t end_ns,
                        uint64_t now_ns);

#endif
