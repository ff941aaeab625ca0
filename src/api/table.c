/* table.c: the public calls on tables. */
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

static struct turn turn_of(struct weir_table *table, const struct weir_limit *limit,
                           uint64_t now_ns)
{
	return (struct turn){.table = table, .at = limit_moment(engine_clock(table), now_ns, limit)};
}

__attribute__((noinline, cold)) static int
table_call_remote(struct weir_table *table, const struct weir_limit *limit, struct algo_call call,
                  struct slice key, uint64_t now_ns, struct weir_decision *decision)
{
	struct plan plan;
	int status = engine_prepare_limit(table, limit, &call, key, &plan);
	struct turn turn;

	if (status != WEIR_OK)
		return status;
	turn = turn_of(table, limit, now_ns);
	return remote_decide(&turn, &plan, true, decision);
}

static inline int table_call(struct weir_table *table, const struct weir_limit *limit,
                             struct algo_call call, struct slice key, uint64_t now_ns,
                             struct weir_decision *decision)
{
	struct store *store = table->store;
	struct store_key wanted;
	int status;

	if (__builtin_expect(engine_remote_store(table, limit) != NULL, 0))
		return table_call_remote(table, limit, call, key, now_ns, decision);
	status = limit_check(limit, call.op, key.len, call.cost, 0);
	if (status != WEIR_OK)
		return status;
	status = store_admit(store, &limit->algo,
	                     store_hash(store, limit->algo.identity, key.data, key.len), &wanted);
	if (__builtin_expect(status != WEIR_OK, 0))
		return status;
	store_fetch_alone(store, &limit->algo, &wanted);
	engine_apply(limit,
	             (struct store_step){store, &limit->algo, wanted, call,
	                                 limit_moment(store_clock(store), now_ns, limit)},
	             decision);
	if (call.op >= ALGO_REFUND)
		waitlist_wake(&table->waiting, wanted.hash);
	return WEIR_OK;
}

/* All of a decision is inlined and its kind known; the other calls share one that asks. */
__attribute__((flatten)) int weir_acquire(weir_table *table, const weir_limit *limit,
                                          const void *key, size_t key_len, uint64_t cost,
                                          uint64_t now_ns, struct weir_decision *decision)
{
	return table_call(table, limit, (struct algo_call){ALGO_ACQUIRE, cost},
	                  (struct slice){key, key_len}, now_ns, decision);
}

__attribute__((noinline, flatten)) static int
table_other(struct weir_table *table, const struct weir_limit *limit, struct algo_call call,
            struct slice key, uint64_t now_ns, struct weir_decision *decision)
{
	return table_call(table, limit, call, key, now_ns, decision);
}

int weir_peek(weir_table *table, const weir_limit *limit, const void *key, size_t key_len,
              uint64_t cost, uint64_t now_ns, struct weir_decision *decision)
{
	return table_other(table, limit, (struct algo_call){ALGO_PEEK, cost},
	                   (struct slice){key, key_len}, now_ns, decision);
}

int weir_refund(weir_table *table, const weir_limit *limit, const void *key, size_t key_len,
                uint64_t cost, uint64_t now_ns, struct weir_decision *decision)
{
	return table_other(table, limit, (struct algo_call){ALGO_REFUND, cost},
	                   (struct slice){key, key_len}, now_ns, decision);
}

int weir_reset(weir_table *table, const weir_limit *limit, const void *key, size_t key_len,
               uint64_t now_ns, struct weir_decision *decision)
{
	return table_other(table, limit, (struct algo_call){ALGO_RESET}, (struct slice){key, key_len},
	                   now_ns, decision);
}

/*
 * Beside the generation in `reserved` of a permit: memory counts the charge. A limit that a reload has moved to
 * a remote store begins anew there, and so has nothing of the permit.
 */
#define IN_MEMORY (UINT64_C(1) << 8)

/* `permit` may be NULL. */
static int ask_table(struct weir_table *table, const struct weir_limit *limit, struct slice key,
                     const struct ask *ask, struct weir_decision *decision,
                     struct weir_permit *permit)
{
	struct algo_call call = ask_call(ask);
	struct turn turn;
	struct plan plan;
	int status = engine_prepare_limit(table, limit, &call, key, &plan);

	if (status == WEIR_OK && permit)
		status = engine_want_permit(&plan);
	if (status != WEIR_OK)
		return status;
	if (ask->waits) {
		status = wait_request(table, &plan, true, decision);
	} else {
		turn = turn_of(table, limit, ask->time_ns);
		status = remote_decide(&turn, &plan, true, decision);
	}
	if (permit)
		*permit = engine_permit_of(status == WEIR_OK ? plan.permit.id : 0, plan.only.until_ns,
		                           ask->call.cost);
	if (permit && permit->id != 0)
		permit->reserved = engine_generation(&plan.only) | (plan.only.remote ? 0 : IN_MEMORY);
	return status;
}

int weir_ask(weir_table *table, const weir_limit *limit, const void *key, size_t key_len,
             const struct weir_ask *ask, struct weir_decision *decision, struct weir_permit *permit)
{
	struct ask asked;
	int status = ask_read(ask, &asked);

	if (status != WEIR_OK)
		return status;
	return ask_table(table, limit, (struct slice){key, key_len}, &asked, decision, permit);
}

int weir_acquire_permit(weir_table *table, const weir_limit *limit, const void *key,
                        size_t key_len, uint64_t cost, uint64_t now_ns,
                        struct weir_decision *decision, struct weir_permit *permit)
{
	const struct ask ask = {{ALGO_ACQUIRE, cost}, false, now_ns};

	return ask_table(table, limit, (struct slice){key, key_len}, &ask, decision, permit);
}

int weir_acquire_wait(weir_table *table, const weir_limit *limit, const void *key, size_t key_len,
                      uint64_t cost, uint64_t deadline_ns, struct weir_decision *decision,
                      struct weir_permit *permit)
{
	const struct ask ask = {{ALGO_ACQUIRE, cost}, true, deadline_ns};

	return ask_table(table, limit, (struct slice){key, key_len}, &ask, decision, permit);
}

/* A refund of the permit; of nothing where there is none. */
static int prepare_permit(struct weir_table *table, const struct weir_limit *limit,
                          struct slice key, const struct weir_permit *permit, struct plan *plan)
{
	int status = engine_prepare_limit(
	    table, limit, &(struct algo_call){ALGO_REFUND, permit->id != 0 ? permit->cost : 0}, key, plan);

	if (status == WEIR_OK) {
		plan->permit = (struct permit){permit->id, plan->only.key.hash};
		plan->part = true;
		plan->only.until_ns = permit->until_ns;
		plan->only.generation = (uint8_t)permit->reserved;
		plan->only.taken =
		    permit->until_ns != 0 && !(plan->only.remote && permit->reserved & IN_MEMORY);
	}
	return status;
}

int weir_refund_permit(weir_table *table, const weir_limit *limit, const void *key, size_t key_len,
                       const struct weir_permit *permit, uint64_t now_ns,
                       struct weir_decision *decision)
{
	struct plan plan;
	int status = prepare_permit(table, limit, (struct slice){key, key_len}, permit, &plan);
	struct turn turn;

	if (status != WEIR_OK)
		return status;
	turn = turn_of(table, limit, now_ns);
	status = remote_decide(&turn, &plan, true, decision);
	decision->allowed &= permit->id != 0;
	if (status != WEIR_OK)
		return status;
	return decision->allowed ? WEIR_OK : WEIR_ENOTFOUND;
}

int weir_report(weir_table *table, const weir_limit *limit, const void *key, size_t key_len,
                const struct weir_permit *permit, enum weir_outcome outcome, uint64_t latency_ns,
                uint64_t now_ns)
{
	struct plan plan;
	int status = prepare_permit(table, limit, (struct slice){key, key_len}, permit, &plan);
	struct weir_decision decision;
	struct turn turn;

	if ((unsigned)outcome >= WEIR_OUTCOME_COUNT)
		return WEIR_EINVAL;
	if (status != WEIR_OK)
		return status;
	plan.outcome = outcome & 3;
	plan.latency_ns = latency_ns;
	turn = turn_of(table, limit, now_ns);
	status = remote_report(&turn, &plan, &decision);
	if (status != WEIR_OK)
		return status;
	return permit->id != 0 && decision.allowed ? WEIR_OK : WEIR_ENOTFOUND;
}

void weir_table_stats(const weir_table *table, uint64_t now_ns, struct weir_table_stats *stats)
{
	store_stats(table->store, now_ns == WEIR_NOW ? clock_now(engine_clock(table)) : now_ns, stats);
}

int weir_force(weir_table *table, const weir_limit *limit, const void *key, size_t key_len,
               enum weir_force force, uint64_t until_ns, uint64_t now_ns)
{
	struct turn turn = turn_of(table, limit, now_ns);

	return engine_force(&turn, limit, (struct slice){key, key_len}, force, until_ns);
}
