/*
 * key_map.h: asks the nodes of a store which server has which keys: a cluster for its map of slots,
 * or Sentinels for the master.
 */
#ifndef REDIS_KEY_MAP_H
#define REDIS_KEY_MAP_H

#include "redis/client_inside.h"

/** How many nodes the client has to ask for the map now; writes their numbers. */
size_t map_nodes_to_ask(struct redis_client *client, unsigned nodes[SENTINELS_MAX]);
/** Asks a node for the map, if that is due and the node is ready. */
void map_ask_if_due(struct redis_node *node);
/** A node can't be asked, or was lost before it replied. */
void map_record_failure(struct redis_client *client, unsigned number, const char *why);

#endif
