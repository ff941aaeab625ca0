/* timeout.c: ends connections that exceed a timeout, and those whose peer has left. */
#include "net/internal.h"

/*
 * How long the input of a connection that we ended is still read. If the socket were closed with
 * input unread, TCP would reset it, and the peer might lose the last reply.
 */
#define LINGER_MS 2000

static uint64_t idle_timeout_ms(const struct net_conn *conn)
{
	const _Atomic uint64_t *ms = conn->kind->idle_timeout_ms;

	return ms ? atomic_load_explicit(ms, memory_order_relaxed) : 0;
}

bool conn_notify_end(struct net_conn *conn)
{
	if (!conn->kind->stop || conn->stop_notified || conn->state != CONN_OPEN)
		return false;
	conn->stop_notified = true;
	return conn->kind->stop(conn->loop->context, conn);
}

void conn_tick(struct net_conn *conn, uint64_t now)
{
	const struct net_options *options = &conn->loop->options;
	uint64_t since = conn->active_ms, limit = idle_timeout_ms(conn);
	bool is_idle = false;

	if (conn->state == CONN_CONNECTING)
		return; /* net_loop_dial set a deadline */
	if (conn->state == CONN_LINGERING) {
		since = conn->since_ms;
		limit = LINGER_MS;
	} else if (conn->queued > 0) {
		/* A long write reports only its end: progress shows in what is left of it. */
		size_t unwritten = uv_stream_get_write_queue_size((uv_stream_t *)&conn->tcp);

		if (unwritten != conn->unwritten)
			conn->active_ms = since = now;
		conn->unwritten = unwritten;
		limit = options->write_timeout_ms;
	} else if (conn->reserved && conn->state == CONN_OPEN) {
		since = conn->opened_ms;
		limit = NET_RESERVE_MS;
		if (now - since >= limit)
			net_conn_reject(conn);
	} else if (conn->pending > 0 || conn->backlogged) {
		if (conn_waits_for_answer(conn) && conn->paused && net_conn_peer_has_left(conn))
			conn_kill(conn);
		conn->partial_since_ms = now;
		return;
	} else if (conn->partial) {
		since = conn->partial_since_ms;
		limit = options->request_timeout_ms;
	} else if (conn->in.len > 0 || filter_has_partial(conn->filter)) {
		since = conn->since_ms;
		limit = options->request_timeout_ms;
	} else {
		is_idle = true;
	}
	if (limit == 0 || now - since < limit)
		return;
	if (is_idle && conn_notify_end(conn))
		net_conn_finish(conn);
	else
		conn_fail(conn, conn->state == CONN_LINGERING ? 0 : UV_ETIMEDOUT);
}
