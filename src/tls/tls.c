#include "tls/tls.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "tls/internal.h"

struct tls {
	SSL *ssl;
	BIO *in, *out; /* the SSL's */
	bool has_ended;
	char error[160];
};

/* An address in a certificate is no name, and is not sent as one. */
static bool set_host(SSL *ssl, const char *host)
{
	unsigned char address[sizeof(struct in6_addr)];

	if (inet_pton(AF_INET, host, address) == 1 || inet_pton(AF_INET6, host, address) == 1)
		return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host) == 1;
	SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
	return SSL_set1_host(ssl, host) == 1 && SSL_set_tlsext_host_name(ssl, host) == 1;
}

static struct tls *make(struct tls_context *context)
{
	struct tls *tls = calloc(1, sizeof *tls);

	if (!tls)
		return NULL;
	tls->ssl = SSL_new(tls_ssl_of(context));
	tls->in = BIO_new(BIO_s_mem());
	tls->out = BIO_new(BIO_s_mem());
	if (tls->ssl && tls->in && tls->out) {
		SSL_set_bio(tls->ssl, tls->in, tls->out);
		return tls;
	}
	BIO_free(tls->in);
	BIO_free(tls->out);
	SSL_free(tls->ssl);
	free(tls);
	ERR_clear_error();
	return NULL;
}

int tls_open(struct tls **out, struct tls_context *context, const char *host)
{
	*out = make(context);
	if (!*out)
		return WEIR_ENOMEM;
	if (!set_host((*out)->ssl, host)) {
		tls_close(*out);
		*out = NULL;
		ERR_clear_error();
		return WEIR_ENOMEM;
	}
	SSL_set_connect_state((*out)->ssl);
	SSL_do_handshake((*out)->ssl); /* its first words */
	return WEIR_OK;
}

int tls_accept(struct tls **out, struct tls_context *context)
{
	*out = make(context);
	if (!*out)
		return WEIR_ENOMEM;
	SSL_set_accept_state((*out)->ssl);
	return WEIR_OK;
}

void tls_close(struct tls *tls)
{
	if (!tls)
		return;
	SSL_free(tls->ssl);
	free(tls);
}

static int fail(struct tls *tls, const char *what)
{
	long verified = SSL_get_verify_result(tls->ssl);

	if (verified != X509_V_OK)
		snprintf(tls->error, sizeof tls->error, "its certificate is refused: %s",
		         X509_verify_cert_error_string(verified));
	else
		snprintf(tls->error, sizeof tls->error, "%s: %s", what, tls_reason_of(ERR_peek_last_error()));
	ERR_clear_error();
	return WEIR_EIO;
}

/* Whether the SSL only waits for more bytes. */
static bool only_waits(const struct tls *tls, int result)
{
	int code = SSL_get_error(tls->ssl, result);

	return code == SSL_ERROR_WANT_READ || code == SSL_ERROR_WANT_WRITE;
}

static int end_in(struct tls *tls)
{
	tls->has_ended = true;
	return WEIR_OK;
}

/*
 * All records that are whole, of which `wire` bytes came last. Room is made for as many: for the
 * longest record each connection of a turn would take 16 KiB until its end.
 */
static int read_records(struct tls *tls, size_t wire, struct buffer *plain)
{
	int room = wire < SSL3_RT_MAX_PLAIN_LENGTH ? (int)wire : SSL3_RT_MAX_PLAIN_LENGTH;

	while (tls_has_part(tls)) {
		char *to = buffer_reserve(plain, (size_t)room);
		int len;

		if (!to)
			return fail(tls, "out of memory");
		len = SSL_read(tls->ssl, to, room);
		if (len > 0)
			plain->len += (size_t)len;
		else if (SSL_get_error(tls->ssl, len) == SSL_ERROR_ZERO_RETURN)
			return end_in(tls);
		else
			return only_waits(tls, len) ? WEIR_OK : fail(tls, "TLS failed");
	}
	return WEIR_OK;
}

int tls_in(struct tls *tls, struct slice wire, struct buffer *plain)
{
	while (wire.len > 0) {
		int part = wire.len > (1 << 20) ? 1 << 20 : (int)wire.len;
		int result;

		ERR_clear_error();
		if (BIO_write(tls->in, wire.data, part) != part)
			return fail(tls, "out of memory");
		wire = (struct slice){wire.data + part, wire.len - (size_t)part};
		if (!tls_is_ready(tls)) {
			result = SSL_do_handshake(tls->ssl);
			if (result != 1 && !only_waits(tls, result))
				return fail(tls, "expected TLS");
		}
		if (tls_is_ready(tls) && read_records(tls, (size_t)part, plain) != WEIR_OK)
			return WEIR_EIO;
	}
	return WEIR_OK;
}

bool tls_is_ready(const struct tls *tls)
{
	return SSL_is_init_finished(tls->ssl);
}

bool tls_has_part(const struct tls *tls)
{
	return SSL_has_pending(tls->ssl) || BIO_ctrl_pending(tls->in) > 0;
}

bool tls_has_ended(const struct tls *tls)
{
	return tls->has_ended;
}

void tls_end(struct tls *tls)
{
	ERR_clear_error();
	if (tls_is_ready(tls))
		SSL_shutdown(tls->ssl);
	ERR_clear_error();
}

/* A text without a NUL inside; what has one is no name that anybody could have written. */
static bool is_text(const ASN1_STRING *string)
{
	const char *text = (const char *)ASN1_STRING_get0_data(string);

	return text && strlen(text) == (size_t)ASN1_STRING_length(string);
}

static bool find_in_subject(X509 *certificate, bool (*found)(void *context, const char *name),
                            void *context)
{
	char name[256];
	int len = X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName, name,
	                                    sizeof name);

	return len > 0 && strlen(name) == (size_t)len && found(context, name);
}

static void find_in_alternatives(X509 *certificate,
                                 bool (*found)(void *context, const char *name), void *context)
{
	GENERAL_NAMES *names = X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
	bool ended = false;

	for (int i = 0; i < sk_GENERAL_NAME_num(names) && !ended; i++) {
		const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, i);
		bool is_name = name->type == GEN_DNS || name->type == GEN_EMAIL || name->type == GEN_URI;

		if (is_name && is_text(name->d.ia5))
			ended = found(context, (const char *)ASN1_STRING_get0_data(name->d.ia5));
	}
	GENERAL_NAMES_free(names);
}

void tls_each_name(const struct tls *tls, bool (*found)(void *context, const char *name),
                   void *context)
{
	X509 *certificate = SSL_get0_peer_certificate(tls->ssl);

	if (!certificate || SSL_get_verify_result(tls->ssl) != X509_V_OK)
		return;
	if (!find_in_subject(certificate, found, context))
		find_in_alternatives(certificate, found, context);
}

int tls_write(struct tls *tls, struct slice plain)
{
	size_t written;

	ERR_clear_error();
	if (plain.len > 0 && SSL_write_ex(tls->ssl, plain.data, plain.len, &written) != 1)
		return fail(tls, "TLS failed");
	return WEIR_OK;
}

void tls_out(struct tls *tls, struct buffer *wire)
{
	size_t len = BIO_ctrl_pending(tls->out);
	char *to = len > 0 ? buffer_reserve(wire, len) : NULL;

	if (to && BIO_read(tls->out, to, (int)len) == (int)len)
		wire->len += len;
}

const char *tls_error(const struct tls *tls)
{
	return tls->error;
}
