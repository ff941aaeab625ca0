/*
 * remote.c: runs the plans of blocking library calls at the remote store (Redis) of their table. A
 * call borrows a connection (a store client) for that, and gives it back at its end.
 */
#include "api/remote.h"

#include "api/names.h"
#include "store/caller.h"

/* Called when the store has completed the steps of a plan. */
static void count_completed(void *context, struct plan *plan)
{
	struct remote *remote = context;

	(void)plan;
	remote->pending--;
}

/* Called when the store has failed a step. */
static void record_failure(void *context, const struct plan_step *step, enum rules_failure policy)
{
	struct remote *remote = context;

	(void)step;
	(void)policy;
	remote->failed = true;
}

int remote_begin(struct remote *remote, struct decision_context *context, bool is_needed)
{
	struct store_caller *caller = context->table->caller;

	*remote = (struct remote){0};
	if (__builtin_expect(!is_needed, 1))
		return WEIR_OK;
	remote->loan = caller->borrow(caller);
	if (!remote->loan)
		return WEIR_ENOMEM;
	context->store_clients = &remote->loan->client;
	context->plan_ready = count_completed;
	context->store_failed = record_failure;
	context->owner = remote;
	return WEIR_OK;
}

void remote_wait(struct remote *remote, const struct decision_context *context)
{
	context->table->caller->run(remote->loan, &remote->pending);
}

enum engine_state remote_finish(struct remote *remote, const struct decision_context *context,
                                enum engine_state state, struct plan *plan,
                                struct weir_decision *decision)
{
	while (__builtin_expect(state == ENGINE_SUBMITTED, 0)) {
		remote->pending++;
		remote_wait(remote, context);
		state = engine_resume(context, plan, decision);
	}
	return state;
}

void remote_end(struct remote *remote, const struct decision_context *context)
{
	struct store_caller *caller = context->table->caller;

	if (__builtin_expect(remote->loan != NULL, 0))
		caller->give_back(caller, remote->loan);
}

/* Runs a plan until it is done, or has submitted steps: engine_decide or engine_report. */
typedef enum engine_state plan_start(const struct decision_context *context, struct plan *plan,
                                     struct weir_decision *decision);

static int run_plan(plan_start *start, struct decision_context *context, struct plan *plan,
                    enum remote_failure on_failure, struct weir_decision *decision)
{
	struct remote remote;
	int status = remote_begin(&remote, context, engine_is_remote(plan));

	if (status != WEIR_OK)
		return status;
	remote_finish(&remote, context, start(context, plan, decision), plan, decision);
	remote_end(&remote, context);
	if (plan->status != WEIR_OK)
		return plan->status;
	return remote.failed && on_failure == REMOTE_FAILURE_IS_ERROR ? WEIR_ESTORE : WEIR_OK;
}

int remote_decide(struct decision_context *context, struct plan *plan,
                  enum remote_failure on_failure, struct weir_decision *decision)
{
	return run_plan(engine_decide, context, plan, on_failure, decision);
}

int remote_report(struct decision_context *context, struct plan *plan,
                  struct weir_decision *decision)
{
	return run_plan(engine_report, context, plan, REMOTE_FAILURE_BY_POLICY, decision);
}

int weir_private_table_call(struct weir_table *table, struct store_caller *caller, uint64_t nodes)
{
	table->names = names_open();
	if (!table->names)
		return WEIR_ENOMEM;
	table->remote = caller->store;
	table->caller = caller;
	table->nodes = nodes;
	return WEIR_OK;
}

struct store_caller *weir_private_table_caller(const struct weir_table *table)
{
	return table->caller;
}
