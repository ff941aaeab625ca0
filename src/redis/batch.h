/*
 * batch.h: jobs become tasks.
 *
 * Equal requests of a turn (of one key and limit, with the same cost) become one task that repeats
 * its step; equal peeks one that asks once. Jobs that are all or nothing become a group of tasks.
 *
 * Two jobs of one key keep their order: Redis carries out calls and their steps as they were sent.
 * If a task may have to be made again, later tasks of its key follow when it has ended. Chains that
 * are all or nothing do not wait for it.
 */
#ifndef REDIS_BATCH_H
#define REDIS_BATCH_H

#include "redis/inside.h"

void batch_open(struct batch *batch);

/**
 * Gathers jobs, as many as leave the batch at most STEP_CALL_MAX tasks. Jobs for which there is
 * no memory are done. `together`: all or nothing, where they lie in one slot, and so is their memory.
 */
void batch_add(struct redis_lane *lane, struct store_job *jobs, bool together);
/** Ends jobs, instead. */
void batch_refuse(struct redis_lane *lane, struct store_job *jobs, int status);
/** Takes what was gathered; the batch is empty then. */
struct task *batch_take(struct batch *batch);

/** Ends a job without an outcome. */
void job_fail(struct redis_lane *lane, struct store_job *job, int status);
/** Ends a task with all its jobs: without an outcome, ... */
void task_fail(struct redis_lane *lane, struct task *task, int status);
/** ... or with those that task_fill has taken over from the lane, where step_read puts them. */
void task_finish(struct redis_lane *lane, struct task *task);
void task_fill(struct redis_lane *lane, struct task *task, enum step_end end);
/** The same of a row of tasks. */
void task_fail_all(struct redis_lane *lane, struct task *first, int status);

/** Frees the tasks that the lane keeps for later. */
void batch_close(struct redis_lane *lane);

#endif
