#include "engine/submit.h"

#include <stdlib.h>

struct submission {
	struct plan *plan;
	void (*ready)(void *context, struct plan *plan);
	void *context;
	struct weir_decision decision; /* so far */
	uint32_t pending; /* steps at a store, and one while more are being submitted */
	uint32_t count;   /* of them not yet told */
	struct submitted steps[];
};

/* Released, so that the thread that finds none pending finds the results of all. */
static bool was_last(struct submission *submission)
{
	return __atomic_sub_fetch(&submission->pending, 1, __ATOMIC_ACQ_REL) == 0;
}

static void done(struct store_job *job)
{
	struct submission *submission = ((struct submitted *)job)->of;

	if (was_last(submission))
		submission->ready(submission->context, submission->plan);
}

int submit_step(const struct turn *turn, struct plan *plan, struct step *step,
                const struct algo_call *call)
{
	struct submission *submission = plan->submission;
	struct submitted *one;

	if (!submission)
		submission = calloc(1, sizeof *submission + plan->step_count * sizeof *submission->steps);
	if (!submission)
		return WEIR_ENOMEM;
	plan->submission = submission;
	submission->plan = plan;
	submission->ready = turn->ready;
	submission->context = turn->context;
	if (submission->count == 0)
		submission->pending = 1;
	one = &submission->steps[submission->count++];
	*one = (struct submitted){
	    .job = {.step = {step->limit->store, &step->limit->algo, step->key, *call, turn->at},
	            .limit_name = step->limit->name,
	            .key_name = step->key_name,
	            .done = done},
	    .of = submission,
	    .step = step,
	};
	__atomic_add_fetch(&submission->pending, 1, __ATOMIC_RELAXED);
	step->limit->store->kind->submit(turn->lanes[step->limit->store->index], &one->job);
	return WEIR_OK;
}

bool submit_is_pending(struct plan *plan, const struct weir_decision *decision)
{
	struct submission *submission = plan->submission;

	if (__builtin_expect(!submission || submission->count == 0, 1))
		return false;
	submission->decision = *decision;
	return !was_last(submission);
}

void submit_decision(const struct plan *plan, struct weir_decision *decision)
{
	*decision = plan->submission->decision;
}

size_t submit_results(struct plan *plan, struct submitted **results)
{
	struct submission *submission = plan->submission;
	size_t n = 0;

	if (__builtin_expect(submission != NULL, 0)) {
		*results = submission->steps;
		n = submission->count;
		submission->count = 0;
	}
	return n;
}

void submit_close(struct plan *plan)
{
	free(plan->submission);
	plan->submission = NULL;
}
