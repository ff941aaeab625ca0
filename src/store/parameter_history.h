/*
 * parameter_history.h: converts bucket states that other parameters of the limit have written.
 *
 * A state has the generation of its parameters. Metadata in the key table records the parameters of
 * each generation, which one took over last, and when. So states can be converted after a restart
 * and in other processes, too: docs/design/parameter-changes.md.
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

/*
 * A result instead of an expiry: the use was cut for this call alone, and must not be stored so,
 * because another process has parameters under which all of it counts.
 */
#define HISTORY_HIDDEN (ALGO_CUT - 1)

/**
 * Converts *state to the parameters of key->limit. If its own parameters are not recorded, it
 * becomes a bucket that is all in use. Returns the expiry that the state would have without a cut,
 * ALGO_CUT or HISTORY_HIDDEN. `writes` is true for an operation that may change states.
 */
uint64_t history_convert(const struct history_state *key, bool writes, uint64_t now_ns,
                         struct algo_state *state);

/**
 * Records that the state in `cell` was cut, and would expire at `end_ns` without the cut. The next
 * conversion of this very state uses the record.
 */
void history_record_cut(const struct history_state *key, struct cell cell, uint64_t end_ns,
                        uint64_t now_ns);

#endif
