/*
 * deferred.c: runs requests that outlive the iteration of the loop that read them. They wait for a
 * store's answer or in the queue of a key, or are batches with further items to decide.
 *
 * A work is a request that is being processed. A suspended work has memory of its own. It is ready
 * when the last store has answered, and resumes with all that are ready. `use_count` of its
 * `unanswered` part says how many users that memory has: each plan that is at a store, and one
 * while the work runs, is ready or is listed to continue.
 */
#include "server/waiting/deferred.h"

#include "base/os/prefetch.h"
#include "server/admin/decisions.h"
#include "server/requests/handle.h"
#include "server/stores/quorum_group.h"
#include "server/stores/reports.h"
#include "server/waiting/key_order.h"
#include "server/waiting/key_queue.h"
#include "server/waiting/reload_wait.h"
#include "server/waiting/rollback.h"

/* The fields of the decider that differ while it runs a suspended work. */
struct saved_context {
	struct server_config *config;
	size_t *use_count;
	void *owner;
	struct arena arena;
};

/*
 * Lets the work resume. `use_count` must have one for it, until it does. Runs on this loop's
 * thread, as its store clients do.
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

/*
 * Makes the decider run a suspended work: by the configuration that the work began with, with the
 * work as the owner of its plans. A batch has an arena of its own, because its replies outlive the
 * iteration. leave_context must follow.
 */
static void enter_context(struct suspended *suspended, struct saved_context *saved)
{
	struct decider *decider = suspended->decider;

	*saved = (struct saved_context){decider->config, decider->use_count, decider->context.owner,
	                                decider->arena};
	decider->config = suspended->unanswered.config;
	decider->use_count = &suspended->unanswered.use_count;
	/* so that a plan that ends while the work runs does not make it ready */
	suspended->unanswered.use_count++;
	suspended->was_answered = false;
	decider->context.owner = &suspended->decider;
	if (suspended->work.kind == REQUEST_BATCH)
		decider->arena = suspended->unanswered.arena;
}

/* Undoes enter_context. */
static void leave_context(struct suspended *suspended, const struct saved_context *saved)
{
	struct decider *decider = suspended->decider;
	bool all_plans_answered;

	if (suspended->work.kind == REQUEST_BATCH) {
		suspended->unanswered.arena = decider->arena;
		decider->arena = saved->arena;
	}
	decider->config = saved->config;
	decider->use_count = saved->use_count;
	decider->context.owner = saved->owner;
	all_plans_answered = suspended->unanswered.use_count == 1 && suspended->was_answered;
	if (all_plans_answered)
		make_ready(suspended); /* with the use that enter_context has counted */
	else
		suspended->unanswered.use_count--;
}

/*
 * Called with each batch that takes several iterations. Its connection is not read until all items
 * have begun, so no request overtakes them.
 */
void deferred_begin_split_batch(struct waiting *waiting, struct net_conn *conn)
{
	waiting->intake_has_split_batch = true;
	waiting->admission->batches++;
	client_of(conn)->has_split_batch = true;
	net_conn_suspend(conn, NET_AT_WORK, true);
}

/* Called when all items of such a batch have begun or are cancelled: reads the connection again. */
static void end_split_batch(struct waiting *waiting, struct net_conn *conn)
{
	if (!client_of(conn)->has_split_batch)
		return;
	waiting->admission->batches--;
	client_of(conn)->has_split_batch = false;
	net_conn_suspend(conn, NET_AT_WORK, false);
}

void deferred_drop(struct waiting *waiting, struct work *work)
{
	if (work_has_items_to_begin(work))
		end_split_batch(waiting, work->conn);
	handle_drop(work);
}

/* Lets a batch begin its next items in the next iteration. */
static void continue_in_next_iteration(struct waiting *waiting, struct suspended *suspended)
{
	suspended->unanswered.use_count++;
	list_append(&waiting->split_batches, &suspended->node);
}

/* Returns false if no batch has items that must begin. */
static bool make_next_batch_ready(struct waiting *waiting)
{
	struct suspended *suspended =
	    list_of(list_pop(&waiting->split_batches), struct suspended, node);

	if (suspended)
		make_ready(suspended);
	return suspended != NULL;
}

/* Starts a work that had to wait for an earlier one with the same key (key_order.h). */
static void start_in_order(struct suspended *suspended)
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
	if (work_has_items_to_begin(&suspended->work))
		end_split_batch(waiting, unanswered->conn);
	key_queue_remove(waiting, suspended);
	key_order_remove(&waiting->order, suspended, start_in_order);
}

/* The callback `due` of a work at a store: only the store's answer resumes it. */
static void wait_for_store(struct pending *pending, struct unanswered *unanswered, uint64_t now_ns)
{
	(void)now_ns;
	pending_reschedule(pending, unanswered, PENDING_NEVER);
}

static void retry_in_queue(struct pending *pending, struct unanswered *unanswered, uint64_t now_ns);

static const struct unanswered_kind waits_at_store = {wait_for_store, cancel_suspended},
                                    waits_in_queue = {retry_in_queue, cancel_suspended};

/* Called after a run of a split batch: whether further items begin in the next iteration. */
static void update_split_batch(struct waiting *waiting, struct suspended *suspended)
{
	if (!work_has_items_to_begin(&suspended->work))
		end_split_batch(waiting, suspended->unanswered.conn);
	else if (suspended->unanswered.use_count == 0) /* no store's answer will resume it */
		continue_in_next_iteration(waiting, suspended);
}

/*
 * Runs the work until it is decided or waits. Returns true when it is decided and `reply` is
 * filled; false when it waits again, at a store or for a key.
 */
static bool try_to_decide(struct waiting *waiting, struct suspended *suspended, struct reply *reply)
{
	struct saved_context saved;
	uint64_t due_ns = PENDING_NEVER;
	size_t used = suspended->unanswered.arena.used;
	bool was_split = work_has_items_to_begin(&suspended->work);

	enter_context(suspended, &saved);
	handle_decide(waiting->decider, &suspended->work, reply);
	if (!reply->is_unfinished)
		due_ns = key_queue_update(waiting, suspended, reply);
	leave_context(suspended, &saved);
	pending_grow(&suspended->unanswered, suspended->unanswered.arena.used - used);
	if (was_split)
		update_split_batch(waiting, suspended);
	if (reply->is_unfinished) { /* at a store, or a batch with items to begin */
		key_order_add(&waiting->order, suspended);
		suspended->unanswered.kind = &waits_at_store;
	} else {
		key_order_remove(&waiting->order, suspended, start_in_order);
		if (!reply->must_wait)
			return true;
		suspended->unanswered.kind = &waits_in_queue;
	}
	pending_reschedule(&waiting->pending, &suspended->unanswered, due_ns);
	return false;
}

static void resume_suspended(struct waiting *waiting, struct suspended *suspended)
{
	struct reply reply;

	if (try_to_decide(waiting, suspended, &reply))
		pending_answer_suspended(&waiting->pending, &suspended->unanswered, &suspended->work,
		                         &reply);
}

/* Gives back the charges of a work that will not be answered. Stores may complete that later. */
static void rollback_suspended(struct unanswered *unanswered)
{
	struct suspended *suspended = (struct suspended *)unanswered;
	struct saved_context saved;

	enter_context(suspended, &saved);
	rollback_unanswered(suspended->decider, &suspended->work, unanswered->wait_ns);
	leave_context(suspended, &saved);
}

/* A work that was at stores keeps its plan, to give back charges; others list the charges. */
static const struct unanswered_owner owner_with_plan = {rollback_suspended, suspend_release},
                                     owner_without_plan = {NULL, suspend_release};

/*
 * If a reload has replaced the work's configuration, lets the work go on with the limits of the
 * newest one. These may be at a store, and its own configuration does not list them: so the plan
 * gives back its charges itself.
 */
static void follow_reload(struct suspended *suspended)
{
	struct server_config *own = suspended->unanswered.config, *newest = server_config_newest(own);

	if (newest == own)
		return;
	handle_move_waiting(suspended->decider, &suspended->work, newest);
	suspended->unanswered.owner = &owner_with_plan;
}

/* The callback `due` of a work in the queue of a key: tries whether the key has capacity. */
static void retry_in_queue(struct pending *pending, struct unanswered *unanswered, uint64_t now_ns)
{
	struct suspended *suspended = (struct suspended *)unanswered;

	decider_read_clock(pending->decider);
	key_queue_prepare_retry(suspended, now_ns);
	follow_reload(suspended);
	resume_suspended(suspended->waiting, suspended);
	arena_reset(&pending->decider->arena);
}

/*
 * Returns false if the work does not wait: it is denied in `reply` because the queue of the key is
 * full, or has an error because memory is short.
 */
bool deferred_wait_for_key(struct waiting *waiting, struct work *work, struct reply *reply)
{
	struct waitlist *queues = waitlist_get_or_make(&waiting->decider->shared->table->waiting);
	struct suspended *suspended = NULL;
	uint64_t due_ns;

	if (work->kind == REQUEST_RELOAD)
		return reload_wait_begin(waiting, work);
	if (queues)
		suspended = suspend_work(waiting, work, &waits_in_queue, &owner_without_plan);
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

/* Answers the work among the answers of the intake, as if it had never been suspended. */
static void answer_with_intake(struct waiting *waiting, struct suspended *suspended,
                               struct reply *reply)
{
	struct saved_context saved;

	pending_remove(&waiting->pending, &suspended->unanswered);
	enter_context(suspended, &saved);
	pending_answer_new(&waiting->pending, &suspended->work, reply);
	leave_context(suspended, &saved);
	pending_free(&suspended->unanswered);
}

/* If the work waits for nothing after all, it is answered like the other works of the intake. */
void deferred_suspend_and_run(struct waiting *waiting, struct work *work)
{
	struct suspended *suspended = suspend_work(waiting, work, &waits_at_store, &owner_with_plan);
	struct reply reply = {0};
	bool answer_is_delayed;

	if (!suspended) {
		end_split_batch(waiting, work->conn);
		rollback_out_of_memory(waiting->decider, work);
		pending_answer_new(&waiting->pending, work, &reply);
		return;
	}
	if (key_order_enqueue(&waiting->order, suspended)) /* an earlier work starts it later */
		return;
	if (!try_to_decide(waiting, suspended, &reply))
		return;
	answer_is_delayed = reply.wait_ns > 0 || !pending_is_next(&suspended->unanswered);
	if (answer_is_delayed)
		pending_answer_suspended(&waiting->pending, &suspended->unanswered, &suspended->work,
		                         &reply);
	else
		answer_with_intake(waiting, suspended, &reply);
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
		struct suspended *next = list_of(waiting->ready_works.first, struct suspended, node);

		if (next) /* its memory is not in the cache, since it was at a store */
			prefetch_all(next, sizeof *next);
		if (is_undecided(suspended))
			resume_suspended(waiting, suspended);
		else
			continue_rollback(waiting, suspended);
	}
}

/* The batches that are left continue in the next iteration, which follows at once. */
void deferred_continue_batches(struct waiting *waiting)
{
	for (size_t n = 0; n < DEFERRED_BATCHES && make_next_batch_ready(waiting); n++) {
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

	while (make_next_batch_ready(waiting))
		;
	while ((suspended = pop_ready(waiting))) {
		rollback_abandon(&suspended->work);
		pending_free(&suspended->unanswered);
	}
	suspend_close(waiting);
}
