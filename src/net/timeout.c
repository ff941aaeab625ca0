/*
 * timeout.c: checks at each tick whether a connection exceeds the timeout that its state has (idle,
 * reading a request, writing, closing), and ends it then.
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

/*
 * Ends a connection whose peer was silent in one state for too long: `since_ms` is when the state
 * began or last made progress, `timeout_ms` how long it may last; 0 means for ever.
 */
void conn_check_timeout(struct net_conn *conn, uint64_t now_ms)
{
	const struct net_options *options = &conn->loop->options;
	uint64_t since_ms = conn->progress_at_ms, timeout_ms = idle_timeout_ms(conn);
	bool is_idle = false;

	if (conn->state == CONN_CONNECTING)
		return; /* the timer of net_loop_dial bounds it */
	if (conn->state == CONN_LINGERING) {
		since_ms = conn->request_since_ms; /* here: since our side has ended */
		timeout_ms = LINGER_MS;
	} else if (conn->queued_bytes > 0) {
		/* A long write reports only its end: progress shows in what is left of it. */
		size_t unwritten = uv_stream_get_write_queue_size((uv_stream_t *)&conn->tcp);

		if (unwritten != conn->unwritten_at_tick)
			conn->progress_at_ms = since_ms = now_ms;
		conn->unwritten_at_tick = unwritten;
		timeout_ms = options->write_timeout_ms;
	} else if (conn->in_reserve && conn->state == CONN_OPEN) {
		since_ms = conn->opened_at_ms;
		timeout_ms = NET_RESERVE_MS;
		if (now_ms - since_ms >= timeout_ms)
			net_conn_count_rejection(conn);
	} else if (conn->pending_count > 0 || conn->has_backlog) {
		if (conn_waits_for_answer(conn) && conn->paused && net_conn_peer_has_left(conn))
			conn_kill(conn);
		conn->partial_since_ms = now_ms;
		return;
	} else if (conn->partial_request) {
		since_ms = conn->partial_since_ms;
		timeout_ms = options->request_timeout_ms;
	} else if (conn->input.len > 0 || filter_has_partial(conn->filter)) {
		since_ms = conn->request_since_ms;
		timeout_ms = options->request_timeout_ms;
	} else {
		is_idle = true;
	}
	if (timeout_ms == 0 || now_ms - since_ms < timeout_ms)
		return;
	if (is_idle && conn_append_last_output(conn))
		net_conn_finish(conn);
	else
		conn_fail(conn, conn->state == CONN_LINGERING ? 0 : UV_ETIMEDOUT);
}
