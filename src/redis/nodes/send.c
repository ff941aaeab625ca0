/*
 * send.c: writes the waiting commands of a node (a connection to one Redis) as calls of scripts,
 * and handles the replies to these calls.
 *
 * The *weight* of a call is its cost for Redis. The sum of the weights under way is bounded, so
 * that Redis can serve other connections in between; further commands wait.
 */
#include "redis/nodes/send.h"

#include <stdio.h>
#include <stdlib.h>

#include "redis/cache/cache.h"
#include "redis/script_reply.h"
#include "redis/commands.h"

#define SEARCHED_MAX 256 /* the waiting commands that are searched for those of a call's slot */

/* Calls */

/* Returns an unused call or a new one; NULL if there is no memory. */
static struct script_call *new_call(struct redis_node *node)
{
	struct script_call *call =
	    list_of(list_pop(&node->client->free_calls), struct script_call, base.node);

	if (!call)
		call = malloc(sizeof *call);
	if (call) {
		call->node = node;
		call->command_count = call->weight = 0;
		call->on_reply = NULL;
	}
	return call;
}

static void recycle_call(struct script_call *call)
{
	struct list *calls = &call->node->client->free_calls;

	list_insert(calls, &call->base.node, calls->first);
}

static void handle_reply(struct script_call *call, const struct redis_reply *reply);

/* Called with the reply to a call, or with NULL if the connection has ended. */
static void on_call_reply(struct pending_reply *base, const struct redis_reply *reply)
{
	struct script_call *call = (struct script_call *)base;
	struct redis_node *node = call->node;

	node->weight_under_way -= call->weight;
	node->client->calls_under_way--;
	if (call->on_reply)
		call->on_reply(node, reply);
	else
		handle_reply(call, reply);
	recycle_call(call);
}

/* Counts a call that was written into the connection's buffer, and has its reply delivered. */
static void register_call(struct script_call *call)
{
	struct redis_node *node = call->node;

	call->sent_ns = client_now_ns(node->client);
	call->base.replied = on_call_reply;
	call->sequence_number = node->calls_sent++;
	node->weight_under_way += call->weight;
	node->client->calls_under_way++;
	connection_expect_reply(node->connection, &call->base);
	client_alarm_at(node->client, call->deadline_ns);
}

bool send_words(struct redis_node *node, uint64_t deadline_ns, send_on_reply *on_reply,
                const struct slice *words, size_t n)
{
	struct script_call *call = new_call(node);

	if (!call)
		return false;
	call->deadline_ns = deadline_ns;
	call->on_reply = on_reply;
	connection_write_words(connection_command_buffer(node->connection), words, n);
	register_call(call);
	return true;
}

/* Records an error that makes the node unusable; read_bytes() in redis_node.c acts on it. */
static void record_unusable(struct redis_node *node, struct slice text)
{
	snprintf(node->unusable_because, sizeof node->unusable_because, "Redis says %.*s",
	         (int)u64_min(text.len, 160), text.data);
}

/* Has recovery checks of the node try a real script. */
static void set_refuses_scripts(const struct redis_node *node)
{
	atomic_store(&cluster_availability(node->client->store->cluster, node->number)->refuses_scripts,
	             true);
}

/* The reply to SCRIPT LOAD. */
static void on_script_loaded(struct redis_node *node, const struct redis_reply *reply)
{
	if (!reply || reply->type != REDIS_ERROR)
		return;
	record_unusable(node, reply->text);
	set_refuses_scripts(node);
}

/* The reply to ASKING or SCRIPT LOAD: if it failed, the replies to later calls show that. */
void ignore_reply(struct redis_node *node, const struct redis_reply *reply)
{
	(void)node;
	(void)reply;
}

/*
 * Loads the script of a call that Redis did not have, unless that was done since the call was sent.
 * Returns false if there is no memory.
 */
static bool load_script(struct redis_node *node, const struct script_call *missing)
{
	/* Calls that were sent before the script was loaded miss it once more. */
	if (node->loaded_source == missing->script.source &&
	    missing->sequence_number < node->loaded_at_call)
		return true;
	if (!send_words(
	        node, missing->deadline_ns, on_script_loaded,
	        (struct slice[]){SLICE("SCRIPT"), SLICE("LOAD"), slice_of(missing->script.source)}, 3))
		return false;
	node->loaded_source = missing->script.source;
	node->loaded_at_call = node->calls_sent;
	return true;
}

/* The most times that a script is loaded for a command: an operator may flush scripts just then. */
#define LOADS_MAX 3

/* Has Redis load the script that a call misses, and has the call's commands sent again. */
static void load_and_repeat(struct redis_node *node, struct script_call *call)
{
	bool can_load = load_script(node, call);

	for (size_t i = 0; i < call->command_count; i++) {
		struct redis_command *command = call->commands[i];

		if (can_load && command->load_count++ < LOADS_MAX)
			command_append(&node->client->retries, command);
		else
			commands_fail(node->client, command, WEIR_ESTORE);
	}
}

/* The most redirections of a command: nodes may each name the other. */
#define REDIRECTS_MAX 8

/* Sends a call's commands to the node that the error names. False if it names none. */
static bool redirect_commands(struct redis_node *node, struct script_call *call, struct slice text)
{
	struct redis_store *store = node->client->store;
	struct redis_host to;
	unsigned slot, number;
	enum hash_slots_redirect kind = hash_slots_read_redirect(text, &node->host, &slot, &to);

	if (!store->url.cluster || kind == HASH_SLOTS_STAY)
		return false;
	number = kind == HASH_SLOTS_MOVED ? cluster_apply_moved(store->cluster, slot, &to)
	                                  : cluster_node_of_ask(store->cluster, &to);
	if (number == CLUSTER_NO_NODE)
		return false;
	for (size_t i = 0; i < call->command_count; i++) {
		struct redis_command *command = call->commands[i];

		command->asking_node_plus_1 = kind == HASH_SLOTS_ASK ? number + 1 : 0;
		if (command->redirect_count++ < REDIRECTS_MAX)
			command_append(&node->client->retries, command);
		else
			commands_fail(node->client, command, WEIR_ESTORE);
	}
	return true;
}

/*
 * Handles TRYAGAIN: a slot is moving, and not all keys of the call are at this node. The commands
 * are repeated one by one, since a single key is here, or the error ASK says that it is at the
 * other node. Only a group, and a command that was alone, have to wait.
 */
static void retry_one_by_one(struct redis_client *client, struct script_call *call)
{
	for (size_t i = 0; i < call->command_count; i++) {
		struct redis_command *command = call->commands[i];
		bool waits = command->needs_own_call || command->group != 0;

		command->needs_own_call = true;
		command->asking_node_plus_1 = 0;
		/* While the slot is moving, only the deadline ends the tries. */
		command->redirect_count = 0;
		if (waits)
			command_retry_later(client, command);
		else
			command_append(&client->retries, command);
	}
}

/*
 * Handles an error in place of a script's reply: repeats the commands, or fails them. After an
 * error that fails them a cluster's map of slots is read again, since it may be out of date.
 */
static void handle_error_reply(struct redis_node *node, struct script_call *call, struct slice text)
{
	enum error_effect error = error_effect_of(text);

	if (error == ERROR_NEEDS_SCRIPT) {
		load_and_repeat(node, call);
		return;
	}
	if (error == ERROR_IS_TRANSIENT) {
		retry_one_by_one(node->client, call);
		return;
	}
	if (error == ERROR_REDIRECTS && redirect_commands(node, call, text))
		return;
	/*
	 * Not handled above: the node is not usable, unless the error is of this call alone. That
	 * holds for a redirection, too, whose target makes no sense.
	 */
	if (error != ERROR_FAILS_CALL)
		record_unusable(node, text);
	if (error == ERROR_SCRIPT_REFUSED)
		set_refuses_scripts(node);
	node->must_be_closed |= error == ERROR_CONNECTION_USELESS;
	node->is_replica |= redis_error_is(text, "READONLY");
	cluster_doubt(node->client->store->cluster);
	script_call_fail(node->client, call);
}

/*
 * A reply that no script gives shows that replies are out of step with calls, or that this is not a
 * Redis.
 */
static void handle_invalid_reply(struct redis_node *node, struct script_call *call,
                                 const struct redis_reply *reply)
{
	static const char *const names[] = {
	    [REDIS_NIL] = "nothing", [REDIS_INTEGER] = "a number", [REDIS_TEXT] = "a text"};

	if (reply->type == REDIS_ARRAY)
		snprintf(node->unusable_because, sizeof node->unusable_because,
		         "expected %zu values and a time from a script, found %zu values and no time",
		         call->command_count, reply->count);
	else
		snprintf(node->unusable_because, sizeof node->unusable_because,
		         "expected an array from a script, found %s", names[reply->type]);
	node->must_be_closed = true;
	script_call_fail(node->client, call);
}

/* Counts a round trip in the histogram of latencies. */
static void count_round_trip(struct redis_client *client, uint64_t time_ns)
{
	size_t i = 0;

	while (i < REDIS_LATENCY_BUCKETS - 1 && time_ns > redis_latency_bound_ns(i))
		i++;
	count_more(&client->counts.latency_counts[i], 1);
	count_more(&client->counts.latency_sum_ns, time_ns);
}

static void handle_reply(struct script_call *call, const struct redis_reply *reply)
{
	struct redis_client *client = call->node->client;
	bool is_of_script = reply && command_clock(reply, call->command_count) != 0;

	if (reply)
		count_round_trip(client, sat_sub(client_now_ns(client), call->sent_ns));
	if (!reply)
		script_call_fail(client, call);
	else if (reply->type == REDIS_ERROR)
		handle_error_reply(call->node, call, reply->text);
	else if (call->command_count == 0)
		; /* its commands have failed already */
	else if (!is_of_script)
		handle_invalid_reply(call->node, call, reply);
	else
		script_call_complete(client, call, reply, &client->retries);
}

/* Sending */

/* The number of commands of a group, which stand one after another. */
static size_t group_size(const struct redis_command *command)
{
	uint32_t group = command->group;
	size_t n = 0;

	for (; command && (command->group == group || n == 0); command = command->next)
		n++;
	return n;
}

/* Whether a call may have both commands. */
static bool may_share_call(const struct redis_command *first, const struct redis_command *command)
{
	return first->slot == command->slot &&
	       first->asking_node_plus_1 == command->asking_node_plus_1 &&
	       ((!first->needs_own_call && !command->needs_own_call) || first == command ||
	        (first->group != 0 && first->group == command->group));
}

/*
 * The cost of a command for Redis, as measured; an acquire on a bucket (RECORD_NONE) counts 1. So a
 * full call of any commands takes Redis no longer than a full call on buckets. Redis reads and
 * writes all slots of a state, and tries a group before it carries the group out. A refund takes as
 * long as two acquires.
 */
static size_t weight_of(const struct redis_command *command)
{
	static const unsigned char weights[] = {
	    [ALGO_RECORD_NONE] = 1, [ALGO_RECORD_SLOTS] = 1,  [ALGO_RECORD_LOG] = 8,
	    [ALGO_RECORD_DAY] = 2,  [ALGO_RECORD_LEASES] = 4, [ALGO_RECORD_BREAKER] = 16};
	const struct algo_limit *limit = command->limit;
	size_t weight = weights[limit->record];
	uint64_t two_thirds_of_slots; /* rounded up */

	if (limit->record == ALGO_RECORD_SLOTS) {
		two_thirds_of_slots = (2 * (uint64_t)limit->slots.slots + 2) / 3;
		weight += u64_min(two_thirds_of_slots, CALL_COMMANDS_FULL);
	}
	if (command->attempt.swap)
		weight += 3;
	if (command->settlement.may_have_chunks || command->chunk_use.takes_chunk)
		weight += 3;
	return command->group != 0 || algo_op_releases(command->call.op) ? 2 * weight : weight;
}

/* Whether the call can get the whole group that begins with this command. */
static bool group_fits(const struct script_call *call, const struct redis_command *command,
                       size_t searched)
{
	size_t size = group_size(command);

	return size <= CALL_COMMANDS_MAX - call->command_count && size <= SEARCHED_MAX - searched;
}

/*
 * Moves the first command and others of its slot into the call, as many as it can have; a group as
 * a whole.
 */
static void fill_call(struct command_list *list, struct script_call *call, bool uses_given_time)
{
	const struct redis_command *first = list->first;
	struct redis_command **at = &list->first;
	uint32_t group = 0;

	for (size_t searched = 0;
	     *at && searched < SEARCHED_MAX && call->command_count < CALL_COMMANDS_MAX; searched++) {
		struct redis_command *command = *at;
		bool continues_group = command->group != 0 && command->group == group;
		bool begins_group = command->group != 0 && command->group != group;

		if (!continues_group && call->weight >= CALL_COMMANDS_FULL)
			break; /* only the rest of a group may exceed the weight */
		if (!may_share_call(first, command)) {
			at = &command->next;
			continue;
		}
		if (begins_group && call->command_count > 0 && !group_fits(call, command, searched))
			break; /* a group is not divided */
		if (uses_given_time && call->command_count > 0 &&
		    command->local_time.now_ns != call->commands[0]->local_time.now_ns)
			break; /* a call has one time */
		group = command->group;
		*at = command->next;
		call->deadline_ns = u64_min(call->deadline_ns, command->deadline_ns);
		call->weight += weight_of(command);
		call->commands[call->command_count++] = command;
	}
	if (!*at) /* the last command may have been moved */
		list->last = at;
}

static const struct redis_command *command_of(const struct script_call *call)
{
	return call->commands[0];
}

/* Writes the call, after ASKING if its slot is moving to this node. False if there is no memory. */
static bool write_call(struct script_call *call)
{
	struct redis_node *node = call->node;

	return (command_of(call)->asking_node_plus_1 == 0 ||
	        send_words(node, call->deadline_ns, ignore_reply, &SLICE("ASKING"), 1)) &&
	       command_write(call->commands, call->command_count,
	                     connection_command_buffer(node->connection), &call->script) == WEIR_OK;
}

/*
 * The time after which a command is not sent any more: its call gets at least half of
 * store_timeout.
 */
static uint64_t last_send_ns(const struct redis_client *client, const struct redis_command *command)
{
	return command->deadline_ns - client->store->options.timeout_ns / 2;
}

/* Fails the commands that have waited too long for calls under way. */
static void fail_expired_waiting(struct redis_node *node)
{
	struct redis_client *client = node->client;
	struct command_list *waiting = &node->waiting;
	struct redis_command *late = NULL, **end = &late;

	while (waiting->first && last_send_ns(client, waiting->first) <= client_now_ns(client)) {
		*end = waiting->first;
		end = &(*end)->next;
		waiting->first = *end;
	}
	*end = NULL;
	if (!waiting->first)
		command_list_clear(waiting);
	commands_fail_all(client, late, WEIR_ESTORE);
}

/* Counts a call of a script that was written, and records its last key for batching.c. */
static void register_script_call(struct script_call *call)
{
	struct redis_client *client = call->node->client;
	const struct redis_command *last = call->commands[call->command_count - 1];

	call->weight += CALL_WEIGHT;
	client->batching.newest_key_hash = last->operations->step.key.hash;
	count_more(&client->counts.calls, 1);
	count_more(&client->counts.steps, call->command_count);
	register_call(call);
}

/* Writes waiting commands as calls, until the weight under way reaches its bound. */
void node_send(struct redis_node *node)
{
	struct redis_client *client = node->client;
	bool has_written = false, could_not_be_freed = node->must_not_be_freed;

	if (!node_is_ready(node))
		return;
	node->must_not_be_freed = true; /* `done` of a failed command may submit, which closes nodes */
	node->older_waiting_end = NULL; /* it may point into a command that is sent now */
	if (node->reached_weight_max)
		fail_expired_waiting(node);
	while (node->waiting.first && node->weight_under_way < NODE_WEIGHT_MAX) {
		struct script_call *call = new_call(node);

		if (!call) {
			commands_fail_all(client, command_list_take(&node->waiting), WEIR_ENOMEM);
			break;
		}
		call->deadline_ns = UINT64_MAX; /* fill_call reduces it */
		fill_call(&node->waiting, call, client->store->options.given_time);
		for (size_t i = 0; i < call->command_count; i++)
			cache_prepare(client, call->commands[i]);
		if (!write_call(call)) {
			script_call_fail(client, call);
			recycle_call(call);
			continue;
		}
		register_script_call(call);
		has_written = true;
	}
	node->must_not_be_freed = could_not_be_freed;
	node->reached_weight_max = node->waiting.first != NULL;
	if (node->reached_weight_max)
		client_alarm_at(client, last_send_ns(client, node->waiting.first));
	if (has_written)
		dialer_send(node->dialer);
}

void calls_free_unused(struct redis_client *client)
{
	struct script_call *call;

	while ((call = list_of(list_pop(&client->free_calls), struct script_call, base.node)))
		free(call);
}
