/*
 * ticket.c: limits how long a client can resume a TLS session without a new handshake. The
 * session's ticket contains the time at which the client's certificate expires, and is ignored from
 * then on.
 */
#include "tls/ticket.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include <openssl/x509.h>

#define SECONDS_PER_DAY 86400

/* When a certificate expires, in Unix time; 0 if that can not be determined. */
static int64_t certificate_end(const X509 *certificate, time_t now)
{
	int days, seconds;
	ASN1_TIME *from = ASN1_TIME_set(NULL, now);
	bool known = from && ASN1_TIME_diff(&days, &seconds, from, X509_get0_notAfter(certificate));

	ASN1_TIME_free(from);
	return known ? now + (int64_t)days * SECONDS_PER_DAY + seconds : 0;
}

/*
 * The earliest time at which a certificate of the client's chain expires; 0 if one is unknown, so
 * that the ticket is never used. INT64_MAX without a certificate.
 */
static int64_t chain_end(SSL *ssl)
{
	STACK_OF(X509) *chain = SSL_get0_verified_chain(ssl);
	int64_t end = INT64_MAX;
	time_t now = time(NULL);

	for (int i = 0; chain && i < sk_X509_num(chain); i++) {
		int64_t certificate_ends = certificate_end(sk_X509_value(chain, i), now);

		end = certificate_ends < end ? certificate_ends : end;
	}
	return end;
}

/*
 * Stores the end in a new ticket. A resumed session keeps its former end, because its certificate
 * is not verified again. Returns 1, or 0 on error, as OpenSSL expects.
 */
static int add_end_to_ticket(SSL *ssl, void *context)
{
	int64_t end;

	(void)context;
	if (SSL_session_reused(ssl))
		return 1;
	end = chain_end(ssl);
	return SSL_SESSION_set1_ticket_appdata(SSL_get_session(ssl), &end, sizeof end);
}

/* A ticket without an end is not one of ours, and counts as ended. */
static bool has_ended(SSL_SESSION *session)
{
	int64_t end;
	void *data;
	size_t len;

	if (!SSL_SESSION_get0_ticket_appdata(session, &data, &len) || len != sizeof end)
		return true;
	memcpy(&end, data, sizeof end);
	return end <= time(NULL);
}

/* Ignores a ticket whose end has passed, which leads to a full handshake. */
static SSL_TICKET_RETURN check_ticket(SSL *ssl, SSL_SESSION *session, const unsigned char *name,
                                      size_t name_len, SSL_TICKET_STATUS status, void *context)
{
	bool is_readable = status == SSL_TICKET_SUCCESS || status == SSL_TICKET_SUCCESS_RENEW;

	(void)ssl;
	(void)name;
	(void)name_len;
	(void)context;
	if (!is_readable || has_ended(session))
		return SSL_TICKET_RETURN_IGNORE_RENEW;
	return status == SSL_TICKET_SUCCESS ? SSL_TICKET_RETURN_USE : SSL_TICKET_RETURN_USE_RENEW;
}

void ticket_limit_lifetime(SSL_CTX *context)
{
	SSL_CTX_set_session_ticket_cb(context, add_end_to_ticket, check_ticket, NULL);
}
