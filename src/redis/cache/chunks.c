#include "redis/cache/chunks.h"

#include <pthread.h>
#include <stdlib.h>

#include "algo/algo.h"
#include "algo/rates/bucket.h"
#include "base/draw.h"
#include "base/os/os.h"
#include "redis/cache/denials.h"

#define SETS    1024
#define WAYS    4
#define LIMITS  256
#define SOON_NS NS_PER_S
#define IDLE_AGAIN_NS (20 * NS_PER_MS) /* to look again for one of which steps are under way */
#define ID_MAX  (UINT64_C(1) << 48) /* scripts count by doubles, and write 15 digits */

/* A copy of a limit, whatever becomes of the one that operations have. */
struct kept {
	uint64_t which;
	size_t references;
	struct algo_limit limit;
};

/* An operation that settles a chunk. */
struct settling {
	struct store_operation operation; /* first */
	struct chunks *chunks;
	struct kept *kept;
	struct cache_name name;
	char texts[]; /* key, and name of the limit */
};

/*
 * Of a key. While steps are `said`, `left` is 0. Else Redis holds `left` units for this process, unless
 * it is_unsure.
 */
struct chunk {
	struct cache_name name;
	bool is_used;
	bool has_others;     /* other servers held units when Redis was asked last */
	bool is_unsure;      /* Redis may hold another number of units */
	uint64_t asked_ns;   /* when somebody asked for the key last, by the local clock */
	size_t steps;        /* of it that have not ended */
	const void *stepper; /* whose steps these are; NULL: of several clients */
	size_t said;         /* of these: that settle the chunk */
	bool overlaps;       /* the newest was written while others were under way */
	const void *client;  /* that has the chunk; it settles it */
	uint64_t id, number; /* of the entry at Redis, 0: there was none yet; and of the newest step */
	uint64_t used;       /* units granted so far, ... */
	uint64_t used_known; /* and of these that Redis knows */
	uint64_t left;
	struct units_reserved reserved;
	uint64_t offset_ns;        /* so much Redis's clock is ahead, modulo 2^64 */
	struct algo_state state;   /* the key's, as if nobody held units */
	struct algo_state own;     /* of a bucket: what `used` did since Redis knew it last */
	struct settling *settling; /* NULL: none, or it is under way */
};

struct set {
	pthread_mutex_t lock;
	struct chunk chunks[WAYS];
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

/* Parameters */

static struct kept *find_kept(struct chunks *chunks, const struct algo_limit *limit, uint64_t which)
{
	struct kept *kept = NULL;

	pthread_mutex_lock(&chunks->lock);
	for (size_t i = 0; i < chunks->kept_count && !kept; i++)
		if (chunks->kept[i]->which == which)
			kept = chunks->kept[i];
	if (!kept && chunks->kept_count < LIMITS && (kept = malloc(sizeof *kept))) {
		kept->which = which;
		kept->references = 0;
		if (algo_limit_copy(&kept->limit, limit) == WEIR_OK) {
			kept->limit.chunk = limit->chunk;
			chunks->kept[chunks->kept_count++] = kept;
		} else {
			free(kept);
			kept = NULL;
		}
	}
	if (kept)
		kept->references++;
	pthread_mutex_unlock(&chunks->lock);
	return kept;
}

static void drop(struct chunks *chunks, struct kept *kept)
{
	size_t i = 0;

	pthread_mutex_lock(&chunks->lock);
	if (--kept->references == 0) {
		while (chunks->kept[i] != kept)
			i++;
		chunks->kept[i] = chunks->kept[--chunks->kept_count];
		algo_limit_free(&kept->limit);
		free(kept);
	}
	pthread_mutex_unlock(&chunks->lock);
}

size_t chunk_limits(struct chunks *chunks)
{
	size_t count;

	pthread_mutex_lock(&chunks->lock);
	count = chunks->kept_count;
	pthread_mutex_unlock(&chunks->lock);
	return count;
}

static void free_settling(struct settling *settling)
{
	if (settling)
		drop(settling->chunks, settling->kept);
	free(settling);
}

void chunks_close(struct chunks *chunks)
{
	if (!chunks)
		return;
	for (size_t i = 0; i < SETS; i++) {
		for (size_t j = 0; j < WAYS; j++)
			free_settling(chunks->sets[i].chunks[j].settling);
		pthread_mutex_destroy(&chunks->sets[i].lock);
	}
	pthread_mutex_destroy(&chunks->lock);
	os_pages_unmap(chunks, sizeof *chunks);
}

bool chunk_is_for(const struct algo_limit *limit)
{
	return limit->chunk > 1 && units_apply(limit);
}

bool chunk_applies(const struct store_operation *operation)
{
	const struct algo_call *call = &operation->step.call;

	return chunk_is_for(operation->step.limit) && call->op <= ALGO_PEEK && call->cost > 0 &&
	       call->cost <= operation->step.limit->chunk && call->permit == 0 && !operation->together;
}

struct cache_name chunk_name(const struct store_operation *operation)
{
	const struct cache_name question = denied_question(
	    operation->step.limit, &(struct algo_call){.cost = 1}, operation->step.key.hash);

	return (struct cache_name){question.key, question.which};
}

/* Sets */

static struct set *lock_set(struct chunks *chunks, uint64_t key)
{
	struct set *set = &chunks->sets[key % SETS];

	pthread_mutex_lock(&set->lock);
	return set;
}

static struct chunk *find(struct set *set, struct cache_name name)
{
	for (size_t i = 0; i < WAYS; i++)
		if (set->chunks[i].is_used && set->chunks[i].name.key == name.key &&
		    set->chunks[i].name.which == name.which)
			return &set->chunks[i];
	return NULL;
}

/* Whether there is something to be said to Redis. */
static bool holds(const struct chunk *chunk)
{
	return chunk->left > 0 || chunk->is_unsure || chunk->used != chunk->used_known;
}

/* Forgets parameters that only chunks refer to in which there is nothing. */
static void sweep(struct chunks *chunks)
{
	for (size_t i = 0; i < SETS; i++) {
		struct set *set = lock_set(chunks, i);

		for (size_t j = 0; j < WAYS; j++) {
			struct chunk *chunk = &set->chunks[j];

			if (chunk->steps > 0 || holds(chunk))
				continue;
			free_settling(chunk->settling);
			chunk->settling = NULL;
		}
		pthread_mutex_unlock(&set->lock);
	}
}

static struct kept *keep(struct chunks *chunks, const struct algo_limit *limit, uint64_t which)
{
	struct kept *kept = find_kept(chunks, limit, which);

	if (kept || chunk_limits(chunks) < LIMITS)
		return kept;
	sweep(chunks);
	return find_kept(chunks, limit, which);
}

/* A place for another: one that is not used, else the one that was asked for longest ago; or NULL. */
static struct chunk *place_for(struct set *set, struct cache_name name, uint64_t now_ns)
{
	struct chunk *oldest = NULL;

	for (size_t i = 0; i < WAYS; i++) {
		struct chunk *chunk = &set->chunks[i];

		if (chunk->steps == 0 && !holds(chunk) && (!oldest || chunk->asked_ns < oldest->asked_ns))
			oldest = chunk;
	}
	if (!oldest)
		return NULL;
	free_settling(oldest->settling);
	*oldest = (struct chunk){.name = name, .is_used = true, .asked_ns = now_ns};
	return oldest;
}

/* Requests */

/* Decides by the algorithm's own step, on the state as if what is left were given back. */
static bool grant(struct chunk *chunk, struct store_operation *operation, uint64_t now_ns)
{
	const struct algo_limit *limit = operation->step.limit;
	const struct algo_call *call = &operation->step.call;
	const struct algo_time time = {now_ns + chunk->offset_ns, chunk->reserved.until_ns};
	bool is_bucket = algo_steps_by(limit, bucket_step);
	struct algo_outcome *out = &operation->outcome, ignored;
	struct algo_state state = chunk->state;
	uint64_t name_ns;

	if (chunk->left < call->cost || time.now_ns >= chunk->reserved.until_ns)
		return false;
	name_ns = units_step(limit, call, &time, &chunk->reserved, &state, out);
	if (!out->allowed)
		return false;
	operation->status = WEIR_OK;
	operation->withheld = false;
	operation->until_ns = 0;
	operation->clock_ns = time.now_ns;
	chunk->asked_ns = now_ns;
	if (call->op == ALGO_PEEK)
		return true;
	operation->until_ns = name_ns;
	chunk->state = state;
	chunk->left -= call->cost;
	chunk->used += call->cost;
	if (is_bucket)
		algo_step(limit, call, &time, &chunk->own, &ignored);
	return true;
}

enum chunk_answer chunk_take(struct chunks *chunks, struct store_operation *operation,
                             uint64_t now_ns, const void *client)
{
	struct cache_name name = chunk_name(operation);
	struct set *set = lock_set(chunks, name.key);
	struct chunk *chunk = find(set, name);
	enum chunk_answer answer = CHUNK_NONE;
	bool is_behind = chunk && chunk->steps > 0 && (!chunk->stepper || chunk->stepper == client);

	if (!chunk) {
		place_for(set, name, now_ns);
	} else if (!is_behind && grant(chunk, operation, now_ns)) {
		answer = CHUNK_GRANTED;
	} else {
		bool soon = sat_sub(now_ns, chunk->asked_ns) <= SOON_NS;

		chunk->asked_ns = now_ns;
		if (soon && chunk->said == 0 && operation->step.call.op == ALGO_ACQUIRE)
			answer = CHUNK_ASK;
	}
	pthread_mutex_unlock(&set->lock);
	return answer;
}

enum chunk_answer chunk_serve(struct chunks *chunks, struct store_operation *operation,
                              uint64_t now_ns)
{
	struct cache_name name = chunk_name(operation);
	struct set *set = lock_set(chunks, name.key);
	struct chunk *chunk = find(set, name);
	bool granted = chunk && grant(chunk, operation, now_ns);

	pthread_mutex_unlock(&set->lock);
	return granted ? CHUNK_GRANTED : CHUNK_NONE;
}

/* Settling */

/* The chunk may need it again, if it is not known what became of it. */
static void settled(struct store_operation *operation)
{
	struct settling *settling = (struct settling *)operation;
	struct set *set = lock_set(settling->chunks, settling->name.key);
	struct chunk *chunk = find(set, settling->name);

	if (chunk && !chunk->settling && (holds(chunk) || chunk->steps > 0)) {
		chunk->settling = settling;
		settling = NULL;
	}
	pthread_mutex_unlock(&set->lock);
	free_settling(settling);
}

static struct settling *make_settling(struct chunks *chunks,
                                      const struct store_operation *operation, struct kept *kept)
{
	size_t name_len = strlen(operation->limit_name) + 1, key_len = operation->key_name.len;
	struct settling *settling = malloc(sizeof *settling + name_len + key_len);

	if (!settling)
		return NULL;
	settling->chunks = chunks;
	settling->kept = kept;
	settling->name = chunk_name(operation);
	settling->operation = (struct store_operation){
	    .step = {.store = operation->step.store,
	             .limit = &kept->limit,
	             .key = operation->step.key,
	             .call = {.op = ALGO_REFUND}},
	    .limit_name = settling->texts,
	    .key_name = {settling->texts + name_len, key_len},
	    .done = settled,
	};
	memcpy(settling->texts, operation->limit_name, name_len);
	if (key_len > 0)
		memcpy(settling->texts + name_len, operation->key_name.data, key_len);
	return settling;
}

bool chunk_prepare(struct chunks *chunks, const struct store_operation *operation)
{
	struct cache_name name = chunk_name(operation);
	struct kept *kept = keep(chunks, operation->step.limit, name.which);
	struct settling *made = kept ? make_settling(chunks, operation, kept) : NULL;
	struct chunk *chunk;
	struct set *set;
	bool has = false;

	if (kept && !made)
		drop(chunks, kept);
	set = lock_set(chunks, name.key);
	chunk = find(set, name);
	if (chunk && !chunk->settling && made) {
		chunk->settling = made;
		made = NULL;
	}
	has = chunk && chunk->settling;
	pthread_mutex_unlock(&set->lock);
	free_settling(made);
	return has;
}

/* Steps */

void chunk_begin(struct chunks *chunks, struct command_chunk *step, const void *client)
{
	struct set *set = lock_set(chunks, step->name.key);
	struct chunk *chunk = find(set, step->name);

	step->is_counted = chunk != NULL;
	if (chunk) {
		chunk->stepper = chunk->steps == 0 || chunk->stepper == client ? client : NULL;
		chunk->steps++;
	}
	pthread_mutex_unlock(&set->lock);
}

/* Whether nobody has asked for it for a while. */
static bool is_idle(const struct chunk *chunk, const struct algo_limit *limit, uint64_t now_ns)
{
	return sat_sub(now_ns, chunk->asked_ns) >= units_idle_ns(limit);
}

/* Writes into `asked` what Redis is to do with the chunk. */
static void say(struct chunk *chunk, const struct command_chunk *step, struct redis_command *asked,
                bool gives_all)
{
	struct command_units *units = &asked->units;

	chunk->overlaps = chunk->said > 1;
	if (chunk->id == 0)
		chunk->id = 1 + draw_next() % (ID_MAX - 1);
	units->id = chunk->id;
	units->number = ++chunk->number;
	units->used = chunk->used;
	units->own = chunk->own;
	units->lease_ns = units_lease_ns(asked->limit);
	if (gives_all || asked->call.op == ALGO_RESET)
		units->want = 0;
	else
		units->want = step->takes ? asked->limit->chunk : chunk->left;
	chunk->is_unsure |= holds(chunk);
	chunk->left = 0;
}

void chunk_write(struct chunks *chunks, struct command_chunk *step, struct redis_command *asked,
                 uint64_t now_ns, const void *client, bool stops)
{
	struct command_units *units = &asked->units;
	struct set *set = lock_set(chunks, step->name.key);
	struct chunk *chunk = find(set, step->name);
	bool insists = step->insists || asked->call.op != ALGO_ACQUIRE;
	size_t others = chunk ? chunk->said - step->is_said : 0;
	bool has = chunk && (step->takes || holds(chunk) || others > 0 || step->is_said);

	*units = (struct command_units){.is_known = units->is_known || (chunk && chunk->has_others)};
	if (!step->is_counted || !has) {
		; /* there is nothing to be said */
	} else if (others > 0 && !insists) {
		units->is_known = units->is_whole = true;
	} else {
		units->is_known = true;
		chunk->said += !step->is_said;
		step->is_said = true;
		chunk->client = client;
		say(chunk, step, asked, stops || (step->settles && is_idle(chunk, asked->limit, now_ns)));
	}
	pthread_mutex_unlock(&set->lock);
}

/* The answer to the newest step. */
static void learn(struct chunk *chunk, const struct chunk_told *told)
{
	const struct command_units *units = told->units;

	/* Without an entry, Redis takes an older step that comes later for a new one. */
	chunk->is_unsure = chunk->overlaps && units->held == 0;
	chunk->left = units->held;
	chunk->used_known = units->used;
	chunk->reserved = units->reserved;
	if (units->lease_ns > 0) /* clocks do not run quite alike */
		chunk->reserved.until_ns -= units->lease_ns / 16;
	chunk->offset_ns = told->clock_ns - told->asked_ns;
	chunk->state = units->state;
	chunk->own = (struct algo_state){0, 0};
}

uint64_t chunk_end(struct chunks *chunks, struct command_chunk *step,
                   const struct algo_limit *limit, const struct chunk_told *told, uint64_t now_ns,
                   const void *client)
{
	const struct command_units *units = told->units;
	struct set *set;
	struct chunk *chunk;
	uint64_t at_ns = 0;

	if (!step->is_counted)
		return 0;
	set = lock_set(chunks, step->name.key);
	chunk = find(set, step->name);
	chunk->steps--;
	chunk->said -= step->is_said;
	if (!step->is_said)
		;
	else if (units && units->number == chunk->number)
		learn(chunk, told);
	else
		chunk->is_unsure |= !units || units->held > 0;
	if (units && units->is_known)
		chunk->has_others = units->reserved.others > 0;
	if (holds(chunk)) {
		if (chunk->said == 0)
			chunk->client = client;
		at_ns = now_ns + units_idle_ns(limit);
	}
	pthread_mutex_unlock(&set->lock);
	return at_ns;
}

/* When its client is to look at it. */
static uint64_t due_ns(const struct chunk *chunk)
{
	const struct algo_limit *limit = &chunk->settling->kept->limit;
	uint64_t idle_ns = chunk->asked_ns + units_idle_ns(limit);
	uint64_t lease_ns = units_lease_ns(limit);

	if (lease_ns == 0 || chunk->left == 0)
		return idle_ns;
	return u64_min(idle_ns, chunk->reserved.until_ns - lease_ns / 2 - chunk->offset_ns);
}

struct store_operation *chunk_idle(struct chunks *chunks, const void *client, uint64_t now_ns,
                                   bool all, uint64_t *next_ns)
{
	struct store_operation *operations = NULL;

	*next_ns = 0;
	for (size_t i = 0; i < SETS; i++) {
		struct set *set = lock_set(chunks, i);

		for (size_t j = 0; j < WAYS; j++) {
			struct chunk *chunk = &set->chunks[j];
			struct store_operation *operation;
			uint64_t at_ns;

			if (!chunk->is_used || chunk->client != client || !holds(chunk) || !chunk->settling)
				continue;
			at_ns = due_ns(chunk);
			if (!all && (at_ns > now_ns || chunk->steps > 0)) {
				if (at_ns <= now_ns)
					at_ns = now_ns + IDLE_AGAIN_NS;
				*next_ns = *next_ns == 0 ? at_ns : u64_min(*next_ns, at_ns);
				continue;
			}
			operation = &chunk->settling->operation;
			chunk->settling = NULL;
			operation->step.at = moment_given(now_ns + chunk->offset_ns);
			operation->next = operations;
			operations = operation;
		}
		pthread_mutex_unlock(&set->lock);
	}
	return operations;
}
