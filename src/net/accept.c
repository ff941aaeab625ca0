#include "net/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <weir/weir.h>

#include "net/address.h"

/* Connections accepted in one turn: a storm of them must not starve the others. */
#define ACCEPT_MAX 64
/* The same for the reserve: each must be read before it makes room for others. */
#define RESERVE_SHARE (NET_RESERVE / 4)

/* The cause of an error of accept(). */
enum trouble {
	TROUBLE_CONNECTION, /* the connection; it is gone */
	TROUBLE_RESOURCES,  /* the system: it has none left for now */
	TROUBLE_LISTENER,   /* the listener: it will never accept again */
};

static enum trouble trouble_of(int error)
{
	switch (error) {
	case EMFILE:
	case ENFILE:
	case ENOBUFS:
	case ENOMEM:
	case EPERM: /* a firewall refuses this one, or a seccomp filter all */
		return TROUBLE_RESOURCES;
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
		return TROUBLE_CONNECTION;
	default:
		return TROUBLE_LISTENER;
	}
}

static void close_listener(struct listen_handle *handle);

static bool is_closed(const struct listen_handle *handle)
{
	return uv_is_closing((const uv_handle_t *)&handle->poll);
}

static void accept_pause(struct net_loop *loop)
{
	loop->accepting = false;
	for (struct listen_handle *handle = loop->listeners; handle; handle = handle->next)
		if (!is_closed(handle))
			uv_poll_stop(&handle->poll);
}

/* Returns false when there is nothing more to accept for now. */
static bool accept_failed(struct listen_handle *handle, int error)
{
	struct net_loop *loop = handle->loop;

	if (error == EAGAIN)
		return false;
	switch (trouble_of(error)) {
	case TROUBLE_CONNECTION:
		return true;
	case TROUBLE_RESOURCES:
		loop->owner->trouble(loop->context, "can't accept connections", strerror(error));
		accept_pause(loop);
		return false;
	case TROUBLE_LISTENER:
		loop->owner->trouble(loop->context, "can't accept connections any more", strerror(error));
		close_listener(handle);
		return false;
	}
	return false;
}

/* Returns false when there is nothing more to accept for now. */
static bool accept_one(struct listen_handle *handle)
{
	struct net_loop *loop = handle->loop;
	struct net_address peer;
	socklen_t size = sizeof peer.local; /* the longest */
	int fd = accept4(handle->listener.socket, &peer.any, &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
	struct ip ip;

	if (fd < 0)
		return accept_failed(handle, errno);
	ip = net_address_ip(&peer);
	conn_open(loop, &handle->listener.kind, fd, &ip, !gate_take(loop));
	return true;
}

static void on_acceptable(uv_poll_t *poll, int status, int events)
{
	struct listen_handle *handle = (struct listen_handle *)poll;

	(void)status; /* accept() tells the error */
	(void)events;
	for (int i = 0; i < (gate_is_full(handle->loop->gate) ? RESERVE_SHARE : ACCEPT_MAX); i++)
		if (!accept_one(handle))
			break;
}

static void start(struct listen_handle *handle)
{
	if (!is_closed(handle))
		uv_poll_start(&handle->poll, UV_READABLE, on_acceptable);
}

static void on_closed(uv_handle_t *handle)
{
	close(((struct listen_handle *)handle)->listener.socket);
}

/* The handle itself stays: connections refer to it. */
static void close_listener(struct listen_handle *handle)
{
	uv_close((uv_handle_t *)&handle->poll, on_closed);
}

/* Accepts the connections that the kernel has already made, then closes. */
static void end(struct listen_handle *handle)
{
	if (is_closed(handle))
		return;
	for (int i = 0; i < ACCEPT_MAX && accept_one(handle); i++)
		;
	if (!is_closed(handle))
		close_listener(handle);
}

void accept_end(struct net_loop *loop)
{
	loop->accepting = false;
	for (struct listen_handle *handle = loop->listeners; handle; handle = handle->next)
		end(handle);
}

void accept_resume(struct net_loop *loop)
{
	loop->may_accept = false;
	if (loop->accepting || loop->phase != LOOP_RUNNING)
		return;
	loop->accepting = true;
	for (struct listen_handle *handle = loop->listeners; handle; handle = handle->next)
		start(handle);
}

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
	start(handle);
	return WEIR_OK;
}
