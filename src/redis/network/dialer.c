/*
 * dialer.c: connects to a Redis, from the name of its host to an accepted greeting.
 *
 * Each address of the name gets an *attempt*: a connection that sends the greeting. The attempts
 * begin one after another with a short delay, as in RFC 8305, and the first whose greeting is
 * accepted wins.
 */
#include "redis/network/dialer.h"

#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "base/os/os.h"

struct redis_attempt {
	struct redis_dialer *dialer;
	struct connection *connection; /* NULL when it has failed */
	void *handle;                  /* of the transport's connection; NULL when that has ended */
};

struct redis_dialer {
	struct redis_transport *transport;
	struct dialer_target target;
	const struct dialer_owner *owner;
	void *context;
	void *lookup; /* under way, or NULL */
	struct redis_attempt *accepted;
	size_t address_count, attempt_count; /* attempts have begun at the first addresses */
	bool is_of_replica;                  /* the newest failure, because the server is a replica */
	uint64_t next_attempt_ns;            /* when the next attempt begins; 0 if no address is left */
	char newest_failure[160];
	struct redis_address addresses[DIALER_ADDRESSES_MAX];
	struct redis_attempt attempts[DIALER_ADDRESSES_MAX]; /* one for each address */
};

/* Records whether the address of an attempt worked, for later dialers. */
static void record_address(const struct redis_dialer *dialer, const struct redis_attempt *attempt,
                           bool works)
{
	if (dialer->target.addresses)
		addresses_record(dialer->target.addresses, &dialer->addresses[attempt - dialer->attempts],
		                 works);
}

/* Closes the attempt's connection. Commands on it that have no reply get NULL. */
static void attempt_end(struct redis_attempt *attempt)
{
	struct redis_transport *transport = attempt->dialer->transport;

	if (attempt->handle)
		transport->kind->hang_up(transport, attempt->handle);
	attempt->handle = NULL;
	if (attempt->connection)
		connection_close(attempt->connection);
	attempt->connection = NULL;
}

/* Begins the attempt at the next address. Returns false if there is no memory. */
static bool attempt_begin(struct redis_dialer *dialer)
{
	struct redis_attempt *attempt = &dialer->attempts[dialer->attempt_count];
	const struct redis_address *to = &dialer->addresses[dialer->attempt_count++];
	struct redis_transport *transport = dialer->transport;

	attempt->dialer = dialer;
	if (connection_open(&attempt->connection, dialer->target.url, dialer->target.peer,
	                    dialer->target.host.name) == WEIR_OK &&
	    transport->kind->dial(transport, attempt, to, &attempt->handle))
		return true;
	attempt_end(attempt);
	return false;
}

static bool has_attempt_under_way(const struct redis_dialer *dialer)
{
	for (size_t i = 0; i < dialer->attempt_count; i++)
		if (dialer->attempts[i].connection)
			return true;
	return false;
}

/* The time from one attempt to the next. All addresses are tried in half of the dialer's time. */
static uint64_t attempt_delay_ns(const struct redis_dialer *dialer)
{
	return u64_min(DIALER_DELAY_NS, DIALER_TIME_NS / 2 / dialer->address_count);
}

/*
 * Begins an attempt at the next address, and sets the alarm for the one after it. Returns false if
 * no address is left, or if there is no memory.
 */
static bool begin_next_attempt(struct redis_dialer *dialer)
{
	bool has_begun = false;

	while (!has_begun && dialer->attempt_count < dialer->address_count)
		has_begun = attempt_begin(dialer);
	dialer->next_attempt_ns = 0;
	if (dialer->attempt_count < dialer->address_count) {
		dialer->next_attempt_ns = os_monotonic_ns() + attempt_delay_ns(dialer);
		dialer->owner->alarm(dialer->context, dialer->next_attempt_ns);
	}
	return has_begun;
}

/* Goes on after a failed attempt, or reports the loss. The dialer may be freed afterwards. */
static void continue_or_fail(struct redis_dialer *dialer)
{
	if (!begin_next_attempt(dialer) && !has_attempt_under_way(dialer))
		dialer->owner->lost(dialer->context, dialer->newest_failure);
}

/* Ends an attempt because of `why`. The dialer may be freed afterwards. */
static void attempt_fail(struct redis_attempt *attempt, const char *why)
{
	struct redis_dialer *dialer = attempt->dialer;

	snprintf(dialer->newest_failure, sizeof dialer->newest_failure, "%s", why);
	dialer->is_of_replica = connection_is_of_replica(attempt->connection);
	record_address(dialer, attempt, false);
	attempt_end(attempt);
	continue_or_fail(dialer);
}

/* The attempt wins: Redis has accepted its greeting. Ends the others. */
static void choose_attempt(struct redis_attempt *attempt)
{
	struct redis_dialer *dialer = attempt->dialer;

	dialer->accepted = attempt;
	dialer->is_of_replica = false;
	dialer->next_attempt_ns = 0;
	for (size_t i = 0; i < dialer->attempt_count; i++)
		if (&dialer->attempts[i] != attempt)
			attempt_end(&dialer->attempts[i]);
	record_address(dialer, attempt, true);
	dialer->owner->accepted(dialer->context);
}

/* For transports */

struct connection *redis_attempt_connection(struct redis_attempt *attempt)
{
	return attempt->connection;
}

/* Called with bytes from the wire: for the greeting, or once it is accepted for the owner. */
void redis_attempt_receive(struct redis_attempt *attempt, struct slice bytes)
{
	struct redis_dialer *dialer = attempt->dialer;

	if (dialer->accepted == attempt)
		dialer->owner->in(dialer->context, bytes);
	else if (connection_receive(attempt->connection, bytes) != WEIR_OK)
		attempt_fail(attempt, connection_error(attempt->connection));
	else if (connection_is_ready(attempt->connection))
		choose_attempt(attempt);
}

/* Called when the attempt's connection has failed or ended. */
void redis_attempt_lost(struct redis_attempt *attempt, const char *why)
{
	struct redis_dialer *dialer = attempt->dialer;

	attempt->handle = NULL;
	if (dialer->accepted == attempt)
		dialer->owner->lost(dialer->context, why);
	else
		attempt_fail(attempt, why);
}

/* Called when the lookup has ended; without addresses, `why` gives the reason. */
void redis_dialer_found(struct redis_dialer *dialer, const struct redis_address *addresses,
                        size_t n, const char *why)
{
	dialer->lookup = NULL;
	dialer->address_count = u64_min(n, DIALER_ADDRESSES_MAX);
	memcpy(dialer->addresses, addresses, dialer->address_count * sizeof *addresses);
	if (dialer->target.addresses)
		addresses_sort(dialer->target.addresses, dialer->addresses, dialer->address_count);
	if (!why)
		why = "its host has no address";
	/* With addresses, only memory can be missing. */
	snprintf(dialer->newest_failure, sizeof dialer->newest_failure, "%s",
	         n > 0 ? "out of memory" : why);
	continue_or_fail(dialer);
}

/* Opening */

/* Reads the path of a Unix socket. Returns false if the host is none. */
static bool read_socket_path(const struct redis_host *host, struct redis_address *out)
{
	size_t len = strlen(host->name);

	if (host->name[0] != '/' || len >= sizeof out->local.sun_path)
		return false;
	*out = (struct redis_address){.len = sizeof out->local, .local = {.sun_family = AF_UNIX}};
	memcpy(out->local.sun_path, host->name, len);
	return true;
}

/* Reads an address written in digits, which needs no lookup. Returns false if the host is a name.
 */
static bool read_numeric_address(const struct redis_host *host, struct redis_address *out)
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

/* Begins an attempt if the host is an address, otherwise a lookup. False if there is no memory. */
static bool begin_dialing(struct redis_dialer *dialer)
{
	const struct redis_host *host = &dialer->target.host;
	struct redis_transport *transport = dialer->transport;

	if (read_socket_path(host, &dialer->addresses[0]) ||
	    read_numeric_address(host, &dialer->addresses[0])) {
		dialer->address_count = 1;
		return begin_next_attempt(dialer);
	}
	dialer->lookup = transport->kind->look_up(transport, dialer, host);
	return dialer->lookup != NULL;
}

struct redis_dialer *dialer_open(struct redis_transport *transport,
                                 const struct dialer_target *target,
                                 const struct dialer_owner *owner, void *context)
{
	struct redis_dialer *dialer = calloc(1, sizeof *dialer);

	if (!dialer)
		return NULL;
	dialer->transport = transport;
	dialer->target = *target;
	dialer->owner = owner;
	dialer->context = context;
	if (begin_dialing(dialer))
		return dialer;
	dialer_close(dialer);
	return NULL;
}

void dialer_close(struct redis_dialer *dialer)
{
	struct redis_transport *transport = dialer->transport;

	if (dialer->lookup)
		transport->kind->stop_look_up(transport, dialer->lookup);
	for (size_t i = 0; i < dialer->attempt_count; i++) {
		struct redis_attempt *attempt = &dialer->attempts[i];

		/* Its time is up before it was accepted. */
		if (!dialer->accepted && attempt->connection)
			record_address(dialer, attempt, false);
		attempt_end(attempt);
	}
	free(dialer);
}

/* Begins the next attempt if its time has come. */
void dialer_tick(struct redis_dialer *dialer, uint64_t now_ns)
{
	if (dialer->next_attempt_ns == 0)
		return;
	if (dialer->next_attempt_ns <= now_ns)
		continue_or_fail(dialer);
	else
		dialer->owner->alarm(dialer->context, dialer->next_attempt_ns);
}

struct connection *dialer_connection(const struct redis_dialer *dialer)
{
	return dialer->accepted ? dialer->accepted->connection : NULL;
}

bool dialer_is_of_replica(const struct redis_dialer *dialer)
{
	return dialer->is_of_replica;
}

void dialer_send(struct redis_dialer *dialer)
{
	dialer->transport->kind->send(dialer->transport, dialer->accepted->handle);
}

/* The server at the accepted address can't be used: other addresses come first from now on. */
void dialer_demote_address(const struct redis_dialer *dialer)
{
	if (dialer->accepted)
		record_address(dialer, dialer->accepted, false);
}
