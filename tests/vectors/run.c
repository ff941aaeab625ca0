/*
 * run: the vectors of one algorithm against the library.
 *
 *     run FILE
 *
 * Each step alone, as the pure step on the state that stands in the file; and each trace from its
 * beginning on: on cells, where states can be read, and through the public calls on a limiter and
 * on a key of a table. Prints each difference with its line, and ends with 1 if there is any.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/limiter.h>

#include "algo/algorithm.h"
#include "compare.h"
#include "records/success_counts.h"
#include "records/in_flight.h"
#include "records/breaker_record.h"
#include "state.h"
#include "store/apply_step.h"
#include "vector.h"

static void step_alone(struct run *run, const struct algo_limit *limit,
                       const struct vector_step *step)
{
	static struct state state;
	uint64_t now_ns = step->time.now_ns, name_ns;
	struct algo_time time = algo_time_at(limit, (struct moment){now_ns, now_ns});
	struct algo_decision out;
	struct algo_call call;

	compare(run, "window_end_ns", time.window_end_ns, step->time.window_end_ns);
	state_read(limit, step->before, &state);
	call = compare_call(limit, &state, step);
	name_ns = state_step(limit, &call, &step->time, &state, &out);
	compare_name(run, limit, &state, step, name_ns);
	compare_outcomes(run, limit, &out, step);
	compare_states(run, limit, &state, step);
}

/* A state as it is kept: a cell, and the record behind it. */
struct kept {
	struct cell header, record[ALGO_WIDTH_MOST];
	struct state state; /* what was read of them last */
};

static uint64_t apply(struct kept *kept, const struct algo_limit *limit,
                      const struct algo_call *call, const struct algo_time *time,
                      struct algo_decision *out)
{
	struct record_state at = {&kept->header,
	                          .record = {kept->record, limit->width, KEYLESS_TAG, true}};

	if (limit->width == 0)
		return memory_apply_cell(&kept->header, true, limit, call, time, out);
	return wide_apply_cell(&at, limit, call, time, out);
}

static void read_kept(struct kept *kept, const struct algo_limit *limit,
                      const struct algo_time *time)
{
	struct record record = {kept->record, limit->width, KEYLESS_TAG, true};

	kept->state.uses = (struct uses){.entries = kept->state.list};
	if (limit->record == ALGO_RECORD_SUCCESS) {
		kept->state.accepts = (struct success_state){.now_ns = time->now_ns};
		success_record_advance(limit, &record, &kept->state.accepts);
		success_record_read(limit, &record, &kept->state.accepts);
	} else if (limit->record == ALGO_RECORD_IN_FLIGHT) {
		struct record_state at = {&kept->header, kept->header, record};
		struct in_flight_snapshot snapshot;

		kept->state.quota = 0;
		if (in_flight_header_of(limit, &at, time->now_ns) != IN_FLIGHT_OPEN)
			return;
		in_flight_read(limit, time->now_ns, kept->header, &record, &snapshot);
		kept->state.quota =
		    estimate_limits(&limit->in_flight, snapshot.estimate, 0, time->now_ns, false).quota;
		kept->state.in_flight = snapshot.in_flight;
	} else if (limit->record == ALGO_RECORD_BREAKER) {
		struct breaker_snapshot snapshot;

		breaker_record_read(limit, time->now_ns, &record, &snapshot, NULL);
		breaker_record_tally(limit, &record, &snapshot, time->now_ns, &kept->state.tally);
		kept->state.breaker = snapshot.state;
		kept->state.in_flight = snapshot.in_flight;
	} else if (limit->width > 0) {
		record_read_uses(limit, time, kept->header, &record, &kept->state.uses);
	} else {
		kept->state.word = memory_unpack(kept->header, time->now_ns);
	}
}

static void step_in_cells(struct run *run, const struct algo_limit *limit, struct kept *kept,
                          const struct vector_step *step)
{
	struct algo_call call = compare_call(limit, &kept->state, step);
	struct algo_decision out;

	compare_name(run, limit, &kept->state, step, apply(kept, limit, &call, &step->time, &out));
	read_kept(kept, limit, &step->time);
	if (algo_op_reports(call.op)) /* cells answer a report with `allowed` alone */
		compare(run, "allowed", out.allowed, step->decision.allowed);
	else
		compare_outcomes(run, limit, &out, step);
	compare_states(run, limit, &kept->state, step);
}

/* Each step on its own, and one after the other in cells, as tables keep them. */
static void run_steps(struct run *run, const struct algo_limit *limit,
                      const struct vector_trace *trace)
{
	static struct kept kept;

	memset(&kept, 0, sizeof kept);
	for (size_t i = 0; i < trace->count; i++) {
		run->line = trace->steps[i].line;
		run->how = "alone";
		if (!limit->algorithm->judges) /* of which a file has no whole state */
			step_alone(run, limit, &trace->steps[i]);
		run->how = "in cells";
		if (!limit->algorithm->draws) /* which keeps no states */
			step_in_cells(run, limit, &kept, &trace->steps[i]);
	}
}

/* A trace is replayed on a limiter, or on a key of a table. */
struct replay {
	weir_limiter *limiter; /* or NULL: */
	weir_table *table;
	weir_limit *limit;
	struct weir_permit permits[STATE_PERMITS_MAX];
	bool refunded[STATE_PERMITS_MAX];
};

#define KEY ((struct weir_key){"key", 3})

static int acquire(struct replay *on, const struct vector_step *step, struct weir_decision *d)
{
	uint64_t cost = step->call.cost, now_ns = step->time.now_ns;
	struct weir_permit *permit = step->call.permit ? &on->permits[step->call.permit] : NULL;
	const struct weir_ask ask = {
	    .cost = cost != 0 ? cost : WEIR_ZERO, .now_ns = now_ns, .permit = permit};

	if (on->limiter && permit)
		return weir_limiter_ask(on->limiter, &ask, d);
	if (on->limiter)
		return weir_limiter_acquire(on->limiter, cost, now_ns, d);
	if (permit)
		return weir_ask(on->table, on->limit, KEY, &ask, d);
	return weir_acquire(on->table, on->limit, KEY, cost, now_ns, d);
}

static int refund(struct replay *on, const struct vector_step *step, struct weir_decision *d)
{
	uint64_t cost = step->call.cost, now_ns = step->time.now_ns;
	struct weir_permit permit = on->permits[step->call.permit];
	const struct weir_report report = {step->call.outcome, step->call.latency_ns, now_ns};

	permit.cost = cost;
	if (on->limiter && step->call.op == ALGO_REPORT)
		return weir_limiter_report(on->limiter, &permit, &report);
	if (step->call.op == ALGO_REPORT)
		return weir_report(on->table, on->limit, KEY, &permit, &report);
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
	case ALGO_REPORT:
		return refund(on, step, d);
	case ALGO_RESET:
		return on->limiter ? weir_limiter_reset(on->limiter, now_ns, d)
		                   : weir_reset(on->table, on->limit, KEY, now_ns, d);
	default:
		return WEIR_EINVAL;
	}
}

/*
 * A permit is good until its time, and in a table, which keeps permits, once. Returns whether the
 * next step finds the state that the vectors have: not where a name was good for one refund more.
 */
static bool replay_step(struct run *run, struct replay *on, const struct vector_step *step)
{
	struct weir_decision expected = step->decision, found = {0};
	bool by_name = algo_op_releases(step->call.op) && step->call.permit, again = false;
	int status;

	if (by_name) {
		again = !on->limiter && on->refunded[step->call.permit];
		expected.allowed &= !again && step->call.until_ns > step->time.now_ns;
		on->refunded[step->call.permit] = true;
	}
	status = call(on, step, &found);
	compare(run, "status", (uint64_t)-status,
	        (uint64_t) - (by_name && !expected.allowed ? WEIR_ENOTFOUND : WEIR_OK));
	if (again && !json_equal(step->before, step->after)) {
		compare(run, "allowed", found.allowed, false);
		return false;
	}
	if (step->call.op != ALGO_REPORT) /* which answers by its status alone */
		compare_decisions(run, &found, &expected);
	return true;
}

/*
 * Draws that no seed gives can't be had of the public calls, nor denials for a wait that the
 * request would not accept.
 */
static bool can_replay(const struct vector_trace *trace, const struct vector_step *step)
{
	return (!step->draws || trace->seeded) &&
	       (step->call.max_wait_ns == 0 || step->decision.allowed);
}

static void replay(struct run *run, const struct vector_trace *trace, struct replay *on)
{
	run->how = on->limiter ? "on a limiter" : "in a table";
	weir_seed(trace->seed);
	for (size_t i = 0; i < trace->count; i++) {
		run->line = trace->steps[i].line;
		if (can_replay(trace, &trace->steps[i]) && !replay_step(run, on, &trace->steps[i]))
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
	run_steps(run, &limit, trace);
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
