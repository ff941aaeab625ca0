/* stage.h: the steps of the stage that a plan is in. */
#ifndef ENGINE_STAGE_H
#define ENGINE_STAGE_H

#include "engine/plan.h"

/** Whether it gives back. */
static inline bool stage_gives(enum plan_stage stage)
{
	return stage == PLAN_GIVE_BACK || stage >= PLAN_DROP;
}

/** Whether the step has a part in the stage. */
bool stage_has(const struct plan *plan, const struct step *step);

/** The call that the step makes to its store. */
struct algo_call stage_call(const struct plan *plan, const struct step *step);

/**
 * Takes note of how a step of the stage ended: of the state that it left until_ns, with the
 * decision `one`. `d` is the plan's so far.
 */
void stage_note(const struct turn *turn, struct plan *plan, struct step *step, uint64_t until_ns,
                struct weir_decision *one, struct weir_decision *d);

/**
 * Runs those of the stage's steps that are at remote stores. False: the stage goes on when these
 * are done. Of remote.c.
 */
bool remote_run(const struct turn *turn, struct plan *plan, struct weir_decision *d);

/* The passes in which PLAN_TAKE comes to the steps in memory of a plan to acquire. */
enum {
	TAKE_SOON,
	TAKE_UNASKED, /* before all others: the one that nobody has peeked at */
	TAKE_LATE, /* paced: only the newest start can be given back, so it had better not be asked to
	            */
};

#define STAGE_PASS(pass) (1u << (pass))
#define STAGE_ANY_PASS   (~0u) /* of other stages */

/**
 * In arrange.c. Orders the steps when the plan starts. Returns whether to peek before anything is
 * taken.
 */
bool stage_arrange(struct plan *plan);

#endif
