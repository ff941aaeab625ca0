/*
 * cache.h: the cache in front of Redis: denials (denial_cache.h) and chunks of quota (chunks.h).
 *
 * An operation passes the cache on its way out (cache_answer). If that has no answer, it becomes
 * part of a command, which the cache follows from its beginning over each write to its end
 * (cache_record_end).
 */
#ifndef REDIS_CACHE_H
#define REDIS_CACHE_H

#include "redis/client_inside.h"

/** ENOMEM. */
int cache_open(struct redis_store *store);
void cache_close(struct redis_store *store);

/**
 * Answers an operation, if the cache can: all is set but that `done` is to be called. `is_first`:
 * no operation on the key is before it, so a denial may be repeated. CACHE_REQUEST_CHUNK: ask
 * Redis, and take a chunk with the answer (cache_request_chunk).
 */
enum cache_answer cache_answer(struct redis_client *client, struct store_operation *operation,
                               bool is_first);
/** Answers a group that is all or nothing, if the cache has a denial for one of its operations. */
bool cache_answer_group(struct redis_client *client, struct store_operation *operations);
/** Whether an operation that has waited for a chunk is granted from it. */
bool cache_grant_waiter(struct redis_client *client, struct store_operation *operation);

/** A command of this operation begins. */
void cache_register(const struct redis_client *client, struct redis_command *command,
                    const struct store_operation *operation);
/** After CACHE_REQUEST_CHUNK: the command takes a chunk, if there is memory. */
void cache_request_chunk(struct redis_client *client, struct redis_command *command);
/** The command is about to be written. */
void cache_prepare(struct redis_client *client, struct redis_command *command);
/**
 * The command has ended; its outcomes are in client->result unless it failed. A command that failed
 * with COMMAND_FAILED may or may not have been carried out.
 */
void cache_record_end(struct redis_client *client, struct redis_command *command,
                      enum command_end end);

/**
 * Operations that give back chunks which nobody has used for a while; of a client that closes, all
 * of its chunks.
 */
struct store_operation *cache_release_idle(struct redis_client *client);

#endif
