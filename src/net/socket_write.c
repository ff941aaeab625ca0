/*
 * socket_write.c: writes to a connection's socket, queues bytes that it does not accept yet, and
 * empties the buffers that were written.
 */
#include "net/internal.h"

#include <stdlib.h>
#include <string.h>

#define OUTPUT_CAPACITY_MAX ((size_t)1 << 20)

struct write {
	uv_write_t request;
	struct net_conn *conn;
	size_t size; /* with this struct, so that many small writes count for their memory */
	char data[];
};

static void on_written(uv_write_t *request, int status)
{
	struct write *write = (struct write *)request;
	struct net_conn *conn = write->conn;

	conn->queued_bytes -= write->size;
	free(write);
	if (conn->state == CONN_DEAD)
		return;
	conn->progress_at_ms = conn_now_ms(conn);
	if (status < 0)
		conn_fail(conn, status);
	else
		conn_schedule_update(conn);
}

/* Returns 0, or an error of libuv. */
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
		conn->queued_bytes += write->size;
	return status;
}

/* Writes at once if nothing is queued; `n` is the number of bytes written, or an error of libuv. */
void conn_send(struct net_conn *conn, struct slice bytes)
{
	uv_buf_t buf = uv_buf_init((char *)bytes.data, (unsigned)bytes.len);
	int n = UV_EAGAIN;

	if (conn->queued_bytes == 0)
		n = uv_try_write((uv_stream_t *)&conn->tcp, &buf, 1);
	if (n == UV_EAGAIN)
		n = 0;
	if (n > 0)
		conn->progress_at_ms = conn_now_ms(conn);
	if (n >= 0 && (size_t)n < bytes.len)
		n = queue_write(conn, (struct slice){bytes.data + n, bytes.len - (size_t)n});
	if (n < 0)
		conn_fail(conn, n);
}

void output_reset(struct buffer *out)
{
	out->len = 0;
	out->failed = false;
	if (out->capacity > OUTPUT_CAPACITY_MAX)
		buffer_free(out);
}
