#include "redis/nodes/probe.h"

#include <stdio.h>

#include "redis/call.h"
#include "redis/nodes/send.h"

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

static void probed(struct redis_node *node, const struct redis_reply *reply)
{
	enum call_error error;

	node->is_probed = false;
	if (!reply)
		return;
	error = reply->type == REDIS_ERROR ? call_error_of(reply->text) : CALL_ERROR_OWN;
	node->is_lost |= error == CALL_ERROR_LOST;
	node->is_replica |= reply->type == REDIS_ERROR && redis_error_is(reply->text, "READONLY");
	if (node->is_lost)
		snprintf(node->trouble, sizeof node->trouble, "it accepts no writes");
	/* In a cluster the key may be another's; elsewhere nobody would serve it. */
	else if (!node->may_not &&
	         (error == CALL_ERROR_OWN ||
	          (error == CALL_ERROR_MOVED && node->client->store->url.cluster)))
		recover(node);
}

/* There is no such script: that is what it should say, unless one was loaded. */
static void on_may_reply(struct redis_node *node, const struct redis_reply *reply)
{
	bool is_error = reply && reply->type == REDIS_ERROR;
	enum call_error error = is_error ? call_error_of(reply->text) : CALL_ERROR_OWN;

	node->may_not = (!is_error && !node->loads) || error == CALL_ERROR_UNAVAILABLE ||
	                error == CALL_ERROR_WITHIN || (error == CALL_ERROR_SCRIPT && node->loads);
}

#define NO_SCRIPT "0000000000000000000000000000000000000000"

/*
 * A write, for a Redis that can only be read is of no use: what is full, or follows another, says
 * so here. One that says MOVED would do. Before it a script, for the user may write and yet not call;
 * a Redis that has refused what scripts do runs one that does it.
 */
static bool send_probe(struct redis_node *node, struct slice key)
{
	uint64_t deadline_ns = client_now_ns(node->client) + node->client->store->options.timeout_ns;
	const struct script_text *script = command_probe();
	struct slice load[] = {SLICE("SCRIPT"), SLICE("LOAD"), slice_of(script->source)};
	struct slice call[] = {SLICE("EVALSHA"), slice_of(node->loads ? script->sha : NO_SCRIPT),
	                       slice_of(node->loads ? "0" : "1"), key};
	struct slice set[] = {SLICE("SET"), key, SLICE("1"), SLICE("PX"), SLICE("1000")};

	return (!node->loads || send_words(node, deadline_ns, send_ignore, load, 3)) &&
	       send_words(node, deadline_ns, on_may_reply, call, 4) &&
	       send_words(node, deadline_ns, probed, set, 5);
}

void probe_send(struct redis_node *node)
{
	struct redis_client *client = node->client;
	struct buffer key = {0};

	if (node->is_probed)
		return;
	buffer_printf(&key, "%sprobe", client->store->prefix); /* no key of a limit is without braces */
	node->loads = atomic_load(&health_of(client, node->number)->runs_none);
	node->is_probed = send_probe(node, (struct slice){key.data, key.len});
	buffer_free(&key);
	dialer_send(node->dialer);
}
