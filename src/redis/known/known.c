#include "redis/known/known.h"

/* By the clock of tests where they give the time, else by the monotonic one. */
static uint64_t time_of(struct redis_lane *lane, struct moment at)
{
	return lane->store->options.given_time ? at.now_ns : lane_now_ns(lane);
}

static bool gives_back(const struct algo_call *call)
{
	return call->op == ALGO_REFUND || call->op == ALGO_RESET;
}

/* Passes: what requests would have got that another limit denied. */

static struct passed *passed_of(struct redis_lane *lane, const struct store_step *step)
{
	return &lane->passed[step->key.hash % LANE_PASSED];
}

void known_passed(struct redis_lane *lane, const struct store_job *job)
{
	const struct store_step *step = &job->step;

	if (step->limit->paced) /* whether it passes is said for one `max_wait_ns` */
		return;
	*passed_of(lane, step) =
	    (struct passed){step->key.hash, step->call.cost,
	                    time_of(lane, step->at) + lane->store->options.denied_cache_ns};
}

/* A grant may have taken the last of it. */
static void forget_passed(struct redis_lane *lane, const struct store_step *step)
{
	struct passed *passed = passed_of(lane, step);

	if (passed->key == step->key.hash)
		passed->until_ns = 0;
}

/* Denied requests in a row would ask of each limit that does not deny whether it still passes. */
static bool has_passed(struct redis_lane *lane, struct store_job *job)
{
	const struct store_step *step = &job->step;
	const struct passed *passed = passed_of(lane, step);

	if (passed->key != step->key.hash || passed->cost != step->call.cost ||
	    passed->until_ns <= time_of(lane, step->at))
		return false;
	algo_outcome_full(step->limit, &job->outcome);
	algo_outcome_open(&job->outcome);
	job->status = WEIR_OK;
	job->withheld = false;
	job->until_ns = 0;
	return true;
}

static bool known_denial(struct redis_lane *lane, struct store_job *job)
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

bool known_answer(struct redis_lane *lane, struct store_job *job)
{
	return (!job->anew && known_denial(lane, job)) || (job->explains && has_passed(lane, job));
}

bool known_answer_all(struct redis_lane *lane, struct store_job *jobs)
{
	bool any = false;

	for (struct store_job *job = jobs; job; job = job->next) {
		bool is = known_denial(lane, job);

		job->withheld = !is;
		any |= is;
	}
	for (struct store_job *job = jobs; job; job = job->next)
		if (!any)
			job->withheld = false;
		else if (job->withheld) {
			job->status = WEIR_OK;
			job->unasked = true;
		}
	return any;
}

/* Chunks */

enum chunk_answer known_units(struct redis_lane *lane, struct store_job *job)
{
	enum chunk_answer answer;

	if (job->step.limit->chunk == 0 || lane->is_stopping || !chunk_applies(job))
		return CHUNK_NONE;
	answer = chunk_take(lane->store->chunks, job, time_of(lane, job->step.at), lane);
	if (answer == CHUNK_GRANTED)
		count_more(&lane->counts.chunk, 1);
	return answer;
}

bool known_serve(struct redis_lane *lane, struct store_job *job)
{
	if (chunk_serve(lane->store->chunks, job, time_of(lane, job->step.at)) != CHUNK_GRANTED)
		return false;
	count_more(&lane->counts.chunk, 1);
	return true;
}

void known_take_units(struct redis_lane *lane, struct task *task)
{
	task->chunk.takes =
	    task->chunk.is_counted && chunk_prepare(lane->store->chunks, task->jobs);
}

/* Gives the chunk Redis's answer about it, if there was one. */
static void learn_units(struct redis_lane *lane, struct task *task, bool answered)
{
	bool is_given = lane->store->options.given_time;
	uint64_t now_ns = time_of(lane, task->step.at), at_ns;

	at_ns = chunk_end(lane->store->chunks, &task->chunk, task->step.limit,
	                  &(struct chunk_told){
	                      .units = answered ? &task->step.units : NULL,
	                      .asked_ns = task->asked_ns,
	                      .clock_ns = is_given ? task->asked_ns : lane->clock_ns,
	                  },
	                  now_ns, lane);
	if (at_ns == 0 || is_given || (lane->idle_ns != 0 && lane->idle_ns <= at_ns))
		return;
	lane->idle_ns = at_ns;
	lane_alarm_at(lane, at_ns);
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
	if (chunk_is_for(step->limit)) {
		task->chunk = (struct chunk_step){
		    .name = chunk_name(job),
		    .settles = step->call.op == ALGO_REFUND && step->call.cost == 0,
		};
		chunk_begin(lane->store->chunks, &task->chunk, lane);
	}
	task->is_question = denied && denied_applies(step->limit, &step->call);
	if (!task->is_question)
		return;
	task->question = denied_question(step->limit, &step->call, step->key.hash);
	task->forgotten = denied_count(denied, step->key.hash);
}

/* Notes the time: Redis is asked after it. */
void known_asked(struct redis_lane *lane, struct task *task)
{
	struct redis_step *step = &task->step;

	task->asked_ns = time_of(lane, step->at);
	if (!task->chunk.is_counted)
		return;
	task->chunk.insists = step->own.tries > 0;
	chunk_write(lane->store->chunks, &task->chunk, step, task->asked_ns, lane,
	            lane->is_stopping || lane->is_closing);
}

void known_learn(struct redis_lane *lane, struct task *task, const struct algo_outcome *outcome,
                 bool answered)
{
	struct denied *denied = lane->store->denied;
	uint64_t cache_ns = lane->store->options.denied_cache_ns;

	if (task->chunk.is_counted)
		learn_units(lane, task, answered);
	if (denied && gives_back(&task->step.call))
		denied_forget(denied, task->jobs->step.key.hash);
	if (denied && outcome && task->step.call.op == ALGO_ACQUIRE && lane->outcomes[0].allowed) {
		denied_taken(denied, task->jobs->step.key.hash);
		forget_passed(lane, &task->jobs->step);
	}
	if (!task->is_question || !outcome || outcome->allowed || outcome->retry_after_ns == 0)
		return;
	/* The next acquire has to reach Redis, which then stores the converted state. */
	if (task->step.is_converted)
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
