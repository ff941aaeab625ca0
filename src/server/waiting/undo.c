#include "server/waiting/undo.h"

#include "engine/remote/submit.h"

static void cancel(struct worker *worker, struct plan *plan)
{
	bool was_there = plan->submission != NULL;
	enum engine_state state = engine_cancel(&worker->turn, plan);

	if (!was_there)
		undo_at_store(worker, state);
}

/* Undoes all items of a batch: none of them has an answer. */
static void undo(struct worker *worker, struct work *work)
{
	size_t n;
	struct work *items = items_of(work, &n);

	for (size_t i = n; i > 0; i--)
		undo(worker, &items[i - 1]);
	if (work->status == WEIR_OK)
		cancel(worker, &work->plan);
}

void undo_untold(struct worker *worker, struct work *work, uint64_t wait_ns)
{
	size_t n;
	struct work *items = items_of(work, &n);

	for (size_t i = n; i > 0; i--) {
		const struct reply *reply = &((const struct batch *)work->whole)->replies[i - 1];

		if (wait_ns == 0 || reply->wait_ns > 0 || reply->permit.len > 0)
			undo_untold(worker, &items[i - 1], reply->wait_ns);
	}
	if (work->status == WEIR_OK)
		cancel(worker, &work->plan);
}

void undo_go_on(struct worker *worker, struct work *work)
{
	size_t n;
	struct work *items = items_of(work, &n);
	struct weir_decision ignored;

	for (size_t i = n; i > 0; i--)
		undo_go_on(worker, &items[i - 1]);
	if (work->plan.submission)
		undo_at_store(worker, engine_resume(&worker->turn, &work->plan, &ignored));
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

void undo_all(struct worker *worker, struct work *work)
{
	undo(worker, work);
	if (work->kind == REQUEST_LOCAL) /* it has an answer of its own */
		return;
	work->status = WEIR_ENOMEM;
	work->message = weir_strerror(WEIR_ENOMEM);
}
