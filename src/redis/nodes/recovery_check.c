/*
 * recovery_check.c: makes a node (a Redis server) unavailable after a failure, and checks by a
 * script and a write whether it can be used again.
 */
#include "redis/nodes/recovery_check.h"

#include <stdio.h>

#include "redis/script_reply.h"
#include "redis/nodes/send.h"

/* Availability */

/* Calls the store's `switched`: it is unavailable because of `why`, or with NULL has recovered. */
static void notify_switch(const struct redis_client *client, const char *why)
{
	const struct redis_options *options = &client->store->options;

	if (options->switched)
		options->switched(options->context, &client->store->store, why);
}

static void store_failure(struct redis_store *store, const char *why)
{
	pthread_mutex_lock(&store->lock);
	snprintf(store->failure, sizeof store->failure, "%s", why);
	pthread_mutex_unlock(&store->lock);
}

/*
 * Makes the node unavailable until a recovery check, which is due at `check_ns`. If the node serves
 * slots, reports that for the store. Other nodes are checked only when something is sent to them.
 */
void recovery_set_unavailable(struct redis_client *client, unsigned number, const char *why,
                              uint64_t check_ns)
{
	struct availability *availability = availability_of(client, number);
	bool has_slots = cluster_node_has_slots(client->store->cluster, number), was_available;

	if (has_slots) /* also a further failure: its reason may be another than the first's */
		store_failure(client->store, why);
	was_available = availability_fail(availability, check_ns);
	if (!has_slots) /* the node has no keys, so the store is as available as before */
		return;
	if (was_available) {
		atomic_store_explicit(&client->store->is_unavailable, true, memory_order_release);
		count_more(&client->counts.switches, 1);
		notify_switch(client, why);
	}
	cluster_doubt(client->store->cluster);
	if (!client->is_closing)
		client_alarm_at(client, availability_check_ns(availability));
}

/* Reports once that the store has recovered, when all nodes that serve slots are available. */
void recovery_report(const struct redis_client *client)
{
	_Atomic bool *is_unavailable = &client->store->is_unavailable;

	if (atomic_load_explicit(is_unavailable, memory_order_relaxed) &&
	    cluster_is_up(client->store->cluster) &&
	    atomic_exchange_explicit(is_unavailable, false, memory_order_acq_rel))
		notify_switch(client, NULL);
}

/* A check has shown that the node can be used again. */
static void set_recovered(struct redis_node *node)
{
	struct availability *availability = availability_of(node->client, node->number);

	node->era = availability_era(availability);
	atomic_store(&availability->refuses_scripts, false);
	availability_restore(availability);
	recovery_report(node->client);
}

/* The reply to the last command of a check, a write, decides about the node. */
static void on_write_reply(struct redis_node *node, const struct redis_reply *reply)
{
	bool is_cluster = node->client->store->url.cluster, is_error, accepts_commands;
	enum error_effect error = ERROR_FAILS_CALL;

	node->check_is_under_way = false;
	if (!reply) /* the connection has ended */
		return;
	is_error = reply->type == REDIS_ERROR;
	if (is_error)
		error = error_effect_of(reply->text);
	node->must_be_closed |= error == ERROR_CONNECTION_USELESS;
	node->is_replica |= is_error && redis_error_is(reply->text, "READONLY");
	/* In a cluster another node may have the key; elsewhere nobody would serve it. */
	accepts_commands =
	    !is_error || error == ERROR_FAILS_CALL || (error == ERROR_REDIRECTS && is_cluster);
	if (node->must_be_closed)
		snprintf(node->unusable_because, sizeof node->unusable_because, "it accepts no writes");
	else if (accepts_commands && !node->scripts_are_refused)
		set_recovered(node);
}

/*
 * The reply to the call of a script. If no script was loaded, a Redis that may be used replies that
 * there is no such script; otherwise it replies without an error.
 */
static void on_script_reply(struct redis_node *node, const struct redis_reply *reply)
{
	bool is_error = reply && reply->type == REDIS_ERROR;
	enum error_effect error = is_error ? error_effect_of(reply->text) : ERROR_FAILS_CALL;

	node->scripts_are_refused = (!is_error && !node->check_loads_script) ||
	                            error == ERROR_NODE_UNAVAILABLE || error == ERROR_SCRIPT_REFUSED ||
	                            (error == ERROR_NEEDS_SCRIPT && node->check_loads_script);
}

#define NO_SCRIPT "0000000000000000000000000000000000000000"

/*
 * Sends what a usable Redis accepts. A write, because a replica or a Redis that is full refuses it;
 * a node that replies MOVED is usable. Before it a call of a script, because a user may be allowed
 * to write but not to call scripts. Calling NO_SCRIPT costs nothing. Only a Redis that has refused
 * commands inside scripts (check_loads_script) gets a real one, which calls these commands without
 * a key.
 */
static bool send_check(struct redis_node *node, struct slice key)
{
	uint64_t deadline_ns = client_now_ns(node->client) + node->client->store->options.timeout_ns;
	const struct script_text *script = command_recovery_script();
	struct slice load[] = {SLICE("SCRIPT"), SLICE("LOAD"), slice_of(script->source)};
	struct slice call[] = {SLICE("EVALSHA"),
	                       slice_of(node->check_loads_script ? script->sha : NO_SCRIPT),
	                       slice_of(node->check_loads_script ? "0" : "1"), key};
	struct slice set[] = {SLICE("SET"), key, SLICE("1"), SLICE("PX"), SLICE("1000")};

	return (!node->check_loads_script || send_words(node, deadline_ns, ignore_reply, load, 3)) &&
	       send_words(node, deadline_ns, on_script_reply, call, 4) &&
	       send_words(node, deadline_ns, on_write_reply, set, 5);
}

/* Sends a check to a node that is ready, unless one is under way. */
void recovery_check_send(struct redis_node *node)
{
	struct redis_client *client = node->client;
	struct buffer key = {0};

	if (node->check_is_under_way)
		return;
	/* Without braces, so that it is no key of a limit. */
	buffer_printf(&key, "%sprobe", client->store->prefix);
	node->check_loads_script = atomic_load(&availability_of(client, node->number)->refuses_scripts);
	node->check_is_under_way = send_check(node, (struct slice){key.data, key.len});
	buffer_free(&key);
	dialer_send(node->dialer);
}
