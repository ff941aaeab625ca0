#include "backend.h"

#include <stdlib.h>

#define QUEUE_MAX 256 /* calls in the server for each worker; more are refused */
#define CALLS_MAX (1U << 20)

/* An attempt. It is free when neither its client nor the server needs it any more. */
struct call {
	struct weir_permit permit;
	uint64_t sent_ns;
	double alone; /* what it takes by itself, of the mean */
	uint32_t next;
	uint8_t attempt, priority;
	bool waits, served; /* its client waits; it is in the server */
	bool is_silent;
};

enum event_kind { ENDS, ASKS };

struct event {
	uint64_t at_ns;
	uint64_t order;
	uint32_t call;
	enum event_kind kind;
};

struct ring {
	uint32_t *calls;
	uint32_t first, count;
};

struct backend {
	struct backend_options options;
	struct backend_limit limit;
	struct backend_demand demand;
	uint64_t now_ns, arrives_ns, drawn, order;
	unsigned workers, busy, inside;
	double mean_ns, rate; /* arrivals for each ns */
	struct call *calls;
	uint32_t free_call, used_calls; /* CALLS_MAX if there is no free one below `used_calls` */
	struct ring queue, patience; /* by the order in which their clients give up */
	struct event *heap;
	size_t events;
	struct backend_work work;
};

static double next_draw(struct backend *backend)
{
	return draw(backend->options.seed, ++backend->drawn);
}

static void ring_add(struct ring *ring, uint32_t call)
{
	if (ring->count == CALLS_MAX)
		abort();
	ring->calls[(ring->first + ring->count++) % CALLS_MAX] = call;
}

static uint32_t ring_take(struct ring *ring)
{
	uint32_t call = ring->calls[ring->first];

	ring->first = (ring->first + 1) % CALLS_MAX;
	ring->count--;
	return call;
}

static bool before(const struct event *a, const struct event *b)
{
	return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->order < b->order;
}

static void push(struct backend *backend, uint64_t at_ns, enum event_kind kind, uint32_t call)
{
	struct event event = {at_ns, backend->order++, call, kind};
	size_t i = backend->events++, parent;

	for (; i > 0 && before(&event, &backend->heap[parent = (i - 1) / 2]); i = parent)
		backend->heap[i] = backend->heap[parent];
	backend->heap[i] = event;
}

static struct event pop(struct backend *backend)
{
	struct event first = backend->heap[0], last = backend->heap[--backend->events];
	size_t i = 0, child;

	while ((child = 2 * i + 1) < backend->events) {
		if (child + 1 < backend->events &&
		    before(&backend->heap[child + 1], &backend->heap[child]))
			child++;
		if (!before(&backend->heap[child], &last))
			break;
		backend->heap[i] = backend->heap[child];
		i = child;
	}
	backend->heap[i] = last;
	return first;
}

static uint32_t take_call(struct backend *backend)
{
	uint32_t call = backend->free_call;

	if (call != CALLS_MAX)
		backend->free_call = backend->calls[call].next;
	else if (backend->used_calls < CALLS_MAX)
		call = backend->used_calls++;
	else
		abort();
	return call;
}

static void release(struct backend *backend, uint32_t call)
{
	backend->calls[call].next = backend->free_call;
	backend->free_call = call;
}

static void report(struct backend *backend, struct call *call, enum weir_outcome outcome)
{
	if (call->permit.id != 0 && !call->is_silent)
		backend->limit.report(backend->limit.context, &call->permit, outcome, backend->now_ns);
	call->permit.id = 0;
}

/* The client of an attempt that came to nothing makes the next one, if there is any left. */
static void retry(struct backend *backend, const struct call *failed)
{
	uint64_t pause_ns = BACKEND_ROUND_TRIP_NS;
	uint32_t call;

	if (failed->attempt == backend->options.attempts)
		return;
	if (backend->options.backoff_ns > 0)
		pause_ns += (uint64_t)((double)(backend->options.backoff_ns << (failed->attempt - 1)) *
		                       next_draw(backend));
	call = take_call(backend);
	backend->calls[call] = (struct call){.alone = failed->alone,
	                                     .attempt = (uint8_t)(failed->attempt + 1),
	                                     .priority = failed->priority,
	                                     .is_silent = failed->is_silent};
	push(backend, backend->now_ns + pause_ns, ASKS, call);
}

static void serve_next(struct backend *backend)
{
	double strain = 1;

	while (backend->queue.count > 0 && backend->busy < backend->workers) {
		uint32_t call = ring_take(&backend->queue);

		if (backend->inside > backend->workers)
			strain = 1 + backend->options.strain * (backend->inside - backend->workers) /
			                 backend->workers;
		backend->busy++;
		push(backend,
		     backend->now_ns + (uint64_t)(backend->calls[call].alone * backend->mean_ns * strain),
		     ENDS, call);
	}
}

static void ask(struct backend *backend, uint32_t index)
{
	const struct backend_limit *limit = &backend->limit;
	struct call *call = &backend->calls[index];

	call->sent_ns = backend->now_ns;
	if ((limit->allows &&
	     !limit->allows(limit->context, call->priority, backend->now_ns, &call->permit)) ||
	    backend->inside == QUEUE_MAX * backend->options.workers) {
		report(backend, call, WEIR_OUTCOME_FAILURE);
		retry(backend, call);
		release(backend, index);
		return;
	}
	call->waits = call->served = true;
	backend->inside++;
	ring_add(&backend->queue, index);
	ring_add(&backend->patience, index);
	serve_next(backend);
}

static void give_up(struct backend *backend)
{
	uint32_t index = ring_take(&backend->patience);
	struct call *call = &backend->calls[index];

	if (call->waits && call->served) {
		if (backend->options.notifies)
			report(backend, call, WEIR_OUTCOME_TIMEOUT);
		retry(backend, call);
	}
	call->waits = false;
	if (!call->served)
		release(backend, index);
}

static void end(struct backend *backend, uint32_t index)
{
	struct call *call = &backend->calls[index];

	backend->inside--;
	backend->busy--;
	report(backend, call, WEIR_OUTCOME_SUCCESS);
	call->served = false;
	if (call->waits)
		backend->work.done += call->alone;
	else
		release(backend, index);
	serve_next(backend);
}

static void arrive(struct backend *backend)
{
	uint32_t index = take_call(backend);
	struct call *call = &backend->calls[index];

	*call = (struct call){.alone = backend->options.service(next_draw(backend)), .attempt = 1};
	call->priority = backend->demand.priorities[next_draw(backend) < backend->demand.low];
	call->is_silent = backend->options.silent > 0 && next_draw(backend) < backend->options.silent;
	backend->work.asked += call->alone;
	ask(backend, index);
	backend->arrives_ns += (uint64_t)(exponential(next_draw(backend)) / backend->rate) + 1;
}

/* What comes first: the end, an arrival, a client that gives up, an event. */
static void step(struct backend *backend, uint64_t until_ns)
{
	uint64_t gives_up_ns = UINT64_MAX, event_ns = UINT64_MAX;
	struct event event;

	if (backend->patience.count > 0)
		gives_up_ns = backend->calls[backend->patience.calls[backend->patience.first]].sent_ns +
		              backend->options.patience_ns;
	if (backend->events > 0)
		event_ns = backend->heap[0].at_ns;
	if (until_ns <= backend->arrives_ns && until_ns <= gives_up_ns && until_ns <= event_ns) {
		backend->now_ns = until_ns;
	} else if (backend->arrives_ns <= gives_up_ns && backend->arrives_ns <= event_ns) {
		backend->now_ns = backend->arrives_ns;
		arrive(backend);
	} else if (gives_up_ns < event_ns) {
		backend->now_ns = gives_up_ns;
		give_up(backend);
	} else {
		event = pop(backend);
		backend->now_ns = event.at_ns;
		if (event.kind == ENDS)
			end(backend, event.call);
		else
			ask(backend, event.call);
	}
}

void backend_run_until(struct backend *backend, uint64_t until_ns)
{
	while (backend->now_ns < until_ns)
		step(backend, until_ns);
}

struct backend_work backend_work(const struct backend *backend)
{
	return backend->work;
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
	                            .calls = calloc(CALLS_MAX, sizeof(struct call)),
	                            .free_call = CALLS_MAX,
	                            .queue.calls = calloc(CALLS_MAX, sizeof(uint32_t)),
	                            .patience.calls = calloc(CALLS_MAX, sizeof(uint32_t)),
	                            .heap = calloc(CALLS_MAX, sizeof(struct event))};
	if (!backend->calls || !backend->queue.calls || !backend->patience.calls || !backend->heap) {
		backend_close(backend);
		return NULL;
	}
	return backend;
}

void backend_close(struct backend *backend)
{
	if (!backend)
		return;
	free(backend->calls);
	free(backend->queue.calls);
	free(backend->patience.calls);
	free(backend->heap);
	free(backend);
}
