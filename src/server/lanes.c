#include "server/lanes.h"

#include "base/os.h"
#include "server/line.h"

/* A line's owner is its node. */
static void take_in(void *node, struct slice bytes)
{
	redis_node_in(node, bytes);
}

static void lose(void *node, const char *why)
{
	redis_node_lost(node, why);
}

static const struct line_owner owner = {take_in, lose};

static bool port_dial(struct redis_port *port, struct redis_node *node,
                      const struct redis_host *host, void **out)
{
	struct net_loop *loop = ((struct lane *)port)->loop;
	struct line *line = line_open(loop, redis_node_link(node), host, &owner, node);

	*out = line;
	return line != NULL;
}

static void port_send(struct redis_port *port, void *line)
{
	(void)port;
	line_send(line);
}

static void port_hang_up(struct redis_port *port, void *line)
{
	(void)port;
	line_close(line);
}

static void port_alarm(struct redis_port *port, uint64_t at_ns)
{
	((struct lane *)port)->alarm_ns = at_ns;
}

static const struct redis_port_kind port_kind = {port_dial, port_send, port_hang_up, port_alarm,
                                                .has_clients = true};

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

size_t lanes_steps(const struct lanes *lanes)
{
	size_t n = lanes_count(lanes), steps = 0;

	for (size_t i = 0; i < n; i++)
		steps += redis_lane_steps(lanes->ways[i]);
	return steps;
}

void lanes_flush(struct lanes *lanes)
{
	size_t n = lanes_count(lanes);

	for (size_t i = 0; i < n; i++)
		redis_lane_flush(lanes->ways[i]);
}

void lanes_stop(struct lanes *lanes)
{
	size_t n = lanes_count(lanes);

	for (size_t i = 0; i < n; i++)
		redis_lane_stop(lanes->ways[i]);
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
