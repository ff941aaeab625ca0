/* context.h: loads the certificates and keys by which a side of TLS authenticates and verifies the
 * other side. */
#ifndef TLS_CONTEXT_H
#define TLS_CONTEXT_H

#include <stdbool.h>

#include <weir/weir.h>

struct tls_context;

/* Names of files in PEM. */
struct tls_files {
	char *ca;   /* certificates of authorities, or NULL for the system's */
	char *cert; /* own certificate, followed by its chain; or NULL */
	char *key;  /* own key; NULL if it is in the file of `cert` */
};

/** Opens a context for clients. 0, EIO or EINVAL (the files), ENOMEM. */
int tls_context_open(struct tls_context **out, const struct tls_files *files,
                     struct weir_error *error);

/* Whether clients must present a certificate, which is verified by `ca`. */
enum tls_clients {
	TLS_CLIENTS_NONE,
	TLS_CLIENTS_OPTIONAL,
	TLS_CLIENTS_REQUIRED,
};

struct tls_server {
	struct tls_files files; /* must have `cert`, and `ca` unless TLS_CLIENTS_NONE */
	enum tls_clients clients;
	bool only_1_3; /* refuses TLS 1.2 */
};

/** Opens a context for a server. Errors as tls_context_open. */
int tls_context_open_server(struct tls_context **out, const struct tls_server *server,
                            struct weir_error *error);
/** Adds a reference, which tls_context_close releases. */
struct tls_context *tls_context_retain(struct tls_context *context);
/** Whether the context's own certificate has expired or is not valid yet. */
bool tls_context_is_expired(const struct tls_context *context);
/** Releases a reference; the last one frees the context. NULL does nothing. */
void tls_context_close(struct tls_context *context);

#endif
