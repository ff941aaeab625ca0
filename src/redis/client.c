/*
 * client.c: the store client, by which one thread uses a store on Redis: gathers submitted
 * operations as commands in a batch, and sends the batch at the end of an iteration of the loop.
 */
#include <stdlib.h>

#include "base/prng.h"
#include "redis/cache/cache.h"
#include "redis/commands.h"
#include "redis/batching.h"
#include "redis/nodes/redis_node.h"

static struct redis_client *client_of(struct store_client *client)
{
	return (struct redis_client *)client;
}

static void send_batch(struct redis_client *client)
{
	struct redis_command *first = batch_take(&client->batch);

	if (!first)
		return;
	client->has_sent_calls = true;
	nodes_send(client, first);
}

/* Removes up to CALL_COMMANDS_MAX operations from the front of the list; *n is their number. */
static struct store_operation *cut_front(struct store_operation **list, size_t *n)
{
	struct store_operation *first = *list, **end = list;

	for (*n = 0; *end && *n < CALL_COMMANDS_MAX; ++*n)
		end = &(*end)->next;
	*list = *end;
	*end = NULL;
	return first;
}

/* Adds operations to the batch; refuses them if the client has too many, unless they are its only
 * ones. */
void redis_client_submit(struct store_client *store_client, struct store_operation *group)
{
	struct redis_client *client = client_of(store_client);
	bool all_or_nothing = group && group->next && group->is_all_or_nothing;
	size_t count_before = client->operation_count;

	for (const struct store_operation *operation = group; operation; operation = operation->next)
		client->operation_count++;
	if (client->operation_count > CLIENT_OPERATIONS_MAX && count_before > 0) {
		commands_refuse(client, group, WEIR_ESTORE); /* which uncounts them */
		return;
	}
	while (group) {
		size_t n;
		struct store_operation *operations = cut_front(&group, &n);

		if (group) /* it does not fit into one call, and only a call can be all or nothing */
			all_or_nothing = false;
		if (client->batch.count > 0 && client->batch.count + n > CALL_COMMANDS_FULL)
			send_batch(client);
		commands_add(client, operations, all_or_nothing);
	}
}

/* Returns the units of idle chunks to Redis. */
static void release_idle_chunks(struct redis_client *client)
{
	struct store_operation *operations = cache_release_idle(client);

	if (operations)
		redis_client_submit(&client->client, operations);
	if (client->idle_chunks_due_ns != 0)
		client_alarm_at(client, client->idle_chunks_due_ns);
}

void redis_client_stop(struct store_client *client)
{
	client_of(client)->is_stopping = true;
}

void redis_client_begin(struct store_client *client)
{
	client_of(client)->now_ns = 0;
}

/*
 * Called at the end of an iteration: sends the batch, unless it has to wait for more operations.
 */
void redis_client_flush(struct store_client *store_client)
{
	struct redis_client *client = client_of(store_client);

	if (client->is_stopping)
		release_idle_chunks(client);
	client->batch_is_delayed = client->batch.count > 0 && batching_must_wait(client);
	if (!client->batch_is_delayed)
		send_batch(client);
	client->has_sent_calls = false;
	client->now_ns = 0; /* the next iteration reads the clock again */
}

/* Called when the alarm is due. */
void redis_client_tick(struct store_client *store_client, uint64_t monotonic_ns)
{
	struct redis_client *client = client_of(store_client);

	client->now_ns = monotonic_ns;
	client->alarm_ns = 0;
	nodes_tick(client);
	release_idle_chunks(client);
	batching_tick(client);
	redis_client_flush(store_client);
}

size_t redis_client_command_count(const struct store_client *client)
{
	return ((const struct redis_client *)client)->command_count;
}

bool redis_client_is_awaited(const struct store_client *client)
{
	return nodes_are_awaited((const struct redis_client *)client);
}

int redis_client_open(struct store *store, struct redis_transport *transport,
                      struct store_client **out)
{
	struct redis_client *client = calloc(1, sizeof *client);

	*out = NULL;
	if (!client)
		return WEIR_ENOMEM;
	client->client.store = store;
	client->store = (struct redis_store *)store;
	client->transport = transport;
	client->queue_ticket = (uint32_t)prng_next() | 1; /* never 0, which means no ticket */
	batch_init(&client->batch);
	if (client->store->url.master_name)
		client_alarm_at(client, 1); /* at once, to ask the Sentinels */
	command_list_clear(&client->retries);
	command_list_clear(&client->delayed_retries);
	pthread_mutex_lock(&client->store->lock);
	list_append(&client->store->clients, &client->node);
	pthread_mutex_unlock(&client->store->lock);
	*out = &client->client;
	return WEIR_OK;
}

/*
 * Fails the operations that are not complete. Units of chunks that were not returned since
 * redis_client_stop stay reserved at Redis until the chunks expire.
 */
void redis_client_close(struct store_client *store_client)
{
	struct redis_client *client = client_of(store_client);
	struct redis_store *store = client->store;

	client->is_closing = true; /* from now on nodes_send fails all commands */
	send_batch(client);
	nodes_close(client);
	send_batch(client); /* `done` of a failed operation may have submitted further ones */
	if (client->alarm_ns != 0)
		client->transport->kind->alarm(client->transport, 0);
	pthread_mutex_lock(&store->lock);
	list_remove(&store->clients, &client->node);
	redis_stats_add(&store->closed, &client->counts);
	pthread_mutex_unlock(&store->lock);
	commands_free_unused(client);
	free(client);
}
