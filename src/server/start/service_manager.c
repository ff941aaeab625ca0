/*
 * service_manager.c: implements sd_notify(3): sends a datagram of text to the socket that
 * NOTIFY_SOCKET names. A name that begins with @ is in the abstract name space.
 */
#include "server/start/service_manager.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/os/os.h"

void service_manager_notify(const char *state)
{
	const char *name = getenv("NOTIFY_SOCKET");
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	size_t len = name ? strlen(name) : 0;
	int fd;

	if (len < 2 || len > sizeof address.sun_path || (*name != '/' && *name != '@'))
		return;
	memcpy(address.sun_path, name, len);
	if (*name == '@')
		address.sun_path[0] = '\0';
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return;
	sendto(fd, state, strlen(state), MSG_NOSIGNAL, (const struct sockaddr *)&address,
	       (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len));
	close(fd);
}

void service_manager_notify_reloading(void)
{
	char state[64];

	snprintf(state, sizeof state, "RELOADING=1\nMONOTONIC_USEC=%llu",
	         (unsigned long long)(os_monotonic_ns() / 1000));
	service_manager_notify(state);
}
