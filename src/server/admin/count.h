/* count.h: decisions, as metrics and the list of the most denied keys have them. */
#ifndef SERVER_COUNT_H
#define SERVER_COUNT_H

#include "server/loop/work.h"

/** Counts a decision of the limit with those metrics. */
void count_decision(struct worker *worker, size_t metric, bool shadow, bool allowed,
                    enum weir_reason reason);
/** For engine_observer, of a worker. */
void count_step(void *worker, const struct step *step);
/** For turn.phased, of a worker: events and metrics of phases, and their names. */
void count_phase(void *worker, const struct step *step, const struct algo_outcome *outcome);
/** A step that its store could not do. */
void count_failure(struct worker *worker, const struct step *step, enum rules_failure policy);

#endif
