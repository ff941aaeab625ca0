#include "net/internal.h"

static void send_wire(struct net_conn *conn)
{
	struct buffer *wire = &conn->loop->wire;

	if (wire->failed)
		conn_fail(conn, UV_ENOMEM);
	else if (wire->len > 0)
		conn_send(conn, (struct slice){wire->data, wire->len});
	out_reset(wire);
}

/* Its last words, such as an alert, are written before the connection ends. */
static void fail(struct net_conn *conn)
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

	send_wire(conn);
	if (conn->state == CONN_DEAD)
		return;
	if (state < 0) {
		fail(conn);
		return;
	}
	if (state == NET_FILTER_END) {
		conn_end_input(conn);
		/* Without a byte for the owner the greeting failed; else it ended in this very read. */
		if (filter_greets(filter) && conn->in.len == 0)
			return;
	}
	filter->state = (enum net_filter_state)state;
	if (filter->out.len > 0 && !filter_greets(filter)) {
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
	if (filter_greets(filter)) {
		buffer_add_slice(&filter->out, bytes);
		if (filter->out.failed)
			conn_fail(conn, UV_ENOMEM);
		return;
	}
	filter->has_ended = bytes.len == 0;
	filter->type->write(filter->type, filter->data, bytes, &conn->loop->wire);
	send_wire(conn);
}
