/*
 * breaker_view.h: reads a breaker's key: its record in the newest table, and those in former
 * tables, in which permits and results may still count.
 */
#ifndef STORE_BREAKER_VIEW_H
#define STORE_BREAKER_VIEW_H

#include "records/breaker_record.h"
#include "store/wide/reported_key.h"

/* A breaker's key as one call reads it. */
struct breaker_view {
	struct reported_key key;                /* of former records only the live ones */
	struct algo_notification *notification; /* for the quorum group that decides, or NULL */
	struct breaker_snapshot snapshot;
	uint64_t probes_lost_at_ns; /* when the lost probes timed out that this call has found; 0
	                               without any */
	struct algo_phase_change phase_changes[ALGO_PHASE_CHANGES_MAX]; /* made by this call */
	uint8_t phase_change_count;
};

/**
 * Finds the key anew in the tables of the limit in force, and reads its records. `expiry` may be
 * NULL. Without a record in the newest table nothing is expired.
 */
void breaker_view_read(struct breaker_view *view, struct breaker_expiry *expiry);

/**
 * Releases up to `n` of the listed permits, the newest first, and updates the snapshot. After a
 * reload, permits of the present layout come first: those with an entry each if there is a bound,
 * otherwise groups. Returns how many were released.
 */
uint64_t breaker_view_release_newest(struct breaker_view *view, struct breaker_list *list,
                                     uint64_t n);

/** Half-open: stores when the probes timed out that a read has expired. */
void breaker_view_record_lost(struct breaker_view *view, const struct breaker_expiry *expiry);

/** Sums up the window of the snapshot's phase in all records. Returns as breaker_record_tally. */
uint64_t breaker_view_tally(const struct breaker_view *view, struct breaker_tally *tally);

/**
 * Finds the record in which a permit is in flight, and whether it has an entry of its own there.
 * Returns NULL if there is none.
 */
const struct record_state *breaker_view_find_permit(const struct breaker_view *view,
                                                    struct breaker_permit *permit);

/** Expires all in-flight entries in former tables. */
void breaker_view_expire_former(const struct breaker_view *view);

#endif
