#include "server/waiting/key_queue.h"

#include "server/requests/handle.h"

/* As many steps as a call holds. */
#define QUEUE_POLLS 64

static struct suspended *suspended_of(struct waiter *waiter)
{
	return (struct suspended *)((char *)waiter - offsetof(struct suspended, place.waiter));
}

/* From any thread. */
static void wake(struct waiter *waiter)
{
	struct suspended *suspended = suspended_of(waiter);
	struct queue_place *place = &suspended->place;
	struct waiting *waiting = suspended->waiting;

	pthread_mutex_lock(&waiting->queues.lock);
	place->is_dropped |= waiter->is_dropped;
	if (!list_has(&place->woken)) {
		list_append(&waiting->queues.woken, &place->woken);
		net_loop_wake(waiting->decider->loop);
	}
	pthread_mutex_unlock(&waiting->queues.lock);
}

/*
 * The queue of the key that its plan waits for. From its second move on its time does not
 * begin anew: it may be sent from one queue to the other for ever.
 */
static bool enter(struct waiting *waiting, struct suspended *suspended, uint64_t now_ns)
{
	const struct plan *plan = &suspended->work.plan;
	const struct algo_limit *limit = &plan->refused->limit->algo;
	struct queue_place *place = &suspended->place;
	uint64_t end_ns = sat_add(now_ns, wait_patience_ns(limit, plan->max_wait_ns));
	struct waitlist *list = waitlist_make(&waiting->decider->shared->table->waiting);
	enum waitlist_joined joined;

	if (!list)
		return false;
	place->end_ns = place->has_moved ? u64_min(place->end_ns, end_ns) : end_ns;
	place->waiter =
	    (struct waiter){.hash = plan->waits_at, .wake = wake, .priority = plan->refused->priority};
	place->is_dropped = false;
	joined = waitlist_join(list, &place->waiter, wait_queue_max(limit));
	place->is_taken = joined != WAITLIST_FULL;
	place->is_first = joined == WAITLIST_FIRST;
	return place->is_taken;
}

/*
 * Polling: all queues of a loop whose keys are at stores look at the same times, store_poll apart,
 * so that few calls hold their steps. Only the first QUEUE_POLLS of them look at once, and then go
 * to the end: a crowd of queues looks less often, and costs the stores no more.
 */
static void add_poll(struct waiting *waiting, struct suspended *suspended, uint64_t now_ns)
{
	struct queue_place *place = &suspended->place;
	uint64_t every_ns = waiting->decider->config->rules->store_poll_ns;

	if (list_has(&place->polls))
		return;
	if (!waiting->queues.polls.first)
		waiting->queues.poll_ns = now_ns + every_ns - now_ns % every_ns;
	list_append(&waiting->queues.polls, &place->polls);
}

static void forget_poll(struct waiting *waiting, struct queue_place *place)
{
	list_remove(&waiting->queues.polls, &place->polls);
	if (!waiting->queues.polls.first)
		waiting->queues.poll_ns = 0;
}

static void run_polls(struct waiting *waiting)
{
	uint64_t every_ns = waiting->decider->config->rules->store_poll_ns;
	uint64_t now_ns = waiting->queues.poll_ns != 0 ? os_monotonic_ns() : 0;

	if (waiting->queues.poll_ns == 0 || waiting->queues.poll_ns > now_ns)
		return;
	waiting->queues.poll_ns = now_ns + every_ns - now_ns % every_ns;
	for (size_t i = 0; waiting->queues.polls.first && i < QUEUE_POLLS; i++) {
		struct suspended *suspended =
		    list_of(waiting->queues.polls.first, struct suspended, place.polls);

		forget_poll(waiting, &suspended->place);
		if (suspended->held.at_store == 0) /* else it is looking */
			pending_put_off(&waiting->pending, &suspended->held, now_ns);
	}
}

void key_queue_leave(struct waiting *waiting, struct suspended *suspended)
{
	struct queue_place *place = &suspended->place;

	if (!place->is_taken)
		return;
	forget_poll(waiting, place);
	waitlist_leave(waitlist_at(&waiting->decider->shared->table->waiting), &place->waiter);
	place->is_taken = false;
	pthread_mutex_lock(&waiting->queues.lock);
	list_remove(&waiting->queues.woken, &place->woken);
	pthread_mutex_unlock(&waiting->queues.lock);
}

void key_queue_run(struct waiting *waiting)
{
	struct suspended *suspended;

	pthread_mutex_lock(&waiting->queues.lock);
	while (
	    (suspended = list_of(list_take(&waiting->queues.woken), struct suspended, place.woken))) {
		suspended->place.is_first = !suspended->place.is_dropped;
		if (suspended->held.at_store > 0)
			suspended->place.was_woken = true;
		else
			pending_put_off(&waiting->pending, &suspended->held, os_monotonic_ns());
	}
	pthread_mutex_unlock(&waiting->queues.lock);
	run_polls(waiting);
}

/* Its place is another's now. */
static bool is_dropped(struct waiting *waiting, const struct suspended *suspended)
{
	bool is_dropped;

	pthread_mutex_lock(&waiting->queues.lock);
	is_dropped = suspended->place.is_dropped;
	pthread_mutex_unlock(&waiting->queues.lock);
	return is_dropped;
}

/* When the first of a queue tries again. */
static uint64_t retry_at(struct waiting *waiting, struct suspended *suspended,
                         const struct reply *reply, uint64_t now_ns)
{
	bool was_woken = suspended->place.was_woken;

	suspended->place.was_woken = false;
	if (was_woken)
		return now_ns;
	/* Nobody tells what another server gives back. */
	if (engine_polls(&suspended->work.plan))
		add_poll(waiting, suspended, now_ns);
	return sat_add(now_ns, reply->decision.retry_after_ns);
}

/* It has waited, and is decided. */
static void end(struct waiting *waiting, struct suspended *suspended, struct reply *reply,
                uint64_t now_ns)
{
	uint64_t start_ns = suspended->place.start_ns;

	if (start_ns == 0)
		return;
	if (suspended->work.status == WEIR_OK)
		reply->decision.wait_ns += now_ns - start_ns;
	pending_count(waiting->decider, now_ns - start_ns);
}

/* False: the queue of the key that denied it now has no room. */
static bool move(struct waiting *waiting, struct suspended *suspended, uint64_t now_ns)
{
	struct queue_place *place = &suspended->place;
	bool moves = place->is_taken;

	key_queue_leave(waiting, suspended);
	if (!enter(waiting, suspended, now_ns))
		return false;
	place->has_moved |= moves;
	if (place->start_ns == 0) {
		place->start_ns = now_ns;
		place->deadline_ns = sat_add(now_ns, suspended->work.plan.max_wait_ns);
	}
	return true;
}

uint64_t key_queue_stays(struct waiting *waiting, struct suspended *suspended, struct reply *reply)
{
	struct queue_place *place = &suspended->place;
	uint64_t now_ns = os_monotonic_ns(), due_ns = UINT64_MAX;
	bool stays = place->is_taken && suspended->work.plan.waits_at == place->waiter.hash;

	if (reply->waits &&
	    (is_dropped(waiting, suspended) || (!stays && !move(waiting, suspended, now_ns))))
		handle_deny(waiting->decider, &suspended->work, WEIR_REASON_QUEUE_FULL, reply);
	if (!reply->waits) {
		key_queue_leave(waiting, suspended);
		if (!reply->at_store)
			end(waiting, suspended, reply, now_ns);
		return PENDING_NEVER;
	}
	if (place->is_first) /* a new one in the next turn */
		due_ns = stays ? retry_at(waiting, suspended, reply, now_ns) : now_ns + 1;
	return u64_min(due_ns, place->end_ns);
}

void key_queue_prepare(struct waiting *waiting, struct suspended *suspended, uint64_t now_ns)
{
	struct queue_place *place = &suspended->place;
	struct plan *plan = &suspended->work.plan;

	if (now_ns >= place->end_ns)
		plan->max_wait_ns = WEIR_ZERO;
	else if (plan->max_wait_ns != 0)
		plan->max_wait_ns = place->deadline_ns - now_ns;
	plan->position = !place->is_first ? WAIT_BEHIND : place->has_moved ? WAIT_YIELDED : WAIT_FIRST;
	plan->waits_at = place->waiter.hash;
	if (suspended->held.config != waiting->decider->config)
		handle_adapt(waiting->decider, &suspended->work);
}
