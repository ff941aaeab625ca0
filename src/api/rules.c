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
	struct decision_context context;
	struct plan plan;
	struct arena arena;
	alignas(max_align_t) char room[CALL_ROOM];
};

static void open_call(struct call *call, const struct weir_engine *engine)
{
	call->context = (struct decision_context){.table = engine_table(engine)};
	arena_borrow(&call->arena, call->room, sizeof call->room);
}

static void set_time(struct call *call, uint64_t now_ns)
{
	call->context.at = clock_moment_at(engine_clock(call->context.table), now_ns);
}

static void tell_permits(const struct call *call, struct weir_permits *permits)
{
	struct names *names = call->context.table->names;
	struct engine_names of = {0};

	engine_permits(&call->plan, permits, names ? &of : NULL);
	if (names && permits->id != 0)
		names_keep(names, permits, &of, os_wall_ns());
}

static int decide_now(struct call *call, uint64_t now_ns, struct weir_decision *decision)
{
	engine_fetch(call->context.table, &call->plan);
	set_time(call, now_ns);
	return remote_decide(&call->context, &call->plan, false, decision);
}

static bool have_addresses(const struct engine_attributes *attributes)
{
	for (size_t i = 0; i < attributes->count && i < WEIR_ATTRIBUTES_MAX; i++)
		if (!attributes->items[i].value && attributes->items[i].value_len > 0)
			return false;
	return true;
}

static int ask_rules(const struct weir_engine *engine, const struct engine_attributes *attributes,
                     const struct algo_call *asked, uint64_t now_ns, struct weir_permits *permits,
                     struct weir_decision *decision)
{
	struct call call;
	int status;

	if (!have_addresses(attributes))
		return WEIR_EINVAL;
	open_call(&call, engine);
	status = engine_prepare_rules(engine, asked, attributes, &call.arena, &call.plan);
	if (status == WEIR_OK && permits)
		status = engine_want_permit(&call.plan);
	if (status == WEIR_OK)
		status = asked->max_wait_ns != 0
		             ? wait_request(call.context.table, &call.plan, false, decision)
		             : decide_now(&call, now_ns, decision);
	if (status == WEIR_OK && permits)
		tell_permits(&call, permits);
	arena_free(&call.arena);
	return status;
}

int weir_engine_acquire(weir_engine *engine, const struct weir_attribute *attributes, size_t n,
                        uint64_t cost, uint64_t now_ns, struct weir_decision *decision)
{
	return ask_rules(engine, &(struct engine_attributes){attributes, n, WEIR_KEY_MAX},
	                 &(struct algo_call){ALGO_ACQUIRE, cost}, now_ns, NULL, decision);
}

int weir_engine_ask(weir_engine *engine, const struct weir_attribute *attributes, size_t n,
                    const struct weir_ask *ask, struct weir_decision *decision)
{
	struct algo_call asked;
	int status = ask_read(ask, ask->permit, &asked);

	if (ask->permits)
		*ask->permits = (struct weir_permits){0};
	if (status != WEIR_OK)
		return status;
	return ask_rules(engine, &(struct engine_attributes){attributes, n, WEIR_KEY_MAX}, &asked,
	                 ask_time(ask->now_ns), ask->permits, decision);
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
		status = remote_decide(&call.context, &call.plan, false, decision);
		decision->allowed &= permits->id != 0;
		if (status == WEIR_OK && !decision->allowed)
			status = WEIR_ENOTFOUND;
		if (status == WEIR_OK && call.context.table->names && permits->cost > 0)
			names_drop(call.context.table->names, permits->id);
	}
	arena_free(&call.arena);
	return status;
}

int weir_engine_report(weir_engine *engine, const struct weir_permits *permits,
                       const struct weir_report *report)
{
	struct weir_decision decision;
	struct call call;
	int status = ask_check_report(report);

	if (status != WEIR_OK)
		return status;
	status = open_permits(&call, engine, permits);
	if (status == WEIR_OK) {
		set_time(&call, ask_time(report->now_ns));
		call.plan.outcome = report->outcome & 3;
		call.plan.latency_ns = report->latency_ns;
		status = remote_report(&call.context, &call.plan, &decision);
		if (status == WEIR_OK && !decision.allowed)
			status = WEIR_ENOTFOUND;
	}
	arena_free(&call.arena);
	return status;
}
