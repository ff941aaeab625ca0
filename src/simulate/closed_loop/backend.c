#include "simulate/closed_loop/backend.h"

#include <math.h>
#include <stdlib.h>

#include "base/number.h"
#include "simulate/closed_loop/call_heap.h"
#include "simulate/closed_loop/draw.h"

#define QUEUE_MAX     256 /* calls in the server for each worker; more are refused */
#define CALLS_MAX     (1U << 20)
#define CALLS_INITIAL 1024
#define DOUBLINGS_MAX 16 /* of the pause after an attempt */
#define NONE          UINT32_MAX
#define TOOK_MAX_NS   1e18 /* so that times do not overflow */

/* An attempt. It is free when neither its client nor the server needs it any more. */
struct call {
	struct weir_permit permit;
	uint64_t sent_ns, first_ns; /* this attempt, and the first of the request */
	double alone;               /* what it takes by itself, of the mean */
	double took_ns;             /* of a worker */
	uint32_t client;
	uint32_t next, previous; /* in the list of free calls, in the queue, or by patience */
	uint32_t next_in_queue;
	uint8_t attempt, priority;
	bool waits, served; /* its client waits; it is in the server, or held by the limit */
	bool is_silent;
};

/* Calls in the order in which they were added, by their `next` or `next_in_queue`. */
struct list {
	uint32_t first, last;
};

struct backend {
	struct backend_options options;
	struct backend_limit limit;
	struct backend_demand demand;
	uint64_t now_ns, arrives_ns, drawn;
	unsigned workers, busy, inside;
	double mean_ns, think_ns, rate; /* arrivals for each ns */
	double progress_ns;             /* the work on a call that has been served from the beginning */
	struct call *calls;
	uint32_t call_capacity, free_call, used_calls;
	struct list queue, patience;   /* `patience`: by the order in which their clients give up */
	struct call_heap heap, served; /* `served`: calls by the progress at which they end */
	enum backend_status status;
	struct backend_work work;
};

static double next_draw(struct backend *backend)
{
	return draw(backend->options.seed, ++backend->drawn);
}

static void stop_with(struct backend *backend, enum backend_status status)
{
	if (backend->status == BACKEND_OK)
		backend->status = status;
}

static void queue_add(struct backend *backend, uint32_t call)
{
	backend->calls[call].next_in_queue = NONE;
	if (backend->queue.first == NONE)
		backend->queue.first = call;
	else
		backend->calls[backend->queue.last].next_in_queue = call;
	backend->queue.last = call;
}

static uint32_t queue_take(struct backend *backend)
{
	uint32_t call = backend->queue.first;

	backend->queue.first = backend->calls[call].next_in_queue;
	return call;
}

static void patience_add(struct backend *backend, uint32_t call)
{
	backend->calls[call].next = NONE;
	backend->calls[call].previous = backend->patience.first == NONE ? NONE : backend->patience.last;
	if (backend->patience.first == NONE)
		backend->patience.first = call;
	else
		backend->calls[backend->patience.last].next = call;
	backend->patience.last = call;
}

static void patience_remove(struct backend *backend, uint32_t index)
{
	const struct call *call = &backend->calls[index];

	if (call->previous == NONE)
		backend->patience.first = call->next;
	else
		backend->calls[call->previous].next = call->next;
	if (call->next == NONE)
		backend->patience.last = call->previous;
	else
		backend->calls[call->next].previous = call->previous;
}

static bool grow_calls(struct backend *backend)
{
	uint32_t capacity = backend->call_capacity ? 2 * backend->call_capacity : CALLS_INITIAL;
	struct call *calls;

	if (capacity > CALLS_MAX) {
		stop_with(backend, BACKEND_TOO_MANY_CALLS);
		return false;
	}
	calls = realloc(backend->calls, capacity * sizeof *calls);
	if (!calls) {
		stop_with(backend, BACKEND_NO_MEMORY);
		return false;
	}
	backend->calls = calls;
	backend->call_capacity = capacity;
	return true;
}

/* Returns a copy of *call, or NONE. Pointers to calls are invalid afterwards. */
static uint32_t new_call(struct backend *backend, struct call call)
{
	uint32_t index = backend->free_call;

	if (index != NONE)
		backend->free_call = backend->calls[index].next;
	else if (backend->used_calls < backend->call_capacity || grow_calls(backend))
		index = backend->used_calls++;
	else
		return NONE;
	backend->calls[index] = call;
	return index;
}

static void release(struct backend *backend, uint32_t call)
{
	backend->calls[call].next = backend->free_call;
	backend->free_call = call;
}

static void schedule(struct backend *backend, uint64_t at_ns, enum event_kind kind, uint32_t call)
{
	if (!call_heap_push(&backend->heap, at_ns, kind, call))
		stop_with(backend, BACKEND_NO_MEMORY);
}

static void report(struct backend *backend, struct call *call, enum weir_outcome outcome)
{
	if (call->permit.id != 0 && !call->is_silent)
		backend->limit.report(backend->limit.context, &call->permit, outcome, backend->now_ns);
	call->permit.id = 0;
}

/* A client of the closed loop thinks before its next request. */
static void think(struct backend *backend, uint32_t client)
{
	if (backend->options.clients > 0)
		schedule(backend,
		         backend->now_ns + BACKEND_ROUND_TRIP_NS +
		             (uint64_t)(exponential(next_draw(backend)) * backend->think_ns),
		         BEGINS, client);
}

/* The client of an attempt that came to nothing makes the next one, if there is any left. */
static void retry(struct backend *backend, const struct call *failed)
{
	uint64_t pause_ns = BACKEND_ROUND_TRIP_NS;
	unsigned doublings = failed->attempt - 1U;
	uint32_t call;

	if (failed->attempt == backend->options.attempts) {
		think(backend, failed->client);
		return;
	}
	if (doublings > DOUBLINGS_MAX)
		doublings = DOUBLINGS_MAX;
	if (backend->options.backoff_ns > 0)
		pause_ns +=
		    (uint64_t)((double)(backend->options.backoff_ns << doublings) * next_draw(backend));
	call = new_call(backend, (struct call){.alone = failed->alone,
	                                       .first_ns = failed->first_ns,
	                                       .client = failed->client,
	                                       .attempt = (uint8_t)(failed->attempt + 1),
	                                       .priority = failed->priority,
	                                       .is_silent = failed->is_silent});
	if (call != NONE)
		schedule(backend, backend->now_ns + pause_ns, ASKS, call);
}

/* A call takes so many times as long because of those beyond the workers. */
static double strain(const struct backend *backend)
{
	if (backend->inside <= backend->workers)
		return 1;
	return 1 + backend->options.strain * (backend->inside - backend->workers) / backend->workers;
}

/* The progress of each call in service, in a unit of time. */
static double service_rate(const struct backend *backend)
{
	if (!backend->options.shares || backend->inside <= backend->workers)
		return 1;
	return backend->workers / (backend->inside * strain(backend));
}

static void advance(struct backend *backend, uint64_t now_ns)
{
	backend->progress_ns += (double)(now_ns - backend->now_ns) * service_rate(backend);
	backend->now_ns = now_ns;
}

static void serve_next(struct backend *backend)
{
	bool shares = backend->options.shares;

	while (backend->queue.first != NONE && (shares || backend->busy < backend->workers)) {
		uint32_t index = queue_take(backend);
		struct call *call = &backend->calls[index];
		double took_ns = call->alone * backend->mean_ns * (shares ? 1 : strain(backend));

		backend->busy++;
		call->took_ns = fmin(took_ns, TOOK_MAX_NS);
		if (!call_heap_push(&backend->served, (uint64_t)(backend->progress_ns + call->took_ns),
		                    ENDS, index))
			stop_with(backend, BACKEND_NO_MEMORY);
	}
}

static uint64_t next_end_ns(const struct backend *backend)
{
	double left_ns;

	if (backend->served.count == 0)
		return UINT64_MAX;
	left_ns = (double)backend->served.events[0].at_ns - backend->progress_ns;
	return backend->now_ns +
	       (uint64_t)fmin(ceil(fmax(left_ns, 0) / service_rate(backend)), TOOK_MAX_NS);
}

static bool server_is_full(const struct backend *backend)
{
	return backend->inside >= QUEUE_MAX * (uint64_t)backend->options.workers ||
	       backend->inside >= CALLS_MAX / 2;
}

/* The limit has allowed the call, and it has waited as long as the limit wanted. */
static void enter(struct backend *backend, uint32_t index)
{
	struct call failed, *call = &backend->calls[index];

	if (!server_is_full(backend)) {
		backend->inside++;
		queue_add(backend, index);
		serve_next(backend);
		return;
	}
	backend->work.refused++;
	report(backend, call, WEIR_OUTCOME_FAILURE);
	failed = *call;
	if (failed.waits)
		patience_remove(backend, index);
	release(backend, index);
	if (failed.waits)
		retry(backend, &failed);
}

static void ask(struct backend *backend, uint32_t index)
{
	const struct backend_limit *limit = &backend->limit;
	struct call *call = &backend->calls[index];
	struct backend_attempt attempt = {
	    .client = call->client, .priority = call->priority, .now_ns = backend->now_ns};

	backend->work.attempts++;
	if (backend->options.attempts_max && backend->work.attempts > backend->options.attempts_max)
		stop_with(backend, BACKEND_TOO_MANY_ATTEMPTS);
	call->sent_ns = backend->now_ns;
	if (limit->allows && !limit->allows(limit->context, &attempt)) {
		struct call denied = *call;

		backend->work.denied++;
		release(backend, index);
		retry(backend, &denied);
		return;
	}
	call->permit = attempt.permit;
	call->waits = call->served = true;
	patience_add(backend, index);
	if (attempt.wait_ns > 0)
		schedule(backend, backend->now_ns + attempt.wait_ns, ENTERS, index);
	else
		enter(backend, index);
}

static void give_up(struct backend *backend)
{
	uint32_t index = backend->patience.first;
	struct call *call = &backend->calls[index], given_up;

	patience_remove(backend, index);
	backend->work.abandoned++;
	if (backend->options.notifies)
		report(backend, call, WEIR_OUTCOME_TIMEOUT);
	call->waits = false;
	given_up = *call; /* a copy, as the calls may move */
	retry(backend, &given_up);
}

static void end(struct backend *backend, uint32_t index)
{
	struct call *call = &backend->calls[index];

	backend->inside--;
	backend->busy--;
	report(backend, call, WEIR_OUTCOME_SUCCESS);
	backend->work.worked_ns += call->took_ns;
	if (call->waits) {
		patience_remove(backend, index);
		backend->work.done += call->alone;
		backend->work.answered++;
		if (backend->limit.answered)
			backend->limit.answered(backend->limit.context, backend->now_ns - call->first_ns);
		think(backend, call->client);
	} else {
		backend->work.wasted_ns += call->took_ns;
	}
	release(backend, index);
	serve_next(backend);
}

/* A client makes the first attempt of a request. */
static void begin(struct backend *backend, uint32_t client)
{
	struct call call = {.alone = backend->options.service(next_draw(backend)),
	                    .attempt = 1,
	                    .client = client,
	                    .first_ns = backend->now_ns};
	uint32_t index;

	call.priority = backend->demand.priorities[next_draw(backend) < backend->demand.low];
	call.is_silent = backend->options.silent > 0 && next_draw(backend) < backend->options.silent;
	backend->work.asked += call.alone;
	backend->work.requests++;
	index = new_call(backend, call);
	if (index != NONE)
		ask(backend, index);
}

static void arrive(struct backend *backend)
{
	begin(backend, 0);
	backend->arrives_ns += (uint64_t)(exponential(next_draw(backend)) / backend->rate) + 1;
}

static void handle(struct backend *backend, struct event event)
{
	static void (*const handlers[])(struct backend * backend, uint32_t call) = {
	    [ENDS] = end, [ASKS] = ask, [ENTERS] = enter, [BEGINS] = begin};

	handlers[event.kind](backend, event.call);
}

/* Runs the earliest step: an arrival, a call that ends, an event, or a client that gives up. */
static void step(struct backend *backend, uint64_t until_ns)
{
	uint64_t gives_up_ns = UINT64_MAX, event_ns = UINT64_MAX, ends_ns = next_end_ns(backend);
	uint64_t next_ns;

	if (backend->patience.first != NONE)
		gives_up_ns =
		    backend->calls[backend->patience.first].sent_ns + backend->options.patience_ns;
	if (backend->heap.count > 0)
		event_ns = backend->heap.events[0].at_ns;
	next_ns = u64_min(u64_min(backend->arrives_ns, ends_ns), u64_min(event_ns, gives_up_ns));
	advance(backend, u64_min(next_ns, until_ns));
	if (until_ns <= next_ns)
		return;
	if (backend->arrives_ns == next_ns)
		arrive(backend);
	else if (ends_ns == next_ns)
		handle(backend, call_heap_pop(&backend->served));
	else if (event_ns == next_ns)
		handle(backend, call_heap_pop(&backend->heap));
	else
		give_up(backend);
}

enum backend_status backend_run_until(struct backend *backend, uint64_t until_ns)
{
	while (backend->now_ns < until_ns && backend->status == BACKEND_OK)
		step(backend, until_ns);
	return backend->status;
}

struct backend_work backend_work(const struct backend *backend)
{
	return backend->work;
}

unsigned backend_inside(const struct backend *backend)
{
	return backend->inside;
}

void backend_set_demand(struct backend *backend, struct backend_demand demand)
{
	bool begins = backend->arrives_ns == UINT64_MAX;

	backend->demand = demand;
	backend->rate = demand.load * backend->options.workers / backend->options.mean_ns;
	if (demand.load <= 0)
		backend->arrives_ns = UINT64_MAX;
	else if (begins)
		backend->arrives_ns = backend->now_ns;
}

void backend_set_think(struct backend *backend, double think_ns)
{
	call_heap_stretch(&backend->heap, BEGINS, backend->now_ns, think_ns / backend->think_ns);
	backend->think_ns = think_ns;
}

void backend_set_server(struct backend *backend, unsigned workers, double mean_ns)
{
	backend->workers = workers;
	backend->mean_ns = mean_ns;
	serve_next(backend);
}

struct backend *backend_open(const struct backend_options *options, struct backend_limit limit)
{
	struct backend *backend = calloc(1, sizeof *backend);

	if (!backend)
		return NULL;
	*backend = (struct backend){.options = *options,
	                            .limit = limit,
	                            .arrives_ns = UINT64_MAX,
	                            .workers = options->workers,
	                            .mean_ns = options->mean_ns,
	                            .think_ns = options->think_ns,
	                            .free_call = NONE,
	                            .queue = {NONE, NONE},
	                            .patience = {NONE, NONE}};
	for (uint32_t client = 0; client < options->clients;
	     client++) /* in the middle of their pause */
		think(backend, client);
	if (backend->status == BACKEND_OK)
		return backend;
	backend_close(backend);
	return NULL;
}

void backend_close(struct backend *backend)
{
	if (!backend)
		return;
	free(backend->calls);
	call_heap_free(&backend->heap);
	call_heap_free(&backend->served);
	free(backend);
}
