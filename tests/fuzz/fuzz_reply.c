/*
 * Reads replies of a Redis in any pieces. The input's first byte is the number of commands that
 * wait, and each piece begins with its length. Then reads each reply as a cluster's slots, and as
 * the answers of a Sentinel.
 */
#include <stdint.h>
#include <stdlib.h>

#include "fuzz_pieces.h"
#include "redis/network/connection.h"
#include "redis/nodes/cluster.h"
#include "redis/nodes/sentinels.h"

#define CALLS 255

static size_t told, lost;
static struct cluster *cluster, *watched; /* of all inputs: to open one takes long */

/* Reads all of a reply, so that the sanitizer sees it; how many values it has. */
static size_t read_all(const struct redis_reply *reply)
{
	volatile char last = 0;
	size_t n = 1;

	if (reply->type > REDIS_ARRAY)
		abort();
	for (size_t i = 0; i < reply->text.len; i++)
		last = reply->text.data[i];
	(void)last;
	for (size_t i = 0; i < reply->count; i++)
		n += read_all(&reply->items[i]);
	return n;
}

/* Applies a slot map or a redirect; each slot has a known node after it. */
static void learn(const struct redis_reply *reply)
{
	static const struct redis_host seed = {"h", 1};
	struct redis_host to;
	unsigned slot, node;

	if (reply->type != REDIS_ERROR)
		cluster_apply_map(cluster, reply, &seed);
	else if (hash_slots_read_redirect(reply->text, &seed, &slot, &to) != HASH_SLOTS_STAY &&
	         cluster_apply_moved(cluster, slot, &to) != cluster_node_of(cluster, slot))
		abort();
	for (slot = 0; slot < HASH_SLOTS; slot += 127) {
		node = cluster_node_of(cluster, slot);
		if (node >= CLUSTER_NODES_MAX || !cluster_names_node(cluster, node))
			abort();
	}
}

/* The first Sentinel of three answers so; it may tell of others, but not of many. */
static void ask_sentinel(const struct redis_reply *reply)
{
	static uint64_t now_ns;
	unsigned nodes[SENTINELS_MAX], master;
	struct redis_host host;
	size_t n;

	now_ns += 2 * SENTINELS_POLL_NS;
	if (!sentinels_begin_round(watched, &now_ns, now_ns, nodes, &n) || n > 3 + SENTINELS_LEARNT_MAX)
		abort();
	sentinels_add_learnt(watched, reply);
	sentinels_answer(watched, nodes[0], reply);
	sentinels_fail(watched, nodes[1], "gone");
	sentinels_end_overdue_round(watched, now_ns + SENTINELS_SOON_NS);
	master = cluster_node_of(watched, 0);
	cluster_add_user(watched, master, &host);
	cluster_remove_user(watched, master);
	if (sentinels_node_is_sentinel(watched, master) || !cluster_names_node(watched, master) ||
	    host.name[0] == '/' || sentinels_node_has_host(watched, master) != (host.port != 0))
		abort();
}

static void replied(struct pending_reply *call, const struct redis_reply *reply)
{
	(void)call;
	if (!reply)
		lost++;
	else if (lost > 0 || read_all(reply) > CONNECTION_ITEMS_MAX)
		abort();
	if (reply) {
		learn(reply);
		ask_sentinel(reply);
	}
	told++;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct redis_host host = {"h", 1};
	const struct redis_url url = {.cluster = true, .hosts = &host, .host_count = 1};
	struct redis_host hosts[3] = {{"a", 1}, {"b", 1}, {"c", 1}};
	const struct redis_url of_sentinels = {.master_name = "m", .hosts = hosts, .host_count = 3};
	struct slice rest = {(const char *)data, size};
	struct pending_reply calls[CALLS];
	struct connection *connection;
	size_t sent = size > 0 ? data[0] : 0;
	int status = WEIR_OK;

	told = lost = 0;
	if (!cluster && (cluster_open(&cluster, &url) != WEIR_OK ||
	                 cluster_open(&watched, &of_sentinels) != WEIR_OK))
		abort();
	if (size == 0 || connection_open(&connection, &url, CONNECTION_STORE, "h") != WEIR_OK)
		return 0;
	slice_skip(&rest, (struct slice){rest.data, 1});
	for (size_t i = 0; i < sent; i++) {
		calls[i] = (struct pending_reply){.replied = replied};
		connection_write_words(connection_command_buffer(connection), &SLICE("X"), 1);
		connection_expect_reply(connection, &calls[i]);
	}
	while (rest.len > 0 && status == WEIR_OK)
		status = connection_receive(connection, cut_piece(&rest));
	if ((status != WEIR_OK) != (connection_error(connection)[0] != '\0'))
		abort();
	connection_drop_sent_bytes(connection, connection_unsent_bytes(connection).len);
	connection_close(connection);
	if (told != sent)
		abort();
	return 0;
}
