/* output.c: gathers the replies to each connection, and bounds them. */
#include "net/internal.h"

#include "base/number.h"

/* The output space of a connection when pending answers have used up NET_PENDING_MAX. */
#define ONE_ANSWER ((size_t)1 << 10)

void net_loop_flush(struct net_loop *loop)
{
	struct net_conn *conn = loop->writing;
	struct slice bytes = {loop->out.data, loop->out.len};

	if (!conn)
		return;
	loop->writing = NULL;
	conn->written += bytes.len;
	loop->spent += bytes.len;
	if (loop->out.failed)
		conn_fail(conn, UV_ENOMEM);
	if (conn->state != CONN_DEAD && bytes.len > 0) {
		if (conn->filter)
			filter_write(conn, bytes);
		else
			conn_send(conn, bytes);
	}
	output_reset(&loop->out);
}

struct buffer *net_conn_output(struct net_conn *conn)
{
	struct net_loop *loop = conn->loop;

	if (loop->writing != conn) {
		net_loop_flush(loop);
		loop->writing = conn;
		conn_schedule_update(conn);
	}
	return &loop->out;
}

bool conn_has_unsent(const struct net_conn *conn)
{
	return conn->queued > 0 || (conn->filter && conn->filter->out.len > 0);
}

size_t conn_unread_output(const struct net_conn *conn)
{
	size_t fresh = conn->loop->writing == conn ? conn->loop->out.len : 0;
	size_t filtered = conn->filter ? conn->filter->out.len : 0;

	return conn->queued + filtered + conn->written + fresh;
}

size_t net_conn_output_space(const struct net_conn *conn)
{
	size_t space = sat_sub(NET_OUT_MAX, conn_unread_output(conn) + conn->pending_bytes);

	if (conn->loop->pending_bytes < NET_PENDING_MAX)
		return space;
	return conn->pending > 0 ? 0 : u64_min(space, ONE_ANSWER);
}
