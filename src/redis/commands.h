/*
 * commands.h: operations become commands, and end with them.
 *
 * Operations that are alike (on one key and limit, with the same cost) become one command, which
 * repeats an acquire, and asks once for all peeks. Operations that are all or nothing become a
 * group of commands.
 *
 * Two operations on one key keep their order, because Redis carries out calls and their commands as
 * they were sent. If a command may need several calls, later commands of its key follow when it has
 * ended. Groups do not wait for it.
 */
#ifndef REDIS_COMMANDS_H
#define REDIS_COMMANDS_H

#include "redis/client_inside.h"

void commands_open(struct batch *batch);

/**
 * Gathers operations, as many as leave the batch at most CALL_COMMANDS_MAX commands. Operations for
 * which there is no memory end. `together`: all or nothing, where they lie in one slot, and so is
 * the memory for them.
 */
void commands_add(struct redis_client *client, struct store_operation *operations, bool together);
/** Ends operations instead. */
void commands_refuse(struct redis_client *client, struct store_operation *operations, int status);
/** Takes the commands of the batch, which is empty then. */
struct redis_command *commands_take(struct batch *batch);

/** Ends a command, and all its operations without an outcome. */
void commands_fail(struct redis_client *client, struct redis_command *command, int status);
void commands_fail_all(struct redis_client *client, struct redis_command *first, int status);
/** Gives client->result, as command_read has left it, to the operations of a command. */
void commands_fill(struct redis_client *client, struct redis_command *command,
                   enum command_end end);
/** Ends a command that was filled, and all its operations. */
void commands_finish(struct redis_client *client, struct redis_command *command);

/** Frees the commands that the client has for further use. */
void commands_close(struct redis_client *client);

#endif
