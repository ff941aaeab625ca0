/*
 * wait.c: blocks the thread of a public call until its request is decided or its deadline is past.
 */
#include "api/wait.h"

#include "wait/sleep.h"

/* One call that waits. Its plan is tried again each time that the thread wakes. */
struct request_wait {
	struct wait wait; /* first */
	struct decision_context context;
	struct plan *plan;
	enum remote_failure on_failure;
	int status;
};

/* Prepares to run the plan at the time `at`. Returns false after an error, which is in `status`. */
static bool begin_attempt(struct request_wait *waiting, struct remote *remote, struct moment at,
                          struct weir_decision *d)
{
	waiting->context.at = at;
	waiting->status = remote_begin(remote, &waiting->context, engine_is_remote(waiting->plan));
	if (waiting->status != WEIR_OK)
		*d = (struct weir_decision){0};
	return waiting->status == WEIR_OK;
}

/*
 * Runs the plan on from `state`, through the steps that it has submitted to the store. Returns
 * whether it is decided now; false if it has to wait.
 */
static bool finish_attempt(struct request_wait *waiting, struct remote *remote,
                           enum engine_state state, struct weir_decision *d)
{
	state = remote_finish(remote, &waiting->context, state, waiting->plan, d);
	remote_end(remote, &waiting->context);
	if (remote->failed && waiting->on_failure == REMOTE_FAILURE_IS_ERROR)
		waiting->status = WEIR_ESTORE;
	return state == ENGINE_DONE;
}

/* The first or a further attempt. Returns false if the request has to wait, and sets for what. */
static bool decide_request(struct wait *wait, enum wait_position position, uint64_t max_wait_ns,
                           struct moment at, struct weir_decision *d)
{
	struct request_wait *waiting = (struct request_wait *)wait;
	struct plan *plan = waiting->plan;
	struct remote remote;
	enum engine_state state;

	plan->queue_position = position;
	plan->max_wait_ns = max_wait_ns;
	if (!begin_attempt(waiting, &remote, at, d))
		return true;
	state = (position <= WAIT_LATE ? engine_run : engine_resume)(&waiting->context, plan, d);
	if (finish_attempt(waiting, &remote, state, d))
		return true;
	wait->limit = &plan->refused_step->limit->algo;
	wait->key_hash = plan->awaited_key_hash;
	wait->priority = plan->refused_step->priority;
	wait->poll_interval_ns = engine_must_poll(plan) ? RULES_STORE_POLL_NS : 0;
	return false;
}

/* Ends the wait: its deadline is past, or waiting is hopeless. */
static void deny_request(struct wait *wait, enum weir_reason reason, struct moment at,
                         struct weir_decision *d)
{
	struct request_wait *waiting = (struct request_wait *)wait;
	struct remote remote;

	if (begin_attempt(waiting, &remote, at, d))
		finish_attempt(waiting, &remote, engine_deny(&waiting->context, waiting->plan, reason, d),
		               d);
}

int wait_request(struct weir_table *table, struct plan *plan, bool is_late,
                 enum remote_failure on_failure, struct weir_decision *decision)
{
	struct request_wait waiting = {
	    .wait = {.clock = engine_clock(table),
	             .list = &table->waiting,
	             .decide = decide_request,
	             .deny = deny_request,
	             .arrival = is_late ? WAIT_LATE : WAIT_NEW},
	    .context = {.table = table},
	    .plan = plan,
	    .on_failure = on_failure,
	};
	int status;

	plan->queue_position = waiting.wait.arrival;
	status = wait_sleep(&waiting.wait, plan->max_wait_ns, decision);
	if (status == WEIR_OK)
		status = waiting.status;
	return status == WEIR_OK ? plan->status : status;
}
