/* connection.c: a blocking connection to a server: bytes go through TLS if it has any. */
#include "client/connection.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/number.h"
#include "base/os/os.h"

#define RECEIVE_SIZE 16384

int client_connect(struct client_connection *conn, const struct server_address *server,
                   const struct dial_tls *trust, unsigned timeout_s, struct weir_error *error)
{
	*conn = (struct client_connection){.fd = -1};
	for (size_t i = 0; conn->fd < 0 && i < server->address_count; i++)
		conn->fd = dial_open(&server->addresses[i], trust, timeout_s, &conn->tls, error);
	return conn->fd >= 0 ? WEIR_OK : WEIR_EIO;
}

void client_disconnect(struct client_connection *conn)
{
	if (conn->fd >= 0)
		close(conn->fd);
	tls_close(conn->tls);
	buffer_free(&conn->plain);
	*conn = (struct client_connection){.fd = -1};
}

const char *client_error_text(const struct client_connection *conn)
{
	const char *of_tls = conn->tls ? tls_error(conn->tls) : "";

	return *of_tls ? of_tls : dial_error_text();
}

bool client_send(struct client_connection *conn, struct slice bytes)
{
	struct buffer wire = {0};
	bool sent;

	if (!conn->tls)
		return dial_send(conn->fd, bytes);
	sent = tls_encrypt(conn->tls, bytes, &wire) == WEIR_OK &&
	       dial_send(conn->fd, (struct slice){wire.data, wire.len});
	buffer_free(&wire);
	return sent;
}

/* Waits until there is something to receive. False, with errno, at the deadline. */
static bool wait_for_bytes(const struct client_connection *conn)
{
	struct pollfd polled = {conn->fd, POLLIN, 0};
	int ready;

	do {
		uint64_t left_ns = sat_sub(conn->deadline_ns, os_monotonic_ns());
		int timeout_ms =
		    conn->deadline_ns == 0 ? -1 : (int)u64_min(ceil_div(left_ns, NS_PER_MS), INT_MAX);

		ready = poll(&polled, 1, timeout_ms);
	} while (ready < 0 && errno == EINTR);
	if (ready == 0)
		errno = ETIMEDOUT;
	return ready > 0;
}

/* Decrypts what has arrived, and sends what TLS answers by itself. False, with errno, if it fails.
 */
static bool decrypt(struct client_connection *conn, struct slice bytes)
{
	struct buffer wire = {0};
	int status = tls_decrypt(conn->tls, bytes, &conn->plain, &wire);
	bool sent = wire.len == 0 || dial_send(conn->fd, (struct slice){wire.data, wire.len});

	buffer_free(&wire);
	if (status != WEIR_OK)
		errno = EPROTO;
	return status == WEIR_OK && sent;
}

ssize_t client_receive(struct client_connection *conn, char *to, size_t size)
{
	char bytes[RECEIVE_SIZE];
	size_t len;

	if (!conn->tls)
		return wait_for_bytes(conn) ? recv(conn->fd, to, size, MSG_DONTWAIT) : -1;
	while (conn->plain.len == 0 && !tls_has_ended(conn->tls)) {
		ssize_t got = wait_for_bytes(conn) ? recv(conn->fd, bytes, sizeof bytes, MSG_DONTWAIT) : -1;

		if (got <= 0)
			return got;
		if (!decrypt(conn, (struct slice){bytes, (size_t)got}))
			return -1;
	}
	len = u64_min(conn->plain.len, size);
	if (len > 0)
		memcpy(to, conn->plain.data, len);
	buffer_consume(&conn->plain, len);
	return (ssize_t)len;
}
