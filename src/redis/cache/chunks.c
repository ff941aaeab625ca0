/*
 * chunks.c: grants requests from *chunks*, units of a limit that this process has reserved at
 * Redis, without asking Redis each time.
 *
 * A chunk is *settled* by a command: it reports to Redis how many units were used, returns the
 * others, and may reserve units again. Settling an idle chunk returns its units.
 */
#include "redis/cache/chunks.h"

#include <pthread.h>
#include <stdlib.h>

#include "algo/algo.h"
#include "algo/rates/bucket.h"
#include "base/prng.h"
#include "base/os/os.h"
#include "redis/cache/denial_cache.h"

#define SETS    1024     /* the table of chunks is divided by the hash of the key ... */
#define WAYS    4        /* ... into sets of so many */
#define SOON_NS NS_PER_S /* a key that is requested again within this time gets a chunk */
/* The delay before an idle chunk with commands under way is checked again. */
#define IDLE_AGAIN_NS (20 * NS_PER_MS)
#define ID_MAX        (UINT64_C(1) << 48) /* an id is a double in scripts, written with 15 digits */

/* An operation without effect, a refund of no units: its command settles an idle chunk. */
struct settling {
	struct store_operation operation; /* first */
	struct chunks *chunks;
	struct cache_name name;
	struct algo_limit limit; /* a copy, because a reload may free the original */
	char texts[];            /* the name of the limit, and the key */
};

/*
 * The chunk of a key: units that Redis has reserved for this process. While commands that settle
 * the chunk are under way, free_units is 0, so nothing is granted from it.
 */
struct chunk {
	struct cache_name name;
	bool is_used;
	bool others_hold_units;       /* other servers held units of the key at Redis's last answer */
	bool redis_may_differ;        /* Redis may have reserved another number of units */
	uint64_t last_request_ns;     /* for the key, by the local clock */
	size_t commands_under_way;    /* on the key, */
	const void *sole_client;      /* the client of all these; NULL if they are of several clients */
	size_t settlements_under_way; /* the number of these that settle the chunk */
	/* The newest settlement was written while others were under way. */
	bool newest_settlement_overlaps;
	const void *settling_client; /* settles the chunk when it is idle */
	uint64_t entry_id;           /* of the entry at Redis, or 0 before there is one */
	uint64_t newest_settlement;  /* the number of settlements so far */
	uint64_t used_units;         /* units granted from the chunk so far */
	uint64_t reported_units;     /* the part of these that was reported to Redis */
	uint64_t free_units;         /* reserved and not used */
	struct chunk_units_reserved reserved;
	uint64_t offset_ns;      /* Redis's clock minus the local clock, modulo 2^64 */
	struct algo_state state; /* the key's, as if nobody held units */
	/* For a bucket: the state that would follow from the units not yet reported alone. */
	struct algo_state state_to_report;
	struct settling *idle_operation; /* settles the chunk when it is idle; NULL while it does so */
};

struct set {
	pthread_mutex_t lock;
	struct chunk chunks[WAYS];
};

struct chunks {
	struct set sets[SETS];
};

struct chunks *chunks_open(void)
{
	struct chunks *chunks = os_pages_map(sizeof *chunks);

	for (size_t i = 0; chunks && i < SETS; i++)
		pthread_mutex_init(&chunks->sets[i].lock, NULL);
	return chunks;
}

static void free_settling(struct settling *settling)
{
	if (settling)
		algo_limit_free(&settling->limit);
	free(settling);
}

void chunks_close(struct chunks *chunks)
{
	if (!chunks)
		return;
	for (size_t i = 0; i < SETS; i++) {
		for (size_t j = 0; j < WAYS; j++)
			free_settling(chunks->sets[i].chunks[j].idle_operation);
		pthread_mutex_destroy(&chunks->sets[i].lock);
	}
	os_pages_unmap(chunks, sizeof *chunks);
}

bool chunk_is_for(const struct algo_limit *limit)
{
	return limit->chunk > 1 && chunk_units_supported(limit);
}

bool chunk_applies(const struct store_operation *operation)
{
	const struct algo_call *call = &operation->step.call;

	return chunk_is_for(operation->step.limit) && algo_op_requests(call->op) && call->cost > 0 &&
	       call->cost <= operation->step.limit->chunk && call->permit == 0 &&
	       !operation->is_all_or_nothing;
}

struct cache_name chunk_name(const struct store_operation *operation)
{
	const struct algo_call one = {.cost = 1};

	return denial_cache_name(operation->step.limit, &one, operation->step.key.hash);
}

/* Sets */

static struct set *lock_set(struct chunks *chunks, uint64_t key)
{
	struct set *set = &chunks->sets[key % SETS];

	pthread_mutex_lock(&set->lock);
	return set;
}

static struct chunk *find_chunk(struct set *set, struct cache_name name)
{
	for (size_t i = 0; i < WAYS; i++)
		if (set->chunks[i].is_used && set->chunks[i].name.key_hash == name.key_hash &&
		    set->chunks[i].name.request_hash == name.request_hash)
			return &set->chunks[i];
	return NULL;
}

/* Whether Redis still has to learn which of the reserved units were used. */
static bool must_be_settled(const struct chunk *chunk)
{
	return chunk->free_units > 0 || chunk->redis_may_differ ||
	       chunk->used_units != chunk->reported_units;
}

/*
 * Makes an entry of the set the chunk of `name`: the one that was requested longest ago, of those
 * without units and commands. That is an unused one if there is any: its last_request_ns is 0.
 * NULL if there is none.
 */
static struct chunk *claim_entry(struct set *set, struct cache_name name, uint64_t now_ns)
{
	struct chunk *oldest = NULL;

	for (size_t i = 0; i < WAYS; i++) {
		struct chunk *chunk = &set->chunks[i];

		if (chunk->commands_under_way == 0 && !must_be_settled(chunk) &&
		    (!oldest || chunk->last_request_ns < oldest->last_request_ns))
			oldest = chunk;
	}
	if (!oldest)
		return NULL;
	free_settling(oldest->idle_operation);
	*oldest = (struct chunk){.name = name, .is_used = true, .last_request_ns = now_ns};
	return oldest;
}

/* Requests */

/*
 * Grants an operation if the chunk has the units. The algorithm's own step decides it, on the state
 * as if the units of this chunk were free.
 */
static bool grant_from_chunk(struct chunk *chunk, struct store_operation *operation,
                             uint64_t now_ns)
{
	const struct algo_limit *limit = operation->step.limit;
	const struct algo_call *call = &operation->step.call;
	const struct algo_time time = {.now_ns = now_ns + chunk->offset_ns,
	                               .window_end_ns = chunk->reserved.ends_ns};
	struct algo_decision *out = &operation->outcome, ignored;
	struct algo_state state = chunk->state;
	uint64_t refund_name_ns; /* by this time a refund would identify the units */

	if (chunk->free_units < call->cost || time.now_ns >= chunk->reserved.ends_ns)
		return false;
	refund_name_ns = chunk_units_step(limit, call, &time, &chunk->reserved, &state, out);
	if (!out->allowed)
		return false;
	operation->status = WEIR_OK;
	operation->withheld = false;
	operation->until_ns = 0;
	operation->clock_ns = time.now_ns;
	chunk->last_request_ns = now_ns;
	if (call->op == ALGO_PEEK)
		return true;
	operation->until_ns = refund_name_ns;
	chunk->state = state;
	chunk->free_units -= call->cost;
	chunk->used_units += call->cost;
	if (algo_has_step(limit, bucket_step)) /* to report of a window, used_units are enough */
		algo_step(limit, call, &time, &chunk->state_to_report, &ignored);
	return true;
}

/*
 * Answers a request from the key's chunk. If the key is frequent, asks the caller to reserve one.
 */
enum cache_answer chunk_answer(struct chunks *chunks, struct store_operation *operation,
                               uint64_t now_ns, const void *client)
{
	struct cache_name name = chunk_name(operation);
	struct set *set = lock_set(chunks, name.key_hash);
	struct chunk *chunk = find_chunk(set, name);
	enum cache_answer answer = CACHE_MISS;
	/* Requests of one client keep their order, so this one has to follow its commands. */
	bool follows_command = chunk && chunk->commands_under_way > 0 &&
	                       (!chunk->sole_client || chunk->sole_client == client);

	if (!chunk) {
		claim_entry(set, name, now_ns);
	} else if (!follows_command && grant_from_chunk(chunk, operation, now_ns)) {
		answer = CACHE_ANSWERED;
	} else {
		bool is_frequent = sat_sub(now_ns, chunk->last_request_ns) <= SOON_NS;

		chunk->last_request_ns = now_ns;
		if (is_frequent && chunk->settlements_under_way == 0 &&
		    algo_op_consumes(operation->step.call.op))
			answer = CACHE_REQUEST_CHUNK;
	}
	pthread_mutex_unlock(&set->lock);
	return answer;
}

bool chunk_grant_waiter(struct chunks *chunks, struct store_operation *operation, uint64_t now_ns)
{
	struct cache_name name = chunk_name(operation);
	struct set *set = lock_set(chunks, name.key_hash);
	struct chunk *chunk = find_chunk(set, name);
	bool granted = chunk && grant_from_chunk(chunk, operation, now_ns);

	pthread_mutex_unlock(&set->lock);
	return granted;
}

/* Settling */

/*
 * Called when the command that settles an idle chunk has ended. If the chunk still has something to
 * settle, because the reply was lost or because it has new units, it gets its operation back; also
 * if commands are under way, because these may bring it units.
 */
static void keep_or_free_settling(struct store_operation *operation)
{
	struct settling *settling = (struct settling *)operation;
	struct set *set = lock_set(settling->chunks, settling->name.key_hash);
	struct chunk *chunk = find_chunk(set, settling->name);

	if (chunk && !chunk->idle_operation &&
	    (must_be_settled(chunk) || chunk->commands_under_way > 0)) {
		chunk->idle_operation = settling;
		settling = NULL;
	}
	pthread_mutex_unlock(&set->lock);
	free_settling(settling);
}

/* Makes the settling operation of a chunk, with copies of its limit and names, which it may
 * outlive. */
static struct settling *make_settling(struct chunks *chunks,
                                      const struct store_operation *operation)
{
	size_t name_len = strlen(operation->limit_name) + 1, key_len = operation->key_name.len;
	struct settling *settling = malloc(sizeof *settling + name_len + key_len);

	if (!settling)
		return NULL;
	if (algo_limit_copy(&settling->limit, operation->step.limit) != WEIR_OK) {
		free(settling);
		return NULL;
	}
	settling->chunks = chunks;
	settling->name = chunk_name(operation);
	settling->operation = (struct store_operation){
	    .step = {.store = operation->step.store,
	             .limit = &settling->limit,
	             .key = operation->step.key,
	             .call = {.op = ALGO_REFUND}},
	    .limit_name = settling->texts,
	    .key_name = {settling->texts + name_len, key_len},
	    .done = keep_or_free_settling,
	};
	memcpy(settling->texts, operation->limit_name, name_len);
	if (key_len > 0)
		memcpy(settling->texts + name_len, operation->key_name.data, key_len);
	return settling;
}

/*
 * Gives the chunk its settling operation, or frees `made` if the chunk has one; `made` may be NULL.
 * Returns whether the chunk has one now.
 */
static bool attach_settling(struct chunks *chunks, struct cache_name name, struct settling *made)
{
	struct set *set = lock_set(chunks, name.key_hash);
	struct chunk *chunk = find_chunk(set, name);
	bool has;

	if (chunk && !chunk->idle_operation) {
		chunk->idle_operation = made;
		made = NULL;
	}
	has = chunk && chunk->idle_operation;
	pthread_mutex_unlock(&set->lock);
	free_settling(made);
	return has;
}

/*
 * Gives the chunk the operation that will return its units. Returns false if there is no memory.
 */
bool chunk_allocate_settling(struct chunks *chunks, const struct store_operation *operation)
{
	struct cache_name name = chunk_name(operation);

	return attach_settling(chunks, name, NULL) ||
	       attach_settling(chunks, name, make_settling(chunks, operation));
}

/* Commands */

/* Counts a command on the key of a chunk, from when it is made until chunk_record_end. */
void chunk_register(struct chunks *chunks, struct redis_command *command, const void *client)
{
	struct set *set = lock_set(chunks, command->chunk_use.name.key_hash);
	struct chunk *chunk = find_chunk(set, command->chunk_use.name);

	command->chunk_use.is_registered = chunk != NULL;
	if (chunk) {
		chunk->sole_client =
		    chunk->commands_under_way == 0 || chunk->sole_client == client ? client : NULL;
		chunk->commands_under_way++;
	}
	pthread_mutex_unlock(&set->lock);
}

/* Whether the key had no requests for the time after which its units are returned. */
static bool chunk_is_idle(const struct chunk *chunk, const struct redis_command *command)
{
	return sat_sub(command->written_at_ns, chunk->last_request_ns) >=
	       chunk_units_idle_ns(command->limit);
}

/*
 * Writes the report of used units and the new reservation into the command: a whole chunk, as many
 * units as the chunk has now, or none.
 */
static void write_settlement(struct chunk *chunk, struct redis_command *command, bool returns_all)
{
	struct chunk_settlement *units = &command->settlement;

	chunk->newest_settlement_overlaps = chunk->settlements_under_way > 1;
	if (chunk->entry_id == 0)
		chunk->entry_id = 1 + prng_next() % (ID_MAX - 1);
	units->may_have_chunks = true;
	units->entry_id = chunk->entry_id;
	units->settlement_number = ++chunk->newest_settlement;
	units->used_units = chunk->used_units;
	units->state_to_report = chunk->state_to_report;
	units->lifetime_ns = chunk_units_lifetime_ns(command->limit);
	if (!returns_all && command->call.op != ALGO_RESET)
		units->wanted_units =
		    command->chunk_use.takes_chunk ? command->limit->chunk : chunk->free_units;
	chunk->redis_may_differ |= must_be_settled(chunk); /* until the reply: free_units is 0 now */
	chunk->free_units = 0;
}

/*
 * Called when the command is written, perhaps once more: fills its settlement if the chunk has to
 * be settled.
 */
void chunk_write_settlement(struct chunks *chunks, struct redis_command *command,
                            const void *client, bool client_stops)
{
	struct chunk_settlement *units = &command->settlement;
	struct command_chunk *use = &command->chunk_use;
	struct set *set = lock_set(chunks, use->name.key_hash);
	struct chunk *chunk = find_chunk(set, use->name);
	/*
	 * While other commands settle the chunk, the first try of an acquire leaves it to them. Redis
	 * may then lack units that these return, so it grants all requests of the try or none; if none,
	 * the next try settles the chunk once more.
	 */
	bool may_leave_chunk = command->attempt.tries == 0 && algo_op_consumes(command->call.op);
	size_t other_settlements = chunk ? chunk->settlements_under_way - use->is_settling : 0;
	bool has_nothing_to_settle = !chunk || (!use->takes_chunk && !must_be_settled(chunk) &&
	                                        other_settlements == 0 && !use->is_settling);

	*units = (struct chunk_settlement){.may_have_chunks = units->may_have_chunks ||
	                                                      (chunk && chunk->others_hold_units)};
	if (has_nothing_to_settle) {
		; /* the command concerns the key only */
	} else if (other_settlements > 0 && may_leave_chunk) {
		units->may_have_chunks = units->all_or_nothing = true;
	} else {
		bool returns_all =
		    client_stops || (use->is_made_to_settle && chunk_is_idle(chunk, command));

		chunk->settlements_under_way += !use->is_settling;
		use->is_settling = true;
		chunk->settling_client = client;
		write_settlement(chunk, command, returns_all);
	}
	pthread_mutex_unlock(&set->lock);
}

/*
 * Takes over the units, and the key's state, from the reply to the newest settlement, which was
 * read into command->settlement.
 */
static void apply_reply(struct chunk *chunk, const struct redis_command *command, uint64_t clock_ns)
{
	const struct chunk_settlement *units = &command->settlement;
	bool entry_was_removed = units->held_units == 0;

	/* Without the entry, Redis can't see that a settlement that arrives later is an older one. */
	chunk->redis_may_differ = chunk->newest_settlement_overlaps && entry_was_removed;
	chunk->free_units = units->held_units;
	chunk->reported_units = units->used_units;
	chunk->reserved = units->reserved;
	if (units->lifetime_ns > 0) /* a margin, because clocks run at different rates */
		chunk->reserved.ends_ns -= units->lifetime_ns / 16;
	chunk->offset_ns = clock_ns - command->written_at_ns;
	chunk->state = units->state;
	chunk->state_to_report = (struct algo_state){0, 0};
}

/*
 * Called when the command has ended. Its chunk is still there: with commands under way it is not
 * replaced. Returns when the chunk will be idle; 0 if it holds nothing.
 */
uint64_t chunk_record_end(struct chunks *chunks, struct redis_command *command, const void *client,
                          uint64_t now_ns, uint64_t redis_clock_ns)
{
	const struct chunk_settlement *units = &command->settlement;
	struct set *set = lock_set(chunks, command->chunk_use.name.key_hash);
	struct chunk *chunk = find_chunk(set, command->chunk_use.name);
	bool settles = command->chunk_use.is_settling, has_reply = redis_clock_ns != 0;
	uint64_t idle_at_ns = 0;

	chunk->commands_under_way--;
	chunk->settlements_under_way -= settles;
	if (settles && has_reply && units->settlement_number == chunk->newest_settlement)
		apply_reply(chunk, command, redis_clock_ns);
	else if (settles) /* an older one may have reserved units after the newest one */
		chunk->redis_may_differ |= !has_reply || units->held_units > 0;
	if (has_reply && units->may_have_chunks)
		chunk->others_hold_units = units->reserved.others_units > 0;
	if (must_be_settled(chunk)) {
		if (chunk->settlements_under_way == 0)
			chunk->settling_client = client;
		idle_at_ns = now_ns + chunk_units_idle_ns(command->limit);
	}
	pthread_mutex_unlock(&set->lock);
	return idle_at_ns;
}

/* When the client has to settle the chunk: when it is idle, or soon before its lifetime ends. */
static uint64_t settle_at_ns(const struct chunk *chunk)
{
	const struct algo_limit *limit = &chunk->idle_operation->limit;
	uint64_t idle_ns = chunk->last_request_ns + chunk_units_idle_ns(limit);
	uint64_t lifetime_ns = chunk_units_lifetime_ns(limit);

	if (lifetime_ns == 0 || chunk->free_units == 0)
		return idle_ns;
	return u64_min(idle_ns, chunk->reserved.ends_ns - lifetime_ns / 2 - chunk->offset_ns);
}

/* The chunk's settling operation if it is due (or `force`); otherwise NULL, and *next_ns is set. */
static struct store_operation *settle_if_due(struct chunk *chunk, uint64_t now_ns, bool force,
                                             uint64_t *next_ns)
{
	struct store_operation *operation = &chunk->idle_operation->operation;
	uint64_t at_ns = settle_at_ns(chunk);

	if (!force && (at_ns > now_ns || chunk->commands_under_way > 0)) {
		if (at_ns <= now_ns)
			at_ns = now_ns + IDLE_AGAIN_NS;
		*next_ns = *next_ns == 0 ? at_ns : u64_min(*next_ns, at_ns);
		return NULL;
	}
	chunk->idle_operation = NULL;
	operation->step.at = moment_given(now_ns + chunk->offset_ns);
	return operation;
}

/*
 * Returns a list of operations that settle the client's idle chunks, or all of its chunks. *next_ns
 * is when another chunk may be idle, or 0 if the client has none.
 */
struct store_operation *chunk_release_idle(struct chunks *chunks, const void *client,
                                           uint64_t now_ns, bool all, uint64_t *next_ns)
{
	struct store_operation *operations = NULL, *operation;

	*next_ns = 0;
	for (size_t i = 0; i < SETS; i++) {
		struct set *set = lock_set(chunks, i);

		for (size_t j = 0; j < WAYS; j++) {
			struct chunk *chunk = &set->chunks[j];

			if (!chunk->is_used || chunk->settling_client != client || !must_be_settled(chunk) ||
			    !chunk->idle_operation)
				continue;
			operation = settle_if_due(chunk, now_ns, all, next_ns);
			if (!operation)
				continue;
			operation->next = operations;
			operations = operation;
		}
		pthread_mutex_unlock(&set->lock);
	}
	return operations;
}
