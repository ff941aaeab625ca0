#include "server/stores/lanes.h"

#include "base/os/os.h"

int lanes_open(struct lanes *lanes, struct net_loop *loop, const struct stores *stores)
{
	for (size_t i = lanes_count(lanes); i < stores->count; i++) {
		struct lane *lane = &lanes->items[i];
		int status;

		server_transport_open(&lane->transport, loop);
		lane->armed_ns = 0;
		status = redis_client_open(stores->items[i].store, &lane->transport.base, &lanes->ways[i]);
		if (status != WEIR_OK)
			return status;
		atomic_store_explicit(&lanes->count, i + 1, memory_order_release);
	}
	return WEIR_OK;
}

void lanes_end(struct lanes *lanes)
{
	size_t n = lanes_count(lanes);

	for (size_t i = 0; i < n; i++)
		server_transport_end(&lanes->items[i].transport);
}

void lanes_close(struct lanes *lanes)
{
	for (size_t i = lanes_count(lanes); i > 0; i--)
		redis_client_close(lanes->ways[i - 1]);
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
		if (lane->transport.alarm_ns == 0 || lane->transport.alarm_ns > now_ns)
			continue;
		lane->transport.alarm_ns = 0;
		redis_client_tick(lanes->ways[i], now_ns);
	}
}

size_t lanes_steps(const struct lanes *lanes)
{
	size_t n = lanes_count(lanes), steps = 0;

	for (size_t i = 0; i < n; i++)
		steps += redis_client_steps(lanes->ways[i]);
	return steps;
}

void lanes_flush(struct lanes *lanes)
{
	size_t n = lanes_count(lanes);

	for (size_t i = 0; i < n; i++)
		redis_client_flush(lanes->ways[i]);
}

void lanes_stop(struct lanes *lanes)
{
	size_t n = lanes_count(lanes);

	for (size_t i = 0; i < n; i++)
		redis_client_stop(lanes->ways[i]);
}

uint64_t lanes_due(struct lanes *lanes)
{
	size_t n = lanes_count(lanes);
	uint64_t due_ns = 0;

	for (size_t i = 0; i < n; i++) {
		struct lane *lane = &lanes->items[i];

		if (lane->transport.alarm_ns != 0 &&
		    (lane->armed_ns == 0 || lane->transport.alarm_ns < lane->armed_ns))
			lane->armed_ns = lane->transport.alarm_ns;
		if (lane->armed_ns != 0 && (due_ns == 0 || lane->armed_ns < due_ns))
			due_ns = lane->armed_ns;
	}
	return due_ns;
}
