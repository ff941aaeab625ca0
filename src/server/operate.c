#include "server/operate.h"

#include "server/run.h"
#include "wait/waitlist.h"

static bool is_to_come(struct worker *worker, struct work *work, const struct switched *switched)
{
	if (switched->until_ns == 0 || switched->until_ns > switched->at_ns)
		return true;
	run_fail(worker, work, WEIR_EINVAL,
	         SLICE("expected until to be in the future, found a time in the past"));
	return false;
}

void operate_shed(struct worker *worker, struct work *work, struct reply *reply)
{
	const struct request *request = work->whole;
	const weir_limit *limit = run_find_limit(worker, work, request->limit);
	struct switched switched = {
	    .deny = request->deny, .at_ns = os_wall_ns(), .until_ns = request->until_ns};
	int status;

	(void)reply;
	if (!limit || !is_to_come(worker, work, &switched))
		return;
	ip_format(net_conn_peer(work->conn), switched.by);
	status = switches_shed(&worker->shared->switches, limit, &switched);
	if (status == WEIR_OK)
		waitlist_wake_all(&worker->shared->table->waiting);
	else if (status == WEIR_EINVAL)
		run_fail_name(worker, work, status, "a limit with a share to deny", request->limit);
	else
		run_check(work, status);
}

void operate_force(struct worker *worker, struct work *work, struct reply *reply)
{
	const struct request *request = work->whole;
	const weir_limit *limit = run_find_limit(worker, work, request->limit);
	struct switched switched = {
	    .force = request->force, .at_ns = os_wall_ns(), .until_ns = request->until_ns};
	int status;

	(void)reply;
	if (!limit || !is_to_come(worker, work, &switched))
		return;
	ip_format(net_conn_peer(work->conn), switched.by);
	worker->forced_by = switched.by;
	status = forced_set(&worker->shared->forced, &worker->turn, limit, request->key, &switched);
	worker->forced_by = NULL;
	if (status == WEIR_EINVAL)
		run_fail_name(worker, work, status, "a limit whose keys can be forced", request->limit);
	else if (status == WEIR_EFULL)
		run_fail(worker, work, status, SLICE("too many keys are forced or held already"));
	else if (status != WEIR_OK)
		run_check(work, status);
}
