#include "api/remote.h"

#include "api/names.h"
#include "store/caller.h"

static void ready(void *context, struct plan *plan)
{
	struct remote *remote = context;

	(void)plan;
	remote->pending--;
}

static void failed(void *context, const struct step *step, enum rules_failure policy)
{
	struct remote *remote = context;

	(void)step;
	(void)policy;
	remote->failed = true;
}

int remote_begin(struct remote *remote, struct turn *turn, bool is_needed)
{
	struct store_caller *caller = turn->table->caller;

	*remote = (struct remote){0};
	if (__builtin_expect(!is_needed, 1))
		return WEIR_OK;
	remote->loan = caller->borrow(caller);
	if (!remote->loan)
		return WEIR_ENOMEM;
	turn->store_clients = &remote->loan->client;
	turn->ready = ready;
	turn->failed = failed;
	turn->context = remote;
	return WEIR_OK;
}

void remote_wait(struct remote *remote, const struct turn *turn)
{
	turn->table->caller->run(remote->loan, &remote->pending);
}

enum engine_state remote_finish(struct remote *remote, const struct turn *turn,
                                enum engine_state state, struct plan *plan,
                                struct weir_decision *decision)
{
	while (__builtin_expect(state == ENGINE_SUBMITTED, 0)) {
		remote->pending++;
		remote_wait(remote, turn);
		state = engine_resume(turn, plan, decision);
	}
	return state;
}

void remote_end(struct remote *remote, const struct turn *turn)
{
	struct store_caller *caller = turn->table->caller;

	if (__builtin_expect(remote->loan != NULL, 0))
		caller->give_back(caller, remote->loan);
}

typedef enum engine_state engine_begin(const struct turn *turn, struct plan *plan,
                                       struct weir_decision *decision);

static int run(engine_begin *begin, struct turn *turn, struct plan *plan, bool is_direct,
               struct weir_decision *decision)
{
	struct remote remote;
	int status = remote_begin(&remote, turn, engine_is_remote(plan));

	if (status != WEIR_OK)
		return status;
	remote_finish(&remote, turn, begin(turn, plan, decision), plan, decision);
	remote_end(&remote, turn);
	if (plan->status != WEIR_OK)
		return plan->status;
	return is_direct && remote.failed ? WEIR_ESTORE : WEIR_OK;
}

int remote_decide(struct turn *turn, struct plan *plan, bool is_direct,
                  struct weir_decision *decision)
{
	return run(engine_decide, turn, plan, is_direct, decision);
}

int remote_report(struct turn *turn, struct plan *plan, struct weir_decision *decision)
{
	return run(engine_report, turn, plan, false, decision);
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
