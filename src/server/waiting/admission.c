/*
 * admission.c: queues clients while stores, or this worker, have too much to do. A client in the
 * queue is not read; the queue admits clients in order as work is finished.
 */
#include "server/waiting/admission.h"

#include "base/number.h"

/* Longer requests are long: in commands, or in bytes where the protocol has no transactions. */
#define LONG_COMMANDS 64
#define LONG_BYTES    ((size_t)4 << 10)

/* About how many bytes of input make one step at a store. */
#define BYTES_PER_STEP 32

/* The commands of the transaction that the connection's next command may end. */
static size_t queued_commands(struct net_conn *conn)
{
	const struct codec *codec = protocol_of(conn)->codec;

	return codec->next_request_count ? codec->next_request_count(client_of(conn)->session) : 0;
}

static bool is_long_request(struct net_conn *conn, size_t bytes)
{
	return protocol_of(conn)->codec->next_request_count ? queued_commands(conn) > LONG_COMMANDS
	                                                    : bytes > LONG_BYTES;
}

/* Suspends the client, unless it is queued already. Its input has `bytes`. */
static void enqueue_client(struct admission *admission, struct net_conn *conn, size_t bytes)
{
	struct client *client = client_of(conn);
	size_t steps;

	if (list_has(&client->admission.node))
		return;
	client->conn = conn;
	client->admission.waits_for_batches = false;
	steps = u64_max(queued_commands(conn), 1 + bytes / BYTES_PER_STEP);
	client->admission.expected_steps = u64_min(steps, ADMISSION_STEPS);
	list_append(&admission->clients, &client->admission.node);
	net_conn_suspend(conn, CLIENT_ADMISSION, true);
}

/*
 * Queues the client if its next request is a batch of many requests, and there are many batches
 * already that take several iterations. Returns whether it does.
 */
static bool enqueue_long_batch(struct admission *admission, struct net_conn *conn, size_t requests)
{
	struct client *client = client_of(conn);
	bool waits = admission->batches >= ADMISSION_BATCHES && requests > LONG_COMMANDS &&
	             !client->admission.is_admitted;

	if (waits) {
		enqueue_client(admission, conn, 0);
		client->admission.waits_for_batches = true;
	}
	return waits;
}

bool admission_delays_transaction(struct admission *admission, struct net_conn *conn)
{
	return enqueue_long_batch(admission, conn, queued_commands(conn));
}

/* A transaction, which is a batch of queued commands, was delayed before it was parsed, or not. */
bool admission_delays_batch(struct admission *admission, struct net_conn *conn,
                            const struct request *batch)
{
	bool waits = !protocol_of(conn)->codec->next_request_count &&
	             enqueue_long_batch(admission, conn, batch->item_count);

	client_of(conn)->admission.is_admitted = false;
	return waits;
}

void admission_remove(struct admission *admission, struct client *client)
{
	list_remove(&admission->clients, &client->admission.node);
}

/*
 * Returns the space for replies that a client gets if limits are at stores. While these are
 * overloaded, a client that the queue has just admitted is served once as usual, and a client
 * without a pending request gets space for one short request; others join the queue and get 0. Not
 * inlined: requests without stores need none of it.
 */
__attribute__((noinline)) static size_t space_with_stores(struct admission *admission,
                                                          struct net_conn *conn, size_t bytes)
{
	struct client *client = client_of(conn);
	size_t space = net_conn_output_space(conn);

	if (store_clients_steps(admission->store_clients) < ADMISSION_STEPS)
		return space;
	if (client->admission.is_admitted) {
		client->admission.is_admitted = false;
		return space;
	}
	if (!client->unanswered.first && !is_long_request(conn, bytes))
		return u64_min(space, 1); /* any reply fills it: no second request is read */
	enqueue_client(admission, conn, bytes);
	return 0;
}

size_t admission_reply_space(struct admission *admission, struct net_conn *conn, size_t bytes)
{
	return __builtin_expect(admission->has_stores, 0) ? space_with_stores(admission, conn, bytes)
	                                                  : net_conn_output_space(conn);
}

/*
 * Admits clients in the order of the queue and reads them again, as long as stores have capacity
 * for their steps, and not too many long batches are in work at once.
 */
void admission_admit(struct admission *admission)
{
	struct client *client;
	size_t steps = admission->clients.first ? store_clients_steps(admission->store_clients) : 0;
	size_t batches = admission->batches;

	while ((client = list_of(admission->clients.first, struct client, admission.node)) &&
	       steps < ADMISSION_STEPS) {
		bool has_batch = client->admission.waits_for_batches;

		if (has_batch && batches >= ADMISSION_BATCHES)
			break; /* those behind it do not overtake it */
		batches += has_batch;
		admission_remove(admission, client);
		client->admission.is_admitted = true;
		steps += client->admission.expected_steps;
		net_conn_suspend(client->conn, CLIENT_ADMISSION, false);
	}
}
