/*
 * worker.h: one thread: a loop, the requests of its turn, their answers.
 *
 * Requests are prepared as they are parsed, so that their memory is on its way,
 * and decided together when the loop has read all that was ready, or when
 * WORKER_BATCH of them wait or their replies take WORKER_OUT_MAX. Each is answered when it
 * is decided, or held (hold.h).
 *
 * A connection gets WORKER_SHARE requests of a turn, or in a crowd a part of them (see
 * net_loop_share), or one page, and the others then; a request with a long answer counts
 * as several, and so does one that is much work (engine_work). Of a batch a turn runs items of
 * WORKER_SLICE units of work (later.h). A page that is asked for late in a busy turn waits for the next one. A reply
 * counts as unread output before it is written, so that no pipeline gets more than its bound.
 */
#ifndef SERVER_WORKER_H
#define SERVER_WORKER_H

#include "server/loop/work.h"

#define WORKER_BATCH     1024
#define WORKER_SHARE     1024
#define WORKER_PUT_OFF   64 /* larger transactions wait while the loop is busy */
#define WORKER_ARENA_MAX ((size_t)1 << 20)
#define WORKER_OUT_MAX   ((size_t)512 << 10)
#define WORKER_OUT_KEEP  ((size_t)1 << 20)

extern const struct worker_protocol worker_http, worker_resp, worker_admin;

/** Takes a reference to the configuration. Errors: ENOMEM, EIO. Close it in any case. */
int worker_open(struct worker *worker, struct worker_shared *shared, size_t index,
                struct server_config *config);
/** Listens on `socket`, which it takes over. */
int worker_listen(struct worker *worker, const struct worker_protocol *protocol, bool secure,
                  int socket);
/** Opens the lanes to new stores, before the worker sees their configuration. ENOMEM. */
int worker_reach(struct worker *worker);
int worker_start(struct worker *worker);
void worker_join(struct worker *worker);
void worker_close(struct worker *worker);

#endif
