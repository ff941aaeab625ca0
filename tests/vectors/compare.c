#include "compare.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "algo/algorithm.h"

void compare(struct run *run, const char *what, uint64_t found, uint64_t expected)
{
	if (found == expected)
		return;
	fprintf(stderr, "%s:%u: %s: %s: expected %" PRIu64 ", found %" PRIu64 "\n", run->path,
	        run->line, run->how, what, expected, found);
	run->differences++;
}

void compare_decisions(struct run *run, const struct weir_decision *found,
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

void compare_outcomes(struct run *run, const struct algo_limit *limit,
                      const struct algo_decision *found, const struct vector_step *step)
{
	struct weir_decision decision = {.allowed = found->allowed,
	                                 .reason = found->reason,
	                                 .retry_after_ns = found->retry_after_ns,
	                                 .reset_after_ns = found->reset_after_ns,
	                                 .wait_ns = found->wait_ns};

	algo_show_quota(limit, found, &decision.quota, &decision.remaining);
	compare_decisions(run, &decision, &step->decision);
}

void compare_states(struct run *run, const struct algo_limit *limit,
                           const struct state *state, const struct vector_step *step)
{
	json_t *found = state_write(limit, state, step->time.now_ns);
	char *expected_text, *found_text;

	if (!json_equal(found, step->after)) {
		expected_text = json_dumps(step->after, JSON_COMPACT | JSON_ENCODE_ANY);
		found_text = json_dumps(found, JSON_COMPACT | JSON_ENCODE_ANY);
		fprintf(stderr, "%s:%u: %s: state: expected %s, found %s\n", run->path, run->line, run->how,
		        expected_text, found_text);
		run->differences++;
		free(expected_text);
		free(found_text);
	}
	json_decref(found);
}

/* The step's call, which names what it gives back as `state` does. */
struct algo_call compare_call(const struct algo_limit *limit, const struct state *state,
                                const struct vector_step *step)
{
	struct algo_call call = step->call;

	if (algo_op_releases(call.op) && call.permit)
		call.until_ns = state_name(limit, state, call.permit, call.until_ns);
	return call;
}

/* A request took something; all names but a log's are the times that the file has. */
void compare_name(struct run *run, const struct algo_limit *limit, struct state *state,
                       const struct vector_step *step, uint64_t name_ns)
{
	if (!step->taken_until_ns)
		return;
	state_took(state, step->call.permit, name_ns);
	if (limit->record != ALGO_RECORD_LOG)
		compare(run, "permit.until_ns", name_ns, step->taken_until_ns);
}
