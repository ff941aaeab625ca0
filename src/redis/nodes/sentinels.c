/*
 * sentinels.c: finds the master of a store by the answers of Sentinels, the servers that watch a
 * master and its replicas.
 *
 * One client asks all Sentinels of the URL at once, in a *round*. The server that most of them name
 * becomes the master. *Learnt* Sentinels, which other Sentinels have named, are asked, too, if none
 * of the URL's named a master in the round before.
 */
#include "redis/nodes/sentinels.h"

#include <stdio.h>

#include "base/number.h"
#include "redis/nodes/cluster_inside.h"

/* False only for the node that stands for a master that no Sentinel has named yet. */
bool sentinels_node_has_host(const struct cluster *cluster, unsigned node)
{
	return !cluster->has_sentinels || node != cluster->seed_count - 1;
}

bool sentinels_node_is_sentinel(struct cluster *cluster, unsigned node)
{
	bool has;

	if (!cluster->has_sentinels)
		return false;
	pthread_mutex_lock(&cluster->mutex);
	has = cluster->nodes[node].is_sentinel;
	pthread_mutex_unlock(&cluster->mutex);
	return has;
}

/* Rounds */

static bool is_learnt(const struct cluster *cluster, unsigned node)
{
	return node >= cluster->seed_count;
}

/*
 * When the client may begin the next round. A client that did not begin the last one waits twice as
 * long: the other one may be between two calls of a library.
 */
static uint64_t next_round_ns(const struct cluster *cluster, const void *asker)
{
	if (cluster->round_began_ns == 0)
		return 0;
	if (atomic_load_explicit(&cluster->map_is_in_doubt, memory_order_relaxed))
		return cluster->round_began_ns + SENTINELS_SOON_NS;
	return cluster->round_began_ns + (asker == cluster->round_asker ? 1 : 2) * SENTINELS_POLL_NS;
}

/* The number of Sentinels among the first `end` nodes that have named this master. */
static unsigned votes_for(const struct cluster *cluster, unsigned end, unsigned master)
{
	unsigned votes = 0;

	for (unsigned i = 0; i < end; i++)
		votes += cluster->nodes[i].is_sentinel &&
		         cluster->nodes[i].sentinel_state == SENTINEL_NAMED &&
		         cluster->nodes[i].named_node == master;
	return votes;
}

/*
 * Returns the node that most Sentinels among the first `end` nodes have named, and sets *votes to
 * their number. A server that says itself that it is a replica only counts if all named ones do. If
 * two have equally many, returns the first one; if none is named, CLUSTER_NO_NODE.
 */
static unsigned elect_among(const struct cluster *cluster, unsigned end, unsigned *votes)
{
	unsigned best = CLUSTER_NO_NODE;

	*votes = 0;
	for (unsigned i = 0; i < end; i++) {
		const struct cluster_node *sentinel = &cluster->nodes[i];
		bool role_is_equal, role_is_better;
		unsigned named_votes;

		if (!sentinel->is_sentinel || sentinel->sentinel_state != SENTINEL_NAMED)
			continue;
		named_votes = votes_for(cluster, end, sentinel->named_node);
		role_is_better =
		    best == CLUSTER_NO_NODE ||
		    (cluster->nodes[best].is_replica && !cluster->nodes[sentinel->named_node].is_replica);
		role_is_equal = !role_is_better && cluster->nodes[sentinel->named_node].is_replica ==
		                                       cluster->nodes[best].is_replica;
		if (role_is_better || (role_is_equal && named_votes > *votes)) {
			best = sentinel->named_node;
			*votes = named_votes;
		}
	}
	return best;
}

/* The master by the Sentinels of the URL; learnt Sentinels count only if none of those names one.
 */
static unsigned elect(const struct cluster *cluster, unsigned *votes)
{
	unsigned best = elect_among(cluster, cluster->seed_count, votes);

	return best != CLUSTER_NO_NODE ? best : elect_among(cluster, cluster->node_count, votes);
}

/*
 * Assigns all slots to a master. If the old one was unavailable, the store is, and the new master
 * has to pass a recovery check before it gets calls: the log must not report a recovery because a
 * Sentinel says so.
 */
static void adopt_master(struct cluster *cluster, unsigned master)
{
	unsigned before = cluster_node_of(cluster, 0);

	if (master == before)
		return;
	if (!availability_is_up(&cluster->nodes[before].availability))
		availability_fail(&cluster->nodes[master].availability, 0);
	for (unsigned slot = 0; slot < HASH_SLOTS; slot++)
		cluster_assign_slot(cluster, slot, master);
}

/*
 * Makes the elected server the master. If no Sentinel has named one yet, Sentinels are asked again
 * soon; but not once the node that stands for the unnamed master is unavailable, because its
 * recovery checks then ask them.
 */
static void end_round(struct cluster *cluster)
{
	bool was_never_named = !sentinels_node_has_host(cluster, cluster_node_of(cluster, 0));
	const struct cluster_node *unnamed = &cluster->nodes[cluster->seed_count - 1];
	unsigned votes, master = elect(cluster, &votes);

	cluster->round_is_open = false;
	cluster->asks_learnt_sentinels =
	    elect_among(cluster, cluster->seed_count, &votes) == CLUSTER_NO_NODE;
	if (master != CLUSTER_NO_NODE)
		adopt_master(cluster, master);
	else if (was_never_named && availability_is_up(&unnamed->availability))
		cluster_doubt(cluster);
}

/*
 * Ends the round if further answers can't change its result. An answer that comes after the end of
 * the round counts, too: then the master is elected again.
 */
static void end_round_if_decided(struct cluster *cluster)
{
	unsigned asked = 0, awaited = 0, votes, master = elect(cluster, &votes);
	bool has_majority, is_late = !cluster->round_is_open;

	for (unsigned i = 0; i < cluster->node_count; i++) {
		asked += cluster->nodes[i].is_sentinel && cluster->nodes[i].sentinel_state != SENTINEL_IDLE;
		awaited +=
		    cluster->nodes[i].is_sentinel && cluster->nodes[i].sentinel_state == SENTINEL_ASKED;
	}
	has_majority = 2 * votes > asked && !cluster->nodes[master].is_replica;
	if (is_late || awaited == 0 || has_majority)
		end_round(cluster);
}

/* Begins a round if one is due for this client. Returns whether it did. */
static bool begin_round_if_due(struct cluster *cluster, const void *asker, uint64_t now_ns)
{
	if (now_ns < next_round_ns(cluster, asker))
		return false;
	if (cluster->round_is_open)
		end_round(cluster);
	atomic_store_explicit(&cluster->map_is_in_doubt, false, memory_order_relaxed);
	cluster->round_asker = asker;
	cluster->round_began_ns = now_ns;
	cluster->round_is_open = true;
	return true;
}

/* Begins a round if one is due. Returns whether, and the nodes of the Sentinels to ask. */
bool sentinels_begin_round(struct cluster *cluster, const void *asker, uint64_t now_ns,
                           unsigned nodes[SENTINELS_MAX], size_t *n)
{
	bool begins;

	*n = 0;
	pthread_mutex_lock(&cluster->mutex);
	begins = begin_round_if_due(cluster, asker, now_ns);
	for (unsigned i = 0; i < cluster->node_count && begins; i++) {
		struct cluster_node *node = &cluster->nodes[i];

		if (!node->is_sentinel)
			continue;
		node->sentinel_state = SENTINEL_IDLE;
		if ((!is_learnt(cluster, i) || cluster->asks_learnt_sentinels) && *n < SENTINELS_MAX) {
			node->sentinel_state = SENTINEL_ASKED;
			nodes[(*n)++] = i;
		}
	}
	pthread_mutex_unlock(&cluster->mutex);
	return begins;
}

/* When an open round ends although Sentinels have not answered. */
static uint64_t round_overdue_ns(const struct cluster *cluster)
{
	return cluster->round_began_ns + SENTINELS_ROUND_MAX_NS;
}

void sentinels_end_overdue_round(struct cluster *cluster, uint64_t now_ns)
{
	pthread_mutex_lock(&cluster->mutex);
	if (cluster->round_is_open && now_ns >= round_overdue_ns(cluster))
		end_round(cluster);
	pthread_mutex_unlock(&cluster->mutex);
}

/* When the client has to end the round that it has begun, or may begin the next one. */
uint64_t sentinels_next_due_ns(struct cluster *cluster, const void *asker)
{
	uint64_t due_ns;

	pthread_mutex_lock(&cluster->mutex);
	due_ns = cluster->round_is_open && asker == cluster->round_asker
	             ? round_overdue_ns(cluster)
	             : next_round_ns(cluster, asker);
	pthread_mutex_unlock(&cluster->mutex);
	return due_ns;
}

bool sentinels_are_awaited(struct cluster *cluster, const void *asker)
{
	bool are;

	if (!cluster->has_sentinels)
		return false;
	pthread_mutex_lock(&cluster->mutex);
	are = cluster->round_is_open && cluster->round_asker == asker;
	pthread_mutex_unlock(&cluster->mutex);
	return are;
}

/* Answers */

static void record_failure(struct cluster *cluster, unsigned node, const char *why)
{
	char host[REDIS_HOST_TEXT_MAX];

	redis_host_write(&cluster->nodes[node].host, host);
	snprintf(cluster->newest_failure, sizeof cluster->newest_failure, "%.60s: %.130s", host, why);
	cluster->nodes[node].sentinel_state = SENTINEL_FAILED;
	end_round_if_decided(cluster);
}

void sentinels_fail(struct cluster *cluster, unsigned node, const char *why)
{
	pthread_mutex_lock(&cluster->mutex);
	record_failure(cluster, node, why);
	pthread_mutex_unlock(&cluster->mutex);
}

static bool read_port(const struct redis_reply *reply, uint64_t *port)
{
	return reply->type == REDIS_TEXT && parse_u64(reply->text, port);
}

/* Reads an answer of two texts, address and port. */
static bool read_master_address(const struct redis_reply *reply, struct redis_host *out)
{
	uint64_t port;

	return reply->type == REDIS_ARRAY && reply->count == 2 && reply->items[0].type == REDIS_TEXT &&
	       read_port(&reply->items[1], &port) &&
	       hash_slots_read_host(reply->items[0].text, port, NULL, out);
}

/* Records the master that a Sentinel named, or that its answer names none. */
static void record_answer(struct cluster *cluster, unsigned node, const struct redis_reply *reply)
{
	struct redis_host host;
	unsigned master = CLUSTER_NO_NODE;
	char why[200];

	if (read_master_address(reply, &host))
		master = cluster_find_or_add(cluster, &host, false);
	if (master != CLUSTER_NO_NODE) {
		cluster->nodes[node].sentinel_state = SENTINEL_NAMED;
		cluster->nodes[node].named_node = master;
		end_round_if_decided(cluster);
		return;
	}
	if (reply->type == REDIS_NIL)
		snprintf(why, sizeof why, "this Sentinel knows no master '%.100s'", cluster->master);
	else if (reply->type == REDIS_ERROR)
		snprintf(why, sizeof why, "this Sentinel says %.*s", (int)u64_min(reply->text.len, 150),
		         reply->text.data);
	else
		snprintf(why, sizeof why, "expected the address of a master, found another reply");
	record_failure(cluster, node, why);
}

void sentinels_answer(struct cluster *cluster, unsigned node, const struct redis_reply *reply)
{
	pthread_mutex_lock(&cluster->mutex);
	record_answer(cluster, node, reply);
	pthread_mutex_unlock(&cluster->mutex);
}

/* Reads the address of a Sentinel from an answer that alternates names and values of fields. */
static bool read_sentinel_address(const struct redis_reply *fields, struct redis_host *out)
{
	struct slice name = {0};
	uint64_t port = 0;

	for (size_t i = 0; fields->type == REDIS_ARRAY && i + 1 < fields->count; i += 2) {
		const struct redis_reply *field = &fields->items[i], *value = &fields->items[i + 1];

		if (field->type != REDIS_TEXT || value->type != REDIS_TEXT)
			continue;
		if (slice_equal(field->text, SLICE("ip")))
			name = value->text;
		else if (slice_equal(field->text, SLICE("port")) && !read_port(value, &port))
			return false;
	}
	return hash_slots_read_host(name, port, NULL, out);
}

/*
 * Makes sure that one more Sentinel may be learnt: if there are as many as allowed, drops one that
 * does not answer. Returns false if all of them answer.
 */
static bool reserve_sentinel(struct cluster *cluster)
{
	unsigned learnt = 0, dead = CLUSTER_NO_NODE;

	for (unsigned i = cluster->seed_count; i < cluster->node_count; i++) {
		learnt += cluster->nodes[i].is_sentinel;
		if (cluster->nodes[i].is_sentinel && !availability_is_up(&cluster->nodes[i].availability) &&
		    cluster->nodes[i].user_count == 0)
			dead = i;
	}
	if (learnt < SENTINELS_LEARNT_MAX)
		return true;
	if (dead != CLUSTER_NO_NODE)
		cluster->nodes[dead].is_sentinel = false;
	return dead != CLUSTER_NO_NODE;
}

void sentinels_add_learnt(struct cluster *cluster, const struct redis_reply *reply)
{
	struct redis_host host;

	pthread_mutex_lock(&cluster->mutex);
	for (size_t i = 0; reply->type == REDIS_ARRAY && i < reply->count && i < SENTINELS_MAX; i++)
		if (read_sentinel_address(&reply->items[i], &host) && reserve_sentinel(cluster))
			cluster_find_or_add(cluster, &host, true);
	pthread_mutex_unlock(&cluster->mutex);
}

void sentinels_set_replica(struct cluster *cluster, unsigned node, bool is_replica)
{
	if (!cluster->has_sentinels)
		return;
	pthread_mutex_lock(&cluster->mutex);
	cluster->nodes[node].is_replica = is_replica;
	pthread_mutex_unlock(&cluster->mutex);
	if (is_replica)
		cluster_doubt(cluster);
}

void sentinels_why(struct cluster *cluster, char out[SENTINELS_WHY_MAX])
{
	pthread_mutex_lock(&cluster->mutex);
	snprintf(out, SENTINELS_WHY_MAX, "no Sentinel names a master '%.40s'; %.200s", cluster->master,
	         cluster->newest_failure[0] != '\0' ? cluster->newest_failure : "none has answered");
	pthread_mutex_unlock(&cluster->mutex);
}
