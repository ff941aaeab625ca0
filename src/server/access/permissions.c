/*
 * permissions.c: checks whether the sender of a request may make it, and rejects the request if
 * not. A work is a request that is being processed.
 */
#include "server/access/permissions.h"

#include "base/error.h"
#include "server/loop/client_log.h"
#include "server/requests/work_error.h"

/*
 * Logs why a request of a proxy is refused: the proxy's client does not see the message. A proxy
 * without a login gets a message about that.
 */
static void log_refused_proxy(struct decider *decider, const struct work *work, const char *message)
{
	if (decider->config->users && !decider->user && decider->login_error.status == WEIR_OK)
		message = "expected a proxy that is a user, by Weir-Authorization, its certificate or its "
		          "account, found no login";
	client_log_warn(decider->shared->log, &decider->next_refused_warning_ns, "proxy_refused", NULL,
	                work->conn, message);
}

/* Checks what the user may do. Returns 0 or an error, with a message. */
static int check_user(const struct decider *decider, const struct request *r,
                      struct weir_error *error)
{
	const struct user *user = decider->user;
	int status;

	if (r->class != REQUEST_FREE && decider->login_error.status != WEIR_OK) {
		*error = decider->login_error;
		return error->status;
	}
	status = user_check(user, r->class, error);
	if (status == WEIR_OK && user && user->limits && 1u << r->kind & REQUEST_ALL_LIMITS_KINDS)
		status = error_set(error, WEIR_EPERM,
		                   "expected a user of all limits, which this concerns, found '%s'",
		                   user->rule->name);
	return status;
}

bool permissions_check(struct decider *decider, struct work *work, const struct request *r,
                       const struct request_origin *origin)
{
	struct weir_error error;
	const struct server_config *config = decider->config;
	int status =
	    access_check_origin(config->rules, net_conn_peer(work->conn), r->class, origin, &error);

	if (status == WEIR_OK && decider->shared->has_admin)
		status = access_check_listener(protocol_of(work->conn)->is_admin, r->class, &error);
	if (status == WEIR_OK && !config->users)
		status =
		    access_check_peer(config->rules, net_conn_peer(work->conn), r->class, origin, &error);
	else if (status == WEIR_OK)
		status = check_user(decider, r, &error);
	if (status == WEIR_OK)
		return true;
	work_reject(decider, work, status, slice_of(error.message));
	if (r->from_proxy)
		log_refused_proxy(decider, work, error.message);
	return false;
}

void permissions_refuse_proxy(struct decider *decider, struct work *work)
{
	static const char message[] =
	    "expected `auth: yes` or `auth: reports` in the configuration, found "
	    "`auth: no`: it says that no proxy asks here";

	work_reject(decider, work, WEIR_EPERM, SLICE(message));
	log_refused_proxy(decider, work, message);
}

bool permissions_check_steps(struct decider *decider, struct work *work)
{
	for (uint32_t i = 0; i < work->plan.step_count; i++)
		if (!work_may_use_limit(decider, work, work->plan.steps[i].limit))
			return false;
	return true;
}

void permissions_log_foreign(struct decider *decider, const struct net_conn *conn)
{
	client_log_warn(decider->shared->log, &decider->next_foreign_warning_ns, "foreign_protocol",
	                protocol_of(conn)->codec->name, conn,
	                "closed: received HTTP, perhaps from a page in a browser");
}

/*
 * The connection is in the reserve beyond max_connections, which is for operators. Closes it after
 * the first request that is no greeting; greetings are REQUEST_FREE, and thus served.
 */
void permissions_use_reserve(struct decider *decider, struct work *work, struct request *r)
{
	/* requests that come before a client's first real one */
	bool is_greeting = (r->kind == REQUEST_LOCAL && r->status == WEIR_OK) ||
	                   r->kind == REQUEST_LOGIN || r->kind == REQUEST_INTERIM;
	bool is_for_operators =
	    r->class == REQUEST_FREE || r->class == REQUEST_ADMIN || r->kind == REQUEST_METRICS;

	if (!is_for_operators) {
		work_reject(decider, work, WEIR_EFULL, SLICE("max number of clients reached"));
		net_conn_count_rejection(work->conn);
	}
	r->close_after |= !is_greeting;
	work->close_after = r->close_after;
}
