/*
 * event_streams.c: sends log events (events.h) to clients that follow them by server-sent events:
 * answers over HTTP that do not end. A heartbeat now and then detects clients that are gone.
 */
#include "server/admin/event_streams.h"

#include <stdlib.h>

#include "server/access/client_login.h"
#include "server/waiting/pending.h"

struct event_stream {
	struct unanswered unanswered;  /* the pending answer; the first member, for casts */
	struct event_streams *streams; /* of this worker */
	struct list_node node;         /* in `streams->all` */
	uint64_t next_event;           /* number of the next event to send */
	uint64_t next_denial;          /* and of the next denial, or 0 if the client wants none */
};

/* Whether the user of the connection may follow events, also after a reload. */
static bool may_follow(struct decider *decider, struct net_conn *conn)
{
	const struct user *user;
	struct weir_error error;

	if (!decider->config->users)
		return true;
	user = client_login_user(decider, conn);
	return user_check(user, REQUEST_ADMIN, &error) == WEIR_OK && !user->limits;
}

/* Writes the events from number *next on, as many as fit, and moves *next behind them. */
static void send_new(struct event_stream *event_stream, struct events *events, uint64_t *next)
{
	struct net_conn *conn = event_stream->unanswered.conn;

	if (*next != events_next(events) && pending_is_next(&event_stream->unanswered))
		*next = events_read(events, *next, net_conn_output_space(conn), net_conn_output(conn));
}

/* Ends what operator_follow_events has begun: the client follows no more. */
static void stop_following(struct worker_shared *shared, bool has_denials)
{
	events_stop_following(shared->events);
	if (has_denials)
		events_stop_following(shared->denial_events);
}

/*
 * Writes the events that the client has not got yet, unless an earlier answer of its connection is
 * still pending. A reload may have taken the permission away. It is checked after the events are
 * read, so that none is sent that is newer than the reload.
 */
static void send_events(struct event_stream *event_stream)
{
	struct decider *decider = event_stream->streams->pending->decider;
	struct worker_shared *shared = decider->shared;
	struct net_conn *conn = event_stream->unanswered.conn;
	struct buffer *out = net_conn_output(conn);
	size_t len_before = out->len;

	send_new(event_stream, shared->events, &event_stream->next_event);
	if (event_stream->next_denial > 0)
		send_new(event_stream, shared->denial_events, &event_stream->next_denial);
	decider_use_newest_config(decider);
	if (!may_follow(decider, conn)) {
		out->len = len_before; /* without the events */
		net_conn_abort(conn);
	}
}

/* Sends a comment, and schedules the next one. */
static void handle_heartbeat_due(struct pending *pending, struct unanswered *unanswered,
                                 uint64_t now_ns)
{
	struct event_stream *event_stream = (struct event_stream *)unanswered;

	send_events(event_stream);
	if (pending_is_next(unanswered))
		buffer_add(net_conn_output(event_stream->unanswered.conn), ":\n\n", 3);
	pending_reschedule(pending, unanswered, now_ns + EVENT_STREAM_BEAT_NS);
}

/* Called when the client is gone or the server stops. */
static void handle_cancelled(struct pending *pending, struct unanswered *unanswered)
{
	struct event_stream *event_stream = (struct event_stream *)unanswered;

	stop_following(pending->decider->shared, event_stream->next_denial > 0);
	list_remove(&event_stream->streams->all, &event_stream->node);
}

static const struct unanswered_kind event_stream_kind = {handle_heartbeat_due, handle_cancelled};

/* Adds a stream for a client that events_follow has counted; closes the connection on failure. */
static void begin_stream(struct event_streams *event_streams, struct net_conn *conn)
{
	struct event_stream *event_stream = calloc(1, sizeof *event_stream);

	if (event_stream) {
		event_stream->streams = event_streams;
		event_stream->next_event = client_of(conn)->next_event;
		event_stream->next_denial = client_of(conn)->next_denial;
		event_stream->unanswered.charged_bytes = sizeof *event_stream;
	}
	if (!event_stream ||
	    !pending_add(event_streams->pending, &event_stream->unanswered, &event_stream_kind, conn,
	                 os_monotonic_ns() + EVENT_STREAM_BEAT_NS)) {
		net_conn_abort(conn);
		stop_following(event_streams->pending->decider->shared, client_of(conn)->next_denial > 0);
		free(event_stream);
		return;
	}
	list_append(&event_streams->all, &event_stream->node);
	send_events(event_stream);
}

void event_streams_begin(struct event_streams *event_streams, const struct work *works, size_t n)
{
	struct decider *decider = event_streams->pending->decider;

	for (size_t i = 0; i < n && decider->new_event_stream_count > 0; i++) {
		if (works[i].kind != REQUEST_EVENTS || works[i].status != WEIR_OK)
			continue;
		begin_stream(event_streams, works[i].conn);
		decider->new_event_stream_count--;
	}
}

void event_streams_run(struct event_streams *event_streams)
{
	LIST_EACH (&event_streams->all, struct event_stream, node, event_stream)
		send_events(event_stream);
}
