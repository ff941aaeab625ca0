/* wait.c: a request of the library whose thread waits. */
#include "api/wait.h"

#include "wait/sleep.h"

struct request_wait {
	struct wait wait; /* first */
	struct turn turn;
	struct plan *plan;
};

static bool decide_request(struct wait *wait, enum wait_position position, uint64_t max_wait_ns,
                           struct moment at, struct weir_decision *d)
{
	struct request_wait *waiting = (struct request_wait *)wait;

	struct plan *plan = waiting->plan;

	plan->position = position;
	plan->max_wait_ns = max_wait_ns;
	waiting->turn.at = at;
	if ((position == WAIT_NEW ? engine_run : engine_resume)(&waiting->turn, plan, d) == ENGINE_DONE)
		return true;
	wait->limit = &plan->refused->limit->algo;
	wait->hash = plan->waits_at;
	return false;
}

static void deny_request(struct wait *wait, enum weir_reason reason, struct moment at,
                         struct weir_decision *d)
{
	struct request_wait *waiting = (struct request_wait *)wait;

	waiting->turn.at = at;
	engine_deny(&waiting->turn, waiting->plan, reason, d);
}

int wait_request(struct weir_table *table, struct plan *plan, uint64_t deadline_ns,
                 struct weir_decision *decision)
{
	struct request_wait waiting = {
	    .wait = {.clock = engine_clock(table),
	             .list = &table->waiting,
	             .decide = decide_request,
	             .deny = deny_request},
	    .turn = {.table = table},
	    .plan = plan,
	};

	return wait_sleep(&waiting.wait, deadline_ns, decision);
}
