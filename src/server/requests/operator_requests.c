/*
 * operator_requests.c: handles the requests by which operators override limits: shed a share of a
 * limit's requests, force the phase of a breaker's key, and follow the events of the server.
 */
#include "server/requests/operator_requests.h"

#include "server/access/client_login.h"
#include "server/admin/shown_keys.h"
#include "server/requests/work_error.h"
#include "wait/waitlist.h"

/* The `full_request` of a work that overrides something. */
struct operation {
	struct request request;
	const struct user *user; /* NULL without users */
};

/*
 * Called when the request is read: checks the permission, and keeps the request until it is done.
 * An unknown limit is an error then (fill_override).
 */
void operator_prepare(struct decider *decider, struct work *work, const struct request *request)
{
	struct operation *operation = arena_alloc(&decider->arena, sizeof *operation);
	const weir_limit *limit =
	    weir_engine_limit(decider->config->engine, request->limit.data, request->limit.len);

	if (!operation) {
		work_set_status(work, WEIR_ENOMEM);
		return;
	}
	if (limit && !work_may_use_limit(decider, work, limit)) /* which rejects the work */
		return;
	operation->request = *request;
	operation->user = decider->user;
	work->full_request = &operation->request;
}

/*
 * Fills in who overrides the limit, and from when until when. Returns the limit, or NULL after
 * setting an error: there is no such limit, or the end is in the past.
 */
static const weir_limit *fill_override(struct decider *decider, struct work *work,
                                       struct override *override)
{
	const struct request *request = work->full_request;
	const struct user *latest_user = decider->user;
	const weir_limit *limit;

	/* an error shows only limits that the user of this request may use */
	decider->user = ((const struct operation *)work->full_request)->user;
	limit = work_find_limit(decider, work, request->limit);
	decider->user = latest_user;
	if (!limit)
		return NULL;
	override->at_ns = os_wall_ns();
	override->until_ns = request->until_ns;
	overrides_format_by(((const struct operation *)work->full_request)->user,
	                    net_conn_peer(work->conn), override->by);
	if (override->until_ns == 0 || override->until_ns > override->at_ns)
		return limit;
	work_fail(decider, work, WEIR_EINVAL,
	          SLICE("expected until to be in the future, found a time in the past"));
	return NULL;
}

/* Sets the error of a status; `expected` says which limits can be overridden so. */
static void set_override_status(struct decider *decider, struct work *work, int status,
                                const char *expected)
{
	if (status == WEIR_EINVAL)
		work_fail_name(decider, work, status, expected, work->full_request->limit);
	else if (status == WEIR_EFULL)
		work_fail(decider, work, status, SLICE("too many keys are forced or held already"));
	else if (status != WEIR_OK)
		work_set_status(work, status);
}

void operator_shed(struct decider *decider, struct work *work, struct reply *reply)
{
	struct override override = {.deny = work->full_request->denied_share};
	const weir_limit *limit = fill_override(decider, work, &override);
	int status;

	(void)reply;
	if (!limit)
		return;
	status = overrides_shed(&decider->shared->overrides, limit, &override);
	if (status == WEIR_OK)
		/* requests that wait for a key may be denied now */
		waitlist_wake_all(&decider->shared->table->waiting);
	set_override_status(decider, work, status, "a limit with a share to deny");
}

void operator_force(struct decider *decider, struct work *work, struct reply *reply)
{
	const struct request *request = work->full_request;
	struct override override = {.force = request->force};
	const weir_limit *limit = fill_override(decider, work, &override);
	struct shown_key shown;
	const char *expected;

	(void)reply;
	if (!limit)
		return;
	expected = shown_keys_find(decider, limit, request->key, &shown);
	if (expected) {
		work_fail_name(decider, work, WEIR_EINVAL, expected, request->key);
		return;
	}
	decider->forced_by = override.by; /* for the events of the phase change */
	set_override_status(decider, work,
	                    forced_keys_set(&decider->shared->forced, &decider->context, limit,
	                                    shown.name, &shown.key, &override),
	                    "a limit whose keys can be forced");
	decider->forced_by = NULL;
}

/* The connection keeps the user, because the stream ends when that user loses the permission. */
void operator_prepare_events(struct decider *decider, struct work *work, const struct request *r)
{
	(void)r;
	if (decider->config->users)
		client_login_set_user(decider, work->conn, decider->user != NULL);
}

/* Makes the client follow events. event_streams_begin starts its stream when this is answered. */
void operator_follow_events(struct decider *decider, struct work *work, struct reply *reply)
{
	struct worker_shared *shared = decider->shared;
	struct client *client = client_of(work->conn);
	uint64_t last_received = work->full_request->after_event; /* the client's last event, or 0 */

	(void)reply;
	if (!events_follow(shared->events)) {
		work_fail(decider, work, WEIR_EFULL, SLICE("too many clients follow the events already"));
		return;
	}
	client->next_event =
	    last_received > 0 ? sat_add(last_received, 1) : events_next(shared->events);
	client->next_denial = 0;
	if (work->full_request->with_denials && events_follow(shared->denial_events))
		client->next_denial = events_next(shared->denial_events);
	decider->new_event_stream_count++;
}
