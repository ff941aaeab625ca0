/*
 * listener_tls.c: decrypts what clients send to a listener with TLS, and encrypts the answers. The
 * network calls it as a filter between a connection's socket and its protocol.
 */
#include "server/loop/listener_tls.h"

#include "server/loop/work.h"
#include "server/loop/client_log.h"

struct tls_state {
	struct tls *tls; /* NULL before the first bytes */
};

/*
 * Decrypts `bytes` into `in`, and appends answers of TLS itself to `wire`. Returns how far the
 * connection is, a NET_FILTER_..., or the error of a failed handshake or message.
 */
static int on_tls_read(const struct net_filter *filter, void *state, struct slice bytes,
                       struct buffer *in, struct buffer *wire)
{
	struct tls_state *tls_state = state;
	struct listener_tls *listener_tls = (struct listener_tls *)filter; /* its first member */
	const struct server_config *newest;
	int status = WEIR_OK;

	if (!tls_state->tls) {
		/* a reload takes effect at once, even if this worker has not had an iteration since */
		newest = server_config_newest(*listener_tls->config);
		status = tls_accept(&tls_state->tls, newest->tls, &listener_tls->recent);
	}
	if (status != WEIR_OK)
		return status;
	status = tls_decrypt(tls_state->tls, bytes, in, wire);
	if (status != WEIR_OK)
		return status;
	return tls_has_ended(tls_state->tls)     ? NET_FILTER_END
	       : !tls_is_ready(tls_state->tls)   ? NET_FILTER_HANDSHAKE
	       : tls_has_partial(tls_state->tls) ? NET_FILTER_PARTIAL
	                                         : NET_FILTER_READY;
}

/* Encrypts `bytes` into `wire`. Without bytes, it ends the encryption: the connection closes. */
static void on_tls_write(const struct net_filter *filter, void *state, struct slice bytes,
                         struct buffer *wire)
{
	struct tls *tls = ((struct tls_state *)state)->tls;

	(void)filter;
	if (bytes.len > 0)
		tls_encrypt(tls, bytes, wire);
	else
		tls_send_end(tls, wire);
}

static void on_tls_close(const struct net_filter *filter, void *state)
{
	(void)filter;
	tls_close(((struct tls_state *)state)->tls);
}

void listener_tls_open(struct listener_tls *listener_tls, struct server_config *const *config)
{
	*listener_tls = (struct listener_tls){
	    .filter = {sizeof(struct tls_state), on_tls_read, on_tls_write, on_tls_close},
	    .config = config};
}

struct tls *listener_tls_of(struct net_conn *conn)
{
	const struct tls_state *tls_state = net_conn_filter(conn);

	return tls_state ? tls_state->tls : NULL;
}

void listener_tls_log_failure(struct listener_tls *listener_tls, struct net_conn *conn,
                              struct log *log)
{
	struct tls *tls = listener_tls_of(conn);

	if (tls && *tls_error(tls))
		client_log_warn(log, &listener_tls->next_warning_ns, "tls_failed",
		                protocol_of(conn)->codec->name, conn, tls_error(tls));
}
