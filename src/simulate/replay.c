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
#include "simulate/decide.h"

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
		run->statuses[i] =
		    decide_prepare(run->scenario, run->batch[i], &run->arena, &run->plans[i]);
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
			burst_prefetch_log(scenario_tally(scenario, &plan->steps[j])->burst,
			                   plan->steps[j].key.hash);
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
	decide_begin_line(&run->outputs[i], run->batch[i],
	                  scenario->own ? scenario->tallies[0].limit->name : "");
	buffer_printf(&run->outputs[i], "\",\"error\":\"%s\"}\n", weir_strerror(status));
}

/* Reports the end of the request that ends next, at its time but not later than now. */
static void report_next_end(struct run *run, uint64_t now_ns)
{
	struct scenario *scenario = run->scenario;
	uint64_t due_ns = u64_min(inflight_due_ns(&scenario->inflight), now_ns);
	struct request_end end = inflight_pop(&scenario->inflight);
	bool evicted;

	run->failed |= !decide_report(scenario, &end, due_ns, &run->brief_arena, &evicted);
	run->replay->evicted_permits += evicted;
}

/* Reports all ends of requests that are due by now. */
static void report_ends_until(struct run *run, uint64_t now_ns)
{
	while (run->scenario->inflight.heap.count > 0 &&
	       inflight_due_ns(&run->scenario->inflight) <= now_ns)
		report_next_end(run, now_ns);
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
	end = (struct request_end){.latency_ns = ordered->latency_ns, .outcome = ordered->outcome};
	decide_fill_end(plan, &end);
	run->failed |= !inflight_add(&scenario->inflight, due_ns, &end);
}

/* The last stage: decides the requests one after another, with the ends due before each. */
static void decide_requests(void *owner, size_t start, size_t end)
{
	struct run *run = owner;
	struct scenario *scenario = run->scenario;

	for (size_t i = start; i < end; i++) {
		struct plan *plan = &run->plans[i];
		struct ordered_record *ordered = run->batch[i];
		struct buffer *output = run->replay->decisions ? &run->outputs[i] : NULL;
		struct weir_decision d;

		if (run->statuses[i] != WEIR_OK) {
			count_error(run, i);
			continue;
		}
		report_ends_until(run, ordered->time_ns);
		run->failed |= !decide_run(scenario, ordered, plan, output, &d);
		if (__builtin_expect(plan->permit.id != 0, 0))
			schedule_end(run, ordered, plan);
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

/* Notes which attributes the request has. */
static void note_fields(struct run *run, const struct record *record)
{
	for (size_t i = 0; i < run->attributes; i++)
		run->replay->seen |= (uint64_t)(record->values[i].len > 0) << i;
}

/* Sorts a record in by its time. While there is no memory for it, decides older requests. */
static void add_request(struct run *run, const struct record *record)
{
	note_fields(run, record);
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
 * Brings all timelines to one width of interval, in which each has at most `intervals_max`. The
 * first pass finds the width, the second one widens those that the first left narrower.
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
