/* libevent: the bare server on libevent: events of sockets, level-triggered, no bufferevents. */
#include <event2/event.h>

#include "fixed.h"

static struct fixed fixed;

static void on_readable(evutil_socket_t fd, short what, void *argument)
{
	struct event *event = *(struct event **)argument;

	(void)what;
	if (fixed_serve(&fixed, fd))
		return;
	event_free(event);
	free(argument);
	close(fd);
}

static void on_acceptable(evutil_socket_t listener, short what, void *base)
{
	int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
	struct event **event = malloc(sizeof *event);

	(void)what;
	fixed_check(fd >= 0 && event &&
	                (*event = event_new(base, fd, EV_READ | EV_PERSIST, on_readable, event)) &&
	                event_add(*event, NULL) == 0,
	            "accept");
}

int main(int argc, char **argv)
{
	struct event_config *config = event_config_new();
	struct event_base *base;
	struct event *listen;

	fixed_open(&fixed, argc, argv);
	event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK);
	base = event_base_new_with_config(config);
	fixed_check(base && (listen = event_new(base, fixed.listener, EV_READ | EV_PERSIST,
	                                        on_acceptable, base)) &&
	                event_add(listen, NULL) == 0,
	            "watch");
	return event_base_dispatch(base);
}
