/*
 * blocking.c: moves the bytes of a store client by poll(2), within calls that block their thread.
 * The library uses it as the client's transport; a server has an event loop instead.
 */
#include "redis/network/blocking.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/list.h"
#include "base/number.h"
#include "base/os/os.h"
#include "redis/network/connection.h"
#include "redis/network/dialer.h"
#include "redis/network/host_lookup.h"
#include "redis/redis.h"

#define READ_MAX ((size_t)64 << 10)
/* The longest single wait; the client sets alarms for everything that it awaits. */
#define WAIT_MAX_NS NS_PER_S

/* The state of a descriptor: of a lookup of a name, or of a socket. */
enum source_state {
	SOURCE_LOOKS_UP,
	SOURCE_CONNECTS,
	SOURCE_OPEN,
	SOURCE_LOST, /* not reported to the attempt yet */
	SOURCE_DEAD, /* to be freed */
};

/* A descriptor to poll: that of a lookup, or a socket. */
struct poll_source {
	struct redis_dialer *dialer;   /* for a lookup; otherwise NULL */
	struct lookup *lookup;         /* NULL for a socket */
	struct redis_attempt *attempt; /* for a socket; otherwise NULL */
	int fd;                        /* -1 for none */
	enum source_state state;
	int error;             /* the errno by which a socket was lost; 0 if the peer closed it */
	bool may_have_output;  /* bytes to write */
	struct list_node node; /* in the list of all */
};

struct blocking {
	struct redis_transport transport; /* first */
	struct store_client *client;
	struct list sources; /* the newest first */
	size_t count;
	struct pollfd *poll_fds; /* memory for all sources */
	size_t poll_capacity;
	uint64_t alarm_ns; /* or 0 */
	char input[READ_MAX];
};

static struct blocking *blocking_of(struct redis_transport *transport)
{
	return (struct blocking *)transport;
}

/* Connecting */

static void close_fd(struct poll_source *source)
{
	if (source->fd >= 0)
		close(source->fd);
	source->fd = -1;
}

static int open_socket(int family)
{
	int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	int on = 1;

	if (fd >= 0 && family != AF_UNIX)
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	return fd;
}

static void set_lost(struct poll_source *source, int error)
{
	close_fd(source);
	source->error = error;
	source->state = SOURCE_LOST;
}

/* Opens a socket and connects it without blocking; a failure is reported later. */
static void begin_connecting(struct poll_source *source, const struct redis_address *to)
{
	source->fd = open_socket(to->any.sa_family);
	if (source->fd < 0 || (connect(source->fd, &to->any, to->len) != 0 && errno != EINPROGRESS))
		set_lost(source, errno);
}

/* The socket is writable: it is connected, or has failed. */
static void finish_connecting(struct poll_source *source)
{
	int error;
	socklen_t len = sizeof error;

	if (getsockopt(source->fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0)
		error = errno;
	if (error != 0) {
		set_lost(source, error);
		return;
	}
	source->state = SOURCE_OPEN;
	source->may_have_output = true;
}

/* Passes the addresses that were found to the dialer. */
static void finish_lookup(struct poll_source *source)
{
	struct redis_address addresses[DIALER_ADDRESSES_MAX];
	size_t n;
	const char *why = lookup_result(source->lookup, addresses, DIALER_ADDRESSES_MAX, &n);

	source->state = SOURCE_DEAD;
	redis_dialer_found(source->dialer, addresses, n, why);
}

/* The transport */

/* Makes sure that one more source can be polled. False if there is no memory. */
static bool reserve_poll_fd(struct blocking *blocking)
{
	size_t count = blocking->count + 1;
	struct pollfd *polled;

	if (count <= blocking->poll_capacity)
		return true;
	polled = realloc(blocking->poll_fds, 2 * count * sizeof *polled);
	if (!polled)
		return false;
	blocking->poll_fds = polled;
	blocking->poll_capacity = 2 * count;
	return true;
}

/* Adds a copy of `source` to those that are polled. NULL if there is no memory. */
static struct poll_source *add_source(struct blocking *blocking, const struct poll_source *source)
{
	struct poll_source *added = reserve_poll_fd(blocking) ? malloc(sizeof *added) : NULL;

	if (!added)
		return NULL;
	*added = *source;
	list_insert(&blocking->sources, &added->node, blocking->sources.first);
	blocking->count++;
	return added;
}

static void *look_up_blocking(struct redis_transport *transport, struct redis_dialer *dialer,
                              const struct redis_host *host)
{
	struct lookup *lookup = lookup_open(host);
	struct poll_source *source = NULL;

	if (lookup)
		source =
		    add_source(blocking_of(transport),
		               &(struct poll_source){
		                   .dialer = dialer, .lookup = lookup, .fd = -1, .state = SOURCE_LOOKS_UP});
	if (!source)
		lookup_close(lookup);
	return source;
}

/* The function `dial` of the transport: an attempt connects to an address. */
static bool dial_blocking(struct redis_transport *transport, struct redis_attempt *attempt,
                          const struct redis_address *to, void **out)
{
	struct poll_source *source =
	    add_source(blocking_of(transport),
	               &(struct poll_source){.attempt = attempt, .fd = -1, .state = SOURCE_CONNECTS});

	if (source)
		begin_connecting(source, to);
	*out = source;
	return source != NULL;
}

static void send_soon(struct redis_transport *transport, void *source)
{
	(void)transport;
	((struct poll_source *)source)->may_have_output = true;
}

/* Freed later, because a callback for this very source may be running. */
static void hang_up(struct redis_transport *transport, void *source)
{
	(void)transport;
	close_fd(source);
	((struct poll_source *)source)->state = SOURCE_DEAD;
}

static void set_blocking_alarm(struct redis_transport *transport, uint64_t at_ns)
{
	blocking_of(transport)->alarm_ns = at_ns;
}

static const struct redis_transport_kind kind = {
    .look_up = look_up_blocking,
    .stop_look_up = hang_up,
    .dial = dial_blocking,
    .send = send_soon,
    .hang_up = hang_up,
    .alarm = set_blocking_alarm,
};

struct blocking *blocking_open(void)
{
	struct blocking *blocking = calloc(1, sizeof *blocking);

	if (blocking)
		blocking->transport.kind = &kind;
	return blocking;
}

static void free_source(struct blocking *blocking, struct poll_source *source)
{
	list_remove(&blocking->sources, &source->node);
	blocking->count--;
	close_fd(source);
	lookup_close(source->lookup);
	free(source);
}

void blocking_close(struct blocking *blocking)
{
	LIST_EACH (&blocking->sources, struct poll_source, node, source)
		free_source(blocking, source);
	free(blocking->poll_fds);
	free(blocking);
}

struct redis_transport *blocking_transport(struct blocking *blocking)
{
	return &blocking->transport;
}

void blocking_serve(struct blocking *blocking, struct store_client *client)
{
	blocking->client = client;
}

/* Moving bytes */

/* Tells the attempt that its socket was lost. */
static void report_lost(struct poll_source *source)
{
	source->state = SOURCE_DEAD;
	redis_attempt_lost(source->attempt, source->error == 0 ? "it has closed the connection"
	                                                       : strerrordesc_np(source->error));
}

/* Writes as much as the kernel takes now. */
static void write_source(struct poll_source *source)
{
	struct connection *connection = redis_attempt_connection(source->attempt);
	struct slice out;

	while (source->state == SOURCE_OPEN && (out = connection_unsent_bytes(connection)).len > 0) {
		ssize_t sent = send(source->fd, out.data, out.len, MSG_NOSIGNAL);

		if (sent >= 0)
			connection_drop_sent_bytes(connection, (size_t)sent);
		else if (errno == EAGAIN)
			return;
		else if (errno != EINTR)
			set_lost(source, errno);
	}
	source->may_have_output = false;
}

static void read_source(struct blocking *blocking, struct poll_source *source)
{
	ssize_t len = recv(source->fd, blocking->input, sizeof blocking->input, 0);

	if (len > 0) {
		redis_attempt_receive(source->attempt, (struct slice){blocking->input, (size_t)len});
		source->may_have_output = source->state == SOURCE_OPEN; /* a greeting goes on */
	} else if (len == 0 || (errno != EAGAIN && errno != EINTR)) {
		set_lost(source, len == 0 ? 0 : errno);
	}
}

/* The events of poll(2) for which a socket waits. */
static short events_of(const struct poll_source *source)
{
	if (source->state == SOURCE_CONNECTS)
		return POLLOUT;
	return (short)(source->may_have_output ? POLLIN | POLLOUT : POLLIN);
}

static void handle_ready(struct blocking *blocking, struct poll_source *source)
{
	switch (source->state) {
	case SOURCE_LOOKS_UP:
		finish_lookup(source);
		break;
	case SOURCE_CONNECTS:
		finish_connecting(source);
		break;
	case SOURCE_OPEN:
		read_source(blocking, source);
		break;
	case SOURCE_LOST:
	case SOURCE_DEAD:
		break;
	}
}

/*
 * Writes bytes, reports lost sources, and frees dead ones. Returns whether any were reported,
 * because then the client may have something new to do.
 */
static bool flush_and_reap(struct blocking *blocking)
{
	bool reported = false;

	LIST_EACH (&blocking->sources, struct poll_source, node, source) {
		if (source->may_have_output && source->state == SOURCE_OPEN)
			write_source(source);
		if (source->state == SOURCE_LOST) {
			report_lost(source);
			reported = true;
		}
	}
	LIST_EACH (&blocking->sources, struct poll_source, node, source)
		if (source->state == SOURCE_DEAD)
			free_source(blocking, source);
	return reported;
}

/* Waits until a source is ready, at most for `wait_ns`, and handles those that are. */
static void wait_ready(struct blocking *blocking, uint64_t wait_ns)
{
	struct timespec wait = {(time_t)(wait_ns / NS_PER_S), (long)(wait_ns % NS_PER_S)};
	size_t n = 0;

	LIST_EACH (&blocking->sources, struct poll_source, node, source)
		blocking->poll_fds[n++] = (struct pollfd){
		    .fd = source->state == SOURCE_LOOKS_UP ? lookup_fd(source->lookup) : source->fd,
		    .events = source->state == SOURCE_LOOKS_UP ? POLLIN : events_of(source),
		};
	if (ppoll(blocking->poll_fds, n, &wait, NULL) <= 0)
		return;
	n = 0;
	/* The order is as before: sources that are added meanwhile stand in front of these. */
	LIST_EACH (&blocking->sources, struct poll_source, node, source)
		if (blocking->poll_fds[n++].revents != 0)
			handle_ready(blocking, source);
}

/* Runs the client's alarm if it is due. */
static void run_alarm(struct blocking *blocking)
{
	uint64_t now_ns = os_monotonic_ns();

	if (blocking->alarm_ns == 0 || now_ns < blocking->alarm_ns)
		return;
	blocking->alarm_ns = 0;
	redis_client_tick(blocking->client, now_ns);
}

/* One iteration: reports lost sources, writes and reads, and runs the alarm. */
static void run_once(struct blocking *blocking, uint64_t until_ns)
{
	if (!flush_and_reap(blocking)) {
		uint64_t now_ns = os_monotonic_ns();

		if (blocking->alarm_ns != 0)
			until_ns = u64_min(until_ns, blocking->alarm_ns);
		wait_ready(blocking, u64_min(WAIT_MAX_NS, sat_sub(until_ns, now_ns)));
	}
	run_alarm(blocking);
}

/* Transfers the bytes that need no wait, and runs the alarm if it is due. */
void blocking_poll(struct blocking *blocking)
{
	wait_ready(blocking, 0);
	run_alarm(blocking);
	flush_and_reap(blocking);
}

/* Serves the client until it awaits nothing more, at most until that time. */
void blocking_settle(struct blocking *blocking, uint64_t until_ns)
{
	blocking_poll(blocking);
	while (redis_client_is_awaited(blocking->client) && os_monotonic_ns() < until_ns)
		run_once(blocking, until_ns);
	flush_and_reap(blocking);
}

/* Serves the client until its callbacks have made *pending 0. */
void blocking_run(struct blocking *blocking, const size_t *pending)
{
	while (*pending > 0)
		run_once(blocking, UINT64_MAX);
	flush_and_reap(blocking);
}
