/*
 * known.h: the jobs of a lane that need not ask Redis: known denials (denied.h), and requests that
 * a chunk covers (chunk.h).
 */
#ifndef REDIS_KNOWN_H
#define REDIS_KNOWN_H

#include "redis/inside.h"

/** Whether the job was answered: all is set but that `done` is to be called. */
bool known_answer(struct redis_lane *lane, struct store_job *job);
/** Whether a known denial holds for a job of an all-or-nothing chain. Answers all, as known_answer.
 */
bool known_answer_all(struct redis_lane *lane, struct store_job *jobs);

/** As chunk_take, of a job that a chunk may cover; else CHUNK_NONE. */
enum chunk_answer known_units(struct redis_lane *lane, struct store_job *job, struct task **task);
/** After CHUNK_ASK: makes a task of the job that takes a chunk, if there is memory. */
void known_take_units(struct redis_lane *lane, struct task *task);
/** The outcomes of such a task are in the lane: serves its jobs, as far as the units go. */
void known_serve(struct redis_lane *lane, struct task *task);
/** It has ended without. */
void known_missed(struct redis_lane *lane, const struct task *task);
/** Jobs that give back what nobody has used for a while; of a lane that closes all. */
struct store_job *known_idle(struct redis_lane *lane);

/** A task of this job begins to ask. */
void known_ask(const struct redis_lane *lane, struct task *task, const struct store_job *job);
/** It is written now. */
void known_asked(struct redis_lane *lane, struct task *task);
/** It has ended: `outcome` is that of its last job, or NULL: nobody knows. */
void known_learn(struct redis_lane *lane, const struct task *task,
                 const struct algo_outcome *outcome);

#endif
