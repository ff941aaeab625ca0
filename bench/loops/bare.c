/*
 * bare: a server that does the least possible, to compare ours with: one thread, level-triggered
 * epoll, one read and one write for each ready connection. Ends on SIGTERM.
 */
#include <sys/epoll.h>

#include "fixed.h"

#define EVENTS 64

static struct fixed fixed;

static void watch(int epoll, int fd)
{
	struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};

	fixed_check(fd >= 0 && epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0, "watch");
}

int main(int argc, char **argv)
{
	struct epoll_event events[EVENTS];
	int epoll = epoll_create1(0);

	fixed_open(&fixed, argc, argv);
	watch(epoll, fixed.listener);
	for (;;) {
		int n = epoll_wait(epoll, events, EVENTS, -1);

		for (int i = 0; i < n; i++) {
			int fd = events[i].data.fd;

			if (fd == fixed.listener)
				watch(epoll, accept4(fd, NULL, NULL, SOCK_NONBLOCK));
			else if (!fixed_serve(&fixed, fd))
				close(fd);
		}
	}
}
