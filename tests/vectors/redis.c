/*
 * redis: the vectors of one algorithm against the scripts, in a Redis of the test's own.
 *
 *     redis FILE
 *
 * Each step alone, on the state that stands in the file, and each trace from its beginning on. The
 * scripts are given the time.
 */
#include <stdio.h>
#include <stdlib.h>

#include "compare.h"
#include "values.h"

#define KEY "vectors"

static struct real real;

static void set_value(const struct algo_limit *limit, const struct state *state, uint64_t now_ns)
{
	struct value value = {.state = state->word, .uses = state->uses};

	values_set(&real, KEY, limit, &value, now_ns);
}

static uint64_t end_of(const struct state *state)
{
	uint64_t end_ns = u64_max(state->word.until_ns, state->uses.until_ns);

	for (size_t i = 0; i < state->uses.count; i++)
		end_ns = u64_max(end_ns, state->list[i].until_ns);
	return end_ns;
}

/* Reads the value at Redis; names of a log's uses stay as they are. */
static void get_value(struct run *run, const struct algo_limit *limit, struct state *state)
{
	uint64_t life_ms = values_life_ms(&real, KEY);
	struct value value;

	compare(run, "value", values_get(&real, KEY, limit, &value), VALUE_OURS);
	state->word = value.state;
	state->uses.count = value.uses.count;
	state->uses.until_ns = value.uses.until_ns;
	state->uses.newest_id = value.uses.newest_id;
	for (size_t i = 0; i < value.uses.count; i++)
		state->list[i] = value.uses.entries[i];
	state->uses.entries = state->list;
	value_free(&value);
	if (life_ms > 0)
		compare(run, "lives until it ends", life_ms * NS_PER_MS >= end_of(state), true);
}

static void step_at_redis(struct run *run, const struct algo_limit *limit, struct state *state,
                          const struct vector_step *step, bool knows_chunks)
{
	static struct command_result end;
	struct redis_command at_redis = {.limit = limit,
	                                 .key = SLICE(KEY),
	                                 .call = compare_call(limit, state, step),
	                                 .request_count = 1,
	                                 .local_time = moment_given(step->time.now_ns),
	                                 .uses_given_time = true,
	                                 .settlement = {.may_have_chunks = knows_chunks}};

	real_steps(&real, (struct redis_command *[]){&at_redis}, 1, &end);
	compare(run, "end", end.end, COMMAND_DONE);
	compare_outcomes(run, limit, &end.outcomes[0], step);
	get_value(run, limit, state);
	compare_name(run, limit, state, step, end.until_ns[0]);
	compare_states(run, limit, state, step);
}

static void run_trace(struct run *run, const struct vector_file *file,
                      const struct vector_trace *trace)
{
	static struct state state;
	struct weir_error error = {.message = "?"};
	struct algo_limit limit;

	if (algo_limit_init(&limit, &trace->options, &error) != WEIR_OK) {
		fprintf(stderr, "%s: %s: %s\n", file->path, trace->name, error.message);
		exit(2);
	}
	for (size_t i = 0; i < 2 * trace->count; i++) {
		const struct vector_step *step = &trace->steps[i / 2];

		run->how = i % 2 == 0 ? "alone" : "alone, by a script that knows of chunks";
		run->line = step->line;
		state_read(&limit, step->before, &state);
		set_value(&limit, &state, step->time.now_ns);
		step_at_redis(run, &limit, &state, step, i % 2 == 1);
	}
	run->how = "in a trace";
	freeReplyObject(real_do(&real, "DEL " KEY));
	state_read(&limit, json_null(), &state);
	for (size_t i = 0; i < trace->count; i++) {
		run->line = trace->steps[i].line;
		step_at_redis(run, &limit, &state, &trace->steps[i], false);
	}
	algo_limit_free(&limit);
}

int main(int argc, char **argv)
{
	struct vector_file file;
	struct run run = {.path = argc == 2 ? argv[1] : NULL};

	if (argc != 2) {
		fprintf(stderr, "usage: redis FILE\n");
		return 2;
	}
	vector_read(argv[1], &file);
	real_open(&real);
	for (size_t i = 0; i < file.count; i++)
		run_trace(&run, &file, &file.traces[i]);
	real_close(&real);
	vector_close(&file);
	return run.differences > 0;
}
