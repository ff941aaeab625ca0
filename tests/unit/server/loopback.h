/*
 * loopback.h: opens a listener of a worker on the loopback address, and connects clients to it.
 * Include cmocka.h before it.
 */
#ifndef TEST_SERVER_LOOPBACK_H
#define TEST_SERVER_LOOPBACK_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

static inline int listen_somewhere(struct sockaddr_in *address)
{
	socklen_t len = sizeof *address;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);

	*address = (struct sockaddr_in){.sin_family = AF_INET};
	address->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(bind(fd, (struct sockaddr *)address, sizeof *address), 0);
	assert_int_equal(listen(fd, 1000), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)address, &len), 0);
	return fd;
}

static inline int dial_to(const struct sockaddr_in *address)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	assert_int_equal(connect(fd, (const struct sockaddr *)address, sizeof *address), 0);
	return fd;
}

#endif
