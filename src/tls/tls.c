/*
 * tls.c: encrypts and decrypts the bytes of TLS connections with OpenSSL. It opens no socket: the
 * caller passes received bytes in, and sends those that are appended to the buffer `wire`. `plain`
 * bytes are not encrypted.
 */
#include "tls/tls.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "tls/internal.h"

/*
 * OpenSSL's SSL object reads and writes through a BIO (its interface to a transport) of our own:
 * from the bytes that the caller has received, and into the buffer that the caller sends. OpenSSL's
 * memory BIOs would copy both.
 */
struct tls {
	SSL *ssl;
	struct slice received;     /* and not yet read by `ssl`; empty between two calls */
	struct buffer *to_send;    /* where `ssl` writes; NULL between two calls */
	struct tls_recent *recent; /* NULL if it never retains OpenSSL's buffers */
	struct tls **recent_entry; /* its entry in `recent`, or NULL */
	bool has_ended;            /* the peer has ended its output */
	char error[160];
};

/* OpenSSL reads received bytes. Returns 1, or 0 if it has to wait for more. */
static int on_read(BIO *bio, char *to, size_t size, size_t *len)
{
	struct tls *tls = BIO_get_data(bio);

	*len = tls->received.len < size ? tls->received.len : size;
	BIO_clear_retry_flags(bio);
	if (*len == 0) {
		BIO_set_retry_read(bio);
		return 0;
	}
	memcpy(to, tls->received.data, *len);
	tls->received = (struct slice){tls->received.data + *len, tls->received.len - *len};
	return 1;
}

/* OpenSSL writes bytes to send. Returns 1, or 0 if there is no memory. */
static int on_write(BIO *bio, const char *from, size_t size, size_t *len)
{
	struct tls *tls = BIO_get_data(bio);

	BIO_clear_retry_flags(bio);
	buffer_add(tls->to_send, from, size);
	*len = tls->to_send->failed ? 0 : size;
	return !tls->to_send->failed;
}

/* Accepts flushing, which OpenSSL needs during the handshake, and no other control of a BIO. */
static long on_control(BIO *bio, int control, long number, void *pointer)
{
	(void)bio;
	(void)number;
	(void)pointer;
	return control == BIO_CTRL_FLUSH;
}

/* Made once for all threads; NULL without memory. Never freed: an SSL may outlive any context. */
static BIO_METHOD *bio_method;

static void make_bio_method(void)
{
	BIO_METHOD *made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "weir");

	if (made && BIO_meth_set_read_ex(made, on_read) && BIO_meth_set_write_ex(made, on_write) &&
	    BIO_meth_set_ctrl(made, on_control))
		bio_method = made;
	else
		BIO_meth_free(made);
}

/* Sets the name or address to verify. An address must not be sent as a server name (SNI). */
static bool set_host(SSL *ssl, const char *host)
{
	unsigned char address[sizeof(struct in6_addr)];

	if (inet_pton(AF_INET, host, address) == 1 || inet_pton(AF_INET6, host, address) == 1)
		return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host) == 1;
	SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
	return SSL_set1_host(ssl, host) == 1 && SSL_set_tlsext_host_name(ssl, host) == 1;
}

/* Makes a connection of either side, without a handshake. Returns NULL if there is no memory. */
static struct tls *make_connection(struct tls_context *context)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct tls *tls = calloc(1, sizeof *tls);
	BIO *bio;

	if (!tls)
		return NULL;
	pthread_once(&once, make_bio_method);
	tls->ssl = SSL_new(tls_ssl_of(context));
	bio = bio_method ? BIO_new(bio_method) : NULL;
	if (tls->ssl && bio) {
		BIO_set_data(bio, tls);
		BIO_set_init(bio, 1);
		SSL_set_bio(tls->ssl, bio, bio);
		return tls;
	}
	BIO_free(bio);
	tls_close(tls);
	ERR_clear_error();
	return NULL;
}

/* Opens the client's side; the server's certificate must be for `host`. Returns 0, or ENOMEM. */
int tls_open(struct tls **out, struct tls_context *context, const char *host, struct buffer *wire)
{
	size_t before = wire->len;
	struct tls *tls;
	*out = tls = make_connection(context);
	if (!tls)
		return WEIR_ENOMEM;
	SSL_set_connect_state(tls->ssl);
	tls->to_send = wire;
	if (set_host(tls->ssl, host))
		SSL_do_handshake(tls->ssl); /* writes the first message */
	tls->to_send = NULL;
	ERR_clear_error();
	if (wire->len > before)
		return WEIR_OK;
	tls_close(tls);
	*out = NULL;
	return WEIR_ENOMEM;
}

int tls_accept(struct tls **out, struct tls_context *context, struct tls_recent *recent)
{
	*out = make_connection(context);
	if (!*out)
		return WEIR_ENOMEM;
	(*out)->recent = recent;
	SSL_set_accept_state((*out)->ssl);
	return WEIR_OK;
}

/* Removes the connection from `recent`: OpenSSL frees its buffers after each record from now on. */
static void remove_recent(struct tls *tls)
{
	*tls->recent_entry = NULL;
	tls->recent_entry = NULL;
	SSL_set_mode(tls->ssl, SSL_MODE_RELEASE_BUFFERS);
	SSL_free_buffers(tls->ssl); /* or later, if a record has arrived in part */
}

/*
 * Adds the connection to `recent`, the connections whose buffers OpenSSL retains: allocating its
 * two buffers for each request would take a twentieth of the request's instructions. If `recent` is
 * full, only one in TLS_RECENT_MISSES attempts replaces the oldest, so that many connections do not
 * displace each other at every request.
 */
static void add_recent(struct tls *tls)
{
	struct tls_recent *recent = tls->recent;
	bool is_full;
	if (!recent || tls->recent_entry)
		return;
	is_full = recent->connections[recent->oldest] != NULL;
	if (is_full && ++recent->rejected_attempts % TLS_RECENT_MISSES != 0)
		return;
	tls->recent_entry = &recent->connections[recent->oldest];
	recent->oldest = (recent->oldest + 1) % TLS_RECENT;
	if (*tls->recent_entry)
		remove_recent(*tls->recent_entry);
	*tls->recent_entry = tls;
	SSL_clear_mode(tls->ssl, SSL_MODE_RELEASE_BUFFERS);
}

void tls_close(struct tls *tls)
{
	if (!tls)
		return;
	if (tls->recent_entry)
		*tls->recent_entry = NULL;
	SSL_free(tls->ssl);
	free(tls);
}

/* Sets the text of tls_error, "what: why" unless the certificate is refused. Returns EIO. */
static int set_error(struct tls *tls, const char *what, const char *why)
{
	long verified = SSL_get_verify_result(tls->ssl);

	if (verified != X509_V_OK)
		snprintf(tls->error, sizeof tls->error, "its certificate is refused: %s",
		         X509_verify_cert_error_string(verified));
	else
		snprintf(tls->error, sizeof tls->error, "%s: %s", what, why);
	return WEIR_EIO;
}

/*
 * Handles a call of OpenSSL that did not succeed. Returns 0 if it only needs more bytes, or the
 * peer has ended its output; otherwise EIO, with the text of tls_error set.
 *
 * SSL_get_error attributes any error in the thread's queue to the SSL. Therefore OpenSSL requires
 * ERR_clear_error before each call, which costs as much as a tenth of a record. Clearing the queue
 * here, after the failed call, has the same effect: SSL_get_error decides by the SSL's state alone.
 */
static int check_failure(struct tls *tls, int result, const char *what)
{
	unsigned long last = ERR_peek_last_error();
	int code;

	ERR_clear_error();
	code = SSL_get_error(tls->ssl, result);
	if (code == SSL_ERROR_WANT_READ)
		return WEIR_OK;
	/* An alert during the handshake has the same code, but is an error. */
	tls->has_ended = code == SSL_ERROR_ZERO_RETURN && tls_is_ready(tls);
	if (tls->has_ended)
		return WEIR_OK;
	return set_error(tls, what, tls->to_send->failed ? "out of memory" : tls_reason_of(last));
}

/*
 * Decrypts all complete records into `plain`. Each read gets as much space as bytes have arrived
 * now, because reserving the longest record, 16 KiB, for each connection would need much memory.
 */
static int read_records(struct tls *tls, size_t arrived_bytes, struct buffer *plain)
{
	int space =
	    arrived_bytes < SSL3_RT_MAX_PLAIN_LENGTH ? (int)arrived_bytes : SSL3_RT_MAX_PLAIN_LENGTH;

	while (tls_has_partial(tls)) {
		char *to = buffer_reserve(plain, (size_t)space);
		int len;

		if (!to)
			return set_error(tls, "TLS failed", "out of memory");
		len = SSL_read(tls->ssl, to, space);
		if (len <= 0)
			return check_failure(tls, len, "TLS failed");
		plain->len += (size_t)len;
		add_recent(tls);
	}
	return WEIR_OK;
}

/* Continues the handshake until it is done, then decrypts. Returns 0, or EIO with tls_error set. */
int tls_decrypt(struct tls *tls, struct slice bytes, struct buffer *plain, struct buffer *wire)
{
	int status = WEIR_OK;

	if (bytes.len == 0)
		return WEIR_OK;
	tls->received = bytes;
	tls->to_send = wire;
	if (!tls_is_ready(tls)) {
		int result = SSL_do_handshake(tls->ssl);

		if (result != 1)
			status = check_failure(tls, result, "expected TLS");
	}
	if (status == WEIR_OK && tls_is_ready(tls))
		status = read_records(tls, bytes.len, plain);
	tls->received = (struct slice){0};
	tls->to_send = NULL;
	return status;
}

bool tls_is_ready(const struct tls *tls)
{
	return SSL_is_init_finished(tls->ssl);
}

/* Whether OpenSSL has received bytes that it has not decrypted, such as part of a record. */
bool tls_has_partial(const struct tls *tls)
{
	/* After a record's header is read, it is not pending: OpenSSL's state is "B", read body. */
	return SSL_has_pending(tls->ssl) || tls->received.len > 0 ||
	       SSL_rstate_string(tls->ssl)[1] == 'B';
}

bool tls_has_ended(const struct tls *tls)
{
	return tls->has_ended;
}

/* Appends the alert close_notify, which ends our output, to `wire`. */
void tls_send_end(struct tls *tls, struct buffer *wire)
{
	if (!tls_is_ready(tls))
		return;
	tls->to_send = wire;
	SSL_shutdown(tls->ssl);
	tls->to_send = NULL;
	ERR_clear_error();
}

/* Whether the string has no NUL inside, which could hide a part of the name. */
static bool is_text(const ASN1_STRING *string)
{
	const char *text = (const char *)ASN1_STRING_get0_data(string);

	return text && strlen(text) == (size_t)ASN1_STRING_length(string);
}

/* Calls `found` with the common name of the certificate's subject. Returns its result. */
static bool find_in_subject(X509 *certificate, bool (*found)(void *context, const char *name),
                            void *context)
{
	char name[256];
	int len = X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName, name,
	                                    sizeof name);

	return len > 0 && strlen(name) == (size_t)len && found(context, name);
}

/* Calls `found` with each alternative name that is a text, until it returns true. */
static void find_in_alternatives(X509 *certificate, bool (*found)(void *context, const char *name),
                                 void *context)
{
	GENERAL_NAMES *names = X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
	bool is_done = false;

	for (int i = 0; i < sk_GENERAL_NAME_num(names) && !is_done; i++) {
		const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, i);
		bool is_name = name->type == GEN_DNS || name->type == GEN_EMAIL || name->type == GEN_URI;

		if (is_name && is_text(name->d.ia5))
			is_done = found(context, (const char *)ASN1_STRING_get0_data(name->d.ia5));
	}
	GENERAL_NAMES_free(names);
}

/* Lets `found` search the names in the peer's verified certificate, until it returns true. */
void tls_each_name(const struct tls *tls, bool (*found)(void *context, const char *name),
                   void *context)
{
	X509 *certificate = SSL_get0_peer_certificate(tls->ssl);

	if (!certificate || SSL_get_verify_result(tls->ssl) != X509_V_OK)
		return;
	if (!find_in_subject(certificate, found, context))
		find_in_alternatives(certificate, found, context);
}

/* Returns 0, or EIO with tls_error set. */
int tls_encrypt(struct tls *tls, struct slice plain, struct buffer *wire)
{
	size_t written;
	int status = WEIR_OK;

	tls->to_send = wire; /* OpenSSL writes by on_write */
	if (plain.len > 0 && SSL_write_ex(tls->ssl, plain.data, plain.len, &written) != 1)
		status = check_failure(tls, -1, "TLS failed");
	tls->to_send = NULL;
	return status;
}

const char *tls_error(const struct tls *tls)
{
	return tls->error;
}
