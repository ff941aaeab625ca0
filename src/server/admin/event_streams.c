#include "server/admin/event_streams.h"

#include <stdlib.h>

#include "server/access/client_login.h"
#include "server/waiting/pending.h"

struct event_stream {
	struct unanswered unanswered;
	struct event_streams *of;
	struct list_node node;
	uint64_t number; /* of the next event to send */
};

/* Whether the user still has the permission after a reload. */
static bool may_follow(struct decider *decider, struct net_conn *conn)
{
	const struct user *user;
	struct weir_error error;

	if (!decider->config->users)
		return true;
	user = client_login_user(decider, conn);
	return user_check(user, REQUEST_ADMIN, &error) == WEIR_OK && !user->limits;
}

/*
 * Checks the permission after it has read the events, so that a reload before the last of them
 * counts.
 */
static void send_events(struct event_stream *event_stream)
{
	struct decider *decider = event_stream->of->pending->decider;
	struct events *events = decider->shared->events;
	struct net_conn *conn = event_stream->unanswered.conn;
	struct buffer *out = net_conn_output(conn);
	size_t len = out->len;

	if (pending_is_next(&event_stream->unanswered) && event_stream->number != events_next(events))
		event_stream->number =
		    events_read(events, event_stream->number, net_conn_output_space(conn), out);
	decider_use_newest_config(decider);
	if (may_follow(decider, conn))
		return;
	out->len = len;
	net_conn_abort(conn);
}

static void send_heartbeat(struct pending *pending, struct unanswered *unanswered, uint64_t now_ns)
{
	struct event_stream *event_stream = (struct event_stream *)unanswered;

	send_events(event_stream);
	if (pending_is_next(unanswered))
		buffer_add(net_conn_output(event_stream->unanswered.conn), ":\n\n", 3);
	pending_reschedule(pending, unanswered, now_ns + EVENT_STREAM_BEAT_NS);
}

static void on_cancel(struct pending *pending, struct unanswered *unanswered)
{
	struct event_stream *event_stream = (struct event_stream *)unanswered;

	events_stop_following(pending->decider->shared->events);
	list_remove(&event_stream->of->all, &event_stream->node);
}

static const struct unanswered_kind kind = {send_heartbeat, on_cancel};

static void begin_stream(struct event_streams *event_streams, struct net_conn *conn)
{
	struct event_stream *event_stream = calloc(1, sizeof *event_stream);

	if (event_stream) {
		event_stream->of = event_streams;
		event_stream->number = client_of(conn)->next_event;
		event_stream->unanswered.charged_bytes = sizeof *event_stream;
	}
	if (!event_stream || !pending_add(event_streams->pending, &event_stream->unanswered, &kind,
	                                  conn, os_monotonic_ns() + EVENT_STREAM_BEAT_NS)) {
		net_conn_abort(conn);
		events_stop_following(event_streams->pending->decider->shared->events);
		free(event_stream);
		return;
	}
	list_append(&event_streams->all, &event_stream->node);
	send_events(event_stream);
}

void event_streams_begin(struct event_streams *event_streams, const struct work *works, size_t n)
{
	size_t *left = &event_streams->pending->decider->new_event_stream_count;

	for (size_t i = 0; i<n && * left> 0; i++) {
		if (works[i].kind != REQUEST_EVENTS || works[i].status != WEIR_OK)
			continue;
		begin_stream(event_streams, works[i].conn);
		--*left;
	}
}

void event_streams_run(struct event_streams *event_streams)
{
	LIST_EACH(&event_streams->all, struct event_stream, node, event_stream)
	send_events(event_stream);
}
