/* collect.h: the steps of a stage at remote stores, from the first sent to the last that is back. */
#ifndef ENGINE_REMOTE_COLLECT_H
#define ENGINE_REMOTE_COLLECT_H

#include "engine/plan/plan.h"

/**
 * Runs those of the stage's steps that are at remote stores. Returns false if the stage goes on
 * only when these are done.
 */
bool remote_run(const struct decision_context *context, struct plan *plan, struct weir_decision *d);

#endif
