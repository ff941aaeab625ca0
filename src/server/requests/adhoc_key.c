/*
 * adhoc_key.c: prepares the commands CL.THROTTLE and THROTTLE, and peeks at or resets a key of
 * theirs. The parameters of these keys' limits come with each command; a peek or reset has none.
 */
#include "server/requests/adhoc_key.h"

#include <stdio.h>

#include "rules/model.h"
#include "server/requests/reset_log.h"
#include "server/admin/shown_keys.h"
#include "server/requests/run_plan.h"
#include "server/requests/work_error.h"

void adhoc_key_prepare_command(struct decider *decider, struct work *work, const struct request *r)
{
	struct weir_limit *limit;
	struct weir_error error;
	int status = adhoc_limit(&decider->adhoc, &r->adhoc, &decider->arena, &limit, &error);

	if (status != WEIR_OK) {
		work_fail(decider, work, status, slice_of(error.message));
		return;
	}
	if (!work_may_use_limit(decider, work, limit))
		return;
	status =
	    engine_prepare_limit(decider->shared->table, limit,
	                         &(struct algo_call){run_plan_op(r->op), r->cost}, r->key, &work->plan);
	/* These commands deny a cost that could never pass, with the state of the key: peek at it. */
	if (status == WEIR_ECOST)
		engine_prepare_limit(decider->shared->table, limit, &(struct algo_call){ALGO_PEEK}, r->key,
		                     &work->plan);
	if (status != WEIR_OK)
		work_set_status(work, status);
}

void adhoc_key_prepare(struct decider *decider, struct work *work, const struct request *r)
{
	if (!work_may_use_limit(decider, work, &decider->adhoc.any_limit))
		return;
	work_set_status(work, engine_prepare_limit(decider->shared->table, &decider->adhoc.any_limit,
	                                           &(struct algo_call){run_plan_op(r->op)}, r->key,
	                                           &work->plan));
}

/*
 * Handles a request whose limit is named CL.THROTTLE or THROTTLE, like these commands. Their limits
 * come with their requests. As this request has none, it can only reset the key.
 */
void adhoc_key_prepare_reserved_name(struct decider *decider, struct work *work,
                                     const struct request *r)
{
	struct slice name = r->limit;
	char message[128];
	int len;

	if (r->op == REQUEST_RESET) {
		work->kind = REQUEST_KEY; /* so adhoc_key_finish, below, carries it out */
		adhoc_key_prepare(decider, work, r);
		return;
	}
	len = snprintf(message, sizeof message,
	               "expected a limit of the rule file, found '%.*s', which is a command: to peek, "
	               "send quantity 0",
	               (int)name.len, name.data);
	work_fail(decider, work, WEIR_EINVAL, (struct slice){message, (size_t)len});
}

/* Resets the key. Returns false if it is not done yet, because the plan is at a store. */
static bool reset_key(struct decider *decider, struct work *work, struct reply *reply)
{
	struct plan *plan = &work->plan;

	if (!engine_is_remote(plan)) {
		reply->has_state = engine_forget(&decider->context, plan);
		return true;
	}
	if (!run_plan(decider, work, reply, engine_decide))
		return false;
	/* the store says when the state that it removed would have ended; 0 if there was none */
	reply->has_state = plan->direct_step.charge_ends_ns != 0;
	return true;
}

/* Without its parameters, all that is known of a bucket is when its state ends. */
void adhoc_key_finish(struct decider *decider, struct work *work, struct reply *reply)
{
	struct weir_decision *d = &reply->decision;

	if (work->status != WEIR_OK)
		return;
	if (work->op == REQUEST_RESET) {
		if (!reset_key(decider, work, reply))
			return;
		if (reply->has_state)
			reset_log_keys(decider, work);
		else if (shown_keys_is_digest(work->plan.direct_step.key_name) &&
		         rules_reserved_name(work->full_request->limit))
			shown_keys_refuse_reset(decider, work);
		*d = (struct weir_decision){.allowed = true, .reason = WEIR_REASON_OK};
	} else {
		if (!run_plan(decider, work, reply, engine_decide))
			return;
		reply->has_state = d->reset_after_ns > 0;
	}
	d->quota = d->remaining = 0;
	d->limit = rules_reserved_name(work->full_request->limit);
}
