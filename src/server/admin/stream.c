#include "server/admin/stream.h"

#include <stdlib.h>

#include "server/access/login.h"
#include "server/requests/run.h"
#include "server/waiting/pending.h"

struct stream {
	struct unanswered unanswered;
	struct streams *of;
	struct list_node node;
	uint64_t number; /* of the event that is next */
};

/* Whether a reload has left it the right. */
static bool may_follow(struct decider *decider, struct net_conn *conn)
{
	const struct user *user;
	struct weir_error error;

	if (!decider->config->users)
		return true;
	user = login_user(decider, conn);
	return user_check(user, REQUEST_ADMIN, &error) == WEIR_OK && !user->limits;
}

/* The right is looked at behind the events, so that a reload before the last of them counts. */
static void send(struct stream *stream)
{
	struct decider *decider = stream->of->pending->decider;
	struct events *events = decider->shared->events;
	struct net_conn *conn = stream->unanswered.conn;
	struct buffer *out = net_conn_output(conn);
	size_t len = out->len;

	if (pending_is_next(&stream->unanswered) && stream->number != events_next(events))
		stream->number = events_read(events, stream->number, net_conn_output_space(conn), out);
	run_advance(decider);
	if (may_follow(decider, conn))
		return;
	out->len = len;
	net_conn_abort(conn);
}

static void beat(struct pending *pending, struct unanswered *unanswered, uint64_t now_ns)
{
	struct stream *stream = (struct stream *)unanswered;

	send(stream);
	if (pending_is_next(unanswered))
		buffer_add(net_conn_output(stream->unanswered.conn), ":\n\n", 3);
	pending_reschedule(pending, unanswered, now_ns + STREAM_BEAT_NS);
}

static void leave(struct pending *pending, struct unanswered *unanswered)
{
	struct stream *stream = (struct stream *)unanswered;

	events_leave(pending->decider->shared->events);
	list_remove(&stream->of->all, &stream->node);
}

static const struct unanswered_kind kind = {beat, leave};

static void begin(struct streams *streams, struct net_conn *conn)
{
	struct stream *stream = calloc(1, sizeof *stream);

	if (stream) {
		stream->of = streams;
		stream->number = client_of(conn)->event;
		stream->unanswered.size = sizeof *stream;
	}
	if (!stream || !pending_add(streams->pending, &stream->unanswered, &kind, conn,
	                            os_monotonic_ns() + STREAM_BEAT_NS)) {
		net_conn_abort(conn);
		events_leave(streams->pending->decider->shared->events);
		free(stream);
		return;
	}
	list_append(&streams->all, &stream->node);
	send(stream);
}

void streams_begin(struct streams *streams, const struct work *works, size_t n)
{
	size_t *left = &streams->pending->decider->new_streams;

	for (size_t i = 0; i<n && * left> 0; i++) {
		if (works[i].kind != REQUEST_EVENTS || works[i].status != WEIR_OK)
			continue;
		begin(streams, works[i].conn);
		--*left;
	}
}

void streams_run(struct streams *streams)
{
	LIST_EACH(&streams->all, struct stream, node, stream)
	send(stream);
}
