/*
 * chunk.h: units of limits that this process has taken from Redis in advance. Shared by lanes.
 *
 * When a key is asked for again soon, one step takes a chunk of its limit's quota. The chunk then
 * grants requests without asking Redis, until it is used up, its window ends, or it was not used
 * for a while. What is left then goes back.
 *
 * No more passes than the limit allows. For Redis the units are in use from the time they were
 * taken. Units of a window are good until it ends. A bucket leaks them as it leaks all units: they
 * are the last that it leaks until TAT, its time when they were taken. So at `now`, at the
 * interval T, (TAT - now) / T of them are good at most. Chunks lie behind one another in that
 * queue, so together they are never more than the queue holds; with the units that the bucket
 * could still grant they are no more than its burst. A bucket takes back only the last chunk:
 * without an earlier one, the chunks behind it would leak earlier than their owners know.
 *
 * All times except those of Redis are of one local clock, and count from when Redis was asked.
 *
 * A fixed number of keys has chunks; others ask for each request.
 */
#ifndef REDIS_CHUNK_H
#define REDIS_CHUNK_H

#include "store/store.h"

#define CHUNK_PARTS 16 /* in which a chunk is taken, as many as there are */

struct chunks;

/* A chunk belongs to a key (a keyed hash) and to a limit with all its parameters. */
struct chunk_name {
	uint64_t key, which;
};

enum chunk_answer {
	CHUNK_NONE,    /* ask Redis for the request itself */
	CHUNK_GRANTED, /* the job's outcome and name are set */
	CHUNK_ASK,     /* take a chunk: chunk_ask, then chunk_got or chunk_missed */
	CHUNK_AWAITED, /* this lane has asked already */
};

/** NULL: no memory. */
struct chunks *chunks_open(void);
/** NULL does nothing. */
void chunks_close(struct chunks *chunks);

/** Whether a request can be granted from a chunk. */
bool chunk_applies(const struct store_job *job);
struct chunk_name chunk_name(const struct store_job *job);

/** `lane`: who asks. *task is what it was told by chunk_ask. */
enum chunk_answer chunk_take(struct chunks *chunks, struct store_job *job, uint64_t now_ns,
                             const void *lane, void **task);
/** After CHUNK_ASK. False: no memory, and it is as if it had never been. */
bool chunk_ask(struct chunks *chunks, const struct store_job *job, void *task);

/* A grant of Redis. */
struct chunk_got {
	uint64_t units;
	uint64_t until_ns, clock_ns; /* by Redis's clock: the state's end, and when */
	uint64_t remaining;          /* what it could still grant */
	uint64_t asked_ns, now_ns;
};

/** How the question has ended. */
void chunk_got(struct chunks *chunks, struct chunk_name name, const struct chunk_got *got);
/** None is asked for until then. */
void chunk_missed(struct chunks *chunks, struct chunk_name name, uint64_t until_ns);

/** Whether a job is granted from what was got. */
bool chunk_serve(struct chunks *chunks, struct chunk_name name, struct store_job *job,
                 uint64_t now_ns);
/** How long a chunk of the limit is kept that nobody uses. */
uint64_t chunk_idle_ns(const struct algo_limit *limit);

/** The key is reset: its chunks are void. */
void chunk_forget(struct chunks *chunks, uint64_t key);

/**
 * Refunds of what the lane has asked for and nobody has used for a while, a list by `next`, which
 * free themselves. *next_ns is when to look again, 0: the lane has none. `all`: used or not.
 */
struct store_job *chunk_idle(struct chunks *chunks, const void *lane, uint64_t now_ns, bool all,
                             uint64_t *next_ns);

#endif
