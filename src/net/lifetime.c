/* lifetime.c: creates connections, and ends them. */
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
	buffer_free(&filter->out);
	free(filter);
}

struct net_conn *conn_create(struct net_loop *loop, const struct net_kind *kind)
{
	size_t in_max = loop->options.input_max + (kind->filter ? READ_MAX : 0);
	struct net_conn *conn = calloc(1, sizeof *conn + kind->conn_size);

	if (!conn)
		return NULL;
	if ((kind->filter && !(conn->filter = make_filter(kind->filter))) ||
	    uv_tcp_init(&loop->uv, &conn->tcp)) {
		free_filter(conn->filter);
		free(conn);
		return NULL;
	}
	conn->loop = loop;
	conn->kind = kind;
	conn->in.max = in_max;
	conn->active_ms = conn->since_ms = conn->opened_ms = conn_now_ms(conn);
	list_insert(&loop->conns, &conn->node, loop->conns.first);
	return conn;
}

static void on_closed(uv_handle_t *handle)
{
	struct net_conn *conn = (struct net_conn *)handle;
	struct net_loop *loop = conn->loop;

	conn->kind->close(loop->context, conn);
	if (conn->opener)
		*conn->opener = NULL;
	if (loop->writing == conn) { /* output appended since it was killed */
		loop->writing = NULL;
		loop->out.len = 0;
	}
	loop->pending_bytes -= conn->pending_bytes;
	list_remove(&loop->conns, &conn->node);
	if (!conn->is_dialled)
		conn_limit_release(loop, conn->reserved);
	free_filter(conn->filter);
	buffer_free(&conn->in);
	free(conn);
	loop->may_accept = true; /* accepting may have paused for want of a descriptor */
	if (!loop->accepting)
		loop_poll_again(loop);
}

void conn_schedule_update(struct net_conn *conn)
{
	if (conn->update_scheduled || conn->state == CONN_DEAD)
		return;
	if (!conn->loop->to_update)
		loop_poll_again(conn->loop);
	conn->update_scheduled = true;
	conn->next_to_update = conn->loop->to_update;
	conn->loop->to_update = conn;
}

void conn_end_input(struct net_conn *conn)
{
	uv_read_stop((uv_stream_t *)&conn->tcp);
	conn->eof = true;
	conn_schedule_update(conn);
}

void conn_kill(struct net_conn *conn)
{
	if (conn->state == CONN_DEAD)
		return;
	conn->state = CONN_DEAD;
	conn->backlogged = false;
	ready_remove(conn);
	if (conn->reserved)
		reserve_remove(conn);
	uv_close((uv_handle_t *)&conn->tcp, on_closed);
}

void conn_fail(struct net_conn *conn, int error)
{
	if (conn->error == 0)
		conn->error = error;
	conn_kill(conn);
}

void net_conn_finish(struct net_conn *conn)
{
	if (conn->state == CONN_CONNECTING)
		conn_kill(conn);
	if (conn->state == CONN_OPEN)
		conn->state = CONN_FINISHING;
	conn->backlogged = false;
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
