#include "redis/nodes/map.h"

#include "redis/nodes/send.h"

/* A long list takes its time, which says nothing of the node. */
#define MAP_NS CONNECTION_TIME_NS

static void send_question(struct redis_node *node,
                          void (*replied)(struct link_call *, const struct redis_reply *),
                          const struct slice *words, size_t n)
{
	struct redis_lane *lane = node->lane;

	if (!send_words(node, lane_now_ns(lane) + MAP_NS, replied, words, n))
		cluster_doubt(lane->store->cluster);
	connection_send(node->connection);
}

/* A cluster */

static void on_slots(struct link_call *link, const struct redis_reply *reply)
{
	struct call *call = send_take(link);
	struct redis_node *node = call->node;

	if (reply)
		cluster_learn(node->lane->store->cluster, reply, &node->host);
	else
		cluster_doubt(node->lane->store->cluster);
	send_end(call);
}

/* Sentinels */

/* Sentinels come and go seldom: they are asked for others when connected, and then each minute. */
#define QUESTIONS_OF_OTHERS 60

static void on_master(struct link_call *link, const struct redis_reply *reply)
{
	struct call *call = send_take(link);
	struct redis_node *node = call->node;

	if (reply) /* else the node was dropped, which counts as its answer */
		sentinels_answer(node->lane->store->cluster, node->number, reply);
	send_end(call);
}

static void on_others(struct link_call *link, const struct redis_reply *reply)
{
	struct call *call = send_take(link);

	if (reply)
		sentinels_learn(call->node->lane->store->cluster, reply);
	send_end(call);
}

static void ask_sentinel(struct redis_node *node)
{
	struct slice name = slice_of(node->lane->store->url.master);

	if (node->first) /* its answer to the last question counts */
		return;
	send_question(node, on_master,
	              (struct slice[]){SLICE("SENTINEL"), SLICE("get-master-addr-by-name"), name}, 3);
	if (node->asked++ % QUESTIONS_OF_OTHERS == 0)
		send_question(node, on_others,
		              (struct slice[]){SLICE("SENTINEL"), SLICE("sentinels"), name}, 3);
}

static size_t begin_round(struct redis_lane *lane, unsigned nodes[SENTINELS_MAX])
{
	struct cluster *cluster = lane->store->cluster;
	size_t n = 0;

	if (lane->map_ns <= lane_now_ns(lane) || cluster_is_in_doubt(cluster)) {
		sentinels_begin(cluster, lane, lane_now_ns(lane), nodes, &n);
		lane->map_ns = sentinels_due_ns(cluster, lane, lane_now_ns(lane));
	}
	lane_alarm_at(lane, lane->map_ns);
	return n;
}

size_t map_begin(struct redis_lane *lane, unsigned nodes[SENTINELS_MAX])
{
	if (lane->is_closing)
		return 0;
	if (lane->store->url.master)
		return begin_round(lane, nodes);
	return cluster_should_ask(lane->store->cluster, lane_now_ns(lane), nodes);
}

void map_fail(struct redis_lane *lane, unsigned number, const char *why)
{
	if (sentinels_has(lane->store->cluster, number))
		sentinels_fail(lane->store->cluster, number, why);
	else
		cluster_doubt(lane->store->cluster);
}

void map_ask(struct redis_node *node)
{
	if (!node->asks_map || node->ready_deadline_ns != 0)
		return;
	node->asks_map = false;
	if (node->is_sentinel)
		ask_sentinel(node);
	else
		send_question(node, on_slots, (struct slice[]){SLICE("CLUSTER"), SLICE("SLOTS")}, 2);
}
