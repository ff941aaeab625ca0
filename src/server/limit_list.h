/* limit_list.h: the page that lists the limits that are in force. */
#ifndef SERVER_LIMIT_LIST_H
#define SERVER_LIMIT_LIST_H

#include "base/arena.h"
#include "base/buffer.h"
#include "server/config.h"
#include "server/switches.h"

/** Appends a JSON array, in the order of the file. 0 or ENOMEM. */
int limit_list_render(const struct server_config *config, struct switches *switches,
                      struct arena *arena, struct buffer *out);

#endif
