#include "server/loop/listener_tls.h"

#include "server/loop/work.h"
#include "server/loop/client_log.h"

struct tls_state {
	struct tls *tls; /* NULL before the first bytes */
};

static int on_tls_read(const struct net_filter *filter, void *state, struct slice bytes,
                       struct buffer *in, struct buffer *wire)
{
	struct tls_state *conn = state;
	struct listener_tls *of = (struct listener_tls *)filter; /* `filter` is its first member */
	int status = WEIR_OK;

	/* a reload takes effect at once, even if this worker has not had an iteration since */
	if (!conn->tls)
		status = tls_accept(&conn->tls, server_config_newest(*of->config)->tls, &of->recent);
	if (status != WEIR_OK)
		return status;
	status = tls_decrypt(conn->tls, bytes, in, wire);
	if (status != WEIR_OK)
		return status;
	return tls_has_ended(conn->tls)     ? NET_FILTER_END
	       : !tls_is_ready(conn->tls)   ? NET_FILTER_HANDSHAKE
	       : tls_has_partial(conn->tls) ? NET_FILTER_PARTIAL
	                                    : NET_FILTER_READY;
}

static void on_tls_write(const struct net_filter *filter, void *state, struct slice bytes,
                         struct buffer *wire)
{
	struct tls_state *conn = state;

	(void)filter;
	if (bytes.len > 0)
		tls_encrypt(conn->tls, bytes, wire);
	else
		tls_send_end(conn->tls, wire);
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
