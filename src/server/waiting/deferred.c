#include "server/waiting/deferred.h"

#include "base/os/prefetch.h"
#include "server/admin/decisions.h"
#include "server/requests/handle.h"
#include "server/stores/quorum_group.h"
#include "server/stores/reports.h"
#include "server/waiting/key_order.h"
#include "server/waiting/key_queue.h"
#include "server/waiting/rollback.h"

/* The fields of the decider that differ while it runs a suspended work. */
struct saved_context {
	struct server_config *config;
	size_t *use_count;
	void *context;
	struct arena arena;
};

/*
 * The work stays counted in `use_count` until it resumes. Runs on this loop's thread, as its store
 * clients do.
 */
static void make_ready(struct suspended *suspended)
{
	list_append(&suspended->waiting->ready_works, &suspended->node);
}

/* The last plan that returns from a store makes the work ready. Earlier ones only count down. */
void deferred_plan_done(void *context, struct plan *plan)
{
	struct suspended *suspended =
	    (struct suspended *)((char *)context - offsetof(struct suspended, decider));

	(void)plan;
	suspended->was_answered = true;
	if (suspended->unanswered.use_count > 1)
		suspended->unanswered.use_count--;
	else
		make_ready(suspended);
}

/* A batch may be finished in several iterations, so its replies live in an arena of its own. */
static void enter_context(struct suspended *suspended, struct saved_context *saved)
{
	struct decider *decider = suspended->decider;

	*saved = (struct saved_context){decider->config, decider->use_count, decider->context.owner,
	                                decider->arena};
	decider->config = suspended->unanswered.config;
	decider->use_count = &suspended->unanswered.use_count;
	/* so that a plan that ends meanwhile does not make it ready */
	suspended->unanswered.use_count++;
	suspended->was_answered = false;
	decider->context.owner = &suspended->decider;
	if (suspended->work.kind == REQUEST_BATCH)
		decider->arena = suspended->unanswered.arena;
}

static void leave_context(struct suspended *suspended, const struct saved_context *saved)
{
	struct decider *decider = suspended->decider;

	if (suspended->work.kind == REQUEST_BATCH) {
		suspended->unanswered.arena = decider->arena;
		decider->arena = saved->arena;
	}
	decider->config = saved->config;
	decider->use_count = saved->use_count;
	decider->context.owner = saved->context;
	if (suspended->unanswered.use_count > 1 || !suspended->was_answered)
		suspended->unanswered.use_count--;
	else
		make_ready(suspended); /* stores have answered all of its plans already */
}

/* The connection is not read meanwhile, so no request overtakes the items that have not begun. */
void deferred_add_split(struct waiting *waiting, struct net_conn *conn)
{
	waiting->intake_has_split_batch = true;
	waiting->admission->batches++;
	client_of(conn)->has_split_batch = true;
	net_conn_suspend(conn, NET_AT_WORK, true);
}

static void finish_split(struct waiting *waiting, struct net_conn *conn)
{
	if (!client_of(conn)->has_split_batch)
		return;
	waiting->admission->batches--;
	client_of(conn)->has_split_batch = false;
	net_conn_suspend(conn, NET_AT_WORK, false);
}

void deferred_drop(struct waiting *waiting, struct work *work)
{
	if (work_split_batch(work))
		finish_split(waiting, work->conn);
	handle_drop(work);
}

/* Continues the batch in the next iteration. `use_count` counts it until then. */
static void add_split(struct waiting *waiting, struct suspended *suspended)
{
	suspended->unanswered.use_count++;
	list_append(&waiting->split_batches, &suspended->node);
}

static bool ready_next_split(struct waiting *waiting)
{
	struct suspended *suspended =
	    list_of(list_pop(&waiting->split_batches), struct suspended, node);

	if (suspended)
		make_ready(suspended);
	return suspended;
}

/* Starts a work that key_order delayed, together with those that are ready. */
static void start_ordered(struct suspended *suspended)
{
	suspended->unanswered.use_count++;
	make_ready(suspended);
}

/* The callback `cancel` of both kinds below. */
static void cancel_suspended(struct pending *pending, struct unanswered *unanswered)
{
	struct suspended *suspended = (struct suspended *)unanswered;
	struct waiting *waiting = suspended->waiting;

	(void)pending;
	if (work_split_batch(&suspended->work))
		finish_split(waiting, unanswered->conn);
	key_queue_remove(waiting, suspended);
	key_order_remove(&waiting->order, suspended, start_ordered);
}

static void keep_waiting(struct pending *pending, struct unanswered *unanswered, uint64_t now_ns)
{
	(void)now_ns;
	pending_reschedule(pending, unanswered, PENDING_NEVER);
}

static void retry_in_queue(struct pending *pending, struct unanswered *unanswered, uint64_t now_ns);

static const struct unanswered_kind waits_at_store = {keep_waiting, cancel_suspended},
                                    waits_in_queue = {retry_in_queue, cancel_suspended};

/*
 * Runs the plan. Returns false when the work is decided and `reply` filled; true when it waits
 * again, at a store or for a key.
 */
static bool run_or_suspend(struct waiting *waiting, struct suspended *suspended,
                           struct reply *reply)
{
	struct saved_context saved;
	uint64_t due_ns = PENDING_NEVER;

	size_t used = suspended->unanswered.arena.used;
	bool was_split = work_split_batch(&suspended->work) != NULL;

	enter_context(suspended, &saved);
	handle_decide(waiting->decider, &suspended->work, reply);
	if (!reply->is_unfinished)
		due_ns = key_queue_update(waiting, suspended, reply);
	leave_context(suspended, &saved);
	pending_grow(&suspended->unanswered, suspended->unanswered.arena.used - used);
	if (was_split && !work_split_batch(&suspended->work))
		finish_split(waiting, suspended->unanswered.conn);
	else if (was_split && suspended->unanswered.use_count == 0)
		add_split(waiting, suspended);
	if (reply->is_unfinished)
		key_order_add(&waiting->order, suspended);
	else
		key_order_remove(&waiting->order, suspended, start_ordered);
	if (!reply->is_unfinished && !reply->must_wait)
		return false;
	suspended->unanswered.kind = reply->is_unfinished ? &waits_at_store : &waits_in_queue;
	pending_reschedule(&waiting->pending, &suspended->unanswered, due_ns);
	return true;
}

static void resume_suspended(struct waiting *waiting, struct suspended *suspended)
{
	struct reply reply;

	if (!run_or_suspend(waiting, suspended, &reply))
		pending_answer_suspended(&waiting->pending, &suspended->unanswered, &suspended->work,
		                         &reply);
}

static void retry_in_queue(struct pending *pending, struct unanswered *unanswered, uint64_t now_ns)
{
	struct waiting *waiting = ((struct suspended *)unanswered)->waiting;

	decider_read_clock(pending->decider);
	key_queue_prepare_retry(waiting, (struct suspended *)unanswered, now_ns);
	resume_suspended(waiting, (struct suspended *)unanswered);
	arena_reset(&pending->decider->arena);
}

/*
 * Runs the rollback of a work that is not answered. Memory at stores lasts until they have
 * answered.
 */
static void rollback_suspended(struct unanswered *unanswered)
{
	struct suspended *suspended = (struct suspended *)unanswered;
	struct saved_context saved;

	enter_context(suspended, &saved);
	rollback_unanswered(suspended->decider, &suspended->work, unanswered->wait_ns);
	leave_context(suspended, &saved);
}

/* A plan that was at a store knows itself what it took; others list it in `taken`. */
static const struct unanswered_owner owner_with_plan = {rollback_suspended, suspend_release},
                                     owner_without_plan = {NULL, suspend_release};

bool deferred_wait_for_key(struct waiting *waiting, struct work *work, struct reply *reply)
{
	struct suspended *suspended =
	    waitlist_get_or_make(&waiting->decider->shared->table->waiting)
	        ? suspend_work(waiting, work, &waits_in_queue, &owner_without_plan)
	        : NULL;
	uint64_t due_ns;

	if (!suspended) {
		rollback_out_of_memory(waiting->decider, work);
		return false;
	}
	due_ns = key_queue_update(waiting, suspended, reply);
	if (reply->must_wait) {
		pending_reschedule(&waiting->pending, &suspended->unanswered, due_ns);
		return true;
	}
	pending_remove(&waiting->pending, &suspended->unanswered);
	pending_free(&suspended->unanswered);
	return false;
}

/* Answers the work with the intake's other answers, as if it had never been suspended. */
static void answer_in_batch(struct waiting *waiting, struct suspended *suspended,
                            struct reply *reply)
{
	struct saved_context saved;

	pending_remove(&waiting->pending, &suspended->unanswered);
	enter_context(suspended, &saved);
	pending_answer_new(&waiting->pending, &suspended->work, reply);
	leave_context(suspended, &saved);
	pending_free(&suspended->unanswered);
}

void deferred_run(struct waiting *waiting, struct work *work)
{
	struct suspended *suspended = suspend_work(waiting, work, &waits_at_store, &owner_with_plan);
	struct reply reply = {0};

	if (!suspended) {
		finish_split(waiting, work->conn);
		rollback_out_of_memory(waiting->decider, work);
		pending_answer_new(&waiting->pending, work, &reply);
		return;
	}
	if (key_order_enqueue(&waiting->order, suspended) || run_or_suspend(waiting, suspended, &reply))
		return;
	if (reply.wait_ns > 0 || !pending_is_next(&suspended->unanswered))
		pending_answer_suspended(&waiting->pending, &suspended->unanswered, &suspended->work,
		                         &reply);
	else
		answer_in_batch(waiting, suspended, &reply);
}

/*
 * Continues the rollback of a work whose client has left or is answered, until no store has a plan
 * of it.
 */
static void continue_rollback(struct waiting *waiting, struct suspended *suspended)
{
	struct saved_context saved;

	enter_context(suspended, &saved);
	rollback_continue(waiting->decider, &suspended->work);
	leave_context(suspended, &saved);
	if (!suspended->unanswered.conn)
		pending_free(&suspended->unanswered);
}

/*
 * Skips works that became ready and were then rolled back at a store: they become ready once more.
 */
static struct suspended *pop_ready(struct waiting *waiting)
{
	struct suspended *suspended;

	do {
		suspended = list_of(list_pop(&waiting->ready_works), struct suspended, node);
	} while (suspended && --suspended->unanswered.use_count > 0);
	return suspended;
}

static bool is_undecided(const struct suspended *suspended)
{
	const struct unanswered *unanswered = &suspended->unanswered;

	return unanswered->conn &&
	       (unanswered->kind == &waits_at_store || unanswered->kind == &waits_in_queue);
}

void deferred_resume_ready(struct waiting *waiting)
{
	struct suspended *suspended;

	if (waiting->ready_works.first)
		decider_read_clock(waiting->decider);
	while ((suspended = pop_ready(waiting))) {
		if (waiting->ready_works
		        .first) /* the memory of a work that was at a store is not in the cache */
			prefetch_all(list_of(waiting->ready_works.first, struct suspended, node),
			             sizeof *suspended);
		if (is_undecided(suspended))
			resume_suspended(waiting, suspended);
		else
			continue_rollback(waiting, suspended);
	}
}

void deferred_continue_batches(struct waiting *waiting)
{
	for (size_t n = 0; n < DEFERRED_BATCHES && ready_next_split(waiting); n++) {
		metrics_add(&waiting->decider->metrics->continued, 1);
		deferred_resume_ready(waiting);
		if (net_loop_is_busy(waiting->decider->loop))
			break;
	}
	if (waiting->split_batches.first)
		net_loop_run_again(waiting->decider->loop);
}

void deferred_close(struct waiting *waiting)
{
	struct suspended *suspended;

	while (ready_next_split(waiting))
		;
	while ((suspended = pop_ready(waiting))) {
		rollback_abandon(&suspended->work);
		pending_free(&suspended->unanswered);
	}
	suspend_close(waiting);
}
