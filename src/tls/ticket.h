/*
 * ticket.h: limits how long a TLS session may be resumed by its ticket.
 *
 * OpenSSL verifies a client's certificate only in a full handshake, and with TLS 1.3 each use of a
 * ticket issues a new ticket. Without a limit of its own a session could outlive its certificates.
 */
#ifndef TLS_TICKET_H
#define TLS_TICKET_H

#include <openssl/ssl.h>

/** Ends sessions with a client's certificate when the first certificate of its chain expires. */
void ticket_limit_lifetime(SSL_CTX *context);

#endif
