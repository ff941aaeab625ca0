/*
 * resp_multi.h: a transaction: what a connection queues between MULTI and EXEC.
 *
 * The queue changes when commands are read, not when they are answered: EXEC may
 * have been read before MULTI is answered. It keeps the words of each command,
 * checked for its name and how many there are; EXEC reads them into the items of
 * one batch, so that errors of single commands stand among the replies.
 *
 * Bounds: `batch_max` commands, where each key of DEL and EXISTS counts as one, and
 * twice `request_max` bytes. A command that cannot be queued makes EXEC refuse all
 * of them, and their memory is freed at once.
 */
#ifndef PROTO_RESP_MULTI_H
#define PROTO_RESP_MULTI_H

#include "proto/resp/resp_session.h"

/** Queues a command with as many words as it may have. 0 or a status, and the queue is broken. */
int resp_multi_add(struct resp_session *session, struct fill *fill, const struct resp_spec *spec,
                   const struct slice *args, size_t n);
/** How many requests EXEC would decide. */
size_t resp_multi_requests(const struct resp_session *session);
/** If a transaction is open, EXEC will refuse it. */
void resp_multi_break(struct resp_session *session);
/** Forgets an open transaction, if any. */
void resp_multi_end(struct resp_session *session);

/* The commands that act at once, even in a transaction. */
void resp_execute_multi(struct resp_session *session, struct fill *fill);
void resp_execute_exec(struct resp_session *session, struct fill *fill);
void resp_execute_discard(struct resp_session *session, struct fill *fill);
void resp_execute_watch(struct resp_session *session, struct fill *fill);
void resp_execute_reset(struct resp_session *session, struct fill *fill);
void resp_execute_quit(struct resp_session *session, struct fill *fill);
/** Takes a command with a large reply: a transaction refuses it. */
void resp_execute_outside_multi(struct resp_session *session, struct fill *fill);

#endif
