/*
 * split_batch.c: keeps the parts of a batch that takes several iterations: its replies, whose times
 * must count from the end, and the plans of its items, which are freed as soon as possible.
 */
#include "server/requests/split_batch.h"

#include <string.h>

#include "server/requests/work_error.h"

/* Makes the replies before the first run. All are unfinished, so that their items are run. */
struct reply *split_batch_replies(struct decider *decider, struct batch *batch)
{
	size_t n = batch->request.item_count;

	if (batch->replies)
		return batch->replies;
	batch->replies = arena_array(&decider->arena, n, sizeof *batch->replies);
	for (size_t i = 0; batch->replies && i < n; i++)
		batch->replies[i].is_unfinished = true;
	return batch->replies;
}

bool split_batch_has_decided_all_begun(const struct batch *batch)
{
	for (size_t i = 0; i < batch->begun_count; i++)
		if (batch->replies[i].is_unfinished)
			return false;
	return true;
}

/*
 * Called before each run, and so before the answer: the batch is answered only when all its items
 * are decided. Shortens the durations in the replies of decided items by the time since the last
 * run; those of undecided items are 0 still. The time until a reset counts from the end of the
 * item's wait, so only the time beyond the wait shortens it.
 */
void split_batch_advance_time(const struct decider *decider, struct batch *batch)
{
	uint64_t now_ns = decider->context.at.now_ns;
	uint64_t passed_ns = batch->times_from_ns != 0 ? sat_sub(now_ns, batch->times_from_ns) : 0;

	for (size_t i = 0; passed_ns > 0 && i < batch->begun_count; i++) {
		struct reply *reply = &batch->replies[i];
		uint64_t waited_ns = u64_min(passed_ns, reply->wait_ns);
		struct weir_decision *d = &reply->decision;

		reply->wait_ns -= waited_ns;
		d->reset_after_ns = sat_sub(d->reset_after_ns, passed_ns - waited_ns);
	}
	batch->times_from_ns = now_ns;
}

/* Whether nothing of the plan outlives this iteration: it runs at once and can't be given back. */
static bool ends_with_iteration(const struct plan *plan)
{
	return !engine_is_remote(plan) && plan->permit.id == 0 && !engine_may_wait(plan);
}

/* An error of a REQUEST_LOCAL has no message: its request is in that place. */
static bool has_message(const struct work *work)
{
	return work->status != WEIR_OK && work->kind != REQUEST_LOCAL;
}

/* Copies the message of an error from the memory of this iteration to that of the batch. */
static void copy_message(struct decider *decider, struct work *item)
{
	work_fail(decider, item, item->status, slice_of(item->message));
}

/* Copies the plan into memory of the batch. Fails the work if there is none. */
static void copy_plan(struct decider *decider, struct work *work, const struct plan *from)
{
	void *memory = arena_alloc(&decider->arena, engine_suspend_size(from));

	if (memory) {
		engine_suspend(decider->shared->table, &work->plan, from, memory);
		return;
	}
	work->plan.step_count = 0;
	work_set_status(work, WEIR_ENOMEM);
}

/* Copies a batch that is an item of a batch. Such batches are rare, so all of it is copied. */
static void copy_batch(struct decider *decider, struct work *work)
{
	const struct batch *from = (const struct batch *)work->full_request;
	size_t size = sizeof *from + from->begun_count * sizeof *from->items;
	struct batch *batch = arena_alloc(&decider->arena, size);

	if (!batch) {
		work_set_status(work, WEIR_ENOMEM);
		return;
	}
	memcpy(batch, from, size);
	work->full_request = &batch->request;
	for (size_t i = 0; i < batch->begun_count; i++) {
		struct work *item = &batch->items[i];

		if (has_message(item))
			copy_message(decider, item);
		if (work_has_plan(item))
			copy_plan(decider, item, &from->items[i].plan);
	}
}

/* Copies what outlives the iteration: the message of an error, a batch, a plan that is not run. */
void split_batch_copy_item(struct decider *decider, struct work *item)
{
	struct plan plan = item->plan; /* the copy for the batch takes the place of item->plan */

	if (item->plan.steps == &item->plan.direct_step) /* the plan points into itself */
		plan.steps = &plan.direct_step;
	if (has_message(item))
		copy_message(decider, item);
	else if (item->kind == REQUEST_BATCH)
		copy_batch(decider, item);
	if (work_has_plan(item) && !ends_with_iteration(&plan))
		copy_plan(decider, item, &plan);
}

static void clear_plan(struct plan *plan)
{
	plan->step_count = 0;
	plan->permit.id = 0;
	plan->stage = PLAN_PREPARED;
}

/* Only an item that waits for its start or has a permit may have to give back its charges. */
void split_batch_drop_plans(struct decider *decider, struct batch *batch)
{
	for (size_t i = 0; i < batch->begun_count; i++) {
		const struct reply *reply = &batch->replies[i];
		bool may_be_refunded = reply->wait_ns > 0 || reply->permit.len > 0;

		if (!reply->is_unfinished && !may_be_refunded)
			clear_plan(&batch->items[i].plan);
	}
	arena_reset(&decider->plan_arena);
}
