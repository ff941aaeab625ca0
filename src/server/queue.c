#include "server/queue.h"

#include <stdlib.h>
#include <string.h>

#include "wait/waitlist.h"
#include "server/handle.h"
#include "server/hold.h"

/* About what its answer will take. */
#define REPLY_SIZE 256

struct queued {
	struct held held; /* first; due when it is to be tried, or has waited long enough */
	struct waiter waiter;
	struct worker *worker;
	struct queued *next_woken, **woken_link; /* see struct worker; NULL when it is not woken */
	bool is_first;                           /* as its own loop knows */
	bool has_moved;                          /* from one key's queue to another's */
	uint64_t start_ns;    /* of the monotonic clock, as all that follow */
	uint64_t end_ns;      /* in this queue */
	uint64_t deadline_ns; /* the caller's own, for all that it waits for */
	struct request request; /* what it points to is in `bytes` */
	alignas(max_align_t) char bytes[];
};

static size_t bytes_of(const struct request *r)
{
	size_t size = r->attribute_count * sizeof *r->attributes + r->limit.len + r->key.len +
	              r->forwarded_for.len;

	for (size_t i = 0; i < r->attribute_count; i++)
		size += strlen(r->attributes[i].name) + 1 + r->attributes[i].value_len;
	return size;
}

static void *put(char **end, const void *data, size_t len)
{
	char *copy = *end;

	if (len > 0)
		memcpy(copy, data, len);
	*end += len;
	return copy;
}

static void put_slice(char **end, struct slice *slice)
{
	slice->data = put(end, slice->data, slice->len);
}

/* All that a request to acquire points to is in `bytes` then. */
static void keep(struct request *r, char *bytes)
{
	struct weir_attribute *attributes =
	    put(&bytes, r->attributes, r->attribute_count * sizeof *attributes);

	for (size_t i = 0; i < r->attribute_count; i++) {
		struct weir_attribute *a = &attributes[i];

		a->name = put(&bytes, a->name, strlen(a->name) + 1);
		a->value = put(&bytes, a->value, a->value_len);
	}
	r->attributes = attributes;
	put_slice(&bytes, &r->limit);
	put_slice(&bytes, &r->key);
	put_slice(&bytes, &r->forwarded_for);
	r->origin = NULL; /* it has been let in */
	r->text = (struct slice){NULL, 0}; /* of what the codec answers by itself */
	r->args = NULL;
	r->arg_count = 0;
}

static struct queued *queued_of(struct waiter *waiter)
{
	return (struct queued *)((char *)waiter - offsetof(struct queued, waiter));
}

/* From any thread. */
static void wake(struct waiter *waiter)
{
	struct queued *queued = queued_of(waiter);
	struct worker *worker = queued->worker;

	pthread_mutex_lock(&worker->lock);
	if (!queued->woken_link) {
		queued->next_woken = worker->woken;
		queued->woken_link = &worker->woken;
		if (queued->next_woken)
			queued->next_woken->woken_link = &queued->next_woken;
		worker->woken = queued;
		net_loop_wake(worker->loop);
	}
	pthread_mutex_unlock(&worker->lock);
}

/* Under the lock. */
static void forget_woken(struct queued *queued)
{
	if (!queued->woken_link)
		return;
	*queued->woken_link = queued->next_woken;
	if (queued->next_woken)
		queued->next_woken->woken_link = queued->woken_link;
	queued->woken_link = NULL;
}

/*
 * `max_wait_ns` as in struct plan. From its second move on its time does not
 * begin anew: it may be sent from one queue to the other for ever.
 */
static bool enter(struct worker *worker, struct queued *queued, const struct step *step,
                  uint64_t max_wait_ns, uint64_t now_ns)
{
	uint64_t end_ns = sat_add(now_ns, wait_patience_ns(&step->limit->algo, max_wait_ns));
	enum waitlist_joined joined;

	queued->end_ns = queued->has_moved ? u64_min(queued->end_ns, end_ns) : end_ns;
	queued->waiter = (struct waiter){.hash = step->key.hash, .wake = wake};
	joined = waitlist_join(waitlist_at(&worker->shared->table->waiting), &queued->waiter,
	                  wait_queue_max(&step->limit->algo));
	queued->is_first = joined == WAITLIST_FIRST;
	return joined != WAITLIST_FULL;
}

static void leave(struct worker *worker, struct queued *queued)
{
	waitlist_leave(waitlist_at(&worker->shared->table->waiting), &queued->waiter);
	pthread_mutex_lock(&worker->lock);
	forget_woken(queued);
	pthread_mutex_unlock(&worker->lock);
}

void queue_run(struct worker *worker)
{
	struct queued *queued;

	pthread_mutex_lock(&worker->lock);
	while ((queued = worker->woken)) {
		forget_woken(queued);
		queued->is_first = true;
		hold_put_off(worker, &queued->held, os_monotonic_ns());
	}
	pthread_mutex_unlock(&worker->lock);
}

/* Whether it goes on waiting: for the same key as before, or for that which denied it now. */
static bool stays(struct worker *worker, struct queued *queued, struct work *work, uint64_t now_ns)
{
	const struct step *step = work->waits_for;
	uint64_t due_ns = UINT64_MAX;

	if (step && step->key.hash == queued->waiter.hash) {
		if (queued->is_first)
			due_ns = sat_add(now_ns, work->reply.decision.retry_after_ns);
	} else {
		leave(worker, queued);
		if (!step)
			return false;
		if (!enter(worker, queued, step, work->plan.max_wait_ns, now_ns)) {
			handle_deny(worker, work, WEIR_REASON_QUEUE_FULL);
			return false;
		}
		queued->has_moved = true;
		if (queued->is_first) /* in the next turn */
			due_ns = now_ns + 1;
	}
	hold_put_off(worker, &queued->held, u64_min(due_ns, queued->end_ns));
	return true;
}

static void decide_again(struct worker *worker, struct held *held, uint64_t now_ns)
{
	struct queued *queued = (struct queued *)held;
	struct work work = {
	    .conn = held->conn, .protocol = protocol_of(held->conn), .request = queued->request};

	worker->turn.at = clock_moment(engine_clock(worker->shared->table));
	if (now_ns >= queued->end_ns)
		work.request.wait_ns = WEIR_ZERO;
	else if (work.request.wait_ns != 0)
		work.request.wait_ns = queued->deadline_ns - now_ns;
	handle_prepare(worker, &work);
	work.plan.position = !queued->is_first    ? WAIT_BEHIND
	                    : queued->has_moved ? WAIT_YIELDED
	                                        : WAIT_FIRST;
	work.plan.waits_at = queued->waiter.hash;
	handle_finish(worker, &work);
	if (!stays(worker, queued, &work, now_ns)) {
		if (work.reply.status == WEIR_OK)
			work.reply.decision.wait_ns += now_ns - queued->start_ns;
		hold_count(worker, now_ns - queued->start_ns);
		hold_decided(worker, held, &work);
	}
	arena_reset(&worker->arena);
}

static void cancel(struct worker *worker, struct held *held)
{
	leave(worker, (struct queued *)held);
}

static const struct held_kind queued_kind = {decide_again, cancel};

static struct queued *open_queued(struct worker *worker, const struct work *work)
{
	size_t size = sizeof(struct queued) + bytes_of(&work->request);
	struct queued *queued;

	if (!waitlist_make(&worker->shared->table->waiting))
		return NULL;
	queued = calloc(1, size);
	if (!queued)
		return NULL;
	queued->worker = worker;
	queued->request = work->request;
	keep(&queued->request, queued->bytes);
	queued->start_ns = clock_monotonic(engine_clock(worker->shared->table), worker->turn.at.now_ns);
	queued->deadline_ns = sat_add(queued->start_ns, work->plan.max_wait_ns);
	queued->held.size = size + REPLY_SIZE;
	if (hold_add(worker, &queued->held, &queued_kind, work->conn, queued->start_ns))
		return queued;
	free(queued);
	return NULL;
}

bool queue_join(struct worker *worker, struct work *work)
{
	struct queued *queued = open_queued(worker, work);

	if (!queued) {
		work->reply.status = WEIR_ENOMEM;
		work->reply.message = weir_strerror(WEIR_ENOMEM);
		return false;
	}
	if (!enter(worker, queued, work->waits_for, work->plan.max_wait_ns, queued->start_ns)) {
		hold_remove(worker, &queued->held);
		free(queued);
		handle_deny(worker, work, WEIR_REASON_QUEUE_FULL);
		return false;
	}
	if (!queued->is_first)
		hold_put_off(worker, &queued->held, queued->end_ns);
	return true;
}
