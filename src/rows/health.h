/*
 * health.h: the health of the thing behind a key, in the cells of its row.
 *
 * The key's head counts nothing: it is there so that the row stays the key's, and it is HELD, so
 * never evicted, while the phase is one that must not be forgotten. The row has
 *
 *     the phase       tag 32 | slow 7 | bad 7 | good 7 | flying 7 | phase 3   since 60 | for ever 1
 *     flights         tag 32 | count 32                                       until 60
 *     parts           tag 32 | name 32                  calls 21 | failures 21 | slow 21
 *     or blocks       tag 32 | name 32                  number 27 | count 5 | outcomes 2 each
 *
 * A flight counts permits that were given near each other, until the time of the last is over; with
 * max_concurrent each has its own, and there are no more. A part counts results in so much time, a
 * block has HEALTH_BLOCK of them in their order. Their names tell of which phase they are: what
 * another phase has counted is not seen, so nothing has to be cleaned.
 *
 * Each change is a compare-and-swap of one cell. docs/design/health.md says in which order they
 * come, and what is left when a process dies between two of them.
 */
#ifndef ROWS_HEALTH_H
#define ROWS_HEALTH_H

#include "algo/health.h"
#include "rows/rows.h"

/* What a look at phase and flights has found. */
struct health_look {
	struct cell phase;          /* as it is kept, ... */
	struct health_state health; /* and what time has made of it */
	uint64_t in_flight;
	uint64_t own;      /* of these, given since the phase began */
	uint64_t first_ns; /* how far ahead the first of their ends is; UINT64_MAX: there is none */
	uint64_t last_ns;
	unsigned overdue; /* the place of a flight whose time is over; 0: there is none */
};

/* Where a flight may be. */
struct health_permit {
	uint64_t start_ns, until_ns;
};

/* So many calls ended at at_ns, with the same result. */
struct health_ends {
	struct health_result result;
	uint64_t count, at_ns;
};

enum health_taken { HEALTH_TAKEN, HEALTH_FULL, HEALTH_AGAIN };

static inline struct health_permit health_permit_of(const struct health_params *params,
                                                    uint64_t until_ns)
{
	return (struct health_permit){until_ns - params->timeout_ns, until_ns};
}

/** A row without cells is that of a key which has none yet. */
void health_row_look(const struct algo_limit *limit, uint64_t now_ns, const struct row *row,
                     struct health_look *look);

/** The phase alone. */
void health_row_phase(const struct algo_limit *limit, uint64_t now_ns, const struct row *row,
                      struct health_look *look);

/** Swaps the phase that the look has found. False: it has changed. */
bool health_row_turn(const struct row_state *at, const struct health_look *look,
                     const struct health_state *after);

/** Another permit in flight. */
enum health_taken health_row_take(const struct algo_limit *limit, const struct row_state *at,
                                  struct health_permit permit, uint64_t now_ns);
/** Whether it seems to be in flight. */
bool health_row_has(const struct algo_limit *limit, const struct row_state *at,
                    struct health_permit permit);
/** It is no more. False: nor was it. */
bool health_row_give(const struct algo_limit *limit, const struct row_state *at,
                     struct health_permit permit);
/** Ends the flight at a place; how many permits that were, and until when. */
uint64_t health_row_end(const struct row_state *at, unsigned place, uint64_t now_ns,
                        uint64_t *until_ns);

/** Counts results in the phase of the look. */
void health_row_count(const struct algo_limit *limit, const struct row_state *at,
                      const struct health_look *look, const struct health_ends *ends,
                      uint64_t now_ns);

/** The window of the look's phase. Returns how long something in it counts still. */
uint64_t health_row_tally(const struct algo_limit *limit, const struct row *row,
                          const struct health_look *look, uint64_t now_ns,
                          struct health_tally *tally);

/** Whether the head keeps the row long enough, and is HELD if it has to be. */
bool health_row_fits(const struct algo_limit *limit, struct cell head, uint32_t tag,
                     const struct health_state *health, uint64_t now_ns);
/** A head that does. */
struct cell health_row_head(const struct algo_limit *limit, uint32_t tag,
                            const struct health_state *health, uint64_t now_ns);

#endif
