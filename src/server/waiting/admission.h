/*
 * admission.h: delays clients in an admission queue while stores, or this loop, are overloaded.
 *
 * A store works in order, and many clients can ask for more than it does within its timeout. So
 * while the stores have ADMISSION_STEPS steps of a loop, the loop takes one short request of each
 * client. Clients with an unanswered request or a long request join the queue. They leave it one
 * after another as the stores finish steps.
 *
 * Clients whose limits are all in memory wait here only with a long batch, while the loop has
 * ADMISSION_BATCHES batches that take several iterations: each of these keeps its requests and
 * replies in memory.
 */
#ifndef SERVER_ADMISSION_H
#define SERVER_ADMISSION_H

#include "server/loop/work.h"
#include "server/stores/store_clients.h"

#define ADMISSION_STEPS   1024 /* a Redis does them in some milliseconds */
#define ADMISSION_BATCHES 16

struct admission {
	const struct store_clients *store_clients;
	bool has_stores;     /* works may have steps at stores */
	struct list clients; /* the queue, oldest first */
	size_t batches;      /* of all clients: batches whose items have not all begun */
};

/**
 * Returns how many bytes of replies a client may be given for `bytes` of input, at most
 * net_conn_output_space. If it returns 0, the client is queued: consume nothing, its input comes
 * again.
 */
size_t admission_reply_space(struct admission *admission, struct net_conn *conn, size_t bytes);
/**
 * Whether the client is queued because its next command may end a long transaction. Call it before
 * parsing that command: a parsed command can't be put back. Only while there are ADMISSION_BATCHES.
 */
bool admission_delays_transaction(struct admission *admission, struct net_conn *conn);
/**
 * Whether the client is queued because of the batch that was just parsed; if so, put the batch
 * back.
 */
bool admission_delays_batch(struct admission *admission, struct net_conn *conn,
                            const struct request *batch);
/** At the end of an iteration: admits the oldest clients for which stores have capacity again. */
void admission_admit(struct admission *admission);
/** Removes a client whose connection has ended. */
void admission_remove(struct admission *admission, struct client *client);

#endif
