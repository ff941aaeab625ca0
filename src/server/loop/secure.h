/*
 * secure.h: TLS between the sockets of a listener and its protocol.
 *
 * A connection keeps the certificates of the configuration that it began with; a reload is for those
 * that come after it. A handshake has the time of a request (NET_OPTIONS_DEFAULT).
 */
#ifndef SERVER_SECURE_H
#define SERVER_SECURE_H

#include "net/net.h"
#include "server/loop/work.h"
#include "tls/tls.h"

/** A filter for the listeners of a worker, whose configuration has TLS. */
struct net_filter secure_filter(void);

/** The TLS of a connection, or NULL. */
struct tls *secure_of(struct net_conn *conn);

/** Logs that the connection, which ends, failed to speak TLS; once in 10 s for a worker. */
void secure_tell(struct worker *worker, struct net_conn *conn);

#endif
