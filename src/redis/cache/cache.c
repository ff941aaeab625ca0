#include "redis/cache/cache.h"

/* By the clock of tests where they give the time, else by the monotonic one. */
static uint64_t time_of(struct redis_client *client, struct moment at)
{
	return client->store->options.given_time ? at.now_ns : client_now_ns(client);
}

static bool gives_back(const struct algo_call *call)
{
	return call->op == ALGO_REFUND || call->op == ALGO_RESET;
}

/* Passes: what requests would have got that another limit denied. */

static struct passed *passed_of(struct redis_client *client, const struct store_step *step)
{
	return &client->passed[step->key.hash % CLIENT_PASSED];
}

void known_passed(struct redis_client *client, const struct store_operation *operation)
{
	const struct store_step *step = &operation->step;

	if (step->limit->paced) /* whether it passes is said for one `max_wait_ns` */
		return;
	*passed_of(client, step) =
	    (struct passed){step->key.hash, step->call.cost,
	                    time_of(client, step->at) + client->store->options.denied_cache_ns};
}

/* A grant may have taken the last of it. */
static void forget_passed(struct redis_client *client, const struct store_step *step)
{
	struct passed *passed = passed_of(client, step);

	if (passed->key == step->key.hash)
		passed->until_ns = 0;
}

/* Denied requests in a row would ask of each limit that does not deny whether it still passes. */
static bool has_passed(struct redis_client *client, struct store_operation *operation)
{
	const struct store_step *step = &operation->step;
	const struct passed *passed = passed_of(client, step);

	if (passed->key != step->key.hash || passed->cost != step->call.cost ||
	    passed->until_ns <= time_of(client, step->at))
		return false;
	algo_outcome_full(step->limit, &operation->outcome);
	algo_outcome_open(&operation->outcome);
	operation->status = WEIR_OK;
	operation->withheld = false;
	operation->until_ns = 0;
	return true;
}

static bool known_denial(struct redis_client *client, struct store_operation *operation)
{
	const struct store_step *step = &operation->step;
	struct denied *denied = client->store->denied;
	struct cache_name question;

	if (!denied || !denied_applies(step->limit, &step->call))
		return false;
	question = denied_question(step->limit, &step->call, step->key.hash);
	if (!denied_find(denied, step->limit, &step->call, &question, time_of(client, step->at),
	                 &operation->outcome))
		return false;
	operation->status = WEIR_OK;
	operation->withheld = false;
	operation->until_ns = 0;
	count_more(&client->counts.denied, 1);
	return true;
}

bool known_answer(struct redis_client *client, struct store_operation *operation)
{
	return (!operation->anew && known_denial(client, operation)) ||
	       (operation->explains && has_passed(client, operation));
}

bool known_answer_all(struct redis_client *client, struct store_operation *operations)
{
	bool any = false;

	for (struct store_operation *operation = operations; operation; operation = operation->next) {
		bool is = known_denial(client, operation);

		operation->withheld = !is;
		any |= is;
	}
	for (struct store_operation *operation = operations; operation; operation = operation->next)
		if (!any)
			operation->withheld = false;
		else if (operation->withheld) {
			operation->status = WEIR_OK;
			operation->unasked = true;
		}
	return any;
}

/* Chunks */

enum chunk_answer known_units(struct redis_client *client, struct store_operation *operation)
{
	enum chunk_answer answer;

	if (operation->step.limit->chunk == 0 || client->is_stopping || !chunk_applies(operation))
		return CHUNK_NONE;
	answer =
	    chunk_take(client->store->chunks, operation, time_of(client, operation->step.at), client);
	if (answer == CHUNK_GRANTED)
		count_more(&client->counts.chunk, 1);
	return answer;
}

bool known_serve(struct redis_client *client, struct store_operation *operation)
{
	if (chunk_serve(client->store->chunks, operation, time_of(client, operation->step.at)) !=
	    CHUNK_GRANTED)
		return false;
	count_more(&client->counts.chunk, 1);
	return true;
}

void known_take_units(struct redis_client *client, struct redis_command *command)
{
	command->chunk.takes =
	    command->chunk.is_counted && chunk_prepare(client->store->chunks, command->operations);
}

/* Gives the chunk Redis's answer about it, if there was one. */
static void learn_units(struct redis_client *client, struct redis_command *command, bool answered)
{
	bool is_given = client->store->options.given_time;
	uint64_t now_ns = time_of(client, command->at), at_ns;

	at_ns = chunk_end(client->store->chunks, &command->chunk, command->limit,
	                  &(struct chunk_told){
	                      .units = answered ? &command->units : NULL,
	                      .asked_ns = command->asked_ns,
	                      .clock_ns = is_given ? command->asked_ns : client->clock_ns,
	                  },
	                  now_ns, client);
	if (at_ns == 0 || is_given || (client->idle_ns != 0 && client->idle_ns <= at_ns))
		return;
	client->idle_ns = at_ns;
	client_alarm_at(client, at_ns);
}

struct store_operation *known_idle(struct redis_client *client)
{
	bool all = client->is_closing || client->is_stopping;

	if (client->idle_ns == 0 || (client->idle_ns > client_now_ns(client) && !all))
		return NULL;
	return chunk_idle(client->store->chunks, client, client_now_ns(client), all, &client->idle_ns);
}

void known_ask(const struct redis_client *client, struct redis_command *command,
               const struct store_operation *operation)
{
	const struct store_step *step = &operation->step;
	struct denied *denied = client->store->denied;

	if (denied && gives_back(&step->call))
		denied_forget(denied, step->key.hash);
	if (chunk_is_for(step->limit)) {
		command->chunk = (struct command_chunk){
		    .name = chunk_name(operation),
		    .settles = step->call.op == ALGO_REFUND && step->call.cost == 0,
		};
		chunk_begin(client->store->chunks, &command->chunk, client);
	}
	command->is_question = denied && denied_applies(step->limit, &step->call);
	if (!command->is_question)
		return;
	command->question = denied_question(step->limit, &step->call, step->key.hash);
	command->forgotten = denied_count(denied, step->key.hash);
}

/* Notes the time: Redis is asked after it. */
void known_asked(struct redis_client *client, struct redis_command *command)
{
	struct redis_command *step = command;

	command->asked_ns = time_of(client, step->at);
	if (!command->chunk.is_counted)
		return;
	command->chunk.insists = step->own.tries > 0;
	chunk_write(client->store->chunks, &command->chunk, step, command->asked_ns, client,
	            client->is_stopping || client->is_closing);
}

void known_learn(struct redis_client *client, struct redis_command *command,
                 const struct algo_outcome *outcome, bool answered)
{
	struct denied *denied = client->store->denied;
	uint64_t cache_ns = client->store->options.denied_cache_ns;

	if (command->chunk.is_counted)
		learn_units(client, command, answered);
	if (denied && gives_back(&command->call))
		denied_forget(denied, command->operations->step.key.hash);
	if (denied && outcome && command->call.op == ALGO_ACQUIRE &&
	    client->result.outcomes[0].allowed) {
		denied_taken(denied, command->operations->step.key.hash);
		forget_passed(client, &command->operations->step);
	}
	if (!command->is_question || !outcome || outcome->allowed || outcome->retry_after_ns == 0)
		return;
	/* The next acquire has to reach Redis, which then stores the converted state. */
	if (command->is_converted)
		return;
	denied_note(denied, &command->question, command->forgotten,
	            &(struct denied_answer){
	                .known_ns = command->asked_ns + u64_min(outcome->retry_after_ns, cache_ns),
	                .until_ns = sat_add(command->asked_ns, outcome->retry_after_ns),
	                .reset_ns = sat_add(command->asked_ns, outcome->reset_after_ns),
	                .remaining = outcome->remaining,
	                .reason = outcome->reason,
	            });
}
