#include "net/internal.h"

#include "base/number.h"

/* The room of a connection when the loop has none for more than one answer of each. */
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
	out_reset(&loop->out);
}

struct buffer *net_conn_out(struct net_conn *conn)
{
	struct net_loop *loop = conn->loop;

	if (loop->writing != conn) {
		net_loop_flush(loop);
		loop->writing = conn;
		conn_touch(conn);
	}
	return &loop->out;
}

bool conn_is_unsent(const struct net_conn *conn)
{
	return conn->queued > 0 || (conn->filter && conn->filter->out.len > 0);
}

size_t conn_unread(const struct net_conn *conn)
{
	size_t fresh = conn->loop->writing == conn ? conn->loop->out.len : 0;
	size_t kept = conn->filter ? conn->filter->out.len : 0;

	return conn->queued + kept + conn->written + fresh;
}

size_t net_conn_room(const struct net_conn *conn)
{
	size_t room = sat_sub(NET_OUT_MAX, conn_unread(conn) + conn->held_bytes);

	if (conn->loop->held_bytes < NET_HELD_MAX)
		return room;
	return conn->held > 0 ? 0 : u64_min(room, ONE_ANSWER);
}
