/*
 * timeout.c: checks at each tick whether a connection exceeds the timeout that its state has, and
 * ends it then. Five states have one: idle, a request arriving, an answer being written, closing,
 * and above the maximum number of connections.
 */
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

/* Returns whether the owner has appended output, such as a farewell of its protocol. */
bool conn_append_last_output(struct net_conn *conn)
{
	if (!conn->kind->stop || conn->stop_was_called || conn->state != CONN_OPEN)
		return false;
	conn->stop_was_called = true;
	return conn->kind->stop(conn->loop->context, conn);
}

/* A long write reports only its end: progress shows in how much of it is left at each tick. */
static void record_write_progress(struct net_conn *conn, uint64_t now_ms)
{
	size_t unwritten = uv_stream_get_write_queue_size((uv_stream_t *)&conn->tcp);

	if (unwritten != conn->unwritten_at_tick)
		conn->progress_at_ms = now_ms;
	conn->unwritten_at_tick = unwritten;
}

/* How long the present state of a connection may last. */
struct state_timeout {
	uint64_t since_ms; /* when the state began, or last made progress */
	uint64_t ms;       /* 0: for ever */
	bool is_idle;
};

/*
 * Returns the timeout of a connection that receives a request or nothing. The beginning of a
 * request may be with the owner (an unfinished stream of HTTP/2), in our input, or in TLS.
 */
static struct state_timeout input_timeout(const struct net_conn *conn)
{
	uint64_t request_ms = conn->loop->options.request_timeout_ms;

	if (conn->partial_request)
		return (struct state_timeout){conn->partial_since_ms, request_ms, false};
	if (conn->input.len > 0 || filter_has_partial(conn->filter))
		return (struct state_timeout){conn->request_since_ms, request_ms, false};
	return (struct state_timeout){conn->progress_at_ms, idle_timeout_ms(conn), true};
}

/* A connection with requests to answer has no timeout; but if its client has left, it ends. */
static void check_peer(struct net_conn *conn, uint64_t now_ms)
{
	/* While input is not read, its end is not seen. */
	if (conn_waits_for_answer(conn) && conn->paused && net_conn_peer_has_left(conn))
		conn_kill(conn);
	conn->partial_since_ms = now_ms; /* the next request has its whole time from now on */
}

void conn_check_timeout(struct net_conn *conn, uint64_t now_ms)
{
	struct state_timeout timeout;
	bool is_rejection = false;

	if (conn->state == CONN_CONNECTING)
		return; /* the timer of net_loop_dial bounds it */
	if (conn->state == CONN_LINGERING) {
		/* Here the member says since when our side has ended. */
		timeout = (struct state_timeout){conn->request_since_ms, LINGER_MS, false};
	} else if (conn->queued_bytes > 0) {
		record_write_progress(conn, now_ms);
		timeout = (struct state_timeout){conn->progress_at_ms, conn->loop->options.write_timeout_ms,
		                                 false};
	} else if (conn->in_reserve && conn->state == CONN_OPEN) {
		/* Beyond the greatest number of connections: it must send its first request soon. */
		timeout = (struct state_timeout){conn->opened_at_ms, NET_RESERVE_MS, false};
		is_rejection = true;
	} else if (conn->pending_count > 0 || conn->has_backlog) {
		check_peer(conn, now_ms);
		return;
	} else {
		timeout = input_timeout(conn);
	}
	if (timeout.ms == 0 || now_ms - timeout.since_ms < timeout.ms)
		return;
	if (is_rejection)
		net_conn_count_rejection(conn);
	if (timeout.is_idle && conn_append_last_output(conn))
		net_conn_finish(conn);
	else
		conn_fail(conn, conn->state == CONN_LINGERING ? 0 : UV_ETIMEDOUT);
}
