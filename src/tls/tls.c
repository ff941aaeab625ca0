#include "tls/tls.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "base/error.h"
#include "tls/ticket.h"

struct tls {
	SSL *ssl;
	BIO *in, *out; /* the SSL's */
	bool has_ended;
	char error[160];
};

/* OpenSSL owns the object. */
static SSL_CTX *context_of(struct tls_context *context)
{
	return (SSL_CTX *)context;
}

/* OpenSSL's word for an error. */
static const char *reason_of(unsigned long code)
{
	const char *text = code != 0 ? ERR_reason_error_string(code) : NULL;

	return text ? text : "unknown error";
}

/* For the last one of this thread. */
static const char *reason(void)
{
	return reason_of(ERR_peek_last_error());
}

/* Of a file that OpenSSL has read and found nothing in: its own words differ by its version. */
static bool is_empty_of_it(unsigned long code)
{
	return (ERR_GET_LIB(code) == ERR_LIB_PEM && ERR_GET_REASON(code) == PEM_R_NO_START_LINE) ||
	       (ERR_GET_LIB(code) == ERR_LIB_X509 &&
	        ERR_GET_REASON(code) == X509_R_NO_CERTIFICATE_OR_CRL_FOUND) ||
	       ERR_GET_REASON(code) == ERR_R_UNSUPPORTED;
}

static int fail_file(const char *name, const char *file, struct weir_error *error)
{
	unsigned long first = ERR_peek_error(); /* the cause, if the system said no */
	struct stat found;
	const char *why;

	if (stat(file, &found) == 0 && S_ISDIR(found.st_mode))
		why = "a directory";
	else if (ERR_SYSTEM_ERROR(first))
		why = strerror((int)ERR_GET_REASON(first));
	else if (is_empty_of_it(first))
		why = strcmp(name, "key") == 0 ? "no key in it" : "no certificate in it";
	else
		why = reason_of(first);
	ERR_clear_error();
	return error_set(error, WEIR_EIO, "expected a file in PEM in %s=%s, found: %s", name, file, why);
}

/* OpenSSL would ask at the terminal, and wait there: in a start, and in a reload. */
static int know_no_passphrase(char *to, int size, int writes, void *asked)
{
	(void)to;
	(void)size;
	(void)writes;
	*(bool *)asked = true;
	return -1;
}

/* Whether the key that failed to load is that of another certificate. */
static bool is_of_other(unsigned long code)
{
	return ERR_GET_LIB(code) == ERR_LIB_X509 && (ERR_GET_REASON(code) == X509_R_KEY_VALUES_MISMATCH ||
	                                             ERR_GET_REASON(code) == X509_R_KEY_TYPE_MISMATCH);
}

static int load_key(SSL_CTX *context, const char *key, const char *cert, struct weir_error *error)
{
	bool asked = false, loaded;

	SSL_CTX_set_default_passwd_cb(context, know_no_passphrase);
	SSL_CTX_set_default_passwd_cb_userdata(context, &asked);
	loaded = SSL_CTX_use_PrivateKey_file(context, key, SSL_FILETYPE_PEM) == 1;
	SSL_CTX_set_default_passwd_cb_userdata(context, NULL);
	if (loaded)
		return WEIR_OK;
	if (!asked && !is_of_other(ERR_peek_error()))
		return fail_file("key", key, error);
	ERR_clear_error();
	if (asked)
		return error_set(error, WEIR_EINVAL, "key=%s: expected a key without a passphrase", key);
	return error_set(error, WEIR_EINVAL,
	                 "key=%s: expected the key of the first certificate in cert=%s, found that of "
	                 "another",
	                 key, cert);
}

static int load_own(SSL_CTX *context, const struct tls_files *files, struct weir_error *error)
{
	const char *key = files->key ? files->key : files->cert;

	if (files->key && !files->cert)
		return error_set(error, WEIR_EINVAL, "key=%s: expected cert=FILE beside it", files->key);
	if (files->cert && SSL_CTX_use_certificate_chain_file(context, files->cert) != 1)
		return fail_file("cert", files->cert, error);
	return key ? load_key(context, key, files->cert, error) : WEIR_OK;
}

static int load_authorities(SSL_CTX *context, const char *ca, struct weir_error *error)
{
	if (ca ? !SSL_CTX_load_verify_locations(context, ca, NULL)
	       : !SSL_CTX_set_default_verify_paths(context))
		return fail_file("ca", ca ? ca : "(the system's)", error);
	return WEIR_OK;
}

/* NULL: no memory. */
static SSL_CTX *make_context(const SSL_METHOD *method, int minimum)
{
	SSL_CTX *context = SSL_CTX_new(method);

	if (!context)
		return NULL;
	SSL_CTX_set_min_proto_version(context, minimum);
	SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
	return context;
}

/* *out is NULL unless the context is complete. */
static int finish_context(struct tls_context **out, SSL_CTX *context, int status)
{
	if (status != WEIR_OK)
		SSL_CTX_free(context);
	*out = status == WEIR_OK ? (struct tls_context *)context : NULL;
	return status;
}

int tls_context_open(struct tls_context **out, const struct tls_files *files,
                     struct weir_error *error)
{
	SSL_CTX *context = make_context(TLS_client_method(), TLS1_2_VERSION);
	int status;

	*out = NULL;
	if (!context)
		return error_set(error, WEIR_ENOMEM, "out of memory");
	SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
	status = load_authorities(context, files->ca, error);
	if (status == WEIR_OK)
		status = load_own(context, files, error);
	return finish_context(out, context, status);
}

/* Clients are told which authorities may have signed their certificates. */
static int verify_clients(SSL_CTX *context, const struct tls_server *server,
                          struct weir_error *error)
{
	int status = load_authorities(context, server->files.ca, error);
	STACK_OF(X509_NAME) *names;

	if (status != WEIR_OK)
		return status;
	names = SSL_load_client_CA_file(server->files.ca);
	if (!names)
		return fail_file("ca", server->files.ca, error);
	SSL_CTX_set_client_CA_list(context, names);
	SSL_CTX_set_verify(context,
	                   SSL_VERIFY_PEER | (server->clients == TLS_CLIENTS_REQUIRED
	                                          ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT
	                                          : 0),
	                   NULL);
	return WEIR_OK;
}

/* The first of ours that the client has, too; without one the client goes on as if it had none. */
static int choose_protocol(SSL *ssl, const unsigned char **out, unsigned char *out_len,
                           const unsigned char *offered, unsigned offered_len, void *context)
{
	static const unsigned char ours[] = "\x02h2\x08http/1.1";
	unsigned char *chosen;
	int result = SSL_select_next_proto(&chosen, out_len, ours, sizeof ours - 1, offered, offered_len);

	(void)ssl;
	(void)context;
	*out = chosen;
	return result == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_NOACK;
}

int tls_context_open_server(struct tls_context **out, const struct tls_server *server,
                            struct weir_error *error)
{
	static const unsigned char sessions[] = "weir"; /* resumed here alone */
	SSL_CTX *context = make_context(TLS_server_method(),
	                                server->only_1_3 ? TLS1_3_VERSION : TLS1_2_VERSION);
	int status;

	*out = NULL;
	if (!context)
		return error_set(error, WEIR_ENOMEM, "out of memory");
	SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_CIPHER_SERVER_PREFERENCE |
	                                 SSL_OP_PRIORITIZE_CHACHA | SSL_OP_NO_COMPRESSION);
	SSL_CTX_set_session_id_context(context, sessions, sizeof sessions - 1);
	/* Sessions are in the tickets of clients, which take no memory here. */
	SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_num_tickets(context, 1);
	ticket_limit(context);
	SSL_CTX_set_alpn_select_cb(context, choose_protocol, NULL);
	status = load_own(context, &server->files, error);
	if (status == WEIR_OK && server->clients != TLS_CLIENTS_NONE)
		status = verify_clients(context, server, error);
	return finish_context(out, context, status);
}

struct tls_context *tls_context_take(struct tls_context *context)
{
	if (context)
		SSL_CTX_up_ref(context_of(context));
	return context;
}

bool tls_context_is_expired(const struct tls_context *context)
{
	const X509 *own = SSL_CTX_get0_certificate((const SSL_CTX *)context);

	return own && (X509_cmp_current_time(X509_get0_notAfter(own)) < 0 ||
	               X509_cmp_current_time(X509_get0_notBefore(own)) > 0);
}

void tls_context_close(struct tls_context *context)
{
	SSL_CTX_free(context_of(context));
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

static struct tls *make(struct tls_context *context)
{
	struct tls *tls = calloc(1, sizeof *tls);

	if (!tls)
		return NULL;
	tls->ssl = SSL_new(context_of(context));
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
