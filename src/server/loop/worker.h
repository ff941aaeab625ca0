/* worker.h: one thread: a loop, its turns, and the requests that they take in (intake.h). */
#ifndef SERVER_WORKER_H
#define SERVER_WORKER_H

#include "server/loop/worker_parts.h"

extern const struct worker_protocol worker_http, worker_resp, worker_admin;

/** Takes a reference to the configuration. Errors: ENOMEM, EIO. Close it in any case. */
int worker_open(struct worker *worker, struct worker_shared *shared, size_t index,
                struct server_config *config);
/** Listens on `socket`, which it takes over. */
int worker_listen(struct worker *worker, const struct worker_protocol *protocol, bool secure,
                  int socket);
/** Opens the clients of new stores, before the worker sees their configuration. ENOMEM. */
int worker_open_store_clients(struct worker *worker);
int worker_start(struct worker *worker);
void worker_join(struct worker *worker);
void worker_close(struct worker *worker);

#endif
