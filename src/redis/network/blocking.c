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
#include "redis/network/lookup.h"
#include "redis/redis.h"

#define READ_MAX ((size_t)64 << 10)
/* The longest wait without looking at the client: it sets alarms for all that it awaits. */
#define WAIT_MAX_NS NS_PER_S

enum line_state {
	LINE_LOOKS_UP,
	LINE_CONNECTS,
	LINE_OPEN,
	LINE_LOST, /* the attempt has still to learn this */
	LINE_DEAD, /* to be freed */
};

/* A descriptor that is waited for: that of a lookup, or a socket. */
struct line {
	struct redis_dialer *dialer;         /* of a lookup */
	struct lookup *lookup;               /* of a socket NULL */
	struct redis_attempt *attempt;       /* of a socket */
	int fd;                              /* -1 for none */
	enum line_state state;
	int error;  /* why a socket was lost: an errno, or 0 */
	bool sends; /* it has bytes to be written, maybe */
	struct list_node node; /* of all */
};

struct blocking {
	struct redis_transport transport; /* first */
	struct store_client *client;
	struct list lines; /* the newest first */
	size_t count;
	struct pollfd *polled; /* room for all lines */
	size_t room;
	uint64_t alarm_ns; /* or 0 */
	char input[READ_MAX];
};

static struct blocking *blocking_of(struct redis_transport *transport)
{
	return (struct blocking *)transport;
}

/* Connecting */

static void close_fd(struct line *line)
{
	if (line->fd >= 0)
		close(line->fd);
	line->fd = -1;
}

static int open_socket(int family)
{
	int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	int on = 1;

	if (fd >= 0 && family != AF_UNIX)
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	return fd;
}

static void lose(struct line *line, int error)
{
	close_fd(line);
	line->error = error;
	line->state = LINE_LOST;
}

static void begin_connecting(struct line *line, const struct redis_address *to)
{
	line->fd = open_socket(to->any.sa_family);
	if (line->fd < 0 || (connect(line->fd, &to->any, to->len) != 0 && errno != EINPROGRESS))
		lose(line, errno);
}

static void finish_connecting(struct line *line)
{
	int error;
	socklen_t len = sizeof error;

	if (getsockopt(line->fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0)
		error = errno;
	if (error != 0) {
		lose(line, error);
		return;
	}
	line->state = LINE_OPEN;
	line->sends = true;
}

static void finish_lookup(struct line *line)
{
	struct redis_address addresses[DIALER_ADDRESSES_MAX];
	size_t n;
	const char *why = lookup_result(line->lookup, addresses, DIALER_ADDRESSES_MAX, &n);

	line->state = LINE_DEAD;
	redis_dialer_found(line->dialer, addresses, n, why);
}

/* The port */

static bool make_room(struct blocking *blocking)
{
	size_t count = blocking->count + 1;
	struct pollfd *polled;

	if (count <= blocking->room)
		return true;
	polled = realloc(blocking->polled, 2 * count * sizeof *polled);
	if (!polled)
		return false;
	blocking->polled = polled;
	blocking->room = 2 * count;
	return true;
}

/* NULL if there is no memory. */
static struct line *add_line(struct blocking *blocking, const struct line *line)
{
	struct line *added = make_room(blocking) ? malloc(sizeof *added) : NULL;

	if (!added)
		return NULL;
	*added = *line;
	list_insert(&blocking->lines, &added->node, blocking->lines.first);
	blocking->count++;
	return added;
}

static void *look_up(struct redis_transport *transport, struct redis_dialer *dialer,
                     const struct redis_host *host)
{
	struct lookup *lookup = lookup_open(host);
	struct line *line = NULL;

	if (lookup)
		line = add_line(
		    blocking_of(transport),
		    &(struct line){.dialer = dialer, .lookup = lookup, .fd = -1, .state = LINE_LOOKS_UP});
	if (!line)
		lookup_close(lookup);
	return line;
}

static bool dial(struct redis_transport *transport, struct redis_attempt *attempt,
                 const struct redis_address *to, void **out)
{
	struct line *line =
	    add_line(blocking_of(transport),
	             &(struct line){.attempt = attempt, .fd = -1, .state = LINE_CONNECTS});

	if (line)
		begin_connecting(line, to);
	*out = line;
	return line != NULL;
}

static void send_soon(struct redis_transport *transport, void *line)
{
	(void)transport;
	((struct line *)line)->sends = true;
}

/* It is freed later: the client may be called for this very line. */
static void hang_up(struct redis_transport *transport, void *line)
{
	(void)transport;
	close_fd(line);
	((struct line *)line)->state = LINE_DEAD;
}

static void set_alarm(struct redis_transport *transport, uint64_t at_ns)
{
	blocking_of(transport)->alarm_ns = at_ns;
}

static const struct redis_transport_kind kind = {
    .look_up = look_up,
    .stop_look_up = hang_up,
    .dial = dial,
    .send = send_soon,
    .hang_up = hang_up,
    .alarm = set_alarm,
};

struct blocking *blocking_open(void)
{
	struct blocking *blocking = calloc(1, sizeof *blocking);

	if (blocking)
		blocking->transport.kind = &kind;
	return blocking;
}

static void free_line(struct blocking *blocking, struct line *line)
{
	list_remove(&blocking->lines, &line->node);
	blocking->count--;
	close_fd(line);
	lookup_close(line->lookup);
	free(line);
}

void blocking_close(struct blocking *blocking)
{
	LIST_EACH(&blocking->lines, struct line, node, line)
	free_line(blocking, line);
	free(blocking->polled);
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

static void report_lost(struct line *line)
{
	line->state = LINE_DEAD;
	redis_attempt_lost(line->attempt, line->error == 0 ? "it has closed the connection"
	                                                   : strerrordesc_np(line->error));
}

/* Writes as much as the kernel takes now. */
static void write_line(struct line *line)
{
	struct connection *connection = redis_attempt_connection(line->attempt);
	struct slice out;

	while (line->state == LINE_OPEN && (out = connection_out(connection)).len > 0) {
		ssize_t sent = send(line->fd, out.data, out.len, MSG_NOSIGNAL);

		if (sent >= 0)
			connection_out_gone(connection, (size_t)sent);
		else if (errno == EAGAIN)
			return;
		else if (errno != EINTR)
			lose(line, errno);
	}
	line->sends = false;
}

static void read_line(struct blocking *blocking, struct line *line)
{
	ssize_t len = recv(line->fd, blocking->input, sizeof blocking->input, 0);

	if (len > 0) {
		redis_attempt_in(line->attempt, (struct slice){blocking->input, (size_t)len});
		line->sends = line->state == LINE_OPEN; /* a greeting goes on */
	} else if (len == 0 || (errno != EAGAIN && errno != EINTR)) {
		lose(line, len == 0 ? 0 : errno);
	}
}

static short events_of(const struct line *line)
{
	if (line->state == LINE_CONNECTS)
		return POLLOUT;
	return (short)(line->sends ? POLLIN | POLLOUT : POLLIN);
}

static void move(struct blocking *blocking, struct line *line)
{
	switch (line->state) {
	case LINE_LOOKS_UP:
		finish_lookup(line);
		break;
	case LINE_CONNECTS:
		finish_connecting(line);
		break;
	case LINE_OPEN:
		read_line(blocking, line);
		break;
	case LINE_LOST:
	case LINE_DEAD:
		break;
	}
}

/* Writes, reports lost lines, and frees the dead. Whether it has reported any. */
static bool tend(struct blocking *blocking)
{
	bool told = false;

	LIST_EACH(&blocking->lines, struct line, node, line)
	{
		if (line->sends && line->state == LINE_OPEN)
			write_line(line);
		if (line->state == LINE_LOST) {
			report_lost(line);
			told = true;
		}
	}
	LIST_EACH(&blocking->lines, struct line, node, line)
	if (line->state == LINE_DEAD)
		free_line(blocking, line);
	return told;
}

static void wait_ready(struct blocking *blocking, uint64_t wait_ns)
{
	struct timespec wait = {(time_t)(wait_ns / NS_PER_S), (long)(wait_ns % NS_PER_S)};
	size_t n = 0;

	LIST_EACH(&blocking->lines, struct line, node, line)
	blocking->polled[n++] = (struct pollfd){
	    .fd = line->state == LINE_LOOKS_UP ? lookup_fd(line->lookup) : line->fd,
	    .events = line->state == LINE_LOOKS_UP ? POLLIN : events_of(line),
	};
	if (ppoll(blocking->polled, n, &wait, NULL) <= 0)
		return;
	n = 0;
	/* A line that is dialled meanwhile comes before all of them. */
	LIST_EACH(&blocking->lines, struct line, node, line)
	if (blocking->polled[n++].revents != 0)
		move(blocking, line);
}

/* An alarm of the client that is due. */
static void ring(struct blocking *blocking)
{
	uint64_t now_ns = os_monotonic_ns();

	if (blocking->alarm_ns == 0 || now_ns < blocking->alarm_ns)
		return;
	blocking->alarm_ns = 0;
	redis_client_tick(blocking->client, now_ns);
}

/* Once: lines that were lost are told, what is to be sent is sent, what comes is read. */
static void turn(struct blocking *blocking, uint64_t until_ns)
{
	uint64_t now_ns;

	if (!tend(blocking)) {
		now_ns = os_monotonic_ns();
		if (blocking->alarm_ns != 0)
			until_ns = u64_min(until_ns, blocking->alarm_ns);
		wait_ready(blocking, u64_min(WAIT_MAX_NS, sat_sub(until_ns, now_ns)));
	}
	ring(blocking);
}

void blocking_poll(struct blocking *blocking)
{
	wait_ready(blocking, 0);
	ring(blocking);
	tend(blocking);
}

void blocking_settle(struct blocking *blocking, uint64_t until_ns)
{
	blocking_poll(blocking);
	while (redis_client_is_awaited(blocking->client) && os_monotonic_ns() < until_ns)
		turn(blocking, until_ns);
	tend(blocking);
}

void blocking_run(struct blocking *blocking, const size_t *pending)
{
	while (*pending > 0)
		turn(blocking, UINT64_MAX);
	tend(blocking);
}
