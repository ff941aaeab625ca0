#include "server/park.h"

#include <stdlib.h>
#include <string.h>

#include "server/handle.h"
#include "server/queue.h"

#define ALIGNMENT alignof(max_align_t)

/* The size of a small work, and how many of that size are kept. */
#define SMALL     ((size_t)768)
#define SPARE_MAX 2048

/* Memory that is counted, and then handed out: without any, all room is NULL. */
struct pack {
	char *memory;
	size_t used;
};

static void *room(struct pack *pack, size_t size)
{
	char *memory = pack->memory ? pack->memory + pack->used : NULL;

	pack->used += (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
	return memory;
}

static void *copy(struct pack *pack, const void *from, size_t size)
{
	void *to = room(pack, size);

	return to && size > 0 ? memcpy(to, from, size) : to;
}

static void copy_text(struct pack *pack, struct slice *text)
{
	if (text->data)
		text->data = copy(pack, text->data, text->len);
}

/* What its answer needs; the rest was needed until its plan was prepared. */
static void copy_request(struct pack *pack, const struct request *from, struct request *to)
{
	struct slice *args = copy(pack, from->args, from->arg_count * sizeof *from->args);
	struct request *items = copy(pack, from->items, from->item_count * sizeof *from->items);
	struct request ignored;

	*to = *from;
	to->origin = NULL;
	to->attributes = NULL;
	to->attribute_count = 0;
	to->key = to->permit = to->forwarded_for = (struct slice){NULL, 0};
	to->args = args;
	to->items = items;
	copy_text(pack, &to->limit);
	copy_text(pack, &to->text);
	for (size_t i = 0; i < from->arg_count; i++) {
		struct slice word = from->args[i];

		copy_text(pack, &word);
		if (args)
			args[i] = word;
	}
	for (size_t i = 0; i < from->item_count; i++)
		copy_request(pack, &from->items[i], items ? &items[i] : &ignored);
}

static void copy_work(const struct worker *worker, struct pack *pack, const struct work *from,
                      struct work *to);

static struct request *copy_batch(const struct worker *worker, struct pack *pack,
                                  const struct work *work)
{
	size_t n;
	const struct work *items = items_of(work, &n);
	struct batch *batch = room(pack, sizeof *batch + n * sizeof *batch->items);
	struct reply *replies = room(pack, n * sizeof *replies);
	struct request request;
	struct work item;

	copy_request(pack, work->whole, &request);
	if (batch)
		*batch = (struct batch){.request = request, .replies = replies};
	for (size_t i = 0; i < n; i++) {
		copy_work(worker, pack, &items[i], batch ? &batch->items[i] : &item);
		if (replies)
			replies[i] = (struct reply){.at_store = true}; /* to be finished, see handle.c */
	}
	return batch ? &batch->request : NULL;
}

static struct request *copy_whole(const struct worker *worker, struct pack *pack,
                                  const struct work *work)
{
	struct request *whole, ignored;

	if (!work->whole)
		return NULL;
	if (work->kind == REQUEST_BATCH)
		return copy_batch(worker, pack, work);
	whole = room(pack, sizeof *whole);
	copy_request(pack, work->whole, whole ? whole : &ignored);
	return whole;
}

static void copy_plan(const struct worker *worker, struct pack *pack, const struct work *from,
                      struct work *to)
{
	void *memory = room(pack, engine_extent(&from->plan));

	if (pack->memory)
		engine_suspend(worker->shared->table, &to->plan, &from->plan, memory);
}

/* Where its plan was not prepared, that is not read. */
static bool has_plan(const struct work *work)
{
	return (work->status == WEIR_OK || work->kind == REQUEST_ADHOC) && work->plan.step_count > 0;
}

static void copy_work(const struct worker *worker, struct pack *pack, const struct work *from,
                      struct work *to)
{
	*to = *from;
	if (has_plan(from))
		copy_plan(worker, pack, from, to);
	else
		to->plan.step_count = 0;
	if (from->status != WEIR_OK && from->kind != REQUEST_LOCAL)
		to->message = copy(pack, from->message, strlen(from->message) + 1);
	else
		to->whole = copy_whole(worker, pack, from);
}

bool park_is_needed(const struct work *work)
{
	size_t n;
	const struct work *items = items_of(work, &n);

	for (size_t i = 0; i < n; i++)
		if (park_is_needed(&items[i]))
			return true;
	return has_plan(work) && engine_is_remote(&work->plan);
}

size_t park_size(const struct work *work)
{
	size_t n;

	items_of(work, &n);
	return HOLD_SIZE + n * (sizeof *work + sizeof(struct request) + sizeof(struct reply));
}

/* Most works are small, and there are many in a turn: their memory is used again. */
static void keep_memory(struct held *held)
{
	struct parked *parked = (struct parked *)held;
	struct worker *worker = parked->worker;

	if (held->size > SMALL || worker->spare_count == SPARE_MAX) {
		free(parked);
		return;
	}
	parked->next_ready = worker->spare;
	worker->spare = parked;
	worker->spare_count++;
}

/* Zero before its work. */
static struct parked *take_memory(struct worker *worker, size_t size)
{
	struct parked *parked = size <= SMALL ? worker->spare : NULL;

	if (parked) {
		worker->spare = parked->next_ready;
		worker->spare_count--;
	} else {
		parked = malloc(size <= SMALL ? SMALL : size);
		if (!parked)
			return NULL;
	}
	memset(parked, 0, offsetof(struct parked, work));
	parked->held.size = size <= SMALL ? SMALL : size;
	parked->held.release = keep_memory;
	parked->worker = worker;
	return parked;
}

struct parked *park_open(struct worker *worker, const struct work *work,
                         const struct held_kind *kind, uint64_t due_ns)
{
	struct pack pack = {0};
	struct work ignored;
	struct parked *parked;

	copy_work(worker, &pack, work, &ignored);
	parked = take_memory(worker, sizeof *parked + pack.used);
	if (!parked)
		return NULL;
	pack = (struct pack){.memory = parked->bytes};
	copy_work(worker, &pack, work, &parked->work);
	if (hold_add(worker, &parked->held, kind, work->conn, due_ns))
		return parked;
	parked->held.release(&parked->held);
	return NULL;
}

/* What of the worker is another while it runs a parked work. */
struct scene {
	struct server_config *config;
	struct parked *at;
	engine_observer *observe;
	struct arena arena;
};

static void observe(void *context, const struct step *step)
{
	handle_observe(((struct parked *)context)->worker, step);
}

static void fail(void *context, const struct step *step, enum rules_failure policy)
{
	handle_observe_failure(((struct parked *)context)->worker, step, policy);
}

/*
 * The last plan that stores had of it makes it ready, and counts until it goes on. On this loop's
 * thread, as its lanes are.
 */
static void become_ready(void *context, struct plan *plan)
{
	struct parked *parked = context;
	struct worker *worker = parked->worker;

	(void)plan;
	if (parked->held.at_store > 1) {
		parked->held.at_store--;
		return;
	}
	parked->next_ready = NULL;
	*worker->ready_end = parked;
	worker->ready_end = &parked->next_ready;
}

/* The replies of a batch may be finished in several turns, so they are in memory of its own. */
static void enter(struct worker *worker, struct parked *parked, struct scene *saved)
{
	*saved = (struct scene){worker->config, worker->at, worker->turn.observe, worker->arena};
	worker->config = parked->held.config;
	worker->at = parked;
	worker->turn.context = parked;
	worker->turn.observe = observe;
	worker->turn.failed = fail;
	worker->turn.ready = become_ready;
	if (parked->work.kind == REQUEST_BATCH)
		worker->arena = parked->held.arena;
}

static void leave(struct worker *worker, struct parked *parked, const struct scene *saved)
{
	if (parked->work.kind == REQUEST_BATCH) {
		parked->held.arena = worker->arena;
		worker->arena = saved->arena;
	}
	worker->config = saved->config;
	worker->at = saved->at;
	worker->turn.context = saved->at ? (void *)saved->at : worker;
	worker->turn.observe = saved->observe;
}

void park_count(struct worker *worker)
{
	worker->at->held.at_store++;
}

/* Its client has gone and left it in a queue, maybe. */
static void cancel(struct worker *worker, struct held *held)
{
	queue_leave(worker, (struct parked *)held);
}

static void put_off(struct worker *worker, struct held *held, uint64_t now_ns)
{
	(void)now_ns;
	hold_put_off(worker, held, HOLD_NEVER);
}

static const struct held_kind at_store = {put_off, cancel};

/* False: it is decided, and `reply` is filled. */
static bool goes_on(struct worker *worker, struct parked *parked, struct reply *reply)
{
	struct scene saved;
	bool waits = false;

	enter(worker, parked, &saved);
	handle_finish(worker, &parked->work, reply);
	if (!reply->at_store)
		waits = queue_stays(worker, parked, reply);
	leave(worker, parked, &saved);
	if (reply->at_store) {
		parked->held.kind = &at_store;
		hold_put_off(worker, &parked->held, HOLD_NEVER);
	}
	return waits || reply->at_store;
}

void park_resume(struct worker *worker, struct parked *parked)
{
	struct reply reply;

	if (!goes_on(worker, parked, &reply))
		hold_decided(worker, &parked->held, &parked->work, &reply);
}

/* Among the answers of the batch: as if it had not been held. */
static void answer_now(struct worker *worker, struct parked *parked, struct reply *reply)
{
	struct scene saved;

	hold_remove(worker, &parked->held);
	enter(worker, parked, &saved);
	hold_answer(worker, &parked->work, reply);
	leave(worker, parked, &saved);
	hold_free(&parked->held);
}

void park_run(struct worker *worker, struct work *work)
{
	struct parked *parked = park_open(worker, work, &at_store, HOLD_NEVER);
	struct reply reply = {0};

	if (!parked) {
		handle_no_memory(worker, work);
		hold_answer(worker, work, &reply);
		return;
	}
	parked->held.keeps_plan = true;
	if (goes_on(worker, parked, &reply))
		return;
	if (reply.wait_ns > 0 || !hold_is_next(&parked->held))
		hold_decided(worker, &parked->held, &parked->work, &reply);
	else
		answer_now(worker, parked, &reply);
}

/* Of one whose client has left. Each plan goes on until it has given back all. */
static void end(struct worker *worker, struct parked *parked)
{
	struct scene saved;

	enter(worker, parked, &saved);
	handle_end(worker, &parked->work);
	leave(worker, parked, &saved);
	hold_free(&parked->held);
}

static struct parked *take_ready(struct worker *worker)
{
	struct parked *parked = worker->ready;

	if (!parked)
		return NULL;
	worker->ready = parked->next_ready;
	if (!worker->ready)
		worker->ready_end = &worker->ready;
	parked->held.at_store = 0;
	return parked;
}

void park_resume_ready(struct worker *worker)
{
	struct parked *parked;

	if (worker->ready)
		worker->turn.at = clock_moment(engine_clock(worker->shared->table));
	while ((parked = take_ready(worker)))
		if (parked->held.conn)
			park_resume(worker, parked);
		else
			end(worker, parked);
}

void park_close(struct worker *worker)
{
	struct parked *parked;

	while ((parked = take_ready(worker))) {
		handle_drop(&parked->work);
		hold_free(&parked->held);
	}
	while ((parked = worker->spare)) {
		worker->spare = parked->next_ready;
		free(parked);
	}
}

void park_undo(struct worker *worker, struct parked *parked)
{
	struct scene saved;

	enter(worker, parked, &saved);
	handle_give_back(worker, &parked->work, parked->held.wait_ns);
	leave(worker, parked, &saved);
}
