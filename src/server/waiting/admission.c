#include "server/waiting/admission.h"

#include "base/number.h"

/* A request is long from this many commands on, or bytes where the protocol has no transactions. */
#define LONG_COMMANDS 64
#define LONG_BYTES    ((size_t)4 << 10)

/* About how many bytes of input make one step. */
#define STEP_BYTES 32

static size_t queued_commands(struct net_conn *conn)
{
	const struct codec *codec = protocol_of(conn)->codec;

	return codec->queued ? codec->queued(client_of(conn)->session) : 0;
}

static bool is_long_request(struct net_conn *conn, size_t bytes)
{
	return protocol_of(conn)->codec->queued ? queued_commands(conn) > LONG_COMMANDS
	                                        : bytes > LONG_BYTES;
}

static void enqueue_client(struct admission *admission, struct net_conn *conn, size_t bytes)
{
	struct client *client = client_of(conn);

	if (list_has(&client->admission.node))
		return;
	client->conn = conn;
	client->admission.waits_for_batches = false;
	client->admission.weight =
	    u64_min(u64_max(queued_commands(conn), 1 + bytes / STEP_BYTES), ADMISSION_STEPS);
	list_append(&admission->clients, &client->admission.node);
	net_conn_suspend(conn, CLIENT_ADMISSION, true);
}

static bool waits_for_batches(struct admission *admission, struct net_conn *conn, size_t requests)
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
	return waits_for_batches(admission, conn, queued_commands(conn));
}

bool admission_delays_batch(struct admission *admission, struct net_conn *conn,
                            const struct request *batch)
{
	bool waits =
	    !protocol_of(conn)->codec->queued && waits_for_batches(admission, conn, batch->item_count);

	client_of(conn)->admission.is_admitted = false;
	return waits;
}

void admission_remove(struct admission *admission, struct client *client)
{
	list_remove(&admission->clients, &client->admission.node);
}

/*
 * Limits a client while stores are overloaded: it gets one short request if it has none pending,
 * and otherwise joins the queue. Not inlined: requests without stores need none of it.
 */
__attribute__((noinline)) static size_t space_under_load(struct admission *admission,
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
		return u64_min(space, 1); /* stops after one request */
	enqueue_client(admission, conn, bytes);
	return 0;
}

size_t admission_reply_space(struct admission *admission, struct net_conn *conn, size_t bytes)
{
	return __builtin_expect(admission->has_stores, 0) ? space_under_load(admission, conn, bytes)
	                                                  : net_conn_output_space(conn);
}

void admission_admit(struct admission *admission)
{
	struct client *client;
	size_t steps = admission->clients.first ? store_clients_steps(admission->store_clients) : 0;
	size_t batches = admission->batches;

	while ((client = list_of(admission->clients.first, struct client, admission.node)) &&
	       steps < ADMISSION_STEPS) {
		if (client->admission.waits_for_batches && batches++ >= ADMISSION_BATCHES)
			break;
		admission_remove(admission, client);
		client->admission.is_admitted = true;
		steps += client->admission.weight;
		net_conn_suspend(client->conn, CLIENT_ADMISSION, false);
	}
}
