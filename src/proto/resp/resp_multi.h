/*
 * resp_multi.h: queues the commands of a RESP connection between MULTI and EXEC, a transaction.
 *
 * The queue changes when commands are read, not when they are answered, because EXEC may have been
 * read before MULTI is answered. It stores the words of each command, whose name and number of
 * words are checked. EXEC makes the commands the items of one batch, so that errors of single
 * commands are replies among the others.
 *
 * A transaction has at most `batch_max` commands, where each key of DEL and EXISTS counts as one,
 * and twice `request_max` bytes. A command that can not be queued breaks the transaction: its
 * memory is freed at once, and EXEC refuses it.
 */
#ifndef PROTO_RESP_MULTI_H
#define PROTO_RESP_MULTI_H

#include "proto/resp/resp_session.h"

/** Queues a checked command. Returns 0, or a status; then the caller breaks the transaction. */
int resp_multi_add(struct resp_session *session, struct fill *fill, const struct resp_spec *spec,
                   const struct slice *args, size_t n);
/** How many requests EXEC would decide. */
size_t resp_multi_requests(const struct resp_session *session);
/** Makes EXEC refuse an open transaction, if any. */
void resp_multi_break(struct resp_session *session);
/** Discards an open transaction, if any. */
void resp_multi_end(struct resp_session *session);

/* Values of resp_spec.execute_when_read: commands that are executed when they are read. */
void resp_execute_multi(struct resp_session *session, struct fill *fill);
void resp_execute_exec(struct resp_session *session, struct fill *fill);
void resp_execute_discard(struct resp_session *session, struct fill *fill);
void resp_execute_watch(struct resp_session *session, struct fill *fill);
void resp_execute_reset(struct resp_session *session, struct fill *fill);
void resp_execute_quit(struct resp_session *session, struct fill *fill);
/** For a command with a large reply, which breaks an open transaction. */
void resp_execute_outside_multi(struct resp_session *session, struct fill *fill);

#endif
