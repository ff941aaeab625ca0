/*
 * followers.c: keeps the order of commands on one key.
 *
 * A *slow* command may need several calls, and commands sent after its first call would overtake
 * it. Therefore later commands of its key become its *followers*, which are sent when it has ended.
 */
#include "redis/followers.h"

#include "algo/algo.h"
#include "algo/rates/bucket.h"
#include "algo/rates/window.h"

/* Whether a command may need several calls, because no script decides it alone. */
static bool may_need_several_calls(const struct algo_limit *limit, const struct algo_call *call)
{
	if (limit->record == ALGO_RECORD_LOG || limit->record == ALGO_RECORD_LEASES)
		return false;
	return (algo_op_consumes(call->op) || algo_op_releases(call->op)) &&
	       !algo_has_step(limit, bucket_step) && !algo_has_step(limit, window_step);
}

static bool is_of_key(const struct redis_command *command, const struct store_operation *operation)
{
	return command->operations->step.key.hash == operation->step.key.hash &&
	       slice_equal(command->operations->key_name, operation->key_name);
}

static struct list *slow_list_of(struct redis_client *client,
                                 const struct store_operation *operation)
{
	return &client->slow_commands[operation->step.key.hash % CLIENT_SLOW_LISTS];
}

struct redis_command *followers_find_slow(struct redis_client *client,
                                          const struct store_operation *operation)
{
	if (client->slow_command_count > 0)
		LIST_EACH (slow_list_of(client, operation), struct redis_command, slow_node, command)
			if (is_of_key(command, operation))
				return command;
	return NULL;
}

/* Called when a command is about to be sent: if it is slow, later commands of its key find it. */
void followers_register_if_slow(struct redis_client *client, struct redis_command *command)
{
	struct list *list = slow_list_of(client, command->operations);

	command_list_clear(&command->followers);
	command->is_slow =
	    command->chunk_use.takes_chunk || may_need_several_calls(command->limit, &command->call);
	if (!command->is_slow)
		return;
	list_insert(list, &command->slow_node, list->first);
	client->slow_command_count++;
}

void followers_add(struct redis_command *slow, struct redis_command *command)
{
	command_append(&slow->followers, command);
	slow->newest_follower = command;
}

/* A slow command has ended: sends its followers. If one is slow, the rest become its followers. */
void followers_release(struct redis_client *client, struct redis_command *command)
{
	struct redis_command *next = command->followers.first, *after;

	if (!command->is_slow)
		return;
	list_remove(slow_list_of(client, command->operations), &command->slow_node);
	client->slow_command_count--;
	while (next) {
		struct redis_command *follower = next;

		next = follower->next;
		command_append(&client->retries, follower);
		followers_register_if_slow(client, follower);
		/* The rest has to follow this one if it is slow itself. */
		for (; next && follower->is_slow; next = after) {
			after = next->next;
			followers_add(follower, next);
		}
	}
}
