/*
 * remote.h: lets a blocking call of the library use the remote store (Redis) of its table.
 *
 * A call borrows a store client only if one of its plans has steps at that store. All other calls
 * pay for a branch.
 */
#ifndef API_REMOTE_H
#define API_REMOTE_H

#include "engine/plan/plan.h"

struct store_loan;

/* The result of a call if the store could not complete one of its steps. */
enum remote_failure {
	REMOTE_FAILURE_IS_ERROR,  /* it returns ESTORE: for calls on one limit and key */
	REMOTE_FAILURE_BY_POLICY, /* the `on_store_failure` of the rule decides */
};

/* The use of the remote store by one call. */
struct remote {
	struct store_loan *loan; /* the borrowed client, or NULL if none was needed */
	size_t pending;          /* plans whose steps the store has not completed yet */
	bool failed;             /* the store could not complete a step */
};

/**
 * Borrows a store client for the plans of `context` if `is_needed`. Call it before they run.
 * Returns 0 or ENOMEM.
 */
int remote_begin(struct remote *remote, struct decision_context *context, bool is_needed);
/**
 * Call it with the `state` that engine_run or a similar function has returned: resumes the plan
 * until it is done, or has to wait for a key. Returns the last state.
 */
enum engine_state remote_finish(struct remote *remote, const struct decision_context *context,
                                enum engine_state state, struct plan *plan,
                                struct weir_decision *decision);
/** Blocks until the store has completed the steps of all plans. The caller resumes them. */
void remote_wait(struct remote *remote, const struct decision_context *context);
/** Gives the client back. */
void remote_end(struct remote *remote, const struct decision_context *context);

/** Runs engine_report to its end, for a refund by permit. Returns as remote_decide. */
int remote_report(struct decision_context *context, struct plan *plan,
                  struct weir_decision *decision);
/**
 * Runs engine_decide to its end, whether the plan has steps at a store or not. Returns 0, ENOMEM,
 * or ESTORE: the store failed and that is an error, or a charge could not be refunded.
 */
int remote_decide(struct decision_context *context, struct plan *plan,
                  enum remote_failure on_failure, struct weir_decision *decision);

#endif
