/*
 * per_rule.c: handles requests of the protocol of Koala, an older rate limiter, in which each rule
 * is decided by itself: acquire at, browse or read the count of single rules. Also handles its
 * question whether all stores are alive.
 */
#include "server/requests/per_rule.h"

#include "server/denials/denial_attributes.h"
#include "server/requests/koala.h"
#include "server/requests/run_plan.h"
#include "server/requests/work_error.h"

/* Prepares a plan for the rules that the request's attributes match. */
static void prepare_plan(struct decider *decider, struct work *work, const struct request *r,
                         const struct engine_rule_operation *operation)
{
	const struct engine_attributes attributes = {r->attributes, r->attribute_count, WEIR_KEY_MAX,
	                                             decider_permitted_limits(decider)};
	int status = engine_prepare_rule_operation(decider->config->engine, operation, &attributes,
	                                           &decider->arena, &work->plan);

	if (status == WEIR_OK)
		denial_attributes_set(&work->plan, attributes.items, attributes.count);
	work_set_rules_status(decider, work, status, r);
}

void per_rule_prepare_each_limit(struct decider *decider, struct work *work,
                                 const struct request *r)
{
	prepare_plan(
	    decider, work, r,
	    &(struct engine_rule_operation){.op = run_plan_op(r->op), .feedback = r->feedback});
}

void per_rule_finish_each_limit(struct decider *decider, struct work *work, struct reply *reply)
{
	if (work->status == WEIR_OK && run_plan(decider, work, reply, engine_decide))
		work_set_status(work, koala_check_each_limit(&work->plan));
}

void per_rule_prepare_browse_all(struct decider *decider, struct work *work,
                                 const struct request *r)
{
	enum algo_op op = run_plan_op(r->op);

	prepare_plan(decider, work, r,
	             &(struct engine_rule_operation){.op = op, .all_or_none = algo_op_consumes(op)});
}

void per_rule_finish_browse_all(struct decider *decider, struct work *work, struct reply *reply)
{
	if (work->status == WEIR_OK && run_plan(decider, work, reply, engine_decide))
		work_set_status(work, koala_answer_browse_all(decider, &work->plan, reply));
}

void per_rule_prepare_value(struct decider *decider, struct work *work, const struct request *r)
{
	const struct rules_rule *rule = koala_rule(decider, r->name);

	if (rule)
		prepare_plan(decider, work, r,
		             &(struct engine_rule_operation){.op = run_plan_op(r->op), .only_rule = rule});
	else
		work_fail_name(decider, work, WEIR_ENOTFOUND, "the name of a rule", r->name);
}

/*
 * Whether the limit's store could not answer the peek, so that a policy has decided: to deny for
 * that reason, or to allow. A peek that a store allows has found a unit at least, unless the limit
 * has no quota.
 */
static bool is_decided_without_store(const struct weir_decision *d)
{
	return d->reason == WEIR_REASON_STORE_FAILURE ||
	       (d->allowed && d->quota > 0 && d->remaining == 0);
}

/* Answers with the count of the rule's key: the units of its quota that are used. */
void per_rule_finish_value(struct decider *decider, struct work *work, struct reply *reply)
{
	const struct weir_decision *d = &reply->decision;

	if (work->status != WEIR_OK || !run_plan(decider, work, reply, engine_decide))
		return;
	reply->used = d->limit ? d->quota - d->remaining : 0;
	if (d->limit && is_decided_without_store(d))
		work_set_status(work, WEIR_ESTORE);
}

/*
 * Adds a peek at `limit` to the plan, unless the plan has one at the same store already: `peeked`
 * is the set of these stores' indexes. Returns 0 or an error.
 */
static int add_peek_of_store(struct decider *decider, const struct weir_limit *limit,
                             uint64_t *peeked, struct plan *plan)
{
	const struct store *store = engine_remote_store(decider->shared->table, limit);
	struct plan peek;
	int status;

	if (!store || *peeked & UINT64_C(1) << store->index)
		return WEIR_OK;
	status = engine_prepare_limit(decider->shared->table, limit, &(struct algo_call){ALGO_PEEK, 1},
	                              SLICE(""), &peek);
	if (status != WEIR_OK)
		return status;
	*peeked |= UINT64_C(1) << store->index;
	plan->steps[plan->step_count++] = peek.direct_step;
	plan->has_remote_steps = true;
	return WEIR_OK;
}

/* Peeks at a limit of each store: without a call, a failed store would go unnoticed. */
void per_rule_prepare_alive(struct decider *decider, struct work *work, const struct request *r)
{
	const struct server_config *config = decider->config;
	size_t n = engine_limit_count(config->engine);
	uint64_t peeked = 0;
	int status;

	(void)r;
	engine_prepare_empty(&(struct algo_call){ALGO_PEEK, 1}, &work->plan);
	work->plan.steps_are_independent = true;
	work->plan.steps = arena_array(&decider->arena, STORES_MAX, sizeof *work->plan.steps);
	status = work->plan.steps ? WEIR_OK : WEIR_ENOMEM;
	for (size_t i = 0; i < n && status == WEIR_OK && peeked != config->remote_stores; i++)
		status =
		    add_peek_of_store(decider, engine_limit_at(config->engine, i), &peeked, &work->plan);
	work_set_status(work, status);
}

void per_rule_finish_alive(struct decider *decider, struct work *work, struct reply *reply)
{
	if (work->status == WEIR_OK && run_plan(decider, work, reply, engine_decide))
		reply->ready = koala_stores_are_up(decider);
}
