/*
 * lines.h: a loop whose owner speaks a protocol of lines, for the tests of this folder.
 *
 * The owner echoes each line. Some lines are commands:
 *
 *   big N      is answered by N bytes. After BATCH of them the owner answers before it reads on. On
 * a busy loop they wait for a later iteration. quit       ends the connection. hold       is
 * answered when any connection sends "go"; "hold N" after N milliseconds; "hold quit" also ends the
 * connection. One answer is pending at a time. off        suspends the connection for the reasons 1
 * and 2, which "on 1" and "on 2" of any other connection clear.
 *
 * At most `share` lines of a connection are accepted in a batch. A connection in the reserve gets
 * "full", unless its line is "op", and ends.
 */
#ifndef TEST_NET_LINES_H
#define TEST_NET_LINES_H

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cmocka.h>
#include <pthread.h>

#include "base/number.h"
#include "base/os/os.h"
#include "net/address.h"
#include "net/net.h"

#define BATCH 4

struct line {
	struct net_conn *conn;
	struct slice text;
};

struct fixture {
	struct net_loop *loop;
	struct net_conn_limit conn_limit;
	struct net_address address;
	int listener;
	pthread_t thread;
	struct line lines[1 << 16];
	size_t count;
	struct net_conn *held; /* whose answer is pending, or NULL */
	char held_text[32];
	_Atomic uint64_t due_ns;
	struct net_conn *off;    /* is put off, or was */
	unsigned char reasons;   /* for which */
	_Atomic size_t too_soon; /* it was handed over meanwhile */
	size_t share;            /* lines of a connection in a batch, or 0 for any number */
	size_t input;            /* bytes handed over since the loop's last turn */
	size_t output;           /* bytes of replies likewise */
	size_t bigs;             /* answered */
	size_t bigs_before_hello;
	_Atomic size_t most_in_a_turn, most_input, most_output, turns;
	_Atomic int opened, closed, troubles;
	_Atomic bool full;
	_Atomic uint64_t idle_ms;
};

static void line_open(void *context, struct net_conn *conn)
{
	struct fixture *f = context;
	char *opened = net_conn_data(conn);

	assert_int_equal(*opened, 0);
	*opened = 1;
	f->opened++;
}

static void line_close(void *context, struct net_conn *conn)
{
	struct fixture *f = context;
	char *opened = net_conn_data(conn);

	assert_int_equal(*opened, 1); /* exactly once, after it was opened */
	*opened = 0;
	for (size_t i = 0; i < f->count; i++)
		assert_ptr_not_equal(f->lines[i].conn, conn);
	if (f->held == conn)
		f->held = NULL;
	f->closed++;
}

static void line_trouble(void *context, const char *what, const char *why)
{
	struct fixture *f = context;

	(void)what;
	(void)why;
	f->troubles++;
}

static void answer(struct fixture *f);

static bool begins(struct slice text, const char *with)
{
	return text.len >= strlen(with) && memcmp(text.data, with, strlen(with)) == 0;
}

static void hold(struct fixture *f, struct net_conn *conn, struct slice text)
{
	uint64_t ms;

	f->held = conn;
	snprintf(f->held_text, sizeof f->held_text, "%.*s\n", (int)text.len, text.data);
	net_conn_add_pending(conn, NET_OUT_MAX); /* nothing more is taken of it meanwhile */
	f->due_ns = UINT64_MAX;
	if (text.len > 5 && parse_u64((struct slice){text.data + 5, text.len - 5}, &ms)) {
		f->due_ns = os_monotonic_ns() + ms * NS_PER_MS;
		net_loop_alarm(f->loop, f->due_ns);
	}
	if (slice_equal(text, SLICE("hold quit")))
		net_conn_finish(conn);
}

static void release_due(struct fixture *f)
{
	if (!f->held || os_monotonic_ns() < f->due_ns)
		return;
	buffer_add_text(net_conn_output(f->held), f->held_text);
	net_conn_remove_pending(f->held, NET_OUT_MAX);
	f->held = NULL;
}

static void put_off(struct fixture *f, struct net_conn *conn)
{
	f->off = conn;
	f->reasons = 3;
	net_conn_suspend(conn, 1, true);
	net_conn_suspend(conn, 2, true);
}

static void take_back(struct fixture *f, unsigned char reason)
{
	f->reasons &= ~reason;
	net_conn_suspend(f->off, reason, false);
}

static size_t line_data(void *context, struct net_conn *conn, struct slice bytes)
{
	struct fixture *f = context;
	size_t used = 0, taken = 0;
	bool entered = net_conn_admit(conn);
	const char *end;

	if (f->off == conn && f->reasons) {
		f->too_soon++;
		return 0;
	}
	f->input += bytes.len;
	if (f->input > f->most_input)
		f->most_input = f->input;
	while (net_conn_output_space(conn) > 0 &&
	       (end = memchr(bytes.data + used, '\n', bytes.len - used)) != NULL) {
		struct slice text = {bytes.data + used, (size_t)(end - bytes.data) - used};

		if ((f->share > 0 && taken++ == f->share) ||
		    (begins(text, "big ") && net_loop_is_busy(f->loop))) {
			net_conn_yield(conn);
			break;
		}
		used = (size_t)(end - bytes.data) + 1;
		if (!entered) {
			if (!slice_equal(text, SLICE("op"))) {
				net_conn_count_rejection(conn);
				text = SLICE("full");
			}
			f->lines[f->count++] = (struct line){conn, text};
			net_conn_finish(conn);
			break;
		}
		if (begins(text, "hold")) {
			hold(f, conn, text);
			continue;
		}
		if (slice_equal(text, SLICE("off"))) {
			put_off(f, conn);
			break;
		}
		if (begins(text, "on "))
			take_back(f, (unsigned char)(text.data[3] - '0'));
		if (slice_equal(text, SLICE("go")))
			f->due_ns = 0;
		f->lines[f->count++] = (struct line){conn, text};
		if (f->count >= BATCH && text.len > 4 && memcmp(text.data, "big ", 4) == 0) {
			answer(f);
			net_loop_flush(f->loop);
		}
		if (slice_equal(text, SLICE("quit"))) {
			net_conn_finish(conn);
			break;
		}
	}
	return used;
}

static void answer(struct fixture *f)
{
	if (f->count > f->most_in_a_turn)
		f->most_in_a_turn = f->count;
	for (size_t i = 0; i < f->count; i++) {
		struct slice text = f->lines[i].text;
		struct buffer *out = net_conn_output(f->lines[i].conn);
		size_t before = out->len;
		uint64_t big;

		if (text.len > 4 && memcmp(text.data, "big ", 4) == 0 &&
		    parse_u64((struct slice){text.data + 4, text.len - 4}, &big)) {
			char *to = buffer_reserve(out, big);

			memset(to, 'x', big);
			out->len += big;
			f->bigs++;
		} else {
			buffer_add_slice(out, text);
			buffer_add_text(out, "\n");
			if (slice_equal(text, SLICE("hello")))
				f->bigs_before_hello = f->bigs;
		}
		f->output += out->len - before;
	}
	if (f->output > f->most_output)
		f->most_output = f->output;
	f->count = 0;
}

static void line_turn(void *context)
{
	struct fixture *f = context;

	answer(f);
	release_due(f);
	f->input = f->output = 0;
	f->turns++;
}

static void line_full(void *context, bool full)
{
	struct fixture *f = context;

	f->full = full;
}

static const struct net_owner owner = {line_turn, line_trouble, line_full};

static void *run(void *argument)
{
	net_loop_run(((struct fixture *)argument)->loop);
	return NULL;
}

/* Listens, but does not run yet. */
static struct fixture *prepare_at(const char *where, const struct net_options *options,
                                  size_t max_connections, uint64_t idle_ms)
{
	struct fixture *f = calloc(1, sizeof *f);
	struct net_listener listener = {
	    .kind = {line_open, line_data, line_close, .conn_size = 1, .idle_timeout_ms = &f->idle_ms},
	};

	f->idle_ms = idle_ms;
	f->conn_limit.max = max_connections;
	assert_int_equal(net_loop_open(&f->loop, options, &owner, f, &f->conn_limit), WEIR_OK);
	signal(SIGPIPE, SIG_IGN);
	assert_int_equal(net_address_parse(slice_of(where), &f->address, NULL), WEIR_OK);
	assert_int_equal(net_address_listen(&f->address, &listener.socket, 1, NULL), WEIR_OK);
	f->listener = listener.socket;
	assert_int_equal(net_loop_listen(f->loop, &listener), WEIR_OK);
	return f;
}

/* At a free port, or with WEIR_TEST_UNIX in the environment at a Unix socket. */
static inline struct fixture *prepare(const struct net_options *options, size_t max_connections,
                                      uint64_t idle_ms)
{
	static unsigned count;
	char where[64] = "127.0.0.1:0";

	if (getenv("WEIR_TEST_UNIX"))
		snprintf(where, sizeof where, "unix:/tmp/weir-lines-%d-%u", (int)getpid(), count++);
	return prepare_at(where, options, max_connections, idle_ms);
}

static inline struct fixture *run_apart(struct fixture *f)
{
	assert_int_equal(pthread_create(&f->thread, NULL, run, f), 0);
	return f;
}

static inline struct fixture *start(const struct net_options *options, size_t max_connections,
                                    uint64_t idle_ms)
{
	return run_apart(prepare(options, max_connections, idle_ms));
}

static inline struct fixture *start_at(const char *where, const struct net_options *options,
                                       size_t max_connections, uint64_t idle_ms)
{
	return run_apart(prepare_at(where, options, max_connections, idle_ms));
}

static void close_fixture(struct fixture *f)
{
	net_address_remove(&f->address);
	net_loop_close(f->loop);
	assert_int_equal(f->opened, f->closed);
	assert_int_equal(f->conn_limit.open_count, 0);
	assert_int_equal(f->conn_limit.reserve_count, 0);
	free(f);
}

/* Ends the loop's thread; its figures are left to look at. */
static inline void stop(struct fixture *f)
{
	net_loop_stop(f->loop);
	pthread_join(f->thread, NULL);
}

static inline void finish(struct fixture *f)
{
	stop(f);
	close_fixture(f);
}

static inline int dial(const struct fixture *f)
{
	struct timeval patience = {.tv_sec = 20};
	const int room = 1 << 20;
	int fd = socket(f->address.any.sa_family, SOCK_STREAM, 0);

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
	/* For each small message a Unix socket takes far more room than its bytes. */
	if (net_address_is_unix(&f->address))
		setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
	assert_int_equal(connect(fd, &f->address.any, net_address_size(&f->address)), 0);
	return fd;
}

static inline void say(int fd, const char *text)
{
	assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

static inline void expect(int fd, const char *text)
{
	char got[256];
	size_t len = strlen(text);

	assert_int_equal(recv(fd, got, len, MSG_WAITALL), (ssize_t)len);
	assert_memory_equal(got, text, len);
}

static inline void expect_end(int fd)
{
	char byte;

	assert_int_equal(recv(fd, &byte, 1, 0), 0);
	close(fd);
}

/* Reads until the end, or `max` bytes; returns how many. */
static inline size_t swallow(int fd, size_t max)
{
	static char sink[1 << 16];
	size_t total = 0;

	while (total < max) {
		ssize_t n = recv(fd, sink, max - total < sizeof sink ? max - total : sizeof sink, 0);

		if (n <= 0)
			break;
		total += (size_t)n;
	}
	return total;
}

struct sender {
	int fd;
	const char *data;
	size_t len;
};

static inline void *send_all(void *argument)
{
	struct sender *sender = argument;
	ssize_t n;

	while (sender->len > 0 && (n = send(sender->fd, sender->data, sender->len, MSG_NOSIGNAL)) > 0) {
		sender->data += n;
		sender->len -= (size_t)n;
	}
	return NULL;
}

#endif
