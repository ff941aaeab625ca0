/*
 * run: the vectors of one algorithm against the library.
 *
 *     run FILE
 *
 * Each step alone, as the pure step on the state that stands in the file; and each trace from its
 * beginning through the public calls, on a limiter and on a key of a table. Prints each
 * difference with its line, and ends with 1 if there is any.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vector.h"

/* What is compared, for messages. */
struct run {
	const char *path, *how;
	unsigned line, differences;
};

static void compare(struct run *run, const char *what, uint64_t found, uint64_t expected)
{
	if (found == expected)
		return;
	fprintf(stderr, "%s:%u: %s: %s: expected %" PRIu64 ", found %" PRIu64 "\n", run->path,
	        run->line, run->how, what, expected, found);
	run->differences++;
}

static void compare_decisions(struct run *run, const struct weir_decision *found,
                              const struct weir_decision *expected)
{
	compare(run, "allowed", found->allowed, expected->allowed);
	compare(run, "reason", found->reason, expected->reason);
	compare(run, "quota", found->quota, expected->quota);
	compare(run, "remaining", found->remaining, expected->remaining);
	compare(run, "retry_after_ns", found->retry_after_ns, expected->retry_after_ns);
	compare(run, "reset_after_ns", found->reset_after_ns, expected->reset_after_ns);
	compare(run, "wait_ns", found->wait_ns, expected->wait_ns);
}

/* Of one time and one word. */
static struct algo_state state_of(const struct algorithm *algorithm, const json_t *written)
{
	if (json_is_null(written))
		return (struct algo_state){0, 0};
	return (struct algo_state){
	    vector_number(written, "until_ns"),
	    (uint32_t)(vector_number(written, algorithm->word) - algorithm->word_less)};
}

static void step_alone(struct run *run, const struct algo_limit *limit,
                       const struct vector_step *step)
{
	struct algo_time time =
	    algo_time_at(limit, (struct moment){step->time.now_ns, step->time.now_ns});
	struct algo_state state = state_of(limit->algorithm, step->before);
	struct algo_state expected = state_of(limit->algorithm, step->after);
	struct algo_outcome out;

	algo_step(limit, &step->call, &step->time, &state, &out);
	compare(run, "window_end_ns", time.window_end_ns, step->time.window_end_ns);
	compare_decisions(run,
	                  &(struct weir_decision){.allowed = out.allowed,
	                                          .reason = out.reason,
	                                          .quota = limit->quota,
	                                          .remaining = out.remaining,
	                                          .retry_after_ns = out.retry_after_ns,
	                                          .reset_after_ns = out.reset_after_ns,
	                                          .wait_ns = out.wait_ns},
	                  &step->decision);
	if (state.until_ns <= step->time.now_ns)
		state = (struct algo_state){0, 0};
	compare(run, "state.until_ns", state.until_ns, expected.until_ns);
	compare(run, "the state's word", state.word, expected.word);
	if (step->taken_until_ns)
		compare(run, "permit.until_ns", state.until_ns, step->taken_until_ns);
}

#define PERMITS_MAX 64 /* of a trace */

/* What a trace is replayed on: a limiter, or a key of a table. */
struct replay {
	weir_limiter *limiter; /* or NULL: */
	weir_table *table;
	weir_limit *limit;
	struct weir_permit permits[PERMITS_MAX];
	bool given_back[PERMITS_MAX];
};

#define KEY "key", 3

static int acquire(struct replay *on, const struct vector_step *step, struct weir_decision *d)
{
	uint64_t cost = step->call.cost, now_ns = step->time.now_ns;
	struct weir_permit *permit = step->call.permit ? &on->permits[step->call.permit] : NULL;

	if (on->limiter && permit)
		return weir_limiter_acquire_permit(on->limiter, cost, now_ns, d, permit);
	if (on->limiter)
		return weir_limiter_acquire(on->limiter, cost, now_ns, d);
	if (permit)
		return weir_acquire_permit(on->table, on->limit, KEY, cost, now_ns, d, permit);
	return weir_acquire(on->table, on->limit, KEY, cost, now_ns, d);
}

static int refund(struct replay *on, const struct vector_step *step, struct weir_decision *d)
{
	uint64_t cost = step->call.cost, now_ns = step->time.now_ns;
	struct weir_permit permit = on->permits[step->call.permit];

	permit.cost = cost;
	if (on->limiter && step->call.permit)
		return weir_limiter_refund_permit(on->limiter, &permit, now_ns, d);
	if (on->limiter)
		return weir_limiter_refund(on->limiter, cost, now_ns, d);
	if (step->call.permit)
		return weir_refund_permit(on->table, on->limit, KEY, &permit, now_ns, d);
	return weir_refund(on->table, on->limit, KEY, cost, now_ns, d);
}

static int call(struct replay *on, const struct vector_step *step, struct weir_decision *d)
{
	uint64_t cost = step->call.cost, now_ns = step->time.now_ns;

	switch (step->call.op) {
	case ALGO_ACQUIRE:
		return acquire(on, step, d);
	case ALGO_PEEK:
		return on->limiter ? weir_limiter_peek(on->limiter, cost, now_ns, d)
		                   : weir_peek(on->table, on->limit, KEY, cost, now_ns, d);
	case ALGO_REFUND:
		return refund(on, step, d);
	case ALGO_RESET:
		return on->limiter ? weir_limiter_reset(on->limiter, now_ns, d)
		                   : weir_reset(on->table, on->limit, KEY, now_ns, d);
	}
	return WEIR_EINVAL;
}

/*
 * A permit is good until its time, and in a table, which keeps permits, once. Returns whether the
 * next step finds the state that the vectors have: not where a name was good for one refund more.
 */
static bool replay_step(struct run *run, struct replay *on, const struct vector_step *step)
{
	struct weir_decision expected = step->decision, found = {0};
	bool by_name = step->call.op == ALGO_REFUND && step->call.permit, again = false;
	int status;

	if (by_name) {
		again = !on->limiter && on->given_back[step->call.permit];
		expected.allowed &= !again && step->call.until_ns > step->time.now_ns;
		on->given_back[step->call.permit] = true;
	}
	status = call(on, step, &found);
	compare(run, "status", (uint64_t)-status,
	        (uint64_t) - (by_name && !expected.allowed ? WEIR_ENOTFOUND : WEIR_OK));
	if (again && !json_equal(step->before, step->after)) {
		compare(run, "allowed", found.allowed, false);
		return false;
	}
	compare_decisions(run, &found, &expected);
	return true;
}

/* Draws that no seed gives can't be had of the public calls. */
static void replay(struct run *run, const struct vector_trace *trace, struct replay *on)
{
	run->how = on->limiter ? "on a limiter" : "in a table";
	weir_seed(trace->seed);
	for (size_t i = 0; i < trace->count; i++) {
		run->line = trace->steps[i].line;
		if (trace->steps[i].draws && !trace->seeded)
			continue;
		if (!replay_step(run, on, &trace->steps[i]))
			return;
	}
}

/* As the public calls open them; ends the program where they do not. */
static void open_or_exit(const struct vector_file *file, const struct vector_trace *trace,
                         struct algo_limit *limit, struct replay *limiter, struct replay *table)
{
	static const struct weir_table_options options = {
	    .capacity = 1000, .secret = (const uint8_t *)"sixteen bytes ok"};
	struct weir_error error = {.message = "?"};

	if (algo_limit_init(limit, &trace->options, &error) == WEIR_OK &&
	    weir_limiter_open(&trace->options, &limiter->limiter, &error) == WEIR_OK &&
	    weir_limit_open(&trace->options, &table->limit, &error) == WEIR_OK &&
	    weir_table_open(&options, &table->table, &error) == WEIR_OK)
		return;
	fprintf(stderr, "%s: %s: %s\n", file->path, trace->name, error.message);
	exit(2);
}

static void run_trace(struct run *run, const struct vector_file *file,
                      const struct vector_trace *trace)
{
	struct algo_limit limit;
	struct replay on_limiter = {0}, in_table = {0};

	open_or_exit(file, trace, &limit, &on_limiter, &in_table);
	for (size_t i = 0; i < trace->count && limit.width == 0; i++) {
		run->how = "alone";
		run->line = trace->steps[i].line;
		step_alone(run, &limit, &trace->steps[i]);
	}
	replay(run, trace, &on_limiter);
	replay(run, trace, &in_table);
	weir_limiter_close(on_limiter.limiter);
	weir_table_close(in_table.table);
	weir_limit_close(in_table.limit);
	algo_limit_free(&limit);
}

int main(int argc, char **argv)
{
	struct vector_file file;
	struct run run = {.path = argc == 2 ? argv[1] : NULL};

	if (argc != 2) {
		fprintf(stderr, "usage: run FILE\n");
		return 2;
	}
	vector_read(argv[1], &file);
	for (size_t i = 0; i < file.count; i++)
		run_trace(&run, &file, &file.traces[i]);
	vector_close(&file);
	return run.differences > 0;
}
