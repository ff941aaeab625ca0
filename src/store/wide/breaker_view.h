/*
 * breaker_view.h: a key of a limit with phases, as one call sees it: its record in the newest
 * table, and those in former tables, which may count still.
 */
#ifndef STORE_HEALTH_RECORDS_H
#define STORE_HEALTH_RECORDS_H

#include "records/breaker_record.h"
#include "store/wide/reported_key.h"

/* A key as one call sees it. */
struct breaker_view {
	struct reported_key key;        /* of former records only those that are live */
	struct algo_notification *notification; /* what a fleet is to be told, which decides; or NULL */
	struct breaker_snapshot snapshot;
	uint64_t lost_ns; /* when permits were lost that this call has found; 0 if it has found none */
	struct algo_phase_change turns[ALGO_PHASE_CHANGES_MAX]; /* that this call has made */
	uint8_t turned;
};

/**
 * Finds the key anew, by the limit that has taken over, and looks at its records. `sweep` may be
 * NULL. A key without a record in the newest table is not swept.
 */
void breaker_view_read(struct breaker_view *view, struct breaker_expiry *expiry);

/**
 * Gives back up to `n` of the permits that a look has listed, the newest first, and takes them off
 * what it has seen. After a reload, permits of the present kind go before those of the former one:
 * by themselves if there is a bound, else counted together. Returns how many were given back.
 */
uint64_t breaker_view_release_newest(struct breaker_view *view, struct breaker_list *list,
                                     uint64_t n);

/** Half-open: notes when the probes were lost that a look has ended. */
void breaker_view_record_lost(struct breaker_view *view, const struct breaker_expiry *expiry);

/** The window of the phase that was seen, wherever it was counted. Returns as breaker_record_tally.
 */
uint64_t breaker_view_tally(const struct breaker_view *view, struct breaker_tally *tally);

/**
 * The record in which a permit is in flight, and whether it has a cell of its own there. NULL for
 * none. /
 */
const struct record_state *breaker_view_find_permit(const struct breaker_view *view,
                                                    struct breaker_permit *permit);

/** Ends all flights in former tables. */
void breaker_view_expire_former(const struct breaker_view *view);

#endif
