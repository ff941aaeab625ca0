#include "net/internal.h"

#include <stdlib.h>

#include <weir/weir.h>

struct net_watch {
	uv_poll_t poll; /* first */
	uv_timer_t timer;
	struct net_loop *loop;
	unsigned events; /* that are asked for */
	void (*ready)(void *context, unsigned events);
	void *context;
};

_Static_assert((int)NET_READABLE == (int)UV_READABLE && (int)NET_WRITABLE == (int)UV_WRITABLE, "");

static void on_ready(uv_poll_t *poll, int status, int events)
{
	struct net_watch *watch = (struct net_watch *)poll;

	watch->ready(watch->context, status < 0 ? watch->events : (unsigned)events);
}

static void on_time(uv_timer_t *timer)
{
	struct net_watch *watch = timer->data;

	round_go_on(watch->loop); /* timers come before the poll, and a turn behind it */
	watch->ready(watch->context, NET_TIME);
}

int net_watch_open(struct net_watch **out, struct net_loop *loop, int fd,
                   void (*ready)(void *context, unsigned events), void *context)
{
	struct net_watch *watch = calloc(1, sizeof *watch);

	*out = NULL;
	if (!watch)
		return WEIR_ENOMEM;
	if (uv_poll_init(&loop->uv, &watch->poll, fd)) {
		free(watch);
		return WEIR_EIO;
	}
	uv_timer_init(&loop->uv, &watch->timer);
	watch->timer.data = watch;
	watch->loop = loop;
	watch->ready = ready;
	watch->context = context;
	/* The loop does not go on for their sake. */
	uv_unref((uv_handle_t *)&watch->poll);
	uv_unref((uv_handle_t *)&watch->timer);
	*out = watch;
	return WEIR_OK;
}

void net_watch_for(struct net_watch *watch, unsigned events)
{
	watch->events = events;
	if (events)
		uv_poll_start(&watch->poll, (int)events, on_ready);
	else
		uv_poll_stop(&watch->poll);
}

void net_watch_alarm(struct net_watch *watch, uint64_t after_ms)
{
	uv_update_time(&watch->loop->uv);
	if (after_ms > 0)
		uv_timer_start(&watch->timer, on_time, after_ms, 0);
	else
		uv_timer_stop(&watch->timer);
}

static void on_timer_closed(uv_handle_t *timer)
{
	free(timer->data);
}

static void on_poll_closed(uv_handle_t *poll)
{
	uv_close((uv_handle_t *)&((struct net_watch *)poll)->timer, on_timer_closed);
}

void net_watch_close(struct net_watch *watch)
{
	uv_timer_stop(&watch->timer);
	uv_close((uv_handle_t *)&watch->poll, on_poll_closed);
}
