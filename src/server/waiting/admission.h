/*
 * admission.h: clients that wait until stores, or this loop, have done earlier requests.
 *
 * A store works in order, and many clients can ask for more than it does within its timeout. So
 * while a loop has ADMISSION_STEPS at stores, it takes one short request of each client, and none
 * of a client that waits for an answer or sends a long request. Such clients form a queue, and go
 * on one after another when stores have room.
 *
 * Clients that use only limits in memory wait here with a long batch alone, while the loop has
 * ADMISSION_BATCHES that take several turns: each of these has its requests and replies in memory.
 */
#ifndef SERVER_ADMISSION_H
#define SERVER_ADMISSION_H

#include "server/loop/work.h"
#include "server/stores/store_clients.h"

#define ADMISSION_STEPS   1024 /* some milliseconds of a Redis */
#define ADMISSION_BATCHES 16

struct admission {
	const struct store_clients *store_clients;
	bool has_stores;     /* whether limits of the configuration are at stores */
	struct list clients; /* that wait, oldest first */
	size_t batches;      /* of all clients, those with items that are not begun */
};

/**
 * How many bytes of replies a client may be given now that brings so many bytes: at most
 * net_conn_output_space. 0: consume nothing further, it will come again.
 */
size_t admission_reply_space(struct admission *admission, struct net_conn *conn, size_t bytes);
/**
 * While there are ADMISSION_BATCHES: whether a client must wait here whose next command may end a
 * long transaction. Once it is read it can't be put back.
 */
bool admission_delays_transaction(struct admission *admission, struct net_conn *conn);
/** Whether a batch that was read must wait here: put it back. */
bool admission_delays_batch(struct admission *admission, struct net_conn *conn,
                            const struct request *batch);
/** At the end of a turn: lets in those for which there is room. */
void admission_admit(struct admission *admission);
/** The client has gone. */
void admission_remove(struct admission *admission, struct client *client);

#endif
