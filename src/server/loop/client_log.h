/*
 * client_log.h: logs a warning about a client at most once in an interval, so that clients can't
 * fill the disk.
 */
#ifndef SERVER_CLIENT_LOG_H
#define SERVER_CLIENT_LOG_H

#include "base/number.h"
#include "net/net.h"
#include "server/admin/event_log.h"

#define CLIENT_LOG_INTERVAL_NS (10 * NS_PER_S)

/**
 * Logs `event` about the connection's client, unless it is before *next_warning_ns; then sets that
 * to CLIENT_LOG_INTERVAL_NS from now. `listener` is the protocol of the listener, or NULL to omit
 * it.
 */
void client_log_warn(struct log *log, uint64_t *next_warning_ns, const char *event,
                     const char *listener, const struct net_conn *conn, const char *message);

#endif
