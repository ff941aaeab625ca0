#include "redis/blocking.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/number.h"
#include "base/os.h"
#include "redis/link.h"
#include "redis/lookup.h"
#include "redis/redis.h"

#define READ_MAX ((size_t)64 << 10)
/* The longest wait without looking at the lane: it sets alarms for all that it awaits. */
#define WAIT_MAX_NS NS_PER_S

enum line_state {
	LINE_LOOKS_UP,
	LINE_CONNECTS,
	LINE_OPEN,
	LINE_LOST, /* to be told */
	LINE_DEAD, /* to be freed */
};

/* A connection. */
struct line {
	struct redis_node *node;
	struct lookup *lookup;       /* of an open one NULL */
	const struct addrinfo *next; /* address to be tried when this one fails */
	int fd;                      /* -1: none */
	enum line_state state;
	int error; /* why it was lost: an errno, or one of EAI_* where `lookup` failed */
	bool sends; /* it has bytes to be written, maybe */
	struct line *other;
};

struct blocking {
	struct redis_port port; /* first */
	struct store_lane *lane;
	struct line *lines;
	struct pollfd *polled; /* room for all lines */
	size_t room;
	uint64_t alarm_ns; /* 0: none */
	char input[READ_MAX];
};

static struct blocking *blocking_of(struct redis_port *port)
{
	return (struct blocking *)port;
}

/* Connecting */

static void close_fd(struct line *line)
{
	if (line->fd >= 0)
		close(line->fd);
	line->fd = -1;
}

static int open_socket(const struct addrinfo *address)
{
	int fd = socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	int on = 1;

	if (fd >= 0)
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	return fd;
}

/* Tries the next address that does not refuse at once. */
static void connect_next(struct line *line)
{
	close_fd(line);
	line->state = LINE_LOST;
	for (; line->next && line->state == LINE_LOST; line->next = line->next->ai_next) {
		line->fd = open_socket(line->next);
		if (line->fd < 0 ||
		    (connect(line->fd, line->next->ai_addr, line->next->ai_addrlen) != 0 &&
		     errno != EINPROGRESS)) {
			line->error = errno;
			close_fd(line);
		} else {
			line->state = LINE_CONNECTS;
		}
	}
}

static void finish_connecting(struct line *line)
{
	socklen_t len = sizeof line->error;

	if (getsockopt(line->fd, SOL_SOCKET, SO_ERROR, &line->error, &len) != 0)
		line->error = errno;
	if (line->error != 0) {
		connect_next(line);
		return;
	}
	line->state = LINE_OPEN;
	line->sends = true;
	line->next = NULL;
	lookup_close(line->lookup);
	line->lookup = NULL;
}

static void finish_lookup(struct line *line)
{
	line->error = lookup_result(line->lookup, &line->next);
	connect_next(line);
}

/* The port */

static bool make_room(struct blocking *blocking)
{
	size_t count = 1;
	struct pollfd *polled;

	for (const struct line *line = blocking->lines; line; line = line->other)
		count++;
	if (count <= blocking->room)
		return true;
	polled = realloc(blocking->polled, 2 * count * sizeof *polled);
	if (!polled)
		return false;
	blocking->polled = polled;
	blocking->room = 2 * count;
	return true;
}

static bool dial(struct redis_port *port, struct redis_node *node, const struct redis_host *host,
                 void **out)
{
	struct blocking *blocking = blocking_of(port);
	struct line *line = make_room(blocking) ? malloc(sizeof *line) : NULL;

	if (!line)
		return false;
	*line = (struct line){.node = node, .lookup = lookup_open(host), .fd = -1};
	if (!line->lookup) {
		free(line);
		return false;
	}
	line->other = blocking->lines;
	blocking->lines = line;
	*out = line;
	return true;
}

static void send_soon(struct redis_port *port, void *line)
{
	(void)port;
	((struct line *)line)->sends = true;
}

/* It is freed later: the lane may be called for this very line. */
static void hang_up(struct redis_port *port, void *line)
{
	(void)port;
	close_fd(line);
	((struct line *)line)->state = LINE_DEAD;
}

static void set_alarm(struct redis_port *port, uint64_t at_ns)
{
	blocking_of(port)->alarm_ns = at_ns;
}

static const struct redis_port_kind kind = {
    .dial = dial,
    .send = send_soon,
    .hang_up = hang_up,
    .alarm = set_alarm,
};

struct blocking *blocking_open(void)
{
	struct blocking *blocking = calloc(1, sizeof *blocking);

	if (blocking)
		blocking->port.kind = &kind;
	return blocking;
}

static void free_line(struct line *line)
{
	close_fd(line);
	lookup_close(line->lookup);
	free(line);
}

void blocking_close(struct blocking *blocking)
{
	while (blocking->lines) {
		struct line *line = blocking->lines;

		blocking->lines = line->other;
		free_line(line);
	}
	free(blocking->polled);
	free(blocking);
}

struct redis_port *blocking_port(struct blocking *blocking)
{
	return &blocking->port;
}

void blocking_serve(struct blocking *blocking, struct store_lane *lane)
{
	blocking->lane = lane;
}

/* Moving bytes */

static void lose(struct line *line, int error)
{
	close_fd(line);
	line->error = error;
	line->state = LINE_LOST;
}

static void tell_lost(struct line *line)
{
	char text[128];
	bool no_address = line->lookup && line->error < 0;

	line->state = LINE_DEAD;
	snprintf(text, sizeof text, "%s",
	         no_address           ? gai_strerror(line->error)
	         : line->error == 0   ? "it has closed the connection"
	                              : strerrordesc_np(line->error));
	redis_node_lost(line->node, text);
}

/* Writes as much as the kernel takes now. */
static void write_line(struct line *line)
{
	struct link *link = redis_node_link(line->node);
	struct slice out;

	while (line->state == LINE_OPEN && (out = link_out(link)).len > 0) {
		ssize_t sent = send(line->fd, out.data, out.len, MSG_NOSIGNAL);

		if (sent >= 0)
			link_out_gone(link, (size_t)sent);
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
		redis_node_in(line->node, (struct slice){blocking->input, (size_t)len});
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

/* Writes, tells the lane of lost lines, and frees the dead. Whether it has told any. */
static bool tend(struct blocking *blocking)
{
	bool told = false;

	for (struct line *line = blocking->lines; line; line = line->other) {
		if (line->sends && line->state == LINE_OPEN)
			write_line(line);
		if (line->state == LINE_LOST) {
			tell_lost(line);
			told = true;
		}
	}
	for (struct line **at = &blocking->lines; *at;) {
		struct line *line = *at;

		if (line->state == LINE_DEAD) {
			*at = line->other;
			free_line(line);
		} else {
			at = &line->other;
		}
	}
	return told;
}

static void wait_ready(struct blocking *blocking, uint64_t wait_ns)
{
	struct timespec wait = {(time_t)(wait_ns / NS_PER_S), (long)(wait_ns % NS_PER_S)};
	struct line *line;
	size_t n = 0;

	for (line = blocking->lines; line; line = line->other)
		blocking->polled[n++] = (struct pollfd){
		    .fd = line->state == LINE_LOOKS_UP ? lookup_fd(line->lookup) : line->fd,
		    .events = line->state == LINE_LOOKS_UP ? POLLIN : events_of(line),
		};
	if (ppoll(blocking->polled, n, &wait, NULL) <= 0)
		return;
	/* A line that is dialled meanwhile comes before all of them. */
	line = blocking->lines;
	for (size_t i = 0; i < n; i++, line = line->other)
		if (blocking->polled[i].revents != 0)
			move(blocking, line);
}

/* An alarm of the lane that is due. */
static void ring(struct blocking *blocking)
{
	uint64_t now_ns = os_monotonic_ns();

	if (blocking->alarm_ns == 0 || now_ns < blocking->alarm_ns)
		return;
	blocking->alarm_ns = 0;
	redis_lane_tick(blocking->lane, now_ns);
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

void blocking_look(struct blocking *blocking)
{
	wait_ready(blocking, 0);
	ring(blocking);
	tend(blocking);
}

void blocking_settle(struct blocking *blocking, uint64_t until_ns)
{
	blocking_look(blocking);
	while (redis_lane_is_awaited(blocking->lane) && os_monotonic_ns() < until_ns)
		turn(blocking, until_ns);
	tend(blocking);
}

void blocking_run(struct blocking *blocking, const size_t *pending)
{
	while (*pending > 0)
		turn(blocking, UINT64_MAX);
	tend(blocking);
}
