/*
 * filter.c: passes the bytes of a connection through its filter, such as TLS, and buffers output
 * until the handshake of the filter is done.
 */
#include "net/internal.h"

static void send_filter_output(struct net_conn *conn)
{
	struct buffer *wire = &conn->loop->wire;

	if (wire->failed)
		conn_fail(conn, UV_ENOMEM);
	else if (wire->len > 0)
		conn_send(conn, (struct slice){wire->data, wire->len});
	output_reset(wire);
}

/* Ends the connection once the last output of its filter, such as an alert, is written. */
static void fail_filter(struct net_conn *conn)
{
	struct conn_filter *filter = conn->filter;

	conn->error = UV_EPROTO;
	filter->state = NET_FILTER_END;
	filter->has_ended = true;
	buffer_free(&filter->out);
	net_conn_finish(conn);
}

void filter_read(struct net_conn *conn, struct slice bytes)
{
	struct conn_filter *filter = conn->filter;
	int state = filter->type->read(filter->type, filter->data, bytes, &conn->in, &conn->loop->wire);

	send_filter_output(conn);
	if (conn->state == CONN_DEAD)
		return;
	if (state < 0) {
		fail_filter(conn);
		return;
	}
	if (state == NET_FILTER_END) {
		conn_end_input(conn);
		/* Without input for the owner the handshake was cut off; otherwise it ended in this read.
		 */
		if (filter_is_handshaking(filter) && conn->in.len == 0)
			return;
	}
	filter->state = (enum net_filter_state)state;
	if (filter->out.len > 0 && !filter_is_handshaking(filter)) {
		struct buffer out = filter->out;

		filter->out = (struct buffer){0};
		filter_write(conn, (struct slice){out.data, out.len});
		buffer_free(&out);
	}
}

void filter_write(struct net_conn *conn, struct slice bytes)
{
	struct conn_filter *filter = conn->filter;

	if (filter->has_ended)
		return;
	if (filter_is_handshaking(filter)) {
		buffer_add_slice(&filter->out, bytes);
		if (filter->out.failed)
			conn_fail(conn, UV_ENOMEM);
		return;
	}
	filter->has_ended = bytes.len == 0;
	filter->type->write(filter->type, filter->data, bytes, &conn->loop->wire);
	send_filter_output(conn);
}
