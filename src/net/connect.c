/* connect.c: connects to a TCP address or a Unix socket from within the event loop. */
#include "net/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "net/address.h"

struct attempt {
	uv_timer_t timer; /* first; the deadline of TCP, or the time to call `open` of a Unix socket */
	uv_connect_t request;
	struct net_conn *conn; /* of a Unix socket: NULL when the connection has ended */
};

static void free_attempt(uv_handle_t *timer)
{
	free(timer);
}

static void on_deadline(uv_timer_t *timer)
{
	conn_fail(((struct attempt *)timer)->conn, UV_ETIMEDOUT);
}

/* The attempt has succeeded or failed. libuv always calls this before it closes the connection. */
static void on_tcp_connected(uv_connect_t *request, int status)
{
	struct attempt *attempt = request->data;
	struct net_conn *conn = attempt->conn;
	int fd;

	uv_close((uv_handle_t *)&attempt->timer, free_attempt);
	if (conn->state == CONN_DEAD)
		return;
	if (status == 0)
		status = uv_fileno((uv_handle_t *)&conn->tcp, &fd);
	if (status) {
		conn_fail(conn, status);
		return;
	}
	net_address_set_tcp_options(fd);
	conn_start(conn);
}

/*
 * Starts a connection whose Unix socket the kernel has connected at once. It is done from a timer,
 * so that the owner is called back from the loop, and not within net_loop_dial.
 */
static void on_unix_connected(uv_timer_t *timer)
{
	struct net_conn *conn = ((struct attempt *)timer)->conn;

	uv_close((uv_handle_t *)timer, free_attempt);
	if (!conn)
		return;
	conn->weak_ref = NULL;
	loop_poll_again(conn->loop); /* the owner works after the next poll, which must not block */
	if (conn->state != CONN_DEAD)
		conn_start(conn);
}

/* Returns 0, or an error of libuv. */
static int connect_unix(struct attempt *attempt, const struct net_address *to)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	int status;

	if (fd < 0)
		return uv_translate_sys_error(errno);
	status = connect(fd, &to->any, net_address_size(to)) ? uv_translate_sys_error(errno)
	                                                     : uv_tcp_open(&attempt->conn->tcp, fd);
	if (status) {
		close(fd);
		return status;
	}
	attempt->conn->weak_ref = &attempt->conn;
	uv_timer_start(&attempt->timer, on_unix_connected, 0, 0);
	return 0;
}

/* Returns 0, or an error of libuv. */
static int connect_tcp(struct attempt *attempt, const struct net_address *to, uint64_t timeout_ms)
{
	/* Otherwise the timeout would run from the beginning of the iteration. */
	uv_update_time(&attempt->conn->loop->uv);
	uv_timer_start(&attempt->timer, on_deadline, timeout_ms, 0);
	return uv_tcp_connect(&attempt->request, &attempt->conn->tcp, &to->any, on_tcp_connected);
}

/*
 * Returns NULL if there is no memory, or if the loop has ended. If connecting fails, the owner's
 * `close` reports it later.
 */
struct net_conn *net_loop_dial(struct net_loop *loop, const struct net_kind *kind,
                               const struct net_address *to, uint64_t timeout_ms)
{
	struct attempt *attempt = loop->phase == LOOP_ENDED ? NULL : calloc(1, sizeof *attempt);
	struct net_conn *conn = attempt ? conn_create(loop, kind) : NULL;
	int status;

	if (!conn) {
		free(attempt);
		return NULL;
	}
	conn->is_dialled = true;
	conn->peer = net_address_ip(to);
	attempt->conn = conn;
	attempt->request.data = attempt;
	uv_timer_init(&loop->uv, &attempt->timer);
	status =
	    net_address_is_unix(to) ? connect_unix(attempt, to) : connect_tcp(attempt, to, timeout_ms);
	if (status) {
		uv_close((uv_handle_t *)&attempt->timer, free_attempt);
		conn_fail(conn, status);
	}
	return conn;
}
