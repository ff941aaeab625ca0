/*
 * context.h: loads the certificates by which a side of TLS proves itself and verifies the other.
 */
#ifndef TLS_CONTEXT_H
#define TLS_CONTEXT_H

#include <stdbool.h>

#include <weir/weir.h>

struct tls_context;

/* In PEM. */
struct tls_files {
	char *ca;   /* NULL means the system's authorities */
	char *cert; /* with what follows it in its chain, or NULL */
	char *key;  /* NULL if it is in the file of `cert` */
};

/** For clients: 0, EIO or EINVAL (the files), ENOMEM. */
int tls_context_open(struct tls_context **out, const struct tls_files *files,
                     struct weir_error *error);

/* Whether clients show a certificate, which `ca` verifies. */
enum tls_clients {
	TLS_CLIENTS_NONE,
	TLS_CLIENTS_OPTIONAL,
	TLS_CLIENTS_REQUIRED,
};

struct tls_server {
	struct tls_files files; /* `cert` is given, and `ca` if clients show certificates */
	enum tls_clients clients;
	bool only_1_3; /* else TLS 1.2, too */
};

/** For a server: errors as tls_context_open. */
int tls_context_open_server(struct tls_context **out, const struct tls_server *server,
                            struct weir_error *error);
/** Another reference, for tls_context_close to give up. */
struct tls_context *tls_context_retain(struct tls_context *context);
/** Whether the context's own certificate is not valid now. */
bool tls_context_is_expired(const struct tls_context *context);
/** NULL does nothing. */
void tls_context_close(struct tls_context *context);

#endif
