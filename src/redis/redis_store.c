/*
 * redis_store.c: opens and closes a store on Redis, which the store clients of all threads share,
 * and sums the statistics of these clients.
 */
#include <stdlib.h>

#include "base/error.h"
#include "redis/cache/cache.h"

static const struct store_kind kind = {redis_client_submit};

int redis_store_open(const struct redis_options *options, struct store **out,
                     struct weir_error *error)
{
	struct redis_store *store = calloc(1, sizeof *store);
	int status;

	*out = NULL;
	if (!store)
		return error_set(error, WEIR_ENOMEM, "out of memory");
	status = redis_url_read(options->url, &store->url, error);
	if (status != WEIR_OK) {
		free(store);
		return status;
	}
	status = cluster_open(&store->cluster, &store->url);
	pthread_mutex_init(&store->lock, NULL);
	addresses_open(&store->addresses);
	store->store.kind = &kind;
	store->options = *options;
	store->options.url = NULL; /* it has the password */
	store->prefix = strdup(options->prefix);
	store->options.prefix = store->prefix;
	if (cache_open(store) != WEIR_OK || !store->prefix || status != WEIR_OK) {
		redis_store_close(&store->store);
		return error_set(error, WEIR_ENOMEM, "out of memory");
	}
	*out = &store->store;
	return WEIR_OK;
}

void redis_store_close(struct store *base)
{
	struct redis_store *store = (struct redis_store *)base;

	if (!store)
		return;
	cluster_close(store->cluster);
	redis_url_free(&store->url);
	cache_close(store);
	pthread_mutex_destroy(&store->lock);
	addresses_close(&store->addresses);
	free(store->prefix);
	free(store);
}

void redis_store_failure(const struct store *base, char why[REDIS_FAILURE_MAX])
{
	struct redis_store *store = (struct redis_store *)base; /* for its lock */

	pthread_mutex_lock(&store->lock);
	memcpy(why, store->failure, REDIS_FAILURE_MAX);
	pthread_mutex_unlock(&store->lock);
}

const char *redis_store_name(const struct store *store)
{
	return ((const struct redis_store *)store)->url.shown;
}

bool redis_store_master(const struct store *base, struct redis_host *master)
{
	struct cluster *cluster = ((const struct redis_store *)base)->cluster;
	unsigned node = cluster_node_of(cluster, 0); /* the master has all slots */

	if (!sentinels_node_has_host(cluster, node))
		return false;
	cluster_add_user(cluster, node, master);
	cluster_remove_user(cluster, node);
	return true;
}

void redis_stats_add(struct redis_stats *sum, const struct redis_stats *more)
{
	uint64_t *to = (uint64_t *)sum;
	const uint64_t *from = (const uint64_t *)more;

	/* All members before is_up are 64-bit counts. */
	for (size_t i = 0; i < offsetof(struct redis_stats, is_up) / sizeof *to; i++)
		to[i] += __atomic_load_n(&from[i], __ATOMIC_RELAXED);
	sum->is_up &= more->is_up;
}

uint64_t redis_latency_bound_ns(size_t bucket)
{
	static const uint64_t us[REDIS_LATENCY_BUCKETS - 1] = {
	    100, 250, 500, 1000, 2500, 5000, 10000, 20000, 50000, 100000, 250000, 1000000};

	return us[bucket] * 1000;
}

void redis_store_stats(const struct store *base, struct redis_stats *stats)
{
	struct redis_store *store = (struct redis_store *)base; /* for its lock */

	pthread_mutex_lock(&store->lock);
	*stats = store->closed;
	LIST_EACH (&store->clients, struct redis_client, node, client)
		redis_stats_add(stats, &client->counts);
	pthread_mutex_unlock(&store->lock);
	stats->is_up = cluster_is_up(store->cluster);
}
