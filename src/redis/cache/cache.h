/*
 * cache.h: answers operations without Redis, from cached denials (denial_cache.h) and from chunks
 * of quota (chunks.h).
 *
 * An operation passes the cache before it is sent (cache_answer). If the cache has no answer, the
 * operation becomes part of a command. The cache is called when the command is made
 * (cache_register), each time it is written (cache_prepare), and when it has ended
 * (cache_record_end).
 */
#ifndef REDIS_CACHE_H
#define REDIS_CACHE_H

#include "redis/client_inside.h"

/** ENOMEM. */
int cache_open(struct redis_store *store);
void cache_close(struct redis_store *store);

/**
 * Answers an operation if the cache can: sets everything, but does not call `done`. `is_first`: no
 * operation on the key is before it, so a denial may be repeated. After CACHE_REQUEST_CHUNK call
 * cache_request_chunk with the operation's command.
 */
enum cache_answer cache_answer(struct redis_client *client, struct store_operation *operation,
                               bool is_first);
/** Answers a group that is all or nothing, if one of its operations has a cached denial. */
bool cache_answer_group(struct redis_client *client, struct store_operation *operations);
/** Grants an operation that has waited for a chunk, if the chunk has the units. Whether it did. */
bool cache_grant_waiter(struct redis_client *client, struct store_operation *operation);

/** A command was made for this operation. */
void cache_register(const struct redis_client *client, struct redis_command *command,
                    const struct store_operation *operation);
/** After CACHE_REQUEST_CHUNK: has the command take a chunk, if there is memory. */
void cache_request_chunk(struct redis_client *client, struct redis_command *command);
/** The command is about to be written: sets its part of the chunk. */
void cache_prepare(struct redis_client *client, struct redis_command *command);
/**
 * The command has ended; its outcomes are in client->result unless it failed. After COMMAND_FAILED
 * Redis may or may not have carried it out.
 */
void cache_record_end(struct redis_client *client, struct redis_command *command,
                      enum command_end end);

/** Returns operations that return idle chunks to Redis; all chunks of the client if it stops. */
struct store_operation *cache_release_idle(struct redis_client *client);

#endif
