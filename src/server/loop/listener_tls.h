/*
 * listener_tls.h: TLS between the sockets of a listener and its protocol.
 *
 * A connection keeps the certificates of the configuration that it began with; a reload is for
 * those that come after it. A handshake has the time of a request (NET_OPTIONS_DEFAULT).
 */
#ifndef SERVER_LISTENER_TLS_H
#define SERVER_LISTENER_TLS_H

#include "net/net.h"
#include "server/config/config.h"
#include "tls/tls.h"

/* The TLS of a worker's listeners. */
struct listener_tls {
	struct net_filter filter;            /* first */
	struct tls_recent recent;            /* of the connections to them */
	struct server_config *const *config; /* the worker's, which has TLS */
	uint64_t next_warning_ns;            /* until when another tls_failed is not logged */
};

void listener_tls_open(struct listener_tls *listener_tls, struct server_config *const *config);

/** The TLS of a connection, or NULL. */
struct tls *listener_tls_of(struct net_conn *conn);

/** Logs that the connection, which ends, failed to speak TLS; once in CLIENT_LOG_APART_NS for a
 * worker. */
void listener_tls_log_failure(struct listener_tls *listener_tls, struct net_conn *conn,
                              struct log *log);

#endif
