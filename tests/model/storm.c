/*
 * storm: clients that retry, a limit of the library, and a server that a fault overloads, in virtual
 * time.
 *
 *     arguments   limit (none, fixed, adaptive), workers, the first seed, the number of seeds
 *     stdout      for each seed its scenario and its goodputs, as a line of JSON; `calm` is the
 *                 last of them if nothing happens
 *
 * Requests arrive by chance and do not wait for one another. A client that is denied, or has no
 * answer after its patience, asks again, three times in all. The server works on calls that their
 * clients have given up, too: this is what keeps an overload alive when its cause is gone. From 5 s
 * on half of the workers are away, each request takes three times as long, or five times as many
 * arrive; some seconds later all is as before.
 *
 * A seed decides all of the scenario. Goodput is the work that was answered in time, as a part of
 * what the server can do, or of what is asked for if that is less.
 */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <weir/weir.h>

#include "draw.h"

#define MS        UINT64_C(1000000)
#define SECOND_NS (1000 * MS)
#define NOW_NS    (1700000000 * SECOND_NS)

#define MEAN_NS     (10 * MS)
#define STRAIN      0.1 /* so much longer does a call take for each `workers` beyond those at work */
#define QUEUE_MAX   256 /* calls in the server for each worker; more are refused */
#define ATTEMPTS    3
#define ROUND_TRIP  MS
#define TRIGGER_NS  (5 * SECOND_NS)
#define LOOK_NS     (30 * SECOND_NS) /* after the end of the trigger, ... */
#define LOOKS_NS    (10 * SECOND_NS) /* ... and for so long */
#define CALLS_MAX   (1U << 20)

enum trigger { HALVES, SLOWER, SPIKE, TRIGGERS };

static const char *const trigger_names[] = {"halves", "slower", "spike"};
static const char *const service_names[] = {"exponential", "constant", "bimodal"};

struct scenario {
	uint64_t seed;
	enum trigger trigger;
	uint64_t lasts_ns;
	const char *service;
	double load;        /* first attempts, as a part of the capacity */
	uint64_t patience_ns;
	uint64_t backoff_ns; /* the most of the first pause, doubled for the next; 0: no pause */
	bool told;           /* the limit learns at once that a client gave up, not when the server ends */
	double low;          /* this part of requests has a low priority */
};

/* An attempt. It is free when neither its client nor the server needs it any more. */
struct call {
	struct weir_permit permit;
	uint64_t sent_ns;
	double alone; /* what it takes by itself, of the mean */
	uint32_t next;
	uint8_t attempt, priority;
	bool waits, served; /* its client waits; it is in the server */
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

struct span {
	uint64_t from_ns, to_ns;
	double asked, done; /* in mean service times */
};

enum { BEFORE, FAULT, BACK, LAST, SPANS };

struct storm {
	struct scenario scenario;
	service_time *service;
	weir_limiter *limiter;
	uint64_t now_ns, arrives_ns, drawn, order;
	unsigned all, workers, busy, inside;
	double mean_ns, rate; /* arrivals for each ns */
	struct call *calls;
	uint32_t free_call;
	struct ring queue, patience; /* by the order in which their clients give up */
	struct event *heap;
	size_t events;
	struct span spans[SPANS];
};

static double next_draw(struct storm *storm)
{
	return draw(storm->scenario.seed, ++storm->drawn);
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

static void push(struct storm *storm, uint64_t at_ns, enum event_kind kind, uint32_t call)
{
	struct event event = {at_ns, storm->order++, call, kind};
	size_t i = storm->events++, parent;

	for (; i > 0 && before(&event, &storm->heap[parent = (i - 1) / 2]); i = parent)
		storm->heap[i] = storm->heap[parent];
	storm->heap[i] = event;
}

static struct event pop(struct storm *storm)
{
	struct event first = storm->heap[0], last = storm->heap[--storm->events];
	size_t i = 0, child;

	while ((child = 2 * i + 1) < storm->events) {
		if (child + 1 < storm->events && before(&storm->heap[child + 1], &storm->heap[child]))
			child++;
		if (!before(&storm->heap[child], &last))
			break;
		storm->heap[i] = storm->heap[child];
		i = child;
	}
	storm->heap[i] = last;
	return first;
}

static uint32_t take_call(struct storm *storm)
{
	uint32_t call = storm->free_call;

	if (call == CALLS_MAX)
		abort();
	storm->free_call = storm->calls[call].next;
	return call;
}

static void release(struct storm *storm, uint32_t call)
{
	storm->calls[call].next = storm->free_call;
	storm->free_call = call;
}

static void count(struct storm *storm, double work, size_t offset)
{
	for (unsigned i = 0; i < SPANS; i++)
		if (storm->spans[i].from_ns <= storm->now_ns && storm->now_ns < storm->spans[i].to_ns)
			*(double *)((char *)&storm->spans[i] + offset) += work;
}

static void report(struct storm *storm, struct call *call, enum weir_outcome outcome)
{
	if (storm->limiter && call->permit.id != 0 &&
	    weir_limiter_report(storm->limiter, &call->permit, outcome, 0, NOW_NS + storm->now_ns) != 0)
		abort();
	call->permit.id = 0;
}

/* The client of an attempt that came to nothing makes the next one, if there is any left. */
static void retry(struct storm *storm, const struct call *failed)
{
	uint64_t pause_ns = ROUND_TRIP;
	uint32_t call;

	if (failed->attempt == ATTEMPTS)
		return;
	if (storm->scenario.backoff_ns > 0)
		pause_ns += (uint64_t)((double)(storm->scenario.backoff_ns << (failed->attempt - 1)) *
		                       next_draw(storm));
	call = take_call(storm);
	storm->calls[call] = (struct call){.alone = failed->alone,
	                                   .attempt = (uint8_t)(failed->attempt + 1),
	                                   .priority = failed->priority};
	push(storm, storm->now_ns + pause_ns, ASKS, call);
}

static void serve_next(struct storm *storm)
{
	double strain = 1;

	while (storm->queue.count > 0 && storm->busy < storm->workers) {
		uint32_t call = ring_take(&storm->queue);

		if (storm->inside > storm->workers)
			strain = 1 + STRAIN * (storm->inside - storm->workers) / storm->workers;
		storm->busy++;
		push(storm,
		     storm->now_ns + (uint64_t)(storm->calls[call].alone * storm->mean_ns * strain), ENDS,
		     call);
	}
}

static bool allowed(struct storm *storm, struct call *call)
{
	struct weir_decision decision;

	if (!storm->limiter)
		return true;
	if (weir_limiter_ask(
	        storm->limiter,
	        &(struct weir_ask){.priority = call->priority, .now_ns = NOW_NS + storm->now_ns},
	        &decision, &call->permit) != 0)
		abort();
	return decision.allowed;
}

static void ask(struct storm *storm, uint32_t index)
{
	struct call *call = &storm->calls[index];

	call->sent_ns = storm->now_ns;
	if (!allowed(storm, call) || storm->inside == QUEUE_MAX * storm->all) {
		report(storm, call, WEIR_OUTCOME_FAILURE);
		retry(storm, call);
		release(storm, index);
		return;
	}
	call->waits = call->served = true;
	storm->inside++;
	ring_add(&storm->queue, index);
	ring_add(&storm->patience, index);
	serve_next(storm);
}

static void give_up(struct storm *storm)
{
	uint32_t index = ring_take(&storm->patience);
	struct call *call = &storm->calls[index];

	if (call->waits && call->served) {
		if (storm->scenario.told)
			report(storm, call, WEIR_OUTCOME_TIMEOUT);
		retry(storm, call);
	}
	call->waits = false;
	if (!call->served)
		release(storm, index);
}

static void end(struct storm *storm, uint32_t index)
{
	struct call *call = &storm->calls[index];

	storm->inside--;
	storm->busy--;
	report(storm, call, WEIR_OUTCOME_SUCCESS);
	call->served = false;
	if (call->waits)
		count(storm, call->alone, offsetof(struct span, done));
	else
		release(storm, index);
	serve_next(storm);
}

static void arrive(struct storm *storm)
{
	uint32_t index = take_call(storm);

	storm->calls[index] = (struct call){.alone = storm->service(next_draw(storm)),
	                                    .attempt = 1,
	                                    .priority = next_draw(storm) < storm->scenario.low ? 9 : 0};
	count(storm, storm->calls[index].alone, offsetof(struct span, asked));
	ask(storm, index);
	storm->arrives_ns += (uint64_t)(exponential(next_draw(storm)) / storm->rate) + 1;
}

static void change(struct storm *storm, bool begins)
{
	switch (storm->scenario.trigger) {
	case HALVES:
		storm->workers = begins ? storm->all / 2 : storm->all;
		serve_next(storm);
		break;
	case SLOWER:
		storm->mean_ns = begins ? 3.0 * MEAN_NS : 1.0 * MEAN_NS;
		break;
	default:
		storm->rate = begins ? 5 * storm->rate : storm->rate / 5;
	}
}

/* What comes first: a change, an arrival, a client that gives up, an event. */
static void step(struct storm *storm, uint64_t until_ns)
{
	uint64_t gives_up_ns = UINT64_MAX, event_ns = UINT64_MAX;

	if (storm->patience.count > 0)
		gives_up_ns = storm->calls[storm->patience.calls[storm->patience.first]].sent_ns +
		              storm->scenario.patience_ns;
	if (storm->events > 0)
		event_ns = storm->heap[0].at_ns;
	if (until_ns <= storm->arrives_ns && until_ns <= gives_up_ns && until_ns <= event_ns) {
		storm->now_ns = until_ns;
	} else if (storm->arrives_ns <= gives_up_ns && storm->arrives_ns <= event_ns) {
		storm->now_ns = storm->arrives_ns;
		arrive(storm);
	} else if (gives_up_ns < event_ns) {
		storm->now_ns = gives_up_ns;
		give_up(storm);
	} else {
		struct event event = pop(storm);

		storm->now_ns = event.at_ns;
		if (event.kind == ENDS)
			end(storm, event.call);
		else
			ask(storm, event.call);
	}
}

static void run_until(struct storm *storm, uint64_t until_ns)
{
	while (storm->now_ns < until_ns)
		step(storm, until_ns);
}

static struct scenario scenario_of(uint64_t seed)
{
	static const double loads[] = {0.8, 0.95, 1.5, 3};
	static const unsigned backoffs_ms[] = {0, 0, 20, 100};
	uint64_t n = 0;
#define CHOOSE(count) ((unsigned)(draw(~seed, n++) * (count)))
	return (struct scenario){.seed = seed,
	                         .trigger = (enum trigger)CHOOSE(TRIGGERS),
	                         .lasts_ns = (1 + CHOOSE(6)) * SECOND_NS,
	                         .service = service_names[CHOOSE(3)],
	                         .load = loads[CHOOSE(4)],
	                         .patience_ns = (100 + CHOOSE(400)) * MS,
	                         .backoff_ns = backoffs_ms[CHOOSE(4)] * MS,
	                         .told = CHOOSE(2),
	                         .low = CHOOSE(2) / 2.0};
#undef CHOOSE
}

static void open_limit(struct storm *storm, const char *name, unsigned workers)
{
	unsigned root = 1;
	struct weir_limit_options fixed = {.algorithm = WEIR_ALGORITHM_CONCURRENCY,
	                                   .lease_ns = 3600 * SECOND_NS},
	                          adaptive = {.algorithm = WEIR_ALGORITHM_ADAPTIVE, .max = 1000};

	while ((root + 1) * (root + 1) <= workers)
		root++;
	fixed.max = workers + root;
	weir_seed(storm->scenario.seed);
	if (strcmp(name, "none") != 0 &&
	    weir_limiter_open(strcmp(name, "fixed") == 0 ? &fixed : &adaptive, &storm->limiter, NULL) != 0)
		abort();
}

static void print_scenario(const struct scenario *s)
{

	printf("{\"seed\": %llu, \"trigger\": \"%s\", \"seconds\": %llu, \"service\": \"%s\", \"load\": %g, "
	       "\"patience_ms\": %llu, \"backoff_ms\": %llu, \"told\": %d, \"low\": %g",
	       (unsigned long long)s->seed, trigger_names[s->trigger],
	       (unsigned long long)(s->lasts_ns / SECOND_NS), s->service, s->load,
	       (unsigned long long)(s->patience_ns / MS), (unsigned long long)(s->backoff_ns / MS), s->told,
	       s->low);
}

static double goodput(const struct storm *storm, unsigned i)
{
	const struct span *span = &storm->spans[i];
	double can = storm->all * (double)(span->to_ns - span->from_ns) / MEAN_NS;

	return span->done / fmin(can, span->asked);
}

static void print_goodputs(const struct storm *storm)
{
	static const char *const names[] = {"before", "fault", "back", "last"};

	for (unsigned i = 0; i < SPANS; i++)
		printf(", \"%s\": %.4f", names[i], goodput(storm, i));
}

static void run(const char *limit, unsigned workers, struct scenario scenario, bool is_calm,
                struct storm *kept)
{
	uint64_t ends_ns = TRIGGER_NS + scenario.lasts_ns;
	struct storm storm = {.scenario = scenario,
	                      .service = service_named(scenario.service),
	                      .all = workers,
	                      .workers = workers,
	                      .mean_ns = MEAN_NS,
	                      .rate = scenario.load * workers / MEAN_NS,
	                      .calls = kept->calls,
	                      .queue.calls = kept->queue.calls,
	                      .patience.calls = kept->patience.calls,
	                      .heap = kept->heap,
	                      .spans = {{TRIGGER_NS - 2 * SECOND_NS, TRIGGER_NS, 0, 0},
	                                {TRIGGER_NS, TRIGGER_NS + SECOND_NS, 0, 0},
	                                {ends_ns, ends_ns + SECOND_NS, 0, 0},
	                                {ends_ns + LOOK_NS, ends_ns + LOOK_NS + LOOKS_NS, 0, 0}}};

	for (uint32_t i = 0; i < CALLS_MAX; i++)
		storm.calls[i].next = i + 1;
	open_limit(&storm, limit, workers);
	run_until(&storm, TRIGGER_NS);
	if (!is_calm)
		change(&storm, true);
	run_until(&storm, ends_ns);
	if (!is_calm)
		change(&storm, false);
	run_until(&storm, ends_ns + LOOK_NS + LOOKS_NS);
	weir_limiter_close(storm.limiter);
	if (is_calm)
		printf(", \"calm\": %.4f}\n", goodput(&storm, LAST));
	else
		print_goodputs(&storm);
}

int main(int argc, char **argv)
{
	struct storm kept = {.calls = calloc(CALLS_MAX, sizeof(struct call)),
	                     .queue.calls = calloc(CALLS_MAX, sizeof(uint32_t)),
	                     .patience.calls = calloc(CALLS_MAX, sizeof(uint32_t)),
	                     .heap = calloc(CALLS_MAX, sizeof(struct event))};
	uint64_t first;

	if (argc != 5 || !kept.calls || !kept.queue.calls || !kept.patience.calls || !kept.heap)
		return 2;
	first = strtoull(argv[3], NULL, 10);
	for (uint64_t seed = first; seed < first + strtoull(argv[4], NULL, 10); seed++) {
		struct scenario scenario = scenario_of(seed);

		print_scenario(&scenario);
		for (int is_calm = 0; is_calm < 2; is_calm++)
			run(argv[1], (unsigned)atoi(argv[2]), scenario, is_calm, &kept);
	}
	free(kept.calls);
	free(kept.queue.calls);
	free(kept.patience.calls);
	free(kept.heap);
	return 0;
}
