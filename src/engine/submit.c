#include "engine/submit.h"

#include <stdlib.h>

struct submission {
	struct plan *plan;
	void (*ready)(void *context, struct plan *plan);
	void *context;
	struct weir_decision decision; /* so far */
	uint32_t pending; /* steps at a store, and one while others are being submitted */
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

bool submit_open(const struct turn *turn, struct plan *plan)
{
	struct submission *submission = plan->submission;

	if (!submission)
		submission = malloc(sizeof *submission + plan->step_count * sizeof *submission->steps);
	if (!submission)
		return false;
	submission->plan = plan;
	submission->ready = turn->ready;
	submission->context = turn->context;
	submission->count = 0;
	plan->submission = submission;
	return true;
}

/* The last of those at a store, or NULL. */
static struct submitted *last_at(struct submission *submission, const struct store *store)
{
	for (uint32_t i = submission->count; i > 0; i--)
		if (submission->steps[i - 1].job.step.store == store)
			return &submission->steps[i - 1];
	return NULL;
}

void submit_step(const struct turn *turn, struct plan *plan, struct step *step,
                 const struct algo_call *call, bool together)
{
	struct submission *submission = plan->submission;
	struct store *store = engine_remote_store(turn->table, step->limit);
	struct submitted *before = last_at(submission, store);
	struct submitted *one = &submission->steps[submission->count++];

	*one = (struct submitted){
	    .job = {.step = {store, algo_current(&step->limit->algo), step->key, *call, turn->at},
	            .limit_name = step->limit->name,
	            .key_name = step->key_name,
	            .together = together && before,
	            .done = done},
	    .of = submission,
	    .step = step,
	    .follows = before != NULL,
	};
	if (before) {
		before->job.next = &one->job;
		before->job.together = together;
	}
}

bool submit_all(const struct turn *turn, struct plan *plan, const struct weir_decision *decision)
{
	struct submission *submission = plan->submission;

	submission->decision = *decision;
	__atomic_store_n(&submission->pending, submission->count + 1, __ATOMIC_RELAXED);
	for (uint32_t i = 0; i < submission->count; i++) {
		struct submitted *one = &submission->steps[i];
		struct store *store = one->job.step.store;

		if (!one->follows)
			store->kind->submit(turn->lanes[store->index], &one->job);
	}
	return !was_last(submission);
}

void submit_decision(const struct plan *plan, struct weir_decision *decision)
{
	*decision = plan->submission->decision;
}

size_t submit_results(struct plan *plan, struct submitted **results)
{
	struct submission *submission = plan->submission;
	size_t n = submission ? submission->count : 0;

	if (submission) {
		*results = submission->steps;
		submission->count = 0;
	}
	return n;
}

void submit_close(struct plan *plan)
{
	free(plan->submission);
	plan->submission = NULL;
}
