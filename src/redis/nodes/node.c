#include "redis/nodes/node.h"

#include <stdio.h>
#include <stdlib.h>

#include "redis/batch.h"
#include "redis/call.h"
#include "redis/gather.h"
#include "redis/nodes/map.h"
#include "redis/nodes/probe.h"
#include "redis/nodes/send.h"

/* The lane's own delay past a deadline, from which on replies may have come unseen. */
#define LATE_NS UINT64_C(1000000)

/* Nodes */

/* This lane comes back to it by itself. */
static void go_away(const struct redis_node *node, const char *why, uint64_t probe_ns)
{
	char host[REDIS_HOST_TEXT_MAX], told[sizeof host + sizeof node->trouble + 2];

	redis_host_write(&node->host, host);
	snprintf(told, sizeof told, "%s: %.*s", host, (int)sizeof node->trouble, why);
	probe_go_away(node->lane, node->number, told, probe_ns);
}

static void node_free(struct redis_node *node)
{
	if (node->connection)
		connection_close(node->connection);
	cluster_drop(node->lane->store->cluster, node->number);
	free(node);
}

static const struct connection_owner owner;

static struct redis_node *node_open(struct redis_lane *lane, unsigned number)
{
	struct redis_node *node = calloc(1, sizeof *node);

	if (!node)
		return NULL;
	node->lane = lane;
	node->number = number;
	cluster_hold(lane->store->cluster, number, &node->host);
	node->is_sentinel = sentinels_has(lane->store->cluster, number);
	node->era = health_era(health_of(lane, number));
	node->last = &node->first;
	node->ready_deadline_ns = lane_now_ns(lane) + CONNECTION_TIME_NS;
	task_list_clear(&node->waiting);
	node->connection = connection_open(
	    lane->port,
	    &(struct connection_target){&lane->store->url, node->is_sentinel ? LINK_SENTINEL : LINK_STORE,
	                                node->host, &lane->store->addresses},
	    &owner, node);
	if (!node->connection) {
		node_free(node);
		return NULL;
	}
	lane->nodes[number] = node;
	if (number >= lane->node_end)
		lane->node_end = number + 1;
	lane_alarm_at(lane, node->ready_deadline_ns);
	return node;
}

/* Claims the probe that is due, if it is. */
static void node_probe(struct redis_lane *lane, unsigned number)
{
	struct redis_node *node = lane->nodes[number];
	struct health *health = health_of(lane, number);

	if (health_is_up(health) || lane->is_closing)
		return;
	if (health_claim(health, lane_now_ns(lane))) {
		if (node && node->ready_deadline_ns == 0)
			probe_send(node);
		else if (!node && sentinels_know(lane->store->cluster, number))
			node_open(lane, number); /* which probes when it is ready */
		cluster_doubt(lane->store->cluster);
	}
	lane_alarm_at(lane, health_probe_ns(health));
}

/* Whether it is connected, and neither probed nor to send anything. */
static bool is_still(const struct redis_node *node)
{
	return node->ready_deadline_ns == 0 && node->probe.deadline_ns == 0 && !node->waiting.first;
}

/* Hangs up, unless anything is under way. */
static void leave(struct redis_node *node)
{
	struct redis_lane *lane = node->lane;

	if (node->first || !is_still(node) || node->is_busy)
		return;
	lane->nodes[node->number] = NULL;
	node_free(node);
}

/* Hangs up; its tasks fail. */
static void drop(struct redis_node *node, const char *why, uint64_t probe_ns)
{
	struct redis_lane *lane = node->lane;
	unsigned number = node->number;
	/* Redis may close what has nothing to say. */
	bool was_idle = !node->first && is_still(node) && !node->is_lost;
	bool says_it = !was_idle && node->era == health_era(health_of(lane, number));
	struct task *waiting = task_list_take(&node->waiting);

	lane->nodes[number] = NULL;
	if (node->is_sentinel || node->asks_map)
		map_fail(lane, number, why);
	if (node->is_replica || connection_is_of_replica(node->connection))
		sentinels_note_role(lane->store->cluster, number, false);
	if (says_it)
		go_away(node, why, probe_ns);
	node_free(node);
	task_fail_all(lane, waiting, WEIR_ESTORE);
	if (says_it && cluster_serves(lane->store->cluster, number))
		node_probe(lane, number);
}

/* The node of that number, if it is up. 0, or why there is none. */
static int node_get(struct redis_lane *lane, unsigned number, struct redis_node **node)
{
	const struct health *health = health_of(lane, number);

	if (!health_is_up(health))
		node_probe(lane, number);
	if (!health_is_up(health))
		return WEIR_ESTORE;
	if (lane->nodes[number] && lane->nodes[number]->era != health_era(health))
		leave(lane->nodes[number]);
	*node = lane->nodes[number] ? lane->nodes[number] : node_open(lane, number);
	return *node ? WEIR_OK : WEIR_ENOMEM;
}

/* Tasks for a master that no Sentinel has named yet: they wait, or have waited long enough. */
static void await_master(struct redis_lane *lane, struct task *first)
{
	unsigned number = cluster_node_of(lane->store->cluster, first->slot);
	bool is_up = health_is_up(health_of(lane, number));
	bool is_late = first->deadline_ns <= lane_now_ns(lane);
	char why[SENTINELS_WHY_MAX];
	struct task *next;

	if (is_up && is_late) {
		sentinels_why(lane->store->cluster, why);
		probe_go_away(lane, number, why, lane_now_ns(lane) + HEALTH_PROBE_NS);
	}
	if (!is_up || is_late || lane->is_closing) {
		task_fail_all(lane, first, WEIR_ESTORE);
		return;
	}
	for (; first; first = next) {
		next = first->next;
		task_later(lane, first);
	}
}

/* Hands out the first, and all of its group, or ends them. Returns the rest. */
static struct task *hand_out(struct redis_lane *lane, struct task *first)
{
	uint64_t now_ns = lane_now_ns(lane);
	uint32_t group = first->step.group;
	struct task_list list;
	struct redis_node *node;
	struct task *next = first;
	unsigned number;
	int status = WEIR_ESTORE;

	task_list_clear(&list);
	do {
		struct task *task = next;

		next = task->next;
		if (task->deadline_ns == 0)
			task->deadline_ns = now_ns + lane->store->options.timeout_ns;
		task_append(&list, task);
	} while (next && group != 0 && next->step.group == group);
	number = first->ask != 0 ? first->ask - 1 : cluster_node_of(lane->store->cluster, first->slot);
	if (!sentinels_know(lane->store->cluster, number)) {
		await_master(lane, list.first);
		return next;
	}
	if (first->deadline_ns > now_ns && !lane->is_closing)
		status = node_get(lane, number, &node);
	if (status != WEIR_OK) {
		task_fail_all(lane, list.first, status);
		return next;
	}
	lane_alarm_at(lane, first->deadline_ns);
	*node->waiting.last = list.first;
	node->waiting.last = list.last;
	return next;
}

static void ask_for_map(struct redis_lane *lane)
{
	struct cluster *cluster = lane->store->cluster;
	unsigned numbers[SENTINELS_MAX];
	size_t n = map_begin(lane, numbers);

	for (size_t i = 0; i < n; i++) {
		struct redis_node *node = lane->nodes[numbers[i]];

		if (!node)
			node = node_open(lane, numbers[i]);
		if (!node) {
			map_fail(lane, numbers[i], "out of memory");
			continue;
		}
		node->asks_map = true;
		map_ask(node);
	}
	/* A new master is probed at once if the one before was away. */
	if (lane->store->url.master && sentinels_know(cluster, cluster_node_of(cluster, 0)))
		node_probe(lane, cluster_node_of(cluster, 0));
}

/* The tasks of a node behind that place come before all others. */
static void put_in_front(struct redis_node *node)
{
	struct task_list *waiting = &node->waiting;
	struct task **older = node->older, *again = older ? *older : NULL;

	node->older = NULL;
	if (!again || older == &waiting->first)
		return;
	*waiting->last = waiting->first;
	waiting->first = again;
	waiting->last = older;
	*older = NULL;
}

/* In front of what came later. */
static void hand_out_again(struct redis_lane *lane)
{
	struct task *first = task_list_take(&lane->again);

	if (!first)
		return;
	for (unsigned i = 0; i < lane->node_end; i++)
		if (lane->nodes[i])
			lane->nodes[i]->older = lane->nodes[i]->waiting.last;
	while (first)
		first = hand_out(lane, first);
	for (unsigned i = 0; i < lane->node_end; i++)
		if (lane->nodes[i])
			put_in_front(lane->nodes[i]);
}

void nodes_send(struct redis_lane *lane, struct task *first)
{
	do {
		hand_out_again(lane);
		while (first)
			first = hand_out(lane, first);
		ask_for_map(lane);
		for (unsigned i = 0; i < lane->node_end; i++)
			if (lane->nodes[i])
				node_send(lane->nodes[i]);
	} while (lane->again.first);
}

/* Deadlines */

static void fail_waiting(struct redis_node *node, uint64_t now_ns)
{
	struct redis_lane *lane = node->lane;
	uint64_t dialled_ns = node->ready_deadline_ns - CONNECTION_TIME_NS;

	if (node->ready_deadline_ns == 0 || !node->waiting.first ||
	    node->waiting.first->deadline_ns > now_ns)
		return;
	count_more(&lane->counts.timeouts, 1);
	/* A task that another node has sent here may have no time left; the others have. */
	if (now_ns < dialled_ns + lane->store->options.timeout_ns) {
		nodes_send(lane, task_list_take(&node->waiting));
		return;
	}
	/* All of them: nothing is sent to what is away. */
	go_away(node, "it takes long to connect", now_ns + HEALTH_PROBE_NS);
	task_fail_all(lane, task_list_take(&node->waiting), WEIR_ESTORE);
}

/*
 * Steps that are made again may have little of their time left. That a node does not answer within it
 * says nothing of the node: they fail, and their call has half of store_timeout, as every other.
 */
static void fail_short(struct redis_node *node, uint64_t now_ns)
{
	struct redis_lane *lane = node->lane;

	for (struct call *call = node->first; call; call = call->next) {
		uint64_t least_ns = call->sent_ns + lane->store->options.timeout_ns / 2;

		if (call->deadline_ns > now_ns || least_ns <= now_ns)
			continue;
		count_more(&lane->counts.timeouts, 1);
		call->deadline_ns = least_ns;
		call_fail(lane, call);
		call->count = 0;
	}
}

/* The first of what it awaits. */
static uint64_t first_deadline(const struct redis_node *node)
{
	uint64_t first_ns = UINT64_MAX;

	for (const struct call *call = node->first; call; call = call->next)
		first_ns = u64_min(first_ns, call->deadline_ns);
	if (node->probe.deadline_ns != 0)
		first_ns = u64_min(first_ns, node->probe.deadline_ns);
	if (node->ready_deadline_ns != 0)
		first_ns = u64_min(first_ns, node->ready_deadline_ns);
	return first_ns;
}

static void node_tick(struct redis_node *node, uint64_t now_ns)
{
	struct redis_lane *lane = node->lane;
	uint64_t first_ns;
	char why[64];

	fail_waiting(node, now_ns);
	first_ns = first_deadline(node);
	if (first_ns + LATE_NS >= now_ns || node->was_late) {
		fail_short(node, now_ns);
		first_ns = first_deadline(node);
	}
	if (first_ns > now_ns) {
		node->was_late = false;
		if (node->waiting.first && node->ready_deadline_ns != 0)
			first_ns = u64_min(first_ns, node->waiting.first->deadline_ns);
		if (first_ns != UINT64_MAX)
			lane_alarm_at(lane, first_ns);
		return;
	}
	if (first_ns + LATE_NS < now_ns && !node->was_late) {
		/* The lane itself has slept: what has come meanwhile is to be read first. */
		node->was_late = true;
		lane_alarm_at(lane, now_ns + LATE_NS);
		return;
	}
	count_more(&lane->counts.timeouts, 1);
	if (node->ready_deadline_ns != 0)
		snprintf(why, sizeof why, "no connection within 1 s");
	else if (node->is_sentinel)
		snprintf(why, sizeof why, "no answer within 1 s");
	else
		snprintf(why, sizeof why, "no answer within %.6g ms",
		         (double)lane->store->options.timeout_ns / NS_PER_MS);
	drop(node, why, now_ns + HEALTH_PROBE_NS);
}

/* It is late enough. */
static void again_later(struct redis_lane *lane)
{
	struct task *task = task_list_take(&lane->later), *next;

	for (; task; task = next) {
		next = task->next;
		task_append(&lane->again, task);
	}
}

void nodes_tick(struct redis_lane *lane)
{
	uint64_t now_ns = lane_now_ns(lane);

	for (unsigned i = 0; i < lane->node_end; i++) {
		if (lane->nodes[i])
			connection_tick(lane->nodes[i]->connection, now_ns);
		if (lane->nodes[i])
			node_tick(lane->nodes[i], now_ns);
		/* The cluster has it no more, or it was only asked. */
		if (lane->nodes[i] && !cluster_has(lane->store->cluster, i))
			leave(lane->nodes[i]);
		/* Others are tried when something is to be sent there. */
		if (!health_is_up(health_of(lane, i)) && cluster_serves(lane->store->cluster, i))
			node_probe(lane, i);
	}
	probe_look_whether_back(lane);
	if (lane->later_ns <= now_ns)
		again_later(lane);
	nodes_send(lane, NULL);
	if (lane->later.first)
		lane_alarm_at(lane, lane->later_ns);
}

bool nodes_are_awaited(const struct redis_lane *lane)
{
	bool are = lane->later.first || sentinels_are_awaited(lane->store->cluster, lane);

	/* A Sentinel that hangs must not hold up calls. */
	for (unsigned i = 0; i < lane->node_end && !are; i++)
		are = lane->nodes[i] && !lane->nodes[i]->is_sentinel &&
		      (first_deadline(lane->nodes[i]) != UINT64_MAX || lane->nodes[i]->waiting.first);
	return are;
}

void nodes_close(struct redis_lane *lane)
{
	for (unsigned i = 0; i < lane->node_end; i++)
		if (lane->nodes[i]) {
			struct redis_node *node = lane->nodes[i];
			struct task *waiting = task_list_take(&node->waiting);

			lane->nodes[i] = NULL;
			node_free(node);
			task_fail_all(lane, waiting, WEIR_ESTORE);
		}
	task_fail_all(lane, task_list_take(&lane->later), WEIR_ESTORE);
	while (lane->again.first)
		task_fail_all(lane, task_list_take(&lane->again), WEIR_ESTORE);
	send_close(lane);
}

/* What happens to a connection. The lane may be used again afterwards. */

/* Sends what must be sent again, and what has waited for answers. */
static void send_on(struct redis_lane *lane)
{
	nodes_send(lane, NULL);
	gather_answered(lane);
	if (lane->is_held && !gather_waits(lane)) {
		lane->is_held = false;
		nodes_send(lane, batch_take(&lane->batch));
	}
	lane->now_ns = 0;
}

static void on_accepted(void *context)
{
	struct redis_node *node = context;
	struct redis_lane *lane = node->lane;

	node->link = connection_link(node->connection);
	node->ready_deadline_ns = 0;
	sentinels_note_role(lane->store->cluster, node->number, true);
	if (node->is_sentinel)
		health_back(health_of(lane, node->number));
	else if (!health_is_up(health_of(lane, node->number)))
		probe_send(node);
	map_ask(node);
	send_on(lane);
}

static void take_in(struct redis_node *node, struct slice bytes)
{
	uint64_t probe_ns = lane_now_ns(node->lane) + HEALTH_PROBE_NS;
	char why[sizeof node->trouble];
	bool is_lost;

	node->is_busy = true;
	is_lost = link_in(node->link, bytes) != WEIR_OK || node->is_lost;
	node->is_busy = false;
	if (!is_lost && node->trouble[0] == '\0')
		return;
	snprintf(why, sizeof why, "%s",
	         node->trouble[0] != '\0' ? node->trouble : link_error(node->link));
	node->trouble[0] = '\0';
	if (is_lost) {
		node->is_lost = true;
		connection_blame(node->connection);
		drop(node, why, probe_ns);
	} else {
		go_away(node, why, probe_ns);
	}
}

static void on_bytes(void *context, struct slice bytes)
{
	struct redis_node *node = context;
	struct redis_lane *lane = node->lane;

	take_in(node, bytes);
	send_on(lane);
}

static void on_lost(void *context, const char *why)
{
	struct redis_node *node = context;
	struct redis_lane *lane = node->lane;
	/* One that was there may be there again at once; one that could not be reached is not. */
	uint64_t wait_ns = node->ready_deadline_ns == 0 ? 0 : HEALTH_PROBE_NS;

	drop(node, why, lane_now_ns(lane) + wait_ns);
	send_on(lane);
}

static void on_alarm(void *context, uint64_t at_ns)
{
	lane_alarm_at(((struct redis_node *)context)->lane, at_ns);
}

static const struct connection_owner owner = {on_accepted, on_bytes, on_lost, on_alarm};
