#include "redis/gather.h"

/* So few requests are not gathered. */
#define FEW 8

/* After so many answers more requests are awaited. */
#define MANY 4

/* The longest wait for clients that were answered: as long as they waited, and at most this. */
#define LONGEST_NS NS_PER_MS

/* After each wait in vain, twice as many calls go by before the next, at most so many. */
#define REST_MAX 64

/* Ends a wait for clients. */
static void end(struct redis_client *client)
{
	struct gather *gather = &client->gather;
	bool has_paid = client->operations >= gather->least;

	gather->until_ns = 0;
	gather->penalty = has_paid ? 0 : u64_min(2 * gather->penalty + 1, REST_MAX);
	gather->rest = gather->penalty;
}

/* It would be one step with those behind it, and the one on its way comes first. */
static bool is_of_newest_key(const struct redis_client *client)
{
	const struct redis_command *command = client->batch.commands.first;

	return client->batch.count == 1 &&
	       command->operations->step.key.hash == client->gather.newest_key;
}

void gather_answered(struct redis_client *client)
{
	struct gather *gather = &client->gather;
	uint64_t answered = gather->answered;

	if (client->on_the_way > 0 || answered == 0)
		return;
	gather->answered = 0;
	if (!client->transport->kind->has_clients || answered < MANY || client->is_closing ||
	    client->store->url.cluster)
		return;
	if (gather->rest > 0) {
		gather->rest--;
		return;
	}
	gather->least = client->operations + answered - answered / 4;
	gather->most = client->operations + answered;
	gather->until_ns = client_now_ns(client) + u64_min(gather->round_ns, LONGEST_NS);
	client_alarm_at(client, gather->until_ns);
}

bool gather_waits(struct redis_client *client)
{
	struct gather *gather = &client->gather;

	if (client->has_sent || client->store->url.cluster || client->is_closing)
		return false;
	if (client->on_the_way > 0)
		return client->operations > FEW || is_of_newest_key(client);
	if (gather->until_ns != 0 && client->operations >= gather->most)
		end(client);
	return gather->until_ns != 0;
}

void gather_tick(struct redis_client *client)
{
	if (client->gather.until_ns == 0)
		return;
	if (client->gather.until_ns <= client_now_ns(client))
		end(client);
	else
		client_alarm_at(client, client->gather.until_ns);
}
