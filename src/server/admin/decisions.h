/*
 * decisions.h: counts decisions in the metrics and in the list of the most denied keys, and logs
 * phase changes.
 */
#ifndef SERVER_DECISIONS_H
#define SERVER_DECISIONS_H

#include "server/requests/decider.h"

/** Counts a decision under the limit at `index` in limit_counters. */
void decisions_count(struct decider *decider, size_t index, bool shadow, bool allowed,
                     enum weir_reason reason);
/** The callbacks `observe`, `breaker_ran` and `failed` of a decision context. */
void decisions_count_step(void *context, const struct plan *plan, const struct plan_step *step);
void decisions_count_phase(void *context, const struct plan_step *step,
                           const struct algo_decision *decision);
void decisions_count_failure(void *context, const struct plan_step *step,
                             enum rules_failure policy);

#endif
