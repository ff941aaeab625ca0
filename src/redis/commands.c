#include "redis/commands.h"

#include <stdlib.h>

#include "algo/algo.h"
#include "redis/cache/cache.h"
#include "redis/commands/exchange.h"
#include "redis/followers.h"
#include "redis/nodes/hash_slots.h"

/* The most unused commands that a client retains, and the longest name that one retains. */
#define FREE_MAX   4096
#define FREE_NAME  256

/*
 * The longest time for which a key is reserved after a swap came too late; mostly it is half of the
 * timeout.
 */
#define TICKET_MAX_NS (100 * NS_PER_MS)

void batch_init(struct batch *batch)
{
	command_list_clear(&batch->commands);
	batch->number = 1;
}

struct redis_command *batch_take(struct batch *batch)
{
	batch->count = 0;
	batch->number++;
	return command_list_take(&batch->commands);
}

/* Commands */

static struct redis_command *allocate_command(struct redis_client *client)
{
	struct redis_command *command = client->free_commands;

	if (!command) {
		command = calloc(1, sizeof *command);
	} else {
		client->free_commands = command->next;
		client->free_command_count--;
	}
	client->command_count += command != NULL;
	return command;
}

static void recycle_command(struct redis_client *client, struct redis_command *command)
{
	struct buffer name = command->name;

	client->command_count--;
	command_free_swap(command);
	if (client->free_command_count >= FREE_MAX || name.capacity > FREE_NAME) {
		buffer_free(&name);
		name = (struct buffer){0};
	}
	if (client->free_command_count >= FREE_MAX) {
		free(command);
		return;
	}
	name.len = 0;
	command->name = name; /* the other members are set when the command is used again */
	command->next = client->free_commands;
	client->free_commands = command;
	client->free_command_count++;
}

void commands_free_unused(struct redis_client *client)
{
	while (client->free_commands) {
		struct redis_command *command = client->free_commands;

		client->free_commands = command->next;
		buffer_free(&command->name);
		free(command);
	}
}

/* Completing operations. `done` may submit further ones, also on the same key. */

static void complete_operations(struct redis_client *client, struct store_operation *first)
{
	while (first) {
		struct store_operation *operation = first;

		first = operation->next;
		client->operation_count--;
		count_more(&client->counts.failed, operation->status != WEIR_OK);
		operation->done(operation);
	}
}

void commands_refuse(struct redis_client *client, struct store_operation *first, int status)
{
	for (struct store_operation *operation = first; operation; operation = operation->next)
		operation->status = status;
	complete_operations(client, first);
}

void commands_fail(struct redis_client *client, struct redis_command *command, int status)
{
	struct store_operation *operations = command->operations;

	cache_record_end(client, command, COMMAND_FAILED);
	*command->last = command->waiters;
	followers_release(client, command);
	recycle_command(client, command);
	commands_refuse(client, operations, status);
}

void commands_fail_all(struct redis_client *client, struct redis_command *first, int status)
{
	while (first) {
		struct redis_command *command = first;

		first = command->next;
		commands_fail(client, command, status);
	}
}

void commands_set_outcomes(struct redis_client *client, struct redis_command *command,
                           enum command_end end)
{
	bool withheld = end != COMMAND_DONE;
	size_t i = 0;

	for (struct store_operation *operation = command->operations; operation;
	     operation = operation->next) {
		operation->status = WEIR_OK;
		operation->withheld = withheld;
		operation->is_undecided = end == COMMAND_UNASKED;
		operation->outcome = client->result.outcomes[i];
		operation->until_ns = client->result.until_ns[i];
		operation->clock_ns =
		    command->uses_given_time ? operation->step.at.wall_ns : client->redis_clock_ns;
		i += i + 1 < command->request_count;
		client->batching.answered_operations++;
	}
	cache_record_end(client, command, end);
}

/* From operations to commands */

static struct batch_index_entry *index_entry_of(struct batch *batch,
                                                const struct store_operation *operation)
{
	for (size_t i = operation->step.key.hash;; i++) {
		struct batch_index_entry *entry = &batch->index[i % BATCH_INDEX_SIZE];

		if (entry->batch_number != batch->number ||
		    (entry->command->operations->step.key.hash == operation->step.key.hash &&
		     slice_equal(entry->command->operations->key_name, operation->key_name)))
			return entry;
	}
}

/* A permit belongs to one request. Equal peeks are decided once for all. */
static bool may_repeat(const struct store_operation *operation)
{
	const struct algo_call *call = &operation->step.call;

	return algo_op_requests(call->op) && !algo_op_replaces(call->op) && call->cost > 0 &&
	       call->permit == 0 && !operation->is_all_or_nothing;
}

/* `is_given`: operations are decided at the time that the caller gives, which must be the same. */
static bool can_join(const struct redis_command *command, const struct store_operation *operation,
                     bool is_given)
{
	const struct store_operation *first = command->operations;

	return command->request_count < COMMAND_REPEAT_MAX && may_repeat(first) &&
	       may_repeat(operation) && first->step.call.op == operation->step.call.op &&
	       first->step.limit == operation->step.limit &&
	       first->step.call.cost == operation->step.call.cost &&
	       first->step.call.earlier == operation->step.call.earlier &&
	       first->step.call.max_wait_ns == operation->step.call.max_wait_ns &&
	       (!is_given || first->step.at.now_ns == operation->step.at.now_ns);
}

static void append_operation(struct redis_command *command, struct store_operation *operation)
{
	operation->next = NULL;
	*command->last = operation;
	command->last = &operation->next;
}

/* NULL if there is no memory. */
static struct redis_command *make_command(struct redis_client *client,
                                          struct store_operation *operation)
{
	struct redis_command *command = allocate_command(client);
	const struct store_step *step = &operation->step;

	if (!command)
		return NULL;
	if (algo_op_exchanges(step->call.op))
		exchange_key(&command->name, client->store->prefix, (const struct exchange *)operation);
	else
		command_key(&command->name, client->store->prefix, operation->key_name,
		            operation->limit_name);
	if (command->name.failed) {
		buffer_free(&command->name);
		recycle_command(client, command);
		return NULL;
	}
	*command = (struct redis_command){
	    .name = command->name,
	    .limit = step->limit,
	    .key = {command->name.data, command->name.len},
	    .call = step->call,
	    .request_count = 1,
	    .local_time = step->at,
	    .uses_given_time = client->store->options.given_time,
	    .queue_ticket = client->queue_ticket,
	    .exchange = algo_op_exchanges(step->call.op) ? (struct exchange *)operation : NULL,
	    .reservation_us =
	        (uint32_t)(u64_min(client->store->options.timeout_ns / 2, TICKET_MAX_NS) / 1000),
	};
	command->needs_own_call = command->exchange != NULL;
	command->last = &command->operations;
	command->last_waiter = &command->waiters;
	append_operation(command, operation);
	command_list_clear(&command->followers);
	if (client->store->url.cluster)
		command->slot = hash_slot_of(command->key);
	if (!command->exchange)
		cache_register(client, command, operation);
	return command;
}

/* Adds the operation to the command if both request the same. Whether it did. */
static bool join_command(const struct redis_client *client, struct redis_command *command,
                         struct store_operation *operation)
{
	if (!can_join(command, operation, client->store->options.given_time))
		return false;
	append_operation(command, operation);
	command->request_count += algo_op_consumes(operation->step.call.op);
	return true;
}

/*
 * Makes a command for an operation that the cache did not answer; it takes a chunk if the cache
 * said so. NULL if there is no memory.
 */
static struct redis_command *make_command_for_miss(struct redis_client *client,
                                                   struct store_operation *operation,
                                                   enum cache_answer answer)
{
	struct redis_command *command = make_command(client, operation);

	if (command && answer == CACHE_REQUEST_CHUNK)
		cache_request_chunk(client, command);
	return command;
}

/*
 * Decides operations that have waited for a command to take a chunk. Returns those that the chunk
 * grants; makes commands of the others.
 */
static struct store_operation *serve_waiters(struct redis_client *client,
                                             struct store_operation *operations)
{
	struct store_operation *served = NULL, **last = &served;
	struct redis_command *command = NULL;
	enum cache_answer answer = CACHE_NONE;

	while (operations) {
		struct store_operation *operation = operations;

		operations = operation->next;
		operation->next = NULL;
		if (!command && (cache_grant_waiter(client, operation) ||
		                 (answer = cache_answer(client, operation, false)) == CACHE_ANSWERED)) {
			*last = operation;
			last = &operation->next;
			client->batching.answered_operations++;
			continue;
		}
		if (command && join_command(client, command, operation))
			continue;
		command = make_command_for_miss(client, operation, command ? CACHE_NONE : answer);
		if (!command) {
			commands_refuse(client, operation, WEIR_ENOMEM);
			continue;
		}
		followers_register_if_slow(client, command);
		command_append(&client->retries, command);
	}
	return served;
}

void commands_finish(struct redis_client *client, struct redis_command *command)
{
	struct store_operation *operations = command->operations;

	/* Waiters come before followers, which were submitted later. */
	*command->last = serve_waiters(client, command->waiters);
	followers_release(client, command);
	recycle_command(client, command);
	complete_operations(client, operations);
}

/* Adds the operation to the newest command of its key if that is not sent yet. Whether it did. */
static bool join_unsent_command(struct redis_client *client, struct redis_command *gathered,
                                struct redis_command *slow, struct store_operation *operation)
{
	if (gathered && !gathered->followers.first)
		return join_command(client, gathered, operation);
	return slow && slow->followers.first && join_command(client, slow->newest_follower, operation);
}

/*
 * Adds the operation to a command that takes a chunk, or has it wait for that chunk. Whether it
 * did.
 */
static bool await_chunk(struct redis_client *client, struct redis_command *gathered,
                        struct redis_command *slow, struct store_operation *operation)
{
	if (!slow->chunk_use.takes_chunk || slow->followers.first ||
	    !algo_op_consumes(operation->step.call.op) || !chunk_applies(operation) ||
	    chunk_name(operation).request_hash != slow->chunk_use.name.request_hash)
		return false;
	if (gathered == slow && !slow->waiters && join_command(client, slow, operation))
		return true;
	operation->next = NULL;
	*slow->last_waiter = operation;
	slow->last_waiter = &operation->next;
	return true;
}

/* Appends the command to the batch, as the newest of its key. */
static void append_to_batch(struct redis_client *client, struct redis_command *command)
{
	struct batch *batch = &client->batch;

	followers_register_if_slow(client, command);
	*index_entry_of(batch, command->operations) =
	    (struct batch_index_entry){batch->number, command};
	command_append(&batch->commands, command);
	batch->count++;
}

/*
 * Answers the operation from the cache, or makes it part of a command: of the batch, of an earlier
 * one, or of one to follow that. The cache is asked here because operations submitted before this
 * one may have changed it. Whether the operation has ended.
 */
static bool add_operation(struct redis_client *client, struct store_operation *operation)
{
	struct batch *batch = &client->batch;
	struct batch_index_entry *entry = index_entry_of(batch, operation);
	struct redis_command *gathered = entry->batch_number == batch->number ? entry->command : NULL;
	/* Operations of a group do not wait: their keys would have to wait for one another. */
	struct redis_command *slow =
	    operation->is_all_or_nothing ? NULL : followers_find_slow(client, operation);
	struct redis_command *command;
	enum cache_answer answer = CACHE_NONE;

	operation->status = WEIR_OK;
	if (slow && await_chunk(client, gathered, slow, operation))
		return false;
	if (!slow)
		answer = cache_answer(client, operation, !gathered);
	if (answer == CACHE_ANSWERED)
		return true;
	if (answer == CACHE_NONE && join_unsent_command(client, gathered, slow, operation))
		return false;
	command = make_command_for_miss(client, operation, answer);
	if (!command) {
		operation->status = WEIR_ENOMEM;
		return true;
	}
	if (slow)
		followers_add(slow, command);
	else
		append_to_batch(client, command);
	return false;
}

/*
 * Whether two commands are on one key. Such a group can't be tried before it is done: each command
 * would find units that only one of them can have.
 */
static bool has_key_twice(const struct redis_command *first)
{
	for (const struct redis_command *command = first; command; command = command->next)
		for (const struct redis_command *other = command->next; other; other = other->next)
			if (slice_equal(command->key, other->key))
				return true;
	return false;
}

/*
 * Moves the first command and all others of its slot to the batch, one after another, as one group.
 */
static void append_slot_to_batch(struct redis_client *client, struct redis_command **from,
                                 bool is_group)
{
	struct redis_command **at = from, *command, *first = *from;
	unsigned slot = first->slot;
	uint32_t group = 0;

	while ((command = *at)) {
		if (command->slot != slot) {
			at = &command->next;
			continue;
		}
		*at = command->next;
		if (command != first && group == 0 && is_group)
			group = first->group =
			    ++client->newest_group ? client->newest_group : ++client->newest_group;
		command->group = group;
		append_to_batch(client, command);
	}
}

/* Makes commands that are all or nothing; if memory is short, all operations fail. */
static void add_group(struct redis_client *client, struct store_operation *operations)
{
	struct redis_command *first = NULL, **last = &first;
	bool is_group;

	while (operations) {
		struct store_operation *operation = operations;
		struct redis_command *command;

		operations = operation->next;
		command = make_command(client, operation);
		if (!command) {
			operation->next = operations;
			commands_fail_all(client, first, WEIR_ENOMEM);
			commands_refuse(client, operation, WEIR_ENOMEM);
			return;
		}
		command->next = NULL;
		*last = command;
		last = &command->next;
	}
	is_group = !has_key_twice(first);
	while (first)
		append_slot_to_batch(client, &first, is_group);
}

void commands_add(struct redis_client *client, struct store_operation *operations, bool together)
{
	struct store_operation *ended = NULL, **last = &ended;

	if (together && cache_answer_group(client, operations)) {
		complete_operations(client, operations);
		return;
	}
	if (together) {
		add_group(client, operations);
		return;
	}
	while (operations) {
		struct store_operation *operation = operations;

		operations = operation->next;
		if (add_operation(client, operation)) {
			*last = operation;
			last = &operation->next;
		}
	}
	*last = NULL;
	complete_operations(client, ended); /* only now, because `done` may submit more operations */
}
