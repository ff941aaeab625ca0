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

void known_ask(const struct redis_lane *lane, struct task *task, const struct store_job *job)
{
	const struct store_step *step = &job->step;
	struct denied *denied = lane->store->denied;

	if (denied && gives_back(&step->call))
		denied_forget(denied, step->key.hash);
	task->is_question = denied && denied_applies(step->limit, &step->call);
	if (!task->is_question)
		return;
	task->question = denied_question(step->limit, &step->call, step->key.hash);
	task->forgotten = denied_count(denied, step->key.hash);
}

/* What is still true is not known so far: Redis is asked after now. */
void known_asked(struct redis_lane *lane, struct task *task)
{
	task->asked_ns = time_of(lane, task->step.at);
}

void known_learn(struct redis_lane *lane, const struct task *task,
                 const struct algo_outcome *outcome)
{
	struct denied *denied = lane->store->denied;
	uint64_t cache_ns = lane->store->options.denied_cache_ns;

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
