/* rules.c: the public calls that decide by rules. */
#include <stdalign.h>
#include <stddef.h>

#include "api/ask.h"
#include "api/names.h"
#include "api/remote.h"
#include "api/wait.h"
#include "base/os/os.h"
#include "engine/engine.h"

/* Enough for a request that a dozen limits apply to; more comes from the heap. */
#define CALL_ROOM 4096

/* A call, with memory for its steps. */
struct call {
	struct turn turn;
	struct plan plan;
	struct arena arena;
	alignas(max_align_t) char room[CALL_ROOM];
};

static void open_call(struct call *call, const struct weir_engine *engine)
{
	call->turn = (struct turn){.table = engine_table(engine)};
	arena_borrow(&call->arena, call->room, sizeof call->room);
}

static void set_time(struct call *call, uint64_t now_ns)
{
	call->turn.at = clock_moment_at(engine_clock(call->turn.table), now_ns);
}

/* `permits`, or NULL, covers nothing where this fails. */
static int open_acquire(struct call *call, const struct weir_engine *engine,
                        const struct weir_attribute *attributes, size_t n,
                        const struct algo_call *asked, struct weir_permits *permits)
{
	int status;

	open_call(call, engine);
	status = engine_prepare_rules(engine, asked,
	                              &(struct engine_attributes){attributes, n, WEIR_KEY_MAX},
	                              &call->arena, &call->plan);
	if (permits) {
		*permits = (struct weir_permits){0};
		if (status == WEIR_OK)
			status = engine_want_permit(&call->plan);
	}
	return status;
}

static void tell_permits(const struct call *call, struct weir_permits *permits)
{
	struct names *names = call->turn.table->names;
	struct engine_names of = {0};

	engine_permits(&call->plan, permits, names ? &of : NULL);
	if (names && permits->id != 0)
		names_keep(names, permits, &of, os_wall_ns());
}

static int decide_now(struct call *call, uint64_t now_ns, struct weir_decision *decision)
{
	engine_fetch(call->turn.table, &call->plan);
	set_time(call, now_ns);
	return remote_decide(&call->turn, &call->plan, false, decision);
}

static int ask_rules(const struct weir_engine *engine, const struct weir_attribute *attributes,
                     size_t n, const struct ask *ask, struct weir_decision *decision,
                     struct weir_permits *permits)
{
	struct algo_call asked = ask_call(ask);
	struct call call;
	int status = open_acquire(&call, engine, attributes, n, &asked, permits);

	if (status == WEIR_OK)
		status = ask->waits ? wait_request(call.turn.table, &call.plan, false, decision)
		                    : decide_now(&call, ask->time_ns, decision);
	if (status == WEIR_OK && permits)
		tell_permits(&call, permits);
	arena_free(&call.arena);
	return status;
}

int weir_engine_ask(weir_engine *engine, const struct weir_attribute *attributes, size_t n,
                    const struct weir_ask *ask, struct weir_decision *decision,
                    struct weir_permits *permits)
{
	struct ask asked;
	int status = ask_read(ask, &asked);

	if (permits)
		*permits = (struct weir_permits){0};
	if (status != WEIR_OK)
		return status;
	return ask_rules(engine, attributes, n, &asked, decision, permits);
}

int weir_engine_acquire(weir_engine *engine, const struct weir_attribute *attributes, size_t n,
                        uint64_t cost, uint64_t now_ns, struct weir_decision *decision,
                        struct weir_permits *permits)
{
	const struct ask ask = {{ALGO_ACQUIRE, cost}, false, now_ns};

	return ask_rules(engine, attributes, n, &ask, decision, permits);
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
	const struct ask ask = {{ALGO_ACQUIRE, cost}, true, deadline_ns};

	return ask_rules(engine, attributes, n, &ask, decision, permits);
}

static int open_permits(struct call *call, const struct weir_engine *engine,
                        const struct weir_permits *permits)
{
	struct names *names = engine_table(engine)->names;
	struct engine_names of;
	int status = WEIR_OK;

	open_call(call, engine);
	if (names)
		status = names_find(names, permits->id, &call->arena, &of);
	if (status != WEIR_OK)
		return status;
	return engine_prepare_permits(engine, permits, names ? &of : NULL, &call->arena, &call->plan);
}

int weir_engine_refund(weir_engine *engine, const struct weir_permits *permits, uint64_t now_ns,
                       struct weir_decision *decision)
{
	struct call call;
	int status;

	status = open_permits(&call, engine, permits);
	if (status == WEIR_OK) {
		set_time(&call, now_ns);
		status = remote_decide(&call.turn, &call.plan, false, decision);
		decision->allowed &= permits->id != 0;
		if (status == WEIR_OK && !decision->allowed)
			status = WEIR_ENOTFOUND;
		if (status == WEIR_OK && call.turn.table->names && permits->cost > 0)
			names_drop(call.turn.table->names, permits->id);
	}
	arena_free(&call.arena);
	return status;
}

int weir_engine_report(weir_engine *engine, const struct weir_permits *permits,
                       enum weir_outcome outcome, uint64_t latency_ns, uint64_t now_ns)
{
	struct weir_decision decision;
	struct call call;
	int status;

	if ((unsigned)outcome >= WEIR_OUTCOME_COUNT)
		return WEIR_EINVAL;
	status = open_permits(&call, engine, permits);
	if (status == WEIR_OK) {
		set_time(&call, now_ns);
		call.plan.outcome = outcome & 3;
		call.plan.latency_ns = latency_ns;
		status = remote_report(&call.turn, &call.plan, &decision);
		if (status == WEIR_OK && !decision.allowed)
			status = WEIR_ENOTFOUND;
	}
	arena_free(&call.arena);
	return status;
}
