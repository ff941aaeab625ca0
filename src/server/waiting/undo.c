#include "server/waiting/undo.h"

#include "engine/remote/submit.h"

static void cancel(struct decider *decider, struct plan *plan)
{
	bool was_there = plan->submission != NULL;
	enum engine_state state = engine_cancel(&decider->context, plan);

	if (!was_there)
		decider_at_store(decider, state);
}

/* Undoes all items of a batch: none of them has an answer. */
static void undo(struct decider *decider, struct work *work)
{
	size_t n;
	struct work *items = items_of(work, &n);

	for (size_t i = n; i > 0; i--)
		undo(decider, &items[i - 1]);
	if (work->status == WEIR_OK)
		cancel(decider, &work->plan);
}

void undo_untold(struct decider *decider, struct work *work, uint64_t wait_ns)
{
	size_t n;
	struct work *items = items_of(work, &n);

	for (size_t i = n; i > 0; i--) {
		const struct reply *reply = &((const struct batch *)work->whole)->replies[i - 1];

		if (wait_ns == 0 || reply->wait_ns > 0 || reply->permit.len > 0)
			undo_untold(decider, &items[i - 1], reply->wait_ns);
	}
	if (work->status == WEIR_OK)
		cancel(decider, &work->plan);
}

void undo_go_on(struct decider *decider, struct work *work)
{
	size_t n;
	struct work *items = items_of(work, &n);
	struct weir_decision ignored;

	for (size_t i = n; i > 0; i--)
		undo_go_on(decider, &items[i - 1]);
	if (work->plan.submission)
		decider_at_store(decider, engine_resume(&decider->context, &work->plan, &ignored));
}

void undo_drop(struct work *work)
{
	size_t n;
	struct work *items = items_of(work, &n);

	for (size_t i = 0; i < n; i++)
		undo_drop(&items[i]);
	if (work->plan.submission)
		submit_close(&work->plan);
}

void undo_all(struct decider *decider, struct work *work)
{
	undo(decider, work);
	if (work->kind == REQUEST_LOCAL) /* it has an answer of its own */
		return;
	work->status = WEIR_ENOMEM;
	work->message = weir_strerror(WEIR_ENOMEM);
}
