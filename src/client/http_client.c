/* http_client.c: a connection for each request, which ends with the reply to it. */
#include "client/http_client.h"

#include <ctype.h>
#include <errno.h>

#include "base/error.h"
#include "base/number.h"
#include "base/os/os.h"

/* Room for the request line's and the header's own words. */
#define WORDS_MAX 256

void http_client_add_encoded(struct buffer *out, struct slice text)
{
	for (size_t i = 0; i < text.len; i++) {
		unsigned char c = (unsigned char)text.data[i];

		if (c < 0x80 && (isalnum(c) || strchr("-._~", c)))
			buffer_add(out, &c, 1);
		else
			buffer_printf(out, "%%%02X", c);
	}
}

/* Reserves the memory first, because growing the buffer would leave a copy of the login behind. */
static void write_request(struct buffer *out, const struct server_address *server,
                          const struct http_call *call)
{
	buffer_reserve(out, strlen(call->path) + call->fields.len + call->body.len + WORDS_MAX +
	                        sizeof server->field);
	buffer_printf(out, "%s %s HTTP/1.1\r\nHost: %s\r\n", call->method, call->path, server->field);
	buffer_add_slice(out, call->fields);
	if (call->body.len > 0)
		buffer_printf(out, "Content-Type: application/json\r\nContent-Length: %zu\r\n",
		              call->body.len);
	buffer_add_text(out, "Connection: close\r\n\r\n");
	buffer_add_slice(out, call->body);
}

static int send_call(struct client_connection *conn, const struct server_address *server,
                     const struct http_call *call, struct weir_error *error)
{
	struct buffer request = {0};
	int status = WEIR_OK;

	write_request(&request, server, call);
	if (request.failed)
		status = error_set(error, WEIR_ENOMEM, "out of memory");
	else if (!client_send(conn, (struct slice){request.data, request.len}))
		status = error_set(error, WEIR_EIO, "%s", client_error_text(conn));
	buffer_wipe(&request);
	return status;
}

static int receive_reply(struct client_connection *conn, struct http_reply *reply,
                         struct weir_error *error)
{
	char bytes[16384];
	int status = WEIR_OK;

	while (status == WEIR_OK && !reply->has_ended) {
		ssize_t got = client_receive(conn, bytes, sizeof bytes);

		if (got == 0)
			status = http_reply_end(reply, error);
		else if (got < 0)
			status = error_set(error, WEIR_EIO, "%s", client_error_text(conn));
		else
			status = http_reply_read(reply, (struct slice){bytes, (size_t)got}, error);
	}
	return status;
}

int http_client_call(const struct server_address *server, const struct dial_tls *trust,
                     const struct http_call *call, struct http_reply *reply,
                     struct weir_error *error)
{
	struct client_connection conn;
	int status = client_connect(&conn, server, trust, call->connect_s, error);

	http_reply_open(reply, call->body_max);
	if (status == WEIR_OK) {
		if (call->timeout_s > 0)
			conn.deadline_ns = os_monotonic_ns() + call->timeout_s * NS_PER_S;
		status = send_call(&conn, server, call, error);
	}
	if (status == WEIR_OK)
		status = receive_reply(&conn, reply, error);
	client_disconnect(&conn);
	return status;
}
