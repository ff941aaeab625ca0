#include "redis/network/connection.h"

#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "base/os/os.h"

struct redis_attempt {
	struct redis_connection *connection;
	struct link *link; /* NULL when it has failed */
	void *line;        /* the port's, NULL when it has ended */
};

struct redis_connection {
	struct redis_port *port;
	struct connection_target target;
	const struct connection_owner *owner;
	void *context;
	void *lookup; /* under way, or NULL */
	struct redis_attempt *accepted;
	size_t count, begun; /* addresses, and attempts */
	bool is_of_replica;  /* the newest failure is that */
	uint64_t next_ns;    /* when the next attempt begins, 0 if no address is left */
	char why[160];       /* the newest failure */
	struct redis_address addresses[CONNECTION_ADDRESSES_MAX];
	struct redis_attempt attempts[CONNECTION_ADDRESSES_MAX]; /* one for each address */
};

static void note(const struct redis_connection *connection, const struct redis_attempt *attempt,
                 bool works)
{
	if (connection->target.known)
		addresses_note(connection->target.known,
		               &connection->addresses[attempt - connection->attempts], works);
}

static void attempt_end(struct redis_attempt *attempt)
{
	struct redis_port *port = attempt->connection->port;

	if (attempt->line)
		port->kind->hang_up(port, attempt->line);
	attempt->line = NULL;
	if (attempt->link)
		link_close(attempt->link);
	attempt->link = NULL;
}

/* False: no memory. */
static bool attempt_begin(struct redis_connection *connection)
{
	struct redis_attempt *attempt = &connection->attempts[connection->begun];
	const struct redis_address *to = &connection->addresses[connection->begun++];
	struct redis_port *port = connection->port;

	attempt->connection = connection;
	if (link_open(&attempt->link, connection->target.url, connection->target.peer,
	              connection->target.host.name) == WEIR_OK &&
	    port->kind->dial(port, attempt, to, &attempt->line))
		return true;
	attempt_end(attempt);
	return false;
}

static bool is_under_way(const struct redis_connection *connection)
{
	for (size_t i = 0; i < connection->begun; i++)
		if (connection->attempts[i].link)
			return true;
	return false;
}

static uint64_t delay_ns(const struct redis_connection *connection)
{
	return u64_min(CONNECTION_DELAY_NS, CONNECTION_TIME_NS / 2 / connection->count);
}

/* Begins an attempt at the next address. False: there is none, or no memory for any. */
static bool go_on(struct redis_connection *connection)
{
	bool has_begun = false;

	while (!has_begun && connection->begun < connection->count)
		has_begun = attempt_begin(connection);
	connection->next_ns = 0;
	if (connection->begun < connection->count) {
		connection->next_ns = os_monotonic_ns() + delay_ns(connection);
		connection->owner->alarm(connection->context, connection->next_ns);
	}
	return has_begun;
}

/* An attempt has failed. The connection may be gone afterwards. */
static void fall_back(struct redis_connection *connection)
{
	if (!go_on(connection) && !is_under_way(connection))
		connection->owner->lost(connection->context, connection->why);
}

static void attempt_fail(struct redis_attempt *attempt, const char *why)
{
	struct redis_connection *connection = attempt->connection;

	snprintf(connection->why, sizeof connection->why, "%s", why);
	connection->is_of_replica = link_is_of_replica(attempt->link);
	note(connection, attempt, false);
	attempt_end(attempt);
	fall_back(connection);
}

static void accept_greeting(struct redis_attempt *attempt)
{
	struct redis_connection *connection = attempt->connection;

	connection->accepted = attempt;
	connection->is_of_replica = false;
	connection->next_ns = 0;
	for (size_t i = 0; i < connection->begun; i++)
		if (&connection->attempts[i] != attempt)
			attempt_end(&connection->attempts[i]);
	note(connection, attempt, true);
	connection->owner->accepted(connection->context);
}

/* For ports */

struct link *redis_attempt_link(struct redis_attempt *attempt)
{
	return attempt->link;
}

void redis_attempt_in(struct redis_attempt *attempt, struct slice bytes)
{
	struct redis_connection *connection = attempt->connection;

	if (connection->accepted == attempt)
		connection->owner->in(connection->context, bytes);
	else if (link_in(attempt->link, bytes) != WEIR_OK)
		attempt_fail(attempt, link_error(attempt->link));
	else if (link_is_ready(attempt->link))
		accept_greeting(attempt);
}

void redis_attempt_lost(struct redis_attempt *attempt, const char *why)
{
	struct redis_connection *connection = attempt->connection;

	attempt->line = NULL;
	if (connection->accepted == attempt)
		connection->owner->lost(connection->context, why);
	else
		attempt_fail(attempt, why);
}

void redis_connection_found(struct redis_connection *connection,
                            const struct redis_address *addresses, size_t n, const char *why)
{
	connection->lookup = NULL;
	connection->count = u64_min(n, CONNECTION_ADDRESSES_MAX);
	memcpy(connection->addresses, addresses, connection->count * sizeof *addresses);
	if (connection->target.known)
		addresses_sort(connection->target.known, connection->addresses, connection->count);
	snprintf(connection->why, sizeof connection->why, "%s",
	         n > 0 ? "out of memory"
	         : why ? why
	               : "its host has no address");
	fall_back(connection);
}

/* Opening */

static bool read_path(const struct redis_host *host, struct redis_address *out)
{
	size_t len = strlen(host->name);

	if (host->name[0] != '/' || len >= sizeof out->local.sun_path)
		return false;
	*out = (struct redis_address){.len = sizeof out->local, .local = {.sun_family = AF_UNIX}};
	memcpy(out->local.sun_path, host->name, len);
	return true;
}

/* An address written in digits needs no lookup. */
static bool read_digits(const struct redis_host *host, struct redis_address *out)
{
	const struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV,
	                               .ai_socktype = SOCK_STREAM};
	struct addrinfo *found;
	char port[8];

	snprintf(port, sizeof port, "%u", (unsigned)host->port);
	if (getaddrinfo(host->name, port, &hints, &found) != 0)
		return false;
	*out = (struct redis_address){.len = found->ai_addrlen};
	memcpy(&out->any, found->ai_addr, found->ai_addrlen);
	freeaddrinfo(found);
	return true;
}

static bool begin(struct redis_connection *connection)
{
	const struct redis_host *host = &connection->target.host;
	struct redis_port *port = connection->port;

	if (read_path(host, &connection->addresses[0]) ||
	    read_digits(host, &connection->addresses[0])) {
		connection->count = 1;
		return go_on(connection);
	}
	connection->lookup = port->kind->look_up(port, connection, host);
	return connection->lookup != NULL;
}

struct redis_connection *connection_open(struct redis_port *port,
                                         const struct connection_target *target,
                                         const struct connection_owner *owner, void *context)
{
	struct redis_connection *connection = calloc(1, sizeof *connection);

	if (!connection)
		return NULL;
	connection->port = port;
	connection->target = *target;
	connection->owner = owner;
	connection->context = context;
	if (begin(connection))
		return connection;
	connection_close(connection);
	return NULL;
}

void connection_close(struct redis_connection *connection)
{
	struct redis_port *port = connection->port;

	if (connection->lookup)
		port->kind->stop_look_up(port, connection->lookup);
	for (size_t i = 0; i < connection->begun; i++) {
		struct redis_attempt *attempt = &connection->attempts[i];

		if (!connection->accepted && attempt->link)
			note(connection, attempt, false);
		attempt_end(attempt);
	}
	free(connection);
}

void connection_tick(struct redis_connection *connection, uint64_t now_ns)
{
	if (connection->next_ns == 0)
		return;
	if (connection->next_ns <= now_ns)
		fall_back(connection);
	else
		connection->owner->alarm(connection->context, connection->next_ns);
}

struct link *connection_link(const struct redis_connection *connection)
{
	return connection->accepted ? connection->accepted->link : NULL;
}

bool connection_is_of_replica(const struct redis_connection *connection)
{
	return connection->is_of_replica;
}

void connection_send(struct redis_connection *connection)
{
	connection->port->kind->send(connection->port, connection->accepted->line);
}

void connection_blame(const struct redis_connection *connection)
{
	if (connection->accepted)
		note(connection, connection->accepted, false);
}
