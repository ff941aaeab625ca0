/* internal.h: gets OpenSSL's object behind a context, and OpenSSL's texts of errors. */
#ifndef TLS_INTERNAL_H
#define TLS_INTERNAL_H

#include <openssl/err.h>
#include <openssl/ssl.h>

struct tls_context;

/* A context is OpenSSL's own object. */
static inline SSL_CTX *tls_ssl_of(const struct tls_context *context)
{
	return (SSL_CTX *)context;
}

/* OpenSSL's text for an error. */
static inline const char *tls_reason_of(unsigned long code)
{
	const char *text = code != 0 ? ERR_reason_error_string(code) : NULL;

	return text ? text : "unknown error";
}

#endif
