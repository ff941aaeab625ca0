/* decisions.h: decisions, as metrics and the list of the most denied keys have them. */
#ifndef SERVER_DECISIONS_H
#define SERVER_DECISIONS_H

#include "server/requests/decider.h"

/** Counts a decision of the limit with those metrics. */
void decisions_count(struct decider *decider, size_t metric, bool shadow, bool allowed,
                     enum weir_reason reason);
/**
 * Of a turn, whose context they get: `observe`, `phased` (events and metrics of phases, and their
 * names) and `failed` (a step that its store could not do).
 */
void decisions_count_step(void *context, const struct plan_step *step);
void decisions_count_phase(void *context, const struct plan_step *step,
                           const struct algo_decision *outcome);
void decisions_count_failure(void *context, const struct plan_step *step,
                             enum rules_failure policy);

#endif
