#include "redis/batch.h"

#include <stdlib.h>

#include "algo/algo.h"
#include "algo/rates/bucket.h"
#include "algo/rates/window.h"
#include "redis/known/known.h"
#include "redis/nodes/slots.h"
#include "redis/steps/exchange.h"

/* The tasks that a lane keeps for later, and the room for a name that each keeps. */
#define FREE_TASKS 4096
#define FREE_NAME  256

/* So long others wait at most for one whose swap came too late; mostly half of the timeout. */
#define TURN_MAX_NS (100 * NS_PER_MS)

void batch_open(struct batch *batch)
{
	task_list_clear(&batch->tasks);
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

	if (!task) {
		task = calloc(1, sizeof *task);
	} else {
		lane->free_tasks = task->next;
		lane->free_task_count--;
	}
	lane->steps += task != NULL;
	return task;
}

static void task_close(struct redis_lane *lane, struct task *task)
{
	struct buffer name = task->name;

	lane->steps--;
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

/* Order: what follows a task that may have to be made again waits for its end. */

/* Others are done by one call, in which steps are carried out in order. */
static bool is_slow(const struct algo_limit *limit, const struct algo_call *call)
{
	if (limit->rows == ALGO_ROWS_LOG || limit->rows == ALGO_ROWS_PLACES)
		return false;
	switch (call->op) {
	case ALGO_PEEK:
	case ALGO_RESET:
		return false;
	default:
		return !algo_steps_by(limit, bucket_step) && !algo_steps_by(limit, window_step);
	}
}

static bool is_of_key(const struct task *task, const struct store_job *job)
{
	return task->jobs->step.key.hash == job->step.key.hash &&
	       slice_equal(task->jobs->key_name, job->key_name);
}

static struct task **slow_place(struct redis_lane *lane, const struct store_job *job)
{
	return &lane->slow[job->step.key.hash % LANE_SLOW];
}

/* The one of this key that is on its way, or NULL. */
static struct task *find_slow(struct redis_lane *lane, const struct store_job *job)
{
	struct task *task = lane->slow_count > 0 ? *slow_place(lane, job) : NULL;

	while (task && !is_of_key(task, job))
		task = task->slow_next;
	return task;
}

static void begin_order(struct redis_lane *lane, struct task *task)
{
	struct task **place = slow_place(lane, task->jobs);

	task_list_clear(&task->followers);
	task->is_slow = task->chunk.takes || is_slow(task->step.limit, &task->step.call);
	if (!task->is_slow)
		return;
	task->slow_next = *place;
	*place = task;
	lane->slow_count++;
}

static void follow(struct task *slow, struct task *task)
{
	task_append(&slow->followers, task);
	slow->newest = task;
}

/* Lets the followers go, up to one that others have to wait for again. */
static void end_order(struct redis_lane *lane, struct task *task)
{
	struct task **at, *next = task->followers.first;

	if (!task->is_slow)
		return;
	at = slow_place(lane, task->jobs);
	while (*at != task)
		at = &(*at)->slow_next;
	*at = task->slow_next;
	lane->slow_count--;
	while (next) {
		struct task *follower = next;

		next = follower->next;
		task_append(&lane->again, follower);
		begin_order(lane, follower);
		if (!follower->is_slow)
			continue;
		for (; next; next = task) {
			task = next->next;
			follow(follower, next);
		}
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

	known_learn(lane, task, NULL, false);
	*task->last = task->waiters;
	end_order(lane, task);
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

void task_fill(struct redis_lane *lane, struct task *task, enum step_end end)
{
	bool withheld = end != STEP_DONE;
	size_t i = 0;

	for (struct store_job *job = task->jobs; job; job = job->next) {
		job->status = WEIR_OK;
		job->withheld = withheld;
		job->unasked = end == STEP_UNASKED;
		job->outcome = lane->outcomes[i];
		job->until_ns = lane->until_ns[i];
		job->clock_ns = task->step.is_given ? job->step.at.wall_ns : lane->clock_ns;
		i += i + 1 < task->step.repeat;
	}
	if (end == STEP_WITHHELD || (task->step.call.op == ALGO_PEEK && lane->outcomes[0].allowed))
		known_passed(lane, task->jobs);
	known_learn(lane, task, withheld ? NULL : &lane->outcomes[i], true);
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

/* A permit is of its own request. Equal peeks are one question, asked once. */
static bool may_repeat(const struct store_job *job)
{
	const struct algo_call *call = &job->step.call;

	return call->op <= ALGO_PEEK && call->cost > 0 && call->permit == 0 && !call->replaces &&
	       !job->together;
}

/* `is_given`: the time counts, too. */
static bool is_alike(const struct task *task, const struct store_job *job, bool is_given)
{
	const struct store_job *first = task->jobs;

	return task->step.repeat < STEP_REPEAT_MAX && may_repeat(first) && may_repeat(job) &&
	       first->step.call.op == job->step.call.op && first->step.limit == job->step.limit &&
	       first->step.call.cost == job->step.call.cost &&
	       first->step.call.earlier == job->step.call.earlier &&
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
	if (job->exchanges)
		exchange_key(&task->name, lane->store->prefix, (const struct exchange *)job);
	else
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
	    .turn = lane->turn,
	    .exchange = job->exchanges ? (struct exchange *)job : NULL,
	    .turn_us = (uint32_t)(u64_min(lane->store->options.timeout_ns / 2, TURN_MAX_NS) / 1000),
	};
	task->is_alone = task->step.exchange != NULL;
	task->last = &task->jobs;
	task->last_waiter = &task->waiters;
	append(task, job);
	task_list_clear(&task->followers);
	if (lane->store->url.cluster)
		task->slot = slots_of(task->step.key);
	if (!job->exchanges)
		known_ask(lane, task, job);
	return task;
}

/* Whether the job has joined the task. */
static bool join(const struct redis_lane *lane, struct task *task, struct store_job *job)
{
	if (!is_alike(task, job, lane->store->options.given_time))
		return false;
	append(task, job);
	task->step.repeat += job->step.call.op == ALGO_ACQUIRE;
	return true;
}

/* A task of the job; one that takes a chunk, if it is time for that. NULL: no memory. */
static struct task *make_asking(struct redis_lane *lane, struct store_job *job, bool takes)
{
	struct task *task = make_task(lane, job);

	if (task && takes)
		known_take_units(lane, task);
	return task;
}

/* Jobs that have waited for a chunk. Returns those that it covers. */
static struct store_job *serve(struct redis_lane *lane, struct store_job *jobs)
{
	struct store_job *served = NULL, **last = &served;
	struct task *task = NULL;

	while (jobs) {
		struct store_job *job = jobs;

		jobs = job->next;
		job->next = NULL;
		if (!task && known_serve(lane, job)) {
			*last = job;
			last = &job->next;
			continue;
		}
		if (task && join(lane, task, job))
			continue;
		task = make_asking(lane, job, !task && known_units(lane, job) == CHUNK_ASK);
		if (!task) {
			job_fail(lane, job, WEIR_ENOMEM);
			continue;
		}
		begin_order(lane, task);
		task_append(&lane->again, task);
	}
	return served;
}

void task_finish(struct redis_lane *lane, struct task *task)
{
	struct store_job *job = task->jobs;

	/* Before those that follow. */
	*task->last = serve(lane, task->waiters);
	end_order(lane, task);
	task_close(lane, task);
	while (job) {
		struct store_job *next = job->next;

		lane->gather.answered++;
		done(lane, job);
		job = next;
	}
}

/* Whether the job has joined a task that is to be sent. */
static bool join_any(struct redis_lane *lane, struct task *gathered, struct task *slow,
                     struct store_job *job)
{
	if (gathered && !gathered->followers.first)
		return join(lane, gathered, job);
	return slow && slow->followers.first && join(lane, slow->newest, job);
}

/* Whether the job has joined a task that takes a chunk, or waits for that chunk. */
static bool await_units(struct redis_lane *lane, struct task *gathered, struct task *slow,
                        struct store_job *job)
{
	if (!slow || !slow->chunk.takes || slow->followers.first || job->step.call.op != ALGO_ACQUIRE ||
	    !chunk_applies(job) || chunk_name(job).which != slow->chunk.name.which)
		return false;
	if (gathered == slow && !slow->waiters && join(lane, slow, job))
		return true;
	job->next = NULL;
	*slow->last_waiter = job;
	slow->last_waiter = &job->next;
	return true;
}

/* From now on it is the newest of its key. */
static void join_batch(struct redis_lane *lane, struct task *task)
{
	struct batch *batch = &lane->batch;

	begin_order(lane, task);
	*spot_of(batch, task->jobs) = (struct spot){batch->turn, task};
	task_append(&batch->tasks, task);
	batch->count++;
}

/* Makes it a task of the batch, of an earlier one, or to follow one. Whether it has ended instead. */
static bool gather(struct redis_lane *lane, struct store_job *job)
{
	struct batch *batch = &lane->batch;
	struct spot *spot = spot_of(batch, job);
	struct task *gathered = spot->turn == batch->turn ? spot->task : NULL;
	/* Chains do not wait: their keys would have to wait for one another. */
	struct task *slow = job->together ? NULL : find_slow(lane, job), *task;
	enum chunk_answer units;

	job->status = WEIR_OK;
	/* Jobs submitted before this one may change what is known. */
	if (!gathered && !slow && !job->together && known_answer(lane, job))
		return true;
	if (await_units(lane, gathered, slow, job))
		return false;
	units = slow ? CHUNK_NONE : known_units(lane, job);
	if (units == CHUNK_GRANTED)
		return true;
	if (units == CHUNK_NONE && join_any(lane, gathered, slow, job))
		return false;
	task = make_asking(lane, job, units == CHUNK_ASK);
	if (!task) {
		job->status = WEIR_ENOMEM;
		return true;
	}
	if (slow)
		follow(slow, task);
	else
		join_batch(lane, task);
	return false;
}

/* Whether two steps are on one key. Tried before either takes, each would find room of its own. */
static bool has_key_twice(const struct task *first)
{
	for (const struct task *task = first; task; task = task->next)
		for (const struct task *other = task->next; other; other = other->next)
			if (slice_equal(task->step.key, other->step.key))
				return true;
	return false;
}

/* Moves the first to the batch, and with it those of its slot: they stand together, as a group. */
static void join_by_slot(struct redis_lane *lane, struct task **from, bool is_group)
{
	struct task **at = from, *task, *first = *from;
	unsigned slot = first->slot;
	uint32_t group = 0;

	while ((task = *at)) {
		if (task->slot != slot) {
			at = &task->next;
			continue;
		}
		*at = task->next;
		if (task != first && group == 0 && is_group)
			group = first->step.group = ++lane->groups ? lane->groups : ++lane->groups;
		task->step.group = group;
		join_batch(lane, task);
	}
}

/* All or nothing, and so is the memory for it. */
static void add_chain(struct redis_lane *lane, struct store_job *jobs)
{
	struct task *first = NULL, **last = &first;
	bool is_group;

	while (jobs) {
		struct store_job *job = jobs;
		struct task *task;

		jobs = job->next;
		task = make_task(lane, job);
		if (!task) {
			job->next = jobs;
			task_fail_all(lane, first, WEIR_ENOMEM);
			batch_refuse(lane, job, WEIR_ENOMEM);
			return;
		}
		task->next = NULL;
		*last = task;
		last = &task->next;
	}
	is_group = !has_key_twice(first);
	while (first)
		join_by_slot(lane, &first, is_group);
}

/* Ends jobs that have no task: answered, or with a status. */
static void end_all(struct redis_lane *lane, struct store_job *jobs)
{
	while (jobs) {
		struct store_job *job = jobs;

		jobs = job->next;
		if (job->status == WEIR_OK)
			done(lane, job);
		else
			job_fail(lane, job, job->status);
	}
}

void batch_refuse(struct redis_lane *lane, struct store_job *jobs, int status)
{
	while (jobs) {
		struct store_job *job = jobs;

		jobs = job->next;
		job_fail(lane, job, status);
	}
}

void batch_add(struct redis_lane *lane, struct store_job *jobs, bool together)
{
	struct store_job *ended = NULL, **last = &ended;

	if (together && known_answer_all(lane, jobs)) {
		end_all(lane, jobs);
		return;
	}
	if (together) {
		add_chain(lane, jobs);
		return;
	}
	while (jobs) {
		struct store_job *job = jobs;

		jobs = job->next;
		if (gather(lane, job)) {
			*last = job;
			last = &job->next;
		}
	}
	*last = NULL;
	end_all(lane, ended); /* now, since `done` may submit more */
}
