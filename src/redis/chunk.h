/*
 * chunk.h: units of limits that this process has taken from Redis in advance. Shared by lanes.
 *
 * A key that is asked for again soon takes a chunk of its limit's quota with one step; requests are
 * then granted from it without asking, until it is used up, its window ends, or it has not been
 * used for a while: then what is left is given back.
 *
 * Never more passes than the limit lets pass. For Redis the units are in use from when they were
 * taken. Of a window they are good until it ends. A bucket leaks them as it leaks all: they are the
 * last of what it leaks until TAT, its time when they were taken, so at `now` no more are good than
 * (TAT - now) / T, at the interval T. Chunks lie behind one another in that queue, so together they
 * are never more than what is in it, and they and what the bucket could still grant are no more
 * than its burst. Only the last of them is given back to a bucket: without it, another that lies
 * behind would leak earlier than its owner knows.
 *
 * All times but those of Redis are of one local clock, from when Redis was asked.
 *
 * A fixed number of keys has chunks; others ask for each request.
 */
#ifndef REDIS_CHUNK_H
#define REDIS_CHUNK_H

#include "store/store.h"

#define CHUNK_PARTS 16 /* in which a chunk is taken, as many as there are */

struct chunks;

/* Which chunk: of a key (a keyed hash), and of a limit by all its parameters. */
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

/* What Redis has granted. */
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
