/*
 * replay.c: decides the requests of a log in batches, by each scenario in turn, and counts the
 * decisions. A scenario is a configuration, or a limit of its own, with its table and counters.
 * Where the log has the ends of requests, it reports them to the limits that judge outcomes.
 */
#include "simulate/replay.h"

#include <stdlib.h>
#include <string.h>

#include "base/prng.h"
#include "base/error.h"
#include "base/time/timestamp.h"
#include "engine/pipeline.h"

#define BATCH          32
#define PROGRESS_EVERY 4096 /* requests */

/* A replay while it runs. */
struct run {
	struct replay *replay;
	struct order *order;
	struct scenario *scenario; /* the one that decides the batch now */
	struct arena arena;        /* for its plans */
	struct arena brief_arena;  /* for a plan that ends at once, such as that of a report */
	size_t attributes;         /* number of these among the fields; those of endings follow */
	struct ordered_record *batch[BATCH];
	struct buffer outputs[BATCH]; /* JSON lines of the scenarios' decisions */
	uint64_t missing[BATCH];      /* fields of keys that the request lacks, a bit each */
	size_t count;
	struct plan plans[BATCH];
	int statuses[BATCH];
	bool failed; /* out of memory, or the output can not be written */
};

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

/* Begins a line of the decisions' output, up to the limit's name, whose quote stays open. */
static void begin_decision_line(struct buffer *out, const struct ordered_record *ordered,
                                const char *limit)
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
	begin_decision_line(out, ordered, step->limit->name);
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

/* Returns the counters of the step's limit. */
static struct tally *tally_of(const struct scenario *scenario, const struct plan_step *step)
{
	return &scenario->tallies[engine_limit_index(scenario->engine, step->limit)];
}

/* An engine_observer: counts the decision of a step, and writes its line if wanted. */
static void count_step(void *context, const struct plan *plan, const struct plan_step *step)
{
	struct observed *observed = context;
	const struct weir_decision *d = &plan->step_decisions[step - plan->steps];
	struct tally *tally = tally_of(observed->scenario, step);

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
	struct tally *tally = tally_of(observed->scenario, step);

	observed->failed |= !phases_record(tally->phases, &step->limit->algo, step->key.hash, outcome,
	                                   observed->now_ns);
}

/*
 * Prepares the plan of a request in the scenario that decides now, and prefetches its keys. A plan
 * whose end is reported gets a permit, by which report_next_end finds the charges. Returns a
 * status.
 */
static int plan_request(struct run *run, const struct ordered_record *ordered, struct plan *plan)
{
	const struct scenario *scenario = run->scenario;
	const struct engine_values values = {scenario->attributes, ordered->values,
	                                     ordered->value_count};
	int status =
	    engine_prepare_values(scenario->engine, &(struct algo_call){ALGO_ACQUIRE, ordered->cost},
	                          &values, &run->arena, plan);

	if (status != WEIR_OK || plan->step_count == 0)
		return status;
	if (scenario->is_reported && engine_is_reported(plan)) {
		status = engine_want_permit(plan);
		if (status != WEIR_OK)
			return status;
		/* A plan that charges no limit wants none. */
		plan->permit.id = plan->wants_permit ? ++run->scenario->permits : 0;
	}
	plan->step_decisions = arena_array(&run->arena, plan->step_count, sizeof *plan->step_decisions);
	for (size_t j = 0; plan->step_decisions && j < plan->step_count; j++) {
		store_fetch(scenario->table->store, &plan->steps[j].key);
		burst_prefetch(tally_of(scenario, &plan->steps[j])->burst, plan->steps[j].key.hash);
	}
	return plan->step_decisions ? WEIR_OK : WEIR_ENOMEM;
}

/*
 * Returns the fields that the request lacks although the keys of its rules are made of them, a bit
 * each.
 */
static uint64_t missing_fields(const struct scenario *scenario,
                               const struct ordered_record *ordered, const struct plan *plan)
{
	uint64_t fields = 0, missing = 0;

	for (size_t i = 0; i < plan->step_count; i++)
		fields |= scenario->key_fields[scenario_rule_number(scenario, plan->steps[i].rule)];
	for (; fields != 0; fields &= fields - 1)
		if (ordered->values[__builtin_ctzll(fields)].len == 0)
			missing |= fields & -fields;
	return missing;
}

/* The first stage of the batch's pipeline, for its requests from `start` to before `end`. */
static void prepare_requests(void *context, size_t start, size_t end)
{
	struct run *run = context;

	for (size_t i = start; i < end; i++) {
		run->statuses[i] = plan_request(run, run->batch[i], &run->plans[i]);
		if (run->statuses[i] == WEIR_OK)
			run->missing[i] |= missing_fields(run->scenario, run->batch[i], &run->plans[i]);
	}
}

/* The second stage: finds the cells of the keys, which the first stage has prefetched. */
static void locate_cells(void *context, size_t start, size_t end)
{
	struct run *run = context;
	const struct scenario *scenario = run->scenario;

	for (size_t i = start; i < end; i++) {
		struct plan *plan = &run->plans[i];

		if (run->statuses[i] != WEIR_OK)
			continue;
		engine_locate(
		    &(struct decision_context){scenario->table, moment_given(run->batch[i]->time_ns)},
		    plan);
		for (size_t j = 0; j < plan->step_count; j++)
			burst_prefetch_log(tally_of(scenario, &plan->steps[j])->burst, plan->steps[j].key.hash);
	}
}

/*
 * Counts a request of too high a cost as a hit of its key, in a scenario of a single limit. A
 * request whose key is the error, so that no cost would be accepted, is not counted.
 */
static void count_hit_of_excessive_cost(struct run *run, const struct ordered_record *ordered)
{
	struct scenario *scenario = run->scenario;
	const struct engine_values values = {scenario->attributes, ordered->values,
	                                     ordered->value_count};
	struct plan plan;

	if (engine_prepare_values(scenario->engine, &(struct algo_call){ALGO_ACQUIRE, 1}, &values,
	                          &run->brief_arena, &plan) == WEIR_OK &&
	    plan.step_count == 1)
		tally_refuse(&scenario->tallies[0], &plan.steps[0]);
	arena_reset(&run->brief_arena);
}

/* Counts a request that could not be prepared, and writes a line with the error if wanted. */
static void count_error(struct run *run, size_t i)
{
	struct scenario *scenario = run->scenario;
	int status = run->statuses[i];

	run->failed |= status == WEIR_ENOMEM;
	scenario->errors++;
	if (scenario->own)
		count_hit_of_excessive_cost(run, run->batch[i]);
	if (!run->replay->decisions)
		return;
	begin_decision_line(&run->outputs[i], run->batch[i],
	                    scenario->own ? scenario->tallies[0].limit->name : "");
	buffer_printf(&run->outputs[i], "\",\"error\":\"%s\"}\n", weir_strerror(status));
}

/* Reports the end of the request that ends next, at its time but not later than now. */
static void report_next_end(struct run *run, uint64_t now_ns)
{
	struct scenario *scenario = run->scenario;
	uint64_t due_ns = u64_min(inflight_due_ns(&scenario->inflight), now_ns);
	struct request_end end = inflight_pop(&scenario->inflight);
	struct observed observed = {.scenario = scenario, .now_ns = due_ns};
	struct decision_context context = {scenario->table, moment_given(due_ns),
	                                   .breaker_ran = observe_phase, .owner = &observed};
	struct weir_decision d;
	struct plan plan;

	if (engine_prepare_permits(scenario->engine, &end.permits, NULL, &run->brief_arena, &plan) ==
	    WEIR_OK) {
		plan.outcome = end.outcome;
		plan.latency_ns = end.latency_ns;
		engine_report(&context, &plan, &d);
		run->failed |= observed.failed;
		run->replay->evicted_permits += !d.allowed && due_ns < end.permits_end_ns;
	} else {
		run->failed = true;
	}
	arena_reset(&run->brief_arena);
}

/* Reports all ends of requests that are due by now. */
static void report_ends_until(struct run *run, uint64_t now_ns)
{
	while (run->scenario->inflight.heap.count > 0 &&
	       inflight_due_ns(&run->scenario->inflight) <= now_ns)
		report_next_end(run, now_ns);
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

/*
 * Schedules the end of a request that has passed with a permit. A line that came too late to be
 * sorted is decided after its own time, maybe after its end, which then is due at once.
 */
static void schedule_end(struct run *run, const struct ordered_record *ordered,
                         const struct plan *plan)
{
	struct scenario *scenario = run->scenario;
	uint64_t due_ns = u64_max(ordered->time_ns, ordered->end_ns);
	struct request_end end;

	if (ordered->outcome == RECORD_NO_END)
		return;
	if (inflight_is_full(&scenario->inflight)) { /* makes space: the request due next ends now */
		run->replay->ended_early++;
		report_next_end(run, ordered->time_ns);
	}
	end = (struct request_end){.latency_ns = ordered->latency_ns,
	                           .outcome = ordered->outcome,
	                           .permits_end_ns = reported_until_ns(plan)};
	engine_fill_permits(plan, &end.permits, NULL);
	run->failed |= !inflight_add(&scenario->inflight, due_ns, &end);
}

/*
 * Returns the rule that has allowed or denied without a limit. One that denies may be in the plan
 * as a step that is always refused.
 */
static const struct rules_rule *deciding_rule(const struct plan *plan)
{
	return plan->refused_step ? plan->refused_step->rule : plan->answering_rule;
}

/* The last stage: decides the requests one after another, with the ends due before each. */
static void decide_requests(void *owner, size_t start, size_t end)
{
	struct run *run = owner;
	struct scenario *scenario = run->scenario;

	for (size_t i = start; i < end; i++) {
		struct plan *plan = &run->plans[i];
		struct ordered_record *ordered = run->batch[i];
		struct observed observed = {.scenario = scenario,
		                            .now_ns = ordered->time_ns,
		                            .ordered = ordered,
		                            .output = run->replay->decisions ? &run->outputs[i] : NULL};
		struct decision_context context = {.table = scenario->table,
		                                   .at = moment_given(ordered->time_ns),
		                                   .observe = count_step,
		                                   .breaker_ran = observe_phase,
		                                   .owner = &observed};
		struct weir_decision d;

		if (run->statuses[i] != WEIR_OK) {
			count_error(run, i);
			continue;
		}
		report_ends_until(run, ordered->time_ns);
		engine_decide(&context, plan, &d);
		if (__builtin_expect(plan->permit.id != 0, 0))
			schedule_end(run, ordered, plan);
		run->failed |= observed.failed;
		if (d.reason == WEIR_REASON_LISTED)
			scenario->answered[scenario_rule_number(scenario, deciding_rule(plan))]++;
		scenario->allowed += d.allowed;
		scenario->denied += !d.allowed;
		scenario->unlimited += d.allowed && !d.limit;
	}
}

/* Writes the decided requests, in the order of the log, up to the first that is not decided. */
static void write_decided(struct run *run)
{
	struct ordered_record *ordered;

	while ((ordered = order_release(run->order))) {
		if (ordered->output_len > 0)
			run->failed |= fwrite(ordered->output, 1, ordered->output_len,
			                      run->replay->decisions) != ordered->output_len;
		free(ordered->output);
	}
}

/* Decides the batch in all scenarios. */
static void flush_batch(struct run *run)
{
	struct replay *replay = run->replay;

	for (size_t l = 0; l < replay->scenario_count; l++) {
		run->scenario = &replay->scenarios[l];
		pipeline_run((struct pipeline){BATCH, {prepare_requests, locate_cells, decide_requests}},
		             run->count, run);
		arena_reset(&run->arena);
	}
	for (size_t i = 0; i < run->count; i++) {
		struct ordered_record *ordered = run->batch[i];

		for (; run->missing[i] != 0; run->missing[i] &= run->missing[i] - 1)
			replay->without[__builtin_ctzll(run->missing[i])]++;
		if (replay->requests++ == 0)
			replay->first_ns = ordered->time_ns;
		replay->last_ns = ordered->time_ns;
		run->failed |= run->outputs[i].failed;
		ordered->output = run->outputs[i].data;
		ordered->output_len = (uint32_t)run->outputs[i].len;
		run->outputs[i] = (struct buffer){0};
		order_done(ordered);
	}
	run->count = 0;
	write_decided(run);
}

static void add_to_batch(struct run *run, struct ordered_record *ordered)
{
	run->batch[run->count++] = ordered;
	if (run->count == BATCH)
		flush_batch(run);
}

/* Sorts a record in by its time. While there is no memory for it, decides older requests. */
static void add_request(struct run *run, const struct record *record)
{
	while (!order_add(run->order, record, run->attributes)) {
		if (run->count == 0)
			add_to_batch(run, order_evict_oldest(run->order));
		flush_batch(run);
	}
}

/* After the log: reports the ends of the requests in flight, and ends the breakers' timelines. */
static void end_scenario(struct run *run, struct scenario *scenario)
{
	uint64_t last_ns = run->replay->last_ns;

	run->scenario = scenario;
	while (scenario->inflight.heap.count > 0) {
		last_ns = inflight_due_ns(&scenario->inflight);
		report_next_end(run, last_ns);
	}
	for (size_t i = 0; i < scenario->tally_count; i++)
		if (scenario->tallies[i].phases)
			phases_end(scenario->tallies[i].phases, &scenario->tallies[i].limit->algo, last_ns);
}

/* Reads and decides the whole log. Returns a status; run->failed may be set as well. */
static int read_all(struct run *run, const struct source *source, struct record *record,
                    struct weir_error *error)
{
	struct replay *replay = run->replay;
	struct ordered_record *ordered;
	int status;

	for (uint64_t n = 0; (status = source->next(source->context, record, error)) == 1; n++) {
		if (replay->reads_ends)
			endings_read(&replay->endings, record);
		add_request(run, record);
		while ((ordered = order_next(run->order, false)))
			add_to_batch(run, ordered);
		if (run->failed)
			break;
		if (n % PROGRESS_EVERY == 0 && replay->progress)
			replay->progress(replay->progress_context, n);
	}
	while ((ordered = order_next(run->order, true)))
		add_to_batch(run, ordered);
	flush_batch(run);
	for (size_t l = 0; l < replay->scenario_count; l++)
		end_scenario(run, &replay->scenarios[l]);
	return status < 0 ? status : WEIR_OK;
}

/* Lists the fields to read: the scenarios' attributes, then those of endings if one needs them. */
static void bind_fields(struct run *run)
{
	struct replay *replay = run->replay;

	run->attributes = replay->fields.count;
	for (size_t l = 0; l < replay->scenario_count; l++) {
		scenario_bind(&replay->scenarios[l], &replay->fields);
		replay->reads_ends |= replay->scenarios[l].is_reported;
	}
	if (replay->reads_ends)
		endings_add_fields(&replay->endings, &replay->fields);
}

/*
 * Widens each timeline until it has at most `intervals_max`, and to the widest so far. So the first
 * pass finds the width that all need, and the second one brings those to it that came before.
 */
void replay_widen(const struct replay *replay, size_t intervals_max)
{
	const struct timeline *widest = NULL;

	for (int pass = 0; pass < 2; pass++)
		for (size_t l = 0; l < replay->scenario_count; l++)
			for (size_t i = 0; i < replay->scenarios[l].tally_count; i++) {
				struct tally *tally = &replay->scenarios[l].tallies[i];
				struct timeline *each[] = {&tally->timeline,
				                           tally->phases ? &tally->phases->timeline : NULL};

				for (size_t t = 0; t < 2 && each[t]; t++) {
					timeline_widen_until(each[t], intervals_max);
					if (!widest || each[t]->width_index > widest->width_index)
						widest = each[t];
					timeline_widen_to(each[t], widest);
				}
			}
}

int replay_run(struct replay *replay, const struct source *source, struct weir_error *error)
{
	struct run *run = calloc(1, sizeof *run);
	struct record *record = calloc(1, sizeof *record);
	struct order *order = order_open();
	int status = WEIR_ENOMEM;

	prng_seed(1); /* so that the same log gives the same report */
	if (run && record && order) {
		run->replay = replay;
		run->order = order;
		bind_fields(run);
		status = read_all(run, source, record, error);
		replay->order = *order_stats(order);
		arena_free(&run->arena);
		arena_free(&run->brief_arena);
		if (status == WEIR_OK && replay->decisions &&
		    (run->failed || fflush(replay->decisions) != 0))
			status = error_set(error, WEIR_EIO, "can't write the decisions: %m");
		else if (status == WEIR_OK && run->failed)
			status = WEIR_ENOMEM;
	}
	if (status == WEIR_ENOMEM)
		error_set(error, status, "out of memory");
	order_close(order);
	free(record);
	free(run);
	return status;
}
