/* limits.h: the page that lists the limits that are in force. */
#ifndef SERVER_LIMITS_H
#define SERVER_LIMITS_H

#include "base/arena.h"
#include "base/buffer.h"
#include "server/config.h"

/** Appends a JSON array, in the order of the file. 0 or ENOMEM. */
int limits_render(const struct server_config *config, struct arena *arena, struct buffer *out);

#endif
