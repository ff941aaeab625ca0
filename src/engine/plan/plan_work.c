/* plan_work.c: estimates the work of a plan before it runs, so that a server can bound an
 * iteration. */
#include "engine/plan/plan.h"

/*
 * Returns how many records of a key's state the plan's operation reads. A request reads only the
 * newest records of a log. Other operations may read all records.
 */
static size_t records_read(const struct plan *plan, const struct algo_limit *limit)
{
	if (limit->record == ALGO_RECORD_LOG && algo_op_requests(plan->op))
		return u64_min(plan->cost, limit->width);
	return limit->width;
}

size_t engine_work_slow(const struct plan *plan)
{
	size_t units = 0;

	for (size_t i = 0; i < plan->step_count; i++) {
		const struct plan_step *step = &plan->steps[i];

		units +=
		    1 + (step->remote ? 0 : records_read(plan, &step->limit->algo) / ENGINE_WORK_RECORDS);
	}
	return units;
}
