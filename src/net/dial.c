#include "net/internal.h"

#include <stdlib.h>

#include "net/address.h"

struct attempt {
	uv_timer_t deadline; /* first */
	uv_connect_t request;
	struct net_conn *conn;
};

static void free_attempt(uv_handle_t *deadline)
{
	free(deadline);
}

static void on_deadline(uv_timer_t *deadline)
{
	conn_fail(((struct attempt *)deadline)->conn, UV_ETIMEDOUT);
}

/* libuv always calls this, before it closes the connection. */
static void on_connected(uv_connect_t *request, int status)
{
	struct attempt *attempt = request->data;
	struct net_conn *conn = attempt->conn;
	int fd;

	uv_close((uv_handle_t *)&attempt->deadline, free_attempt);
	if (conn->state == CONN_DEAD)
		return;
	if (status == 0)
		status = uv_fileno((uv_handle_t *)&conn->tcp, &fd);
	if (status) {
		conn_fail(conn, status);
		return;
	}
	net_address_tune(fd);
	conn_start(conn);
}

struct net_conn *net_loop_dial(struct net_loop *loop, const struct net_kind *kind,
                               const struct net_address *to, uint64_t timeout_ms)
{
	struct attempt *attempt = loop->phase == LOOP_ENDED ? NULL : calloc(1, sizeof *attempt);
	struct net_conn *conn = attempt ? conn_make(loop, kind) : NULL;
	int status;

	if (!conn) {
		free(attempt);
		return NULL;
	}
	conn->is_dialled = true;
	conn->peer = net_address_ip(to);
	attempt->conn = conn;
	attempt->request.data = attempt;
	uv_update_time(&loop->uv); /* else the timer counts from the beginning of the turn */
	uv_timer_init(&loop->uv, &attempt->deadline);
	uv_timer_start(&attempt->deadline, on_deadline, timeout_ms, 0);
	status = uv_tcp_connect(&attempt->request, &conn->tcp, &to->any, on_connected);
	if (status) {
		uv_close((uv_handle_t *)&attempt->deadline, free_attempt);
		conn_fail(conn, status);
	}
	return conn;
}
