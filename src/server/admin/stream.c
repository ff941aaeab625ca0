#include "server/admin/stream.h"

#include <stdlib.h>

#include "server/access/login.h"
#include "server/requests/run.h"
#include "server/waiting/hold.h"

struct stream {
	struct held held;
	struct list_node node; /* of its worker's */
	uint64_t number; /* of the event that is next */
};

/* Whether a reload has left it the right. */
static bool may_follow(struct worker *worker, struct net_conn *conn)
{
	const struct user *user;
	struct weir_error error;

	if (!worker->config->users)
		return true;
	user = login_user(worker, conn);
	return user_check(user, REQUEST_ADMIN, &error) == WEIR_OK && !user->limits;
}

/* The right is looked at behind the events, so that a reload before the last of them counts. */
static void send(struct worker *worker, struct stream *stream)
{
	struct events *events = worker->shared->events;
	struct net_conn *conn = stream->held.conn;
	struct buffer *out = net_conn_out(conn);
	size_t len = out->len;

	if (hold_is_next(&stream->held) && stream->number != events_next(events))
		stream->number = events_read(events, stream->number, net_conn_room(conn), out);
	run_advance(worker);
	if (may_follow(worker, conn))
		return;
	out->len = len;
	net_conn_abort(conn);
}

static void beat(struct worker *worker, struct held *held, uint64_t now_ns)
{
	struct stream *stream = (struct stream *)held;

	send(worker, stream);
	if (hold_is_next(held))
		buffer_add(net_conn_out(stream->held.conn), ":\n\n", 3);
	hold_put_off(worker, held, now_ns + STREAM_BEAT_NS);
}

static void leave(struct worker *worker, struct held *held)
{
	events_leave(worker->shared->events);
	list_remove(&worker->streams, &((struct stream *)held)->node);
}

static const struct held_kind kind = {beat, leave};

static void begin(struct worker *worker, struct net_conn *conn)
{
	struct stream *stream = calloc(1, sizeof *stream);

	if (stream) {
		stream->number = client_of(conn)->event;
		stream->held.size = sizeof *stream;
	}
	if (!stream ||
	    !hold_add(worker, &stream->held, &kind, conn, os_monotonic_ns() + STREAM_BEAT_NS)) {
		net_conn_abort(conn);
		events_leave(worker->shared->events);
		free(stream);
		return;
	}
	list_append(&worker->streams, &stream->node);
	send(worker, stream);
}

void stream_begin(struct worker *worker)
{
	for (size_t i = 0; i < worker->count && worker->beginning > 0; i++) {
		const struct work *work = &worker->batch[i];

		if (work->kind != REQUEST_EVENTS || work->status != WEIR_OK)
			continue;
		begin(worker, work->conn);
		worker->beginning--;
	}
}

void stream_run(struct worker *worker)
{
	LIST_EACH(&worker->streams, struct stream, node, stream)
		send(worker, stream);
}
