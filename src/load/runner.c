#include "load/runner.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/error.h"
#include "base/number.h"
#include "base/os/os.h"

/*
 * Uses epoll and not src/net, because a measuring tool must cost less than the server that it
 * measures. One wait serves many connections, with one read and one send for each, without timers
 * or allocations.
 */

#define EVENTS    256
#define IN_SIZE   65536
#define WAIT_NS   (100 * NS_PER_MS) /* the longest wait, so that plan->stop takes effect */
#define CATCH_UP  NS_PER_S          /* time to send requests that are due when the run ends */
#define CONNECT_S 5

/* A request that waits for its reply. */
struct in_flight {
	uint64_t due_ns;
	uint64_t sent_ns;
};

struct runner_conn {
	int fd;          /* -1 once it is lost */
	struct tls *tls; /* NULL without TLS */
	bool in_ring;
	struct scan scan;
	struct buffer rest;         /* bytes that the socket did not accept */
	struct in_flight *requests; /* a ring of `pipeline` */
	size_t first, count;
};

static size_t share(size_t total, size_t parts, size_t index)
{
	return total / parts + (index < total % parts);
}

static int open_conn(struct runner *runner, struct weir_error *error)
{
	const struct load_options *options = runner->plan->options;
	struct runner_conn *conn = &runner->conns[runner->conn_count];
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = conn};
	char address[NET_ADDRESS_TEXT_MAX];
	struct weir_error why = {0};

	conn->fd = -1;
	conn->requests = calloc(options->pipeline, sizeof *conn->requests);
	if (!conn->requests)
		return error_set(error, WEIR_ENOMEM, "out of memory");
	conn->fd = dial_open(&options->server, &options->tls, CONNECT_S, &conn->tls, &why);
	if (conn->fd >= 0 && options->login.len > 0)
		dial_log_in(conn->fd, conn->tls, options->login, &why);
	if (conn->fd >= 0 && !why.message[0] &&
	    (fcntl(conn->fd, F_SETFL, O_NONBLOCK) != 0 ||
	     epoll_ctl(runner->epoll, EPOLL_CTL_ADD, conn->fd, &event) != 0))
		error_set(&why, WEIR_EIO, "%s", strerror(errno));
	if (!why.message[0])
		return WEIR_OK;
	if (why.status == WEIR_EAUTH) /* the server was reached */
		return error_set(error, WEIR_EAUTH, "%s", why.message);
	net_address_format(&options->server, address);
	return error_set(error, WEIR_EIO, "can't reach %s (connection %zu): %s", address,
	                 runner->conn_count + 1, why.message);
}

/* Puts the connection into the ring `free`. */
static void add_free(struct runner *runner, struct runner_conn *conn)
{
	size_t size = runner->conn_count;

	if (conn->in_ring)
		return;
	conn->in_ring = true;
	runner->free[(runner->free_first + runner->free_count++) % size] = conn;
}

static struct runner_conn *pop_free(struct runner *runner)
{
	struct runner_conn *conn = runner->free[runner->free_first];

	runner->free_first = (runner->free_first + 1) % runner->conn_count;
	runner->free_count--;
	conn->in_ring = false;
	return conn;
}

int runner_open(struct runner *runner, struct runner_plan *plan, size_t index,
                struct weir_error *error)
{
	const struct load_options *options = plan->options;
	const struct buffer *bytes = &options->request->bytes;
	size_t n = share(options->connections, options->threads, index);
	int status;

	*runner = (struct runner){.plan = plan, .index = index, .limit = UINT64_MAX};
	keys_start(&runner->keys, &options->keys, options->seed, index, options->threads);
	runner->epoll = epoll_create1(EPOLL_CLOEXEC);
	runner->conns = calloc(n, sizeof *runner->conns);
	runner->free = calloc(n, sizeof *runner->free);
	runner->out = calloc(options->pipeline, bytes->len);
	runner->in = malloc(IN_SIZE);
	if (runner->epoll < 0 || !runner->conns || !runner->free || !runner->out || !runner->in)
		return error_set(error, WEIR_ENOMEM, "out of memory");
	for (size_t i = 0; i < options->pipeline; i++)
		memcpy(runner->out + i * bytes->len, bytes->data, bytes->len);
	for (; runner->conn_count < n; runner->conn_count++) {
		status = open_conn(runner, error);
		if (status != WEIR_OK) {
			runner->conn_count++;
			return status;
		}
	}
	runner->conn_alive = n;
	for (size_t i = 0; i < n; i++)
		add_free(runner, &runner->conns[i]);
	return WEIR_OK;
}

void runner_close(struct runner *runner)
{
	const struct load_options *options = runner->plan->options;

	for (size_t i = 0; i < runner->conn_count; i++) {
		struct runner_conn *conn = &runner->conns[i];

		if (conn->fd >= 0)
			close(conn->fd);
		tls_close(conn->tls);
		buffer_wipe(&conn->rest);
		free(conn->requests);
	}
	if (runner->epoll >= 0)
		close(runner->epoll);
	free(runner->conns);
	free(runner->free);
	if (runner->out) /* it may hold a login */
		explicit_bzero(runner->out, options->pipeline * options->request->bytes.len);
	free(runner->out);
	free(runner->in);
	buffer_free(&runner->wire);
	buffer_free(&runner->plain);
}

/* When this runner's request number i is due: all runners share one schedule, in rotation. */
static uint64_t due_ns(const struct runner *runner, uint64_t i)
{
	const struct load_options *options = runner->plan->options;

	return runner->plan->start_ns +
	       (uint64_t)(((u128)i * options->threads + runner->index) * NS_PER_S / options->rate);
}

/* How many of this runner's requests are due before `ns`. */
static uint64_t due_before(const struct runner *runner, uint64_t ns)
{
	const struct load_options *options = runner->plan->options;
	u128 since = sat_sub(ns, runner->plan->start_ns);
	u128 all = (since * options->rate + NS_PER_S - 1) / NS_PER_S;

	return all > runner->index ? (uint64_t)((all - runner->index - 1) / options->threads) + 1 : 0;
}

static bool is_measured(const struct runner *runner, uint64_t due)
{
	return due >= runner->plan->measure_ns;
}

/* Ends the warm-up: sets `limit`, which depends on the requests sent so far. */
static void begin_measuring(struct runner *runner)
{
	const struct runner_plan *plan = runner->plan;
	const struct load_options *options = plan->options;
	bool open = options->rate > 0;

	runner->measuring = true;
	if (options->requests > 0)
		runner->limit = (open ? due_before(runner, plan->measure_ns) : runner->sent) +
		                share(options->requests, options->threads, runner->index);
	else if (open)
		runner->limit = due_before(runner, plan->end_ns);
}

static uint64_t read_clock(struct runner *runner)
{
	uint64_t now = os_monotonic_ns();

	if (!runner->measuring && now >= runner->plan->measure_ns)
		begin_measuring(runner);
	return now;
}

/* How many requests may be sent at `now`. */
static uint64_t allowance(const struct runner *runner, uint64_t now)
{
	const struct runner_plan *plan = runner->plan;
	bool open = plan->options->rate > 0;

	if (now >= sat_add(plan->end_ns, open ? CATCH_UP : 0))
		return 0;
	return sat_sub(open ? u64_min(due_before(runner, now + 1), runner->limit) : runner->limit,
	               runner->sent);
}

static void record_error(struct runner *runner, const char *what, const char *why)
{
	if (runner->first_error[0] == '\0')
		snprintf(runner->first_error, sizeof runner->first_error, "%s%s", what, why);
}

static void count_wait(struct runner *runner, const struct in_flight *request, uint64_t now)
{
	histogram_count(&runner->latency, sat_sub(now, request->due_ns), 1);
	histogram_count(&runner->from_send, sat_sub(now, request->sent_ns), 1);
}

/* Removes the oldest request in flight and counts its wait. False if it is one of the warm-up. */
static bool finish_request(struct runner *runner, struct runner_conn *conn, uint64_t now)
{
	const struct in_flight *request = &conn->requests[conn->first];

	conn->first = (conn->first + 1) % runner->plan->options->pipeline;
	conn->count--;
	runner->in_flight--;
	if (!is_measured(runner, request->due_ns))
		return false;
	count_wait(runner, request, now);
	return true;
}

static void give_up(struct runner *runner, struct runner_conn *conn, uint64_t now)
{
	while (conn->count > 0)
		runner->counts.unanswered += finish_request(runner, conn, now);
}

static void lose(struct runner *runner, struct runner_conn *conn, const char *what, const char *why)
{
	record_error(runner, what, why);
	runner->counts.disconnects++;
	runner->conn_alive--;
	close(conn->fd);
	conn->fd = -1;
	give_up(runner, conn, os_monotonic_ns());
}

static bool has_capacity(const struct runner *runner, const struct runner_conn *conn)
{
	const struct load_options *options = runner->plan->options;

	return conn->fd >= 0 && conn->rest.len == 0 &&
	       conn->count < (options->rate > 0 ? options->pipeline : 1);
}

static void poll_events(struct runner *runner, struct runner_conn *conn, uint32_t events)
{
	struct epoll_event event = {.events = events, .data.ptr = conn};

	epoll_ctl(runner->epoll, EPOLL_CTL_MOD, conn->fd, &event);
}

/* Returns how many of the bytes the socket accepted. */
static size_t send_some(struct runner *runner, struct runner_conn *conn, const char *bytes,
                        size_t len)
{
	ssize_t n = send(conn->fd, bytes, len, MSG_NOSIGNAL);
	size_t accepted = n > 0 ? (size_t)n : 0;

	if (n < 0 && errno != EAGAIN && errno != EINTR)
		lose(runner, conn, "connection lost: ", strerror(errno));
	if (runner->measuring)
		runner->counts.bytes_sent += accepted;
	return accepted;
}

static void send_bytes(struct runner *runner, struct runner_conn *conn, const char *bytes,
                       size_t len)
{
	size_t accepted = send_some(runner, conn, bytes, len);

	if (conn->fd < 0 || accepted == len)
		return;
	buffer_add(&conn->rest, bytes + accepted, len - accepted);
	if (conn->rest.failed)
		lose(runner, conn, "out of memory", "");
	else
		poll_events(runner, conn, EPOLLIN | EPOLLOUT);
}

/* Sends the bytes; with TLS in as few records as possible. */
static void send_plain(struct runner *runner, struct runner_conn *conn, struct slice bytes)
{
	struct buffer *wire = &runner->wire;

	if (!conn->tls) {
		send_bytes(runner, conn, bytes.data, bytes.len);
		return;
	}
	wire->len = 0;
	if (tls_encrypt(conn->tls, bytes, wire) != WEIR_OK)
		lose(runner, conn, "connection lost: ", tls_error(conn->tls));
	else
		send_bytes(runner, conn, wire->data, wire->len);
}

static void send_rest(struct runner *runner, struct runner_conn *conn)
{
	buffer_consume(&conn->rest, send_some(runner, conn, conn->rest.data, conn->rest.len));
	if (conn->fd >= 0 && conn->rest.len == 0)
		poll_events(runner, conn, EPOLLIN);
}

static void send_requests(struct runner *runner, struct runner_conn *conn, size_t n, uint64_t now)
{
	const struct load_options *options = runner->plan->options;
	size_t len = options->request->bytes.len;

	for (size_t i = 0; i < n; i++) {
		size_t at = (conn->first + conn->count++) % options->pipeline;
		uint64_t due = options->rate > 0 ? due_ns(runner, runner->sent) : now;

		conn->requests[at] = (struct in_flight){due, now};
		runner->sent++;
		runner->counts.sent += is_measured(runner, due);
		template_fill(options->request, runner->out + i * len, keys_next(&runner->keys));
	}
	if (runner->in_flight == 0)
		runner->received_ns = now;
	runner->in_flight += n;
	send_plain(runner, conn, (struct slice){runner->out, n * len});
}

/* Distributes the requests that may be sent over connections with capacity, one send each. */
static void dispatch(struct runner *runner)
{
	const struct load_options *options = runner->plan->options;

	for (size_t n = runner->free_count; n > 0; n--) {
		uint64_t now = read_clock(runner), allowed = allowance(runner, now);
		struct runner_conn *conn;

		if (allowed == 0)
			return;
		conn = pop_free(runner);
		if (!has_capacity(runner, conn))
			continue;
		if (options->rate > 0)
			allowed = ceil_div(allowed, n);
		send_requests(runner, conn, u64_min(allowed, options->pipeline - conn->count), now);
		if (has_capacity(runner, conn))
			add_free(runner, conn);
	}
}

/*
 * Decrypts the `len` bytes of a read; 0 is the end of the connection. Returns false if the
 * connection is lost.
 */
static bool decrypt(struct runner *runner, struct runner_conn *conn, size_t len,
                    struct slice *bytes)
{
	*bytes = (struct slice){runner->in, len};
	if (conn->tls) {
		runner->plain.len = runner->wire.len = 0;
		if (tls_decrypt(conn->tls, *bytes, &runner->plain, &runner->wire) != WEIR_OK) {
			lose(runner, conn, "connection lost: ", tls_error(conn->tls));
			return false;
		}
		if (runner->wire.len > 0) /* for example a reply to the server's update of keys */
			send_bytes(runner, conn, runner->wire.data, runner->wire.len);
		*bytes = (struct slice){runner->plain.data, runner->plain.len};
	}
	if (len == 0 || (conn->tls && bytes->len == 0 && tls_has_ended(conn->tls))) {
		lose(runner, conn, "connection closed by the server", "");
		return false;
	}
	return true;
}

static void read_replies(struct runner *runner, struct runner_conn *conn)
{
	const struct load_options *options = runner->plan->options;
	ssize_t got = recv(conn->fd, runner->in, IN_SIZE, 0);
	struct slice bytes;
	enum scan_result result;
	uint64_t now;

	if (got < 0 && errno != EAGAIN && errno != EINTR)
		lose(runner, conn, "connection lost: ", strerror(errno));
	if (got < 0 || !decrypt(runner, conn, (size_t)got, &bytes))
		return;
	now = os_monotonic_ns();
	runner->received_ns = now;
	if (runner->measuring)
		runner->counts.bytes_received += (uint64_t)got;
	while ((result = scan_next(&options->replies, &conn->scan, &bytes)) == SCAN_REPLY) {
		if (conn->count == 0)
			break;
		if (conn->scan.outcome == SCAN_ERROR)
			record_error(runner, "error reply: ", conn->scan.text);
		if (finish_request(runner, conn, now)) {
			runner->counts.answers[conn->scan.outcome]++;
			runner->last_reply_ns = now;
		}
	}
	if (result == SCAN_BROKEN)
		lose(runner, conn, "can't understand a reply: ", conn->scan.text);
	else if (result == SCAN_REPLY)
		lose(runner, conn, "a reply without a request", "");
	else if (has_capacity(runner, conn))
		add_free(runner, conn);
}

static void wait_and_read(struct runner *runner)
{
	struct epoll_event events[EVENTS];
	uint64_t now = os_monotonic_ns(), wait = WAIT_NS;
	struct timespec timeout;
	int n;

	if (runner->plan->options->rate > 0 && runner->free_count > 0 && runner->sent < runner->limit)
		wait = u64_min(wait, sat_sub(due_ns(runner, runner->sent), now));
	timeout = (struct timespec){.tv_nsec = (long)wait};
	n = epoll_pwait2(runner->epoll, events, EVENTS, &timeout, NULL);
	for (int i = 0; i < n; i++) {
		struct runner_conn *conn = events[i].data.ptr;

		if (events[i].events & ~(uint32_t)EPOLLOUT)
			read_replies(runner, conn);
		if (conn->fd >= 0 && (events[i].events & EPOLLOUT)) {
			send_rest(runner, conn);
			if (has_capacity(runner, conn))
				add_free(runner, conn);
		}
	}
}

static bool is_over(struct runner *runner, uint64_t now)
{
	if (atomic_load_explicit(&runner->plan->stop, memory_order_relaxed) || runner->conn_alive == 0)
		return true;
	if (runner->in_flight > 0) {
		if (now < sat_add(runner->received_ns, runner->plan->options->timeout_ns))
			return false;
		record_error(runner, "the server fell silent", "");
		return true;
	}
	return now >= sat_add(runner->plan->end_ns, CATCH_UP) || runner->sent >= runner->limit ||
	       (runner->plan->options->rate == 0 && now >= runner->plan->end_ns);
}

/*
 * Counts requests that were due but not sent, with their wait until `now`. Counts a whole bucket of
 * the histogram at a time, because there may be very many.
 */
static void count_unsent(struct runner *runner, uint64_t now)
{
	uint64_t last = u64_min(now, runner->plan->end_ns), next;
	uint64_t end = u64_min(due_before(runner, last), runner->limit);

	for (uint64_t i = u64_max(runner->sent, due_before(runner, runner->plan->measure_ns)); i < end;
	     i = next) {
		uint64_t wait = now - due_ns(runner, i);

		/* The wait decreases with i: find the first request below this bucket. */
		next = u64_min(due_before(runner, now - histogram_floor(wait) + 1), end);
		histogram_count(&runner->latency, wait, next - i);
		runner->counts.unsent += next - i;
	}
}

void *runner_run(void *argument)
{
	struct runner *runner = argument;
	uint64_t now;

	prctl(PR_SET_TIMERSLACK, 1); /* wake when a request is due, not 50 us later */
	while ((now = os_monotonic_ns()) < runner->plan->start_ns)
		usleep(100);
	runner->received_ns = now;
	do {
		dispatch(runner);
		wait_and_read(runner);
		now = read_clock(runner);
	} while (!is_over(runner, now));
	for (size_t i = 0; i < runner->conn_count; i++)
		give_up(runner, &runner->conns[i], now);
	if (runner->plan->options->rate > 0)
		count_unsent(runner, now);
	eventfd_write(runner->plan->done, 1);
	return NULL;
}
