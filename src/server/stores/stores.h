/*
 * stores.h: opens the remote stores that configurations name, such as a Redis, each once.
 *
 * The server keeps each store to its end, because a worker may still
 * use an old configuration. The same URL with another prefix or timeout is another store. Only the
 * server's thread changes this list; workers read the stores that existed when their store clients
 * were opened.
 */
#ifndef SERVER_STORES_H
#define SERVER_STORES_H

#include <weir/rules.h>

#include "redis/redis.h"
#include "server/admin/event_log.h"

#define STORES_MAX 64

/* A store, with the options it was opened with. */
struct stores_item {
	struct store *store;
	char *url, *prefix;
	uint64_t timeout_ns, denied_cache_ns;
};

struct stores {
	struct log *log;    /* for stores that become unavailable or recover */
	struct store *main; /* of limits that name no store; NULL if that is the table */
	size_t count;
	struct stores_item items[STORES_MAX];
};

/**
 * Finds or opens the store at `url` with the options of `rules`; it does not connect yet. Errors:
 * as redis_store_open; ERANGE if there are STORES_MAX.
 */
int stores_open(struct stores *stores, const char *url, const struct weir_config *rules,
                struct store **out, struct weir_error *error);
/** The same for limits that name no store; without a URL they are in the table. */
int stores_open_main(struct stores *stores, const char *url, const struct weir_config *rules,
                     weir_table *table, struct weir_error *error);
/** Called when there are no store clients any more. */
void stores_close(struct stores *stores);

#endif
