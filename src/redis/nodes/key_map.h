/* key_map.h: which server has which keys: asked of a cluster, or of Sentinels. */
#ifndef REDIS_KEY_MAP_H
#define REDIS_KEY_MAP_H

#include "redis/client_inside.h"

/** Whether the client is to ask for the map now: the nodes that are to be asked, and how many. */
size_t map_begin(struct redis_client *client, unsigned nodes[SENTINELS_MAX]);
/** Asks a node if it is ready and is to be asked. */
void map_ask(struct redis_node *node);
/** A node that was to be asked can't be. */
void map_fail(struct redis_client *client, unsigned number, const char *why);

#endif
