/*
 * rollback.c: gives back the charges of requests that are decided but will not be answered: their
 * client has left, or there is no memory for the answer. A work is a request that is processed; a
 * batch has a work for each item.
 */
#include "server/waiting/rollback.h"

#include "engine/remote/submit.h"

/* Refunds the charges of a plan. If a store has to do that, counts it, unless it is counted. */
static void cancel_plan(struct decider *decider, struct plan *plan)
{
	bool is_counted = plan->submission != NULL; /* it is at a store already */
	enum engine_state state = engine_cancel(&decider->context, plan);

	if (!is_counted)
		decider_count_submission(decider, state);
}

/* Rolls back a work with all its items, the newest charges first. */
static void rollback_all(struct decider *decider, struct work *work)
{
	size_t n;
	struct work *items = items_of(work, &n);

	for (size_t i = n; i > 0; i--)
		rollback_all(decider, &items[i - 1]);
	if (work->status == WEIR_OK)
		cancel_plan(decider, &work->plan);
}

void rollback_unanswered(struct decider *decider, struct work *work, uint64_t wait_ns)
{
	size_t n;
	struct work *items = items_of(work, &n);

	for (size_t i = n; i > 0; i--) {
		const struct reply *reply = &((const struct batch *)work->full_request)->replies[i - 1];

		if (!rollback_item_has_started(reply, wait_ns))
			rollback_unanswered(decider, &items[i - 1], reply->wait_ns);
	}
	if (work->status == WEIR_OK)
		cancel_plan(decider, &work->plan);
}

/* Resumes the plans that a store has answered, until nothing is left to refund. */
void rollback_continue(struct decider *decider, struct work *work)
{
	size_t n;
	struct work *items = items_of(work, &n);
	struct weir_decision ignored;

	for (size_t i = n; i > 0; i--)
		rollback_continue(decider, &items[i - 1]);
	if (work->plan.submission)
		decider_count_submission(decider, engine_resume(&decider->context, &work->plan, &ignored));
}

/* At the end of the server: only frees memory, so charges at stores stay until they expire. */
void rollback_abandon(struct work *work)
{
	size_t n;
	struct work *items = items_of(work, &n);

	for (size_t i = 0; i < n; i++)
		rollback_abandon(&items[i]);
	if (work->plan.submission)
		submit_close(&work->plan);
}

void rollback_out_of_memory(struct decider *decider, struct work *work)
{
	rollback_all(decider, work);
	if (work->kind == REQUEST_LOCAL) /* such a request has an answer of its own */
		return;
	work->status = WEIR_ENOMEM;
	work->message = weir_strerror(WEIR_ENOMEM);
}
