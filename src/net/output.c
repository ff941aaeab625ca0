/*
 * output.c: gathers the replies to one connection in the loop's output buffer, so that they are
 * written to the socket at once, and bounds the output that a peer leaves unread.
 */
#include "net/internal.h"

#include "base/number.h"

/* The output space of a connection when pending answers have used up NET_PENDING_MAX. */
#define ONE_ANSWER_BYTES ((size_t)1 << 10)

void net_loop_flush(struct net_loop *loop)
{
	struct net_conn *conn = loop->out_conn;
	struct slice bytes = {loop->out.data, loop->out.len};

	if (!conn)
		return;
	loop->out_conn = NULL;
	conn->batch_written_bytes += bytes.len;
	loop->iteration_bytes += bytes.len;
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

/* Returns the buffer to append replies to; those of another connection are written first. */
struct buffer *net_conn_output(struct net_conn *conn)
{
	struct net_loop *loop = conn->loop;

	if (loop->out_conn != conn) {
		net_loop_flush(loop);
		loop->out_conn = conn;
		conn_schedule_update(conn);
	}
	return &loop->out;
}

bool conn_has_unsent(const struct net_conn *conn)
{
	return conn->queued_bytes > 0 || (conn->filter && conn->filter->handshake_output.len > 0);
}

size_t conn_unread_output(const struct net_conn *conn)
{
	size_t gathered = conn->loop->out_conn == conn ? conn->loop->out.len : 0;
	size_t behind_handshake = conn->filter ? conn->filter->handshake_output.len : 0;

	return conn->queued_bytes + behind_handshake + conn->batch_written_bytes + gathered;
}

size_t net_conn_output_space(const struct net_conn *conn)
{
	size_t space = sat_sub(NET_OUT_MAX, conn_unread_output(conn) + conn->pending_bytes);

	if (conn->loop->pending_bytes < NET_PENDING_MAX)
		return space;
	return conn->pending_count > 0 ? 0 : u64_min(space, ONE_ANSWER_BYTES);
}
