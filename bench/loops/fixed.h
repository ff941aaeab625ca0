/*
 * fixed.h: answers every request by a fixed reply, for the bare servers.
 *
 * They understand no more than how many requests a read holds, and take each
 * to arrive whole, as those of load generators on one machine do. The replies
 * are as long as ours to the same requests; bench/run.py checks that.
 */
#ifndef BENCH_FIXED_H
#define BENCH_FIXED_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct fixed_protocol {
	const char *name;
	const char *mark; /* once in each request */
	const char *reply;
};

struct fixed {
	const struct fixed_protocol *protocol;
	int listener; /* non-blocking; what it accepts sends without delay */
	char in[65536];
	char out[1 << 20];
};

#define FIXED_JSON                                                                                 \
	"{\"allowed\":true,\"limit\":\"bench\",\"quota\":1000000,\"remaining\":999999,"                \
	"\"retry_after_ms\":0,\"reset_after_ms\":1,\"reason\":\"ok\"}"
#define FIXED_JSON_LEN "119"
_Static_assert(sizeof FIXED_JSON - 1 == 119, "FIXED_JSON_LEN");

static const struct fixed_protocol fixed_protocols[] = {
    {"resp", "*", "*5\r\n:0\r\n:16\r\n:15\r\n:-1\r\n:1\r\n"},
    {"http", "\r\n\r\n",
     "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: " FIXED_JSON_LEN "\r\n"
     "RateLimit-Policy: \"bench\";q=1000000;w=1\r\nRateLimit: \"bench\";r=999999;t=1\r\n"
     "\r\n" FIXED_JSON},
};

static inline void fixed_check(int ok, const char *what)
{
	if (ok)
		return;
	perror(what);
	exit(1);
}

/* Listens on a free port and says which, as our server does. */
static inline void fixed_open(struct fixed *fixed, int argc, char **argv)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof address;
	int on = 1;

	for (int i = 0; i < 2 && !fixed->protocol; i++)
		if (argc == 2 && strcmp(argv[1], fixed_protocols[i].name) == 0)
			fixed->protocol = &fixed_protocols[i];
	if (!fixed->protocol) {
		fprintf(stderr, "usage: %s resp|http\n", argv[0]);
		exit(2);
	}
	fixed->listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	fixed_check(fixed->listener >= 0 &&
	                bind(fixed->listener, (struct sockaddr *)&address, len) == 0 &&
	                setsockopt(fixed->listener, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0 &&
	                listen(fixed->listener, SOMAXCONN) == 0 &&
	                getsockname(fixed->listener, (struct sockaddr *)&address, &len) == 0,
	            "listen");
	fprintf(stderr, "listening: %s 127.0.0.1:%d\n", fixed->protocol->name,
	        ntohs(address.sin_port));
}

/* Bytes of the replies, in `out`, to the requests in the first `len` bytes of `in`. */
static inline size_t fixed_answer(struct fixed *fixed, size_t len)
{
	const char *mark = fixed->protocol->mark, *reply = fixed->protocol->reply;
	size_t mark_len = strlen(mark), reply_len = strlen(reply), out_len = 0;
	const char *data = fixed->in, *end = data + len;

	while ((data = memmem(data, (size_t)(end - data), mark, mark_len)) != NULL &&
	       out_len + reply_len <= sizeof fixed->out) {
		memcpy(fixed->out + out_len, reply, reply_len);
		data += mark_len;
		out_len += reply_len;
	}
	return out_len;
}

/* One read, one write. False when the connection has ended. */
static inline int fixed_serve(struct fixed *fixed, int fd)
{
	ssize_t got = read(fd, fixed->in, sizeof fixed->in);
	size_t len = got > 0 ? fixed_answer(fixed, (size_t)got) : 0;

	return got > 0 && (len == 0 || write(fd, fixed->out, len) == (ssize_t)len);
}

#endif
