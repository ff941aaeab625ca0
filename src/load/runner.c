/*
 * runner.c: sends one thread's share of the load of `weir bench` to a server, over many
 * connections at once, and measures the time until each reply.
 *
 * With a configured rate (an open loop) each request has a time when it is due, and its latency
 * counts from then. Without a rate (a closed loop) a connection sends when it has its replies.
 *
 * Uses epoll and not src/net, because a measuring tool must cost less than the server that it
 * measures. One wait serves many connections, with one read and one send for each, without timers
 * or allocations.
 */
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

#define EVENTS_MAX        256
#define READ_SIZE         65536
#define WAIT_NS           (100 * NS_PER_MS) /* the longest wait, so that plan->stop takes effect */
#define CATCH_UP_NS       NS_PER_S /* time to send requests that are due when the run ends */
#define CONNECT_TIMEOUT_S 5

/* A request that waits for its reply. */
struct in_flight {
	uint64_t due_ns; /* in a closed loop: when it was sent */
	uint64_t sent_ns;
};

struct runner_conn {
	int fd;             /* -1 once it is lost */
	struct tls *tls;    /* NULL without TLS */
	bool in_ready_ring; /* the runner's ring of connections that may be able to send */
	struct scan scan;
	struct buffer unwritten;    /* bytes that the socket did not accept */
	struct in_flight *requests; /* a ring of `pipeline` */
	size_t first, count;
};

/* The share of part `index` if `total` is split as evenly as whole numbers permit. */
static size_t share_of(size_t total, size_t parts, size_t index)
{
	return total / parts + (index < total % parts);
}

/* Connects and logs in the next connection of the runner, and watches it for replies. */
static int open_connection(struct runner *runner, struct weir_error *error)
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
	conn->fd = dial_open(&options->server, &options->tls, CONNECT_TIMEOUT_S, &conn->tls, &why);
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

/* Appends the connection, unless it is in the ring already. */
static void add_to_ready_ring(struct runner *runner, struct runner_conn *conn)
{
	size_t size = runner->conn_count;

	if (conn->in_ready_ring)
		return;
	conn->in_ready_ring = true;
	runner->ready[(runner->ready_first + runner->ready_count++) % size] = conn;
}

static struct runner_conn *pop_ready(struct runner *runner)
{
	struct runner_conn *conn = runner->ready[runner->ready_first];

	runner->ready_first = (runner->ready_first + 1) % runner->conn_count;
	runner->ready_count--;
	conn->in_ready_ring = false;
	return conn;
}

int runner_open(struct runner *runner, struct runner_plan *plan, size_t index,
                struct weir_error *error)
{
	const struct load_options *options = plan->options;
	const struct buffer *bytes = &options->request->bytes;
	size_t n = share_of(options->connections, options->threads, index);
	int status;

	*runner = (struct runner){.plan = plan, .index = index, .limit = UINT64_MAX};
	keys_start(&runner->keys, &options->keys, options->seed, index, options->threads);
	runner->epoll = epoll_create1(EPOLL_CLOEXEC);
	runner->conns = calloc(n, sizeof *runner->conns);
	runner->ready = calloc(n, sizeof *runner->ready);
	runner->request_copies = calloc(options->pipeline, bytes->len);
	runner->read_bytes = malloc(READ_SIZE);
	if (runner->epoll < 0 || !runner->conns || !runner->ready || !runner->request_copies ||
	    !runner->read_bytes)
		return error_set(error, WEIR_ENOMEM, "out of memory");
	for (size_t i = 0; i < options->pipeline; i++)
		memcpy(runner->request_copies + i * bytes->len, bytes->data, bytes->len);
	for (; runner->conn_count < n; runner->conn_count++) {
		status = open_connection(runner, error);
		if (status != WEIR_OK) {
			runner->conn_count++;
			return status;
		}
	}
	runner->alive_count = n;
	for (size_t i = 0; i < n; i++)
		add_to_ready_ring(runner, &runner->conns[i]);
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
		buffer_wipe(&conn->unwritten);
		free(conn->requests);
	}
	if (runner->epoll >= 0)
		close(runner->epoll);
	free(runner->conns);
	free(runner->ready);
	if (runner->request_copies) /* it may hold a login */
		explicit_bzero(runner->request_copies, options->pipeline * options->request->bytes.len);
	free(runner->request_copies);
	free(runner->read_bytes);
	buffer_free(&runner->wire);
	buffer_free(&runner->plain);
}

/* When this runner's request number i is due: all runners share one schedule, in rotation. */
static uint64_t due_time_ns(const struct runner *runner, uint64_t i)
{
	const struct load_options *options = runner->plan->options;

	return runner->plan->start_ns +
	       (uint64_t)(((u128)i * options->threads + runner->index) * NS_PER_S / options->rate);
}

/* How many of this runner's requests are due before `ns`. */
static uint64_t due_count_before(const struct runner *runner, uint64_t ns)
{
	const struct load_options *options = runner->plan->options;
	u128 since = sat_sub(ns, runner->plan->start_ns);
	u128 all = (since * options->rate + NS_PER_S - 1) / NS_PER_S;

	return all > runner->index ? (uint64_t)((all - runner->index - 1) / options->threads) + 1 : 0;
}

/* The number of this runner's first request that is due at `ns` or later. */
static uint64_t first_due_from(const struct runner *runner, uint64_t ns)
{
	return due_count_before(runner, ns);
}

static bool is_measured(const struct runner *runner, uint64_t due)
{
	return due >= runner->plan->measure_ns;
}

/*
 * Begins the measurement, and sets the number of requests to send in all, which depends on those
 * of the warm-up. A closed loop that ends by time has no such number.
 */
static void end_warmup(struct runner *runner)
{
	const struct runner_plan *plan = runner->plan;
	const struct load_options *options = plan->options;
	bool is_open_loop = options->rate > 0;
	uint64_t warmup_count =
	    is_open_loop ? due_count_before(runner, plan->measure_ns) : runner->sent;

	runner->is_measuring = true;
	if (options->requests > 0)
		runner->limit = warmup_count + share_of(options->requests, options->threads, runner->index);
	else if (is_open_loop)
		runner->limit = due_count_before(runner, plan->end_ns);
}

/* Returns the time, and ends the warm-up when its time is over. */
static uint64_t read_clock(struct runner *runner)
{
	uint64_t now = os_monotonic_ns();

	if (!runner->is_measuring && now >= runner->plan->measure_ns)
		end_warmup(runner);
	return now;
}

/* How many requests may be sent at `now`: those due in an open loop, up to the runner's limit. */
static uint64_t count_to_send(const struct runner *runner, uint64_t now)
{
	const struct runner_plan *plan = runner->plan;
	bool is_open_loop = plan->options->rate > 0;
	uint64_t may_be_sent = runner->limit;

	if (now >= sat_add(plan->end_ns, is_open_loop ? CATCH_UP_NS : 0))
		return 0;
	if (is_open_loop)
		may_be_sent = u64_min(may_be_sent, due_count_before(runner, now + 1));
	return sat_sub(may_be_sent, runner->sent);
}

static void record_first_error(struct runner *runner, const char *what, const char *why)
{
	if (runner->first_error[0] == '\0')
		snprintf(runner->first_error, sizeof runner->first_error, "%s%s", what, why);
}

static void count_latency(struct runner *runner, const struct in_flight *request, uint64_t now)
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
	count_latency(runner, request, now);
	return true;
}

/* Counts all requests in flight of the connection as unanswered. */
static void give_up_requests(struct runner *runner, struct runner_conn *conn, uint64_t now)
{
	while (conn->count > 0)
		runner->counts.unanswered += finish_request(runner, conn, now);
}

/* Closes a connection that failed; `what` and `why` are the parts of the error message. */
static void lose_connection(struct runner *runner, struct runner_conn *conn, const char *what,
                            const char *why)
{
	record_first_error(runner, what, why);
	runner->counts.disconnects++;
	runner->alive_count--;
	close(conn->fd);
	conn->fd = -1;
	give_up_requests(runner, conn, os_monotonic_ns());
}

/* A closed loop sends a pipeline of requests only when all its replies have arrived. */
static bool can_send(const struct runner *runner, const struct runner_conn *conn)
{
	const struct load_options *options = runner->plan->options;
	size_t most_in_flight = options->rate > 0 ? options->pipeline : 1;

	return conn->fd >= 0 && conn->unwritten.len == 0 && conn->count < most_in_flight;
}

static void set_polled_events(struct runner *runner, struct runner_conn *conn, uint32_t events)
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
		lose_connection(runner, conn, "connection lost: ", strerror(errno));
	if (runner->is_measuring)
		runner->counts.bytes_sent += accepted;
	return accepted;
}

/* Sends the bytes; those that the socket does not accept follow when it is writable. */
static void send_bytes(struct runner *runner, struct runner_conn *conn, const char *bytes,
                       size_t len)
{
	size_t accepted = send_some(runner, conn, bytes, len);

	if (conn->fd < 0 || accepted == len)
		return;
	buffer_add(&conn->unwritten, bytes + accepted, len - accepted);
	if (conn->unwritten.failed)
		lose_connection(runner, conn, "out of memory", "");
	else
		set_polled_events(runner, conn, EPOLLIN | EPOLLOUT);
}

/* Sends the bytes, with TLS encrypted in as few records as possible. */
static void send_encrypted_or_plain(struct runner *runner, struct runner_conn *conn,
                                    struct slice bytes)
{
	struct buffer *wire = &runner->wire;

	if (!conn->tls) {
		send_bytes(runner, conn, bytes.data, bytes.len);
		return;
	}
	wire->len = 0;
	if (tls_encrypt(conn->tls, bytes, wire) != WEIR_OK)
		lose_connection(runner, conn, "connection lost: ", tls_error(conn->tls));
	else
		send_bytes(runner, conn, wire->data, wire->len);
}

static void send_unwritten(struct runner *runner, struct runner_conn *conn)
{
	buffer_consume(&conn->unwritten,
	               send_some(runner, conn, conn->unwritten.data, conn->unwritten.len));
	if (conn->fd >= 0 && conn->unwritten.len == 0)
		set_polled_events(runner, conn, EPOLLIN);
}

/* Sends the next `n` requests with their keys, and records when each was due. */
static void send_requests(struct runner *runner, struct runner_conn *conn, size_t n, uint64_t now)
{
	const struct load_options *options = runner->plan->options;
	size_t len = options->request->bytes.len;

	for (size_t i = 0; i < n; i++) {
		size_t at = (conn->first + conn->count++) % options->pipeline;
		uint64_t due = options->rate > 0 ? due_time_ns(runner, runner->sent) : now;

		conn->requests[at] = (struct in_flight){due, now};
		runner->sent++;
		runner->counts.sent += is_measured(runner, due);
		template_fill(options->request, runner->request_copies + i * len, keys_next(&runner->keys));
	}
	if (runner->in_flight == 0)
		runner->last_progress_ns = now;
	runner->in_flight += n;
	send_encrypted_or_plain(runner, conn, (struct slice){runner->request_copies, n * len});
}

/*
 * Sends what may be sent now over the connections that can send, with one system call each. In an
 * open loop the requests that are due are spread evenly over them.
 */
static void send_due_requests(struct runner *runner)
{
	const struct load_options *options = runner->plan->options;

	for (size_t n = runner->ready_count; n > 0; n--) {
		uint64_t now = read_clock(runner), allowed = count_to_send(runner, now);
		struct runner_conn *conn;

		if (allowed == 0)
			return;
		conn = pop_ready(runner);
		if (!can_send(runner, conn))
			continue;
		if (options->rate > 0)
			allowed = ceil_div(allowed, n);
		send_requests(runner, conn, u64_min(allowed, options->pipeline - conn->count), now);
		if (can_send(runner, conn))
			add_to_ready_ring(runner, conn);
	}
}

/*
 * Decrypts the `len` bytes of a read if there is TLS; 0 is the end of the connection. Returns false
 * if the connection is lost.
 */
static bool decrypt(struct runner *runner, struct runner_conn *conn, size_t len,
                    struct slice *bytes)
{
	*bytes = (struct slice){runner->read_bytes, len};
	if (conn->tls) {
		runner->plain.len = runner->wire.len = 0;
		if (tls_decrypt(conn->tls, *bytes, &runner->plain, &runner->wire) != WEIR_OK) {
			lose_connection(runner, conn, "connection lost: ", tls_error(conn->tls));
			return false;
		}
		if (runner->wire.len > 0) /* for example a reply to the server's update of keys */
			send_bytes(runner, conn, runner->wire.data, runner->wire.len);
		if (conn->fd < 0)
			return false;
		*bytes = (struct slice){runner->plain.data, runner->plain.len};
	}
	if (len == 0 || (conn->tls && bytes->len == 0 && tls_has_ended(conn->tls))) {
		lose_connection(runner, conn, "connection closed by the server", "");
		return false;
	}
	return true;
}

/* Reads once from the connection, and counts each reply as that to its oldest request in flight. */
static void read_replies(struct runner *runner, struct runner_conn *conn)
{
	const struct load_options *options = runner->plan->options;
	ssize_t got = recv(conn->fd, runner->read_bytes, READ_SIZE, 0);
	struct slice bytes;
	enum scan_result result;
	uint64_t now;

	if (got < 0 && errno != EAGAIN && errno != EINTR)
		lose_connection(runner, conn, "connection lost: ", strerror(errno));
	if (got < 0 || !decrypt(runner, conn, (size_t)got, &bytes))
		return;
	now = os_monotonic_ns();
	runner->last_progress_ns = now;
	if (runner->is_measuring)
		runner->counts.bytes_received += (uint64_t)got;
	while ((result = scan_next(&options->replies, &conn->scan, &bytes)) == SCAN_REPLY) {
		if (conn->count == 0)
			break;
		if (conn->scan.outcome == SCAN_ERROR)
			record_first_error(runner, "error reply: ", conn->scan.text);
		if (finish_request(runner, conn, now)) {
			runner->counts.answers[conn->scan.outcome]++;
			runner->last_reply_ns = now;
		}
	}
	if (result == SCAN_BROKEN)
		lose_connection(runner, conn, "can't understand a reply: ", conn->scan.text);
	else if (result == SCAN_REPLY)
		lose_connection(runner, conn, "a reply without a request", "");
	else if (can_send(runner, conn))
		add_to_ready_ring(runner, conn);
}

/* Waits for replies, or until the next request is due, and serves all connections that are ready.
 */
static void wait_and_read(struct runner *runner)
{
	struct epoll_event events[EVENTS_MAX];
	uint64_t now = os_monotonic_ns(), wait = WAIT_NS;
	struct timespec timeout;
	int n;

	if (runner->plan->options->rate > 0 && runner->ready_count > 0 && runner->sent < runner->limit)
		wait = u64_min(wait, sat_sub(due_time_ns(runner, runner->sent), now));
	timeout = (struct timespec){.tv_nsec = (long)wait};
	n = epoll_pwait2(runner->epoll, events, EVENTS_MAX, &timeout, NULL);
	for (int i = 0; i < n; i++) {
		struct runner_conn *conn = events[i].data.ptr;

		if (events[i].events & ~(uint32_t)EPOLLOUT)
			read_replies(runner, conn);
		if (conn->fd >= 0 && (events[i].events & EPOLLOUT)) {
			send_unwritten(runner, conn);
			if (can_send(runner, conn))
				add_to_ready_ring(runner, conn);
		}
	}
}

/* Whether this runner ends. Records an error if the server has been silent for too long. */
static bool is_run_over(struct runner *runner, uint64_t now)
{
	if (atomic_load_explicit(&runner->plan->stop, memory_order_relaxed) || runner->alive_count == 0)
		return true;
	if (runner->in_flight > 0) {
		if (now < sat_add(runner->last_progress_ns, runner->plan->options->timeout_ns))
			return false;
		record_first_error(runner, "the server fell silent", "");
		return true;
	}
	if (runner->sent >= runner->limit)
		return true;
	return now >= sat_add(runner->plan->end_ns, runner->plan->options->rate > 0 ? CATCH_UP_NS : 0);
}

/*
 * Counts requests that were due but not sent, with their wait until `now`. Counts a whole bucket of
 * the histogram at a time, because there may be very many.
 */
static void count_unsent(struct runner *runner, uint64_t now)
{
	uint64_t until_ns = u64_min(now, runner->plan->end_ns), next;
	uint64_t end = u64_min(first_due_from(runner, until_ns), runner->limit);

	for (uint64_t i = u64_max(runner->sent, first_due_from(runner, runner->plan->measure_ns));
	     i < end; i = next) {
		uint64_t wait = now - due_time_ns(runner, i);
		uint64_t least_wait = histogram_floor(wait); /* that is counted in the same bucket */

		/* The later a request is due, the shorter its wait: find the first of the next bucket. */
		next = u64_min(first_due_from(runner, now - least_wait + 1), end);
		histogram_count(&runner->latency, wait, next - i);
		runner->counts.unsent += next - i;
	}
}

/* Sends and reads until the run is over, then counts the requests that have no reply. */
void *runner_run(void *argument)
{
	struct runner *runner = argument;
	uint64_t now;

	prctl(PR_SET_TIMERSLACK, 1); /* wake when a request is due, not 50 us later */
	while ((now = os_monotonic_ns()) < runner->plan->start_ns)
		usleep(100);
	runner->last_progress_ns = now;
	do {
		send_due_requests(runner);
		wait_and_read(runner);
		now = read_clock(runner);
	} while (!is_run_over(runner, now));
	for (size_t i = 0; i < runner->conn_count; i++)
		give_up_requests(runner, &runner->conns[i], now);
	if (runner->plan->options->rate > 0)
		count_unsent(runner, now);
	eventfd_write(runner->plan->done, 1);
	return NULL;
}
