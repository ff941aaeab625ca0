#include "engine/away.h"

#include "engine/apply.h"
#include "wait/waitlist.h"

/* The limit that stands in for the step's limit, or NULL. */
static const struct weir_limit *local_of(const struct turn *turn, const struct step *step)
{
	struct weir_limit *local = (struct weir_limit *)step->limit->local;

	if (local && engine_is_adhoc(step->limit) &&
	    limit_adhoc_local(local, step->limit, turn->nodes, turn->table->store) != WEIR_OK)
		return NULL;
	return local;
}

enum rules_failure away_policy(const struct turn *turn, const struct step *step)
{
	const struct weir_limit *limit = step->limit;
	enum rules_failure policy = step->rule && step->rule->has_on_store_failure
	                                ? step->rule->on_store_failure
	                                : limit->on_store_failure;

	return policy == RULES_LOCAL && !local_of(turn, step) ? RULES_CLOSED : policy;
}

void away_move(const struct weir_table *table, struct step *step, const struct weir_limit *limit)
{
	struct store *store = table->store;
	uint64_t hash =
	    store_hash(store, limit->algo.identity, step->key_name.data, step->key_name.len);

	step->limit = limit;
	step->remote = engine_remote_store(table, limit) != NULL;
	step->key =
	    step->remote ? (struct store_key){.hash = hash} : store_key(store, &limit->algo, hash);
}

void away_decide(const struct step *step, bool allowed, struct weir_decision *d)
{
	const struct algo_limit *algo = algo_current(&step->limit->algo);
	struct algo_outcome outcome;

	algo_outcome_full(algo, &outcome);
	outcome.reason = WEIR_REASON_STORE_FAILURE;
	if (allowed) {
		algo_outcome_open(&outcome);
		outcome.reset_after_ns = 0;
	}
	limit_explain(step->limit, algo, &outcome, d);
}

void away_forget(const struct turn *turn, const struct step *step)
{
	const struct weir_limit *local = local_of(turn, step);
	struct step moved = *step;
	struct weir_decision ignored;

	if (!local)
		return;
	away_move(turn->table, &moved, local);
	engine_apply_slow(local,
	                  &(struct store_step){.store = turn->table->store,
	                                       .limit = &local->algo,
	                                       .key = moved.key,
	                                       .call = {.op = ALGO_RESET},
	                                       .at = turn->at},
	                  &ignored);
	waitlist_wake(&turn->table->waiting, moved.key.hash);
}

void away_return(const struct weir_table *table, struct plan *plan)
{
	for (size_t i = 0; i < plan->step_count && plan->op <= ALGO_PEEK; i++)
		if (plan->steps[i].limit->origin)
			away_move(table, &plan->steps[i], plan->steps[i].limit->origin);
}
