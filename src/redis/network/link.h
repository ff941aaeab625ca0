/*
 * link.h: one connection to a Redis, without input and output: commands become bytes, bytes
 * become replies. One thread uses it.
 *
 * A link greets by itself (AUTH, SELECT, PING; through TLS where the URL says so). Where Sentinels
 * name the server, it also asks the server for its role, and refuses one that is no master.
 * Commands may be added at once; they are sent when Redis has accepted the greeting, so none is
 * carried out by a Redis that refuses the password or is loading. Replies come in the order of the commands.
 *
 * A link fails when an error of Redis would meet all commands (NOAUTH, LOADING, MASTERDOWN,
 * READONLY); it tells the call first. An error of one command leaves the link as it is.
 */
#ifndef REDIS_LINK_H
#define REDIS_LINK_H

#include "base/buffer.h"
#include "redis/network/reply.h"
#include "redis/network/url.h"

/* Bytes of replies that are kept until they are whole; more is nonsense. */
#define LINK_INPUT_MAX ((size_t)4 << 20)
/* The same of a reply that is one line, and of values in a reply. */
#define LINK_LINE_MAX  ((size_t)64 << 10)
#define LINK_ITEMS_MAX ((size_t)256 << 10)

struct link;

/* A command whose reply is awaited: the first member of what the caller keeps of it. */
struct link_call {
	/*
	 * Called once; may add commands, and must not close the link. The reply lives until it
	 * returns. NULL: the connection ended before it came, and nobody knows whether the command
	 * was carried out.
	 */
	void (*replied)(struct link_call *call, const struct redis_reply *reply);
	struct link_call *next; /* the link's */
};

/* To whom a link leads: their logins differ. */
enum link_peer { LINK_STORE, LINK_SENTINEL };

/** `url` outlives it. `host`: what its certificate must name. 0 or ENOMEM. */
int link_open(struct link **out, const struct redis_url *url, enum link_peer peer,
              const char *host);
/** Its calls are told NULL first. */
void link_close(struct link *link);

/** Append one whole command to this buffer, then call link_sent before anything else. */
struct buffer *link_command(struct link *link);
/** Its reply goes to `call`. */
void link_sent(struct link *link, struct link_call *call);

/**
 * Bytes for the wire, and that so many of them are gone. There may be new ones after link_sent
 * and after link_in.
 */
struct slice link_out(struct link *link);
void link_out_gone(struct link *link, size_t bytes);
/**
 * Bytes from the wire. 0, or EIO: the link has failed, and link_error says why (nonsense, a
 * refused password or certificate): close it.
 */
int link_in(struct link *link, struct slice bytes);
const char *link_error(const struct link *link);
/** Whether it failed because the server is a replica, where Sentinels named it as the master. */
bool link_is_of_replica(const struct link *link);
/** Whether Redis has accepted the greeting. */
bool link_is_ready(const struct link *link);

/** Appends a command of `count` words in Redis's own form. */
void link_write_words(struct buffer *out, const struct slice *words, size_t count);

#endif
