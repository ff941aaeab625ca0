/*
 * remote.c: runs plans of public calls at a remote store, with a store client that the store lends.
 */
#include "api/remote.h"

#include "api/names.h"
#include "store/caller.h"

static void ready(void *context, struct plan *plan)
{
	struct remote *remote = context;

	(void)plan;
	remote->pending--;
}

static void failed(void *context, const struct plan_step *step, enum rules_failure policy)
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
	context->ready = ready;
	context->failed = failed;
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

typedef enum engine_state engine_begin(const struct decision_context *context, struct plan *plan,
                                       struct weir_decision *decision);

static int run_plan(engine_begin *begin, struct decision_context *context, struct plan *plan,
                    bool is_direct, struct weir_decision *decision)
{
	struct remote remote;
	int status = remote_begin(&remote, context, engine_is_remote(plan));

	if (status != WEIR_OK)
		return status;
	remote_finish(&remote, context, begin(context, plan, decision), plan, decision);
	remote_end(&remote, context);
	if (plan->status != WEIR_OK)
		return plan->status;
	return is_direct && remote.failed ? WEIR_ESTORE : WEIR_OK;
}

int remote_decide(struct decision_context *context, struct plan *plan, bool is_direct,
                  struct weir_decision *decision)
{
	return run_plan(engine_decide, context, plan, is_direct, decision);
}

int remote_report(struct decision_context *context, struct plan *plan,
                  struct weir_decision *decision)
{
	return run_plan(engine_report, context, plan, false, decision);
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
