/*
 * commands.h: makes commands of operations, and completes the operations when their command has
 * ended.
 *
 * Operations that are alike (on one key and limit, with the same cost) share one command, which
 * repeats an acquire, and decides all peeks at once. Operations that are all or nothing become a
 * group of commands.
 *
 * Two operations on one key keep their order, because Redis carries out calls and their commands in
 * the order in which they were sent. If a command may need several calls, later commands of its key
 * are sent when it has ended (followers.h). Groups do not wait for it.
 */
#ifndef REDIS_COMMANDS_H
#define REDIS_COMMANDS_H

#include "redis/client_inside.h"

void batch_init(struct batch *batch);

/**
 * Adds operations to the batch, so many that it has at most CALL_COMMANDS_MAX commands. Completes
 * an operation at once if the cache answers it, or with ENOMEM. With
 * `all_or_nothing`, their outcomes are so, provided that their keys lie in one slot; the same holds
 * for their memory.
 */
void commands_add(struct redis_client *client, struct store_operation *operations,
                  bool all_or_nothing);
/** Completes operations with an error, without a command. */
void commands_refuse(struct redis_client *client, struct store_operation *operations, int status);
/** Removes all commands from the batch. */
struct redis_command *batch_take(struct batch *batch);

/** Ends a command, and completes its operations with an error. */
void commands_fail(struct redis_client *client, struct redis_command *command, int status);
void commands_fail_all(struct redis_client *client, struct redis_command *first, int status);
/** Copies client->result, which command_read has filled, to the operations of a command. */
void commands_set_outcomes(struct redis_client *client, struct redis_command *command,
                           enum command_end end);
/** Ends a command whose operations have their results, and completes them. */
void commands_finish(struct redis_client *client, struct redis_command *command);

/** Frees the client's unused commands. */
void commands_free_unused(struct redis_client *client);

#endif
