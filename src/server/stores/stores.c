/* stores.c: opens the stores that configurations name, each once, until the server ends. */
#include "server/stores/stores.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "engine/table.h"
#include "rules/model.h"

/*
 * Called by the thread that notices it: logs that a store has become unavailable, and `why`, or
 * with NULL that it has recovered.
 */
static void log_availability(void *context, const struct store *store, const char *why)
{
	struct stores *stores = context;

	if (why)
		log_event(stores->log, LOG_WARNING, "store_away", {"store", redis_store_name(store)},
		          {"message", why});
	else
		log_event(stores->log, LOG_INFO, "store_back", {"store", redis_store_name(store)});
}

static bool is_opened_with(const struct stores_item *item, const char *url,
                           const struct weir_config *rules)
{
	return strcmp(item->url, url) == 0 && strcmp(item->prefix, rules->prefix) == 0 &&
	       item->timeout_ns == rules->store_timeout_ns &&
	       item->denied_cache_ns == rules->denied_cache_ns;
}

static void close_item(struct stores_item *item)
{
	if (item->store)
		redis_store_close(item->store);
	free(item->url);
	free(item->prefix);
	*item = (struct stores_item){0};
}

static int open_item(struct stores *stores, struct stores_item *item, const char *url,
                     const struct weir_config *rules, struct weir_error *error)
{
	const struct redis_options options = {
	    .url = url,
	    .prefix = rules->prefix,
	    .timeout_ns = rules->store_timeout_ns,
	    .denied_cache_ns = rules->denied_cache_ns,
	    .switched = log_availability,
	    .context = stores,
	};

	*item = (struct stores_item){.url = strdup(url),
	                             .prefix = strdup(rules->prefix),
	                             .timeout_ns = rules->store_timeout_ns,
	                             .denied_cache_ns = rules->denied_cache_ns};
	if (!item->url || !item->prefix)
		return error_set(error, WEIR_ENOMEM, "out of memory");
	return redis_store_open(&options, &item->store, error);
}

int stores_open(struct stores *stores, const char *url, const struct weir_config *rules,
                struct store **out, struct weir_error *error)
{
	struct stores_item *item = &stores->items[stores->count];
	int status;

	for (size_t i = 0; i < stores->count; i++)
		if (is_opened_with(&stores->items[i], url, rules)) {
			*out = stores->items[i].store;
			return WEIR_OK;
		}
	if (stores->count == STORES_MAX)
		return error_set(error, WEIR_ERANGE,
		                 "expected at most %d stores since the server started, found one "
		                 "more",
		                 STORES_MAX);
	status = open_item(stores, item, url, rules, error);
	if (status != WEIR_OK) {
		close_item(item);
		return status;
	}
	item->store->index = stores->count++;
	*out = item->store;
	return WEIR_OK;
}

int stores_open_main(struct stores *stores, const char *url, const struct weir_config *rules,
                     weir_table *table, struct weir_error *error)
{
	int status = url ? stores_open(stores, url, rules, &stores->main, error) : WEIR_OK;

	table->remote = stores->main;
	return status;
}

void stores_close(struct stores *stores)
{
	while (stores->count > 0)
		close_item(&stores->items[--stores->count]);
}
