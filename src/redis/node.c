#include "redis/node.h"

#include <stdio.h>
#include <stdlib.h>

#include "redis/batch.h"
#include "redis/call.h"
#include "redis/gather.h"
#include "redis/send.h"

/* The lane's own delay past a deadline, from which on replies may have come unseen. */
#define LATE_NS UINT64_C(1000000)

static struct health *health_of(const struct redis_lane *lane, unsigned number)
{
	return cluster_health(lane->store->cluster, number);
}

/* Health */

static void tell_switch(const struct redis_lane *lane, const char *why)
{
	const struct redis_options *options = &lane->store->options;

	if (options->switched)
		options->switched(options->context, &lane->store->store, why);
}

/* This lane comes back to it by itself. */
static void go_away(const struct redis_node *node, const char *why, uint64_t probe_ns)
{
	struct redis_lane *lane = node->lane;
	struct health *health = health_of(lane, node->number);
	char told[sizeof node->trouble + REDIS_HOST_MAX];
	bool is_new = health_fail(health, probe_ns);

	/* Others have no keys, so nobody misses them. */
	if (!cluster_serves(lane->store->cluster, node->number))
		return;
	if (is_new) {
		atomic_store_explicit(&lane->store->is_away, true, memory_order_release);
		count_more(&lane->counts.switches, 1);
		snprintf(told, sizeof told, "%s:%u: %s", node->host.name, (unsigned)node->host.port, why);
		tell_switch(lane, told);
	}
	cluster_doubt(lane->store->cluster);
	if (!lane->is_closing)
		lane_alarm_at(lane, health_probe_ns(health));
}

/* Tells that the store is back when all nodes are up that serve slots; a dead one may have lost
 * them.
 */
static void look_whether_back(const struct redis_lane *lane)
{
	_Atomic bool *is_away = &lane->store->is_away;

	if (atomic_load_explicit(is_away, memory_order_relaxed) &&
	    cluster_is_up(lane->store->cluster) &&
	    atomic_exchange_explicit(is_away, false, memory_order_acq_rel))
		tell_switch(lane, NULL);
}

static void come_back(struct redis_node *node)
{
	struct health *health = health_of(node->lane, node->number);

	node->era = health_era(health);
	atomic_store(&health->runs_none, false);
	health_back(health);
	look_whether_back(node->lane);
}

static void probed(struct link_call *link, const struct redis_reply *reply)
{
	struct redis_node *node =
	    (struct redis_node *)((char *)link - offsetof(struct redis_node, probe));
	enum call_error error;

	node->probe.deadline_ns = 0;
	if (!reply)
		return;
	error = reply->type == REDIS_ERROR ? call_error_of(reply->text) : CALL_ERROR_OWN;
	node->is_lost |= error == CALL_ERROR_LOST;
	if (node->is_lost)
		snprintf(node->trouble, sizeof node->trouble, "it accepts no writes");
	/* In a cluster the key may be another's; elsewhere nobody would serve it. */
	else if (!node->probe.may_not &&
	         (error == CALL_ERROR_OWN ||
	          (error == CALL_ERROR_MOVED && node->lane->store->url.cluster)))
		come_back(node);
}

/* There is no such script: that is what it should say, unless one was loaded. */
static void told_whether_it_may(struct link_call *link, const struct redis_reply *reply)
{
	struct redis_node *node =
	    (struct redis_node *)((char *)link - offsetof(struct redis_node, probe.may));
	bool is_error = reply && reply->type == REDIS_ERROR;
	enum call_error error = is_error ? call_error_of(reply->text) : CALL_ERROR_OWN;

	node->probe.may_not = (!is_error && !node->probe.loads) || error == CALL_ERROR_AWAY || error == CALL_ERROR_WITHIN ||
	                      (error == CALL_ERROR_SCRIPT && node->probe.loads);
}

/* The later replies say whether it was done. */
static void told_of_load(struct link_call *link, const struct redis_reply *reply)
{
	(void)link;
	(void)reply;
}

#define NO_SCRIPT "0000000000000000000000000000000000000000"

/* Runs what scripts do, for a Redis that has refused it before. */
static void send_probe_of_scripts(struct redis_node *node, struct slice key)
{
	const struct step_call *call = step_probe();

	link_write_words(link_command(node->link),
	                 (struct slice[]){SLICE("SCRIPT"), SLICE("LOAD"), slice_of(call->source)}, 3);
	node->probe.load.replied = told_of_load;
	link_sent(node->link, &node->probe.load);
	link_write_words(link_command(node->link),
	                 (struct slice[]){SLICE("EVALSHA"), slice_of(call->sha), SLICE("0"), key}, 4);
}

/*
 * A write, for a Redis that can only be read is of no use: what is full, or follows another, says
 * so here. One that says MOVED would do. Before it a script, for the user may write and yet not call.
 */
static void send_probe(struct redis_node *node)
{
	struct redis_lane *lane = node->lane;
	struct buffer key = {0};

	if (node->probe.deadline_ns != 0)
		return;
	buffer_printf(&key, "%sprobe", lane->store->prefix); /* no key of a limit is without braces */
	node->probe.loads = atomic_load(&health_of(lane, node->number)->runs_none);
	if (node->probe.loads)
		send_probe_of_scripts(node, (struct slice){key.data, key.len});
	else
		link_write_words(
		    link_command(node->link),
		    (struct slice[]){SLICE("EVALSHA"), SLICE(NO_SCRIPT), SLICE("1"), {key.data, key.len}},
		    4);
	node->probe.may.replied = told_whether_it_may;
	link_sent(node->link, &node->probe.may);
	link_write_words(
	    link_command(node->link),
	    (struct slice[]){SLICE("SET"), {key.data, key.len}, SLICE("1"), SLICE("PX"), SLICE("1000")},
	    5);
	buffer_free(&key);
	node->probe.link.replied = probed;
	node->probe.deadline_ns = lane_now_ns(lane) + lane->store->options.timeout_ns;
	link_sent(node->link, &node->probe.link);
	lane->port->kind->send(lane->port, node->line);
	lane_alarm_at(lane, node->probe.deadline_ns);
}

/* Nodes */

static void node_free(struct redis_node *node)
{
	if (node->link)
		link_close(node->link);
	cluster_drop(node->lane->store->cluster, node->number);
	free(node);
}

static struct redis_node *node_open(struct redis_lane *lane, unsigned number)
{
	struct redis_node *node = calloc(1, sizeof *node);

	if (!node)
		return NULL;
	node->lane = lane;
	node->number = number;
	cluster_hold(lane->store->cluster, number, &node->host);
	node->era = health_era(health_of(lane, number));
	node->last = &node->first;
	node->ready_deadline_ns = lane_now_ns(lane) + NODE_DIAL_NS;
	task_list_clear(&node->waiting);
	if (link_open(&node->link, &lane->store->url, node->host.name) != WEIR_OK ||
	    !lane->port->kind->dial(lane->port, node, &node->host, &node->line)) {
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
static void probe(struct redis_lane *lane, unsigned number)
{
	struct redis_node *node = lane->nodes[number];
	struct health *health = health_of(lane, number);

	if (health_is_up(health) || lane->is_closing)
		return;
	if (health_claim(health, lane_now_ns(lane))) {
		if (!node)
			node_open(lane, number); /* which probes when it is ready */
		else if (node->ready_deadline_ns == 0)
			send_probe(node);
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
	lane->port->kind->hang_up(lane->port, node->line);
	lane->nodes[node->number] = NULL;
	node_free(node);
}

/* Its line is gone; its tasks fail. */
static void forget(struct redis_node *node, const char *why, uint64_t probe_ns)
{
	struct redis_lane *lane = node->lane;
	unsigned number = node->number;
	/* Redis may close what has nothing to say. */
	bool was_idle = !node->first && is_still(node) && !node->is_lost;
	bool says_it = !was_idle && node->era == health_era(health_of(lane, number));
	struct task *waiting = task_list_take(&node->waiting);

	lane->nodes[number] = NULL;
	if (node->asks_map)
		cluster_doubt(lane->store->cluster);
	if (says_it)
		go_away(node, why, probe_ns);
	node_free(node);
	task_fail_all(lane, waiting, WEIR_ESTORE);
	if (says_it && cluster_serves(lane->store->cluster, number))
		probe(lane, number);
}

/* Its tasks fail; its line is hung up. */
static void drop(struct redis_node *node, const char *why, uint64_t probe_ns)
{
	struct redis_lane *lane = node->lane;

	lane->port->kind->hang_up(lane->port, node->line);
	forget(node, why, probe_ns);
}

/* The node of that number, if it is up. 0, or why there is none. */
static int node_get(struct redis_lane *lane, unsigned number, struct redis_node **node)
{
	const struct health *health = health_of(lane, number);

	if (!health_is_up(health))
		probe(lane, number);
	if (!health_is_up(health))
		return WEIR_ESTORE;
	if (lane->nodes[number] && lane->nodes[number]->era != health_era(health))
		leave(lane->nodes[number]);
	*node = lane->nodes[number] ? lane->nodes[number] : node_open(lane, number);
	return *node ? WEIR_OK : WEIR_ENOMEM;
}

/* Hands out the first, and all of its group, or ends them. Returns the rest. */
static struct task *hand_out(struct redis_lane *lane, struct task *first)
{
	uint64_t now_ns = lane_now_ns(lane);
	uint32_t group = first->step.group;
	struct task_list list;
	struct redis_node *node;
	struct task *next = first;
	int status = WEIR_ESTORE;

	task_list_clear(&list);
	do {
		struct task *task = next;

		next = task->next;
		if (task->deadline_ns == 0)
			task->deadline_ns = now_ns + lane->store->options.timeout_ns;
		task_append(&list, task);
	} while (next && group != 0 && next->step.group == group);
	if (first->deadline_ns > now_ns && !lane->is_closing)
		status = node_get(lane,
		                  first->ask != 0 ? first->ask - 1
		                                  : cluster_node_of(lane->store->cluster, first->slot),
		                  &node);
	if (status != WEIR_OK) {
		task_fail_all(lane, list.first, status);
		return next;
	}
	lane_alarm_at(lane, first->deadline_ns);
	*node->waiting.last = list.first;
	node->waiting.last = list.last;
	return next;
}

/* Asks a node for the map of the cluster if it is in doubt. */
static void ask_map(struct redis_lane *lane)
{
	struct redis_node *node;
	unsigned number;

	if (lane->is_closing || !cluster_should_ask(lane->store->cluster, lane_now_ns(lane), &number))
		return;
	node = lane->nodes[number] ? lane->nodes[number] : node_open(lane, number);
	if (!node) {
		cluster_doubt(lane->store->cluster);
		return;
	}
	node->asks_map = true;
	node_ask_map(node);
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
		ask_map(lane);
		for (unsigned i = 0; i < lane->node_end; i++)
			if (lane->nodes[i])
				node_send(lane->nodes[i]);
	} while (lane->again.first);
}

/* Deadlines */

static void fail_waiting(struct redis_node *node, uint64_t now_ns)
{
	struct redis_lane *lane = node->lane;
	uint64_t dialled_ns = node->ready_deadline_ns - NODE_DIAL_NS;

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
			node_tick(lane->nodes[i], now_ns);
		/* The cluster has it no more, or it was only asked. */
		if (lane->nodes[i] && !cluster_has(lane->store->cluster, i))
			leave(lane->nodes[i]);
		/* Others are tried when something is to be sent there. */
		if (!health_is_up(health_of(lane, i)) && cluster_serves(lane->store->cluster, i))
			probe(lane, i);
	}
	look_whether_back(lane);
	if (lane->later_ns <= now_ns)
		again_later(lane);
	nodes_send(lane, NULL);
	if (lane->later.first)
		lane_alarm_at(lane, lane->later_ns);
}

bool nodes_are_awaited(const struct redis_lane *lane)
{
	bool are = lane->later.first;

	for (unsigned i = 0; i < lane->node_end && !are; i++)
		are = lane->nodes[i] &&
		      (first_deadline(lane->nodes[i]) != UINT64_MAX || lane->nodes[i]->waiting.first);
	return are;
}

void nodes_close(struct redis_lane *lane)
{
	for (unsigned i = 0; i < lane->node_end; i++)
		if (lane->nodes[i]) {
			struct redis_node *node = lane->nodes[i];
			struct task *waiting = task_list_take(&node->waiting);

			lane->port->kind->hang_up(lane->port, node->line);
			lane->nodes[i] = NULL;
			node_free(node);
			task_fail_all(lane, waiting, WEIR_ESTORE);
		}
	task_fail_all(lane, task_list_take(&lane->later), WEIR_ESTORE);
	while (lane->again.first)
		task_fail_all(lane, task_list_take(&lane->again), WEIR_ESTORE);
	send_close(lane);
}

/* For ports */

struct link *redis_node_link(struct redis_node *node)
{
	return node->link;
}

/* Takes in a node's bytes. The lane may be used again afterwards. */
static void take_in(struct redis_node *node, struct slice bytes)
{
	struct redis_lane *lane = node->lane;
	uint64_t probe_ns = lane_now_ns(lane) + HEALTH_PROBE_NS;
	char why[sizeof node->trouble];
	bool is_lost;

	node->is_busy = true;
	is_lost = link_in(node->link, bytes) != WEIR_OK || node->is_lost;
	node->is_busy = false;
	if (is_lost || node->trouble[0] != '\0') {
		snprintf(why, sizeof why, "%s",
		         node->trouble[0] != '\0' ? node->trouble : link_error(node->link));
		node->trouble[0] = '\0';
		if (is_lost) {
			node->is_lost = true;
			drop(node, why, probe_ns);
			return;
		}
		go_away(node, why, probe_ns);
	}
	if (node->ready_deadline_ns != 0 && link_is_ready(node->link)) {
		node->ready_deadline_ns = 0;
		if (!health_is_up(health_of(lane, node->number)))
			send_probe(node);
		node_ask_map(node);
	}
}

/* Sends what must be sent again, and what has waited for answers. */
static void send_on(struct redis_lane *lane)
{
	nodes_send(lane, NULL);
	gather_answered(lane);
	if (!lane->is_held || gather_waits(lane))
		return;
	lane->is_held = false;
	nodes_send(lane, batch_take(&lane->batch));
}

void redis_node_in(struct redis_node *node, struct slice bytes)
{
	struct redis_lane *lane = node->lane;

	take_in(node, bytes);
	send_on(lane);
	lane->now_ns = 0;
}

void redis_node_lost(struct redis_node *node, const char *why)
{
	struct redis_lane *lane = node->lane;
	/* One that was there may be there again at once; one that could not be reached is not. */
	uint64_t wait_ns = node->ready_deadline_ns == 0 ? 0 : HEALTH_PROBE_NS;

	forget(node, why, lane_now_ns(lane) + wait_ns);
	send_on(lane);
	lane->now_ns = 0;
}
