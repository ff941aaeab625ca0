/*
 * batching.c: decides whether a store client sends its batch of commands now or gathers more first.
 *
 * A call costs Redis as much as several commands. So the batch waits while calls are under way, and
 * after their replies a little longer for the next requests of the *requesters*, the clients of the
 * server that got the answers, as long as such waits bring enough requests. With a cluster nothing
 * waits: the requests for its other nodes must not wait for one that may hang.
 */
#include "redis/batching.h"

/* Up to so many operations are sent at once, even while calls are under way. */
#define AT_ONCE_MAX 8

/* From so many answered operations on, their requesters' next requests are awaited. */
#define REPLIED_MIN 4

/* The longest such wait; a shorter round trip shortens it. */
#define WAIT_MAX_NS NS_PER_MS

/* The most waits that are left out after waits in vain: 1, 3, 7, ... up to this. */
#define SKIPS_MAX 64

/* Ends a wait for requesters. If it brought too few requests, the next waits are left out. */
static void end_wait(struct redis_client *client)
{
	struct batching *batching = &client->batching;
	bool has_paid = client->operation_count >= batching->operations_to_pay;

	batching->wait_ends_ns = 0;
	batching->waits_skipped_last =
	    has_paid ? 0 : u64_min(2 * batching->waits_skipped_last + 1, SKIPS_MAX);
	batching->waits_to_skip = batching->waits_skipped_last;
}

/*
 * Whether the batch is one command for the key that was sent last: later requests can join it while
 * the call before it is under way.
 */
static bool is_of_newest_key(const struct redis_client *client)
{
	const struct redis_command *command = client->batch.commands.first;

	return client->batch.count == 1 &&
	       command->operations->step.key.hash == client->batching.newest_key_hash;
}

/* Called after replies were read: begins a wait for the requesters, if that pays. */
void batching_replied(struct redis_client *client)
{
	struct batching *batching = &client->batching;
	uint64_t answered = batching->answered_operations;
	bool may_wait = client->transport->kind->serves_requesters && !client->is_closing &&
	                !client->store->url.cluster;

	if (client->calls_under_way > 0)
		return;
	batching->answered_operations = 0;
	if (!may_wait || answered < REPLIED_MIN)
		return;
	if (batching->waits_to_skip > 0) {
		batching->waits_to_skip--;
		return;
	}
	/* The wait has paid if three quarters of the requesters send a request. */
	batching->operations_to_pay = client->operation_count + answered - answered / 4;
	batching->operations_to_end = client->operation_count + answered;
	batching->wait_ends_ns = client_now_ns(client) + u64_min(batching->round_trip_ns, WAIT_MAX_NS);
	client_alarm_at(client, batching->wait_ends_ns);
}

/* Whether the batch is to wait: for replies to calls under way, or for requesters. */
bool batching_must_wait(struct redis_client *client)
{
	struct batching *batching = &client->batching;

	if (client->has_sent_calls || client->store->url.cluster || client->is_closing)
		return false;
	if (client->calls_under_way > 0)
		return client->operation_count > AT_ONCE_MAX || is_of_newest_key(client);
	if (batching->wait_ends_ns != 0 && client->operation_count >= batching->operations_to_end)
		end_wait(client);
	return batching->wait_ends_ns != 0;
}

/* Ends a wait whose time is over. */
void batching_tick(struct redis_client *client)
{
	if (client->batching.wait_ends_ns == 0)
		return;
	if (client->batching.wait_ends_ns <= client_now_ns(client))
		end_wait(client);
	else
		client_alarm_at(client, client->batching.wait_ends_ns);
}
