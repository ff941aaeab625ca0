#include "engine/apply.h"
#include "engine/plan.h"
#include "wait/waitlist.h"

__attribute__((flatten)) uint64_t engine_apply_slow(const struct weir_limit *limit,
                                                    const struct store_step *step,
                                                    struct weir_decision *decision)
{
	const struct algo_limit *by = algo_current(step->limit);
	struct algo_outcome outcome;
	uint64_t until_ns;

	if (by->algorithm->draws) {
		limit_draw(limit, &step->call, decision);
		return 0;
	}
	until_ns = store_run(step, &by, &outcome);
	limit_explain(limit, by, &outcome, decision);
	return until_ns;
}

__attribute__((noinline)) static uint64_t try_open(const struct weir_limit *limit,
                                                   const struct store_key *key, uint64_t cost,
                                                   uint64_t now_ns, struct weir_decision *decision)
{
	struct algo_outcome outcome;
	uint64_t until_ns;

	if (!store_try_open(&limit->algo, key, cost, now_ns, &outcome, &until_ns))
		return 0;
	limit_explain(limit, &limit->algo, &outcome, decision);
	return until_ns;
}

/* A call of its own for windows: a log's outcome has no address then (docs/design/speed.md). */
uint64_t engine_try_row(const struct weir_limit *limit, struct store_key key, uint64_t cost,
                        uint64_t now_ns, struct weir_decision *decision)
{
	struct algo_outcome outcome;
	uint64_t until_ns;

	if (limit->algo.head_has_sum)
		return try_open(limit, &key, cost, now_ns, decision);
	if (!store_try_log(&limit->algo, &key, cost, now_ns, &outcome, &until_ns))
		return 0;
	limit_explain(limit, &limit->algo, &outcome, decision);
	return until_ns;
}

bool engine_forget(const struct turn *turn, const struct plan *plan)
{
	const struct step *step = &plan->only;
	bool had = store_forget(&(struct store_step){.store = turn->table->store,
	                                             .limit = &step->limit->algo,
	                                             .key = step->key,
	                                             .call = {.op = ALGO_RESET},
	                                             .at = turn->at});

	waitlist_wake(&turn->table->waiting, step->key.hash);
	return had;
}
