/* wait.c: a request of the library whose thread waits. */
#include "api/wait.h"

#include "wait/sleep.h"

struct request_wait {
	struct wait wait; /* first */
	struct weir_table *table;
	struct engine_request *request;
	struct engine_charge *charge; /* that is waited for */
};

static bool decide_request(struct wait *wait, enum wait_position position, uint64_t max_wait_ns,
                           struct moment at, struct weir_decision *d)
{
	struct request_wait *waiting = (struct request_wait *)wait;

	waiting->request->position = position;
	waiting->request->waits_at = wait->hash;
	waiting->request->max_wait_ns = max_wait_ns;
	waiting->charge =
	    engine_decide_in_order(waiting->table, waiting->request, at, NULL, NULL, d);
	if (!waiting->charge)
		return true;
	wait->limit = &waiting->charge->limit->algo;
	wait->hash = waiting->charge->key.hash;
	return false;
}

static void deny_request(struct wait *wait, enum weir_reason reason, struct moment at,
                         struct weir_decision *d)
{
	struct request_wait *waiting = (struct request_wait *)wait;

	engine_deny(waiting->table, waiting->request, waiting->charge, reason, at, NULL, NULL, d);
}

int wait_request(struct weir_table *table, struct engine_request *request, uint64_t deadline_ns,
                 struct weir_decision *decision)
{
	struct request_wait waiting = {
	    .wait = {.clock = &table->clock,
	             .list = &table->waiting,
	             .decide = decide_request,
	             .deny = deny_request},
	    .table = table,
	    .request = request,
	};

	return wait_sleep(&waiting.wait, deadline_ns, decision);
}
