/* breaker_phase.h: changes the phase of a breaker's key, for acquires, reports and operators. */
#ifndef STORE_BREAKER_PHASE_H
#define STORE_BREAKER_PHASE_H

#include <stdbool.h>
#include <stdint.h>

#include "records/breaker_record.h"
#include "store/wide/breaker_view.h"

/** Stores a header that retains the record in the phase of `state`. */
enum header_result breaker_phase_store_header(struct breaker_view *view,
                                              const struct breaker_state *state);

/**
 * Changes the phase from the one that was read to `after`, for this cause. Returns false if another
 * thread has changed it.
 */
bool breaker_phase_change(struct breaker_view *view, const struct breaker_state *after,
                          enum algo_cause cause);

/**
 * Ends `count` probes of the half-open phase that was read. Returns false if another thread has
 * changed the phase.
 */
bool breaker_phase_end_probes(struct breaker_view *view, struct breaker_result result,
                              unsigned count, uint64_t at_ns);

/**
 * Counts results in the window of the closed phase that was read. If the window trips, the breaker
 * opens.
 */
void breaker_phase_count(struct breaker_view *view, struct breaker_results results);

/**
 * Reads the key, and counts the permits that have timed out. All other calls begin with it. `list`
 * gets the permits in flight, at most `list->single_ends.n` of which will be released; it may be
 * NULL.
 */
void breaker_phase_update(struct breaker_view *view, struct breaker_list *list);

#endif
