/*
 * cache.c: lets a store client answer operations without Redis, from denials that Redis gave before
 * (denial_cache.c) and from a *chunk*: units of a limit that this process has reserved (chunks.c).
 */
#include "redis/cache/cache.h"

int cache_open(struct redis_store *store)
{
	store->chunks = chunks_open();
	if (store->options.denied_cache_ns > 0)
		store->denials = denial_cache_open();
	return store->chunks && (store->denials || store->options.denied_cache_ns == 0) ? WEIR_OK
	                                                                                : WEIR_ENOMEM;
}

void cache_close(struct redis_store *store)
{
	denial_cache_close(store->denials);
	chunks_close(store->chunks);
}

/* The time by which cached answers expire: the monotonic clock's, or in tests the caller's. */
static uint64_t cache_now_ns(struct redis_client *client, struct moment at)
{
	return client->store->options.given_time ? at.now_ns : client_now_ns(client);
}

static bool is_refund_or_reset(const struct algo_call *call)
{
	return algo_op_releases(call->op) || call->op == ALGO_RESET;
}

/* Answers */

/*
 * Sets the operation's outcome from the denial cache, if that has one that fits. A denial fits any
 * request. "Would pass" fits only a peek that explains the denial by another limit.
 */
static bool repeat_answer(struct redis_client *client, struct store_operation *operation)
{
	const struct denial_cache *denials = client->store->denials;
	const struct store_step *step = &operation->step;
	struct algo_decision out;
	struct cache_name name;
	bool may_deny, fits;

	if (!denials)
		return false;
	may_deny = !operation->skips_denial_cache && denial_cache_applies(step->limit, &step->call);
	if (!may_deny && !operation->explains_denial)
		return false;
	name = denial_cache_name(step->limit, &step->call, step->key.hash);
	if (!denial_cache_find(denials, step->limit, &step->call, &name, cache_now_ns(client, step->at),
	                       &out))
		return false;
	fits = out.allowed ? operation->explains_denial : may_deny;
	if (!fits)
		return false;
	operation->outcome = out;
	operation->status = WEIR_OK;
	operation->withheld = false;
	operation->until_ns = 0;
	count_more(&client->counts.denied, !out.allowed);
	return true;
}

/*
 * Answers an operation if the cache can. A denial is repeated only to the first operation that the
 * client has on the key: one that is still to be sent, such as a refund, might change it.
 */
enum cache_answer cache_answer(struct redis_client *client, struct store_operation *operation,
                               bool is_first)
{
	enum cache_answer answer;

	if (is_first && !operation->is_all_or_nothing && repeat_answer(client, operation))
		return CACHE_ANSWERED;
	if (operation->step.limit->chunk == 0 || client->is_stopping || !chunk_applies(operation))
		return CACHE_MISS;
	answer = chunk_answer(client->store->chunks, operation,
	                      cache_now_ns(client, operation->step.at), client);
	count_more(&client->counts.granted_by_chunks, answer == CACHE_ANSWERED);
	return answer;
}

/* Answers operations that are all or nothing, if one of them has a cached denial. */
bool cache_answer_group(struct redis_client *client, struct store_operation *operations)
{
	bool any_denied = false;

	for (struct store_operation *one = operations; one; one = one->next) {
		bool is_denied = repeat_answer(client, one); /* a group does not explain denials */

		one->is_undecided = !is_denied;
		any_denied |= is_denied;
	}
	/* If one is denied, the others take nothing, and nobody knows whether they would pass. */
	for (struct store_operation *one = operations; one; one = one->next) {
		one->is_undecided &= any_denied;
		one->withheld = one->is_undecided;
		if (one->is_undecided)
			one->status = WEIR_OK;
	}
	return any_denied;
}

bool cache_grant_waiter(struct redis_client *client, struct store_operation *operation)
{
	bool granted = chunk_grant_waiter(client->store->chunks, operation,
	                                  cache_now_ns(client, operation->step.at));

	count_more(&client->counts.granted_by_chunks, granted);
	return granted;
}

/* Commands */

/*
 * Called when a command was made: counts it at the chunk of its key, if there is one, and prepares
 * to cache a denial of it, unless the key is invalidated meanwhile.
 */
void cache_register(const struct redis_client *client, struct redis_command *command,
                    const struct store_operation *operation)
{
	struct denial_cache *denials = client->store->denials;
	uint64_t key = operation->step.key.hash;

	if (denials && is_refund_or_reset(&command->call))
		denial_cache_invalidate(denials, key);
	if (chunk_is_for(command->limit)) {
		/* Each command reports the used units of the chunk. This is all that such a one does. */
		bool refunds_nothing = algo_op_releases(command->call.op) && command->call.cost == 0;

		command->chunk_use = (struct command_chunk){
		    .name = chunk_name(operation),
		    .is_made_to_settle = refunds_nothing,
		};
		chunk_register(client->store->chunks, command, client);
	}
	command->may_be_cached = denials && denial_cache_applies(command->limit, &command->call);
	if (!command->may_be_cached)
		return;
	command->denial_name = denial_cache_name(command->limit, &command->call, key);
	command->invalidations = denial_cache_invalidations(denials, key);
}

void cache_request_chunk(struct redis_client *client, struct redis_command *command)
{
	command->chunk_use.takes_chunk =
	    command->chunk_use.is_registered &&
	    chunk_allocate_settling(client->store->chunks, command->operations);
}

void cache_prepare(struct redis_client *client, struct redis_command *command)
{
	command->written_at_ns = cache_now_ns(client, command->local_time);
	if (command->chunk_use.is_registered)
		chunk_write_settlement(client->store->chunks, command, client,
		                       client->is_stopping || client->is_closing);
}

/*
 * Has the chunk apply the reply to the command, if there was one, and sets the alarm that returns
 * the chunk's units when it is idle.
 */
static void record_chunk_reply(struct redis_client *client, struct redis_command *command,
                               bool has_reply)
{
	bool is_test_time = client->store->options.given_time;
	uint64_t redis_clock_ns = is_test_time ? command->written_at_ns : client->redis_clock_ns;
	uint64_t idle_at_ns =
	    chunk_record_end(client->store->chunks, command, client,
	                     cache_now_ns(client, command->local_time), has_reply ? redis_clock_ns : 0);
	bool is_alarm_set = client->idle_chunks_due_ns != 0 && client->idle_chunks_due_ns <= idle_at_ns;

	if (idle_at_ns == 0 || is_test_time || is_alarm_set)
		return;
	client->idle_chunks_due_ns = idle_at_ns;
	client_alarm_at(client, idle_at_ns);
}

/*
 * Caches the denial of the command's last request. A denial by a converted state is not cached,
 * because the next acquire has to reach Redis, which then stores the converted state.
 */
static void cache_denial(struct redis_client *client, const struct redis_command *command)
{
	const struct algo_decision *last = &client->result.outcomes[command->request_count - 1];
	uint64_t longest_ns = client->store->options.denied_cache_ns;

	if (!command->may_be_cached || last->allowed || last->retry_after_ns == 0 ||
	    command->is_converted)
		return;
	denial_cache_store(
	    client->store->denials, &command->denial_name, command->invalidations,
	    &(struct denial_cache_answer){
	        .valid_until_ns = command->written_at_ns + u64_min(last->retry_after_ns, longest_ns),
	        .passes_at_ns = sat_add(command->written_at_ns, last->retry_after_ns),
	        .full_at_ns = sat_add(command->written_at_ns, last->reset_after_ns),
	        .remaining = last->remaining,
	        .reason = last->reason,
	    });
}

/*
 * Caches that the request would pass, unless the limit is paced: there it depends on the time that
 * the request would wait.
 */
static void cache_would_pass(struct redis_client *client, const struct redis_command *command)
{
	const struct store_step *step = &command->operations->step;
	struct denial_cache *denials = client->store->denials;
	uint64_t until_ns = cache_now_ns(client, step->at) + client->store->options.denied_cache_ns;
	struct cache_name name;

	if (step->limit->paced)
		return;
	name = denial_cache_name(step->limit, &step->call, step->key.hash);
	denial_cache_store(
	    denials, &name, denial_cache_invalidations(denials, name.key_hash),
	    &(struct denial_cache_answer){.valid_until_ns = until_ns, .reason = WEIR_REASON_OK});
}

/* Called when a command has ended: updates its chunk and the denial cache by the outcome. */
void cache_record_end(struct redis_client *client, struct redis_command *command,
                      enum command_end end)
{
	struct denial_cache *denials = client->store->denials;
	const struct algo_call *call = &command->call;
	uint64_t key = command->operations->step.key.hash;
	bool first_is_allowed = client->result.outcomes[0].allowed;
	bool would_pass;

	if (command->chunk_use.is_registered)
		record_chunk_reply(client, command, end != COMMAND_FAILED);
	if (!denials)
		return;
	if (is_refund_or_reset(call))
		denial_cache_invalidate(denials, key);
	if (end == COMMAND_DONE && algo_op_consumes(call->op) && first_is_allowed)
		denial_cache_remove(denials, key);
	if (end == COMMAND_DONE)
		cache_denial(client, command);
	/* COMMAND_WITHHELD: only another command of its group was refused. */
	would_pass = end == COMMAND_WITHHELD ||
	             (end == COMMAND_DONE && call->op == ALGO_PEEK && first_is_allowed);
	if (would_pass)
		cache_would_pass(client, command);
}

struct store_operation *cache_release_idle(struct redis_client *client)
{
	if (client->idle_chunks_due_ns == 0)
		return NULL;
	if (client->idle_chunks_due_ns > client_now_ns(client) && !client->is_stopping)
		return NULL;
	return chunk_release_idle(client->store->chunks, client, client_now_ns(client),
	                          client->is_stopping, &client->idle_chunks_due_ns);
}
