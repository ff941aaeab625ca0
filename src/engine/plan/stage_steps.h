/* stage_steps.h: the steps of the stage that a plan is in: their calls, and how they ended. */
#ifndef ENGINE_PLAN_STAGE_STEPS_H
#define ENGINE_PLAN_STAGE_STEPS_H

#include "engine/plan/plan.h"

/** Whether the step has a part in the stage. */
bool stage_includes(const struct plan *plan, const struct plan_step *step);

/** The call that the step makes to its store. */
struct algo_call stage_call(const struct plan *plan, const struct plan_step *step);

/**
 * Takes note of how a step of the stage ended: of the state that it left until_ns, with the
 * decision `one`. `d` is the plan's so far.
 */
void stage_record(const struct decision_context *context, struct plan *plan, struct plan_step *step,
                  uint64_t until_ns, struct weir_decision *one, struct weir_decision *d);

/** Runs the stage's steps in memory, until one is refused, which plan->refused is then. */
void stage_run(const struct decision_context *context, struct plan *plan, struct weir_decision *d);

/** Runs the only step of a direct call. */
void stage_run_alone(const struct decision_context *context, struct plan *plan,
                     struct weir_decision *d);

#endif
