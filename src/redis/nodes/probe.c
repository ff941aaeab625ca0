#include "redis/nodes/probe.h"

#include <stdio.h>

#include "redis/call.h"

/* Health */

static void tell_switch(const struct redis_lane *lane, const char *why)
{
	const struct redis_options *options = &lane->store->options;

	if (options->switched)
		options->switched(options->context, &lane->store->store, why);
}

void probe_go_away(struct redis_lane *lane, unsigned number, const char *why, uint64_t probe_ns)
{
	struct health *health = health_of(lane, number);
	bool is_new = health_fail(health, probe_ns);

	/* Others have no keys, so nobody misses them. */
	if (!cluster_serves(lane->store->cluster, number))
		return;
	if (is_new) {
		atomic_store_explicit(&lane->store->is_away, true, memory_order_release);
		count_more(&lane->counts.switches, 1);
		tell_switch(lane, why);
	}
	cluster_doubt(lane->store->cluster);
	if (!lane->is_closing)
		lane_alarm_at(lane, health_probe_ns(health));
}

void probe_look_whether_back(const struct redis_lane *lane)
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
	probe_look_whether_back(node->lane);
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
	node->is_replica |= reply->type == REDIS_ERROR && redis_error_is(reply->text, "READONLY");
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
void probe_send(struct redis_node *node)
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
	connection_send(node->connection);
	lane_alarm_at(lane, node->probe.deadline_ns);
}
