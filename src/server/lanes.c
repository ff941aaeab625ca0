#include "server/lanes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "base/os.h"
#include "net/address.h"
#include "redis/link.h"

/* Lanes give up sooner. */
#define DIAL_TIMEOUT_MS 10000

/* A connection to a node, from the look-up of its host on. */
struct line {
	struct net_loop *loop;
	struct redis_node *node;
	struct net_lookup *lookup; /* NULL: done */
	struct net_conn *conn;     /* NULL: not yet */
	bool is_open;
	size_t next, count; /* of the addresses, the one to be tried next */
	struct net_address addresses[NET_LOOKUP_MAX];
};

/* NULL: it was hung up. */
static struct line **line_of(struct net_conn *conn)
{
	return net_conn_data(conn);
}

static void write_out(struct line *line)
{
	struct link *link = redis_node_link(line->node);
	struct slice bytes = link_out(link);

	if (bytes.len == 0)
		return;
	buffer_add_slice(net_conn_out(line->conn), bytes);
	link_out_gone(link, bytes.len);
}

static void on_open(void *context, struct net_conn *conn)
{
	struct line *line = *line_of(conn);

	(void)context;
	if (!line)
		return;
	line->is_open = true;
	write_out(line);
}

static size_t on_data(void *context, struct net_conn *conn, struct slice bytes)
{
	struct line *line = *line_of(conn);

	(void)context;
	if (line)
		redis_node_in(line->node, bytes);
	if (*line_of(conn)) /* not hung up by that */
		write_out(line);
	return bytes.len;
}

static void lose(struct line *line, const char *why)
{
	struct redis_node *node = line->node;

	free(line);
	redis_node_lost(node, why);
}

static bool dial_next(struct line *line);

static void on_close(void *context, struct net_conn *conn)
{
	struct line *line = *line_of(conn);
	const char *why = net_conn_error(conn);

	(void)context;
	if (!line)
		return;
	net_loop_wake(line->loop); /* what this completes is answered in a turn */
	line->conn = NULL;
	if (line->is_open || !dial_next(line))
		lose(line, why ? why : "the connection was closed");
}

static const struct net_kind kind = {on_open, on_data, on_close, .conn_size = sizeof(struct line *)};

/* False: no address is left, or no memory. */
static bool dial_next(struct line *line)
{
	if (line->next == line->count)
		return false;
	line->conn = net_loop_dial(line->loop, &kind, &line->addresses[line->next++], DIAL_TIMEOUT_MS);
	if (!line->conn)
		return false;
	*line_of(line->conn) = line;
	return true;
}

static void found(void *context, const struct net_address *addresses, size_t n, const char *why)
{
	struct line *line = context;

	line->lookup = NULL;
	line->count = n;
	memcpy(line->addresses, addresses, n * sizeof *addresses);
	if (!dial_next(line))
		lose(line, why ? why : "its host has no address");
}

static bool is_address(const struct redis_host *host, struct net_address *out)
{
	char text[REDIS_HOST_MAX + 16];
	bool has_colons = strchr(host->name, ':') != NULL;

	snprintf(text, sizeof text, has_colons ? "[%s]:%u" : "%s:%u", host->name, host->port);
	return net_address_parse(slice_of(text), out, NULL) == WEIR_OK;
}

static bool port_dial(struct redis_port *port, struct redis_node *node,
                      const struct redis_host *host, void **out)
{
	struct line *line = calloc(1, sizeof *line);

	if (!line)
		return false;
	line->loop = ((struct lane *)port)->loop;
	line->node = node;
	if (is_address(host, &line->addresses[0]))
		line->count = 1;
	else
		line->lookup = net_lookup_open(line->loop, host->name, host->port, found, line);
	if (line->lookup || dial_next(line)) {
		*out = line;
		return true;
	}
	free(line);
	return false;
}

static void port_send(struct redis_port *port, void *to)
{
	struct line *line = to;

	(void)port;
	if (line->is_open)
		write_out(line);
}

static void port_hang_up(struct redis_port *port, void *to)
{
	struct line *line = to;

	(void)port;
	if (line->lookup)
		net_lookup_close(line->lookup);
	if (line->conn) {
		*line_of(line->conn) = NULL;
		net_conn_abort(line->conn);
	}
	free(line);
}

static void port_alarm(struct redis_port *port, uint64_t at_ns)
{
	((struct lane *)port)->alarm_ns = at_ns;
}

static const struct redis_port_kind port_kind = {port_dial, port_send, port_hang_up, port_alarm};

int lanes_open(struct lanes *lanes, struct net_loop *loop, const struct stores *stores)
{
	for (size_t i = lanes_count(lanes); i < stores->count; i++) {
		struct lane *lane = &lanes->items[i];
		int status;

		*lane = (struct lane){.port = {&port_kind}, .loop = loop};
		status = redis_lane_open(stores->items[i].store, &lane->port, &lanes->ways[i]);
		if (status != WEIR_OK)
			return status;
		atomic_store_explicit(&lanes->count, i + 1, memory_order_release);
	}
	return WEIR_OK;
}

void lanes_close(struct lanes *lanes)
{
	for (size_t i = lanes_count(lanes); i > 0; i--)
		redis_lane_close(lanes->ways[i - 1]);
	lanes->count = 0;
}

void lanes_tick(struct lanes *lanes)
{
	size_t n = lanes_count(lanes);
	uint64_t now_ns = n > 0 ? os_monotonic_ns() : 0;

	for (size_t i = 0; i < n; i++) {
		struct lane *lane = &lanes->items[i];

		if (lane->armed_ns != 0 && lane->armed_ns <= now_ns)
			lane->armed_ns = 0;
		if (lane->alarm_ns == 0 || lane->alarm_ns > now_ns)
			continue;
		lane->alarm_ns = 0;
		redis_lane_tick(lanes->ways[i], now_ns);
	}
}

void lanes_flush(struct lanes *lanes)
{
	size_t n = lanes_count(lanes);

	for (size_t i = 0; i < n; i++)
		redis_lane_flush(lanes->ways[i]);
}

uint64_t lanes_due(struct lanes *lanes)
{
	size_t n = lanes_count(lanes);
	uint64_t due_ns = 0;

	for (size_t i = 0; i < n; i++) {
		struct lane *lane = &lanes->items[i];

		if (lane->alarm_ns != 0 && (lane->armed_ns == 0 || lane->alarm_ns < lane->armed_ns))
			lane->armed_ns = lane->alarm_ns;
		if (lane->armed_ns != 0 && (due_ns == 0 || lane->armed_ns < due_ns))
			due_ns = lane->armed_ns;
	}
	return due_ns;
}
