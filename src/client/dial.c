/*
 * dial.c: opens a blocking connection to a server, with or without TLS, and logs in. For `weir
 * bench` and `weir ask`.
 */
#include "client/dial.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "base/number.h"
#include "base/os/os.h"

#define REPLY_MAX 4096

bool dial_send(int fd, struct slice bytes)
{
	while (bytes.len > 0) {
		ssize_t sent = send(fd, bytes.data, bytes.len, MSG_NOSIGNAL);

		if (sent < 0)
			return false;
		bytes = (struct slice){bytes.data + sent, bytes.len - (size_t)sent};
	}
	return true;
}

/* The kernel names the time-outs of a blocking socket EINPROGRESS and EAGAIN. */
const char *dial_error_text(void)
{
	bool is_timeout = errno == EINPROGRESS || errno == EAGAIN;

	return strerror(is_timeout ? ETIMEDOUT : errno);
}

/* Sends the encrypted bytes that TLS has for the server. False, with errno, if that fails. */
static bool send_and_empty(int fd, struct buffer *encrypted)
{
	bool sent = dial_send(fd, (struct slice){encrypted->data, encrypted->len});

	encrypted->len = 0;
	return sent;
}

/* As recv(), but not after the deadline: a server may send a byte now and then for ever. */
static ssize_t receive_until(int fd, char *to, size_t size, uint64_t deadline_ns)
{
	if (os_monotonic_ns() < deadline_ns)
		return recv(fd, to, size, 0);
	errno = ETIMEDOUT;
	return -1;
}

/*
 * Does the handshake of TLS, whose first message is in `encrypted`. `plain` stays empty,
 * because the server sends no data before a request.
 */
static int do_handshake(struct tls *tls, int fd, uint64_t deadline_ns, struct buffer *plain,
                        struct buffer *encrypted, struct weir_error *error)
{
	bool sent = send_and_empty(fd, encrypted);
	char bytes[4096];

	while (sent && !tls_is_ready(tls)) {
		ssize_t got = receive_until(fd, bytes, sizeof bytes, deadline_ns);
		int status;

		if (got == 0)
			return error_set(error, WEIR_EIO,
			                 "the server closed the connection during the handshake");
		if (got < 0)
			break;
		status = tls_decrypt(tls, (struct slice){bytes, (size_t)got}, plain, encrypted);
		sent = send_and_empty(fd, encrypted);
		if (status != WEIR_OK)
			return error_set(error, status, "%s", tls_error(tls));
	}
	return tls_is_ready(tls) ? WEIR_OK : error_set(error, WEIR_EIO, "%s", dial_error_text());
}

static int open_tls(struct tls **tls, const struct dial_tls *trust, int fd, uint64_t deadline_ns,
                    struct weir_error *error)
{
	struct buffer plain = {0}, encrypted = {0};
	int status = tls_open(tls, trust->context, trust->name, &encrypted);

	if (status == WEIR_OK)
		status = do_handshake(*tls, fd, deadline_ns, &plain, &encrypted, error);
	else
		error_set(error, status, "out of memory");
	buffer_free(&plain);
	buffer_free(&encrypted);
	return status;
}

int dial_open(const struct net_address *to, const struct dial_tls *trust, unsigned timeout_s,
              struct tls **tls, struct weir_error *error)
{
	uint64_t deadline_ns = os_monotonic_ns() + timeout_s * NS_PER_S;
	int fd = net_address_dial(to, timeout_s);

	*tls = NULL;
	if (fd < 0) {
		error_set(error, WEIR_EIO, "%s", dial_error_text());
		return -1;
	}
	if (!trust->context || open_tls(tls, trust, fd, deadline_ns, error) == WEIR_OK)
		return fd;
	tls_close(*tls);
	*tls = NULL;
	close(fd);
	return -1;
}

void dial_add_argument(struct buffer *out, const char *word)
{
	buffer_printf(out, "$%zu\r\n", strlen(word));
	buffer_add_text(out, word);
	buffer_add_text(out, "\r\n");
}

/* Sends the command that logs in, with TLS encrypted. */
static bool send_login(int fd, struct tls *tls, struct slice login, struct buffer *encrypted)
{
	if (!tls)
		return dial_send(fd, login);
	return tls_encrypt(tls, login, encrypted) == WEIR_OK && !encrypted->failed &&
	       send_and_empty(fd, encrypted);
}

/* Waits for bytes of the server, and appends them to `reply`, plain. */
static int read_more(int fd, struct tls *tls, struct buffer *reply, struct buffer *encrypted,
                     struct weir_error *error)
{
	char bytes[512];
	ssize_t got = recv(fd, bytes, sizeof bytes, 0);

	if (got <= 0)
		return error_set(error, WEIR_EIO, "%s",
		                 got < 0 ? dial_error_text() : "the server closed the connection");
	if (!tls)
		buffer_add(reply, bytes, (size_t)got);
	else if (tls_decrypt(tls, (struct slice){bytes, (size_t)got}, reply, encrypted) != WEIR_OK)
		return error_set(error, WEIR_EIO, "%s", tls_error(tls));
	return send_and_empty(fd, encrypted) ? WEIR_OK
	                                     : error_set(error, WEIR_EIO, "%s", dial_error_text());
}

static bool has_line(const struct buffer *reply)
{
	return reply->len > 0 && memchr(reply->data, '\n', reply->len);
}

/* Sends `login`, and reads the first line of the reply: "+OK", or "-" and an error. */
int dial_log_in(int fd, struct tls *tls, struct slice login, struct weir_error *error)
{
	struct buffer reply = {.max = REPLY_MAX}, encrypted = {0};
	struct slice rest, line = {NULL, 0};
	int status = send_login(fd, tls, login, &encrypted)
	                 ? WEIR_OK
	                 : error_set(error, WEIR_EIO, "%s", dial_error_text());

	while (status == WEIR_OK && !reply.failed && !has_line(&reply))
		status = read_more(fd, tls, &reply, &encrypted, error);
	rest = (struct slice){reply.data, reply.len};
	if (reply.len > 0)
		line = slice_cut(&rest, '\r');
	if (status == WEIR_OK && line.len > 0 && line.data[0] == '-')
		status = error_set(error, WEIR_EAUTH, "%.*s", (int)line.len - 1, line.data + 1);
	else if (status == WEIR_OK && !slice_equal(line, SLICE("+OK")))
		status = error_set(error, WEIR_EIO, "expected +OK to a login, found '%.*s'", (int)line.len,
		                   line.len > 0 ? line.data : "");
	buffer_free(&reply);
	buffer_free(&encrypted);
	return status;
}
