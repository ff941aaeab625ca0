#include "redis/batch.h"

#include <stdlib.h>

#include "redis/slots.h"

/* The tasks that a lane keeps for later, and the room for a name that each keeps. */
#define FREE_TASKS 4096
#define FREE_NAME  256

void batch_open(struct batch *batch)
{
	task_list_clear(&batch->tasks);
	batch->count = 0;
	batch->turn = 1;
}

struct task *batch_take(struct batch *batch)
{
	batch->count = 0;
	batch->turn++;
	return task_list_take(&batch->tasks);
}

/* Tasks */

static struct task *task_open(struct redis_lane *lane)
{
	struct task *task = lane->free_tasks;

	if (!task)
		return calloc(1, sizeof *task);
	lane->free_tasks = task->next;
	lane->free_task_count--;
	return task;
}

static void task_close(struct redis_lane *lane, struct task *task)
{
	struct buffer name = task->name;

	step_end(&task->step);
	if (lane->free_task_count >= FREE_TASKS || name.capacity > FREE_NAME) {
		buffer_free(&name);
		name = (struct buffer){0};
	}
	if (lane->free_task_count >= FREE_TASKS) {
		free(task);
		return;
	}
	name.len = 0;
	*task = (struct task){.name = name, .next = lane->free_tasks};
	lane->free_tasks = task;
	lane->free_task_count++;
}

void batch_close(struct redis_lane *lane)
{
	while (lane->free_tasks) {
		struct task *task = lane->free_tasks;

		lane->free_tasks = task->next;
		buffer_free(&task->name);
		free(task);
	}
}

/* Jobs */

static void done(struct redis_lane *lane, struct store_job *job)
{
	lane->jobs--;
	job->done(job);
}

void job_fail(struct redis_lane *lane, struct store_job *job, int status)
{
	job->status = status;
	count_more(&lane->counts.failed, 1);
	done(lane, job);
}

/* `done` may submit jobs, also of the task's key. */
void task_fail(struct redis_lane *lane, struct task *task, int status)
{
	struct store_job *job = task->jobs;

	task_close(lane, task);
	while (job) {
		struct store_job *next = job->next;

		job_fail(lane, job, status);
		job = next;
	}
}

void task_fail_all(struct redis_lane *lane, struct task *first, int status)
{
	while (first) {
		struct task *task = first;

		first = task->next;
		task_fail(lane, task, status);
	}
}

void task_fill(struct redis_lane *lane, struct task *task, bool withheld)
{
	size_t i = 0;

	for (struct store_job *job = task->jobs; job; job = job->next, i++) {
		job->status = WEIR_OK;
		job->withheld = withheld;
		job->outcome = lane->outcomes[i];
		job->until_ns = lane->until_ns[i];
	}
}

void task_finish(struct redis_lane *lane, struct task *task)
{
	struct store_job *job = task->jobs;

	task_close(lane, task);
	while (job) {
		struct store_job *next = job->next;

		done(lane, job);
		job = next;
	}
}

/* From jobs to tasks */

static struct spot *spot_of(struct batch *batch, const struct store_job *job)
{
	for (size_t i = job->step.key.hash;; i++) {
		struct spot *spot = &batch->spots[i % BATCH_SPOTS];

		if (spot->turn != batch->turn || (spot->task->jobs->step.key.hash == job->step.key.hash &&
		                                  slice_equal(spot->task->jobs->key_name, job->key_name)))
			return spot;
	}
}

/* A permit is of its own request. */
static bool may_repeat(const struct store_job *job)
{
	const struct algo_call *call = &job->step.call;

	return call->op == ALGO_ACQUIRE && call->cost > 0 && call->permit == 0 && !job->together;
}

/* `is_given`: the time counts, too. */
static bool is_alike(const struct task *task, const struct store_job *job, bool is_given)
{
	const struct store_job *first = task->jobs;

	return task->step.repeat < STEP_REPEAT_MAX && may_repeat(first) && may_repeat(job) &&
	       first->step.limit == job->step.limit && first->step.call.cost == job->step.call.cost &&
	       first->step.call.max_wait_ns == job->step.call.max_wait_ns &&
	       (!is_given || first->step.at.now_ns == job->step.at.now_ns);
}

static void append(struct task *task, struct store_job *job)
{
	job->next = NULL;
	*task->last = job;
	task->last = &job->next;
}

/* NULL: no memory. */
static struct task *make_task(struct redis_lane *lane, struct store_job *job)
{
	struct task *task = task_open(lane);
	const struct store_step *step = &job->step;

	if (!task)
		return NULL;
	step_key(&task->name, lane->store->prefix, job->key_name, job->limit_name);
	if (task->name.failed) {
		buffer_free(&task->name);
		task_close(lane, task);
		return NULL;
	}
	task->step = (struct redis_step){
	    .limit = step->limit,
	    .key = {task->name.data, task->name.len},
	    .call = step->call,
	    .repeat = 1,
	    .at = step->at,
	    .is_given = lane->store->options.given_time,
	};
	task->last = &task->jobs;
	append(task, job);
	if (lane->store->url.cluster)
		task->slot = slots_of(task->step.key);
	return task;
}

/* The job's task, or NULL: it has joined another, or *status says why it has none. */
static struct task *gather(struct redis_lane *lane, struct store_job *job, int *status)
{
	struct batch *batch = &lane->batch;
	struct spot *spot = spot_of(batch, job);
	struct task *task;

	*status = lane->jobs < LANE_JOBS_MAX ? WEIR_OK : WEIR_ESTORE;
	lane->jobs++;
	if (*status != WEIR_OK)
		return NULL;
	if (spot->turn == batch->turn && is_alike(spot->task, job, lane->store->options.given_time)) {
		append(spot->task, job);
		spot->task->step.repeat++;
		return NULL;
	}
	task = make_task(lane, job);
	*status = task ? WEIR_OK : WEIR_ENOMEM;
	if (!task)
		return NULL;
	*spot = (struct spot){batch->turn, task};
	task_append(&batch->tasks, task);
	batch->count++;
	return task;
}

/* Those of one slot are one group. */
static void make_groups(struct redis_lane *lane, struct task *first)
{
	for (struct task *task = first; task; task = task->next) {
		if (task->step.group != 0)
			continue;
		for (struct task *other = task->next; other; other = other->next) {
			if (other->slot != task->slot)
				continue;
			if (task->step.group == 0)
				task->step.group = ++lane->groups ? lane->groups : ++lane->groups;
			other->step.group = task->step.group;
		}
	}
}

void batch_add(struct redis_lane *lane, struct store_job *jobs, bool together)
{
	struct store_job *failed = NULL;
	struct task *first = NULL;

	while (jobs) {
		struct store_job *job = jobs;
		struct task *task;

		jobs = job->next;
		task = gather(lane, job, &job->status);
		first = first ? first : task;
		if (job->status != WEIR_OK) {
			job->next = failed;
			failed = job;
		}
	}
	if (together && first)
		make_groups(lane, first);
	while (failed) { /* now that `done` may submit more */
		struct store_job *job = failed;

		failed = job->next;
		job_fail(lane, job, job->status);
	}
}
