/* table.c: implements the public calls on a table, which holds the states of many keys. */
#include <stdlib.h>

#include "api/ask.h"
#include "api/names.h"
#include "api/remote.h"
#include "api/wait.h"
#include "base/error.h"
#include "engine/plan/apply.h"
#include "engine/plan/plan.h"
#include "store/caller.h"

int weir_table_open(const struct weir_table_options *options, weir_table **out,
                    struct weir_error *error)
{
	struct weir_table *table = calloc(1, sizeof *table);
	int status = table ? store_open(options, &table->store, error)
	                   : error_set(error, WEIR_ENOMEM, "out of memory");

	if (status != WEIR_OK) {
		free(table);
		table = NULL;
	}
	*out = table;
	return status;
}

void weir_table_close(weir_table *table)
{
	if (!table)
		return;
	if (table->caller)
		table->caller->close(table->caller);
	names_close(table->names);
	waitlist_close(table->waiting);
	store_close(table->store);
	free(table);
}

int weir_table_reserve(weir_table *table, const weir_limit *limit, struct weir_error *error)
{
	const struct algo_limit *algo = &limit->algo;

	if (engine_remote_store(table, limit))
		return WEIR_OK;
	return store_reserve(table->store, &algo, 1, error);
}

int weir_table_sync(weir_table *table)
{
	return store_sync(table->store);
}

static struct decision_context context_at(struct weir_table *table, const struct weir_limit *limit,
                                          uint64_t now_ns)
{
	return (struct decision_context){.table = table,
	                                 .at = limit_moment(engine_clock(table), now_ns, limit)};
}

/* As table_run, for a limit whose states are at the remote store. */
__attribute__((noinline, cold)) static int
table_run_remote(struct weir_table *table, const struct weir_limit *limit, struct algo_call call,
                 struct slice key, uint64_t now_ns, struct weir_decision *decision)
{
	struct plan plan;
	int status = engine_prepare_limit(table, limit, &call, key, &plan);
	struct decision_context context;

	if (status != WEIR_OK)
		return status;
	context = context_at(table, limit, now_ns);
	return remote_decide(&context, &plan, REMOTE_FAILURE_IS_ERROR, decision);
}

/*
 * Runs an operation on one key of one limit, and wakes the requests that can pass after it. Returns
 * 0 or an error.
 */
static inline int table_run(struct weir_table *table, const struct weir_limit *limit,
                            struct algo_call call, struct slice key, uint64_t now_ns,
                            struct weir_decision *decision)
{
	struct store *store = table->store;
	struct store_key stored_key;
	int status;

	if (__builtin_expect(engine_remote_store(table, limit) != NULL, 0))
		return table_run_remote(table, limit, call, key, now_ns, decision);
	status = limit_check(limit, call.op, key, call.cost, 0);
	if (status != WEIR_OK)
		return status;
	status = store_admit(store, &limit->algo,
	                     store_hash(store, limit->algo.identity, key.data, key.len), &stored_key);
	if (__builtin_expect(status != WEIR_OK, 0))
		return status;
	store_fetch_alone(store, &limit->algo, &stored_key);
	engine_apply(limit,
	             (struct store_step){store, &limit->algo, stored_key, call,
	                                 limit_moment(store_clock(store), now_ns, limit)},
	             decision);
	if (!algo_op_requests(call.op))
		waitlist_wake(&table->waiting, stored_key.hash);
	return WEIR_OK;
}

static inline struct slice key_slice(struct weir_key key)
{
	return (struct slice){key.data, key.len};
}

/*
 * Acquiring is the frequent operation: the whole decision is compiled for it alone. The other
 * operations share the code of table_run_any.
 */
__attribute__((flatten)) int weir_acquire(weir_table *table, const weir_limit *limit,
                                          struct weir_key key, uint64_t cost, uint64_t now_ns,
                                          struct weir_decision *decision)
{
	return table_run(table, limit, (struct algo_call){ALGO_ACQUIRE, cost}, key_slice(key), now_ns,
	                 decision);
}

__attribute__((noinline, flatten)) static int
table_run_any(struct weir_table *table, const struct weir_limit *limit, struct algo_call call,
              struct slice key, uint64_t now_ns, struct weir_decision *decision)
{
	return table_run(table, limit, call, key, now_ns, decision);
}

int weir_peek(weir_table *table, const weir_limit *limit, struct weir_key key, uint64_t cost,
              uint64_t now_ns, struct weir_decision *decision)
{
	return table_run_any(table, limit, (struct algo_call){ALGO_PEEK, cost}, key_slice(key), now_ns,
	                     decision);
}

int weir_refund(weir_table *table, const weir_limit *limit, struct weir_key key, uint64_t cost,
                uint64_t now_ns, struct weir_decision *decision)
{
	return table_run_any(table, limit, (struct algo_call){ALGO_REFUND, cost}, key_slice(key),
	                     now_ns, decision);
}

int weir_reset(weir_table *table, const weir_limit *limit, struct weir_key key, uint64_t now_ns,
               struct weir_decision *decision)
{
	return table_run_any(table, limit, (struct algo_call){ALGO_RESET}, key_slice(key), now_ns,
	                     decision);
}

/*
 * In permit->reserved, beside the generation: the charge is counted in memory. If a reload has
 * moved the limit to a remote store since, its states began anew there, and the charge is gone.
 */
#define CHARGED_IN_MEMORY (UINT64_C(1) << 8)

/* Makes the permit of a decided plan, which is the empty permit if the plan has charged nothing. */
static struct weir_permit permit_of_plan(const struct plan *plan, int status, uint64_t cost)
{
	const struct plan_step *step = &plan->direct_step;
	uint64_t id = status == WEIR_OK ? plan->permit.id : 0;
	struct weir_permit permit = engine_permit_of(id, step->charge_ends_ns, cost);

	if (permit.id != 0)
		permit.reserved = engine_generation(step) | (step->remote ? 0 : CHARGED_IN_MEMORY);
	return permit;
}

int weir_ask(weir_table *table, const weir_limit *limit, struct weir_key key,
             const struct weir_ask *ask, struct weir_decision *decision)
{
	struct weir_permit *permit = ask->permit;
	struct algo_call call;
	struct plan plan;
	int status = ask_to_call(ask, ask->permits, &call);

	if (status == WEIR_OK)
		status = engine_prepare_limit(table, limit, &call, key_slice(key), &plan);
	if (status == WEIR_OK && permit)
		status = engine_want_permit(&plan);
	if (status != WEIR_OK)
		return status;
	if (call.max_wait_ns != 0) {
		status = wait_request(table, &plan, call.is_late, REMOTE_FAILURE_IS_ERROR, decision);
	} else {
		struct decision_context context = context_at(table, limit, ask_time(ask->now_ns));

		/* At the remote store, or if the limit has none, in memory. */
		status = remote_decide(&context, &plan, REMOTE_FAILURE_IS_ERROR, decision);
	}
	if (permit)
		*permit = permit_of_plan(&plan, status, call.cost);
	return status;
}

/*
 * Prepares a refund of the permit's charge, or of nothing if `permit` is empty (its id is 0). A
 * permit without an end has no charge. For a report, remote_report makes another operation of it.
 */
static int prepare_permit_call(struct weir_table *table, const struct weir_limit *limit,
                               struct slice key, const struct weir_permit *permit,
                               struct plan *plan)
{
	struct algo_call call = {.op = ALGO_REFUND};
	int status;

	if (permit->id != 0)
		call = (struct algo_call){ALGO_REFUND_LAST, permit->cost};
	status = engine_prepare_limit(table, limit, &call, key, plan);
	if (status == WEIR_OK) {
		struct plan_step *step = &plan->direct_step;
		bool charge_is_gone = step->remote && permit->reserved & CHARGED_IN_MEMORY;

		plan->permit = (struct permit){permit->id, step->key.hash};
		step->charge_ends_ns = permit->until_ns;
		step->generation = permit->reserved & 15; /* the generation stands in the lowest bits */
		step->charged = permit->until_ns != 0 && !charge_is_gone;
	}
	return status;
}

int weir_refund_permit(weir_table *table, const weir_limit *limit, struct weir_key key,
                       const struct weir_permit *permit, uint64_t now_ns,
                       struct weir_decision *decision)
{
	struct plan plan;
	int status = prepare_permit_call(table, limit, key_slice(key), permit, &plan);
	struct decision_context context;

	if (status != WEIR_OK)
		return status;
	context = context_at(table, limit, now_ns);
	status = remote_decide(&context, &plan, REMOTE_FAILURE_IS_ERROR, decision);
	if (status != WEIR_OK)
		return status;
	/* A refund is allowed if it has found the permit; one of nothing is not refused. */
	decision->allowed &= permit->id != 0;
	return decision->allowed ? WEIR_OK : WEIR_ENOTFOUND;
}

int weir_report(weir_table *table, const weir_limit *limit, struct weir_key key,
                const struct weir_permit *permit, const struct weir_report *report)
{
	struct plan plan;
	int status = ask_check_report(report);
	struct weir_decision decision;
	struct decision_context context;

	if (status == WEIR_OK)
		status = prepare_permit_call(table, limit, key_slice(key), permit, &plan);
	if (status != WEIR_OK)
		return status;
	plan.outcome = report->outcome & 3; /* checked above: the mask is for the compiler */
	plan.latency_ns = report->latency_ns;
	context = context_at(table, limit, ask_time(report->now_ns));
	status = remote_report(&context, &plan, &decision);
	if (status != WEIR_OK)
		return status;
	return permit->id != 0 && decision.allowed ? WEIR_OK : WEIR_ENOTFOUND;
}

void weir_table_stats(const weir_table *table, uint64_t now_ns, struct weir_table_stats *stats)
{
	store_stats(table->store, now_ns == WEIR_NOW ? clock_now(engine_clock(table)) : now_ns, stats);
}

int weir_force(weir_table *table, const weir_limit *limit, struct weir_key key,
               enum weir_force force, uint64_t until_ns, uint64_t now_ns)
{
	struct decision_context context = context_at(table, limit, now_ns);

	return engine_force(&context, limit, key_slice(key), force, until_ns);
}
