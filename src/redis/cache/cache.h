/*
 * cache.h: the operations of a client that need not ask Redis: known denials (denied.h), and
 * requests that a chunk covers (chunk.h).
 */
#ifndef REDIS_CACHE_H
#define REDIS_CACHE_H

#include "redis/client_inside.h"

/**
 * Whether the operation was answered, by a known denial, or (if it explains one) because the
 * request would have passed just now: all is set but that `done` is to be called.
 */
bool known_answer(struct redis_client *client, struct store_operation *operation);
/** Whether a known denial holds for an operation of an all-or-nothing group. Answers all, as
 * known_answer.
 */
bool known_answer_all(struct redis_client *client, struct store_operation *operations);

/** As chunk_take, of an operation that a chunk may cover; otherwise CHUNK_NONE. */
enum chunk_answer known_units(struct redis_client *client, struct store_operation *operation);
/** Whether an operation that has waited for a chunk is granted from it. */
bool known_serve(struct redis_client *client, struct store_operation *operation);
/** After CHUNK_ASK: the operation's command takes a chunk, if there is memory. */
void known_take_units(struct redis_client *client, struct redis_command *command);
/** Operations that settle chunks which nobody has used for a while; of a client that closes all. */
struct store_operation *known_idle(struct redis_client *client);

/** The operation would pass: peeks that explain a denial need not ask for a while (`denied_cache`).
 */
void known_passed(struct redis_client *client, const struct store_operation *operation);

/** A command of this operation begins to ask. */
void known_ask(const struct redis_client *client, struct redis_command *command,
               const struct store_operation *operation);
/** It is about to be written. */
void known_asked(struct redis_client *client, struct redis_command *command);
/**
 * It has ended: `outcome` is that of its last operation, or NULL: there is none. `answered`: Redis
 * has carried out the step.
 */
void known_learn(struct redis_client *client, struct redis_command *command,
                 const struct algo_outcome *outcome, bool answered);

#endif
