/*
 * store_clients.c: opens and runs the store clients of one worker: its connections to the Redis
 * stores, which the worker's loop serves. An alarm of the loop (`loop_alarm_ns`) calls clients
 * whose own alarm (`base.alarm_ns`) is due.
 */
#include "server/stores/store_clients.h"

#include "base/os/os.h"

/* Continues behind the clients that are open: a reload may have added stores. */
int store_clients_open(struct store_clients *clients, struct net_loop *loop,
                       const struct stores *stores)
{
	for (size_t i = store_clients_count(clients); i < stores->count; i++) {
		struct client_transport *transport = &clients->transports[i];
		int status;

		server_transport_open(&transport->base, loop);
		transport->loop_alarm_ns = 0;
		status =
		    redis_client_open(stores->items[i].store, &transport->base.base, &clients->by_store[i]);
		if (status != WEIR_OK)
			return status;
		atomic_store_explicit(&clients->count, i + 1, memory_order_release);
	}
	return WEIR_OK;
}

void store_clients_end(struct store_clients *clients)
{
	size_t n = store_clients_count(clients);

	for (size_t i = 0; i < n; i++)
		server_transport_end(&clients->transports[i].base);
}

void store_clients_close(struct store_clients *clients)
{
	for (size_t i = store_clients_count(clients); i > 0; i--)
		redis_client_close(clients->by_store[i - 1]);
	clients->count = 0;
}

void store_clients_tick(struct store_clients *clients)
{
	size_t n = store_clients_count(clients);
	uint64_t now_ns = n > 0 ? os_monotonic_ns() : 0;

	for (size_t i = 0; i < n; i++) {
		struct client_transport *transport = &clients->transports[i];

		if (transport->loop_alarm_ns != 0 && transport->loop_alarm_ns <= now_ns)
			transport->loop_alarm_ns = 0; /* the loop's alarm has gone off */
		if (transport->base.alarm_ns == 0 || transport->base.alarm_ns > now_ns)
			continue;
		transport->base.alarm_ns = 0;
		redis_client_tick(clients->by_store[i], now_ns);
	}
}

size_t store_clients_steps(const struct store_clients *clients)
{
	size_t n = store_clients_count(clients), steps = 0;

	for (size_t i = 0; i < n; i++)
		steps += redis_client_command_count(clients->by_store[i]);
	return steps;
}

void store_clients_flush(struct store_clients *clients)
{
	size_t n = store_clients_count(clients);

	for (size_t i = 0; i < n; i++)
		redis_client_flush(clients->by_store[i]);
}

void store_clients_stop(struct store_clients *clients)
{
	size_t n = store_clients_count(clients);

	for (size_t i = 0; i < n; i++)
		redis_client_stop(clients->by_store[i]);
}

/*
 * The loop's alarm is moved if the client's own is earlier, but not if that is later, which would
 * cost a system call in each iteration.
 */
uint64_t store_clients_due(struct store_clients *clients)
{
	size_t n = store_clients_count(clients);
	uint64_t due_ns = 0;

	for (size_t i = 0; i < n; i++) {
		struct client_transport *transport = &clients->transports[i];

		if (transport->base.alarm_ns != 0 &&
		    (transport->loop_alarm_ns == 0 || transport->base.alarm_ns < transport->loop_alarm_ns))
			transport->loop_alarm_ns = transport->base.alarm_ns;
		if (transport->loop_alarm_ns != 0 && (due_ns == 0 || transport->loop_alarm_ns < due_ns))
			due_ns = transport->loop_alarm_ns;
	}
	return due_ns;
}
