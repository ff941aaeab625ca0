/*
 * rules.c: implements the public calls on an engine: the rules that match the attributes of a
 * request say which limits and keys it charges.
 */
#include <stdalign.h>
#include <stddef.h>

#include "api/ask.h"
#include "api/names.h"
#include "api/remote.h"
#include "api/wait.h"
#include "base/os/os.h"
#include "engine/engine.h"

/* Enough for a request to which a dozen limits apply. The arena takes more from the heap. */
#define CALL_MEMORY_BYTES 4096

/* One public call: its plan, and memory for the plan's steps. */
struct call {
	struct decision_context context;
	struct plan plan;
	struct arena arena;
	alignas(max_align_t) char memory[CALL_MEMORY_BYTES];
};

static void begin_call(struct call *call, const struct weir_engine *engine)
{
	call->context = (struct decision_context){.table = engine_table(engine)};
	arena_borrow(&call->arena, call->memory, sizeof call->memory);
}

static void set_call_time(struct call *call, uint64_t now_ns)
{
	call->context.at = clock_moment_at(engine_clock(call->context.table), now_ns);
}

/*
 * Fills the caller's `permits`, and stores the key names that a refund at the remote store needs.
 */
static void return_permits(const struct call *call, struct weir_permits *permits)
{
	struct names *names = call->context.table->names;
	struct engine_names key_names = {0};

	engine_fill_permits(&call->plan, permits, names ? &key_names : NULL);
	if (names && permits->id != 0)
		names_store(names, permits, &key_names, os_wall_ns());
}

static int decide_now(struct call *call, uint64_t now_ns, struct weir_decision *decision)
{
	engine_fetch(call->context.table, &call->plan);
	set_call_time(call, now_ns);
	return remote_decide(&call->context, &call->plan, REMOTE_FAILURE_BY_POLICY, decision);
}

/* Whether no attribute has a length but no address of its value. */
static bool has_valid_attributes(const struct engine_attributes *attributes)
{
	for (size_t i = 0; i < attributes->count && i < WEIR_ATTRIBUTES_MAX; i++)
		if (!attributes->items[i].value && attributes->items[i].value_len > 0)
			return false;
	return true;
}

/*
 * Acquires; the thread waits if the request has a deadline. `permits` is NULL if none are wanted.
 */
static int decide_by_rules(const struct weir_engine *engine,
                           const struct engine_attributes *attributes,
                           const struct algo_call *request, uint64_t now_ns,
                           struct weir_permits *permits, struct weir_decision *decision)
{
	struct call call;
	int status;

	if (!has_valid_attributes(attributes))
		return WEIR_EINVAL;
	begin_call(&call, engine);
	status = engine_prepare_rules(engine, request, attributes, &call.arena, &call.plan);
	if (status == WEIR_OK && permits)
		status = engine_want_permit(&call.plan);
	if (status == WEIR_OK)
		status = request->max_wait_ns != 0
		             ? wait_request(call.context.table, &call.plan, request->is_late,
		                            REMOTE_FAILURE_BY_POLICY, decision)
		             : decide_now(&call, now_ns, decision);
	if (status == WEIR_OK && permits)
		return_permits(&call, permits);
	arena_free(&call.arena);
	return status;
}

int weir_engine_acquire(weir_engine *engine, const struct weir_attribute *attributes, size_t n,
                        uint64_t cost, uint64_t now_ns, struct weir_decision *decision)
{
	return decide_by_rules(engine, &(struct engine_attributes){attributes, n, WEIR_KEY_MAX},
	                       &(struct algo_call){ALGO_ACQUIRE, cost}, now_ns, NULL, decision);
}

int weir_engine_ask(weir_engine *engine, const struct weir_attribute *attributes, size_t n,
                    const struct weir_ask *ask, struct weir_decision *decision)
{
	struct algo_call request;
	int status = ask_to_call(ask, ask->permit, &request);

	if (ask->permits)
		*ask->permits = (struct weir_permits){0};
	if (status != WEIR_OK)
		return status;
	return decide_by_rules(engine, &(struct engine_attributes){attributes, n, WEIR_KEY_MAX},
	                       &request, ask_time(ask->now_ns), ask->permits, decision);
}

/*
 * Prepares a refund or report of the charges of `permits`. Returns 0 or an error; free call->arena.
 */
static int prepare_refund_call(struct call *call, const struct weir_engine *engine,
                               const struct weir_permits *permits)
{
	struct names *names = engine_table(engine)->names;
	struct engine_names key_names;
	int status = WEIR_OK;

	begin_call(call, engine);
	if (names)
		status = names_copy(names, permits->id, &call->arena, &key_names);
	if (status != WEIR_OK)
		return status;
	return engine_prepare_permits(engine, permits, names ? &key_names : NULL, &call->arena,
	                              &call->plan);
}

int weir_engine_refund(weir_engine *engine, const struct weir_permits *permits, uint64_t now_ns,
                       struct weir_decision *decision)
{
	struct call call;
	int status;

	status = prepare_refund_call(&call, engine, permits);
	if (status == WEIR_OK) {
		set_call_time(&call, now_ns);
		status = remote_decide(&call.context, &call.plan, REMOTE_FAILURE_BY_POLICY, decision);
		if (status == WEIR_OK) {
			decision->allowed &= permits->id != 0; /* without charges the plan refuses nothing */
			status = decision->allowed ? WEIR_OK : WEIR_ENOTFOUND;
		}
		/* A refund of cost 0 only asks: a later one still needs the names. */
		if (status == WEIR_OK && call.context.table->names && permits->cost > 0)
			names_remove(call.context.table->names, permits->id);
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
	status = prepare_refund_call(&call, engine, permits);
	if (status == WEIR_OK) {
		set_call_time(&call, ask_time(report->now_ns));
		call.plan.outcome = report->outcome & 3; /* checked above: the mask is for the compiler */
		call.plan.latency_ns = report->latency_ns;
		status = remote_report(&call.context, &call.plan, &decision);
		if (status == WEIR_OK && !decision.allowed)
			status = WEIR_ENOTFOUND;
	}
	arena_free(&call.arena);
	return status;
}
