/* line.h: the bytes of a link to a Redis over a connection of the loop, from its host's name on. */
#ifndef SERVER_LINE_H
#define SERVER_LINE_H

#include "base/slice.h"
#include "net/net.h"
#include "redis/link.h"

struct line;

struct line_owner {
	/* Bytes have come. It may close the line; else what the link has to send then is sent. */
	void (*in)(void *context, struct slice bytes);
	/* It has failed or ended, and is no more. A turn follows. */
	void (*lost)(void *context, const char *why);
};

/**
 * Looks the host up and tries all of its addresses. Neither function is called before this
 * returns. NULL: no memory, or the loop has ended.
 */
struct line *line_open(struct net_loop *loop, struct link *link, const struct redis_host *host,
                       const struct line_owner *owner, void *context);
/** Sends the link's bytes now, or when the line is connected. */
void line_send(struct line *line);
/** `lost` is not called. */
void line_close(struct line *line);

#endif
