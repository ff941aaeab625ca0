#include "server/waiting/rollback.h"

#include "engine/remote/submit.h"

static void cancel_plan(struct decider *decider, struct plan *plan)
{
	bool had_submission = plan->submission != NULL;
	enum engine_state state = engine_cancel(&decider->context, plan);

	if (!had_submission)
		decider_count_submission(decider, state);
}

/* Rolls back all items of a batch, too: none of them has an answer. */
static void rollback_work(struct decider *decider, struct work *work)
{
	size_t n;
	struct work *items = items_of(work, &n);

	for (size_t i = n; i > 0; i--)
		rollback_work(decider, &items[i - 1]);
	if (work->status == WEIR_OK)
		cancel_plan(decider, &work->plan);
}

void rollback_unanswered(struct decider *decider, struct work *work, uint64_t wait_ns)
{
	size_t n;
	struct work *items = items_of(work, &n);

	for (size_t i = n; i > 0; i--) {
		const struct reply *reply = &((const struct batch *)work->full_request)->replies[i - 1];

		/* an item that has started without a permit keeps its charges */
		if (wait_ns == 0 || reply->wait_ns > 0 || reply->permit.len > 0)
			rollback_unanswered(decider, &items[i - 1], reply->wait_ns);
	}
	if (work->status == WEIR_OK)
		cancel_plan(decider, &work->plan);
}

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
	rollback_work(decider, work);
	if (work->kind == REQUEST_LOCAL) /* such a request has an answer of its own */
		return;
	work->status = WEIR_ENOMEM;
	work->message = weir_strerror(WEIR_ENOMEM);
}
