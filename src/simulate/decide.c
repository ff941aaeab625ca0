/*
 * decide.c: decides one request in a scenario by the passes of the engine, counts the decisions,
 * and reports to the limits how the request ended.
 */
#include "simulate/decide.h"

#include "base/time/timestamp.h"
#include "engine/pipeline.h"

/* The context of the engine's observers. A report sets only the first three members. */
struct observed {
	struct scenario *scenario;
	uint64_t now_ns;
	bool failed;
	const struct ordered_record *ordered;
	struct buffer *output; /* NULL if not wanted */
};

static void add_number(struct buffer *out, const char *name, uint64_t value)
{
	buffer_add_text(out, name);
	buffer_add_u64(out, value);
}

void decide_begin_line(struct buffer *out, const struct ordered_record *ordered, const char *limit)
{
	add_number(out, "{\"n\":", ordered->number);
	buffer_add_text(out, ",\"time\":");
	timestamp_add_seconds(out, ordered->time_ns);
	buffer_add_text(out, ",\"limit\":\"");
	buffer_add_json(out, slice_of(limit));
}

static void add_decision_line(struct buffer *out, const struct ordered_record *ordered,
                              const struct plan_step *step, const struct weir_decision *d)
{
	decide_begin_line(out, ordered, step->limit->name);
	buffer_add_text(out, "\",\"key\":\"");
	buffer_add_json(out, step->key_name);
	buffer_add_text(out, d->allowed ? "\",\"allowed\":true" : "\",\"allowed\":false");
	add_number(out, ",\"remaining\":", d->remaining);
	add_number(out, ",\"retry_after_ms\":", ceil_div(d->retry_after_ns, NS_PER_MS));
	add_number(out, ",\"reset_after_ms\":", ceil_div(d->reset_after_ns, NS_PER_MS));
	if (d->paced)
		add_number(out, ",\"wait_ms\":", ceil_div(d->wait_ns, NS_PER_MS));
	buffer_printf(out, ",\"reason\":\"%s\"%s}\n", weir_reason_text(d->reason),
	              step->shadow ? ",\"shadow\":true" : "");
}

/* An engine_observer: counts the decision of a step, and writes its line if wanted. */
static void count_step(void *context, const struct plan *plan, const struct plan_step *step)
{
	struct observed *observed = context;
	const struct weir_decision *d = &plan->step_decisions[step - plan->steps];
	struct tally *tally = scenario_tally(observed->scenario, step);

	tally_count(tally, step, observed->ordered->cost, observed->ordered->time_ns, d);
	if (step->limit->algo.algorithm->judges)
		tally_count_end(tally, d->allowed, observed->ordered->outcome,
		                observed->ordered->latency_ns);
	if (step->shadow)
		scenario_count_shadow(observed->scenario, step->rule, observed->ordered->number,
		                      !d->allowed);
	if (observed->output)
		add_decision_line(observed->output, observed->ordered, step, d);
}

/* Records the phase that a breaker's key has after the step, for the report's timelines. */
static void observe_phase(void *context, const struct plan_step *step,
                          const struct algo_decision *outcome)
{
	struct observed *observed = context;
	struct tally *tally = scenario_tally(observed->scenario, step);

	observed->failed |= !phases_record(tally->phases, &step->limit->algo, step->key.hash, outcome,
	                                   observed->now_ns);
}

/* A plan whose end is reported gets a permit, by which decide_report finds the charges. */
int decide_prepare(struct scenario *scenario, const struct ordered_record *ordered,
                   struct arena *arena, struct plan *plan)
{
	const struct engine_values values = {scenario->attributes, ordered->values,
	                                     ordered->value_count};
	int status = engine_prepare_values(
	    scenario->engine, &(struct algo_call){ALGO_ACQUIRE, ordered->cost}, &values, arena, plan);

	if (status != WEIR_OK || plan->step_count == 0)
		return status;
	if (scenario->is_reported && engine_is_reported(plan)) {
		status = engine_want_permit(plan);
		if (status != WEIR_OK)
			return status;
		/* A plan that charges no limit wants none. */
		plan->permit.id = plan->wants_permit ? ++scenario->permits : 0;
	}
	plan->step_decisions = arena_array(arena, plan->step_count, sizeof *plan->step_decisions);
	for (size_t j = 0; plan->step_decisions && j < plan->step_count; j++) {
		store_fetch(scenario->table->store, &plan->steps[j].key);
		burst_prefetch(scenario_tally(scenario, &plan->steps[j])->burst, plan->steps[j].key.hash);
	}
	return plan->step_decisions ? WEIR_OK : WEIR_ENOMEM;
}

/*
 * Returns the rule that has allowed or denied without a limit. One that denies may be in the plan
 * as a step that is always refused.
 */
static const struct rules_rule *deciding_rule(const struct plan *plan)
{
	return plan->refused_step ? plan->refused_step->rule : plan->answering_rule;
}

bool decide_run(struct scenario *scenario, const struct ordered_record *ordered, struct plan *plan,
                struct buffer *output, struct weir_decision *decision)
{
	struct observed observed = {.scenario = scenario,
	                            .now_ns = ordered->time_ns,
	                            .ordered = ordered,
	                            .output = output};
	struct decision_context context = {.table = scenario->table,
	                                   .at = moment_given(ordered->time_ns),
	                                   .observe = count_step,
	                                   .breaker_ran = observe_phase,
	                                   .owner = &observed};

	engine_decide(&context, plan, decision);
	if (decision->reason == WEIR_REASON_LISTED)
		scenario->answered[scenario_rule_number(scenario, deciding_rule(plan))]++;
	scenario->allowed += decision->allowed;
	scenario->denied += !decision->allowed;
	scenario->unlimited += decision->allowed && !decision->limit;
	return !observed.failed;
}

/* Returns when the last charge of the plan ends by itself, if no report comes before. */
static uint64_t reported_until_ns(const struct plan *plan)
{
	uint64_t until_ns = 0;

	for (size_t i = 0; i < plan->step_count; i++)
		if (plan->steps[i].charged && algo_is_reported(&plan->steps[i].limit->algo))
			until_ns = u64_max(until_ns, plan->steps[i].charge_ends_ns);
	return until_ns;
}

void decide_fill_end(const struct plan *plan, struct request_end *end)
{
	end->permits_end_ns = reported_until_ns(plan);
	engine_fill_permits(plan, &end->permits, NULL);
}

bool decide_report(struct scenario *scenario, const struct request_end *end, uint64_t now_ns,
                   struct arena *arena, bool *evicted)
{
	struct observed observed = {.scenario = scenario, .now_ns = now_ns};
	struct decision_context context = {scenario->table, moment_given(now_ns),
	                                   .breaker_ran = observe_phase, .owner = &observed};
	struct weir_decision d;
	struct plan plan;
	bool done =
	    engine_prepare_permits(scenario->engine, &end->permits, NULL, arena, &plan) == WEIR_OK;

	*evicted = false;
	if (done) {
		plan.outcome = end->outcome;
		plan.latency_ns = end->latency_ns;
		engine_report(&context, &plan, &d);
		*evicted = !d.allowed && now_ns < end->permits_end_ns;
	}
	arena_reset(arena);
	return done && !observed.failed;
}
