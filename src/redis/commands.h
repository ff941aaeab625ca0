/*
 * commands.h: operations become commands.
 *
 * Equal requests of a turn (of one key and limit, with the same cost) become one command that
 * repeats its step; equal peeks one that asks once. Operations that are all or nothing become a
 * group of commands.
 *
 * Two operations of one key keep their order: Redis carries out calls and their steps as they were
 * sent. If a command may have to be made again, later commands of its key follow when it has ended.
 * Chains that are all or nothing do not wait for it.
 */
#ifndef REDIS_COMMANDS_H
#define REDIS_COMMANDS_H

#include "redis/client_inside.h"

void commands_open(struct batch *batch);

/**
 * Gathers operations, as many as leave the batch at most STEP_CALL_MAX commands. Operations for
 * which there is no memory are done. `together`: all or nothing, where they lie in one slot, and so
 * is their memory.
 */
void commands_add(struct redis_client *client, struct store_operation *operations, bool together);
/** Ends operations, instead. */
void commands_refuse(struct redis_client *client, struct store_operation *operations, int status);
/** Takes what was gathered; the batch is empty then. */
struct redis_command *commands_take(struct batch *batch);

/** Ends an operation without an outcome. */
void commands_fail_operation(struct redis_client *client, struct store_operation *operation,
                             int status);
/** Ends a command with all its operations: without an outcome, ... */
void commands_fail(struct redis_client *client, struct redis_command *command, int status);
/** ... or with those that task_fill has taken over from the client, where command_read puts them.
 */
void commands_finish(struct redis_client *client, struct redis_command *command);
void commands_fill(struct redis_client *client, struct redis_command *command,
                   enum command_end end);
/** The same of a row of commands. */
void commands_fail_all(struct redis_client *client, struct redis_command *first, int status);

/** Frees the commands that the client keeps for later. */
void commands_close(struct redis_client *client);

#endif
