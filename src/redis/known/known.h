/*
 * known.h: the jobs of a lane that need not ask Redis: known denials (denied.h), and requests that
 * a chunk covers (chunk.h).
 */
#ifndef REDIS_KNOWN_H
#define REDIS_KNOWN_H

#include "redis/inside.h"

/**
 * Whether the job was answered, by a known denial, or (if it explains one) because the request would
 * have passed just now: all is set but that `done` is to be called.
 */
bool known_answer(struct redis_lane *lane, struct store_job *job);
/** Whether a known denial holds for a job of an all-or-nothing chain. Answers all, as known_answer.
 */
bool known_answer_all(struct redis_lane *lane, struct store_job *jobs);

/** As chunk_take, of a job that a chunk may cover; otherwise CHUNK_NONE. */
enum chunk_answer known_units(struct redis_lane *lane, struct store_job *job);
/** Whether a job that has waited for a chunk is granted from it. */
bool known_serve(struct redis_lane *lane, struct store_job *job);
/** After CHUNK_ASK: the job's task takes a chunk, if there is memory. */
void known_take_units(struct redis_lane *lane, struct task *task);
/** Jobs that settle chunks which nobody has used for a while; of a lane that closes all. */
struct store_job *known_idle(struct redis_lane *lane);

/** The job would pass: peeks that explain a denial need not ask for a while (`denied_cache`). */
void known_passed(struct redis_lane *lane, const struct store_job *job);

/** A task of this job begins to ask. */
void known_ask(const struct redis_lane *lane, struct task *task, const struct store_job *job);
/** It is about to be written. */
void known_asked(struct redis_lane *lane, struct task *task);
/**
 * It has ended: `outcome` is that of its last job, or NULL: there is none. `answered`: Redis has carried
 * out the step.
 */
void known_learn(struct redis_lane *lane, struct task *task, const struct algo_outcome *outcome,
                 bool answered);

#endif
