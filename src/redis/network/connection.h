/*
 * connection.h: turns commands into bytes and bytes into replies, for one connection to a Redis,
 * without input and output of its own. One thread uses a connection.
 *
 * A connection sends the greeting by itself (AUTH, SELECT, PING; through TLS if the URL requires
 * it). If Sentinels named the server, it also asks the server for its role, and refuses one that is
 * no master. Commands may be added at once; they are sent when Redis has accepted the greeting, so
 * a Redis that refuses the password or is loading carries out none of them. Replies come in the
 * order of the commands.
 *
 * A connection fails after an error of Redis that all commands would get (NOAUTH, LOADING,
 * MASTERDOWN, READONLY); the command gets its reply first. An error of one command leaves the
 * connection as it is.
 */
#ifndef REDIS_CONNECTION_H
#define REDIS_CONNECTION_H

#include "base/buffer.h"
#include "base/list.h"
#include "redis/network/reply.h"
#include "redis/network/url.h"

/* The most bytes of a reply; longer ones are invalid. */
#define CONNECTION_INPUT_MAX ((size_t)4 << 20)
/* The same for a reply of one line, and the most values of a reply. */
#define CONNECTION_LINE_MAX  ((size_t)64 << 10)
#define CONNECTION_ITEMS_MAX ((size_t)256 << 10)

struct connection;

/* A command whose reply is awaited: the first member of the caller's own struct. */
struct pending_reply {
	/*
	 * Called once; may add commands, and must not close the connection. The reply lives until it
	 * returns. NULL if the connection ended before, so nobody knows whether the command
	 * was carried out.
	 */
	void (*replied)(struct pending_reply *call, const struct redis_reply *reply);
	struct list_node node; /* the connection's */
};

/* The kind of server, which decides the login. */
enum connection_peer { CONNECTION_STORE, CONNECTION_SENTINEL };

/** `url` must outlive the connection. Its certificate must name `host`. 0 or ENOMEM. */
int connection_open(struct connection **out, const struct redis_url *url, enum connection_peer peer,
                    const char *host);
/** The commands without a reply get NULL first. */
void connection_close(struct connection *connection);

/** Append one whole command to this buffer, then call connection_expect_reply before anything else.
 */
struct buffer *connection_command_buffer(struct connection *connection);
/** The reply to the command that was appended goes to `call`. */
void connection_expect_reply(struct connection *connection, struct pending_reply *call);
/** The commands without a reply, the oldest first. */
const struct list *connection_pending(const struct connection *connection);

/**
 * The bytes for the wire; connection_drop_sent_bytes removes those that were written. There may be
 * new ones after connection_expect_reply and after connection_receive.
 */
struct slice connection_unsent_bytes(struct connection *connection);
void connection_drop_sent_bytes(struct connection *connection, size_t bytes);
/**
 * Reads bytes from the wire. After EIO the connection has failed, and connection_error has the
 * reason (an invalid reply, a refused password or certificate): close it.
 */
int connection_receive(struct connection *connection, struct slice bytes);
const char *connection_error(const struct connection *connection);
/**
 * Whether the connection failed because the server is a replica, although Sentinels named it as the
 * master.
 */
bool connection_is_of_replica(const struct connection *connection);
/** Whether Redis has accepted the greeting. */
bool connection_is_ready(const struct connection *connection);

/** Appends a command of `count` words in the form of RESP. */
void connection_write_words(struct buffer *out, const struct slice *words, size_t count);

#endif
