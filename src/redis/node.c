#include "redis/node.h"

#include <stdio.h>
#include <stdlib.h>

#include "redis/batch.h"
#include "redis/call.h"

#define WINDOW 256 /* tasks among which a call looks for those of its slot */
/* The lane's own delay past a deadline, from which on replies may have come unseen. */
#define LATE_NS UINT64_C(1000000)

static struct health *health_of(const struct redis_lane *lane, unsigned number)
{
	return &lane->store->health[number];
}

static void alarm_at(struct redis_lane *lane, uint64_t at_ns)
{
	if (lane->alarm_ns != 0 && lane->alarm_ns <= at_ns)
		return;
	lane->alarm_ns = at_ns;
	lane->port->kind->alarm(lane->port, at_ns);
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

	if (health_fail(health, probe_ns)) {
		count_more(&lane->counts.switches, 1);
		snprintf(told, sizeof told, "%s:%u: %s", node->host.name, (unsigned)node->host.port, why);
		tell_switch(lane, told);
	}
	if (!lane->is_closing)
		alarm_at(lane, health_probe_ns(health));
}

static void come_back(struct redis_lane *lane, unsigned number)
{
	if (health_back(health_of(lane, number)))
		tell_switch(lane, NULL);
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
	if (error == CALL_ERROR_LOST)
		snprintf(node->trouble, sizeof node->trouble, "it is not to be written to");
	else if (error != CALL_ERROR_AWAY)
		come_back(node->lane, node->number);
}

/*
 * A write, for a Redis that can only be read is of no use: what is full, or follows another, says
 * so here. One that says MOVED would do.
 */
static void send_probe(struct redis_node *node)
{
	struct redis_lane *lane = node->lane;
	struct buffer key = {0};

	if (node->probe.deadline_ns != 0)
		return;
	buffer_printf(&key, "%sprobe", lane->store->prefix); /* no key of a limit is without braces */
	link_write_words(
	    link_command(node->link),
	    (struct slice[]){SLICE("SET"), {key.data, key.len}, SLICE("1"), SLICE("PX"), SLICE("1000")},
	    5);
	buffer_free(&key);
	node->probe.link.replied = probed;
	node->probe.deadline_ns = lane_now_ns(lane) + lane->store->options.timeout_ns;
	link_sent(node->link, &node->probe.link);
	lane->port->kind->send(lane->port, node->line);
	alarm_at(lane, node->probe.deadline_ns);
}

/* Calls */

static struct call *call_open(struct redis_node *node)
{
	struct redis_lane *lane = node->lane;
	struct call *call = lane->free_calls;

	if (!call)
		call = malloc(sizeof *call);
	else
		lane->free_calls = call->next;
	if (call) {
		call->node = node;
		call->count = 0;
	}
	return call;
}

static void call_close(struct call *call)
{
	struct redis_lane *lane = call->node->lane;

	call->next = lane->free_calls;
	lane->free_calls = call;
}

/* The oldest. */
static struct call *take_call(struct link_call *link)
{
	struct call *call = (struct call *)link;
	struct redis_node *node = call->node;

	node->first = call->next;
	if (!node->first)
		node->last = &node->first;
	return call;
}

static void send_call(struct call *call,
                      void (*replied)(struct link_call *, const struct redis_reply *))
{
	struct redis_node *node = call->node;

	call->link.replied = replied;
	call->number = node->calls++;
	call->next = NULL;
	*node->last = call;
	node->last = &call->next;
	link_sent(node->link, &call->link);
	alarm_at(node->lane, call->deadline_ns);
}

static void loaded(struct link_call *link, const struct redis_reply *reply)
{
	struct call *call = take_call(link);

	/* One that Redis doesn't take is missed by the calls behind it. */
	(void)reply;
	call_close(call);
}

/* False: no memory. */
static bool load_script(struct redis_node *node, const struct call *missing)
{
	struct call *call;

	/* Calls that were sent before it miss it once more. */
	if (node->loaded == missing->script.source && missing->number < node->loaded_at)
		return true;
	call = call_open(node);
	if (!call)
		return false;
	call->deadline_ns = missing->deadline_ns;
	link_write_words(
	    link_command(node->link),
	    (struct slice[]){SLICE("SCRIPT"), SLICE("LOAD"), slice_of(missing->script.source)}, 3);
	send_call(call, loaded);
	node->loaded = missing->script.source;
	node->loaded_at = node->calls;
	return true;
}

/* Times that a script is loaded for a step: an operator may flush scripts just then. */
#define LOADS_MAX 3

static void load_and_repeat(struct redis_node *node, struct call *call)
{
	bool can_load = load_script(node, call);

	for (size_t i = 0; i < call->count; i++) {
		struct task *task = (struct task *)call->steps[i];

		if (can_load && task->loads++ < LOADS_MAX)
			task_append(&node->again, task);
		else
			task_fail(node->lane, task, WEIR_ESTORE);
	}
}

static void call_refused(struct redis_node *node, struct call *call, struct slice text)
{
	struct redis_lane *lane = node->lane;
	enum call_error error = call_error_of(text);
	char why[sizeof node->trouble];

	if (error == CALL_ERROR_SCRIPT) {
		load_and_repeat(node, call);
		return;
	}
	snprintf(why, sizeof why, "Redis says %.*s", (int)u64_min(text.len, 160), text.data);
	if (error == CALL_ERROR_AWAY)
		go_away(node, why, lane_now_ns(lane) + HEALTH_PROBE_NS);
	if (error == CALL_ERROR_LOST)
		memcpy(node->trouble, why, sizeof node->trouble);
	call_fail(lane, call);
}

static void replied(struct link_call *link, const struct redis_reply *reply)
{
	struct call *call = take_call(link);
	struct redis_node *node = call->node;

	if (!reply)
		call_fail(node->lane, call);
	else if (reply->type == REDIS_ERROR)
		call_refused(node, call, reply->text);
	else
		call_finish(node->lane, call, reply, &node->again);
	call_close(call);
}

/* Sending */

/* How many tasks of the group stand here. */
static size_t group_size(const struct task *task)
{
	uint32_t group = task->step.group;
	size_t n = 0;

	for (; task && (task->step.group == group || n == 0); task = task->next)
		n++;
	return n;
}

/* Moves those of the first one's slot into a call, as many as it holds; a group as a whole. */
static void fill_call(struct task_list *list, struct call *call, bool is_given)
{
	unsigned slot = list->first->slot;
	struct task **at = &list->first;
	uint32_t group = 0;

	for (size_t seen = 0; *at && seen < WINDOW && call->count < STEP_CALL_MAX; seen++) {
		struct task *task = *at;
		bool is_new = task->step.group != 0 && task->step.group != group;

		if (task->slot != slot) {
			at = &task->next;
			continue;
		}
		if (is_new && call->count > 0 && group_size(task) > STEP_CALL_MAX - call->count)
			break;
		if (is_given && call->count > 0 && task->step.at.now_ns != call->steps[0]->at.now_ns)
			break; /* a call has one time */
		group = task->step.group;
		*at = task->next;
		call->deadline_ns = u64_min(call->deadline_ns, task->deadline_ns);
		call->steps[call->count++] = &task->step;
	}
	if (!*at)
		list->last = at;
}

/* Writes the calls of the tasks that wait. */
static void node_send(struct redis_node *node)
{
	struct redis_lane *lane = node->lane;
	bool wrote = false;

	if (node->ready_deadline_ns != 0)
		return;
	while (node->waiting.first) {
		struct call *call = call_open(node);

		if (!call) {
			task_fail_all(lane, task_list_take(&node->waiting), WEIR_ENOMEM);
			break;
		}
		call->deadline_ns = UINT64_MAX;
		fill_call(&node->waiting, call, lane->store->options.given_time);
		if (step_write(call->steps, call->count, link_command(node->link), &call->script) !=
		    WEIR_OK) {
			call_fail(lane, call);
			call_close(call);
			continue;
		}
		count_more(&lane->counts.calls, 1);
		count_more(&lane->counts.steps, call->count);
		send_call(call, replied);
		wrote = true;
	}
	if (wrote)
		lane->port->kind->send(lane->port, node->line);
}

/* Nodes */

static void node_free(struct redis_node *node)
{
	if (node->link)
		link_close(node->link);
	free(node);
}

static struct redis_node *node_open(struct redis_lane *lane, unsigned number)
{
	struct redis_node *node = calloc(1, sizeof *node);

	if (!node)
		return NULL;
	node->lane = lane;
	node->number = number;
	node->host = lane->store->url.hosts[number];
	node->last = &node->first;
	node->ready_deadline_ns = lane_now_ns(lane) + NODE_DIAL_NS;
	task_list_clear(&node->waiting);
	task_list_clear(&node->again);
	if (link_open(&node->link, &lane->store->url, node->host.name) != WEIR_OK ||
	    !lane->port->kind->dial(lane->port, node, &node->host, &node->line)) {
		node_free(node);
		return NULL;
	}
	lane->nodes[number] = node;
	if (number >= lane->node_end)
		lane->node_end = number + 1;
	alarm_at(lane, node->ready_deadline_ns);
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
	}
	alarm_at(lane, health_probe_ns(health));
}

/* Its line is gone; its tasks fail. */
static void forget(struct redis_node *node, const char *why, uint64_t probe_ns)
{
	struct redis_lane *lane = node->lane;
	unsigned number = node->number;
	/* Redis may close what has nothing to say. */
	bool was_idle = node->ready_deadline_ns == 0 && !node->first && node->probe.deadline_ns == 0 &&
	                node->trouble[0] == '\0';
	struct task *waiting = task_list_take(&node->waiting), *again = task_list_take(&node->again);

	lane->nodes[number] = NULL;
	if (!was_idle)
		go_away(node, why, probe_ns);
	node_free(node);
	task_fail_all(lane, again, WEIR_ESTORE);
	task_fail_all(lane, waiting, WEIR_ESTORE);
	if (!was_idle)
		probe(lane, number);
}

/* Its tasks fail; its line is hung up. */
static void drop(struct redis_node *node, const char *why, uint64_t probe_ns)
{
	struct redis_lane *lane = node->lane;

	lane->port->kind->hang_up(lane->port, node->line);
	forget(node, why, probe_ns);
}

void nodes_send(struct redis_lane *lane, struct task *first)
{
	unsigned number = 0;
	struct redis_node *node;

	if (!health_is_up(health_of(lane, number)))
		probe(lane, number);
	node = lane->nodes[number];
	if (!health_is_up(health_of(lane, number)) || lane->is_closing) {
		task_fail_all(lane, first, WEIR_ESTORE);
		return;
	}
	if (!node)
		node = node_open(lane, number);
	if (!node) {
		task_fail_all(lane, first, WEIR_ENOMEM);
		return;
	}
	while (first) {
		struct task *task = first;

		first = task->next;
		task->deadline_ns = lane_now_ns(lane) + lane->store->options.timeout_ns;
		task_append(&node->waiting, task);
	}
	alarm_at(lane, node->waiting.first->deadline_ns);
	node_send(node);
}

/* Deadlines */

static void fail_waiting(struct redis_node *node, uint64_t now_ns)
{
	struct redis_lane *lane = node->lane;

	if (!node->waiting.first || node->waiting.first->deadline_ns > now_ns)
		return;
	/* All of them: nothing is sent to what is away. */
	count_more(&lane->counts.timeouts, 1);
	go_away(node, "it takes long to connect", now_ns + HEALTH_PROBE_NS);
	task_fail_all(lane, task_list_take(&node->waiting), WEIR_ESTORE);
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
	if (first_ns > now_ns) {
		node->was_late = false;
		if (node->waiting.first)
			first_ns = u64_min(first_ns, node->waiting.first->deadline_ns);
		if (first_ns != UINT64_MAX)
			alarm_at(lane, first_ns);
		return;
	}
	if (first_ns + LATE_NS < now_ns && !node->was_late) {
		/* The lane itself has slept: what has come meanwhile is to be read first. */
		node->was_late = true;
		alarm_at(lane, now_ns + LATE_NS);
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

void nodes_tick(struct redis_lane *lane)
{
	uint64_t now_ns = lane_now_ns(lane);

	for (unsigned i = 0; i < lane->node_end; i++) {
		if (lane->nodes[i])
			node_tick(lane->nodes[i], now_ns);
		probe(lane, i);
	}
}

bool nodes_are_awaited(const struct redis_lane *lane)
{
	bool are = false;

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
	while (lane->free_calls) {
		struct call *call = lane->free_calls;

		lane->free_calls = call->next;
		free(call);
	}
}

/* For ports */

struct link *redis_node_link(struct redis_node *node)
{
	return node->link;
}

/* What comes into a node, until the lane may be used again. */
static void take_in(struct redis_node *node, struct slice bytes)
{
	struct redis_lane *lane = node->lane;
	int status = link_in(node->link, bytes);
	struct task *again;

	if (status != WEIR_OK || node->trouble[0] != '\0') {
		char why[sizeof node->trouble];

		snprintf(why, sizeof why, "%s",
		         node->trouble[0] != '\0' ? node->trouble : link_error(node->link));
		drop(node, why, lane_now_ns(lane) + HEALTH_PROBE_NS);
		return;
	}
	if (node->ready_deadline_ns != 0 && link_is_ready(node->link)) {
		node->ready_deadline_ns = 0;
		if (!health_is_up(health_of(lane, node->number)))
			send_probe(node);
	}
	again = task_list_take(&node->again);
	while (again) {
		struct task *task = again;

		again = task->next;
		task_append(&node->waiting, task);
	}
	node_send(node);
}

void redis_node_in(struct redis_node *node, struct slice bytes)
{
	struct redis_lane *lane = node->lane;

	take_in(node, bytes);
	lane->now_ns = 0;
}

void redis_node_lost(struct redis_node *node, const char *why)
{
	struct redis_lane *lane = node->lane;
	/* One that was there may be there again at once; one that could not be reached is not. */
	uint64_t wait_ns = node->ready_deadline_ns == 0 ? 0 : HEALTH_PROBE_NS;

	forget(node, why, lane_now_ns(lane) + wait_ns);
	lane->now_ns = 0;
}
