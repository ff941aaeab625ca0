/*
 * intake.h: the requests of a turn: from the bytes of connections to answers.
 *
 * Requests are prepared as they are parsed, so that their memory is on its way,
 * and decided together when the loop has read all that was ready, or when
 * INTAKE_BATCH of them wait or their replies take INTAKE_OUT_MAX. Each is answered when it
 * is decided, or held (pending.h).
 *
 * A connection gets INTAKE_SHARE requests of a turn, or in a crowd a part of them (see
 * net_loop_share), or one page, and the others then; a request with a long answer counts
 * as several, and so does one that is much work (engine_work). Of a batch a turn runs items of
 * BATCH_SLICE units of work (deferred.h). A page that is asked for late in a busy turn waits for
 * the next one. A reply counts as unread output before it is written, so that no pipeline gets more
 * than its bound.
 */
#ifndef SERVER_INTAKE_H
#define SERVER_INTAKE_H

#include "server/loop/worker_parts.h"

#define INTAKE_BATCH     1024
#define INTAKE_SHARE     1024
#define INTAKE_PUT_OFF   64 /* larger transactions wait while the loop is busy */
#define INTAKE_ARENA_MAX ((size_t)1 << 20)
#define INTAKE_OUT_MAX   ((size_t)512 << 10)
#define INTAKE_OUT_KEEP  ((size_t)1 << 20)

/** What a listener hands to the worker: connections and their bytes. */
struct net_kind intake_kind(struct worker *worker, const struct worker_protocol *protocol,
                            bool secure);
/** ENOMEM. */
int intake_open(struct worker *worker);
/** Before anything is decided in a turn. */
void intake_begin_turn(struct worker *worker);
/** Decides and answers the batch, in the order in which its requests came: all of it is one block.
 */
void intake_answer(struct worker *worker);

#endif
