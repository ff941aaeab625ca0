/*
 * chunks.h: units of limits that this process holds, to grant them without asking Redis. Threads
 * share them.
 *
 * When a key is asked for again soon, the command of that request also takes a chunk of the limit's
 * quota. Redis then has an entry for the units that this process holds (scripts/chunks.lua). The
 * chunk grants requests until it is used up, or its window or its time ends.
 *
 * Each command of this process on the key settles the chunk: it says how many units were used,
 * gives back the others, and takes some again. So other operations find all units that the process
 * does not use. The chunk grants nothing from when such a command is written until its answer is
 * read. If several are under way, only the answer to the newest counts. If that is lost, the next
 * command says the same again.
 *
 * The parameter `now_ns` is by the local clock. All other times are by Redis's clock, which is
 * known from when Redis was asked; so it seems later than it is, never earlier.
 *
 * A fixed number of keys has chunks; requests for others ask Redis.
 */
#ifndef REDIS_CHUNKS_H
#define REDIS_CHUNKS_H

#include "redis/commands/redis_command.h"
#include "store/store.h"

struct chunks;

enum cache_answer {
	CACHE_NONE,          /* ask Redis for the request itself */
	CACHE_ANSWERED,      /* the operation's outcome and name are set */
	CACHE_REQUEST_CHUNK, /* ask Redis, and take a chunk: chunk_prepare */
};

/** NULL if there is no memory. */
struct chunks *chunks_open(void);
/** NULL does nothing. */
void chunks_close(struct chunks *chunks);

/** Whether requests for the limit may be granted from chunks. */
bool chunk_is_for(const struct algo_limit *limit);
/** Whether this one may. */
bool chunk_applies(const struct store_operation *operation);
/** A chunk belongs to a key and to a limit with all its parameters. */
struct cache_name chunk_name(const struct store_operation *operation);

/** `client` asks, here and below. */
enum cache_answer chunk_answer(struct chunks *chunks, struct store_operation *operation,
                               uint64_t now_ns, const void *client);
/** Whether an operation is granted that has waited for a command of this client to end. */
bool chunk_grant_waiter(struct chunks *chunks, struct store_operation *operation, uint64_t now_ns);
/** After CACHE_REQUEST_CHUNK: makes ready to give the chunk back one day. False if there is no
 * memory for that.
 */
bool chunk_prepare(struct chunks *chunks, const struct store_operation *operation);

/** A command on a key of such a limit begins. Sets command->chunk.is_counted. */
void chunk_register(struct chunks *chunks, struct redis_command *command, const void *client);
/**
 * The counted command is written now, at command->asked_ns: sets its `units`. `stops`: the client
 * gives back all units.
 */
void chunk_write(struct chunks *chunks, struct redis_command *command, const void *client,
                 bool stops);
/**
 * The counted command has ended, with an answer in its `units` if `clock_ns`, Redis's clock at the
 * command, is not 0. Returns when the chunk is to be settled, or 0 if there is nothing in it.
 */
uint64_t chunk_record_end(struct chunks *chunks, struct redis_command *command, const void *client,
                          uint64_t now_ns, uint64_t clock_ns);

/**
 * Operations that settle the client's chunks: those that nobody has asked for lately, and those
 * whose time ends soon; or `all` of its chunks. A list by `next`; they free themselves. *next_ns is
 * when to call this again, or 0 if the client has no more chunks.
 */
struct store_operation *chunk_release_idle(struct chunks *chunks, const void *client,
                                           uint64_t now_ns, bool all, uint64_t *next_ns);

#endif
