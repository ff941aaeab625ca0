#include "simulate/replay.h"

#include <stdlib.h>
#include <string.h>

#include "base/draw.h"
#include "base/error.h"
#include "engine/pipeline.h"
#include "base/when.h"

#define BATCH          32
#define PROGRESS_EVERY 65536

struct run {
	struct replay *replay;
	struct order *order;
	struct lane *lane;  /* that the batch is in */
	struct arena arena; /* of the batch there */
	struct held *batch[BATCH];
	struct buffer outputs[BATCH]; /* what the lanes say of each */
	uint64_t missing[BATCH]; /* the fields that keys of each lack: a bit for each */
	size_t count;
	struct plan plans[BATCH];
	int statuses[BATCH];
	bool failed; /* memory, or the output, is at its end */
};

/* For the engine's observer. */
struct seen {
	struct lane *lane;
	const struct held *held;
	const struct plan *plan;
	struct buffer *output; /* NULL: not wanted */
};

static void add_number(struct buffer *out, const char *name, uint64_t value)
{
	buffer_add_text(out, name);
	buffer_add_u64(out, value);
}

static void add_begin(struct buffer *out, const struct held *held, const char *limit)
{
	add_number(out, "{\"n\":", held->number);
	buffer_add_text(out, ",\"time\":");
	when_add_seconds(out, held->time_ns);
	buffer_add_text(out, ",\"limit\":\"");
	buffer_add_json(out, slice_of(limit));
}

static void add_decision(struct buffer *out, const struct held *held,
                         const struct step *step, const struct weir_decision *d)
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

static struct tally *tally_of(const struct lane *lane, const struct step *step)
{
	return &lane->tallies[engine_limit_index(lane->engine, step->limit)];
}

static void observe(void *context, const struct step *step)
{
	struct seen *seen = context;
	const struct weir_decision *d = &seen->plan->each[step - seen->plan->steps];

	tally_count(tally_of(seen->lane, step), step, seen->held->cost,
	            seen->held->time_ns, d);
	if (seen->output)
		add_decision(seen->output, seen->held, step, d);
}

static int prepare_one(struct run *run, const struct held *held, struct plan *plan)
{
	const struct lane *lane = run->lane;
	const struct engine_values values = {lane->attributes, held->values, held->value_count};
	int status = engine_prepare_values(lane->engine, &(struct algo_call){ALGO_ACQUIRE, held->cost},
	                                   &values, &run->arena, plan);

	if (status != WEIR_OK || plan->step_count == 0)
		return status;
	plan->each = arena_array(&run->arena, plan->step_count, sizeof *plan->each);
	for (size_t j = 0; plan->each && j < plan->step_count; j++) {
		store_fetch(lane->table->store, &plan->steps[j].key);
		burst_prefetch(tally_of(lane, &plan->steps[j])->burst, plan->steps[j].key.hash);
	}
	return plan->each ? WEIR_OK : WEIR_ENOMEM;
}

/* The fields that keys of the request are made of, but that it does not have. */
static uint64_t missing_fields(const struct lane *lane, const struct held *held,
                               const struct plan *plan)
{
	uint64_t fields = 0, missing = 0;

	for (size_t i = 0; i < plan->step_count; i++)
		fields |= lane->key_fields[lane_rule_number(lane, plan->steps[i].rule)];
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
			run->missing[i] |= missing_fields(run->lane, run->batch[i], &run->plans[i]);
	}
}

static void locate(void *context, size_t start, size_t end)
{
	struct run *run = context;
	const struct lane *lane = run->lane;

	for (size_t i = start; i < end; i++) {
		struct plan *plan = &run->plans[i];

		if (run->statuses[i] != WEIR_OK)
			continue;
		engine_locate(&(struct turn){lane->table, moment_given(run->batch[i]->time_ns)}, plan);
		for (size_t j = 0; j < plan->step_count; j++)
			burst_prefetch_log(tally_of(lane, &plan->steps[j])->burst, plan->steps[j].key.hash);
	}
}

static void refuse(struct run *run, size_t i)
{
	struct lane *lane = run->lane;
	int status = run->statuses[i];

	run->failed |= status == WEIR_ENOMEM;
	lane->errors++;
	if (!run->replay->decisions)
		return;
	add_begin(&run->outputs[i], run->batch[i], lane->own ? lane->tallies[0].limit->name : "");
	buffer_printf(&run->outputs[i], "\",\"error\":\"%s\"}\n", weir_strerror(status));
}

static void decide(void *context, size_t start, size_t end)
{
	struct run *run = context;
	struct lane *lane = run->lane;

	for (size_t i = start; i < end; i++) {
		struct plan *plan = &run->plans[i];
		struct seen seen = {lane, run->batch[i], plan,
		                    run->replay->decisions ? &run->outputs[i] : NULL};
		struct turn turn = {lane->table, moment_given(seen.held->time_ns), observe, &seen};
		struct weir_decision d;

		if (run->statuses[i] != WEIR_OK) {
			refuse(run, i);
			continue;
		}
		engine_decide(&turn, plan, &d);
		if (d.reason == WEIR_REASON_LISTED)
			lane->answered[lane_rule_number(lane, plan->refused ? plan->refused->rule
			                                                    : plan->listed)]++;
		lane->allowed += d.allowed;
		lane->denied += !d.allowed;
		lane->unlimited += d.allowed && !d.limit;
	}
}

/* Writes and forgets the requests that are decided, up to the first in the log that is not. */
static void release(struct run *run)
{
	struct held *held;

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

	for (size_t l = 0; l < replay->lane_count; l++) {
		run->lane = &replay->lanes[l];
		pipeline_run((struct pipeline){BATCH, {prepare, locate, decide}}, run->count, run);
		arena_reset(&run->arena);
	}
	for (size_t i = 0; i < run->count; i++) {
		struct held *held = run->batch[i];

		for (; run->missing[i] != 0; run->missing[i] &= run->missing[i] - 1)
			replay->without[__builtin_ctzll(run->missing[i])]++;
		if (replay->requests++ == 0)
			replay->first_ns = held->time_ns;
		replay->last_ns = held->time_ns;
		run->failed |= run->outputs[i].failed;
		held->output = run->outputs[i].data;
		held->output_len = run->outputs[i].len;
		run->outputs[i] = (struct buffer){0};
		order_done(held);
	}
	run->count = 0;
	release(run);
}

static void take(struct run *run, struct held *held)
{
	run->batch[run->count++] = held;
	if (run->count == BATCH)
		flush(run);
}

static void add(struct run *run, const struct record *record)
{
	size_t values = run->replay->fields.count;

	while (!order_add(run->order, record, values)) {
		if (run->count == 0)
			take(run, order_force(run->order));
		flush(run);
	}
}

static int read_all(struct run *run, const struct source *source, struct record *record,
                    struct weir_error *error)
{
	struct replay *replay = run->replay;
	struct held *held;
	int status;

	for (uint64_t n = 0; (status = source->next(source->context, record, error)) == 1; n++) {
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
	return status < 0 ? status : WEIR_OK;
}

/* Timelines that are shown side by side get the same intervals: the widest. */
static void align(const struct replay *replay)
{
	struct timeline widest = {0};

	for (int pass = 0; pass < 2; pass++)
		for (size_t l = 0; l < replay->lane_count; l++)
			for (size_t i = 0; i < replay->lanes[l].tally_count; i++) {
				struct timeline *timeline = &replay->lanes[l].tallies[i].timeline;

				timeline_widen_to(pass ? timeline : &widest, pass ? &widest : timeline);
			}
}

int replay_run(struct replay *replay, const struct source *source, struct weir_error *error)
{
	struct run *run = calloc(1, sizeof *run);
	struct record *record = calloc(1, sizeof *record);
	struct order *order = order_open();
	int status = WEIR_ENOMEM;

	draw_seed(1); /* the same log, the same report */
	if (run && record && order) {
		run->replay = replay;
		run->order = order;
		for (size_t l = 0; l < replay->lane_count; l++)
			lane_bind(&replay->lanes[l], &replay->fields);
		status = read_all(run, source, record, error);
		replay->order = *order_stats(order);
		align(replay);
		arena_free(&run->arena);
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
