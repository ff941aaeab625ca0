/*
 * redis_node.c: assigns a client's commands to nodes (its connections to Redis servers), opens and
 * closes these connections, and watches the deadlines of commands and of the calls that carry them.
 */
#include "redis/nodes/redis_node.h"

#include <stdio.h>
#include <stdlib.h>

#include "redis/script_reply.h"
#include "redis/commands.h"
#include "redis/batching.h"
#include "redis/nodes/key_map.h"
#include "redis/nodes/recovery_check.h"
#include "redis/nodes/send.h"

/*
 * If the client checks a deadline later than this, it was late itself, and the reply may have
 * arrived in time.
 */
#define CLIENT_LATE_NS UINT64_C(1000000)

/* Nodes */

/* Makes the node unavailable, and names its host in the reason. */
static void set_unavailable(const struct redis_node *node, const char *why, uint64_t check_ns)
{
	char host[REDIS_HOST_TEXT_MAX], text[sizeof host + sizeof node->unusable_because + 2];

	redis_host_write(&node->host, host);
	snprintf(text, sizeof text, "%s: %.*s", host, (int)sizeof node->unusable_because, why);
	recovery_set_unavailable(node->client, node->number, text, check_ns);
}

/* Frees a node that is not in the client's array. Commands of its calls fail. */
static void node_free(struct redis_node *node)
{
	if (node->dialer)
		dialer_close(node->dialer);
	cluster_remove_user(node->client->store->cluster, node->number);
	free(node);
}

static const struct dialer_owner owner;

/* Begins to connect to the node of that number. NULL if there is no memory. */
static struct redis_node *node_open(struct redis_client *client, unsigned number)
{
	struct redis_node *node = calloc(1, sizeof *node);

	if (!node)
		return NULL;
	node->client = client;
	node->number = number;
	cluster_add_user(client->store->cluster, number, &node->host);
	node->is_sentinel = sentinels_node_is_sentinel(client->store->cluster, number);
	node->era = availability_era(availability_of(client, number));
	node->ready_deadline_ns = client_now_ns(client) + DIALER_TIME_NS;
	command_list_clear(&node->waiting);
	node->dialer = dialer_open(
	    client->transport,
	    &(struct dialer_target){&client->store->url,
	                            node->is_sentinel ? CONNECTION_SENTINEL : CONNECTION_STORE,
	                            node->host, &client->store->addresses},
	    &owner, node);
	if (!node->dialer) {
		node_free(node);
		return NULL;
	}
	client->nodes[number] = node;
	if (number >= client->node_end)
		client->node_end = number + 1;
	client_alarm_at(client, node->ready_deadline_ns);
	return node;
}

/* Sends a recovery check if one is due and no other client has claimed it. */
static void check_recovery_if_due(struct redis_client *client, unsigned number)
{
	struct redis_node *node = client->nodes[number];
	struct availability *availability = availability_of(client, number);

	if (availability_is_up(availability) || client->is_closing)
		return;
	if (availability_claim_check(availability, client_now_ns(client))) {
		if (node && node_is_ready(node))
			recovery_check_send(node);
		else if (!node && sentinels_node_has_host(client->store->cluster, number))
			node_open(client, number);         /* sends the check when it is ready */
		cluster_doubt(client->store->cluster); /* another node may have its slots by now */
	}
	client_alarm_at(client, availability_check_ns(availability));
}

/* Whether the node is connected, and has nothing under way or to send. */
static bool node_is_idle(const struct redis_node *node)
{
	return node_is_ready(node) && !node_calls(node)->first && !node->waiting.first;
}

/* Closes the connection, unless something is under way. */
static void close_if_idle(struct redis_node *node)
{
	struct redis_client *client = node->client;

	if (!node_is_idle(node) || node->must_not_be_freed)
		return;
	client->nodes[node->number] = NULL;
	node_free(node);
}

/*
 * Closes the connection because of `why`; its commands fail. If the end of the connection is a
 * failure, the node becomes unavailable until a recovery check, the first at `check_ns`, succeeds.
 */
static void drop_node(struct redis_node *node, const char *why, uint64_t check_ns)
{
	struct redis_client *client = node->client;
	unsigned number = node->number;
	/* The end of an idle connection is no failure: Redis may close it. */
	bool was_idle = node_is_idle(node) && !node->must_be_closed;
	/* An older connection proves nothing: the node has failed and recovered since. */
	bool is_failure = !was_idle && node->era == availability_era(availability_of(client, number));
	struct redis_command *waiting = command_list_take(&node->waiting);

	client->nodes[number] = NULL;
	if (node->is_sentinel || node->must_request_map)
		map_record_failure(client, number, why);
	if (node->is_replica || dialer_is_of_replica(node->dialer))
		sentinels_set_replica(client->store->cluster, number, true);
	if (is_failure)
		set_unavailable(node, why, check_ns);
	node_free(node); /* and fails the commands of its calls */
	commands_fail_all(client, waiting, WEIR_ESTORE);
	if (is_failure && cluster_node_has_slots(client->store->cluster, number))
		check_recovery_if_due(client, number);
}

/* Finds or opens the node of that number. Fails if it is unavailable, or if there is no memory. */
static int node_get(struct redis_client *client, unsigned number, struct redis_node **node)
{
	const struct availability *availability = availability_of(client, number);

	if (!availability_is_up(availability))
		check_recovery_if_due(client, number);
	if (!availability_is_up(availability)) /* a check may have ended at once */
		return WEIR_ESTORE;
	/* A connection from before the last failure is replaced, unless something is under way. */
	if (client->nodes[number] && client->nodes[number]->era != availability_era(availability))
		close_if_idle(client->nodes[number]);
	*node = client->nodes[number] ? client->nodes[number] : node_open(client, number);
	return *node ? WEIR_OK : WEIR_ENOMEM;
}

/*
 * Handles commands for a master that no Sentinel has named yet: tries them again later, or fails
 * them at their deadline.
 */
static void await_master(struct redis_client *client, struct redis_command *first)
{
	unsigned number = cluster_node_of(client->store->cluster, first->slot);
	bool is_up = availability_is_up(availability_of(client, number));
	bool is_expired = first->deadline_ns <= client_now_ns(client);
	char why[SENTINELS_WHY_MAX];
	struct redis_command *next;

	if (is_up && is_expired) {
		sentinels_why(client->store->cluster, why);
		recovery_set_unavailable(client, number, why, client_now_ns(client) + RECOVERY_CHECK_NS);
	}
	if (!is_up || is_expired || client->is_closing) {
		commands_fail_all(client, first, WEIR_ESTORE);
		return;
	}
	for (; first; first = next) {
		next = first->next;
		command_retry_later(client, first);
	}
}

/*
 * Assigns the first command and the rest of its group to a node, or fails them. Returns the
 * commands after them.
 */
static struct redis_command *assign_to_node(struct redis_client *client,
                                            struct redis_command *first)
{
	uint64_t now_ns = client_now_ns(client);
	uint32_t group = first->group;
	struct command_list list;
	struct redis_node *node;
	struct redis_command *next = first;
	unsigned number;
	int status = WEIR_ESTORE;

	command_list_clear(&list);
	do {
		struct redis_command *command = next;

		next = command->next;
		if (command->deadline_ns == 0)
			command->deadline_ns = now_ns + client->store->options.timeout_ns;
		command_append(&list, command);
	} while (next && group != 0 && next->group == group);
	number = first->asking_node_plus_1 != 0 ? first->asking_node_plus_1 - 1
	                                        : cluster_node_of(client->store->cluster, first->slot);
	if (!sentinels_node_has_host(client->store->cluster, number)) {
		await_master(client, list.first);
		return next;
	}
	if (first->deadline_ns > now_ns && !client->is_closing)
		status = node_get(client, number, &node);
	if (status != WEIR_OK) {
		commands_fail_all(client, list.first, status);
		return next;
	}
	client_alarm_at(client, first->deadline_ns);
	*node->waiting.last = list.first;
	node->waiting.last = list.last;
	return next;
}

/* Asks nodes for the map of slots, or Sentinels for the master, if that is due. */
static void ask_for_map(struct redis_client *client)
{
	struct cluster *cluster = client->store->cluster;
	unsigned numbers[SENTINELS_MAX];
	size_t n = map_nodes_to_ask(client, numbers);

	for (size_t i = 0; i < n; i++) {
		struct redis_node *node = client->nodes[numbers[i]];

		if (!node)
			node = node_open(client, numbers[i]);
		if (!node) {
			map_record_failure(client, numbers[i], "out of memory");
			continue;
		}
		node->must_request_map = true;
		map_ask_if_due(node);
	}
	/* A new master is checked at once if the former one was unavailable. */
	if (client->store->url.master_name &&
	    sentinels_node_has_host(cluster, cluster_node_of(cluster, 0)))
		check_recovery_if_due(client, cluster_node_of(cluster, 0));
}

/*
 * Moves the node's newest waiting commands, which are retries, in front of the older ones: those up
 * to the link that assign_retries has stored. It stored none for a node that was opened since.
 */
static void move_retries_to_front(struct redis_node *node)
{
	struct command_list *waiting = &node->waiting;
	struct redis_command **older_end = node->older_waiting_end,
	                     *retries = older_end ? *older_end : NULL;
	bool has_older = older_end != &waiting->first;

	node->older_waiting_end = NULL;
	if (!retries || !has_older)
		return;
	*waiting->last = waiting->first;
	waiting->first = retries;
	waiting->last = older_end;
	*older_end = NULL;
}

/* Retries come before commands that were submitted later. */
static void assign_retries(struct redis_client *client)
{
	struct redis_command *first = command_list_take(&client->retries);

	if (!first)
		return;
	for (unsigned i = 0; i < client->node_end; i++)
		if (client->nodes[i])
			client->nodes[i]->older_waiting_end = client->nodes[i]->waiting.last;
	while (first)
		first = assign_to_node(client, first);
	for (unsigned i = 0; i < client->node_end; i++)
		if (client->nodes[i])
			move_retries_to_front(client->nodes[i]);
}

/*
 * Assigns commands to nodes, retries first, and sends what can be sent. Sending may cause retries.
 */
void nodes_send(struct redis_client *client, struct redis_command *first)
{
	do {
		assign_retries(client);
		while (first)
			first = assign_to_node(client, first);
		ask_for_map(client);
		for (unsigned i = 0; i < client->node_end; i++)
			if (client->nodes[i])
				node_send(client->nodes[i]);
	} while (client->retries.first);
}

/* Deadlines */

/* Fails commands that wait for the connection to be ready, if the first one's deadline is over. */
static void fail_late_waiting(struct redis_node *node, uint64_t now_ns)
{
	struct redis_client *client = node->client;
	uint64_t dialed_at_ns = node->ready_deadline_ns - DIALER_TIME_NS;

	if (node_is_ready(node) || !node->waiting.first || node->waiting.first->deadline_ns > now_ns)
		return;
	count_more(&client->counts.timeouts, 1);
	/*
	 * Connecting has not had the whole timeout yet, so only redirected commands are late.
	 * Assigning all commands again fails these, and keeps the others.
	 */
	if (now_ns < dialed_at_ns + client->store->options.timeout_ns) {
		nodes_send(client, command_list_take(&node->waiting));
		return;
	}
	/* All fail, because nothing is sent to an unavailable node. */
	set_unavailable(node, "it takes long to connect", now_ns + RECOVERY_CHECK_NS);
	commands_fail_all(client, command_list_take(&node->waiting), WEIR_ESTORE);
}

/*
 * Fails the commands of calls that were sent with little of their time left, because the commands
 * were repeated. A node that does not answer within that time is not to blame. So the call goes on
 * without commands until half of the timeout is over, and only then is the node dropped.
 */
static void fail_short_calls(struct redis_node *node, uint64_t now_ns)
{
	struct redis_client *client = node->client;

	LIST_EACH (node_calls(node), struct script_call, base.node, call) {
		uint64_t least_deadline_ns = call->sent_ns + client->store->options.timeout_ns / 2;

		if (call->deadline_ns > now_ns || least_deadline_ns <= now_ns)
			continue;
		count_more(&client->counts.timeouts, 1);
		call->deadline_ns = least_deadline_ns;
		script_call_fail(client, call);
		call->command_count = 0;
	}
}

/* The first deadline of the calls and of the connection. */
static uint64_t first_deadline(const struct redis_node *node)
{
	uint64_t first_ns = UINT64_MAX;

	LIST_EACH (node_calls(node), struct script_call, base.node, call)
		first_ns = u64_min(first_ns, call->deadline_ns);
	if (!node_is_ready(node))
		first_ns = u64_min(first_ns, node->ready_deadline_ns);
	return first_ns;
}

/* Drops the node because a call or the connection has reached its deadline. */
static void drop_node_at_deadline(struct redis_node *node, uint64_t now_ns)
{
	struct redis_client *client = node->client;
	char why[64];

	count_more(&client->counts.timeouts, 1);
	if (!node_is_ready(node))
		snprintf(why, sizeof why, "no connection within 1 s");
	else if (node->is_sentinel)
		snprintf(why, sizeof why, "no answer within 1 s");
	else
		snprintf(why, sizeof why, "no answer within %.6g ms",
		         (double)client->store->options.timeout_ns / NS_PER_MS);
	drop_node(node, why, now_ns + RECOVERY_CHECK_NS);
}

/* Sets the alarm for the node's next deadline. */
static void set_deadline_alarm(struct redis_node *node, uint64_t first_ns)
{
	node->was_checked_late = false;
	if (node->waiting.first && !node_is_ready(node))
		first_ns = u64_min(first_ns, node->waiting.first->deadline_ns);
	if (first_ns != UINT64_MAX)
		client_alarm_at(node->client, first_ns);
}

static bool is_late_for(uint64_t deadline_ns, uint64_t now_ns)
{
	return now_ns > sat_add(deadline_ns, CLIENT_LATE_NS);
}

/*
 * Checks the node's deadlines: fails commands, and drops the node if it does not answer. A client
 * that checks too late first reads the replies that may have arrived, and then fails commands.
 */
static void node_tick(struct redis_node *node, uint64_t now_ns)
{
	uint64_t first_ns;

	fail_late_waiting(node, now_ns);
	if (is_late_for(first_deadline(node), now_ns) && !node->was_checked_late) {
		node->was_checked_late = true;
		client_alarm_at(node->client, now_ns + CLIENT_LATE_NS);
		return;
	}
	fail_short_calls(node, now_ns);
	first_ns = first_deadline(node);
	if (first_ns > now_ns)
		set_deadline_alarm(node, first_ns);
	else
		drop_node_at_deadline(node, now_ns);
}

/* Moves all delayed commands to those that are assigned to nodes again at once. */
static void retry_later_commands(struct redis_client *client)
{
	struct redis_command *command = command_list_take(&client->delayed_retries), *next;

	for (; command; command = next) {
		next = command->next;
		command_append(&client->retries, command);
	}
}

/* Checks what is due at all nodes: attempts to connect, deadlines, recovery checks and retries. */
void nodes_tick(struct redis_client *client)
{
	uint64_t now_ns = client_now_ns(client);

	for (unsigned i = 0; i < client->node_end; i++) {
		if (client->nodes[i])
			dialer_tick(client->nodes[i]->dialer, now_ns);
		if (client->nodes[i])
			node_tick(client->nodes[i], now_ns);
		/* The cluster does not name the node any more, or only its ASK did. */
		if (client->nodes[i] && !cluster_names_node(client->store->cluster, i))
			close_if_idle(client->nodes[i]);
		/* Nodes without slots are checked only if something is sent to them. */
		if (!availability_is_up(availability_of(client, i)) &&
		    cluster_node_has_slots(client->store->cluster, i))
			check_recovery_if_due(client, i);
	}
	recovery_report(client);
	if (client->delayed_until_ns <= now_ns)
		retry_later_commands(client);
	nodes_send(client, NULL);
	if (client->delayed_retries.first)
		client_alarm_at(client, client->delayed_until_ns);
}

bool nodes_are_awaited(const struct redis_client *client)
{
	bool are_awaited =
	    client->delayed_retries.first || sentinels_are_awaited(client->store->cluster, client);

	/* A Sentinel that hangs must not delay calls. */
	for (unsigned i = 0; i < client->node_end && !are_awaited; i++)
		are_awaited =
		    client->nodes[i] && !client->nodes[i]->is_sentinel &&
		    (first_deadline(client->nodes[i]) != UINT64_MAX || client->nodes[i]->waiting.first);
	return are_awaited;
}

/* Closes all nodes because the client closes; all commands fail. */
void nodes_close(struct redis_client *client)
{
	for (unsigned i = 0; i < client->node_end; i++)
		if (client->nodes[i]) {
			struct redis_node *node = client->nodes[i];
			struct redis_command *waiting = command_list_take(&node->waiting);

			client->nodes[i] = NULL;
			node_free(node);
			commands_fail_all(client, waiting, WEIR_ESTORE);
		}
	commands_fail_all(client, command_list_take(&client->delayed_retries), WEIR_ESTORE);
	while (client->retries.first) /* followers of a command that fails become retries */
		commands_fail_all(client, command_list_take(&client->retries), WEIR_ESTORE);
	calls_free_unused(client);
}

/* Events of a connection. Each ends with send_pending. */

/* Sends retries, and the batch if it has waited for replies. */
static void send_pending(struct redis_client *client)
{
	nodes_send(client, NULL);
	batching_replied(client);
	if (client->batch_is_delayed && !batching_must_wait(client)) {
		client->batch_is_delayed = false;
		nodes_send(client, batch_take(&client->batch));
	}
	client->now_ns = 0; /* the next call reads the clock */
}

/* The connection is ready: Redis has accepted the greeting. */
static void on_accepted(void *context)
{
	struct redis_node *node = context;
	struct redis_client *client = node->client;

	node->connection = dialer_connection(node->dialer);
	node->ready_deadline_ns = 0;
	sentinels_set_replica(client->store->cluster, node->number, false);
	if (node->is_sentinel)
		availability_restore(availability_of(client, node->number));
	else if (!availability_is_up(availability_of(client, node->number)))
		recovery_check_send(node);
	map_ask_if_due(node);
	send_pending(client);
}

/* Reads replies. If one shows that the node is unusable, makes it unavailable or drops it. */
static void read_bytes(struct redis_node *node, struct slice bytes)
{
	uint64_t check_ns = client_now_ns(node->client) + RECOVERY_CHECK_NS;
	char why[sizeof node->unusable_because];
	bool must_be_closed;

	node->must_not_be_freed = true;
	must_be_closed = connection_receive(node->connection, bytes) != WEIR_OK || node->must_be_closed;
	node->must_not_be_freed = false;
	if (!must_be_closed && node->unusable_because[0] == '\0')
		return;
	snprintf(why, sizeof why, "%s",
	         node->unusable_because[0] != '\0' ? node->unusable_because
	                                           : connection_error(node->connection));
	node->unusable_because[0] = '\0';
	if (must_be_closed) { /* the replies can't be read, or Redis serves this connection no more */
		node->must_be_closed = true; /* so that drop_node counts it as a failure */
		dialer_demote_address(node->dialer);
		drop_node(node, why, check_ns);
	} else { /* a recovery check on the same connection may find the node usable again */
		set_unavailable(node, why, check_ns);
	}
}

static void on_bytes(void *context, struct slice bytes)
{
	struct redis_node *node = context;
	struct redis_client *client = node->client;

	read_bytes(node, bytes);
	send_pending(client);
}

/* The connection has ended, or could not be made. */
static void on_lost(void *context, const char *why)
{
	struct redis_node *node = context;
	struct redis_client *client = node->client;
	/*
	 * A connection that was ready may succeed again at once; a host that could not be reached will
	 * not.
	 */
	uint64_t wait_ns = node_is_ready(node) ? 0 : RECOVERY_CHECK_NS;

	drop_node(node, why, client_now_ns(client) + wait_ns);
	send_pending(client);
}

static void on_alarm(void *context, uint64_t at_ns)
{
	client_alarm_at(((struct redis_node *)context)->client, at_ns);
}

static const struct dialer_owner owner = {on_accepted, on_bytes, on_lost, on_alarm};
