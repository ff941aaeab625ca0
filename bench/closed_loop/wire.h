/*
 * wire.h: declares the frames by which load, gate and server talk, and their sockets.
 *
 * load -> gate -> server, each over a thousand connections, a frame each way at a time. The gate
 * holds the limiter, in the language of its library.
 */
#ifndef CLOSED_LOOP_WIRE_H
#define CLOSED_LOOP_WIRE_H

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "simulate/closed_loop/draw.h"

#define CONNECTIONS_MAX 4096
#define SECOND_NS       UINT64_C(1000000000)

enum status { STATUS_ANSWERED, STATUS_DENIED, STATUS_FAILED };

/* A request or an answer. Numbers are little-endian. */
struct frame {
	uint64_t number;  /* request: the client's number in the upper half, the request's in the lower;
	                     answer: the service time without others, in ns */
	uint32_t limit;   /* the gate's limit at the answer, or 0 */
	uint16_t inside;  /* requests in the server when this one came */
	uint8_t status;   /* enum status */
	uint8_t priority; /* 0 is the highest */
};

_Static_assert(sizeof(struct frame) == 16, "the same in each language");

static inline uint64_t clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * SECOND_NS + (uint64_t)now.tv_nsec;
}

_Noreturn static inline void die(const char *what)
{
	perror(what);
	exit(1);
}

static inline struct sockaddr_in loopback(unsigned port)
{
	return (struct sockaddr_in){.sin_family = AF_INET,
	                            .sin_port = htons((uint16_t)port),
	                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

/* Listens on a port, or on a free one if `port` is 0. Prints which. */
static inline int listen_on(unsigned port)
{
	struct sockaddr_in address = loopback(port);
	socklen_t length = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, (struct sockaddr *)&address, length) != 0 || listen(fd, CONNECTIONS_MAX) != 0)
		die("listen");
	getsockname(fd, (struct sockaddr *)&address, &length);
	fprintf(stderr, "listening: frames 127.0.0.1:%d\n", ntohs(address.sin_port));
	return fd;
}

/* Returns -1 if nobody listens there. */
static inline int connect_to(unsigned port)
{
	struct sockaddr_in address = loopback(port);
	int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;

	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0) {
		close(fd);
		return -1;
	}
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return fd;
}

static inline bool send_frame(int fd, const struct frame *frame)
{
	return send(fd, frame, sizeof(*frame), MSG_NOSIGNAL) == (ssize_t)sizeof(*frame);
}

static inline bool receive_frame(int fd, struct frame *frame)
{
	return recv(fd, frame, sizeof(*frame), MSG_WAITALL) == (ssize_t)sizeof(*frame);
}

#endif
