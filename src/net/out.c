#include "net/internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/number.h"

#define OUT_KEEP ((size_t)1 << 20)
/* The room of a connection when the loop has none for more than one answer of each. */
#define ONE_ANSWER ((size_t)1 << 10)

struct write {
	uv_write_t request;
	struct net_conn *conn;
	size_t size; /* of this struct too: small writes must not hide its cost */
	char data[];
};

static void on_written(uv_write_t *request, int status)
{
	struct write *write = (struct write *)request;
	struct net_conn *conn = write->conn;

	conn->queued -= write->size;
	free(write);
	if (conn->state == CONN_DEAD)
		return;
	conn->active_ms = conn_now_ms(conn);
	if (status < 0)
		conn_fail(conn, status);
	else if (!conn->touched)
		conn_update(conn);
}

/* 0, or an error of libuv. */
static int queue_write(struct net_conn *conn, struct slice bytes)
{
	struct write *write = malloc(sizeof *write + bytes.len);
	uv_buf_t buf;
	int status;

	if (!write)
		return UV_ENOMEM;
	write->conn = conn;
	write->size = sizeof *write + bytes.len;
	memcpy(write->data, bytes.data, bytes.len);
	buf = uv_buf_init(write->data, (unsigned)bytes.len);
	status = uv_write(&write->request, (uv_stream_t *)&conn->tcp, &buf, 1, on_written);
	if (status)
		free(write);
	else
		conn->queued += write->size;
	return status;
}

void conn_send(struct net_conn *conn, struct slice bytes)
{
	uv_buf_t buf = uv_buf_init((char *)bytes.data, (unsigned)bytes.len);
	int n = UV_EAGAIN;

	if (conn->queued == 0)
		n = uv_try_write((uv_stream_t *)&conn->tcp, &buf, 1);
	if (n == UV_EAGAIN)
		n = 0;
	if (n > 0)
		conn->active_ms = conn_now_ms(conn);
	if (n >= 0 && (size_t)n < bytes.len)
		n = queue_write(conn, (struct slice){bytes.data + n, bytes.len - (size_t)n});
	if (n < 0)
		conn_fail(conn, n);
}

void out_reset(struct buffer *out)
{
	out->len = 0;
	out->failed = false;
	if (out->capacity > OUT_KEEP)
		buffer_free(out);
}

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
