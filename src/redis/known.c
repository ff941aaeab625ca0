#include "redis/known.h"

/* By the clock of tests where they give the time, else by the monotonic one. */
static uint64_t time_of(struct redis_lane *lane, struct moment at)
{
	return lane->store->options.given_time ? at.now_ns : lane_now_ns(lane);
}

static bool gives_back(const struct algo_call *call)
{
	return call->op == ALGO_REFUND || call->op == ALGO_RESET;
}

bool known_answer(struct redis_lane *lane, struct store_job *job)
{
	const struct store_step *step = &job->step;
	struct denied *denied = lane->store->denied;
	struct denied_question question;

	if (!denied || !denied_applies(step->limit, &step->call))
		return false;
	question = denied_question(step->limit, &step->call, step->key.hash);
	if (!denied_find(denied, step->limit, &step->call, &question, time_of(lane, step->at),
	                 &job->outcome))
		return false;
	job->status = WEIR_OK;
	job->withheld = false;
	job->until_ns = 0;
	count_more(&lane->counts.denied, 1);
	return true;
}

bool known_answer_all(struct redis_lane *lane, struct store_job *jobs)
{
	bool any = false;

	for (struct store_job *job = jobs; job; job = job->next) {
		bool is = known_answer(lane, job);

		job->withheld = !is;
		any |= is;
	}
	for (struct store_job *job = jobs; job; job = job->next)
		if (!any)
			job->withheld = false;
		else if (job->withheld)
			job->status = WEIR_OK;
	return any;
}

/* Chunks */

enum chunk_answer known_units(struct redis_lane *lane, struct store_job *job, struct task **task)
{
	void *asked = NULL;
	enum chunk_answer answer;

	if (job->step.limit->chunk == 0 || lane->is_stopping || !chunk_applies(job))
		return CHUNK_NONE;
	answer = chunk_take(lane->store->chunks, job, time_of(lane, job->step.at), lane, &asked);
	*task = asked;
	if (answer == CHUNK_GRANTED)
		count_more(&lane->counts.chunk, 1);
	return answer;
}

void known_take_units(struct redis_lane *lane, struct task *task)
{
	uint64_t chunk = task->step.limit->chunk, unit = ceil_div(chunk, CHUNK_PARTS);

	task->takes_chunk = chunk_ask(lane->store->chunks, task->jobs, task);
	if (!task->takes_chunk)
		return;
	task->chunk = chunk_name(task->jobs);
	task->step.call.cost = unit;
	task->step.repeat = (uint32_t)(chunk / unit);
	task->is_question = false; /* its cost is no request's */
}

static void keep_units(struct redis_lane *lane, const struct task *task, uint32_t parts)
{
	bool is_given = lane->store->options.given_time;
	uint64_t now_ns = time_of(lane, task->step.at), clock_ns = lane->clock_ns;

	chunk_got(lane->store->chunks, task->chunk,
	          &(struct chunk_got){
	              .units = parts * task->step.call.cost,
	              .until_ns = lane->until_ns[parts - 1],
	              .clock_ns = is_given ? task->step.at.now_ns : clock_ns,
	              .remaining = lane->outcomes[parts - 1].remaining,
	              .asked_ns = task->asked_ns,
	              .now_ns = now_ns,
	          });
	if (lane->idle_ns == 0 && !is_given) {
		lane->idle_ns = now_ns + chunk_idle_ns(task->step.limit);
		lane_alarm_at(lane, lane->idle_ns);
	}
}

void known_serve(struct redis_lane *lane, struct task *task)
{
	struct store_job *jobs = task->jobs, **unserved = &task->unserved;
	uint32_t parts = 0;

	while (parts < task->step.repeat && lane->outcomes[parts].allowed)
		parts++;
	if (parts > 0)
		keep_units(lane, task, parts);
	else
		chunk_missed(lane->store->chunks, task->chunk,
		             task->asked_ns + lane->outcomes[0].retry_after_ns);
	task->jobs = NULL;
	task->last = &task->jobs;
	while (jobs) {
		struct store_job *job = jobs;
		bool served = parts > 0 && chunk_serve(lane->store->chunks, task->chunk, job,
		                                       time_of(lane, job->step.at));

		jobs = job->next;
		job->next = NULL;
		if (served) {
			*task->last = job;
			task->last = &job->next;
		} else {
			*unserved = job;
			unserved = &job->next;
		}
	}
}

void known_missed(struct redis_lane *lane, const struct task *task)
{
	chunk_missed(lane->store->chunks, task->chunk, 0);
}

struct store_job *known_idle(struct redis_lane *lane)
{
	bool all = lane->is_closing || lane->is_stopping;

	if (lane->idle_ns == 0 || (lane->idle_ns > lane_now_ns(lane) && !all))
		return NULL;
	return chunk_idle(lane->store->chunks, lane, lane_now_ns(lane), all, &lane->idle_ns);
}

void known_ask(const struct redis_lane *lane, struct task *task, const struct store_job *job)
{
	const struct store_step *step = &job->step;
	struct denied *denied = lane->store->denied;

	if (denied && gives_back(&step->call))
		denied_forget(denied, step->key.hash);
	if (step->call.op == ALGO_RESET)
		chunk_forget(lane->store->chunks, step->key.hash);
	task->is_question = denied && denied_applies(step->limit, &step->call);
	if (!task->is_question)
		return;
	task->question = denied_question(step->limit, &step->call, step->key.hash);
	task->forgotten = denied_count(denied, step->key.hash);
}

/* Notes the time: Redis is asked after it. */
void known_asked(struct redis_lane *lane, struct task *task)
{
	task->asked_ns = time_of(lane, task->step.at);
}

void known_learn(struct redis_lane *lane, const struct task *task,
                 const struct algo_outcome *outcome)
{
	struct denied *denied = lane->store->denied;
	uint64_t cache_ns = lane->store->options.denied_cache_ns;

	if (task->step.call.op == ALGO_RESET)
		chunk_forget(lane->store->chunks, task->jobs->step.key.hash);
	if (denied && gives_back(&task->step.call))
		denied_forget(denied, task->jobs->step.key.hash);
	if (denied && outcome && task->step.call.op == ALGO_ACQUIRE && lane->outcomes[0].allowed)
		denied_taken(denied, task->jobs->step.key.hash);
	if (!task->is_question || !outcome || outcome->allowed || outcome->retry_after_ns == 0)
		return;
	denied_note(denied, &task->question, task->forgotten,
	            &(struct denied_answer){
	                .known_ns = task->asked_ns + u64_min(outcome->retry_after_ns, cache_ns),
	                .until_ns = sat_add(task->asked_ns, outcome->retry_after_ns),
	                .reset_ns = sat_add(task->asked_ns, outcome->reset_after_ns),
	                .remaining = outcome->remaining,
	                .reason = outcome->reason,
	            });
}
