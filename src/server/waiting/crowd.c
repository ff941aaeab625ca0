#include "server/waiting/crowd.h"

#include "base/number.h"

/* From so many commands, or bytes of a protocol without transactions, on a request is long. */
#define LONG_COMMANDS 64
#define LONG_BYTES    ((size_t)4 << 10)

/* The bytes of a step in a request. */
#define STEP_BYTES 32

static size_t queued(struct net_conn *conn)
{
	const struct codec *codec = protocol_of(conn)->codec;

	return codec->queued ? codec->queued(client_of(conn)->session) : 0;
}

static bool is_long(struct net_conn *conn, size_t bytes)
{
	return protocol_of(conn)->codec->queued ? queued(conn) > LONG_COMMANDS : bytes > LONG_BYTES;
}

static void join(struct worker *worker, struct net_conn *conn, size_t bytes)
{
	struct client *client = client_of(conn);

	if (list_has(&client->in_crowd))
		return;
	client->conn = conn;
	client->is_behind = false;
	client->weight = u64_min(u64_max(queued(conn), 1 + bytes / STEP_BYTES), CROWD_STEPS);
	list_append(&worker->crowd, &client->in_crowd);
	net_conn_put_off(conn, CLIENT_ADMISSION, true);
}

static bool is_behind(struct worker *worker, struct net_conn *conn, size_t requests)
{
	struct client *client = client_of(conn);
	bool waits = worker->split_count >= CROWD_BATCHES && requests > LONG_COMMANDS && !client->is_next;

	if (waits) {
		join(worker, conn, 0);
		client->is_behind = true;
	}
	return waits;
}

bool crowd_holds_transaction(struct worker *worker, struct net_conn *conn)
{
	return is_behind(worker, conn, queued(conn));
}

bool crowd_holds_batch(struct worker *worker, struct net_conn *conn, const struct request *batch)
{
	bool waits = !protocol_of(conn)->codec->queued && is_behind(worker, conn, batch->item_count);

	client_of(conn)->is_next = false;
	return waits;
}

void crowd_leave(struct worker *worker, struct client *client)
{
	list_remove(&worker->crowd, &client->in_crowd);
}

/* Apart: the hot path needs none of it. */
__attribute__((noinline)) static size_t room_in_crowd(struct worker *worker, struct net_conn *conn,
                                                      size_t bytes)
{
	struct client *client = client_of(conn);
	size_t room = net_conn_room(conn);

	if (lanes_steps(&worker->lanes) < CROWD_STEPS)
		return room;
	if (client->is_next) {
		client->is_next = false;
		return room;
	}
	if (!client->held.first && !is_long(conn, bytes))
		return u64_min(room, 1);
	join(worker, conn, bytes);
	return 0;
}

size_t crowd_room(struct worker *worker, struct net_conn *conn, size_t bytes)
{
	return __builtin_expect(worker->config->stores != 0, 0) ? room_in_crowd(worker, conn, bytes)
	                                                        : net_conn_room(conn);
}

void crowd_let_in(struct worker *worker)
{
	struct client *client;
	size_t steps = worker->crowd.first ? lanes_steps(&worker->lanes) : 0;
	size_t batches = worker->split_count;

	while ((client = list_of(worker->crowd.first, struct client, in_crowd)) && steps < CROWD_STEPS) {
		if (client->is_behind && batches++ >= CROWD_BATCHES)
			break;
		crowd_leave(worker, client);
		client->is_next = true;
		steps += client->weight;
		net_conn_put_off(client->conn, CLIENT_ADMISSION, false);
	}
}
