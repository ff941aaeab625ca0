#include "server/requests/adhoc_key.h"

#include "rules/model.h"
#include "server/requests/run_plan.h"
#include "server/requests/work_error.h"

void adhoc_key_prepare(struct decider *decider, struct work *work, const struct request *r)
{
	if (!work_may_use_limit(decider, work, &decider->adhoc.any_limit))
		return;
	work_set_status(work, engine_prepare_limit(decider->shared->table, &decider->adhoc.any_limit,
	                                           &(struct algo_call){run_plan_op(r->op)}, r->key,
	                                           &work->plan));
}

/* Returns false if the plan is at a store. */
static bool forget_key(struct decider *decider, struct work *work, struct reply *reply)
{
	struct plan *plan = &work->plan;

	if (!engine_is_remote(plan)) {
		reply->has_state = engine_forget(&decider->context, plan);
		return true;
	}
	if (!run_plan(decider, work, reply, engine_decide))
		return false;
	reply->has_state =
	    plan->only.until_ns != 0; /* a state that had expired by the store's clock counts as none */
	return true;
}

/* Without its parameters, all that is known of a bucket is when its state ends. */
void adhoc_key_finish(struct decider *decider, struct work *work, struct reply *reply)
{
	struct weir_decision *d = &reply->decision;

	if (work->status != WEIR_OK)
		return;
	if (work->op == REQUEST_RESET) {
		if (!forget_key(decider, work, reply))
			return;
		*d = (struct weir_decision){.allowed = true, .reason = WEIR_REASON_OK};
	} else {
		if (!run_plan(decider, work, reply, engine_decide))
			return;
		reply->has_state = d->reset_after_ns > 0;
	}
	d->quota = d->remaining = 0;
	d->limit = rules_reserved_name(work->full_request->limit);
}
