/*
 * request_permit.c: translates between the text of a permit, which a client gets and sends back,
 * and the charges that the engine refunds or reports by it.
 */
#include "server/requests/request_permit.h"

#include "base/error.h"
#include "server/requests/permit_text.h"
#include "server/requests/run_plan.h"
#include "server/requests/work_error.h"

/*
 * Compares the hashes of limit and key. Other servers have other hashes, so a permit of another
 * server also matches by the identity of the limit and the name of the key.
 */
static bool is_charge_of_step(const struct plan_step *step, const struct weir_charge *charge,
                              struct slice name)
{
	return charge->key == step->key.hash ||
	       (name.data && charge->limit == step->limit->algo.identity &&
	        slice_equal(name, step->key_name));
}

/*
 * Whether the step is one of the permit's charges. Naming any of them is enough: charges that were
 * made together are refunded together.
 */
static bool covers_step(const struct weir_permits *permits, const struct engine_names *names,
                        const struct plan_step *step)
{
	for (size_t i = 0; i < permits->count; i++)
		if (is_charge_of_step(step, &permits->charges[i], names->key_names[i]))
			return true;
	return false;
}

/* The number of this server among those that share permits; 0 if it shares none. */
static uint64_t giver_of(const struct decider *decider)
{
	return decider->context.claim_store ? decider->context.own_server : 0;
}

/* Tries the secrets under which this server or another one may have written the text. */
bool permit_read(struct decider *decider, struct slice text, struct weir_permits *permits,
                 struct engine_names *names)
{
	const struct permit_secrets *secrets = &decider->shared->permit_secrets;
	const struct hash_key *own = engine_secret(decider->shared->table);
	size_t n = permit_secrets_count(secrets);

	for (size_t i = 0; i < n; i++)
		if (permit_text_read(text, permit_secrets_at(secrets, i, own), &decider->arena, permits,
		                     names)) {
			names->own_server = giver_of(decider);
			return true;
		}
	return false;
}

/* Prepares a refund of the charges that the permit lists. A smaller cost refunds a part of them. */
int permit_prepare(struct decider *decider, const struct request *r, struct plan *plan,
                   struct weir_error *error)
{
	struct weir_permits permits;
	struct engine_names names;
	uint64_t granted_cost;

	if (!permit_read(decider, r->permit, &permits, &names))
		return error_set(error, WEIR_EINVAL, "expected a permit that this server issued");
	granted_cost = permits.cost;
	permits.cost = u64_min(granted_cost, r->cost);
	if (engine_prepare_permits(decider->config->engine, &permits, &names, &decider->arena, plan) !=
	    WEIR_OK)
		return error_set(error, WEIR_ENOMEM, "out of memory");
	if (r->kind == REQUEST_LIMIT && !covers_step(&permits, &names, &plan->direct_step))
		return error_set(error, WEIR_EINVAL,
		                 "expected the limit and the key of the permit, found others");
	/* after a refund of a part the permit is void, although the rest stays charged (algo/op.h) */
	plan->op = permits.cost < granted_cost ? ALGO_REFUND_LAST : ALGO_REFUND;
	return WEIR_OK;
}

/* A permit is issued if the request wants one, or if a limit needs a report of the outcome. */
int permit_request(bool is_wanted, struct plan *plan, struct weir_error *error)
{
	if ((is_wanted || engine_is_reported(plan)) && engine_want_permit(plan) != WEIR_OK)
		return error_set(error, WEIR_ELONG,
		                 "expected at most %d limits on a request with a permit, found %u",
		                 WEIR_PERMITS_MAX, plan->step_count);
	return WEIR_OK;
}

/* Writes the permit of an acquired plan as a text. */
int permit_write_reply(struct decider *decider, const struct plan *plan, struct reply *reply)
{
	struct metrics_loop *metrics = decider->metrics;
	struct weir_permits permits;
	struct engine_names names;
	bool refunded = reply->decision.allowed;

	if (!algo_op_consumes(plan->op)) { /* a refund is only counted */
		metrics_add(&metrics->permits[refunded ? METRICS_PERMIT_REFUNDED : METRICS_PERMIT_NOT_HELD],
		            1);
		return WEIR_OK;
	}
	names.own_server = giver_of(decider);
	engine_fill_permits(plan, &permits, &names);
	reply->permit = permit_text_write(&permits, &names,
	                                  permit_secrets_at(&decider->shared->permit_secrets, 0,
	                                                    engine_secret(decider->shared->table)),
	                                  &decider->arena);
	if (!reply->permit.data)
		return WEIR_ENOMEM;
	metrics_add(&metrics->permits[METRICS_PERMIT_HANDED_OUT], 1);
	return WEIR_OK;
}

/* Counts a request of which the limit of `step` gets no report, and logs the first. */
static void count_withheld(struct decider *decider, const struct plan_step *step)
{
	size_t metric = engine_limit_index(decider->config->engine, step->limit);
	_Atomic uint64_t *count =
	    &metrics_counts_of(decider->config->limit_counters[metric], decider->index)->withheld;

	if (atomic_load_explicit(count, memory_order_relaxed) == 0)
		log_event(decider->shared->log, LOG_WARNING, "permit_withheld",
		          {"limit", step->limit->name}, {"rule", step->rule->name},
		          {"message",
		           "expected a report of each request that passes, found a request at /auth, "
		           "whose answer has no permit to report by; see `auth`"});
	metrics_add(count, 1);
}

void permit_withhold(struct decider *decider, const struct plan *plan, struct reply *reply)
{
	if (decider->config->rules->auth == RULES_AUTH_REPORTS)
		return;
	reply->permit = (struct slice){NULL, 0};
	for (size_t i = 0; i < plan->step_count; i++)
		if (plan->steps[i].charged && algo_is_reported(&plan->steps[i].limit->algo))
			count_withheld(decider, &plan->steps[i]);
}

/* Ends the permit of a report, and counts whether it was still in use. */
void permit_finish_report(struct decider *decider, struct work *work, struct reply *reply)
{
	struct metrics_loop *metrics = decider->metrics;
	bool was_in_use;

	if (work->status != WEIR_OK || !run_plan(decider, work, reply, engine_report))
		return;
	was_in_use = reply->decision.allowed;
	metrics_add(&metrics->permits[was_in_use ? METRICS_PERMIT_REPORTED : METRICS_PERMIT_NOT_HELD],
	            1);
	if (!was_in_use)
		work_fail(
		    decider, work, WEIR_ENOTFOUND,
		    SLICE("the permit is not held: it was reported or refunded before, or has expired"));
}
