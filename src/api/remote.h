/*
 * remote.h: calls of the library that wait for the remote store of their table.
 *
 * A call borrows a store client only where it has steps there; all others pay for a branch.
 */
#ifndef API_REMOTE_H
#define API_REMOTE_H

#include "engine/plan/plan.h"

struct store_loan;

struct remote {
	struct store_loan *loan; /* or NULL if none was needed */
	size_t pending;          /* plans that are at the store */
	bool failed;             /* a step could not be done there */
};

/** Before the plans of `turn` run: gives it a store client, if they need one. 0 or ENOMEM. */
int remote_begin(struct remote *remote, struct decision_context *context, bool is_needed);
/**
 * Behind engine_run or its like, which returned `state`: goes on until the plan is done, or waits
 * for a key.
 */
enum engine_state remote_finish(struct remote *remote, const struct decision_context *context,
                                enum engine_state state, struct plan *plan,
                                struct weir_decision *decision);
/** Waits until none of several plans is at the store. The caller resumes them. */
void remote_wait(struct remote *remote, const struct decision_context *context);
void remote_end(struct remote *remote, const struct decision_context *context);

/** Instead of remote_decide, for a refund by permit: engine_report to its end. */
int remote_report(struct decision_context *context, struct plan *plan,
                  struct weir_decision *decision);
/**
 * engine_decide to its end. 0, ENOMEM, or ESTORE where `is_direct` and the store failed, or
 * something could not be given back.
 */
int remote_decide(struct decision_context *context, struct plan *plan, bool is_direct,
                  struct weir_decision *decision);

#endif
