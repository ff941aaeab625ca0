/*
 * cluster.c: knows the nodes (Redis servers) of a store and which of them serves each hash slot,
 * for all clients of the store.
 *
 * The map of slots is *in doubt* when a node was lost, or has shown that the map is wrong; then one
 * client a second requests it anew.
 */
#include "redis/nodes/cluster.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "redis/nodes/cluster_inside.h"

/*
 * Makes the hosts of the URL Sentinels. The node after them has no host: all slots belong to it
 * until the Sentinels have named a master.
 */
static void begin_with_sentinels(struct cluster *cluster, const char *master)
{
	for (unsigned i = 0; i < cluster->node_count; i++)
		cluster->nodes[i].is_sentinel = true;
	for (unsigned slot = 0; slot < HASH_SLOTS; slot++)
		atomic_init(&cluster->node_of[slot], (uint16_t)cluster->node_count);
	cluster->nodes[cluster->node_count].slot_count = HASH_SLOTS;
	cluster->seed_count = ++cluster->node_count;
	cluster->has_sentinels = true;
	cluster->master = strdup(master);
}

int cluster_open(struct cluster **out, const struct redis_url *url)
{
	struct cluster *cluster = calloc(1, sizeof(*cluster));

	if (!cluster)
		return WEIR_ENOMEM;
	pthread_mutex_init(&cluster->mutex, NULL);
	for (size_t i = 0; i < url->host_count && i < CLUSTER_NODES_MAX; i++)
		cluster->nodes[cluster->node_count++].host = url->hosts[i];
	cluster->seed_count = cluster->node_count;
	cluster->map_is_fixed = !url->cluster && !url->master_name;
	atomic_init(&cluster->map_is_in_doubt, !cluster->map_is_fixed);
	if (url->master_name)
		begin_with_sentinels(cluster, url->master_name);
	else
		cluster->nodes[0].slot_count = HASH_SLOTS;
	if (url->master_name && !cluster->master) {
		cluster_close(cluster);
		return WEIR_ENOMEM;
	}
	*out = cluster;
	return 0;
}

void cluster_close(struct cluster *cluster)
{
	if (!cluster)
		return;
	pthread_mutex_destroy(&cluster->mutex);
	free(cluster->master);
	free(cluster);
}

unsigned cluster_node_of(const struct cluster *cluster, unsigned slot)
{
	/* Relaxed: a client that reads an old map, or an old meaning of a number, is redirected. */
	return atomic_load_explicit(&cluster->node_of[slot], memory_order_relaxed);
}

/* Counts a client that uses the node, so that its number stays, and copies the host. */
void cluster_add_user(struct cluster *cluster, unsigned node, struct redis_host *host)
{
	pthread_mutex_lock(&cluster->mutex);
	cluster->nodes[node].user_count++;
	*host = cluster->nodes[node].host;
	pthread_mutex_unlock(&cluster->mutex);
}

void cluster_remove_user(struct cluster *cluster, unsigned node)
{
	pthread_mutex_lock(&cluster->mutex);
	cluster->nodes[node].user_count--;
	pthread_mutex_unlock(&cluster->mutex);
}

/* Whether the URL or the map names the node. */
static bool is_named(const struct cluster *cluster, unsigned node)
{
	return node < cluster->seed_count || cluster->nodes[node].slot_count > 0 ||
	       cluster->nodes[node].is_sentinel;
}

bool cluster_names_node(struct cluster *cluster, unsigned node)
{
	pthread_mutex_lock(&cluster->mutex);
	bool has = is_named(cluster, node);

	pthread_mutex_unlock(&cluster->mutex);
	return has;
}

bool cluster_node_has_slots(struct cluster *cluster, unsigned node)
{
	pthread_mutex_lock(&cluster->mutex);
	bool serves = cluster->nodes[node].slot_count > 0;

	pthread_mutex_unlock(&cluster->mutex);
	return serves;
}

struct availability *cluster_availability(struct cluster *cluster, unsigned node)
{
	return &cluster->nodes[node].availability;
}

bool cluster_is_up(struct cluster *cluster)
{
	bool is_up = true;

	pthread_mutex_lock(&cluster->mutex);
	for (unsigned i = 0; i < cluster->node_count; i++)
		is_up &= cluster->nodes[i].slot_count == 0 ||
		         availability_is_up(&cluster->nodes[i].availability);
	pthread_mutex_unlock(&cluster->mutex);
	return is_up;
}

/* Whether the number may be given to another host, because nothing refers to the node any more. */
static bool is_reusable(const struct cluster *cluster, unsigned node)
{
	if (is_named(cluster, node) || cluster->nodes[node].user_count > 0)
		return false;
	for (unsigned i = 0; i < cluster->node_count && cluster->has_sentinels; i++)
		if (cluster->nodes[i].sentinel_state == SENTINEL_NAMED &&
		    cluster->nodes[i].named_node == node)
			return false;
	return true;
}

/*
 * Returns the node at a host, known or new, or CLUSTER_NO_NODE if there are too many. Needs the
 * mutex.
 */
unsigned cluster_find_or_add(struct cluster *cluster, const struct redis_host *host,
                             bool is_sentinel)
{
	unsigned number = CLUSTER_NO_NODE;

	for (unsigned i = 0; i < cluster->node_count; i++) {
		const struct cluster_node *node = &cluster->nodes[i];

		if (node->host.port == host->port && node->is_sentinel == is_sentinel &&
		    strcmp(node->host.name, host->name) == 0)
			return i;
		if (number == CLUSTER_NO_NODE && is_reusable(cluster, i))
			number = i;
	}
	if (number == CLUSTER_NO_NODE && cluster->node_count < CLUSTER_NODES_MAX)
		number = cluster->node_count++;
	if (number != CLUSTER_NO_NODE) {
		cluster->nodes[number].host = *host;
		cluster->nodes[number].is_sentinel = is_sentinel;
		cluster->nodes[number].is_replica = false;
		cluster->nodes[number].sentinel_state = SENTINEL_IDLE;
		availability_restore(&cluster->nodes[number].availability);
	}
	return number;
}

void cluster_assign_slot(struct cluster *cluster, unsigned slot, unsigned node)
{
	cluster->nodes[cluster_node_of(cluster, slot)].slot_count--;
	cluster->nodes[node].slot_count++;
	atomic_store_explicit(&cluster->node_of[slot], (uint16_t)node, memory_order_relaxed);
}

/* A node has replied MOVED: `to` serves the slot from now on. Returns the node at `to`. */
unsigned cluster_apply_moved(struct cluster *cluster, unsigned slot, const struct redis_host *to)
{
	pthread_mutex_lock(&cluster->mutex);
	unsigned node = cluster_find_or_add(cluster, to, false);

	if (node != CLUSTER_NO_NODE)
		cluster_assign_slot(cluster, slot, node);
	pthread_mutex_unlock(&cluster->mutex);
	cluster_doubt(cluster);
	return node;
}

unsigned cluster_node_of_ask(struct cluster *cluster, const struct redis_host *to)
{
	pthread_mutex_lock(&cluster->mutex);
	unsigned node = cluster_find_or_add(cluster, to, false);

	pthread_mutex_unlock(&cluster->mutex);
	return node;
}

/* Puts the map in doubt, so that a client requests it anew. */
void cluster_doubt(struct cluster *cluster)
{
	/* Read first: all clients share the cache line, and doubt mostly comes from many at once. */
	if (!cluster->map_is_fixed &&
	    !atomic_load_explicit(&cluster->map_is_in_doubt, memory_order_relaxed))
		atomic_store_explicit(&cluster->map_is_in_doubt, true, memory_order_relaxed);
}

bool cluster_is_in_doubt(const struct cluster *cluster)
{
	return atomic_load_explicit(&cluster->map_is_in_doubt, memory_order_relaxed);
}

/* The node to request the map from: the next available one after the last, or else the next one. */
static unsigned next_to_ask(const struct cluster *cluster)
{
	unsigned first_unavailable = CLUSTER_NO_NODE;

	for (unsigned i = 1; i <= cluster->node_count; i++) {
		unsigned node = (cluster->last_asked + i) % cluster->node_count;

		if (!is_named(cluster, node))
			continue;
		if (availability_is_up(&cluster->nodes[node].availability))
			return node;
		if (first_unavailable == CLUSTER_NO_NODE)
			first_unavailable = node;
	}
	return first_unavailable;
}

/*
 * Whether the caller has to request the map now, and from which node. One client a second has to.
 */
bool cluster_claim_map_request(struct cluster *cluster, uint64_t monotonic_ns, unsigned *node)
{
	uint64_t at_ns;

	if (!atomic_load_explicit(&cluster->map_is_in_doubt, memory_order_relaxed))
		return false;
	at_ns = atomic_load_explicit(&cluster->next_request_ns, memory_order_relaxed);
	/* The exchange succeeds for one of the clients that come here at once. */
	if (monotonic_ns < at_ns ||
	    !atomic_compare_exchange_strong_explicit(&cluster->next_request_ns, &at_ns,
	                                             monotonic_ns + CLUSTER_ASK_NS,
	                                             memory_order_relaxed, memory_order_relaxed))
		return false;
	/* Before the request, so that doubt which arises meanwhile stays. */
	atomic_store_explicit(&cluster->map_is_in_doubt, false, memory_order_relaxed);
	pthread_mutex_lock(&cluster->mutex);
	*node = cluster->last_asked = next_to_ask(cluster);
	pthread_mutex_unlock(&cluster->mutex);
	return true;
}

/* Applies a reply to CLUSTER SLOTS; `asked` is the host that sent it. */
void cluster_apply_map(struct cluster *cluster, const struct redis_reply *reply,
                       const struct redis_host *asked)
{
	struct hash_slots_range range;
	unsigned slots_read = 0;

	pthread_mutex_lock(&cluster->mutex);
	/* A list that names slots twice is invalid, and must not take long. */
	for (size_t i = 0; i < reply->count && slots_read < HASH_SLOTS; i++) {
		unsigned node = hash_slots_read_range(reply, i, asked, &range)
		                    ? cluster_find_or_add(cluster, &range.host, false)
		                    : CLUSTER_NO_NODE;

		if (node == CLUSTER_NO_NODE)
			continue;
		for (unsigned slot = range.first; slot <= range.last; slot++)
			cluster_assign_slot(cluster, slot, node);
		slots_read += range.last - range.first + 1;
	}
	pthread_mutex_unlock(&cluster->mutex);
	if (slots_read == 0)
		cluster_doubt(cluster);
}
