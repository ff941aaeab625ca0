/*
 * context.c: makes the contexts of TLS connections: loads certificates and keys from files in PEM,
 * and sets the protocol's options. An error message names the file and says why it is refused.
 */
#include "tls/context.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include "base/error.h"
#include "tls/internal.h"
#include "tls/ticket.h"

/*
 * Whether OpenSSL's error says that a file has no key or certificate. Its text for that differs
 * between versions, so it is replaced by our own.
 */
static bool means_no_pem_found(unsigned long code)
{
	return (ERR_GET_LIB(code) == ERR_LIB_PEM && ERR_GET_REASON(code) == PEM_R_NO_START_LINE) ||
	       (ERR_GET_LIB(code) == ERR_LIB_X509 &&
	        ERR_GET_REASON(code) == X509_R_NO_CERTIFICATE_OR_CRL_FOUND) ||
	       ERR_GET_REASON(code) == ERR_R_UNSUPPORTED;
}

/* Sets the error of a file, which the setting `name` ("ca", "cert" or "key") names. Returns EIO. */
static int set_file_error(const char *name, const char *file, struct weir_error *error)
{
	unsigned long first = ERR_peek_error(); /* later ones only follow from it */
	struct stat found;
	const char *why;

	if (stat(file, &found) == 0 && !S_ISREG(found.st_mode))
		why = S_ISDIR(found.st_mode) ? "a directory" : "not a regular file";
	else if (ERR_SYSTEM_ERROR(first))
		why = strerror((int)ERR_GET_REASON(first));
	else if (means_no_pem_found(first))
		why = strcmp(name, "key") == 0 ? "no key in it" : "no certificate in it";
	else
		why = tls_reason_of(first);
	ERR_clear_error();
	return error_set(error, WEIR_EIO, "expected a file in PEM in %s=%s, found: %s", name, file,
	                 why);
}

/* Whether opening the file may block: OpenSSL would wait for the other end of a pipe. */
static bool opening_may_block(const char *file)
{
	struct stat found;

	return stat(file, &found) == 0 && !S_ISREG(found.st_mode);
}

/* Refuses to give a passphrase; by default OpenSSL would wait for one at the terminal. */
static int refuse_passphrase(char *to, int size, int writes, void *needs_passphrase)
{
	(void)to;
	(void)size;
	(void)writes;
	*(bool *)needs_passphrase = true;
	return -1;
}

static bool is_key_of_another_certificate(unsigned long code)
{
	return ERR_GET_LIB(code) == ERR_LIB_X509 &&
	       (ERR_GET_REASON(code) == X509_R_KEY_VALUES_MISMATCH ||
	        ERR_GET_REASON(code) == X509_R_KEY_TYPE_MISMATCH);
}

static int load_key(SSL_CTX *context, const char *key, const char *cert, struct weir_error *error)
{
	bool needs_passphrase = false, loaded;

	if (opening_may_block(key))
		return set_file_error("key", key, error);
	SSL_CTX_set_default_passwd_cb(context, refuse_passphrase);
	SSL_CTX_set_default_passwd_cb_userdata(context, &needs_passphrase);
	loaded = SSL_CTX_use_PrivateKey_file(context, key, SSL_FILETYPE_PEM) == 1;
	SSL_CTX_set_default_passwd_cb_userdata(context, NULL);
	if (loaded)
		return WEIR_OK;
	if (!needs_passphrase && !is_key_of_another_certificate(ERR_peek_error()))
		return set_file_error("key", key, error);
	ERR_clear_error();
	if (needs_passphrase)
		return error_set(error, WEIR_EINVAL, "key=%s: expected a key without a passphrase", key);
	return error_set(error, WEIR_EINVAL,
	                 "key=%s: expected the key of the first certificate in cert=%s, found that of "
	                 "another",
	                 key, cert);
}

/* Loads our certificate and key, if any; one file may have both. */
static int load_own_certificate(SSL_CTX *context, const struct tls_files *files,
                                struct weir_error *error)
{
	const char *key = files->key ? files->key : files->cert;

	if (files->key && !files->cert)
		return error_set(error, WEIR_EINVAL, "key=%s: expected cert=FILE beside it", files->key);
	if (files->cert && (opening_may_block(files->cert) ||
	                    SSL_CTX_use_certificate_chain_file(context, files->cert) != 1))
		return set_file_error("cert", files->cert, error);
	return key ? load_key(context, key, files->cert, error) : WEIR_OK;
}

/* Where distributions keep their authorities in one file. */
static const char *const authority_files[] = {
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
};

/*
 * OpenSSL knows where its own distribution keeps authorities. A program that contains OpenSSL may
 * run on another one, where neither place exists.
 */
static bool load_system_authorities(SSL_CTX *context)
{
	bool is_told =
	    getenv(X509_get_default_cert_file_env()) || getenv(X509_get_default_cert_dir_env());
	bool is_known = access(X509_get_default_cert_file(), R_OK) == 0 ||
	                access(X509_get_default_cert_dir(), R_OK) == 0;

	for (size_t i = 0; i < sizeof authority_files / sizeof *authority_files; i++)
		if (!is_told && !is_known && access(authority_files[i], R_OK) == 0)
			return SSL_CTX_load_verify_file(context, authority_files[i]);
	return SSL_CTX_set_default_verify_paths(context);
}

/* Loads the authorities by which peers' certificates are verified: of `ca`, or the system's. */
static int load_authorities(SSL_CTX *context, const char *ca, struct weir_error *error)
{
	bool loaded = ca ? !opening_may_block(ca) && SSL_CTX_load_verify_locations(context, ca, NULL)
	                 : load_system_authorities(context);

	return loaded ? WEIR_OK : set_file_error("ca", ca ? ca : "(the system's)", error);
}

/* Returns NULL if there is no memory. */
static SSL_CTX *make_context(const SSL_METHOD *method, int version_min)
{
	SSL_CTX *context = SSL_CTX_new(method);

	ERR_clear_error(); /* so that later errors are those of the files */
	if (!context)
		return NULL;
	SSL_CTX_set_min_proto_version(context, version_min);
	SSL_CTX_set_read_ahead(context, 1); /* read a record at once, not its header first */
	SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
	return context;
}

/* Sets *out, or frees the context if `status` is an error. */
static int finish_context(struct tls_context **out, SSL_CTX *context, int status)
{
	if (status != WEIR_OK)
		SSL_CTX_free(context);
	*out = status == WEIR_OK ? (struct tls_context *)context : NULL;
	return status;
}

/* Opens a context for the client's side of connections. */
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
		status = load_own_certificate(context, files, error);
	return finish_context(out, context, status);
}

/* Requests certificates of clients, and announces the authorities that may have signed them. */
static int verify_clients(SSL_CTX *context, const struct tls_server *server,
                          struct weir_error *error)
{
	int status = load_authorities(context, server->files.ca, error);
	bool is_required = server->clients == TLS_CLIENTS_REQUIRED;
	STACK_OF(X509_NAME) * names;

	if (status != WEIR_OK)
		return status;
	names = SSL_load_client_CA_file(server->files.ca);
	if (!names)
		return set_file_error("ca", server->files.ca, error);
	SSL_CTX_set_client_CA_list(context, names);
	SSL_CTX_set_verify(context,
	                   SSL_VERIFY_PEER | (is_required ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT : 0), NULL);
	return WEIR_OK;
}

/*
 * Chooses HTTP/2 or HTTP/1.1 by ALPN, the extension in which a client offers its protocols: the
 * first of ours that it supports. If there is none, the handshake goes on without a choice.
 */
static int choose_protocol(SSL *ssl, const unsigned char **out, unsigned char *out_len,
                           const unsigned char *offered, unsigned offered_len, void *context)
{
	static const unsigned char ours[] = "\x02h2\x08http/1.1"; /* each after its length */
	unsigned char *chosen;
	int result =
	    SSL_select_next_proto(&chosen, out_len, ours, sizeof ours - 1, offered, offered_len);

	(void)ssl;
	(void)context;
	*out = chosen;
	return result == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_NOACK;
}

int tls_context_open_server(struct tls_context **out, const struct tls_server *server,
                            struct weir_error *error)
{
	static const unsigned char session_id[] = "weir"; /* only sessions of ours are resumed */
	SSL_CTX *context =
	    make_context(TLS_server_method(), server->only_1_3 ? TLS1_3_VERSION : TLS1_2_VERSION);
	int status;

	*out = NULL;
	if (!context)
		return error_set(error, WEIR_ENOMEM, "out of memory");
	SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_CIPHER_SERVER_PREFERENCE |
	                                 SSL_OP_PRIORITIZE_CHACHA | SSL_OP_NO_COMPRESSION);
	SSL_CTX_set_session_id_context(context, session_id, sizeof session_id - 1);
	/* Sessions are stored in the clients' tickets, and use no memory here. */
	SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_num_tickets(context, 1);
	ticket_limit_lifetime(context);
	SSL_CTX_set_alpn_select_cb(context, choose_protocol, NULL);
	status = load_own_certificate(context, &server->files, error);
	if (status == WEIR_OK && server->clients != TLS_CLIENTS_NONE)
		status = verify_clients(context, server, error);
	return finish_context(out, context, status);
}

struct tls_context *tls_context_retain(struct tls_context *context)
{
	if (context)
		SSL_CTX_up_ref(tls_ssl_of(context));
	return context;
}

bool tls_context_is_expired(const struct tls_context *context)
{
	const X509 *own = SSL_CTX_get0_certificate(tls_ssl_of(context));

	return own && (X509_cmp_current_time(X509_get0_notAfter(own)) < 0 ||
	               X509_cmp_current_time(X509_get0_notBefore(own)) > 0);
}

void tls_context_close(struct tls_context *context)
{
	SSL_CTX_free(tls_ssl_of(context));
}
