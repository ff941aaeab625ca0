#include "server/stores/transport.h"

#include <stdlib.h>
#include <string.h>

#include "net/address.h"
#include "redis/network/connection.h"
#include "redis/network/dialer.h"
#include "redis/network/lookup.h"
#include "redis/network/redis_address.h"

/* The connection gives up sooner. */
#define DIAL_TIMEOUT_MS 10000

struct line {
	struct net_loop *loop;
	struct redis_attempt *attempt;
	struct net_conn *conn;
	bool is_open;
};

static struct net_loop *loop_of(struct redis_transport *transport)
{
	return ((struct server_transport *)transport)->loop;
}

/* NULL after it was hung up. */
static struct line **line_of(struct net_conn *conn)
{
	return net_conn_data(conn);
}

static void write_out(struct line *line)
{
	struct connection *connection = redis_attempt_connection(line->attempt);
	struct slice bytes = connection_out(connection);

	if (bytes.len == 0)
		return;
	buffer_add_slice(net_conn_out(line->conn), bytes);
	connection_out_gone(connection, bytes.len);
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
		redis_attempt_in(line->attempt, bytes);
	if (*line_of(conn)) /* not hung up by that */
		write_out(line);
	return bytes.len;
}

static void on_close(void *context, struct net_conn *conn)
{
	struct line *line = *line_of(conn);
	const char *why = net_conn_error(conn);
	struct redis_attempt *attempt;

	(void)context;
	if (!line)
		return;
	net_loop_wake(line->loop); /* what this completes is answered in a turn */
	attempt = line->attempt;
	free(line);
	redis_attempt_lost(attempt, why ? why : "the connection was closed");
}

static const struct net_kind kind = {on_open, on_data, on_close, .conn_size = sizeof(struct line *)};

static bool dial(struct redis_transport *transport, struct redis_attempt *attempt,
                 const struct redis_address *to, void **out)
{
	struct line *line = calloc(1, sizeof *line);
	struct net_address address = {0};

	*out = NULL;
	if (!line)
		return false;
	memcpy(&address.any, &to->any, to->len);
	line->loop = loop_of(transport);
	line->attempt = attempt;
	line->conn = net_loop_dial(line->loop, &kind, &address, DIAL_TIMEOUT_MS);
	if (!line->conn) {
		free(line);
		return false;
	}
	*line_of(line->conn) = line;
	*out = line;
	return true;
}

static void send_out(struct redis_transport *transport, void *line)
{
	(void)transport;
	if (((struct line *)line)->is_open)
		write_out(line);
}

static void hang_up(struct redis_transport *transport, void *context)
{
	struct line *line = context;

	(void)transport;
	*line_of(line->conn) = NULL;
	net_conn_abort(line->conn);
	free(line);
}

/* A name that is looked up. */
struct search {
	struct redis_dialer *dialer;
	struct lookup *lookup;
	struct net_watch *watch; /* NULL when the transport has ended */
	struct server_transport *transport;
	struct list_node node; /* of its transport's */
};

static void end_search(struct search *search)
{
	if (search->watch)
		net_watch_close(search->watch);
	lookup_close(search->lookup);
	list_remove(&search->transport->searches, &search->node);
	free(search);
}

static void on_found(void *context, unsigned events)
{
	struct search *search = context;
	struct redis_dialer *dialer = search->dialer;
	struct redis_address addresses[DIALER_ADDRESSES_MAX];
	size_t n;
	const char *why = lookup_result(search->lookup, addresses, DIALER_ADDRESSES_MAX, &n);

	(void)events;
	end_search(search);
	redis_dialer_found(dialer, addresses, n, why);
}

static void *look_up(struct redis_transport *transport, struct redis_dialer *dialer,
                     const struct redis_host *host)
{
	struct server_transport *of = (struct server_transport *)transport;
	struct search *search = of->has_ended ? NULL : calloc(1, sizeof *search);

	if (!search)
		return NULL;
	search->transport = of;
	list_append(&of->searches, &search->node);
	search->dialer = dialer;
	search->lookup = lookup_open(host);
	if (!search->lookup || net_watch_open(&search->watch, of->loop, lookup_fd(search->lookup),
	                                      on_found, search) != WEIR_OK) {
		end_search(search);
		return NULL;
	}
	net_watch_for(search->watch, NET_READABLE);
	return search;
}

static void stop_look_up(struct redis_transport *transport, void *search)
{
	(void)transport;
	end_search(search);
}

static void set_alarm(struct redis_transport *transport, uint64_t at_ns)
{
	((struct server_transport *)transport)->alarm_ns = at_ns;
}

void server_transport_open(struct server_transport *transport, struct net_loop *loop)
{
	static const struct redis_transport_kind transport_kind = {
	    look_up, stop_look_up, dial, send_out, hang_up, set_alarm, .has_clients = true};

	*transport = (struct server_transport){.base = {&transport_kind}, .loop = loop};
}

void server_transport_end(struct server_transport *transport)
{
	transport->has_ended = true;
	LIST_EACH(&transport->searches, struct search, node, search) {
		net_watch_close(search->watch);
		search->watch = NULL;
	}
}
