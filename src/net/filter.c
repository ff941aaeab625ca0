/*
 * filter.c: passes the bytes of a connection through its filter, such as TLS, which transforms them
 * between the socket and the owner of the connection (the server or client above the event loop).
 * Until the filter's handshake is done, the owner's output is buffered.
 */
#include "net/internal.h"

static void send_filter_output(struct net_conn *conn)
{
	struct buffer *out = &conn->loop->filter_output;

	if (out->failed)
		conn_fail(conn, UV_ENOMEM);
	else if (out->len > 0)
		conn_send(conn, (struct slice){out->data, out->len});
	output_reset(out);
}

/* Ends the connection once the last output of its filter, such as an alert, is written. */
static void end_after_filter_error(struct net_conn *conn)
{
	struct conn_filter *filter = conn->filter;

	conn->error = UV_EPROTO;
	filter->state = NET_FILTER_END;
	filter->has_output_ended = true;
	buffer_free(&filter->handshake_output);
	net_conn_finish(conn);
}

static void write_handshake_output(struct net_conn *conn)
{
	struct buffer out = conn->filter->handshake_output;

	conn->filter->handshake_output = (struct buffer){0};
	filter_write(conn, (struct slice){out.data, out.len});
	buffer_free(&out);
}

/*
 * Whether the end of the peer, which the filter has just read, cuts off the handshake. Input for
 * the owner shows that the handshake was completed in this same read.
 */
static bool handshake_is_cut_off(const struct net_conn *conn)
{
	return filter_is_handshaking(conn->filter) && conn->input.len == 0;
}

/* Has the filter turn bytes of the socket into input for the owner, appended to conn->input. */
void filter_read(struct net_conn *conn, struct slice bytes)
{
	struct conn_filter *filter = conn->filter;
	int state = filter->type->read(filter->type, filter->data, bytes, &conn->input,
	                               &conn->loop->filter_output);

	send_filter_output(conn);
	if (conn->state == CONN_DEAD)
		return;
	if (state < 0) {
		end_after_filter_error(conn);
		return;
	}
	if (state == NET_FILTER_END) {
		conn_end_input(conn);
		if (handshake_is_cut_off(conn))
			return; /* keeps the state, handshaking, in which the owner's output is not sent */
	}
	filter->state = (enum net_filter_state)state;
	if (filter->handshake_output.len > 0 && !filter_is_handshaking(filter))
		write_handshake_output(conn);
}

/* Has the filter turn the owner's output into bytes for the socket; no bytes end the output. */
void filter_write(struct net_conn *conn, struct slice bytes)
{
	struct conn_filter *filter = conn->filter;

	if (filter->has_output_ended)
		return;
	if (filter_is_handshaking(filter)) {
		buffer_add_slice(&filter->handshake_output, bytes);
		if (filter->handshake_output.failed)
			conn_fail(conn, UV_ENOMEM);
		return;
	}
	filter->has_output_ended = bytes.len == 0;
	filter->type->write(filter->type, filter->data, bytes, &conn->loop->filter_output);
	send_filter_output(conn);
}
