/*
 * stores.h: the stores of a server that complete steps later.
 *
 * Configurations name stores. The server opens each once, and keeps it to its end: a worker may
 * still decide by an old configuration. The same URL with another prefix or timeout is another
 * store. Only the server's thread changes this; workers read the stores that existed when their
 * store clients were opened.
 */
#ifndef SERVER_STORES_H
#define SERVER_STORES_H

#include <weir/rules.h>

#include "redis/redis.h"
#include "server/admin/log.h"

#define STORES_MAX 64

/* One of them, and how it was asked for. */
struct stores_item {
	struct store *store;
	char *url, *prefix;
	uint64_t timeout_ns, denied_cache_ns;
};

struct stores {
	struct log *log; /* where it is told that one is away, or back */
	struct store *main; /* of limits that name none; NULL: the table */
	size_t count;
	struct stores_item items[STORES_MAX];
};

/**
 * The store at `url` as `rules` ask for it: one that is there, or a new one. Nothing is connected
 * yet. Errors: as redis_store_open; ERANGE where there are STORES_MAX.
 */
int stores_open(struct stores *stores, const char *url, const struct weir_config *rules,
                struct store **out, struct weir_error *error);
/** The same of limits that name none, which then count there; NULL: in the table. */
int stores_open_main(struct stores *stores, const char *url, const struct weir_config *rules,
                     weir_table *table, struct weir_error *error);
/** When no store client is left. */
void stores_close(struct stores *stores);

#endif
