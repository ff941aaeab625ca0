/*
 * listener_tls.h: runs TLS between the sockets of a listener and its protocol.
 *
 * A connection uses the certificates of the configuration that it began with; a reload affects
 * later connections alone. A handshake may take as long as a request (NET_OPTIONS_DEFAULT).
 */
#ifndef SERVER_LISTENER_TLS_H
#define SERVER_LISTENER_TLS_H

#include "net/net.h"
#include "server/config/config.h"
#include "tls/tls.h"

/* The TLS of a worker's listeners. */
struct listener_tls {
	struct net_filter filter; /* the first member, because the network knows only this */
	/* connections that were read lately, which keep OpenSSL's buffers */
	struct tls_recent recent;
	struct server_config *const *config; /* the worker's; its `tls` is not NULL */
	uint64_t next_warning_ns;            /* before this time no other tls_failed is logged */
};

void listener_tls_open(struct listener_tls *listener_tls, struct server_config *const *config);

/** The TLS of a connection, or NULL. */
struct tls *listener_tls_of(struct net_conn *conn);

/** Logs why TLS failed on a connection that ends, by client_log_warn. */
void listener_tls_log_failure(struct listener_tls *listener_tls, struct net_conn *conn,
                              struct log *log);

#endif
