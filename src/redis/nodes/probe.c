#include "redis/nodes/probe.h"

#include <stdio.h>

#include "redis/call.h"

/* Health */

static void notify_switch(const struct redis_client *client, const char *why)
{
	const struct redis_options *options = &client->store->options;

	if (options->switched)
		options->switched(options->context, &client->store->store, why);
}

void probe_set_unavailable(struct redis_client *client, unsigned number, const char *why,
                           uint64_t probe_ns)
{
	struct health *health = health_of(client, number);
	bool is_new = health_fail(health, probe_ns);

	/* Others have no keys, so nobody misses them. */
	if (!cluster_serves(client->store->cluster, number))
		return;
	if (is_new) {
		atomic_store_explicit(&client->store->is_unavailable, true, memory_order_release);
		count_more(&client->counts.switches, 1);
		notify_switch(client, why);
	}
	cluster_doubt(client->store->cluster);
	if (!client->is_closing)
		client_alarm_at(client, health_probe_ns(health));
}

void probe_check_recovered(const struct redis_client *client)
{
	_Atomic bool *is_unavailable = &client->store->is_unavailable;

	if (atomic_load_explicit(is_unavailable, memory_order_relaxed) &&
	    cluster_is_up(client->store->cluster) &&
	    atomic_exchange_explicit(is_unavailable, false, memory_order_acq_rel))
		notify_switch(client, NULL);
}

static void recover(struct redis_node *node)
{
	struct health *health = health_of(node->client, node->number);

	node->era = health_era(health);
	atomic_store(&health->runs_none, false);
	health_recover(health);
	probe_check_recovered(node->client);
}

static void probed(struct connection_call *base, const struct redis_reply *reply)
{
	struct redis_node *node =
	    (struct redis_node *)((char *)base - offsetof(struct redis_node, probe));
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
	          (error == CALL_ERROR_MOVED && node->client->store->url.cluster)))
		recover(node);
}

/* There is no such script: that is what it should say, unless one was loaded. */
static void on_may_reply(struct connection_call *base, const struct redis_reply *reply)
{
	struct redis_node *node =
	    (struct redis_node *)((char *)base - offsetof(struct redis_node, probe.may));
	bool is_error = reply && reply->type == REDIS_ERROR;
	enum call_error error = is_error ? call_error_of(reply->text) : CALL_ERROR_OWN;

	node->probe.may_not = (!is_error && !node->probe.loads) || error == CALL_ERROR_UNAVAILABLE ||
	                      error == CALL_ERROR_WITHIN ||
	                      (error == CALL_ERROR_SCRIPT && node->probe.loads);
}

/* The later replies say whether it was done. */
static void on_load_reply(struct connection_call *base, const struct redis_reply *reply)
{
	(void)base;
	(void)reply;
}

#define NO_SCRIPT "0000000000000000000000000000000000000000"

/* Runs what scripts do, for a Redis that has refused it before. */
static void send_probe_of_scripts(struct redis_node *node, struct slice key)
{
	const struct script_text *call = command_probe();

	connection_write_words(connection_command(node->connection),
	                       (struct slice[]){SLICE("SCRIPT"), SLICE("LOAD"), slice_of(call->source)},
	                       3);
	node->probe.load.replied = on_load_reply;
	connection_sent(node->connection, &node->probe.load);
	connection_write_words(connection_command(node->connection),
	                       (struct slice[]){SLICE("EVALSHA"), slice_of(call->sha), SLICE("0"), key},
	                       4);
}

/*
 * A write, for a Redis that can only be read is of no use: what is full, or follows another, says
 * so here. One that says MOVED would do. Before it a script, for the user may write and yet not call.
 */
void probe_send(struct redis_node *node)
{
	struct redis_client *client = node->client;
	struct buffer key = {0};

	if (node->probe.deadline_ns != 0)
		return;
	buffer_printf(&key, "%sprobe", client->store->prefix); /* no key of a limit is without braces */
	node->probe.loads = atomic_load(&health_of(client, node->number)->runs_none);
	if (node->probe.loads)
		send_probe_of_scripts(node, (struct slice){key.data, key.len});
	else
		connection_write_words(
		    connection_command(node->connection),
		    (struct slice[]){SLICE("EVALSHA"), SLICE(NO_SCRIPT), SLICE("1"), {key.data, key.len}},
		    4);
	node->probe.may.replied = on_may_reply;
	connection_sent(node->connection, &node->probe.may);
	connection_write_words(
	    connection_command(node->connection),
	    (struct slice[]){SLICE("SET"), {key.data, key.len}, SLICE("1"), SLICE("PX"), SLICE("1000")},
	    5);
	buffer_free(&key);
	node->probe.base.replied = probed;
	node->probe.deadline_ns = client_now_ns(client) + client->store->options.timeout_ns;
	connection_sent(node->connection, &node->probe.base);
	dialer_send(node->dialer);
	client_alarm_at(client, node->probe.deadline_ns);
}
