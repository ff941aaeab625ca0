/*
 * worker.h: runs one thread with its event loop: what it does in each iteration, and when it wakes.
 */
#ifndef SERVER_WORKER_H
#define SERVER_WORKER_H

#include "server/loop/worker_parts.h"

extern const struct worker_protocol worker_http, worker_resp, worker_admin;

/**
 * Opens a worker, with a reference to the configuration. Errors: ENOMEM, EIO. Close it even after
 * an error.
 */
int worker_open(struct worker *worker, struct worker_shared *shared, size_t index,
                struct server_config *config);
/** Listens on `socket`, which becomes the worker's. */
int worker_listen(struct worker *worker, const struct worker_protocol *protocol, bool secure,
                  int socket);
/**
 * Opens clients of stores that are new, before the worker sees a configuration with them. Returns 0
 * or ENOMEM.
 */
int worker_open_store_clients(struct worker *worker);
int worker_start(struct worker *worker);
void worker_join(struct worker *worker);
void worker_close(struct worker *worker);

#endif
