/* rules.c: the public calls that decide by rules. */
#include <stdalign.h>
#include <stddef.h>

#include "engine/engine.h"
#include "api/wait.h"

/* What a request takes that a dozen limits apply to; more comes from the heap. */
#define CALL_ROOM 4096

/* A call, with memory for its charges. */
struct call {
	struct weir_table *table;
	struct engine_request request;
	struct arena arena;
	alignas(max_align_t) char room[CALL_ROOM];
};

static void open_call(struct call *call, const struct weir_engine *engine)
{
	call->table = engine_table(engine);
	arena_borrow(&call->arena, call->room, sizeof call->room);
}

/* `permits`, or NULL, covers nothing where this fails. */
static int open_acquire(struct call *call, const struct weir_engine *engine,
                        const struct weir_attribute *attributes, size_t n, uint64_t cost,
                        struct weir_permits *permits)
{
	int status;

	open_call(call, engine);
	status = engine_prepare_rules(engine, ALGO_ACQUIRE, attributes, n, cost, WEIR_KEY_MAX,
	                              &call->arena, &call->request);
	if (permits) {
		*permits = (struct weir_permits){0};
		if (status == WEIR_OK)
			status = engine_want_permit(&call->request);
	}
	return status;
}

static int close_acquire(struct call *call, int status, struct weir_permits *permits)
{
	if (status == WEIR_OK && permits)
		engine_permits(&call->request, permits);
	arena_free(&call->arena);
	return status;
}

int weir_engine_acquire(weir_engine *engine, const struct weir_attribute *attributes, size_t n,
                        uint64_t cost, uint64_t now_ns, struct weir_decision *decision,
                        struct weir_permits *permits)
{
	struct call call;
	int status = open_acquire(&call, engine, attributes, n, cost, permits);

	if (status == WEIR_OK) {
		engine_fetch(call.table, &call.request);
		engine_decide(call.table, &call.request, clock_moment_at(&call.table->clock, now_ns), NULL,
		              NULL, decision);
	}
	return close_acquire(&call, status, permits);
}

int weir_engine_check(weir_engine *engine, const struct weir_attribute *attributes, size_t n,
                      uint64_t cost, uint64_t now_ns, struct weir_decision *decision)
{
	return weir_engine_acquire(engine, attributes, n, cost, now_ns, decision, NULL);
}

int weir_engine_acquire_wait(weir_engine *engine, const struct weir_attribute *attributes,
                             size_t n, uint64_t cost, uint64_t deadline_ns,
                             struct weir_decision *decision, struct weir_permits *permits)
{
	struct call call;
	int status = open_acquire(&call, engine, attributes, n, cost, permits);

	if (status == WEIR_OK)
		status = wait_request(call.table, &call.request, deadline_ns, decision);
	return close_acquire(&call, status, permits);
}

int weir_engine_refund(weir_engine *engine, const struct weir_permits *permits, uint64_t now_ns,
                       struct weir_decision *decision)
{
	struct call call;
	int status;

	open_call(&call, engine);
	status = engine_prepare_permits(engine, permits, &call.arena, &call.request);
	if (status == WEIR_OK) {
		permits_refund(call.table, &call.request, clock_moment_at(&call.table->clock, now_ns),
		               decision);
		status = decision->allowed ? WEIR_OK : WEIR_ENOTFOUND;
	}
	arena_free(&call.arena);
	return status;
}

int weir_engine_report(weir_engine *engine, const struct weir_permits *permits,
                       enum weir_outcome outcome, uint64_t latency_ns, uint64_t now_ns)
{
	struct call call;
	int status;

	(void)latency_ns; /* of no limit that is here */
	if ((unsigned)outcome >= WEIR_OUTCOME_COUNT)
		return WEIR_EINVAL;
	open_call(&call, engine);
	status = engine_prepare_permits(engine, permits, &call.arena, &call.request);
	if (status == WEIR_OK &&
	    !engine_report(call.table, &call.request, clock_moment_at(&call.table->clock, now_ns)))
		status = WEIR_ENOTFOUND;
	arena_free(&call.arena);
	return status;
}
