/*
 * descriptor.c: polls a file descriptor that belongs to a library, such as a client of Redis, and
 * runs one timer for it, so that the library can work within the event loop.
 */
#include "net/internal.h"

#include <stdlib.h>

#include <weir/weir.h>

struct net_descriptor {
	uv_poll_t poll; /* first */
	uv_timer_t timer;
	struct net_loop *loop;
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

static void on_timer_expired(uv_timer_t *timer)
{
	struct net_descriptor *descriptor = timer->data;

	/* The loop's owner works on the results after the next poll, which must not block for that. */
	loop_poll_again(descriptor->loop);
	descriptor->ready(descriptor->context, NET_TIMER_EXPIRED);
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
	uv_timer_init(&loop->uv, &descriptor->timer);
	descriptor->timer.data = descriptor;
	descriptor->loop = loop;
	descriptor->ready = ready;
	descriptor->context = context;
	/* So that the loop can end although the descriptor is open. */
	uv_unref((uv_handle_t *)&descriptor->poll);
	uv_unref((uv_handle_t *)&descriptor->timer);
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

/* `after_ms` 0 stops the timer. */
void net_descriptor_set_timer(struct net_descriptor *descriptor, uint64_t after_ms)
{
	uv_update_time(&descriptor->loop->uv);
	if (after_ms > 0)
		uv_timer_start(&descriptor->timer, on_timer_expired, after_ms, 0);
	else
		uv_timer_stop(&descriptor->timer);
}

static void on_timer_closed(uv_handle_t *timer)
{
	free(timer->data);
}

static void on_poll_closed(uv_handle_t *poll)
{
	uv_close((uv_handle_t *)&((struct net_descriptor *)poll)->timer, on_timer_closed);
}

void net_descriptor_close(struct net_descriptor *descriptor)
{
	uv_timer_stop(&descriptor->timer);
	uv_close((uv_handle_t *)&descriptor->poll, on_poll_closed);
}
