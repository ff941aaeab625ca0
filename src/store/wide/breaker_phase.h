/*
 * breaker_phase.h: the changes of a key's phase that acquires, reports and operators have in
 * common.
 */
#ifndef STORE_HEALTH_PHASE_H
#define STORE_HEALTH_PHASE_H

#include <stdbool.h>
#include <stdint.h>

#include "records/breaker_record.h"
#include "store/wide/breaker_view.h"

/** Makes the header such that the record stays the key's, in that phase. */
enum header_result breaker_phase_store_header(struct breaker_view *view,
                                              const struct breaker_state *state);

/**
 * Puts the phase that was read into another one, for this cause. Returns false if others have
 * changed it.
 */
bool breaker_phase_change(struct breaker_view *view, const struct breaker_state *after,
                          enum algo_cause cause);

/**
 * Ends `count` probes of the half-open phase that was read. Returns false if others have changed
 * the phase.
 */
bool breaker_phase_end_probes(struct breaker_view *view, struct breaker_result result,
                              unsigned count, uint64_t at_ns);

/**
 * Counts results in the window of the closed phase that was read. If the window trips, it opens.
 */
void breaker_phase_count(struct breaker_view *view, struct breaker_results ends);

/**
 * Reads the key, and counts the permits whose time is over without a report. Other calls begin with
 * it. `list` gets the permits in flight, of which `list->alone.n` are wanted at most; it may be
 * NULL.
 */
void breaker_phase_update(struct breaker_view *view, struct breaker_list *list);

#endif
