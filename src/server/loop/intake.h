/*
 * intake.h: turns the bytes of connections into requests, decides these together, and answers them.
 *
 * The intake is the requests that a loop has read and not decided yet. Requests are prepared as
 * they are parsed, so that the memory of their keys is fetched meanwhile. They are decided together
 * when the loop has read all that was ready, when there are INTAKE_WORKS_MAX of them, or when their
 * replies take INTAKE_OUT_MAX. Each is answered when it is decided, or is pending (pending.h).
 *
 * In one iteration a connection gets INTAKE_SHARE requests, or fewer beside many others
 * (net_loop_share), or one page; then the other connections have theirs. A request with a long
 * answer counts as several, and so does one with much work (engine_work). A batch runs items of
 * BATCH_SLICE units of work in an iteration (deferred.h). A page waits for the next iteration if
 * the loop is busy. A reply counts as unread output before it is written, so that no pipeline
 * exceeds its bound.
 */
#ifndef SERVER_INTAKE_H
#define SERVER_INTAKE_H

#include "server/loop/worker_parts.h"

#define INTAKE_WORKS_MAX 1024
#define INTAKE_SHARE     1024
/* transactions with more commands wait while the loop is busy */
#define INTAKE_COMMANDS_AT_ONCE 64
#define INTAKE_ARENA_MAX        ((size_t)1 << 20)
#define INTAKE_OUT_MAX          ((size_t)512 << 10)
#define INTAKE_OUT_RETAINED     ((size_t)1 << 20)

/** The callbacks of a listener's connections. */
struct net_kind intake_callbacks(struct worker *worker, const struct worker_protocol *protocol,
                                 bool secure);
/** Returns 0 or ENOMEM. */
int intake_open(struct worker *worker);
/** Moves to the newest configuration, if nothing was decided yet in this iteration. */
void intake_begin_iteration(struct worker *worker);
/** Moves to the newest configuration. Call it when the intake is answered. */
void intake_use_newest_config(struct worker *worker);
/** Decides and answers the intake in the order of arrival. */
void intake_answer(struct worker *worker);

#endif
