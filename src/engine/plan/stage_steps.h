/*
 * stage_steps.h: chooses the steps that a stage of a plan runs, makes the call of each, and records
 * its result.
 */
#ifndef ENGINE_PLAN_STAGE_STEPS_H
#define ENGINE_PLAN_STAGE_STEPS_H

#include "engine/plan/plan.h"

/** Whether the plan's stage runs the step. */
bool stage_includes(const struct plan *plan, const struct plan_step *step);

/** Makes the call for the step's store. */
struct algo_call stage_call(const struct plan *plan, const struct plan_step *step);

/**
 * Records the result of a step: its decision `step_decision`, and the end until_ns of the state
 * after it. Merges the decision into the plan's, `decision`.
 */
void stage_record(const struct decision_context *context, struct plan *plan, struct plan_step *step,
                  uint64_t until_ns, struct weir_decision *step_decision,
                  struct weir_decision *decision);

/** Runs the stage's steps in memory, until a step is refused (plan->refused_step). */
void stage_run(const struct decision_context *context, struct plan *plan,
               struct weir_decision *decision);

/** Runs the only step of a direct call. */
void stage_run_alone(const struct decision_context *context, struct plan *plan,
                     struct weir_decision *decision);

#endif
