/* settle.c: permits of this server that another server of the same store has taken in. */
#include "engine/engine.h"

void engine_settle(const struct turn *turn, struct plan *plan, bool reports)
{
	struct weir_decision ignored;

	plan->settles = true;
	plan->claims = plan->remote = false;
	for (size_t i = 0; i < plan->step_count; i++)
		plan->steps[i].taken &= !plan->steps[i].remote;
	if (reports)
		engine_report(turn, plan, &ignored);
	else
		engine_run(turn, plan, &ignored);
}
