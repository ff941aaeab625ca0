/*
 * ticket.h: limits how long a session may be resumed by its ticket.
 *
 * OpenSSL verifies a client's certificate in a full handshake alone, and with TLS 1.3 each use of a
 * ticket brings a new one: without an end of its own a session would outlive its certificates.
 */
#ifndef TLS_TICKET_H
#define TLS_TICKET_H

#include <openssl/ssl.h>

/** A session whose client showed a certificate ends when the first of its chain expires. */
void ticket_limit_lifetime(SSL_CTX *context);

#endif
