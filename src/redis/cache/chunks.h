/*
 * chunks.h: units of limits that this process holds, to grant them without asking Redis. Shared by
 * threads.
 *
 * When a key is asked for again soon, the step of that request also takes a chunk of the limit's
 * quota. Redis keeps an entry for it (scripts/chunks.lua): so many units are this process's. The
 * chunk then grants requests, until it is used up, or its window or its time ends.
 *
 * Each step of this process on the key settles the chunk: it says how many units were used, gives
 * back the others, and holds some again. So other operations find all units that the process does
 * not use. From when such a step is written until its answer is read the chunk grants nothing.
 * Where several are under way, only the answer to the newest counts. If that is lost, the next step
 * says the same again.
 *
 * Times of the parameter `now_ns` are of the local clock; all others are of Redis's, which is known
 * from when Redis was asked, so it seems later than it is, never earlier.
 *
 * A fixed number of keys has chunks; others ask for each request.
 */
#ifndef REDIS_CHUNKS_H
#define REDIS_CHUNKS_H

#include "redis/commands/redis_command.h"
#include "store/store.h"

struct chunks;

enum chunk_answer {
	CHUNK_NONE,    /* ask Redis for the request itself */
	CHUNK_GRANTED, /* the operation's outcome and name are set */
	CHUNK_ASK,     /* the same, and take a chunk: chunk_prepare */
};

/** NULL: no memory. */
struct chunks *chunks_open(void);
/** NULL does nothing. */
void chunks_close(struct chunks *chunks);

/** Whether requests for the limit may be granted from chunks. */
bool chunk_is_for(const struct algo_limit *limit);
/** Whether this one may. */
bool chunk_applies(const struct store_operation *operation);
struct cache_name chunk_name(const struct store_operation *operation);

/** `client`: who asks. */
enum chunk_answer chunk_take(struct chunks *chunks, struct store_operation *operation,
                             uint64_t now_ns, const void *client);
/** The same of an operation that waits for a step of this client to end: CHUNK_NONE or
 * CHUNK_GRANTED. */
enum chunk_answer chunk_serve(struct chunks *chunks, struct store_operation *operation,
                              uint64_t now_ns);
/** After CHUNK_ASK: makes ready to give the chunk back one day. False: no memory for that. */
bool chunk_prepare(struct chunks *chunks, const struct store_operation *operation);

void chunk_begin(struct chunks *chunks, struct command_chunk *step, const void *client);
/** It is written now, as `asked`, whose units it sets. `stops`: the client holds nothing any more.
 */
void chunk_write(struct chunks *chunks, struct command_chunk *step, struct redis_command *asked,
                 uint64_t now_ns, const void *client, bool stops);

/* Redis's answer about the chunk. */
struct chunk_told {
	const struct command_units *units; /* NULL: it is not known what became of the step */
	uint64_t asked_ns, clock_ns;       /* when it was written, and Redis's clock at the step */
};

/** The step has ended. Returns when to look at the chunk again, 0: there is nothing in it. */
uint64_t chunk_end(struct chunks *chunks, struct command_chunk *step,
                   const struct algo_limit *limit, const struct chunk_told *told, uint64_t now_ns,
                   const void *client);

/**
 * Operations that settle the client's chunks: those that nobody has asked for lately, and those
 * whose time ends soon. A list by `next`; they free themselves. *next_ns is when to look again, 0:
 * the client has none. `all`: all of its chunks.
 */
struct store_operation *chunk_idle(struct chunks *chunks, const void *client, uint64_t now_ns,
                                   bool all, uint64_t *next_ns);

/** The number of parameter sets that chunks refer to: for tests. */
size_t chunk_limits(struct chunks *chunks);

#endif
