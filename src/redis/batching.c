#include "redis/batching.h"

/* Up to so many operations are sent at once, even while calls are under way. */
#define AT_ONCE_MAX 8

/* From so many answered operations on, their clients' next requests are awaited. */
#define REPLIED_MIN 4

/* The longest such wait; a shorter round trip shortens it. */
#define WAIT_MAX_NS NS_PER_MS

/* The most waits that are left out after waits in vain: 1, 3, 7, ... up to this. */
#define SKIPS_MAX 64

/* Ends a wait for clients, and leaves out the next ones if it was in vain. */
static void end_wait(struct redis_client *client)
{
	struct batching *batching = &client->batching;
	bool has_paid = client->operations >= batching->min_operations;

	batching->until_ns = 0;
	batching->skips = has_paid ? 0 : u64_min(2 * batching->skips + 1, SKIPS_MAX);
	batching->skips_left = batching->skips;
}

/*
 * Whether the batch is one command for the key that was sent last: later requests can join it while
 * the call before it is under way.
 */
static bool is_of_newest_key(const struct redis_client *client)
{
	const struct redis_command *command = client->batch.commands.first;

	return client->batch.count == 1 &&
	       command->operations->step.key.hash == client->batching.newest_key;
}

void batching_replied(struct redis_client *client)
{
	struct batching *batching = &client->batching;
	uint64_t answered = batching->answered;

	if (client->on_the_way > 0 || answered == 0)
		return;
	batching->answered = 0;
	if (!client->transport->kind->has_clients || answered < REPLIED_MIN || client->is_closing ||
	    client->store->url.cluster)
		return;
	if (batching->skips_left > 0) {
		batching->skips_left--;
		return;
	}
	batching->min_operations = client->operations + answered - answered / 4;
	batching->max_operations = client->operations + answered;
	batching->until_ns = client_now_ns(client) + u64_min(batching->round_ns, WAIT_MAX_NS);
	client_alarm_at(client, batching->until_ns);
}

bool batching_must_wait(struct redis_client *client)
{
	struct batching *batching = &client->batching;

	if (client->has_sent || client->store->url.cluster || client->is_closing)
		return false;
	if (client->on_the_way > 0)
		return client->operations > AT_ONCE_MAX || is_of_newest_key(client);
	if (batching->until_ns != 0 && client->operations >= batching->max_operations)
		end_wait(client);
	return batching->until_ns != 0;
}

void batching_tick(struct redis_client *client)
{
	if (client->batching.until_ns == 0)
		return;
	if (client->batching.until_ns <= client_now_ns(client))
		end_wait(client);
	else
		client_alarm_at(client, client->batching.until_ns);
}
