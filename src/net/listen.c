#include "net/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <weir/weir.h>

#include "net/address.h"

/* Connections taken per turn of the loop, so that a storm of them can't starve the others. */
#define ACCEPT_MAX 64

/* Returns false when there is nothing more to accept for now. */
static bool accept_one(struct listen_handle *handle)
{
	struct net_loop *loop = handle->loop;
	struct net_gate *gate = loop->gate;
	struct net_address peer;
	socklen_t size = sizeof peer;
	int fd = accept4(handle->listener.socket, &peer.any, &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
	struct ip ip;

	if (fd < 0) {
		if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
			loop->owner->trouble(loop->context, "can't accept connections", strerror(errno));
			loop_pause_accepting(loop);
			return false;
		}
		return errno != EAGAIN; /* others concern the one connection */
	}
	if (atomic_fetch_add_explicit(&gate->open, 1, memory_order_relaxed) >= gate->max) {
		atomic_fetch_sub_explicit(&gate->open, 1, memory_order_relaxed);
		atomic_fetch_add_explicit(&gate->rejected, 1, memory_order_relaxed);
		close(fd);
		return true;
	}
	ip = net_address_ip(&peer);
	conn_open(loop, &handle->listener, fd, &ip);
	return true;
}

static void on_acceptable(uv_poll_t *poll, int status, int events)
{
	struct listen_handle *handle = (struct listen_handle *)poll;

	(void)status; /* accept says it better */
	(void)events;
	for (int i = 0; i < ACCEPT_MAX && accept_one(handle); i++)
		;
}

void listen_start(struct listen_handle *handle)
{
	uv_poll_start(&handle->poll, UV_READABLE, on_acceptable);
}

static void on_closed(uv_handle_t *handle)
{
	close(((struct listen_handle *)handle)->listener.socket);
}

/* The handle itself stays: connections refer to it. */
void listen_end(struct listen_handle *handle)
{
	for (int i = 0; i < ACCEPT_MAX && accept_one(handle); i++)
		;
	uv_close((uv_handle_t *)&handle->poll, on_closed);
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
	listen_start(handle);
	return WEIR_OK;
}
