/* client_log.h: warnings that any client can cause, bounded so that none can fill the log's disk.
 */
#ifndef SERVER_CLIENT_LOG_H
#define SERVER_CLIENT_LOG_H

#include "base/number.h"
#include "net/net.h"
#include "server/admin/log.h"

#define CLIENT_LOG_APART_NS (10 * NS_PER_S)

/**
 * Warns of what the client of a connection can cause as often as it likes: once in
 * CLIENT_LOG_APART_NS, so that nobody can fill the disk. *next_warning_ns is when the next one may
 * be. `where`: the protocol of the listener, or NULL.
 */
void client_log_warn(struct log *log, uint64_t *next_warning_ns, const char *event,
                     const char *where, const struct net_conn *conn, const char *message);

#endif
