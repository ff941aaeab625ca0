#include "server/line.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/address.h"
#include "redis/url.h"

/* Owners give up sooner. */
#define DIAL_TIMEOUT_MS 10000

struct line {
	struct net_loop *loop;
	struct link *link;
	const struct line_owner *owner;
	void *context;
	struct net_lookup *lookup; /* NULL: done */
	struct net_conn *conn;     /* NULL: not yet */
	bool is_open;
	size_t next, count; /* of the addresses, the one to be tried next */
	struct net_address addresses[NET_LOOKUP_MAX];
};

/* NULL: it was closed. */
static struct line **line_of(struct net_conn *conn)
{
	return net_conn_data(conn);
}

static void write_out(struct line *line)
{
	struct slice bytes = link_out(line->link);

	if (bytes.len == 0)
		return;
	buffer_add_slice(net_conn_out(line->conn), bytes);
	link_out_gone(line->link, bytes.len);
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
		line->owner->in(line->context, bytes);
	if (*line_of(conn)) /* not closed by that */
		write_out(line);
	return bytes.len;
}

static void lose(struct line *line, const char *why)
{
	const struct line_owner *owner = line->owner;
	void *context = line->context;

	free(line);
	owner->lost(context, why);
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

struct line *line_open(struct net_loop *loop, struct link *link, const struct redis_host *host,
                       const struct line_owner *owner, void *context)
{
	struct line *line = calloc(1, sizeof *line);

	if (!line)
		return NULL;
	line->loop = loop;
	line->link = link;
	line->owner = owner;
	line->context = context;
	if (is_address(host, &line->addresses[0]))
		line->count = 1;
	else
		line->lookup = net_lookup_open(loop, host->name, host->port, found, line);
	if (line->lookup || dial_next(line))
		return line;
	free(line);
	return NULL;
}

void line_send(struct line *line)
{
	if (line->is_open)
		write_out(line);
}

void line_close(struct line *line)
{
	if (line->lookup)
		net_lookup_close(line->lookup);
	if (line->conn) {
		*line_of(line->conn) = NULL;
		net_conn_abort(line->conn);
	}
	free(line);
}
