/*
 * connection.c: turns commands into bytes and bytes into replies, for one connection to a Redis.
 * The caller moves the bytes over the network; TLS and the greeting (AUTH, HELLO, SELECT, PING) are
 * done here.
 */
#include "redis/network/connection.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <hiredis/read.h>

#include "base/arena.h"
#include "base/number.h"
#include "tls/tls.h"

/* The commands of a greeting. */
enum { GREETING_AUTH, GREETING_ROLE, GREETING_SELECT, GREETING_PING, GREETINGS };

/* A command of the greeting whose reply is awaited. */
struct greeting {
	struct pending_reply call; /* first */
	struct connection *connection;
};

struct connection {
	const struct redis_url *url;
	struct tls *tls; /* NULL without TLS */
	redisReader *reader;
	struct buffer out;      /* plain bytes for Redis; without TLS, sent_bytes of them are sent */
	struct buffer deferred; /* commands until the greeting is accepted */
	struct buffer wire;  /* with TLS, the encrypted bytes of `out`; sent_bytes of them are sent */
	struct buffer plain; /* with TLS, the decrypted bytes from the wire */
	size_t sent_bytes;
	struct list awaited; /* the commands without a reply, the oldest first */
	struct greeting greetings[GREETINGS];
	struct arena arena; /* has the reply that is being read */
	struct redis_reply reply;
	size_t value_count, text_bytes; /* of that reply */
	bool is_ready, has_failed, is_of_replica;
	char error[200];
};

/* Errors that all commands would get: the connection has to be closed. */
static const char *const fatal_errors[] = {"NOAUTH", "LOADING", "MASTERDOWN", "READONLY"};

/* Sets the reason for which the connection has failed. Returns EIO. */
__attribute__((format(printf, 2, 3))) static int fail(struct connection *connection,
                                                      const char *format, ...)
{
	va_list args;

	if (connection->has_failed) /* the first reason counts */
		return WEIR_EIO;
	va_start(args, format);
	vsnprintf(connection->error, sizeof connection->error, format, args);
	va_end(args);
	/* The text has words of Redis, and goes into logs. */
	for (char *c = connection->error; *c; c++)
		if (!isascii((unsigned char)*c) || iscntrl((unsigned char)*c))
			*c = '?';
	connection->has_failed = true;
	return WEIR_EIO;
}

/* Replies */

/* hiredis 1 has other types than 0.14, which Debian 12 has, and reads RESP3. */
#ifdef REDIS_REPLY_BOOL
typedef size_t reply_size;
#else
typedef int reply_size;
#endif

/* Far more than the nested arrays of any reply that we ask for. */
enum { NESTING_MAX = 6 };

/*
 * Returns where the next value of the reply is stored: in an array, or as the whole reply. NULL if
 * there are too many values, they are nested too deeply, or they are of RESP3.
 */
static struct redis_reply *next_value(const redisReadTask *task)
{
	struct connection *connection = task->privdata;
	const struct redis_reply *array = task->parent ? task->parent->obj : NULL;

	if (task->type > REDIS_REPLY_ERROR) {
		fail(connection, "expected a reply of RESP2, found one of RESP3");
		return NULL;
	}
	if (connection->reader->ridx > NESTING_MAX) {
		fail(connection, "expected arrays nested at most %d deep, found deeper ones", NESTING_MAX);
		return NULL;
	}
	if (++connection->value_count > CONNECTION_ITEMS_MAX) {
		fail(connection, "expected a reply of at most %zu values, found more",
		     CONNECTION_ITEMS_MAX);
		return NULL;
	}
	/* Items are const only for readers. */
	return array ? (struct redis_reply *)&array->items[task->idx] : &connection->reply;
}

/* hiredis calls these functions for each value that it has read; NULL ends the reading. */

static void *make_text(const redisReadTask *task, char *text, size_t len)
{
	struct redis_reply *reply = next_value(task);
	struct connection *connection = task->privdata;

	if (!reply)
		return NULL;
	reply->type = task->type == REDIS_REPLY_ERROR ? REDIS_ERROR : REDIS_TEXT;
	connection->text_bytes += len;
	reply->text = (struct slice){arena_copy(&connection->arena, (struct slice){text, len}), len};
	return reply->text.data ? reply : NULL;
}

/* The items are filled by the calls that follow. */
static void *make_array(const redisReadTask *task, reply_size found)
{
	struct redis_reply *reply = next_value(task);
	struct connection *connection = task->privdata;
	struct redis_reply *items;
	size_t count = (size_t)found; /* a negative one becomes too large */

	if (!reply)
		return NULL;
	if (count > CONNECTION_ITEMS_MAX - connection->value_count) {
		fail(connection, "expected a reply of at most %zu values, found an array of %zu",
		     CONNECTION_ITEMS_MAX, count);
		return NULL;
	}
	items = arena_array(&connection->arena, count, sizeof *items);
	if (!items)
		return NULL;
	*reply = (struct redis_reply){.type = REDIS_ARRAY, .items = items, .count = count};
	return reply;
}

static void *make_integer(const redisReadTask *task, long long value)
{
	struct redis_reply *reply = next_value(task);

	if (reply)
		*reply = (struct redis_reply){.type = REDIS_INTEGER, .integer = value};
	return reply;
}

static void *make_nil(const redisReadTask *task)
{
	struct redis_reply *reply = next_value(task);

	if (reply)
		*reply = (struct redis_reply){.type = REDIS_NIL};
	return reply;
}

#ifdef REDIS_REPLY_BOOL
/* These are values of RESP3, which next_value() refuses. */
static void *make_double(const redisReadTask *task, double value, char *text, size_t len)
{
	(void)value, (void)text, (void)len;
	return next_value(task);
}

static void *make_bool(const redisReadTask *task, int value)
{
	(void)value;
	return next_value(task);
}
#endif

/* The arena has the whole reply. */
static void free_nothing(void *reply)
{
	(void)reply;
}

static const redisReplyObjectFunctions functions = {
    .createString = make_text,
    .createArray = make_array,
    .createInteger = make_integer,
    .createNil = make_nil,
#ifdef REDIS_REPLY_BOOL
    .createDouble = make_double,
    .createBool = make_bool,
#endif
    .freeObject = free_nothing,
};

/* Gives the reply to the oldest command that waits for one. */
static void deliver_reply(struct connection *connection)
{
	struct pending_reply *call =
	    list_of(list_pop(&connection->awaited), struct pending_reply, node);
	struct redis_reply *reply = &connection->reply;

	if (!call) {
		fail(connection, "expected nothing, found a reply without a command");
		return;
	}
	call->replied(call, reply);
	for (size_t i = 0; reply->type == REDIS_ERROR && i < sizeof fatal_errors / sizeof *fatal_errors;
	     i++)
		if (redis_error_is(reply->text, fatal_errors[i]))
			fail(connection, "Redis says %.*s", (int)u64_min(reply->text.len, 160),
			     reply->text.data);
}

static void reset_reply(struct connection *connection)
{
	connection->reply = (struct redis_reply){0};
	connection->value_count = connection->text_bytes = 0;
	arena_reset(&connection->arena);
}

/* Whether hiredis reads the content of a text, whose length it knows; it reads all else by lines.
 */
static bool is_reading_text(const redisReader *reader)
{
	bool has_begun_reply = reader->ridx >= 0;

	if (!has_begun_reply)
		return false;
#ifdef REDIS_REPLY_BOOL
	return reader->task[reader->ridx]->type == REDIS_REPLY_STRING;
#else
	return reader->rstack[reader->ridx].type == REDIS_REPLY_STRING;
#endif
}

/*
 * Checks the size of an incomplete reply. A line without an end has a smaller maximum, because it
 * is searched again with each piece that arrives.
 */
static int check_incomplete_reply(struct connection *connection)
{
	const redisReader *reader = connection->reader;
	size_t unread_bytes = reader->len - reader->pos;

	if (!is_reading_text(reader) && unread_bytes > CONNECTION_LINE_MAX)
		return fail(connection, "expected a line of at most %zu bytes, found more",
		            CONNECTION_LINE_MAX);
	if (unread_bytes + connection->text_bytes > CONNECTION_INPUT_MAX)
		return fail(connection, "expected a reply of at most %zu bytes, found more",
		            CONNECTION_INPUT_MAX);
	return WEIR_OK;
}

static int read_replies(struct connection *connection, struct slice bytes)
{
	redisReader *reader = connection->reader;

	if (redisReaderFeed(reader, bytes.data, bytes.len) != REDIS_OK)
		return fail(connection, "out of memory");
	while (!connection->has_failed) {
		void *reply;

		if (redisReaderGetReply(reader, &reply) != REDIS_OK)
			return fail(connection, "expected a reply from Redis: %s", reader->errstr);
		if (!reply)
			return check_incomplete_reply(connection);
		deliver_reply(connection);
		reset_reply(connection);
	}
	return WEIR_EIO;
}

/* Bytes are read in pieces, so that the bounds are checked before everything is stored. */
#define PIECE_BYTES ((size_t)64 << 10)

static int read_plain_bytes(struct connection *connection, struct slice bytes)
{
	int status = connection->has_failed ? WEIR_EIO : WEIR_OK;

	while (bytes.len > 0 && status == WEIR_OK) {
		size_t len = u64_min(bytes.len, PIECE_BYTES);

		status = read_replies(connection, (struct slice){bytes.data, len});
		bytes = (struct slice){bytes.data + len, bytes.len - len};
	}
	return status;
}

/* Reads bytes from the wire, and delivers the replies. After EIO the connection has failed. */
int connection_receive(struct connection *connection, struct slice bytes)
{
	int status;

	if (!connection->tls || connection->has_failed)
		return read_plain_bytes(connection, bytes);
	status = tls_decrypt(connection->tls, bytes, &connection->plain, &connection->wire);
	if (status == WEIR_OK)
		status = read_plain_bytes(connection,
		                          (struct slice){connection->plain.data, connection->plain.len});
	else
		fail(connection, "%s", tls_error(connection->tls));
	connection->plain.len = 0;
	return status;
}

const char *connection_error(const struct connection *connection)
{
	return connection->error;
}

bool connection_is_of_replica(const struct connection *connection)
{
	return connection->is_of_replica;
}

bool connection_is_ready(const struct connection *connection)
{
	return connection->is_ready;
}

/* Commands */

void connection_write_words(struct buffer *out, const struct slice *words, size_t count)
{
	buffer_add(out, "*", 1);
	buffer_add_u64(out, count);
	for (size_t i = 0; i < count; i++) {
		buffer_add(out, "\r\n$", 3);
		buffer_add_u64(out, words[i].len);
		buffer_add(out, "\r\n", 2);
		buffer_add_slice(out, words[i]);
	}
	buffer_add(out, "\r\n", 2);
}

/* Where the next command is to be appended; commands wait until the greeting is accepted. */
struct buffer *connection_command_buffer(struct connection *connection)
{
	return connection->is_ready ? &connection->out : &connection->deferred;
}

/* Called after a command was appended: `call` gets its reply. */
void connection_expect_reply(struct connection *connection, struct pending_reply *call)
{
	if (connection_command_buffer(connection)->failed)
		fail(connection, "out of memory");
	list_append(&connection->awaited, &call->node);
}

const struct list *connection_pending(const struct connection *connection)
{
	return &connection->awaited;
}

/* The part of a buffer that is not sent yet. */
static struct slice unsent_part(const struct connection *connection, const struct buffer *buffer)
{
	return (struct slice){buffer->data ? buffer->data + connection->sent_bytes : NULL,
	                      buffer->len - connection->sent_bytes};
}

/* The bytes for the wire; with TLS, encrypts them first. */
struct slice connection_unsent_bytes(struct connection *connection)
{
	if (connection->has_failed && !connection->tls)
		return (struct slice){0};
	if (!connection->tls)
		return unsent_part(connection, &connection->out);
	if (connection->out.len > 0 && tls_is_ready(connection->tls) && !connection->has_failed) {
		struct slice plain = {connection->out.data, connection->out.len};

		if (tls_encrypt(connection->tls, plain, &connection->wire) != WEIR_OK)
			fail(connection, "%s", tls_error(connection->tls));
		connection->out.len = 0;
	}
	/* After a failure this may be the alert that says why. */
	return unsent_part(connection, &connection->wire);
}

/* An empty buffer with more memory than this is freed. */
#define EMPTY_BUFFER_MAX ((size_t)256 << 10)

/* Called after bytes were written to the wire. */
void connection_drop_sent_bytes(struct connection *connection, size_t bytes)
{
	struct buffer *buffer = connection->tls ? &connection->wire : &connection->out;

	connection->sent_bytes += bytes;
	if (connection->sent_bytes < buffer->len)
		return;
	connection->sent_bytes = buffer->len = 0;
	if (buffer->capacity > EMPTY_BUFFER_MAX)
		buffer_free(buffer);
}

/* The greeting */

/* Redis has accepted the greeting: sends the commands that were deferred until now. */
static void finish_greeting(struct connection *connection)
{
	connection->is_ready = true;
	if (connection->deferred.len > 0)
		buffer_add(&connection->out, connection->deferred.data, connection->deferred.len);
	buffer_free(&connection->deferred);
	if (connection->out.failed)
		fail(connection, "out of memory");
}

/*
 * The text that follows a name in a reply to HELLO, which alternates names and values; an empty
 * slice if there is none.
 */
static struct slice find_hello_field(const struct redis_reply *reply, struct slice name)
{
	for (size_t i = 0; reply->type == REDIS_ARRAY && i + 1 < reply->count; i += 2)
		if (reply->items[i].type == REDIS_TEXT && slice_equal(reply->items[i].text, name) &&
		    reply->items[i + 1].type == REDIS_TEXT)
			return reply->items[i + 1].text;
	return (struct slice){0};
}

/* Fails the connection unless the reply to HELLO is that of a master. */
static void check_role(struct connection *connection, const struct redis_reply *reply)
{
	struct slice role = find_hello_field(reply, SLICE("role")),
	             mode = find_hello_field(reply, SLICE("mode"));

	if (slice_equal(role, SLICE("master")))
		return;
	connection->is_of_replica = slice_equal(role, SLICE("replica"));
	fail(connection, "expected a master, found %s",
	     connection->is_of_replica              ? "a replica"
	     : slice_equal(mode, SLICE("sentinel")) ? "a Sentinel"
	                                            : "another reply to HELLO");
}

/* Checks the reply to a command of the greeting; the last one, to PING, accepts the greeting. */
static void on_greeting_reply(struct pending_reply *call, const struct redis_reply *reply)
{
	struct connection *connection = ((struct greeting *)call)->connection;
	size_t which = (size_t)((struct greeting *)call - connection->greetings);
	static const char *const names[] = {"AUTH", "HELLO", "SELECT", "PING"};
	struct slice text;

	if (!reply || connection->has_failed)
		return;
	text = reply->text;
	if (reply->type == REDIS_ERROR && which == GREETING_AUTH) {
		/* Only the code: a server that does not know AUTH quotes the password. */
		text = slice_cut(&text, ' ');
		fail(connection, "Redis refuses user or password: %.*s", (int)u64_min(text.len, 20),
		     text.data);
	} else if (reply->type == REDIS_ERROR) {
		fail(connection, "Redis says %.*s", (int)u64_min(text.len, 160), text.data);
	} else if (which == GREETING_ROLE) {
		check_role(connection, reply);
	} else if (reply->type != REDIS_TEXT ||
	           !slice_equal(text, slice_of(which == GREETING_PING ? "PONG" : "OK"))) {
		fail(connection, "expected %s to %s, found another reply",
		     which == GREETING_PING ? "PONG" : "OK", names[which]);
	} else if (which == GREETING_PING) {
		finish_greeting(connection);
	}
}

/* Sends one command of the greeting. */
static void send_greeting(struct connection *connection, size_t which, const struct slice *words,
                          size_t count)
{
	struct greeting *greeting = &connection->greetings[which];

	*greeting = (struct greeting){{.replied = on_greeting_reply}, connection};
	connection_write_words(&connection->out, words, count);
	list_append(&connection->awaited, &greeting->call.node);
}

static void log_in(struct connection *connection, const char *user, const char *password)
{
	struct slice words[3] = {SLICE("AUTH")};
	size_t n = 1;

	if (!password)
		return;
	if (user)
		words[n++] = slice_of(user);
	words[n++] = slice_of(password);
	send_greeting(connection, GREETING_AUTH, words, n);
}

/* Sends the whole greeting at once. */
static void send_whole_greeting(struct connection *connection, enum connection_peer peer)
{
	const struct redis_url *url = connection->url;
	char number[20];

	if (peer == CONNECTION_SENTINEL)
		log_in(connection, url->sentinel_user, url->sentinel_password);
	else
		log_in(connection, url->user, url->password);
	/*
	 * The master that Sentinels have named may be a replica by now: the reply to HELLO has its
	 * role. An access list may forbid ROLE, but not HELLO.
	 */
	if (peer == CONNECTION_STORE && url->master_name)
		send_greeting(connection, GREETING_ROLE, (struct slice[]){SLICE("HELLO"), SLICE("2")}, 2);
	if (peer == CONNECTION_STORE && url->database > 0)
		send_greeting(
		    connection, GREETING_SELECT,
		    (struct slice[]){SLICE("SELECT"),
		                     {number, (size_t)(format_u64(number, url->database) - number)}},
		    2);
	send_greeting(connection, GREETING_PING, &SLICE("PING"), 1);
}

int connection_open(struct connection **out, const struct redis_url *url, enum connection_peer peer,
                    const char *host)
{
	struct connection *connection = calloc(1, sizeof *connection);
	int status = WEIR_OK;

	*out = NULL;
	if (!connection)
		return WEIR_ENOMEM;
	connection->url = url;
	/* The reader does not change the functions. */
	connection->reader = redisReaderCreateWithFunctions((redisReplyObjectFunctions *)&functions);
	if (url->tls)
		status = tls_open(&connection->tls, url->trust, host, &connection->wire);
	send_whole_greeting(connection, peer);
	if (!connection->reader || status != WEIR_OK || connection->out.failed) {
		connection_close(connection);
		return WEIR_ENOMEM;
	}
	connection->reader->privdata = connection;
	*out = connection;
	return WEIR_OK;
}

void connection_close(struct connection *connection)
{
	struct pending_reply *call;

	connection->has_failed = true;
	while ((call = list_of(list_pop(&connection->awaited), struct pending_reply, node)))
		call->replied(call, NULL);
	if (connection->reader)
		redisReaderFree(connection->reader);
	tls_close(connection->tls);
	buffer_free(&connection->out);
	buffer_free(&connection->deferred);
	buffer_free(&connection->wire);
	buffer_free(&connection->plain);
	arena_free(&connection->arena);
	free(connection);
}
