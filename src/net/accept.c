/*
 * accept.c: accepts connections at the listening sockets of an event loop. It pauses when the
 * system has no descriptor or memory left, until a connection ends or the next tick.
 */
#include "net/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <weir/weir.h>

#include "net/address.h"

/* Connections accepted in one iteration, so that many new ones do not delay the open ones. */
#define ACCEPT_MAX 64
/* The same when the limit of connections is reached: then only the small reserve takes them, and
 * each must be read before another one replaces it. */
#define ACCEPT_INTO_RESERVE_MAX (NET_RESERVE / 4)

/* The cause of a failed accept(). */
enum accept_failure {
	FAILURE_OF_CONNECTION, /* the connection has already ended */
	FAILURE_OF_RESOURCES,  /* the system has no resources for now */
	FAILURE_OF_LISTENER,   /* the listener will never accept again */
};

static enum accept_failure classify_error(int error)
{
	switch (error) {
	case EMFILE:
	case ENFILE:
	case ENOBUFS:
	case ENOMEM:
	case EPERM: /* a firewall refuses this connection, or a seccomp filter all of them */
		return FAILURE_OF_RESOURCES;
	case ECONNABORTED:
	case EINTR:
	case EPROTO:
	case ENOPROTOOPT:
	case ENETDOWN:
	case ENETUNREACH:
	case EHOSTDOWN:
	case EHOSTUNREACH:
	case ENONET:
	case ETIMEDOUT:
		return FAILURE_OF_CONNECTION;
	default:
		return FAILURE_OF_LISTENER;
	}
}

static void close_listener(struct listen_handle *handle);

static bool is_closed(const struct listen_handle *handle)
{
	return uv_is_closing((const uv_handle_t *)&handle->poll);
}

static void pause_accepting(struct net_loop *loop)
{
	loop->is_accepting = false;
	for (struct listen_handle *handle = loop->listeners; handle; handle = handle->next)
		if (!is_closed(handle))
			uv_poll_stop(&handle->poll);
}

/* Returns whether to go on accepting. */
static bool handle_accept_error(struct listen_handle *handle, int error)
{
	struct net_loop *loop = handle->loop;

	if (error == EAGAIN)
		return false;
	switch (classify_error(error)) {
	case FAILURE_OF_CONNECTION:
		return true;
	case FAILURE_OF_RESOURCES:
		loop->owner->warn(loop->context, "can't accept connections", strerror(error));
		pause_accepting(loop);
		return false;
	case FAILURE_OF_LISTENER:
		loop->owner->warn(loop->context, "can't accept connections any more", strerror(error));
		close_listener(handle);
		return false;
	}
	return false;
}

/* Returns whether to go on accepting: false if no connection is queued, or after an error. */
static bool accept_one(struct listen_handle *handle)
{
	struct net_loop *loop = handle->loop;
	struct net_address peer;
	socklen_t size = sizeof peer.local; /* the longest kind of address */
	int fd = accept4(handle->listener.socket, &peer.any, &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
	struct ip ip;
	bool in_reserve;

	if (fd < 0)
		return handle_accept_error(handle, errno);
	ip = net_address_ip(&peer);
	in_reserve = !conn_limit_acquire(loop);
	conn_open(loop, &handle->listener.kind, fd, &ip, in_reserve);
	return true;
}

/* The bound is read anew for each connection, because accepting may reach the limit. */
static int accept_max(const struct net_loop *loop)
{
	return conn_limit_is_reached(loop->conn_limit) ? ACCEPT_INTO_RESERVE_MAX : ACCEPT_MAX;
}

static void on_acceptable(uv_poll_t *poll, int status, int events)
{
	struct listen_handle *handle = (struct listen_handle *)poll;

	(void)status; /* accept() returns the error */
	(void)events;
	for (int i = 0; i < accept_max(handle->loop); i++)
		if (!accept_one(handle))
			break;
}

static void start_listener(struct listen_handle *handle)
{
	if (!is_closed(handle))
		uv_poll_start(&handle->poll, UV_READABLE, on_acceptable);
}

static void on_closed(uv_handle_t *handle)
{
	close(((struct listen_handle *)handle)->listener.socket);
}

/* The handle is not freed: connections refer to it. */
static void close_listener(struct listen_handle *handle)
{
	uv_close((uv_handle_t *)&handle->poll, on_closed);
}

/* Accepts the connections that the kernel has already made, then closes the listener. */
static void end_listener(struct listen_handle *handle)
{
	if (is_closed(handle))
		return;
	for (int i = 0; i < ACCEPT_MAX && accept_one(handle); i++)
		;
	if (!is_closed(handle))
		close_listener(handle);
}

/* Closes all listeners, because the loop stops. */
void accept_close_listeners(struct net_loop *loop)
{
	loop->is_accepting = false;
	for (struct listen_handle *handle = loop->listeners; handle; handle = handle->next)
		end_listener(handle);
}

/* Polls the listeners again after pause_accepting, unless the loop stops. */
void accept_resume(struct net_loop *loop)
{
	loop->retry_accept = false;
	if (loop->is_accepting || loop->phase != LOOP_RUNNING)
		return;
	loop->is_accepting = true;
	for (struct listen_handle *handle = loop->listeners; handle; handle = handle->next)
		start_listener(handle);
}

/* Takes over the socket of `listener`, also on error. */
int net_loop_listen(struct net_loop *loop, const struct net_listener *listener)
{
	struct listen_handle *handle = calloc(1, sizeof *handle);
	int status = handle ? uv_poll_init(&loop->uv, &handle->poll, listener->socket) : UV_ENOMEM;

	if (status) {
		close(listener->socket);
		free(handle);
		return status == UV_ENOMEM ? WEIR_ENOMEM : WEIR_EIO;
	}
	handle->loop = loop;
	handle->listener = *listener;
	handle->next = loop->listeners;
	loop->listeners = handle;
	start_listener(handle);
	return WEIR_OK;
}
