/*
 * transport.c: lets the loop of a worker carry the bytes of connections to Redis: dials addresses,
 * looks up host names, and passes what arrives to the attempt to connect or to call.
 */
#include "server/stores/transport.h"

#include <stdlib.h>
#include <string.h>

#include "net/address.h"
#include "redis/network/connection.h"
#include "redis/network/dialer.h"
#include "redis/network/host_lookup.h"
#include "redis/network/redis_address.h"

/* Long enough: the connection's own timeout is shorter. */
#define DIAL_TIMEOUT_MS 10000

struct dialed_socket {
	struct net_loop *loop;
	struct redis_attempt *attempt;
	struct net_conn *conn;
	bool is_open;
};

static struct net_loop *loop_of(struct redis_transport *transport)
{
	return ((struct server_transport *)transport)->loop;
}

/* The network has a pointer for each connection: to its dialed_socket, or NULL after hang_up. */
static struct dialed_socket **socket_of(struct net_conn *conn)
{
	return net_conn_data(conn);
}

/* Moves the output of the attempt's connection to the network. */
static void send_output(struct dialed_socket *dialed)
{
	struct connection *connection = redis_attempt_connection(dialed->attempt);
	struct slice bytes = connection_unsent_bytes(connection);

	if (bytes.len == 0)
		return;
	buffer_add_slice(net_conn_output(dialed->conn), bytes);
	connection_drop_sent_bytes(connection, bytes.len);
}

/* The connection is open: sends what was to be sent before. */
static void on_open(void *context, struct net_conn *conn)
{
	struct dialed_socket *dialed = *socket_of(conn);

	(void)context;
	if (!dialed)
		return;
	dialed->is_open = true;
	send_output(dialed);
}

static size_t on_data(void *context, struct net_conn *conn, struct slice bytes)
{
	struct dialed_socket *dialed = *socket_of(conn);

	(void)context;
	if (dialed)
		redis_attempt_receive(dialed->attempt, bytes);
	if (*socket_of(conn)) /* redis_attempt_receive may have hung up */
		send_output(dialed);
	return bytes.len;
}

static void on_store_close(void *context, struct net_conn *conn)
{
	struct dialed_socket *dialed = *socket_of(conn);
	const char *why = net_conn_error(conn);
	struct redis_attempt *attempt;

	(void)context;
	if (!dialed)
		return;
	net_loop_wake(dialed->loop); /* so that an iteration answers requests that this completes */
	attempt = dialed->attempt;
	free(dialed);
	redis_attempt_lost(attempt, why ? why : "the connection was closed");
}

static const struct net_kind kind = {on_open, on_data, on_store_close,
                                     .conn_size = sizeof(struct dialed_socket *)};

/* Begins to connect. Returns false if that fails at once; otherwise *out is the dialed_socket. */
static bool dial(struct redis_transport *transport, struct redis_attempt *attempt,
                 const struct redis_address *to, void **out)
{
	struct dialed_socket *dialed = calloc(1, sizeof *dialed);
	struct net_address address = {0};

	*out = NULL;
	if (!dialed)
		return false;
	memcpy(&address.any, &to->any, to->len);
	dialed->loop = loop_of(transport);
	dialed->attempt = attempt;
	dialed->conn = net_loop_dial(dialed->loop, &kind, &address, DIAL_TIMEOUT_MS);
	if (!dialed->conn) {
		free(dialed);
		return false;
	}
	*socket_of(dialed->conn) = dialed;
	*out = dialed;
	return true;
}

static void send_output_if_open(struct redis_transport *transport, void *dialed)
{
	(void)transport;
	if (((struct dialed_socket *)dialed)->is_open)
		send_output(dialed);
}

/* The attempt ends the connection: nothing of it is called any more. */
static void hang_up(struct redis_transport *transport, void *context)
{
	struct dialed_socket *dialed = context;

	(void)transport;
	*socket_of(dialed->conn) = NULL;
	net_conn_abort(dialed->conn);
	free(dialed);
}

/* A host name that is being looked up. */
struct host_lookup {
	struct redis_dialer *dialer;
	struct lookup *query;
	struct net_descriptor *descriptor; /* NULL when the transport has ended */
	struct server_transport *transport;
	struct list_node node; /* in transport->lookups */
};

static void end_lookup(struct host_lookup *lookup)
{
	if (lookup->descriptor)
		net_descriptor_close(lookup->descriptor);
	lookup_close(lookup->query);
	list_remove(&lookup->transport->lookups, &lookup->node);
	free(lookup);
}

static void on_host_found(void *context, unsigned events)
{
	struct host_lookup *lookup = context;
	struct redis_dialer *dialer = lookup->dialer;
	struct redis_address addresses[DIALER_ADDRESSES_MAX];
	size_t n;
	const char *why = lookup_result(lookup->query, addresses, DIALER_ADDRESSES_MAX, &n);

	(void)events;
	end_lookup(lookup);
	redis_dialer_found(dialer, addresses, n, why);
}

/* Begins to look a host name up. Returns the lookup, or NULL if memory is short. */
static void *start_lookup(struct redis_transport *transport, struct redis_dialer *dialer,
                          const struct redis_host *host)
{
	struct server_transport *server_transport = (struct server_transport *)transport;
	struct host_lookup *lookup = server_transport->has_ended ? NULL : calloc(1, sizeof *lookup);

	if (!lookup)
		return NULL;
	lookup->transport = server_transport;
	list_append(&server_transport->lookups, &lookup->node);
	lookup->dialer = dialer;
	lookup->query = lookup_open(host);
	if (!lookup->query ||
	    net_descriptor_open(&lookup->descriptor, server_transport->loop, lookup_fd(lookup->query),
	                        on_host_found, lookup) != WEIR_OK) {
		end_lookup(lookup);
		return NULL;
	}
	net_descriptor_set_events(lookup->descriptor, NET_READABLE);
	return lookup;
}

static void stop_lookup(struct redis_transport *transport, void *lookup)
{
	(void)transport;
	end_lookup(lookup);
}

static void set_transport_alarm(struct redis_transport *transport, uint64_t at_ns)
{
	((struct server_transport *)transport)->alarm_ns = at_ns;
}

void server_transport_open(struct server_transport *transport, struct net_loop *loop)
{
	static const struct redis_transport_kind transport_kind = {
	    start_lookup,        stop_lookup,        dial, send_output_if_open, hang_up,
	    set_transport_alarm, .serves_requesters = true};

	*transport = (struct server_transport){.base = {&transport_kind}, .loop = loop};
}

void server_transport_end(struct server_transport *transport)
{
	transport->has_ended = true;
	LIST_EACH (&transport->lookups, struct host_lookup, node, lookup) {
		net_descriptor_close(lookup->descriptor);
		lookup->descriptor = NULL;
	}
}
