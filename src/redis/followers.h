/*
 * followers.h: commands that may need several calls, and those of the same key that follow them.
 *
 * Redis carries out calls in the order in which they were sent. A command that is written again
 * would be overtaken by later commands of its key. Therefore these follow it, and are sent when it
 * has ended.
 */
#ifndef REDIS_FOLLOWERS_H
#define REDIS_FOLLOWERS_H

#include "redis/client_inside.h"

/** A command is about to be sent. Sets is_slow. */
void followers_begin(struct redis_client *client, struct redis_command *command);
/** The newest command of the operation's key that others have to follow, or NULL. */
struct redis_command *followers_find(struct redis_client *client,
                                     const struct store_operation *operation);
void followers_add(struct redis_command *slow, struct redis_command *command);
/** A command has ended: its followers are sent again, up to one that others have to follow. */
void followers_release(struct redis_client *client, struct redis_command *command);

#endif
