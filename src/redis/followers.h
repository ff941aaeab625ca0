/*
 * followers.h: keeps the order of commands on one key when the first of them may need several
 * calls.
 *
 * Redis carries out calls in the order in which they were sent. Later commands of the key would
 * overtake a command that is written a second time. Therefore they become its followers, which are
 * sent when it has ended.
 */
#ifndef REDIS_FOLLOWERS_H
#define REDIS_FOLLOWERS_H

#include "redis/client_inside.h"

/** Registers a command that is about to be sent; sets is_slow. */
void followers_register_if_slow(struct redis_client *client, struct redis_command *command);
/** The newest registered command of the operation's key that may need several calls, or NULL. */
struct redis_command *followers_find_slow(struct redis_client *client,
                                          const struct store_operation *operation);
void followers_add(struct redis_command *slow, struct redis_command *command);
/** A command has ended: sends its followers, up to the first one that the rest have to follow. */
void followers_release(struct redis_client *client, struct redis_command *command);

#endif
