#include "simulate/replay.h"

#include <stdlib.h>
#include <string.h>

#include "base/prng.h"
#include "base/error.h"
#include "base/time/timestamp.h"
#include "engine/pipeline.h"

#define BATCH          32
#define PROGRESS_EVERY 65536

struct run {
	struct replay *replay;
	struct order *order;
	struct scenario *scenario; /* that the batch is in */
	struct arena arena;        /* of the batch there */
	struct arena ends;         /* of a report */
	size_t attributes;         /* the first fields; those behind tell how requests end */
	bool reads_ends;
	struct ordered_record *batch[BATCH];
	struct buffer outputs[BATCH]; /* what the scenarios say of each */
	uint64_t missing[BATCH];      /* the fields that keys of each lack: a bit for each */
	size_t count;
	struct plan plans[BATCH];
	int statuses[BATCH];
	bool failed; /* memory, or the output, is at its end */
};

/* For the engine's observers; of a report only the first three. */
struct seen {
	struct scenario *scenario;
	uint64_t now_ns;
	bool failed;
	const struct ordered_record *held;
	const struct plan *plan;
	struct buffer *output; /* NULL if not wanted */
};

static void add_number(struct buffer *out, const char *name, uint64_t value)
{
	buffer_add_text(out, name);
	buffer_add_u64(out, value);
}

static void add_begin(struct buffer *out, const struct ordered_record *held, const char *limit)
{
	add_number(out, "{\"n\":", held->number);
	buffer_add_text(out, ",\"time\":");
	timestamp_add_seconds(out, held->time_ns);
	buffer_add_text(out, ",\"limit\":\"");
	buffer_add_json(out, slice_of(limit));
}

static void add_decision(struct buffer *out, const struct ordered_record *held,
                         const struct plan_step *step, const struct weir_decision *d)
{
	add_begin(out, held, step->limit->name);
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

static struct tally *tally_of(const struct scenario *scenario, const struct plan_step *step)
{
	return &scenario->tallies[engine_limit_index(scenario->engine, step->limit)];
}

static void observe(void *context, const struct plan_step *step)
{
	struct seen *seen = context;
	const struct weir_decision *d = &seen->plan->step_decisions[step - seen->plan->steps];
	struct tally *tally = tally_of(seen->scenario, step);

	tally_count(tally, step, seen->held->cost, seen->held->time_ns, d);
	if (step->limit->algo.algorithm->judges)
		tally_count_end(tally, d->allowed, seen->held->outcome, seen->held->latency_ns);
	if (seen->output)
		add_decision(seen->output, seen->held, step, d);
}

static void observe_phase(void *context, const struct plan_step *step,
                          const struct algo_decision *outcome)
{
	struct seen *seen = context;
	struct tally *tally = tally_of(seen->scenario, step);

	seen->failed |=
	    !phases_note(tally->phases, &step->limit->algo, step->key.hash, outcome, seen->now_ns);
}

static int prepare_one(struct run *run, const struct ordered_record *held, struct plan *plan)
{
	const struct scenario *scenario = run->scenario;
	const struct engine_values values = {scenario->attributes, held->values, held->value_count};
	int status =
	    engine_prepare_values(scenario->engine, &(struct algo_call){ALGO_ACQUIRE, held->cost},
	                          &values, &run->arena, plan);

	if (status != WEIR_OK || plan->step_count == 0)
		return status;
	if (scenario->is_reported && engine_is_reported(plan)) {
		status = engine_want_permit(plan);
		if (status != WEIR_OK)
			return status;
		plan->permit.id = plan->wants_permit ? ++run->scenario->permits : 0;
	}
	plan->step_decisions = arena_array(&run->arena, plan->step_count, sizeof *plan->step_decisions);
	for (size_t j = 0; plan->step_decisions && j < plan->step_count; j++) {
		store_fetch(scenario->table->store, &plan->steps[j].key);
		burst_prefetch(tally_of(scenario, &plan->steps[j])->burst, plan->steps[j].key.hash);
	}
	return plan->step_decisions ? WEIR_OK : WEIR_ENOMEM;
}

/* The fields that keys of the request are made of, but that it does not have. */
static uint64_t missing_fields(const struct scenario *scenario, const struct ordered_record *held,
                               const struct plan *plan)
{
	uint64_t fields = 0, missing = 0;

	for (size_t i = 0; i < plan->step_count; i++)
		fields |= scenario->key_fields[scenario_rule_number(scenario, plan->steps[i].rule)];
	for (; fields != 0; fields &= fields - 1)
		if (held->values[__builtin_ctzll(fields)].len == 0)
			missing |= fields & -fields;
	return missing;
}

static void prepare(void *context, size_t start, size_t end)
{
	struct run *run = context;

	for (size_t i = start; i < end; i++) {
		run->statuses[i] = prepare_one(run, run->batch[i], &run->plans[i]);
		if (run->statuses[i] == WEIR_OK)
			run->missing[i] |= missing_fields(run->scenario, run->batch[i], &run->plans[i]);
	}
}

static void locate(void *context, size_t start, size_t end)
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
 * For a limit by itself: a request that costs more than it ever allows hits its key as a denial
 * does. If a request of that key can't be asked at any cost, the key is at fault, and counts
 * nowhere.
 */
static void refuse_cost(struct run *run, const struct ordered_record *held)
{
	struct scenario *scenario = run->scenario;
	const struct engine_values values = {scenario->attributes, held->values, held->value_count};
	struct plan plan;

	if (engine_prepare_values(scenario->engine, &(struct algo_call){ALGO_ACQUIRE, 1}, &values,
	                          &run->ends, &plan) == WEIR_OK &&
	    plan.step_count == 1)
		tally_refuse(&scenario->tallies[0], &plan.steps[0]);
	arena_reset(&run->ends);
}

static void refuse(struct run *run, size_t i)
{
	struct scenario *scenario = run->scenario;
	int status = run->statuses[i];

	run->failed |= status == WEIR_ENOMEM;
	scenario->errors++;
	if (scenario->own)
		refuse_cost(run, run->batch[i]);
	if (!run->replay->decisions)
		return;
	add_begin(&run->outputs[i], run->batch[i],
	          scenario->own ? scenario->tallies[0].limit->name : "");
	buffer_printf(&run->outputs[i], "\",\"error\":\"%s\"}\n", weir_strerror(status));
}

/* Tells the scenario how the next request that ends has ended, by now at the latest. */
static void end_next(struct run *run, uint64_t now_ns)
{
	struct scenario *scenario = run->scenario;
	uint64_t due_ns = u64_min(inflight_due_ns(&scenario->inflight), now_ns);
	struct ended ended = inflight_pop(&scenario->inflight);
	struct seen seen = {scenario, due_ns};
	struct decision_context context = {scenario->table, moment_given(due_ns),
	                                   .phase_changed = observe_phase, .owner = &seen};
	struct weir_decision d;
	struct plan plan;

	if (engine_prepare_permits(scenario->engine, &ended.permits, NULL, &run->ends, &plan) ==
	    WEIR_OK) {
		plan.outcome = ended.outcome;
		plan.latency_ns = ended.latency_ns;
		engine_report(&context, &plan, &d);
		run->failed |= seen.failed;
		run->replay->unheld += !d.allowed && due_ns < ended.until_ns;
	} else {
		run->failed = true;
	}
	arena_reset(&run->ends);
}

static void end_until(struct run *run, uint64_t now_ns)
{
	while (run->scenario->inflight.heap.count > 0 &&
	       inflight_due_ns(&run->scenario->inflight) <= now_ns)
		end_next(run, now_ns);
}

static uint64_t reported_until_ns(const struct plan *plan)
{
	uint64_t until_ns = 0;

	for (size_t i = 0; i < plan->step_count; i++)
		if (plan->steps[i].charged && algo_is_reported(&plan->steps[i].limit->algo))
			until_ns = u64_max(until_ns, plan->steps[i].until_ns);
	return until_ns;
}

/* Ends a request that has passed with a permit, as the log says. */
static void begin(struct run *run, const struct ordered_record *held, const struct plan *plan)
{
	struct scenario *scenario = run->scenario;
	uint64_t due_ns =
	    u64_max(held->time_ns, held->end_ns); /* later than the log says, if it is late */
	struct ended ended = {held->latency_ns, held->outcome, reported_until_ns(plan), {0}};

	if (held->outcome == RECORD_NO_END)
		return;
	if (inflight_is_full(&scenario->inflight)) {
		run->replay->early++;
		end_next(run, held->time_ns);
	}
	engine_permits(plan, &ended.permits, NULL);
	run->failed |= !inflight_add(&scenario->inflight, due_ns, &ended);
}

static void decide(void *owner, size_t start, size_t end)
{
	struct run *run = owner;
	struct scenario *scenario = run->scenario;

	for (size_t i = start; i < end; i++) {
		struct plan *plan = &run->plans[i];
		struct ordered_record *held = run->batch[i];
		struct seen seen = {scenario, held->time_ns,
		                    false,    held,
		                    plan,     run->replay->decisions ? &run->outputs[i] : NULL};
		struct decision_context context = {scenario->table, moment_given(held->time_ns), observe,
		                                   &seen, .phase_changed = observe_phase};
		struct weir_decision d;

		if (run->statuses[i] != WEIR_OK) {
			refuse(run, i);
			continue;
		}
		end_until(run, held->time_ns);
		engine_decide(&context, plan, &d);
		if (__builtin_expect(plan->permit.id != 0, 0))
			begin(run, held, plan);
		run->failed |= seen.failed;
		if (d.reason == WEIR_REASON_LISTED)
			scenario->answered[scenario_rule_number(scenario, plan->refused ? plan->refused->rule
			                                                                : plan->listed)]++;
		scenario->allowed += d.allowed;
		scenario->denied += !d.allowed;
		scenario->unlimited += d.allowed && !d.limit;
	}
}

/* Writes and forgets the requests that are decided, up to the first in the log that is not. */
static void release(struct run *run)
{
	struct ordered_record *held;

	while ((held = order_release(run->order))) {
		if (held->output_len > 0)
			run->failed |= fwrite(held->output, 1, held->output_len, run->replay->decisions) !=
			               held->output_len;
		free(held->output);
	}
}

static void flush(struct run *run)
{
	struct replay *replay = run->replay;

	for (size_t l = 0; l < replay->scenario_count; l++) {
		run->scenario = &replay->scenarios[l];
		pipeline_run((struct pipeline){BATCH, {prepare, locate, decide}}, run->count, run);
		arena_reset(&run->arena);
	}
	for (size_t i = 0; i < run->count; i++) {
		struct ordered_record *held = run->batch[i];

		for (; run->missing[i] != 0; run->missing[i] &= run->missing[i] - 1)
			replay->without[__builtin_ctzll(run->missing[i])]++;
		if (replay->requests++ == 0)
			replay->first_ns = held->time_ns;
		replay->last_ns = held->time_ns;
		run->failed |= run->outputs[i].failed;
		held->output = run->outputs[i].data;
		held->output_len = (uint32_t)run->outputs[i].len;
		run->outputs[i] = (struct buffer){0};
		order_done(held);
	}
	run->count = 0;
	release(run);
}

static void take(struct run *run, struct ordered_record *held)
{
	run->batch[run->count++] = held;
	if (run->count == BATCH)
		flush(run);
}

static void add(struct run *run, const struct record *record)
{
	while (!order_add(run->order, record, run->attributes)) {
		if (run->count == 0)
			take(run, order_evict_oldest(run->order));
		flush(run);
	}
}

/* The log has ended: so do the requests that have not yet. */
static void end_scenario(struct run *run, struct scenario *scenario)
{
	uint64_t last_ns = run->replay->last_ns;

	run->scenario = scenario;
	while (scenario->inflight.heap.count > 0) {
		last_ns = inflight_due_ns(&scenario->inflight);
		end_next(run, last_ns);
	}
	for (size_t i = 0; i < scenario->tally_count; i++)
		if (scenario->tallies[i].phases)
			phases_end(scenario->tallies[i].phases, &scenario->tallies[i].limit->algo, last_ns);
}

static int read_all(struct run *run, const struct source *source, struct record *record,
                    struct weir_error *error)
{
	struct replay *replay = run->replay;
	struct ordered_record *held;
	int status;

	for (uint64_t n = 0; (status = source->next(source->context, record, error)) == 1; n++) {
		if (replay->reads_ends)
			endings_read(&replay->endings, record);
		add(run, record);
		while ((held = order_next(run->order, false)))
			take(run, held);
		if (run->failed)
			break;
		if (n % PROGRESS_EVERY == 0 && replay->progress)
			replay->progress(replay->progress_context, n);
	}
	while ((held = order_next(run->order, true)))
		take(run, held);
	flush(run);
	for (size_t l = 0; l < replay->scenario_count; l++)
		end_scenario(run, &replay->scenarios[l]);
	return status < 0 ? status : WEIR_OK;
}

/* The scenarios' attributes stand first; what tells how requests end is asked for where one wants
 * it. */
static void bind(struct run *run)
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

void replay_widen(const struct replay *replay, size_t most)
{
	const struct timeline *widest = NULL;

	for (int pass = 0; pass < 2; pass++)
		for (size_t l = 0; l < replay->scenario_count; l++)
			for (size_t i = 0; i < replay->scenarios[l].tally_count; i++) {
				struct tally *tally = &replay->scenarios[l].tallies[i];
				struct timeline *each[] = {&tally->timeline,
				                           tally->phases ? &tally->phases->timeline : NULL};

				for (size_t t = 0; t < 2 && each[t]; t++) {
					timeline_widen_until(each[t], most);
					if (!widest || each[t]->width > widest->width)
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

	prng_seed(1); /* the same log, the same report */
	if (run && record && order) {
		run->replay = replay;
		run->order = order;
		bind(run);
		status = read_all(run, source, record, error);
		replay->order = *order_stats(order);
		arena_free(&run->arena);
		arena_free(&run->ends);
		if (status == WEIR_OK && replay->decisions &&
		    (run->failed || fflush(replay->decisions) != 0))
			status = error_set(error, WEIR_EIO, "expected room for the decisions, found: %m");
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
