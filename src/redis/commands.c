/*
 * commands.c: turns the operations that are submitted to a store client into *commands* for Redis,
 * and completes the operations when their command has ended.
 *
 * Equal operations share one command, which makes one request for each of them. New commands gather
 * in the client's *batch*, until it is sent. A *slow* command may need several calls; until it has
 * ended, later commands of its key wait as its followers (followers.c). If it reserves a *chunk* of
 * units (cache/chunks.c), operations that these may serve wait for it without a command.
 */
#include "redis/commands.h"

#include <stdlib.h>

#include "algo/algo.h"
#include "redis/cache/cache.h"
#include "redis/commands/exchange.h"
#include "redis/followers.h"
#include "redis/nodes/hash_slots.h"

/* The most unused commands that a client retains, and the largest name buffer that one retains. */
#define FREE_COMMANDS_MAX 4096
#define FREE_NAME_MAX     256

/*
 * Mostly a key is reserved for half of the timeout after a swap (the replacement of a value that C
 * has read) came too late; never longer than this.
 */
#define RESERVATION_MAX_NS (100 * NS_PER_MS)

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

/* Returns an unused command or a new one, whose members the caller sets; NULL if it has no memory.
 */
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

/* Retains a command that has ended for the next use, or frees it if there are many. */
static void recycle_command(struct redis_client *client, struct redis_command *command)
{
	struct buffer name = command->name;

	client->command_count--;
	command_free_swap(command);
	if (client->free_command_count >= FREE_COMMANDS_MAX || name.capacity > FREE_NAME_MAX) {
		buffer_free(&name);
		name = (struct buffer){0};
	}
	if (client->free_command_count >= FREE_COMMANDS_MAX) {
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

/* Completes operations, which have no command, with an error. */
void commands_refuse(struct redis_client *client, struct store_operation *first, int status)
{
	for (struct store_operation *operation = first; operation; operation = operation->next)
		operation->status = status;
	complete_operations(client, first);
}

/* Ends a command, and completes its operations with an error. */
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

/* Copies the outcomes in client->result to the operations of the command. */
void commands_set_outcomes(struct redis_client *client, struct redis_command *command,
                           enum command_end end)
{
	/* Not carried out, because another command of the group was refused. */
	bool withheld = end == COMMAND_WITHHELD || end == COMMAND_UNDECIDED;
	size_t i = 0; /* each acquire has an outcome; peeks are one request, and share its outcome */

	for (struct store_operation *operation = command->operations; operation;
	     operation = operation->next) {
		operation->status = WEIR_OK;
		operation->withheld = withheld;
		operation->is_undecided = end == COMMAND_UNDECIDED;
		operation->outcome = client->result.outcomes[i];
		operation->until_ns = client->result.until_ns[i];
		operation->clock_ns =
		    command->uses_given_time ? operation->step.at.wall_ns : client->redis_clock_ns;
		if (i + 1 < command->request_count)
			i++;
		client->batching.answered_operations++;
	}
	cache_record_end(client, command, end);
}

/* From operations to commands */

/* The batch's entry for the key of an operation, or the empty one where it would stand. */
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

/* Whether the command of this operation may serve equal operations. A permit belongs to one only.
 */
static bool may_be_shared(const struct store_operation *operation)
{
	const struct algo_call *call = &operation->step.call;

	return algo_op_requests(call->op) && !algo_op_replaces(call->op) && call->cost > 0 &&
	       call->permit == 0 && !operation->is_all_or_nothing;
}

/*
 * Whether the operation requests the same as the command's. For tests with `given_time` both must
 * have the same time, by which Redis then decides.
 */
static bool can_join(const struct redis_command *command, const struct store_operation *operation,
                     bool given_time)
{
	const struct store_operation *first = command->operations;

	return command->request_count < COMMAND_REPEAT_MAX && may_be_shared(first) &&
	       may_be_shared(operation) && first->step.call.op == operation->step.call.op &&
	       first->step.limit == operation->step.limit &&
	       first->step.call.cost == operation->step.call.cost &&
	       first->step.call.earlier == operation->step.call.earlier &&
	       first->step.call.max_wait_ns == operation->step.call.max_wait_ns &&
	       (!given_time || first->step.at.now_ns == operation->step.at.now_ns);
}

static void append_operation(struct redis_command *command, struct store_operation *operation)
{
	operation->next = NULL;
	*command->last = operation;
	command->last = &operation->next;
}

/* Makes a command of one operation; it is in no list yet. NULL if there is no memory. */
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
	        (uint32_t)(u64_min(client->store->options.timeout_ns / 2, RESERVATION_MAX_NS) / 1000),
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

/* Adds the operation to the command if both request the same. Returns whether it did. */
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
 * Makes a command for an operation that the cache did not answer. After CACHE_REQUEST_CHUNK the
 * command also reserves a chunk of units. NULL if there is no memory.
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

/* Answers the operation from the chunk or the cache. Returns whether it could; sets *answer if not.
 */
static bool answer_waiter(struct redis_client *client, struct store_operation *operation,
                          enum cache_answer *answer)
{
	if (cache_grant_waiter(client, operation))
		return true;
	*answer = cache_answer(client, operation, false);
	return *answer == CACHE_ANSWERED;
}

/*
 * Decides operations that have waited for a command to reserve a chunk. Returns those that the
 * chunk grants, in order. From the first one that it does not grant on, they become commands, which
 * are sent at once as retries. The first of these commands may reserve a further chunk.
 */
static struct store_operation *serve_waiters(struct redis_client *client,
                                             struct store_operation *operations)
{
	struct store_operation *served = NULL, **last = &served;
	struct redis_command *command = NULL;
	enum cache_answer answer = CACHE_MISS;
	bool chunk_is_used_up = false;

	while (operations) {
		struct store_operation *operation = operations;

		operations = operation->next;
		operation->next = NULL;
		if (!chunk_is_used_up && answer_waiter(client, operation, &answer)) {
			*last = operation;
			last = &operation->next;
			client->batching.answered_operations++;
			continue;
		}
		chunk_is_used_up = true;
		if (command && join_command(client, command, operation))
			continue;
		command = make_command_for_miss(client, operation, answer);
		answer = CACHE_MISS;
		if (!command) {
			commands_refuse(client, operation, WEIR_ENOMEM);
			continue;
		}
		followers_register_if_slow(client, command);
		command_append(&client->retries, command);
	}
	return served;
}

/* Ends a command whose operations have their outcomes, and completes these. */
void commands_finish(struct redis_client *client, struct redis_command *command)
{
	struct store_operation *operations = command->operations;

	/* Waiters come before followers, which were submitted later. */
	*command->last = serve_waiters(client, command->waiters);
	followers_release(client, command);
	recycle_command(client, command);
	complete_operations(client, operations);
}

/*
 * Adds the operation to the newest command of its key if that is not sent yet: one of the batch, or
 * the last follower of a slow command. Returns whether it did.
 */
static bool join_unsent_command(struct redis_client *client, struct redis_command *gathered,
                                struct redis_command *slow, struct store_operation *operation)
{
	if (gathered && !gathered->followers.first)
		return join_command(client, gathered, operation);
	return slow && slow->followers.first && join_command(client, slow->newest_follower, operation);
}

/* Whether the slow command reserves a chunk from which the operation, next in turn, can be granted.
 */
static bool chunk_may_serve(const struct redis_command *slow,
                            const struct store_operation *operation)
{
	bool is_next = !slow->followers.first; /* otherwise it would overtake these */

	return slow->chunk_use.takes_chunk && is_next && algo_op_consumes(operation->step.call.op) &&
	       chunk_applies(operation) &&
	       chunk_name(operation).request_hash == slow->chunk_use.name.request_hash;
}

/*
 * If the key's slow command reserves a chunk that may serve the operation, adds the operation to
 * the command, or to the operations that wait for the chunk. Returns whether it did.
 */
static bool await_chunk(struct redis_client *client, struct redis_command *gathered,
                        struct redis_command *slow, struct store_operation *operation)
{
	bool is_unsent = gathered == slow;

	if (!chunk_may_serve(slow, operation))
		return false;
	/* Waiters came before this operation. */
	if (is_unsent && !slow->waiters && join_command(client, slow, operation))
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
 * Answers the operation from the cache, or makes it part of a command: of one in the batch, of the
 * key's slow command (followers.h), or of a follower of that. Returns whether the operation has
 * ended, so that it can be completed.
 */
static bool answer_or_add(struct redis_client *client, struct store_operation *operation)
{
	struct batch *batch = &client->batch;
	struct batch_index_entry *entry = index_entry_of(batch, operation);
	/* The command of the batch for the key, and the key's slow one, sent or not; perhaps the same.
	 */
	struct redis_command *gathered = entry->batch_number == batch->number ? entry->command : NULL;
	/* Operations of a group do not wait: their keys would have to wait for one another. */
	struct redis_command *slow =
	    operation->is_all_or_nothing ? NULL : followers_find_slow(client, operation);
	struct redis_command *command;
	enum cache_answer answer = CACHE_MISS;
	bool is_first_on_key = !slow && !gathered;

	operation->status = WEIR_OK;
	if (slow && await_chunk(client, gathered, slow, operation))
		return false;
	if (!slow)
		answer = cache_answer(client, operation, is_first_on_key);
	if (answer == CACHE_ANSWERED)
		return true;
	if (answer == CACHE_MISS && join_unsent_command(client, gathered, slow, operation))
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

static uint32_t next_group_number(struct redis_client *client)
{
	if (++client->newest_group == 0) /* 0 means no group */
		client->newest_group = 1;
	return client->newest_group;
}

/*
 * Moves the first command of the list and all others of its slot to the batch, one after another;
 * if is_group, as one group.
 */
static void append_slot_to_batch(struct redis_client *client, struct redis_command **list,
                                 bool is_group)
{
	struct redis_command **at = list, *command, *first = *list;
	unsigned slot = first->slot;
	uint32_t group = 0; /* until a second command is found: one command needs no group */

	while ((command = *at)) {
		if (command->slot != slot) {
			at = &command->next;
			continue;
		}
		*at = command->next;
		if (command != first && group == 0 && is_group)
			group = first->group = next_group_number(client);
		command->group = group;
		append_to_batch(client, command);
	}
}

/*
 * Makes commands of operations that are all or nothing, one group for each slot. If memory is
 * short, all operations fail.
 */
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

/* Adds operations to the batch, or answers them from the cache. */
void commands_add(struct redis_client *client, struct store_operation *operations,
                  bool all_or_nothing)
{
	struct store_operation *ended = NULL, **last = &ended;

	if (all_or_nothing && cache_answer_group(client, operations)) {
		complete_operations(client, operations);
		return;
	}
	if (all_or_nothing) {
		add_group(client, operations);
		return;
	}
	while (operations) {
		struct store_operation *operation = operations;

		operations = operation->next;
		if (answer_or_add(client, operation)) {
			*last = operation;
			last = &operation->next;
		}
	}
	*last = NULL;
	complete_operations(client, ended); /* only now, because `done` may submit more operations */
}
