/* apply.c: one step on any key, where it can't be done at once. */
#include "engine/engine.h"

__attribute__((flatten)) uint64_t engine_apply_slow(struct weir_table *table,
                                                    const struct weir_limit *limit,
                                                    struct memory_key key, struct algo_call call,
                                                    struct moment at,
                                                    struct weir_decision *decision)
{
	struct algo_time time = algo_time_at(&limit->algo, at);
	const struct algo_limit *algo = algo_current(&limit->algo);
	struct algo_outcome outcome;
	uint64_t until_ns;

	if (algo->algorithm->draws) {
		limit_draw(limit, &call, decision);
		return 0;
	}
	until_ns = memory_apply(table, &algo, &key, &call, &time, &outcome);
	limit_explain(limit, algo, &outcome, decision);
	return until_ns;
}

__attribute__((noinline)) static uint64_t try_open(const struct weir_limit *limit,
                                                   const struct memory_key *key, uint64_t cost,
                                                   uint64_t now_ns, struct weir_decision *decision)
{
	struct algo_outcome outcome;
	uint64_t until_ns;

	if (!wide_try_open(&limit->algo, key, cost, now_ns, &outcome, &until_ns))
		return 0;
	limit_explain(limit, &limit->algo, &outcome, decision);
	return until_ns;
}

/* A call of its own for windows: a log's outcome has no address then (docs/design/speed.md). */
uint64_t engine_try_row(const struct weir_limit *limit, struct memory_key key, uint64_t cost,
                        uint64_t now_ns, struct weir_decision *decision)
{
	struct algo_outcome outcome;
	uint64_t until_ns;

	if (limit->algo.is_summed)
		return try_open(limit, &key, cost, now_ns, decision);
	if (!wide_try_log(&limit->algo, &key, cost, now_ns, &outcome, &until_ns))
		return 0;
	limit_explain(limit, &limit->algo, &outcome, decision);
	return until_ns;
}
