#include "server/rights.h"

#include "base/error.h"
#include "server/run.h"

static int check_user(const struct worker *worker, enum request_class class,
                      struct weir_error *error)
{
	if (class != REQUEST_FREE && worker->refusal.status != WEIR_OK) {
		*error = worker->refusal;
		return error->status;
	}
	return user_check(worker->user, class, error);
}

/* The log tells the operator why; the proxy's client does not see the message. */
static void log_proxy(struct worker *worker, const struct work *work, const char *message)
{
	char peer[IP_TEXT_MAX + 1];

	if (!run_may_log(&worker->refused_quiet_ns))
		return;
	if (!worker->user && worker->refusal.status == WEIR_OK)
		message = "expected a proxy that is a user, by Weir-Authorization, its certificate or its "
		          "account, found no login";
	peer[ip_format(net_conn_peer(work->conn), peer)] = '\0';
	log_say(worker->shared->log, LOG_WARNING, "proxy_refused", {"peer", peer}, {"message", message});
}

/* What shows all limits: a user of some may not see it. */
#define WHOLE_KINDS                                                                                \
	(1u << REQUEST_LIMITS | 1u << REQUEST_TOP | 1u << REQUEST_POLICY | 1u << REQUEST_COUNTERS |    \
	 1u << REQUEST_EVENTS)

bool rights_check(struct worker *worker, struct work *work, const struct request *r,
                  const struct request_origin *origin)
{
	struct weir_error error;
	const struct server_config *config = worker->config;
	int status = door_check_origin(config->rules, net_conn_peer(work->conn), r->class, origin, &error);

	if (status == WEIR_OK && worker->shared->has_admin)
		status = door_check_listener(protocol_of(work->conn)->is_admin, r->class, &error);
	if (status == WEIR_OK && !config->users)
		status = door_check_peer(config->rules, net_conn_peer(work->conn), r->class, origin, &error);
	else if (status == WEIR_OK)
		status = check_user(worker, r->class, &error);
	if (status == WEIR_OK)
		return true;
	run_turn_away(worker, work, status, slice_of(error.message));
	if (r->from_proxy)
		log_proxy(worker, work, error.message);
	return false;
}

/* The first limit of the request that its user may not use, or NULL. */
static const struct weir_limit *find_foreign(const struct worker *worker, const struct work *work,
                                             const struct request *r)
{
	const weir_engine *engine = worker->config->engine;
	const struct weir_limit *limit;

	if (1u << r->kind & (1u << REQUEST_SHED | 1u << REQUEST_FORCE)) {
		limit = weir_engine_limit(engine, r->limit.data, r->limit.len);
		if (limit && !user_may_use(worker->user, engine_limit_index(engine, limit)))
			return limit;
	}
	for (uint32_t i = 0; i < work->plan.step_count; i++) {
		limit = work->plan.steps[i].limit;
		if (!user_may_use(worker->user, engine_limit_index(engine, limit)))
			return limit;
	}
	return NULL;
}

void rights_check_limits(struct worker *worker, struct work *work, const struct request *r)
{
	const struct weir_limit *foreign;
	struct weir_error error;

	if (r->class == REQUEST_FREE || !worker->user->limits)
		return;
	foreign = find_foreign(worker, work, r);
	if (foreign)
		error_set(&error, WEIR_EPERM, "expected a limit of user '%s', found '%s'",
		          worker->user->rule->name, foreign->name);
	else if (1u << r->kind & WHOLE_KINDS)
		error_set(&error, WEIR_EPERM, "expected a user of all limits, which this shows, found '%s'",
		          worker->user->rule->name);
	else
		return;
	run_turn_away(worker, work, WEIR_EPERM, slice_of(error.message));
}
