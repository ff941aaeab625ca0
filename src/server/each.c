#include "server/each.h"

#include "server/koala.h"
#include "server/run.h"

static void prepare(struct worker *worker, struct work *work, const struct request *r,
                    const struct rules_rule *only)
{
	const struct engine_attributes attributes = {r->attributes, r->attribute_count, WEIR_KEY_MAX};
	const struct engine_each each = {run_op(r->op), r->erases, only};

	run_check(work, engine_prepare_each(worker->config->engine, &each, &attributes, &worker->arena,
	                                    &work->plan));
}

void each_prepare(struct worker *worker, struct work *work, const struct request *r)
{
	prepare(worker, work, r, NULL);
}

void each_finish(struct worker *worker, struct work *work, struct reply *reply)
{
	if (work->status == WEIR_OK && run_plan(worker, work, reply, engine_decide))
		run_check(work, koala_tell_each(worker, &work->plan, reply));
}

void each_prepare_value(struct worker *worker, struct work *work, const struct request *r)
{
	const struct rules_rule *rule = engine_rule(worker->config->engine, r->name);

	if (rule)
		prepare(worker, work, r, rule);
	else
		run_fail_name(worker, work, WEIR_ENOTFOUND, "the name of a rule", r->name);
}

void each_finish_value(struct worker *worker, struct work *work, struct reply *reply)
{
	const struct weir_decision *d = &reply->decision;

	if (work->status != WEIR_OK || !run_plan(worker, work, reply, engine_decide))
		return;
	reply->used = d->limit ? d->quota - d->remaining : 0;
	/* What is let pass without its store has nothing left. */
	if (d->limit && (d->reason == WEIR_REASON_STORE_FAILURE || (d->allowed && d->remaining == 0)))
		run_check(work, WEIR_ESTORE);
}
