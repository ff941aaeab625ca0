/*
 * chunk.h: units of limits that this process holds, to grant them without asking Redis. Shared by
 * threads.
 *
 * When a key is asked for again soon, the step of that request also takes a chunk of the limit's
 * quota. Redis keeps an entry for it (scripts/chunks.lua): so many units are this process's. The
 * chunk then grants requests, until it is used up, or its window or its time ends.
 *
 * Each step of this process on the key settles the chunk: it says how many units were used, gives back
 * the others, and holds some again. So other operations find all units that the process does not use.
 * From when such a step is written until its answer is read the chunk grants nothing. Where several are
 * under way, only the answer to the newest counts. If that is lost, the next step says the same again.
 *
 * Times of the parameter `now_ns` are of the local clock; all others are of Redis's, which is known
 * from when Redis was asked, so it seems later than it is, never earlier.
 *
 * A fixed number of keys has chunks; others ask for each request.
 */
#ifndef REDIS_CHUNK_H
#define REDIS_CHUNK_H

#include "redis/steps/step.h"
#include "store/store.h"

struct chunks;

/* A chunk belongs to a key (a keyed hash) and to a limit with all its parameters. */
struct chunk_name {
	uint64_t key, which;
};

enum chunk_answer {
	CHUNK_NONE,    /* ask Redis for the request itself */
	CHUNK_GRANTED, /* the job's outcome and name are set */
	CHUNK_ASK,     /* the same, and take a chunk: chunk_prepare */
};

/** NULL: no memory. */
struct chunks *chunks_open(void);
/** NULL does nothing. */
void chunks_close(struct chunks *chunks);

/** Whether requests for the limit may be granted from chunks. */
bool chunk_is_for(const struct algo_limit *limit);
/** Whether this one may. */
bool chunk_applies(const struct store_job *job);
struct chunk_name chunk_name(const struct store_job *job);

/** `lane`: who asks. */
enum chunk_answer chunk_take(struct chunks *chunks, struct store_job *job, uint64_t now_ns,
                             const void *lane);
/** The same of a job that waits for a step of this lane to end: CHUNK_NONE or CHUNK_GRANTED. */
enum chunk_answer chunk_serve(struct chunks *chunks, struct store_job *job, uint64_t now_ns);
/** After CHUNK_ASK: makes ready to give the chunk back one day. False: no memory for that. */
bool chunk_prepare(struct chunks *chunks, const struct store_job *job);

/*
 * A step on a key of such a limit, from when its task is made until that has ended. Until then the
 * lane's later requests for the key are not granted here: they keep their order.
 */
struct chunk_step {
	struct chunk_name name;
	bool is_counted; /* chunk_begin has found the chunk */
	bool takes;      /* it was CHUNK_ASK */
	bool settles;    /* it is there to settle the chunk */
	bool is_said;    /* what is on its way settles the chunk */
	bool insists;    /* it settles the chunk also while another step does */
};

void chunk_begin(struct chunks *chunks, struct chunk_step *step, const void *lane);
/** It is written now, as `asked`, whose units it sets. `stops`: the lane holds nothing any more. */
void chunk_write(struct chunks *chunks, struct chunk_step *step, struct redis_step *asked,
                 uint64_t now_ns, const void *lane, bool stops);

/* Redis's answer about the chunk. */
struct chunk_told {
	const struct step_units *units; /* NULL: it is not known what became of the step */
	uint64_t asked_ns, clock_ns;    /* when it was written, and Redis's clock at the step */
};

/** The step has ended. Returns when to look at the chunk again, 0: there is nothing in it. */
uint64_t chunk_end(struct chunks *chunks, struct chunk_step *step, const struct algo_limit *limit,
                   const struct chunk_told *told, uint64_t now_ns, const void *lane);

/**
 * Jobs that settle the lane's chunks: those that nobody has asked for lately, and those whose time ends
 * soon. A list by `next`; they free themselves. *next_ns is when to look again, 0: the lane has
 * none. `all`: all of its chunks.
 */
struct store_job *chunk_idle(struct chunks *chunks, const void *lane, uint64_t now_ns, bool all,
                             uint64_t *next_ns);

/** The number of parameter sets that chunks refer to: for tests. */
size_t chunk_limits(struct chunks *chunks);

#endif
