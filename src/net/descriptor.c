/*
 * descriptor.c: polls a file descriptor that belongs to a library, such as a client of Redis, so
 * that the library can work within the event loop.
 */
#include "net/internal.h"

#include <stdlib.h>

#include <weir/weir.h>

struct net_descriptor {
	uv_poll_t poll; /* first */
	unsigned polled_events;
	void (*ready)(void *context, unsigned events);
	void *context;
};

_Static_assert((int)NET_READABLE == (int)UV_READABLE && (int)NET_WRITABLE == (int)UV_WRITABLE, "");

/* After an error the library gets all events that it polls for, so that it finds the error. */
static void on_ready(uv_poll_t *poll, int status, int events)
{
	struct net_descriptor *descriptor = (struct net_descriptor *)poll;

	descriptor->ready(descriptor->context,
	                  status < 0 ? descriptor->polled_events : (unsigned)events);
}

/* Returns 0, or an error code of weir.h. `ready` gets the events that occur. */
int net_descriptor_open(struct net_descriptor **out, struct net_loop *loop, int fd,
                        void (*ready)(void *context, unsigned events), void *context)
{
	struct net_descriptor *descriptor = calloc(1, sizeof *descriptor);

	*out = NULL;
	if (!descriptor)
		return WEIR_ENOMEM;
	if (uv_poll_init(&loop->uv, &descriptor->poll, fd)) {
		free(descriptor);
		return WEIR_EIO;
	}
	descriptor->ready = ready;
	descriptor->context = context;
	/* So that the loop can end although the descriptor is open. */
	uv_unref((uv_handle_t *)&descriptor->poll);
	*out = descriptor;
	return WEIR_OK;
}

void net_descriptor_set_events(struct net_descriptor *descriptor, unsigned events)
{
	descriptor->polled_events = events;
	if (events)
		uv_poll_start(&descriptor->poll, (int)events, on_ready);
	else
		uv_poll_stop(&descriptor->poll);
}

static void on_closed(uv_handle_t *poll)
{
	free(poll);
}

void net_descriptor_close(struct net_descriptor *descriptor)
{
	uv_close((uv_handle_t *)&descriptor->poll, on_closed);
}
