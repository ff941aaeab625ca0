/* collect.h: runs the remote steps of a plan's stage: submits them, then collects their results. */
#ifndef ENGINE_REMOTE_COLLECT_H
#define ENGINE_REMOTE_COLLECT_H

#include "engine/plan/plan.h"

/**
 * Runs the stage's remote steps. Returns false if they are submitted and not completed: call it
 * again when the plan is ready.
 */
bool remote_run_stage(const struct decision_context *context, struct plan *plan,
                      struct weir_decision *decision);

#endif
