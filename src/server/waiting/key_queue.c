/*
 * key_queue.c: lets requests wait in the queue of a key until it has capacity again. The first of a
 * queue tries its plan again when the key's limit says so, when another thread wakes it, or, if the
 * key is at a store that sends no news of it, periodically. All workers share these queues.
 */
#include "server/waiting/key_queue.h"

#include "server/requests/handle.h"

/* As many steps as one call to a store has. */
#define POLLS_AT_ONCE 64

static struct suspended *suspended_of(struct waiter *waiter)
{
	return (struct suspended *)((char *)waiter - offsetof(struct suspended, queue.waiter));
}

/*
 * Called by any thread, when the work became the first of its queue, when the key has capacity, or
 * when a waiter of higher priority has replaced the work. Its own loop does the rest.
 */
static void on_woken(struct waiter *waiter)
{
	struct suspended *suspended = suspended_of(waiter);
	struct queue_entry *queue = &suspended->queue;
	struct waiting *waiting = suspended->waiting;

	pthread_mutex_lock(&waiting->queues.lock);
	queue->is_dropped |= waiter->is_dropped;
	if (!list_has(&queue->woken_node)) {
		list_append(&waiting->queues.woken, &queue->woken_node);
		net_loop_wake(waiting->decider->loop);
	}
	pthread_mutex_unlock(&waiting->queues.lock);
}

/*
 * Joins the queue of the key that the plan waits for. From its second move on the time in the queue
 * does not begin anew: two queues could otherwise pass the work back and forth for ever. Returns
 * false if the queue is full or memory is short.
 */
static bool join_queue(struct waiting *waiting, struct suspended *suspended, uint64_t now_ns)
{
	const struct plan *plan = &suspended->work.plan;
	const struct algo_limit *limit = &plan->refused_step->limit->algo;
	struct queue_entry *queue = &suspended->queue;
	uint64_t end_ns = sat_add(now_ns, wait_patience_ns(limit, plan->max_wait_ns));
	struct waitlist *list = waitlist_get_or_make(&waiting->decider->shared->table->waiting);
	enum waitlist_joined joined;

	if (!list)
		return false;
	queue->queue_end_ns = queue->has_moved ? u64_min(queue->queue_end_ns, end_ns) : end_ns;
	queue->waiter = (struct waiter){
	    .hash = plan->awaited_key_hash, .wake = on_woken, .priority = plan->refused_step->priority};
	queue->is_dropped = false;
	joined = waitlist_join(list, &queue->waiter, wait_queue_max(limit));
	queue->is_queued = joined != WAITLIST_FULL;
	queue->is_first = joined == WAITLIST_FIRST;
	return queue->is_queued;
}

/* All queues of a loop poll at the same times: the next multiple of `store_poll`. */
static uint64_t next_poll_after(const struct waiting *waiting, uint64_t now_ns)
{
	uint64_t interval_ns = waiting->decider->config->rules->store_poll_ns;

	return now_ns + interval_ns - now_ns % interval_ns;
}

/*
 * Lets the first of a queue whose key is at a store poll. As all do so at the same times, few calls
 * carry their steps. Only the oldest POLLS_AT_ONCE of them try each time, and then go to the end:
 * with many queues each one polls less often, and stores do no more work.
 */
static void add_poll(struct waiting *waiting, struct suspended *suspended, uint64_t now_ns)
{
	struct queue_entry *queue = &suspended->queue;

	if (list_has(&queue->poll_node))
		return;
	if (!waiting->queues.polling.first)
		waiting->queues.next_poll_ns = next_poll_after(waiting, now_ns);
	list_append(&waiting->queues.polling, &queue->poll_node);
}

static void remove_poll(struct waiting *waiting, struct queue_entry *queue)
{
	list_remove(&waiting->queues.polling, &queue->poll_node);
	if (!waiting->queues.polling.first)
		waiting->queues.next_poll_ns = 0;
}

/*
 * If it is time to poll, makes the oldest polling works due: pending_run retries them. Each polls
 * again after its attempt, see next_retry_ns.
 */
static void make_polls_due(struct waiting *waiting)
{
	uint64_t now_ns = waiting->queues.next_poll_ns != 0 ? os_monotonic_ns() : 0;

	if (waiting->queues.next_poll_ns == 0 || waiting->queues.next_poll_ns > now_ns)
		return;
	waiting->queues.next_poll_ns = next_poll_after(waiting, now_ns);
	for (size_t i = 0; waiting->queues.polling.first && i < POLLS_AT_ONCE; i++) {
		struct suspended *suspended =
		    list_of(waiting->queues.polling.first, struct suspended, queue.poll_node);

		remove_poll(waiting, &suspended->queue);
		/* otherwise its attempt is at the store already */
		if (suspended->unanswered.use_count == 0)
			pending_reschedule(&waiting->pending, &suspended->unanswered, now_ns);
	}
}

void key_queue_remove(struct waiting *waiting, struct suspended *suspended)
{
	struct queue_entry *queue = &suspended->queue;

	if (!queue->is_queued)
		return;
	remove_poll(waiting, queue);
	waitlist_leave(waitlist_at(&waiting->decider->shared->table->waiting), &queue->waiter);
	queue->is_queued = false;
	pthread_mutex_lock(&waiting->queues.lock);
	list_remove(&waiting->queues.woken, &queue->woken_node);
	pthread_mutex_unlock(&waiting->queues.lock);
}

/* Makes works due that other threads have woken, or that have to poll. */
void key_queue_wake_due(struct waiting *waiting)
{
	struct suspended *suspended;

	pthread_mutex_lock(&waiting->queues.lock);
	while ((suspended =
	            list_of(list_pop(&waiting->queues.woken), struct suspended, queue.woken_node))) {
		suspended->queue.is_first = !suspended->queue.is_dropped;
		if (suspended->unanswered.use_count > 0) /* at a store: it tries again after the answer */
			suspended->queue.was_woken = true;
		else
			pending_reschedule(&waiting->pending, &suspended->unanswered, os_monotonic_ns());
	}
	pthread_mutex_unlock(&waiting->queues.lock);
	make_polls_due(waiting);
}

/* Whether a waiter of higher priority has taken its slot in the queue. */
static bool is_dropped(struct waiting *waiting, const struct suspended *suspended)
{
	bool is_dropped;

	pthread_mutex_lock(&waiting->queues.lock);
	is_dropped = suspended->queue.is_dropped;
	pthread_mutex_unlock(&waiting->queues.lock);
	return is_dropped;
}

/* Returns when the first of a queue tries again, after an attempt that was denied. */
static uint64_t next_retry_ns(struct waiting *waiting, struct suspended *suspended,
                              const struct reply *reply, uint64_t now_ns)
{
	bool was_woken = suspended->queue.was_woken;

	suspended->queue.was_woken = false;
	if (was_woken)
		return now_ns;
	/* other servers share the key, and send no message when they release capacity of it */
	if (engine_must_poll(&suspended->work.plan))
		add_poll(waiting, suspended, now_ns);
	return sat_add(now_ns, reply->decision.retry_after_ns);
}

/* Adds the time in queues to the answer of a work that is decided, and to the metrics. */
static void count_wait_time(struct waiting *waiting, struct suspended *suspended,
                            struct reply *reply, uint64_t now_ns)
{
	uint64_t start_ns = suspended->queue.wait_start_ns;

	if (start_ns == 0)
		return;
	if (suspended->work.status == WEIR_OK)
		reply->decision.wait_ns += now_ns - start_ns;
	pending_count_wait(waiting->decider, now_ns - start_ns);
}

/*
 * Leaves the work's queue, if any, for that of the key that denies the work now. Returns false if
 * that is full.
 */
static bool join_another_queue(struct waiting *waiting, struct suspended *suspended,
                               uint64_t now_ns)
{
	struct queue_entry *queue = &suspended->queue;
	bool leaves_one = queue->is_queued;

	key_queue_remove(waiting, suspended);
	if (!join_queue(waiting, suspended, now_ns))
		return false;
	queue->has_moved |= leaves_one;
	if (queue->wait_start_ns == 0) {
		queue->wait_start_ns = now_ns;
		queue->deadline_ns = sat_add(now_ns, suspended->work.plan.max_wait_ns);
	}
	return true;
}

/*
 * Called after each attempt. A work that must wait stays in its queue, or moves to that of another
 * key; returns when it tries again. A work that is decided leaves the queue.
 */
uint64_t key_queue_update(struct waiting *waiting, struct suspended *suspended, struct reply *reply)
{
	struct queue_entry *queue = &suspended->queue;
	uint64_t now_ns = os_monotonic_ns(), due_ns = UINT64_MAX;
	bool stays_in_queue =
	    queue->is_queued && suspended->work.plan.awaited_key_hash == queue->waiter.hash;
	bool may_wait;

	if (reply->must_wait) {
		may_wait = !is_dropped(waiting, suspended) &&
		           (stays_in_queue || join_another_queue(waiting, suspended, now_ns));
		if (!may_wait) /* clears reply->must_wait */
			handle_deny(waiting->decider, &suspended->work, WEIR_REASON_QUEUE_FULL, reply);
	}
	if (!reply->must_wait) {
		key_queue_remove(waiting, suspended);
		if (!reply->is_unfinished)
			count_wait_time(waiting, suspended, reply, now_ns);
		return PENDING_NEVER;
	}
	/* the first of a queue that it has just joined tries once more, in the next pending_run */
	if (queue->is_first)
		due_ns = stays_in_queue ? next_retry_ns(waiting, suspended, reply, now_ns) : now_ns + 1;
	return u64_min(due_ns, queue->queue_end_ns);
}

/*
 * Sets for the engine how long the work may still wait, and its position in the queue. The first
 * waiter of a key usually lets requests go ahead once that wait for another of its keys. A waiter
 * that moved here from another key's queue was put last, so it has let them go already.
 */
void key_queue_prepare_retry(struct suspended *suspended, uint64_t now_ns)
{
	struct queue_entry *queue = &suspended->queue;
	struct plan *plan = &suspended->work.plan;

	if (now_ns >= queue->queue_end_ns)
		plan->max_wait_ns = WEIR_ZERO; /* it may not wait any longer */
	else if (plan->max_wait_ns != 0)   /* 0 leaves the wait to the limit */
		plan->max_wait_ns = queue->deadline_ns - now_ns;
	if (!queue->is_first)
		plan->queue_position = WAIT_BEHIND;
	else
		plan->queue_position = queue->has_moved ? WAIT_YIELDED : WAIT_FIRST;
	plan->awaited_key_hash = queue->waiter.hash;
}
