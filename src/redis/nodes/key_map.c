/*
 * key_map.c: asks a cluster for the map of slots to nodes (CLUSTER SLOTS), or Sentinels for the
 * master, when the cluster (cluster.h) says that this is due.
 */
#include "redis/nodes/key_map.h"

#include "redis/nodes/send.h"

/* The time for a reply. A long list may take longer than other calls although the node is well. */
#define MAP_TIMEOUT_NS DIALER_TIME_NS

static void send_question(struct redis_node *node, send_on_reply *on_reply,
                          const struct slice *words, size_t n)
{
	struct redis_client *client = node->client;

	if (!send_words(node, client_now_ns(client) + MAP_TIMEOUT_NS, on_reply, words, n))
		cluster_doubt(client->store->cluster);
	dialer_send(node->dialer);
}

/* A cluster */

static void on_slots(struct redis_node *node, const struct redis_reply *reply)
{
	if (reply)
		cluster_apply_map(node->client->store->cluster, reply, &node->host);
	else
		cluster_doubt(node->client->store->cluster);
}

/* Sentinels */

/* Sentinels change seldom: one is asked for the others when connected, and then each minute. */
#define ROUNDS_PER_SEARCH 60

/* Without a reply the node is dropped, which counts as its answer. */
static void on_master(struct redis_node *node, const struct redis_reply *reply)
{
	if (reply)
		sentinels_answer(node->client->store->cluster, node->number, reply);
}

static void on_others(struct redis_node *node, const struct redis_reply *reply)
{
	if (reply)
		sentinels_add_learnt(node->client->store->cluster, reply);
}

/* Asks a Sentinel for the master, and sometimes for the other Sentinels. */
static void ask_sentinel(struct redis_node *node)
{
	struct slice name = slice_of(node->client->store->url.master_name);

	if (node_calls(node)->first) /* its answer to the last question counts */
		return;
	send_question(node, on_master,
	              (struct slice[]){SLICE("SENTINEL"), SLICE("get-master-addr-by-name"), name}, 3);
	if (node->master_request_count++ % ROUNDS_PER_SEARCH == 0)
		send_question(node, on_others,
		              (struct slice[]){SLICE("SENTINEL"), SLICE("sentinels"), name}, 3);
}

/*
 * Begins a round of questions to Sentinels if one is due for this client, and ends the one that is
 * open if it is overdue, whichever client began it. Returns how many nodes to ask.
 */
static size_t begin_round_if_due(struct redis_client *client, unsigned nodes[SENTINELS_MAX])
{
	struct cluster *cluster = client->store->cluster;
	uint64_t now_ns = client_now_ns(client);
	size_t n = 0;

	if (client->sentinels_due_ns <= now_ns || cluster_is_in_doubt(cluster)) {
		sentinels_begin_round(cluster, client, now_ns, nodes, &n);
		sentinels_end_overdue_round(cluster, now_ns);
		client->sentinels_due_ns = sentinels_next_due_ns(cluster, client);
	}
	client_alarm_at(client, client->sentinels_due_ns);
	return n;
}

/* Returns how many nodes the client has to ask now, and writes their numbers. */
size_t map_nodes_to_ask(struct redis_client *client, unsigned nodes[SENTINELS_MAX])
{
	if (client->is_closing)
		return 0;
	if (client->store->url.master_name)
		return begin_round_if_due(client, nodes);
	return cluster_claim_map_request(client->store->cluster, client_now_ns(client), nodes);
}

/* A node could not be asked, or was lost before it replied. */
void map_record_failure(struct redis_client *client, unsigned number, const char *why)
{
	if (sentinels_node_is_sentinel(client->store->cluster, number))
		sentinels_fail(client->store->cluster, number, why);
	else
		cluster_doubt(client->store->cluster);
}

/* Asks a node if that is due and the node is ready. */
void map_ask_if_due(struct redis_node *node)
{
	if (!node->must_request_map || !node_is_ready(node))
		return;
	node->must_request_map = false;
	if (node->is_sentinel)
		ask_sentinel(node);
	else
		send_question(node, on_slots, (struct slice[]){SLICE("CLUSTER"), SLICE("SLOTS")}, 2);
}
