/*
 * chunks.h: holds units of limits that this process has reserved at Redis, and grants requests from
 * them without asking Redis. Threads share them.
 *
 * When a key is requested again soon, the command of that request also takes a chunk of the limit's
 * quota. Redis then has an entry for the units that this process holds (scripts/chunks.lua). The
 * chunk grants requests until it is used up, or until its window or its lifetime ends.
 *
 * Each command of this process on the key settles the chunk: it reports how many units were used,
 * returns the others, and reserves some again. So other operations find all units that the process
 * does not use. The chunk grants nothing from when such a command is written until its reply is
 * read. If several commands are under way, only the reply to the newest counts. If that reply is
 * lost, the next command reports the same again.
 *
 * The parameter `now_ns` is by the local clock. All other times are by Redis's clock, which is
 * estimated from the time at which the command was written; so the estimate is never earlier than
 * Redis's clock.
 *
 * The number of keys with chunks is fixed; requests for others ask Redis.
 */
#ifndef REDIS_CHUNKS_H
#define REDIS_CHUNKS_H

#include "redis/commands/redis_command.h"
#include "store/store.h"

struct chunks;

enum cache_answer {
	CACHE_MISS,          /* ask Redis */
	CACHE_ANSWERED,      /* the operation's outcome and name are set */
	CACHE_REQUEST_CHUNK, /* ask Redis, and take a chunk with the reply: chunk_allocate_settling */
};

/** NULL if there is no memory. */
struct chunks *chunks_open(void);
/** NULL does nothing. */
void chunks_close(struct chunks *chunks);

/** Whether requests for the limit may be granted from chunks. */
bool chunk_is_for(const struct algo_limit *limit);
/** Whether this operation may be granted from a chunk. */
bool chunk_applies(const struct store_operation *operation);
/** Identifies the chunk: by the key, and the limit with all its parameters. */
struct cache_name chunk_name(const struct store_operation *operation);

/** Answers an operation of `client`, if its chunk has the units. */
enum cache_answer chunk_answer(struct chunks *chunks, struct store_operation *operation,
                               uint64_t now_ns, const void *client);
/** Grants an operation that has waited for a command of this client to end. Whether it did. */
bool chunk_grant_waiter(struct chunks *chunks, struct store_operation *operation, uint64_t now_ns);
/**
 * After CACHE_REQUEST_CHUNK: allocates the operation that will return the chunk. False if there is
 * no memory for it.
 */
bool chunk_allocate_settling(struct chunks *chunks, const struct store_operation *operation);

/** A command on a key of such a limit was made. Sets command->chunk_use.is_registered. */
void chunk_register(struct chunks *chunks, struct redis_command *command, const void *client);
/**
 * A registered command is about to be written: sets command->settlement. With `client_stops` it
 * returns all units.
 */
void chunk_write_settlement(struct chunks *chunks, struct redis_command *command,
                            const void *client, bool client_stops);
/**
 * A registered command has ended. `redis_clock_ns` is Redis's clock at the command; 0 if there was
 * no reply, otherwise command->settlement has Redis's answer. Returns when the chunk is to be
 * settled as idle, or 0 if it holds nothing.
 */
uint64_t chunk_record_end(struct chunks *chunks, struct redis_command *command, const void *client,
                          uint64_t now_ns, uint64_t redis_clock_ns);

/**
 * Returns operations that settle the client's chunks: those without recent requests, and those
 * whose lifetime ends soon; or `all` of its chunks. A list by `next`; they free themselves.
 * *next_ns is when to call this again, or 0 if the client has no more chunks.
 */
struct store_operation *chunk_release_idle(struct chunks *chunks, const void *client,
                                           uint64_t now_ns, bool all, uint64_t *next_ns);

#endif
