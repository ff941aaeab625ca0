#include "redis/network/link.h"

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

struct greeting {
	struct link_call call; /* first */
	struct link *link;
};

struct link {
	const struct redis_url *url;
	struct tls *tls; /* NULL: none */
	redisReader *reader;
	struct buffer out;   /* for Redis; of it `gone` bytes are on the wire */
	struct buffer held;  /* commands behind the greeting, until it is accepted */
	struct buffer wire;  /* TLS: what became of `out`; `gone` is of this one */
	struct buffer plain; /* TLS: what became of the bytes from the wire */
	size_t gone;
	struct link_call *first, **last; /* whose replies are awaited */
	struct greeting greetings[GREETINGS];
	struct arena arena; /* of the reply that is being read */
	struct redis_reply reply;
	size_t items, texts; /* of that reply: how many values, and bytes in them */
	bool is_ready, has_failed, is_of_replica;
	char error[200];
};

/* Errors that say how all commands would fare, not one: the link is of no use any more. */
static const char *const fatal[] = {"NOAUTH", "LOADING", "MASTERDOWN", "READONLY"};

__attribute__((format(printf, 2, 3))) static int fail(struct link *link, const char *format, ...)
{
	va_list args;

	if (link->has_failed) /* the first reason counts */
		return WEIR_EIO;
	va_start(args, format);
	vsnprintf(link->error, sizeof link->error, format, args);
	va_end(args);
	/* It holds words of Redis, and goes into logs. */
	for (char *c = link->error; *c; c++)
		if (!isascii((unsigned char)*c) || iscntrl((unsigned char)*c))
			*c = '?';
	link->has_failed = true;
	return WEIR_EIO;
}

/* Replies */

/* The place for the value of a task; NULL: there are too many. */
static struct redis_reply *place_of(const redisReadTask *task)
{
	struct link *link = task->privdata;
	const struct redis_reply *array = task->parent ? task->parent->obj : NULL;

	if (++link->items > LINK_ITEMS_MAX) {
		fail(link, "expected a reply of at most %zu values, found more", LINK_ITEMS_MAX);
		return NULL;
	}
	/* Items are const for those that read them. */
	return array ? (struct redis_reply *)&array->items[task->idx] : &link->reply;
}

static void *make_text(const redisReadTask *task, char *text, size_t len)
{
	struct redis_reply *reply = place_of(task);
	struct link *link = task->privdata;

	if (!reply)
		return NULL;
	reply->type = task->type == REDIS_REPLY_ERROR ? REDIS_ERROR : REDIS_TEXT;
	link->texts += len;
	reply->text = (struct slice){arena_copy(&link->arena, (struct slice){text, len}), len};
	return reply->text.data ? reply : NULL;
}

static void *make_array(const redisReadTask *task, int count)
{
	struct redis_reply *reply = place_of(task);
	struct link *link = task->privdata;
	struct redis_reply *items;

	if (!reply)
		return NULL;
	if (count < 0 || (size_t)count > LINK_ITEMS_MAX - link->items) {
		fail(link, "expected a reply of at most %zu values, found an array of %d", LINK_ITEMS_MAX,
		     count);
		return NULL;
	}
	items = arena_array(&link->arena, (size_t)count, sizeof *items);
	if (!items)
		return NULL;
	*reply = (struct redis_reply){.type = REDIS_ARRAY, .items = items, .count = (size_t)count};
	return reply;
}

static void *make_integer(const redisReadTask *task, long long value)
{
	struct redis_reply *reply = place_of(task);

	if (reply)
		*reply = (struct redis_reply){.type = REDIS_INTEGER, .integer = value};
	return reply;
}

static void *make_nil(const redisReadTask *task)
{
	struct redis_reply *reply = place_of(task);

	if (reply)
		*reply = (struct redis_reply){.type = REDIS_NIL};
	return reply;
}

/* All of a reply is in the arena. */
static void drop(void *reply)
{
	(void)reply;
}

static const redisReplyObjectFunctions functions = {
    .createString = make_text,
    .createArray = make_array,
    .createInteger = make_integer,
    .createNil = make_nil,
    .freeObject = drop,
};

static void deliver(struct link *link)
{
	struct link_call *call = link->first;
	struct redis_reply *reply = &link->reply;

	if (!call) {
		fail(link, "expected nothing, found a reply that no command asked for");
		return;
	}
	link->first = call->next;
	if (!link->first)
		link->last = &link->first;
	call->replied(call, reply);
	for (size_t i = 0; reply->type == REDIS_ERROR && i < sizeof fatal / sizeof *fatal; i++)
		if (redis_error_is(reply->text, fatal[i]))
			fail(link, "Redis says %.*s", (int)u64_min(reply->text.len, 160), reply->text.data);
}

static void forget_reply(struct link *link)
{
	link->reply = (struct redis_reply){0};
	link->items = link->texts = 0;
	arena_reset(&link->arena);
}

/* A line that does not end would be searched anew with each piece of it that comes. */
static int check_rest(struct link *link)
{
	const redisReader *reader = link->reader;
	size_t rest = reader->len - reader->pos;
	bool is_line = reader->ridx < 0 || reader->rstack[reader->ridx].type != REDIS_REPLY_STRING;

	if (is_line && rest > LINK_LINE_MAX)
		return fail(link, "expected a line of at most %zu bytes, found more", LINK_LINE_MAX);
	if (rest + link->texts > LINK_INPUT_MAX)
		return fail(link, "expected a reply of at most %zu bytes, found more", LINK_INPUT_MAX);
	return WEIR_OK;
}

static int read_replies(struct link *link, struct slice bytes)
{
	redisReader *reader = link->reader;

	if (redisReaderFeed(reader, bytes.data, bytes.len) != REDIS_OK)
		return fail(link, "out of memory");
	while (!link->has_failed) {
		void *reply;

		if (redisReaderGetReply(reader, &reply) != REDIS_OK)
			return fail(link, "expected a reply from Redis: %s", reader->errstr);
		if (!reply)
			return check_rest(link);
		deliver(link);
		forget_reply(link);
	}
	return WEIR_EIO;
}

/* In pieces, so that the bounds are looked at before all is kept. */
#define PIECE ((size_t)64 << 10)

static int read_plain(struct link *link, struct slice bytes)
{
	int status = link->has_failed ? WEIR_EIO : WEIR_OK;

	while (bytes.len > 0 && status == WEIR_OK) {
		size_t len = u64_min(bytes.len, PIECE);

		status = read_replies(link, (struct slice){bytes.data, len});
		bytes = (struct slice){bytes.data + len, bytes.len - len};
	}
	return status;
}

int link_in(struct link *link, struct slice bytes)
{
	int status;

	if (!link->tls || link->has_failed)
		return read_plain(link, bytes);
	status = tls_in(link->tls, bytes, &link->plain, &link->wire);
	if (status == WEIR_OK)
		status = read_plain(link, (struct slice){link->plain.data, link->plain.len});
	else
		fail(link, "%s", tls_error(link->tls));
	link->plain.len = 0;
	return status;
}

const char *link_error(const struct link *link)
{
	return link->error;
}

bool link_is_of_replica(const struct link *link)
{
	return link->is_of_replica;
}

bool link_is_ready(const struct link *link)
{
	return link->is_ready;
}

/* Commands */

void link_write_words(struct buffer *out, const struct slice *words, size_t count)
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

struct buffer *link_command(struct link *link)
{
	return link->is_ready ? &link->out : &link->held;
}

static void await(struct link *link, struct link_call *call)
{
	call->next = NULL;
	*link->last = call;
	link->last = &call->next;
}

void link_sent(struct link *link, struct link_call *call)
{
	if (link_command(link)->failed)
		fail(link, "out of memory");
	await(link, call);
}

/* The part of a buffer that is still to be sent. */
static struct slice rest_of(const struct link *link, const struct buffer *buffer)
{
	return (struct slice){buffer->data ? buffer->data + link->gone : NULL,
	                      buffer->len - link->gone};
}

struct slice link_out(struct link *link)
{
	if (link->has_failed && !link->tls)
		return (struct slice){0};
	if (!link->tls)
		return rest_of(link, &link->out);
	if (link->out.len > 0 && tls_is_ready(link->tls) && !link->has_failed) {
		struct slice plain = {link->out.data, link->out.len};

		if (tls_write(link->tls, plain, &link->wire) != WEIR_OK)
			fail(link, "%s", tls_error(link->tls));
		link->out.len = 0;
	}
	return rest_of(link, &link->wire); /* of a link that has failed, maybe why */
}

/* The most memory that a buffer keeps between two turns. */
#define IDLE_MAX ((size_t)256 << 10)

void link_out_gone(struct link *link, size_t bytes)
{
	struct buffer *buffer = link->tls ? &link->wire : &link->out;

	link->gone += bytes;
	if (link->gone < buffer->len)
		return;
	link->gone = buffer->len = 0;
	if (buffer->capacity > IDLE_MAX)
		buffer_free(buffer);
}

/* The greeting */

static void accept_greeting(struct link *link)
{
	link->is_ready = true;
	if (link->held.len > 0)
		buffer_add(&link->out, link->held.data, link->held.len);
	buffer_free(&link->held);
	if (link->out.failed)
		fail(link, "out of memory");
}

/* The reply to HELLO: names and values in turn. An empty slice: it has no such text. */
static struct slice find_text(const struct redis_reply *reply, struct slice name)
{
	for (size_t i = 0; reply->type == REDIS_ARRAY && i + 1 < reply->count; i += 2)
		if (reply->items[i].type == REDIS_TEXT && slice_equal(reply->items[i].text, name) &&
		    reply->items[i + 1].type == REDIS_TEXT)
			return reply->items[i + 1].text;
	return (struct slice){0};
}

static void look_at_role(struct link *link, const struct redis_reply *reply)
{
	struct slice role = find_text(reply, SLICE("role")), mode = find_text(reply, SLICE("mode"));

	if (slice_equal(role, SLICE("master")))
		return;
	link->is_of_replica = slice_equal(role, SLICE("replica"));
	fail(link, "expected a master, found %s",
	     link->is_of_replica                        ? "a replica"
	     : slice_equal(mode, SLICE("sentinel")) ? "a Sentinel"
	                                                : "another reply to HELLO");
}

static void greeted(struct link_call *call, const struct redis_reply *reply)
{
	struct link *link = ((struct greeting *)call)->link;
	size_t which = (size_t)((struct greeting *)call - link->greetings);
	static const char *const names[] = {"AUTH", "HELLO", "SELECT", "PING"};
	struct slice text;

	if (!reply || link->has_failed)
		return;
	text = reply->text;
	if (reply->type == REDIS_ERROR && which == GREETING_AUTH) {
		/* Its code alone: a server that doesn't know AUTH quotes the password. */
		text = slice_cut(&text, ' ');
		fail(link, "Redis refuses user or password: %.*s", (int)u64_min(text.len, 20), text.data);
	} else if (reply->type == REDIS_ERROR) {
		fail(link, "Redis says %.*s", (int)u64_min(text.len, 160), text.data);
	} else if (which == GREETING_ROLE) {
		look_at_role(link, reply);
	} else if (reply->type != REDIS_TEXT ||
	           !slice_equal(text, slice_of(which == GREETING_PING ? "PONG" : "OK"))) {
		fail(link, "expected %s to %s, found another reply", which == GREETING_PING ? "PONG" : "OK",
		     names[which]);
	} else if (which == GREETING_PING) {
		accept_greeting(link);
	}
}

static void say(struct link *link, size_t which, const struct slice *words, size_t count)
{
	struct greeting *greeting = &link->greetings[which];

	*greeting = (struct greeting){{greeted, NULL}, link};
	link_write_words(&link->out, words, count);
	await(link, &greeting->call);
}

static void log_in(struct link *link, const char *user, const char *password)
{
	struct slice words[3] = {SLICE("AUTH")};
	size_t n = 1;

	if (!password)
		return;
	if (user)
		words[n++] = slice_of(user);
	words[n++] = slice_of(password);
	say(link, GREETING_AUTH, words, n);
}

static void greet(struct link *link, enum link_peer peer)
{
	const struct redis_url *url = link->url;
	char number[20];

	if (peer == LINK_SENTINEL)
		log_in(link, url->sentinel_user, url->sentinel_password);
	else
		log_in(link, url->user, url->password);
	/* No access list forbids HELLO, as it may ROLE. */
	if (peer == LINK_STORE && url->master)
		say(link, GREETING_ROLE, (struct slice[]){SLICE("HELLO"), SLICE("2")}, 2);
	if (peer == LINK_STORE && url->database > 0)
		say(link, GREETING_SELECT,
		    (struct slice[]){SLICE("SELECT"),
		                     {number, (size_t)(format_u64(number, url->database) - number)}}, 2);
	say(link, GREETING_PING, &SLICE("PING"), 1);
}

int link_open(struct link **out, const struct redis_url *url, enum link_peer peer,
              const char *host)
{
	struct link *link = calloc(1, sizeof *link);
	int status = WEIR_OK;

	*out = NULL;
	if (!link)
		return WEIR_ENOMEM;
	link->url = url;
	link->last = &link->first;
	/* It only reads them. */
	link->reader = redisReaderCreateWithFunctions((redisReplyObjectFunctions *)&functions);
	if (url->tls)
		status = tls_open(&link->tls, url->trust, host, &link->wire);
	greet(link, peer);
	if (!link->reader || status != WEIR_OK || link->out.failed) {
		link_close(link);
		return WEIR_ENOMEM;
	}
	link->reader->privdata = link;
	*out = link;
	return WEIR_OK;
}

void link_close(struct link *link)
{
	link->has_failed = true;
	while (link->first) {
		struct link_call *call = link->first;

		link->first = call->next;
		call->replied(call, NULL);
	}
	if (link->reader)
		redisReaderFree(link->reader);
	tls_close(link->tls);
	buffer_free(&link->out);
	buffer_free(&link->held);
	buffer_free(&link->wire);
	buffer_free(&link->plain);
	arena_free(&link->arena);
	free(link);
}
