/*
 * bare_server: the least that a server can do, for ours to be compared with.
 *
 *     bare_server resp|http
 *
 * One thread, level-triggered epoll, one read and one write for each ready
 * connection, the same answer to everything. It understands no more than how
 * many requests a read holds, and takes each to arrive whole, as those of the
 * load generators on one machine do. Ends on SIGTERM.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define EVENTS 64

#define JSON                                                                                       \
	"{\"allowed\":true,\"limit\":\"bench\",\"quota\":1000000,\"remaining\":999999,"                \
	"\"retry_after_ms\":0,\"reset_after_ms\":1,\"reason\":\"ok\"}"
#define JSON_LEN "119"
_Static_assert(sizeof JSON - 1 == 119, "JSON_LEN");

struct mode {
	const char *name;
	const char *mark; /* once in each request */
	const char *reply;
};

static const struct mode modes[] = {
    {"resp", "*", "*5\r\n:0\r\n:16\r\n:15\r\n:-1\r\n:2\r\n"},
    {"http", "\r\n\r\n",
     "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: " JSON_LEN "\r\n"
     "RateLimit-Policy: \"bench\";q=1000000;w=1\r\nRateLimit: \"bench\";r=999999;t=1\r\n\r\n" JSON},
};

static char in[65536];
static char out[1 << 20];

static size_t count_requests(const struct mode *mode, const char *data, size_t len)
{
	size_t mark_len = strlen(mode->mark), n = 0;
	const char *end = data + len;

	while ((data = memmem(data, (size_t)(end - data), mode->mark, mark_len)) != NULL) {
		data += mark_len;
		n++;
	}
	return n;
}

static void serve(const struct mode *mode, int fd)
{
	size_t reply_len = strlen(mode->reply), len = 0;
	ssize_t got = read(fd, in, sizeof in);

	if (got <= 0) {
		close(fd);
		return;
	}
	for (size_t n = count_requests(mode, in, (size_t)got); n > 0 && len + reply_len <= sizeof out;
	     n--) {
		memcpy(out + len, mode->reply, reply_len);
		len += reply_len;
	}
	if (len > 0 && write(fd, out, len) != (ssize_t)len)
		close(fd);
}

static int listen_somewhere(const struct mode *mode)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof address;
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&address, len) != 0 || listen(fd, SOMAXCONN) != 0 ||
	    getsockname(fd, (struct sockaddr *)&address, &len) != 0) {
		perror("bare_server: listen");
		exit(1);
	}
	fprintf(stderr, "listening: %s 127.0.0.1:%d\n", mode->name, ntohs(address.sin_port));
	return fd;
}

static void watch(int epoll, int fd)
{
	struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};

	if (fd < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) != 0) {
		perror("bare_server: watch");
		exit(1);
	}
}

int main(int argc, char **argv)
{
	const struct mode *mode = modes;
	struct epoll_event events[EVENTS];
	int listener, epoll = epoll_create1(0), on = 1;

	while (mode < modes + 2 && (argc != 2 || strcmp(argv[1], mode->name) != 0))
		mode++;
	if (mode == modes + 2) {
		fprintf(stderr, "usage: bare_server resp|http\n");
		return 2;
	}
	listener = listen_somewhere(mode);
	watch(epoll, listener);
	for (;;) {
		int n = epoll_wait(epoll, events, EVENTS, -1);

		for (int i = 0; i < n; i++) {
			if (events[i].data.fd != listener) {
				serve(mode, events[i].data.fd);
				continue;
			}
			int fd = accept(listener, NULL, NULL);

			setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
			watch(epoll, fd);
		}
	}
}
