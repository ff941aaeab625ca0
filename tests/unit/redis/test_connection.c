#include "server.h"

#include "base/number.h"
#include "redis/network/connection.h"

/* A command and its reply. */
struct asked {
	struct pending_reply call; /* first */
	bool has_reply, is_lost;
	enum redis_type type;
	int64_t integer;
	size_t count;
	char text[256]; /* of an array, of its last item */
};

static void on_reply(struct pending_reply *call, const struct redis_reply *reply)
{
	struct asked *asked = (struct asked *)call;
	const struct redis_reply *last = reply;

	assert_false(asked->has_reply);
	asked->has_reply = true;
	asked->is_lost = !reply;
	if (!reply)
		return;
	asked->type = reply->type;
	asked->integer = reply->integer;
	asked->count = reply->count;
	while (last->type == REDIS_ARRAY && last->count > 0)
		last = &last->items[last->count - 1];
	snprintf(asked->text, sizeof asked->text, "%.*s", (int)last->text.len,
	         last->text.data ? last->text.data : "");
}

static void ask_words(struct connection *connection, struct asked *asked, const char *const *words)
{
	struct slice slices[8];
	size_t n = 0;

	*asked = (struct asked){.call = {.replied = on_reply}};
	for (; words[n]; n++)
		slices[n] = slice_of(words[n]);
	connection_write_words(connection_command_buffer(connection), slices, n);
	connection_expect_reply(connection, &asked->call);
}

#define ask(connection, asked, ...)                                                                \
	ask_words(connection, asked, (const char *const[]){__VA_ARGS__, NULL})

static struct redis_url read_url(const char *format, ...)
{
	struct weir_error error = {0};
	struct redis_url url;
	char text[512];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	if (redis_url_read(text, &url, &error) != WEIR_OK)
		fail_msg("%s: %s", text, error.message);
	return url;
}

static struct connection *open_link(const struct redis_url *url)
{
	struct connection *connection;

	assert_int_equal(connection_open(&connection, url, CONNECTION_STORE, url->hosts[0].name),
	                 WEIR_OK);
	return connection;
}

static void write_out(struct connection *connection, int fd)
{
	struct slice out;

	while ((out = connection_unsent_bytes(connection)).len > 0) {
		ssize_t len = send(fd, out.data, out.len, MSG_NOSIGNAL);

		if (len < 0)
			return;
		connection_drop_sent_bytes(connection, (size_t)len);
	}
}

/*
 * Runs until the last command has its reply, or the connection has failed; returns its error, or
 * NULL.
 */
static const char *drive(struct connection *connection, unsigned port, const struct asked *last)
{
	int fd = server_connect(port);
	const char *why = NULL;

	assert_true(fd >= 0);
	while (!last->has_reply && !why) {
		struct pollfd ready = {fd, POLLIN, 0};
		char bytes[4096];
		ssize_t len;

		write_out(connection, fd);
		assert_int_equal(poll(&ready, 1, SERVER_WAIT_MS), 1);
		len = recv(fd, bytes, sizeof bytes, 0);
		if (len <= 0)
			why = "closed";
		else if (connection_receive(connection, (struct slice){bytes, (size_t)len}) != WEIR_OK)
			why = connection_error(connection);
	}
	write_out(connection, fd);
	close(fd);
	return why;
}

/* Connects by a URL and pings; "" or why not. */
static void try(const struct redis_url *url, unsigned port, char why[256])
{
	struct connection *connection = open_link(url);
	struct asked pong;
	const char *error;

	ask(connection, &pong, "ECHO", "hello");
	error = drive(connection, port, &pong);
	snprintf(why, 256, "%s", error ? error : "");
	assert_int_equal(connection_is_ready(connection), !error);
	connection_close(connection);
	assert_true(pong.has_reply);
	assert_int_equal(pong.is_lost, error != NULL);
	if (!error)
		assert_string_equal(pong.text, "hello");
}

static void assert_try(unsigned port, const char *expected, const char *format, const char *login)
{
	struct redis_url url = read_url(format, login);
	char why[256];

	try(&url, port, why);
	if (expected[0] ? !strstr(why, expected) : why[0])
		fail_msg("%s%s: expected \"%s\", found \"%s\"", format, login, expected, why);
	assert_null(strstr(why, "hunter2"));
	redis_url_free(&url);
}

static void replies_come_in_the_order_of_commands(void **state)
{
	struct redis_url url = read_url("redis://localhost");
	struct server server = server_start(NULL);
	struct connection *connection = open_link(&url);
	struct asked set, get, none, number, error, array;

	(void)state;
	ask(connection, &set, "SET", "key", "a\r\nb");
	ask(connection, &get, "GET", "key");
	ask(connection, &none, "GET", "nothing");
	ask(connection, &number, "INCRBY", "number", "-9007199254740993");
	ask(connection, &error, "INCR", "key");
	ask(connection, &array, "EVAL", "return {1, {'two', {}, 'three'}}", "0");
	assert_null(drive(connection, server.port, &array));
	connection_close(connection);
	server_stop(&server);
	redis_url_free(&url);

	assert_int_equal(set.type, REDIS_TEXT);
	assert_string_equal(set.text, "OK");
	assert_string_equal(get.text, "a\r\nb");
	assert_int_equal(none.type, REDIS_NIL);
	assert_int_equal(number.type, REDIS_INTEGER);
	assert_int_equal(number.integer, -9007199254740993);
	assert_int_equal(error.type, REDIS_ERROR);
	assert_string_equal(error.text, "ERR value is not an integer or out of range");
	assert_int_equal(array.type, REDIS_ARRAY);
	assert_int_equal(array.count, 2);
	assert_string_equal(array.text, "three");
}

static void a_connection_greets_as_the_url_says(void **state)
{
	struct server server =
	    server_start((const char *const[]){"--requirepass", "hunter2", "--user", "weir", "on",
	                                       ">hunter2too", "~*", "+@all", "--databases", "4", NULL});

	(void)state;
	assert_try(server.port, "", "redis://%s@h", ":hunter2");
	assert_try(server.port, "", "redis://%s@h/3", "default:hunter2");
	assert_try(server.port, "", "redis://%s@h", "weir:hunter2too");
	assert_try(server.port, "WRONGPASS", "redis://%s@h", "weir:hunter2");
	assert_try(server.port, "WRONGPASS", "redis://%s@h", "hunter2:nobody");
	assert_try(server.port, "NOAUTH", "redis://%s", "h");
	assert_try(server.port, "DB index is out of range", "redis://%s@h/4", ":hunter2");
	server_stop(&server);
}

static void a_password_where_none_is_set_is_refused(void **state)
{
	struct server server = server_start(NULL);

	(void)state;
	assert_try(server.port, "refuses user or password: ERR", "redis://%s@h", ":hunter2");
	server_stop(&server);
}

/* With nothing but bytes. */

static struct connection *open_ready(struct redis_url *url)
{
	struct connection *connection;

	*url = read_url("redis://h");
	connection = open_link(url);
	assert_int_equal(connection_receive(connection, SLICE("+PONG\r\n")), WEIR_OK);
	assert_true(connection_is_ready(connection));
	connection_drop_sent_bytes(connection, connection_unsent_bytes(connection).len);
	return connection;
}

static void commands_wait_for_the_greeting(void **state)
{
	struct redis_url url = read_url("redis://weir:hunter2@h/7");
	struct connection *connection = open_link(&url);
	struct asked asked;
	struct slice greeting = SLICE("*3\r\n$4\r\nAUTH\r\n$4\r\nweir\r\n$7\r\nhunter2\r\n"
	                              "*2\r\n$6\r\nSELECT\r\n$1\r\n7\r\n*1\r\n$4\r\nPING\r\n");

	(void)state;
	ask(connection, &asked, "GET", "x");
	assert_true(slice_equal(connection_unsent_bytes(connection), greeting));
	connection_drop_sent_bytes(connection, greeting.len - 1); /* the rest stays */
	assert_true(slice_equal(connection_unsent_bytes(connection), SLICE("\n")));
	connection_drop_sent_bytes(connection, 1);
	assert_int_equal(connection_unsent_bytes(connection).len, 0);
	assert_int_equal(connection_receive(connection, SLICE("+OK\r\n+OK\r\n")), WEIR_OK);
	assert_int_equal(connection_unsent_bytes(connection).len, 0);
	assert_int_equal(connection_receive(connection, SLICE("+PONG\r\n")), WEIR_OK);
	assert_true(
	    slice_equal(connection_unsent_bytes(connection), SLICE("*2\r\n$3\r\nGET\r\n$1\r\nx\r\n")));
	connection_close(connection);
	assert_true(asked.is_lost);
	redis_url_free(&url);
}

static void replies_may_come_in_any_pieces(void **state)
{
	struct slice bytes = SLICE("*3\r\n:-5\r\n$4\r\na\r\nb\r\n*1\r\n+last\r\n$-1\r\n-ERR no\r\n");

	(void)state;
	for (size_t at = 0; at <= bytes.len; at++) {
		struct redis_url url;
		struct connection *connection = open_ready(&url);
		struct asked asked[3];

		for (size_t i = 0; i < 3; i++)
			ask(connection, &asked[i], "X");
		assert_int_equal(connection_receive(connection, (struct slice){bytes.data, at}), WEIR_OK);
		assert_int_equal(
		    connection_receive(connection, (struct slice){bytes.data + at, bytes.len - at}),
		    WEIR_OK);
		assert_int_equal(asked[0].count, 3);
		assert_string_equal(asked[0].text, "last");
		assert_int_equal(asked[1].type, REDIS_NIL);
		assert_string_equal(asked[2].text, "ERR no");
		connection_close(connection);
		redis_url_free(&url);
	}
}

static void an_invalid_reply_ends_a_connection_and_is_reported(void **state)
{
	static const struct {
		const char *bytes, *says;
	} bad[] = {
	    {"HTTP/1.1 400 Bad Request\r\n", "got \"H\""},
	    {":12x\r\n", "expected a reply from Redis"},
	    {"*-2\r\n", "expected a reply from Redis"},
	    {"$-2\r\n", "expected a reply from Redis"},
	    {"*300000\r\n", "found an array of 300000"},
	    {"*2147483647\r\n", "found an array of 2147483647"},
	    {"*2\r\n*200000\r\n", NULL},
	    {"*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n", "nested at most 6 deep"},
	    {"#t\r\n", "expected a reply "},
	    {"*1\r\n#t\r\n", "expected a reply "},
	    {",1.5\r\n", "expected a reply "},
	    {"*2\r\n:1\r\n,1.5\r\n", "expected a reply "},
	    {"%1\r\n+a\r\n+b\r\n", "expected a reply "},
	    {"~1\r\n+a\r\n", "expected a reply "},
	    {">1\r\n+a\r\n", "expected a reply "},
	    {"(123\r\n", "expected a reply "},
	    {"=8\r\ntxt:abcd\r\n", "expected a reply "},
	    {"+fine\r\n+more\r\n", "without a command"},
	    {"-LOADING Redis is \x1b[31m loading\r\n", "LOADING Redis is ?[31m loading"},
	    {"-READONLY You can't write against a read only replica.\r\n", "READONLY"},
	    {"-MASTERDOWN Link with MASTER is down\r\n", "MASTERDOWN"},
	    {"-NOAUTH Authentication required.\r\n", "NOAUTH"},
	    {"-LOADINGS\r\n", NULL},
	    {"-ERR LOADING\r\n", NULL},
	};

	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		struct redis_url url;
		struct connection *connection = open_ready(&url);
		struct asked asked;
		int status;

		ask(connection, &asked, "X");
		status = connection_receive(connection, slice_of(bad[i].bytes));
		if (status != (bad[i].says ? WEIR_EIO : WEIR_OK) ||
		    (bad[i].says && !strstr(connection_error(connection), bad[i].says)))
			fail_msg("%s: %d %s", bad[i].bytes, status, connection_error(connection));
		assert_int_equal(connection_receive(connection, (struct slice){NULL, 0}), status);
		assert_false(asked.has_reply && asked.is_lost);
		connection_close(connection);
		assert_true(asked.has_reply);
		redis_url_free(&url);
	}
}

/* Feeds `piece` until the connection fails: the bytes that it has taken. */
static size_t feed(struct connection *connection, const char *first, const char *piece, size_t len)
{
	size_t bytes = strlen(first);
	int status = connection_receive(connection, slice_of(first));

	while (status == WEIR_OK) {
		status = connection_receive(connection, (struct slice){piece, len});
		bytes += len;
		assert_true(bytes < (size_t)64 << 20);
	}
	return bytes;
}

static void the_memory_of_a_reply_is_bounded(void **state)
{
	static char piece[8192];
	static const struct {
		const char *first;
		char fill;
		size_t least, most;
	} cases[] = {
	    {"+", 'x', CONNECTION_LINE_MAX, CONNECTION_LINE_MAX + 2 * sizeof piece},
	    {"$1000000000\r\n", 'x', CONNECTION_INPUT_MAX, CONNECTION_INPUT_MAX + 2 * sizeof piece},
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct redis_url url;
		struct connection *connection = open_ready(&url);
		struct asked asked;
		size_t bytes;

		ask(connection, &asked, "X");
		memset(piece, cases[i].fill, sizeof piece);
		bytes = feed(connection, cases[i].first, piece, sizeof piece);
		assert_true(bytes >= cases[i].least && bytes <= cases[i].most);
		assert_non_null(strstr(connection_error(connection), "bytes, found more"));
		connection_close(connection);
		redis_url_free(&url);
	}
}

/* TLS */

static struct server start_tls(const char *clients)
{
	struct server server = server_make();

	server_make_certificates(server.directory);
	server_start_in(&server, "--tls-port",
	                (const char *const[]){"--tls-cert-file", "server.pem", "--tls-key-file",
	                                      "server.key", "--tls-ca-cert-file", "ca.pem",
	                                      "--tls-auth-clients", clients, "--requirepass", "hunter2",
	                                      NULL});
	return server;
}

/* "DIR" in `query` is the server's directory. */
static void assert_tls(const struct server *server, const char *host, const char *query,
                       const char *expected)
{
	char files[512] = "", why[256];
	const char *at;
	struct redis_url url;

	while ((at = strstr(query, "DIR"))) {
		snprintf(files + strlen(files), sizeof files - strlen(files), "%.*s%s", (int)(at - query),
		         query, server->directory);
		query = at + 3;
	}
	url = read_url("rediss://:hunter2@%s?%s%s", host, files, query);
	try(&url, server->port, why);
	redis_url_free(&url);
	if (expected[0] ? !strstr(why, expected) : why[0])
		fail_msg("%s %s: expected \"%s\", found \"%s\"", host, files, expected, why);
}

static void tls_verifies_certificate_and_name(void **state)
{
	struct server server = start_tls("no");

	(void)state;
	assert_tls(&server, "store", "ca=DIR/ca.pem", "");
	assert_tls(&server, "127.0.0.1", "ca=DIR/ca.pem", "");
	assert_tls(&server, "other", "ca=DIR/ca.pem", "its certificate is refused: hostname mismatch");
	assert_tls(&server, "127.0.0.2", "ca=DIR/ca.pem", "refused: IP address mismatch");
	assert_tls(&server, "store", "ca=DIR/other.pem", "its certificate is refused: ");
	assert_tls(&server, "store", "", "its certificate is refused: ");
	server_stop(&server);
}

static void tls_sends_the_client_certificate(void **state)
{
	struct server server = start_tls("yes");

	(void)state;
	assert_tls(&server, "store", "ca=DIR/ca.pem&cert=DIR/client.pem&key=DIR/client.key", "");
	assert_tls(&server, "store", "ca=DIR/ca.pem", "certificate required");
	server_stop(&server);
}

static void tls_to_a_server_without_tls_is_reported(void **state)
{
	struct redis_url url = read_url("rediss://h");
	struct connection *connection = open_link(&url);

	(void)state;
	assert_true(connection_unsent_bytes(connection).len > 0);
	assert_int_equal(connection_receive(connection, SLICE("-ERR unknown command\r\n")), WEIR_EIO);
	assert_string_equal(connection_error(connection), "expected TLS: wrong version number");
	connection_close(connection);
	redis_url_free(&url);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(replies_come_in_the_order_of_commands),
	    cmocka_unit_test(a_connection_greets_as_the_url_says),
	    cmocka_unit_test(a_password_where_none_is_set_is_refused),
	    cmocka_unit_test(commands_wait_for_the_greeting),
	    cmocka_unit_test(replies_may_come_in_any_pieces),
	    cmocka_unit_test(an_invalid_reply_ends_a_connection_and_is_reported),
	    cmocka_unit_test(the_memory_of_a_reply_is_bounded),
	    cmocka_unit_test(tls_verifies_certificate_and_name),
	    cmocka_unit_test(tls_sends_the_client_certificate),
	    cmocka_unit_test(tls_to_a_server_without_tls_is_reported),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
