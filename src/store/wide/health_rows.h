/*
 * health_rows.h: a key of a limit with phases, as one call sees it: its row in the newest table,
 * and those in former tables, which may count still.
 */
#ifndef STORE_HEALTH_ROWS_H
#define STORE_HEALTH_ROWS_H

#include "rows/health.h"
#include "store/wide/held.h"

/* A key as one call sees it. */
struct watch {
	struct held held;               /* of former rows only those that are live */
	struct algo_notification *told; /* what a fleet is to be told, which decides; or NULL */
	struct health_look seen;
	uint64_t lost_ns; /* when permits were lost that this call has found; 0 if it has found none */
	struct algo_phase_change turns[ALGO_PHASE_CHANGES_MAX]; /* that this call has made */
	uint8_t turned;
};

/**
 * Finds the key anew, by the limit that has taken over, and looks at its rows. `sweep` may be NULL.
 * A key without a row in the newest table is not swept.
 */
void health_rows_look(struct watch *watch, struct health_sweep *sweep);

/**
 * Gives back up to `n` of the permits that a look has listed, the newest first, and takes them off
 * what it has seen. After a reload, permits of the present kind go before those of the former one:
 * by themselves if there is a bound, else counted together. Returns how many were given back.
 */
uint64_t health_rows_give_newest(struct watch *watch, struct health_list *list, uint64_t n);

/** Half-open: notes when the probes were lost that a look has ended. */
void health_rows_note_lost(struct watch *watch, const struct health_sweep *sweep);

/** The window of the phase that was seen, wherever it was counted. Returns as health_row_tally. */
uint64_t health_rows_tally(const struct watch *watch, struct health_tally *tally);

/**
 * The row in which a permit is in flight, and whether it has a cell of its own there. NULL for
 * none. /
 */
const struct row_state *health_rows_find(const struct watch *watch, struct health_permit *permit);

/** Ends all flights in former tables. */
void health_rows_end_former(const struct watch *watch);

#endif
