#include "server/loop/secure.h"

#include "server/requests/run.h"

struct secure {
	struct tls *tls; /* NULL: not begun */
};

/* The filter of a worker is inside of it. */
static struct worker *worker_of(const struct net_filter *filter)
{
	return (struct worker *)((char *)filter - offsetof(struct worker, secure));
}

static int on_read(const struct net_filter *filter, void *state, struct slice bytes,
                   struct buffer *in, struct buffer *wire)
{
	struct secure *secure = state;
	struct worker *worker = worker_of(filter);
	int status = WEIR_OK;

	if (!secure->tls) /* a reload holds at once: the worker's turn may not have begun since */
		status = tls_accept(&secure->tls, server_config_newest(worker->config)->tls, &worker->recent);
	if (status != WEIR_OK)
		return status;
	status = tls_in(secure->tls, bytes, in, wire);
	if (status != WEIR_OK)
		return status;
	return tls_has_ended(secure->tls)  ? NET_FILTER_END
	       : !tls_is_ready(secure->tls) ? NET_FILTER_GREETING
	       : tls_has_part(secure->tls)  ? NET_FILTER_PARTIAL
	                                    : NET_FILTER_READY;
}

static void on_write(const struct net_filter *filter, void *state, struct slice bytes,
                     struct buffer *wire)
{
	struct secure *secure = state;

	(void)filter;
	if (bytes.len > 0)
		tls_write(secure->tls, bytes, wire);
	else
		tls_end(secure->tls, wire);
}

static void on_close(const struct net_filter *filter, void *state)
{
	(void)filter;
	tls_close(((struct secure *)state)->tls);
}

struct net_filter secure_filter(void)
{
	return (struct net_filter){sizeof(struct secure), on_read, on_write, on_close};
}

struct tls *secure_of(struct net_conn *conn)
{
	struct secure *secure = net_conn_filter(conn);

	return secure ? secure->tls : NULL;
}

void secure_tell(struct worker *worker, struct net_conn *conn)
{
	struct tls *tls = secure_of(conn);
	char peer[IP_TEXT_MAX + 1];

	if (!tls || !*tls_error(tls) || !run_may_log(&worker->insecure_quiet_ns))
		return;
	peer[ip_format(net_conn_peer(conn), peer)] = '\0';
	log_say(worker->shared->log, LOG_WARNING, "tls_failed",
	        {"listener", protocol_of(conn)->codec->name}, {"peer", peer}, {"message", tls_error(tls)});
}
