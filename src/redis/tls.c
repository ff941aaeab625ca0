#include "redis/tls.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "base/error.h"

struct tls {
	SSL *ssl;
	BIO *in, *out; /* the SSL's */
	char error[160];
};

/* What a trust points to is OpenSSL's own. */
static SSL_CTX *context_of(struct tls_trust *trust)
{
	return (SSL_CTX *)trust;
}

/* OpenSSL's word for the last error of this thread. */
static const char *reason(void)
{
	unsigned long code = ERR_peek_last_error();
	const char *text = code != 0 ? ERR_reason_error_string(code) : NULL;

	return text ? text : "unknown error";
}

static int fail_file(const char *name, const char *file, struct weir_error *error)
{
	unsigned long first = ERR_peek_error(); /* the cause, if the system said no */
	int status = error_set(error, WEIR_EIO, "expected a file in PEM in %s=%s, found: %s", name, file,
	                       ERR_SYSTEM_ERROR(first) ? strerror((int)ERR_GET_REASON(first)) : reason());

	ERR_clear_error();
	return status;
}

static int load(SSL_CTX *context, const struct tls_files *files, struct weir_error *error)
{
	const char *key = files->key ? files->key : files->cert;

	if (files->key && !files->cert)
		return error_set(error, WEIR_EINVAL, "key=%s: expected cert=FILE beside it", files->key);
	if (files->ca ? !SSL_CTX_load_verify_locations(context, files->ca, NULL)
	              : !SSL_CTX_set_default_verify_paths(context))
		return fail_file("ca", files->ca ? files->ca : "(the system's)", error);
	if (files->cert && SSL_CTX_use_certificate_chain_file(context, files->cert) != 1)
		return fail_file("cert", files->cert, error);
	if (key && SSL_CTX_use_PrivateKey_file(context, key, SSL_FILETYPE_PEM) != 1)
		return fail_file("key", key, error);
	return WEIR_OK;
}

int tls_trust_open(struct tls_trust **out, const struct tls_files *files, struct weir_error *error)
{
	SSL_CTX *context = SSL_CTX_new(TLS_client_method());
	int status;

	*out = NULL;
	if (!context)
		return error_set(error, WEIR_ENOMEM, "out of memory");
	SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
	SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
	SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
	status = load(context, files, error);
	if (status != WEIR_OK) {
		SSL_CTX_free(context);
		return status;
	}
	*out = (struct tls_trust *)context;
	return WEIR_OK;
}

void tls_trust_close(struct tls_trust *trust)
{
	SSL_CTX_free(context_of(trust));
}

/* An address in a certificate is no name, and is not sent as one. */
static bool set_host(SSL *ssl, const char *host)
{
	unsigned char address[sizeof(struct in6_addr)];

	if (inet_pton(AF_INET, host, address) == 1 || inet_pton(AF_INET6, host, address) == 1)
		return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host) == 1;
	SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
	return SSL_set1_host(ssl, host) == 1 && SSL_set_tlsext_host_name(ssl, host) == 1;
}

int tls_open(struct tls **out, struct tls_trust *trust, const char *host)
{
	struct tls *tls = calloc(1, sizeof *tls);

	*out = tls;
	if (!tls)
		return WEIR_ENOMEM;
	tls->ssl = SSL_new(context_of(trust));
	tls->in = BIO_new(BIO_s_mem());
	tls->out = BIO_new(BIO_s_mem());
	if (!tls->ssl || !tls->in || !tls->out || !set_host(tls->ssl, host)) {
		BIO_free(tls->in);
		BIO_free(tls->out);
		SSL_free(tls->ssl);
		free(tls);
		*out = NULL;
		ERR_clear_error();
		return WEIR_ENOMEM;
	}
	SSL_set_bio(tls->ssl, tls->in, tls->out);
	SSL_set_connect_state(tls->ssl);
	SSL_do_handshake(tls->ssl); /* its first words */
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
		snprintf(tls->error, sizeof tls->error, "%s: %s", what, reason());
	ERR_clear_error();
	return WEIR_EIO;
}

/* Whether the SSL only waits for more bytes. */
static bool only_waits(const struct tls *tls, int result)
{
	int code = SSL_get_error(tls->ssl, result);

	return code == SSL_ERROR_WANT_READ || code == SSL_ERROR_WANT_WRITE;
}

/* All records that are whole. */
static int read_records(struct tls *tls, struct buffer *plain)
{
	for (;;) {
		char *to = buffer_reserve(plain, SSL3_RT_MAX_PLAIN_LENGTH);
		int len;

		if (!to)
			return fail(tls, "out of memory");
		len = SSL_read(tls->ssl, to, SSL3_RT_MAX_PLAIN_LENGTH);
		if (len > 0)
			plain->len += (size_t)len;
		else if (SSL_get_error(tls->ssl, len) == SSL_ERROR_ZERO_RETURN)
			return WEIR_OK; /* its end, and so will be that of the wire */
		else
			return only_waits(tls, len) ? WEIR_OK : fail(tls, "TLS failed");
	}
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
		if (tls_is_ready(tls) && read_records(tls, plain) != WEIR_OK)
			return WEIR_EIO;
	}
	return WEIR_OK;
}

bool tls_is_ready(const struct tls *tls)
{
	return SSL_is_init_finished(tls->ssl);
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
