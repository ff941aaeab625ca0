#include "redis/chunk.h"

#include <pthread.h>
#include <stdlib.h>

#include "algo/algo.h"
#include "algo/bucket.h"
#include "algo/window.h"
#include "base/os.h"
#include "redis/denied.h"

#define SETS          1024
#define WAYS          4
#define LIMITS        256
#define IDLE_NS       NS_PER_S
#define IDLE_LEAST_NS (50 * NS_PER_MS) /* all chunks are looked at so often at most */

enum state {
	NONE,
	SEEN,  /* a request has come, and was asked for by itself */
	ASKED, /* for a chunk */
	HELD,
};

/* A job that gives units back. */
struct back {
	struct store_job job; /* first */
	char texts[];         /* key, and name of the limit */
};

struct chunk {
	struct chunk_name name;
	enum state state;
	bool is_void;     /* ASKED: what comes is of before a reset */
	const void *lane; /* ASKED, HELD: that has asked */
	void *task;       /* ASKED: of that lane */
	uint64_t used_ns;
	uint64_t dry_until_ns; /* there was none to be had */
	/* HELD: */
	uint64_t left;
	uint64_t end_ns;    /* of the window; of a bucket its TAT when they were taken */
	uint64_t count;     /* of a window: in use at Redis */
	uint64_t until_ns;  /* of the state, by Redis's clock: by which a refund names them, ... */
	uint64_t offset_ns; /* which is so much ahead */
	struct back *back;
};

struct set {
	pthread_mutex_t lock;
	struct chunk chunks[WAYS];
};

/* A limit that stays, whatever becomes of the one that jobs have. */
struct kept {
	uint64_t which;
	struct algo_limit limit;
};

struct chunks {
	struct set sets[SETS];
	pthread_mutex_t lock; /* of: */
	struct kept *kept[LIMITS];
	size_t kept_count;
};

struct chunks *chunks_open(void)
{
	struct chunks *chunks = os_pages_map(sizeof *chunks);

	for (size_t i = 0; chunks && i < SETS; i++)
		pthread_mutex_init(&chunks->sets[i].lock, NULL);
	if (chunks)
		pthread_mutex_init(&chunks->lock, NULL);
	return chunks;
}

void chunks_close(struct chunks *chunks)
{
	if (!chunks)
		return;
	for (size_t i = 0; i < SETS; i++) {
		for (size_t j = 0; j < WAYS; j++)
			free(chunks->sets[i].chunks[j].back);
		pthread_mutex_destroy(&chunks->sets[i].lock);
	}
	for (size_t i = 0; i < chunks->kept_count; i++) {
		algo_limit_free(&chunks->kept[i]->limit);
		free(chunks->kept[i]);
	}
	pthread_mutex_destroy(&chunks->lock);
	os_pages_unmap(chunks, sizeof *chunks);
}

static bool is_bucket(const struct algo_limit *limit)
{
	return algo_steps_by(limit, bucket_step);
}

bool chunk_applies(const struct store_job *job)
{
	const struct algo_limit *limit = job->step.limit;
	const struct algo_call *call = &job->step.call;

	return limit->chunk > 1 && call->op <= ALGO_PEEK && call->cost > 0 &&
	       call->cost <= limit->chunk && call->permit == 0 && !job->together && !limit->paced &&
	       (is_bucket(limit) || algo_steps_by(limit, window_step));
}

struct chunk_name chunk_name(const struct store_job *job)
{
	const struct denied_question question =
	    denied_question(job->step.limit, &(struct algo_call){.cost = 1}, job->step.key.hash);

	return (struct chunk_name){question.key, question.which};
}

/* Limits that stay */

static const struct algo_limit *keep(struct chunks *chunks, const struct algo_limit *limit,
                                     uint64_t which)
{
	const struct algo_limit *found = NULL;
	struct kept *kept;

	pthread_mutex_lock(&chunks->lock);
	for (size_t i = 0; i < chunks->kept_count && !found; i++)
		if (chunks->kept[i]->which == which)
			found = &chunks->kept[i]->limit;
	if (!found && chunks->kept_count < LIMITS && (kept = malloc(sizeof *kept))) {
		kept->which = which;
		if (algo_limit_copy(&kept->limit, limit) == WEIR_OK) {
			chunks->kept[chunks->kept_count++] = kept;
			found = &kept->limit;
		} else {
			free(kept);
		}
	}
	pthread_mutex_unlock(&chunks->lock);
	return found;
}

/* Sets */

static struct set *lock_set(struct chunks *chunks, uint64_t key)
{
	struct set *set = &chunks->sets[key % SETS];

	pthread_mutex_lock(&set->lock);
	return set;
}

static struct chunk *find(struct set *set, struct chunk_name name)
{
	for (size_t i = 0; i < WAYS; i++)
		if (set->chunks[i].state != NONE && set->chunks[i].name.key == name.key &&
		    set->chunks[i].name.which == name.which)
			return &set->chunks[i];
	return NULL;
}

static void clear(struct chunk *chunk)
{
	free(chunk->back);
	*chunk = (struct chunk){0};
}

/* A place for another: one that is not used, else the one that was seen longest ago; or NULL. */
static struct chunk *place_for(struct set *set, struct chunk_name name, uint64_t now_ns)
{
	struct chunk *oldest = NULL;

	for (size_t i = 0; i < WAYS; i++) {
		struct chunk *chunk = &set->chunks[i];

		if (chunk->state <= SEEN && (!oldest || chunk->used_ns < oldest->used_ns))
			oldest = chunk;
	}
	if (!oldest)
		return NULL;
	clear(oldest);
	*oldest = (struct chunk){.name = name, .state = SEEN, .used_ns = now_ns};
	return oldest;
}

/* Units */

/* The time that so many units of a bucket take, rounded up. */
static uint64_t length_of(const struct algo_limit *limit, uint64_t units)
{
	const struct bucket_params *params = &limit->bucket;

	return (uint64_t)(((u128)units * params->p + params->q - 1) / params->q);
}

/* The units that can still be granted. */
static uint64_t good(const struct chunk *chunk, const struct algo_limit *limit, uint64_t now_ns)
{
	uint64_t left_ns = sat_sub(chunk->end_ns, now_ns);

	if (!is_bucket(limit))
		return left_ns > 0 ? chunk->left : 0;
	return (uint64_t)u64_min(chunk->left,
	                         sat_u64((u128)left_ns * limit->bucket.q / limit->bucket.p));
}

/* A state as if the units that are left had been given back, on the local clock. */
static struct algo_state state_of(const struct chunk *chunk, const struct algo_limit *limit,
                                  uint64_t units)
{
	uint64_t count = sat_sub(chunk->count, units);

	if (is_bucket(limit))
		return (struct algo_state){sat_sub(chunk->end_ns, length_of(limit, units)), 0};
	return count > 0 ? (struct algo_state){chunk->end_ns, (uint32_t)(count - 1)}
	                 : (struct algo_state){0, 0};
}

/* Decides by the algorithm's own step. */
static bool grant(struct chunk *chunk, struct store_job *job, uint64_t now_ns)
{
	const struct algo_limit *limit = job->step.limit;
	uint64_t units = good(chunk, limit, now_ns), cost = job->step.call.cost;
	struct algo_state state = state_of(chunk, limit, units);
	const struct algo_time time = {now_ns, chunk->end_ns};

	if (units < cost)
		return false;
	algo_step(limit, &job->step.call, &time, &state, &job->outcome);
	if (!job->outcome.allowed)
		return false;
	job->status = WEIR_OK;
	job->withheld = false;
	job->until_ns = 0;
	chunk->used_ns = now_ns;
	if (job->step.call.op == ALGO_PEEK)
		return true;
	job->until_ns = is_bucket(limit) ? state.until_ns + chunk->offset_ns : chunk->until_ns;
	chunk->left = units - cost;
	return true;
}

uint64_t chunk_idle_ns(const struct algo_limit *limit)
{
	return u64_max(IDLE_LEAST_NS, u64_min(IDLE_NS, limit->window_ns / 10));
}

static enum chunk_answer ask(struct chunk *chunk, const struct store_job *job, uint64_t now_ns,
                             const void *lane)
{
	bool soon = now_ns - chunk->used_ns <= IDLE_NS;

	chunk->used_ns = now_ns;
	if (!soon || now_ns < chunk->dry_until_ns || job->step.call.op == ALGO_PEEK)
		return CHUNK_NONE;
	chunk->state = ASKED;
	chunk->lane = lane;
	chunk->is_void = false;
	chunk->task = NULL;
	return CHUNK_ASK;
}

enum chunk_answer chunk_take(struct chunks *chunks, struct store_job *job, uint64_t now_ns,
                             const void *lane, void **task)
{
	struct chunk_name name = chunk_name(job);
	struct set *set = lock_set(chunks, name.key);
	struct chunk *chunk = find(set, name);
	enum chunk_answer answer = CHUNK_NONE;

	if (!chunk) {
		place_for(set, name, now_ns);
	} else if (chunk->state == HELD && grant(chunk, job, now_ns)) {
		answer = CHUNK_GRANTED;
	} else if (chunk->state != ASKED) {
		answer = ask(chunk, job, now_ns, lane);
	} else if (chunk->lane == lane && job->step.call.op == ALGO_ACQUIRE) {
		answer = CHUNK_AWAITED;
		*task = chunk->task;
	}
	pthread_mutex_unlock(&set->lock);
	return answer;
}

static void give_up(struct store_job *job)
{
	free(job);
}

static struct back *make_back(const struct store_job *job, const struct algo_limit *limit)
{
	size_t name_len = strlen(job->limit_name) + 1, key_len = job->key_name.len;
	struct back *back = malloc(sizeof *back + name_len + key_len);

	if (!back)
		return NULL;
	back->job = (struct store_job){
	    .step = {.store = job->step.store,
	             .limit = limit,
	             .key = job->step.key,
	             .call = {.op = ALGO_REFUND, .newest_only = true}},
	    .limit_name = back->texts,
	    .key_name = {back->texts + name_len, key_len},
	    .done = give_up,
	};
	memcpy(back->texts, job->limit_name, name_len);
	if (key_len > 0)
		memcpy(back->texts + name_len, job->key_name.data, key_len);
	return back;
}

bool chunk_ask(struct chunks *chunks, const struct store_job *job, void *task)
{
	struct chunk_name name = chunk_name(job);
	const struct algo_limit *limit = keep(chunks, job->step.limit, name.which);
	struct back *back = limit ? make_back(job, limit) : NULL;
	struct set *set = lock_set(chunks, name.key);
	struct chunk *chunk = find(set, name);

	free(chunk->back);
	chunk->back = back;
	chunk->task = task;
	if (!back) {
		chunk->state = SEEN;
		chunk->left = 0;
	}
	pthread_mutex_unlock(&set->lock);
	return back != NULL;
}

void chunk_got(struct chunks *chunks, struct chunk_name name, const struct chunk_got *got)
{
	struct set *set = lock_set(chunks, name.key);
	struct chunk *chunk = find(set, name);

	chunk->state = SEEN;
	if (chunk->is_void) {
		chunk->left = 0;
	} else {
		const struct algo_limit *limit = chunk->back->job.step.limit;
		/* Units of the same window are alike; of a bucket the older ones leak first. */
		uint64_t before = !is_bucket(limit) && chunk->until_ns == got->until_ns ? chunk->left : 0;

		chunk->state = HELD;
		chunk->left = got->units + before;
		chunk->end_ns = got->asked_ns + sat_sub(got->until_ns, got->clock_ns);
		chunk->until_ns = got->until_ns;
		chunk->offset_ns = got->until_ns - chunk->end_ns;
		chunk->count = limit->quota - u64_min(limit->quota, got->remaining);
		chunk->used_ns = got->now_ns;
	}
	pthread_mutex_unlock(&set->lock);
}

bool chunk_serve(struct chunks *chunks, struct chunk_name name, struct store_job *job,
                 uint64_t now_ns)
{
	struct set *set = lock_set(chunks, name.key);
	struct chunk *chunk = find(set, name);
	bool granted = chunk && chunk->state == HELD && grant(chunk, job, now_ns);

	pthread_mutex_unlock(&set->lock);
	return granted;
}

void chunk_missed(struct chunks *chunks, struct chunk_name name, uint64_t until_ns)
{
	struct set *set = lock_set(chunks, name.key);
	struct chunk *chunk = find(set, name);

	if (chunk->is_void)
		chunk->left = 0;
	chunk->state = chunk->left > 0 ? HELD : SEEN; /* too few for that request */
	chunk->dry_until_ns = until_ns;
	pthread_mutex_unlock(&set->lock);
}

void chunk_forget(struct chunks *chunks, uint64_t key)
{
	struct set *set = lock_set(chunks, key);

	for (size_t i = 0; i < WAYS; i++) {
		struct chunk *chunk = &set->chunks[i];

		if (chunk->name.key != key)
			continue;
		if (chunk->state == ASKED)
			chunk->is_void = true;
		else
			clear(chunk);
	}
	pthread_mutex_unlock(&set->lock);
}

/* The job that gives the chunk back; NULL: time has spent it. The chunk is SEEN from then on. */
static struct store_job *give_back(struct chunk *chunk, uint64_t now_ns)
{
	struct back *back = chunk->back;
	uint64_t units = good(chunk, back->job.step.limit, now_ns);

	chunk->state = SEEN;
	chunk->left = 0;
	if (units == 0)
		return NULL;
	chunk->back = NULL;
	back->job.step.call.cost = units;
	back->job.step.call.until_ns = chunk->until_ns;
	back->job.step.at = moment_given(now_ns);
	return &back->job;
}

struct store_job *chunk_idle(struct chunks *chunks, const void *lane, uint64_t now_ns, bool all,
                             uint64_t *next_ns)
{
	struct store_job *jobs = NULL;

	*next_ns = 0;
	for (size_t i = 0; i < SETS; i++) {
		struct set *set = lock_set(chunks, i);

		for (size_t j = 0; j < WAYS; j++) {
			struct chunk *chunk = &set->chunks[j];
			struct store_job *job;
			uint64_t at_ns;

			if (chunk->state != HELD || chunk->lane != lane)
				continue;
			at_ns = chunk->used_ns + chunk_idle_ns(chunk->back->job.step.limit);
			if (!all && at_ns > now_ns) {
				*next_ns = *next_ns == 0 ? at_ns : u64_min(*next_ns, at_ns);
				continue;
			}
			job = give_back(chunk, now_ns);
			if (job) {
				job->next = jobs;
				jobs = job;
			}
		}
		pthread_mutex_unlock(&set->lock);
	}
	return jobs;
}
