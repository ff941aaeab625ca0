/*
 * health_phase.h: the changes of a key's phase that acquires, reports and operators have in common.
 */
#ifndef STORE_HEALTH_PHASE_H
#define STORE_HEALTH_PHASE_H

#include <stdbool.h>
#include <stdint.h>

#include "rows/health.h"
#include "store/wide/health_rows.h"

/** Makes the head such that the row stays the key's, in that phase. */
enum held_kept health_phase_keep(struct watch *watch, const struct health_state *health);

/**
 * Puts the phase that was read into another one, for this cause. Returns false if others have
 * changed it.
 */
bool health_phase_change(struct watch *watch, const struct health_state *after,
                         enum algo_cause cause);

/**
 * Ends `count` probes of the half-open phase that was read. Returns false if others have changed
 * the phase.
 */
bool health_phase_end_probes(struct watch *watch, struct health_result result, unsigned count,
                             uint64_t at_ns);

/**
 * Counts results in the window of the closed phase that was read. If the window trips, it opens.
 */
void health_phase_count(struct watch *watch, struct health_ends ends);

/**
 * Reads the key, and counts the permits whose time is over without a report. Other calls begin with
 * it. `list` gets the permits in flight, of which `list->alone.n` are wanted at most; it may be
 * NULL.
 */
void health_phase_settle(struct watch *watch, struct health_list *list);

#endif
