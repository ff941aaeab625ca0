/*
 * lifetime.c: creates the connections of an event loop, and ends them: at once, or when their last
 * output is written.
 */
#include "net/internal.h"

#include <stdlib.h>

static struct conn_filter *make_filter(const struct net_filter *type)
{
	struct conn_filter *filter = calloc(1, sizeof *filter + type->size);

	if (filter) {
		filter->type = type;
		filter->state = NET_FILTER_HANDSHAKE;
	}
	return filter;
}

static void free_filter(struct conn_filter *filter)
{
	if (!filter)
		return;
	if (filter->type->close)
		filter->type->close(filter->type, filter->data);
	buffer_free(&filter->handshake_output);
	free(filter);
}

/*
 * Makes a connection, to which accepting or connecting adds the socket. Returns NULL if there is no
 * memory.
 */
struct net_conn *conn_create(struct net_loop *loop, const struct net_kind *kind)
{
	/* A filter may deliver all that one read had in addition to what is there. */
	size_t input_max = loop->options.input_max + (kind->filter ? READ_MAX : 0);
	struct net_conn *conn = calloc(1, sizeof *conn + kind->conn_size);

	if (!conn)
		return NULL;
	conn->filter = kind->filter ? make_filter(kind->filter) : NULL;
	if ((kind->filter && !conn->filter) || uv_tcp_init(&loop->uv, &conn->tcp)) {
		free_filter(conn->filter);
		free(conn);
		return NULL;
	}
	conn->loop = loop;
	conn->kind = kind;
	conn->input.max = input_max;
	conn->progress_at_ms = conn->request_since_ms = conn->opened_at_ms = conn_now_ms(conn);
	list_insert(&loop->conns, &conn->conns_node, loop->conns.first);
	return conn;
}

/* Frees the connection; libuv has closed its socket and uses the handle no more. */
static void on_closed(uv_handle_t *handle)
{
	struct net_conn *conn = (struct net_conn *)handle;
	struct net_loop *loop = conn->loop;

	conn->kind->close(loop->context, conn);
	if (conn->weak_ref)
		*conn->weak_ref = NULL;
	if (loop->out_conn == conn) { /* drops output that was appended after it was killed */
		loop->out_conn = NULL;
		loop->out.len = 0;
	}
	loop->pending_bytes -= conn->pending_bytes;
	list_remove(&loop->conns, &conn->conns_node);
	if (!conn->is_dialled)
		conn_limit_release(loop, conn->in_reserve);
	free_filter(conn->filter);
	buffer_free(&conn->input);
	free(conn);
	loop->retry_accept = true; /* accepting may have paused because no descriptor was free */
	if (!loop->is_accepting)
		loop_poll_again(loop);
}

/* Links the connection into the list that loop_process updates at the end of the batch. */
void conn_schedule_update(struct net_conn *conn)
{
	if (conn->has_update_scheduled || conn->state == CONN_DEAD)
		return;
	if (!conn->loop->first_to_update)
		loop_poll_again(conn->loop);
	conn->has_update_scheduled = true;
	conn->next_to_update = conn->loop->first_to_update;
	conn->loop->first_to_update = conn;
}

void conn_end_input(struct net_conn *conn)
{
	uv_read_stop((uv_stream_t *)&conn->tcp);
	conn->eof = true;
	conn_schedule_update(conn);
}

/* Closes the socket at once; on_closed frees the connection later. */
void conn_kill(struct net_conn *conn)
{
	if (conn->state == CONN_DEAD)
		return;
	conn->state = CONN_DEAD;
	conn->has_backlog = false;
	backlogs_remove(conn);
	if (conn->in_reserve)
		reserve_remove(conn);
	uv_close((uv_handle_t *)&conn->tcp, on_closed);
}

void conn_fail(struct net_conn *conn, int error)
{
	if (conn->error == 0)
		conn->error = error;
	conn_kill(conn);
}

/* Has an open connection closed by an update after a batch, once all its replies are written. */
void net_conn_finish(struct net_conn *conn)
{
	if (conn->state == CONN_CONNECTING)
		conn_kill(conn);
	if (conn->state == CONN_OPEN)
		conn->state = CONN_FINISHING;
	conn->has_backlog = false;
	conn_schedule_update(conn);
}

void net_conn_abort(struct net_conn *conn)
{
	conn_kill(conn);
}

const char *net_conn_error(const struct net_conn *conn)
{
	return conn->error ? uv_strerror(conn->error) : NULL;
}
