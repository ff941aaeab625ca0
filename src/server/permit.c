#include "server/permit.h"

#include "base/error.h"
#include "server/permit_text.h"

/* Any of its charges may be named: what was taken together is given back together. */
static bool covers(const struct weir_table *table, const struct engine_taken *taken, size_t count,
                   const struct weir_limit *limit, struct slice key)
{
	uint64_t hash = memory_hash(table, limit->algo.identity, key.data, key.len);

	for (size_t i = 0; i < count; i++)
		if (taken[i].identity == limit->algo.identity && taken[i].hash == hash)
			return true;
	return false;
}

int permit_prepare(struct worker *worker, struct work *work, struct weir_error *error)
{
	const struct request *r = &work->request;
	struct weir_table *table = worker->shared->table;
	const struct weir_engine *engine = worker->config->engine;
	struct engine_taken taken[PERMIT_TEXT_CHARGES];
	size_t count = permit_text_read(r->permit, &table->table.header->secret, taken);

	if (count == 0)
		return error_set(error, WEIR_EINVAL, "expected a permit as it was handed out here");
	if (r->kind == REQUEST_LIMIT) {
		const weir_limit *limit = weir_engine_limit(engine, r->limit.data, r->limit.len);

		if (!limit || !covers(table, taken, count, limit, r->key))
			return error_set(error, WEIR_EINVAL,
			                 "expected the limit and the key that the permit is of, found others");
	}
	if (engine_prepare_permit(engine, taken, count, r->cost, &worker->arena, &work->engine) !=
	    WEIR_OK)
		return error_set(error, WEIR_ENOMEM, "out of memory");
	return WEIR_OK;
}

int permit_ask(struct work *work, struct weir_error *error)
{
	work->engine.wants_permit = work->request.wants_permit;
	if (engine_hands_out_permit(&work->engine) && work->engine.charge_count > PERMIT_TEXT_CHARGES)
		return error_set(error, WEIR_ELONG,
		                 "expected at most %d limits on a request with a permit, found %zu",
		                 PERMIT_TEXT_CHARGES, work->engine.charge_count);
	return WEIR_OK;
}

int permit_answer(struct worker *worker, struct work *work)
{
	struct metrics_loop *metrics = metrics_loop(worker->shared->metrics, worker->index);
	struct engine_taken taken[PERMIT_TEXT_CHARGES];
	bool refunded = work->reply.decision.allowed;

	if (work->engine.op == ALGO_REFUND) {
		metrics_add(&metrics->permits[refunded ? METRICS_PERMIT_REFUNDED
		                                       : METRICS_PERMIT_NOT_HELD], 1);
		return WEIR_OK;
	}
	metrics_add(&metrics->permits[METRICS_PERMIT_HANDED_OUT], 1);
	work->reply.permit =
	    permit_text_write(taken, engine_taken(&work->engine, taken),
	                      &worker->shared->table->table.header->secret, &worker->arena);
	return work->reply.permit.data ? WEIR_OK : WEIR_ENOMEM;
}
