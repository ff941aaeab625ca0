/* conn.c: hands the input of connections to their owner, and updates them after each batch. */
#include "net/internal.h"

#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/number.h"

/* Bytes read while an answer is pending and no input is accepted, to notice the peer's end. */
#define AHEAD_MAX READ_MIN

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf);
static void on_socket_read(uv_stream_t *stream, ssize_t nread, const uv_buf_t *buf);

static bool was_read_in_this_iteration(const struct net_conn *conn)
{
	return conn->last_iteration == conn->loop->iteration;
}

static void set_paused(struct net_conn *conn, bool pause)
{
	if (conn->paused == pause || conn->eof)
		return;
	conn->paused = pause;
	if (pause)
		uv_read_stop((uv_stream_t *)&conn->tcp);
	else if (uv_read_start((uv_stream_t *)&conn->tcp, on_alloc, on_socket_read))
		conn_kill(conn);
}

/* Whether the owner accepts no input now. */
static bool must_wait(const struct net_conn *conn)
{
	return conn->yielded || conn->suspended ||
	       (net_conn_output_space(conn) == 0 && !conn->is_dialled);
}

/* The longest read. Dialled connections read in full, because they carry answers for many clients.
 */
static size_t read_max(const struct net_conn *conn)
{
	return conn->is_dialled ? READ_MAX : net_loop_share(conn->loop, READ_MAX);
}

/*
 * Whether reading must pause, because input would only pile up. A connection with a pending answer
 * or a suspended one is read while it sends little, so that its owner notices the end of the peer
 * and requests that the peer cancels.
 */
static bool should_pause(const struct net_conn *conn)
{
	if (filter_is_handshaking(conn->filter))
		return conn->queued >= NET_OUT_MAX;
	if (!conn->backlogged && (net_conn_output_space(conn) > 0 || conn->is_dialled))
		return false;
	return (conn->pending == 0 && !conn->suspended) || conn->in.len >= AHEAD_MAX ||
	       conn_unread_output(conn) >= NET_OUT_MAX;
}

/* Hands over all unconsumed input; returns how many bytes are consumed now. */
static size_t deliver(struct net_conn *conn, struct slice bytes)
{
	struct net_loop *loop = conn->loop;
	size_t consumed;

	fairness_count_delivery(loop);
	consumed = conn->kind->data(loop->context, conn, bytes);
	conn->last_iteration = loop->iteration;
	loop->spent += consumed;
	conn->backlogged = conn->state == CONN_OPEN && consumed < bytes.len && must_wait(conn);
	if (consumed > 0)
		conn->since_ms = conn_now_ms(conn);
	conn_schedule_update(conn);
	return consumed;
}

static void deliver_backlog(struct net_conn *conn)
{
	struct buffer *in = &conn->in;

	conn->consumed +=
	    deliver(conn, (struct slice){in->data + conn->consumed, in->len - conn->consumed});
	if (conn->state != CONN_OPEN)
		in->len = conn->consumed;
}

static void deliver_fresh(struct net_conn *conn, const char *data, size_t len)
{
	struct net_loop *loop = conn->loop;
	size_t consumed;

	conn->since_ms = conn_now_ms(conn);
	consumed = deliver(conn, (struct slice){data, len});
	loop->scratch_used += consumed;
	if (conn->state == CONN_OPEN && consumed < len)
		buffer_add(&conn->in, data + consumed, len - consumed);
	if (conn->in.failed)
		conn_kill(conn);
}

/* On a busy loop a long request waits for a later iteration: many of them may arrive at once. */
static void deliver_grown(struct net_conn *conn)
{
	if (conn->in.len > READ_MIN && net_loop_is_busy(conn->loop)) {
		conn->backlogged = true;
		net_conn_yield(conn);
	} else {
		deliver_backlog(conn);
	}
}

static void deliver_filtered(struct net_conn *conn, struct slice bytes)
{
	size_t before = conn->in.len;

	if (before == 0 && conn->filter->state == NET_FILTER_READY)
		conn->since_ms = conn_now_ms(conn);
	conn->last_iteration = conn->loop->iteration;
	filter_read(conn, bytes);
	if (conn->in.failed)
		conn_fail(conn, UV_ENOBUFS);
	if (conn->state == CONN_OPEN && conn->in.len > before)
		deliver_grown(conn);
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
	struct net_conn *conn = (struct net_conn *)handle;
	struct net_loop *loop = conn->loop;
	size_t space;

	(void)suggested;
	*buf = uv_buf_init(NULL, 0);
	/* Read it again in the next iteration: the input of this batch must not move. */
	if (was_read_in_this_iteration(conn))
		return;
	if (conn->in.len == 0 || conn->filter || conn->state != CONN_OPEN) {
		space = u64_min(SCRATCH_SIZE - loop->scratch_used,
		                must_wait(conn) ? AHEAD_MAX : read_max(conn));
		if (conn->filter)
			space = u64_min(space, sat_sub(loop->options.input_max, conn->in.len));
		*buf = uv_buf_init(loop->scratch + loop->scratch_used, (unsigned)space);
		return;
	}
	/* Without space libuv reports UV_ENOBUFS to on_socket_read, which ends the connection. */
	space = loop->options.input_max - conn->in.len;
	if (space > READ_MIN && space > conn->in.len)
		space = conn->in.len > READ_MIN ? conn->in.len : READ_MIN;
	space = u64_min(space, u64_max(read_max(conn), READ_MIN));
	*buf = uv_buf_init(space ? buffer_reserve(&conn->in, space) : NULL, 0);
	if (buf->base)
		buf->len = space;
}

static void on_socket_read(uv_stream_t *stream, ssize_t nread, const uv_buf_t *buf)
{
	struct net_conn *conn = (struct net_conn *)stream;

	if (nread == 0 || conn->state == CONN_DEAD ||
	    (nread == UV_ENOBUFS && was_read_in_this_iteration(conn)))
		return;
	if (nread == UV_EOF) {
		conn_end_input(conn);
		return;
	}
	if (nread < 0) {
		conn_fail(conn, (int)nread);
		return;
	}
	if (conn->state != CONN_OPEN &&
	    !(conn->state == CONN_FINISHING && filter_is_handshaking(conn->filter)))
		return;
	if (conn->queued == 0)
		conn->active_ms = conn_now_ms(conn);
	if (conn->filter) {
		deliver_filtered(conn, (struct slice){buf->base, (size_t)nread});
	} else if (conn->in.len > 0) {
		conn->in.len += (size_t)nread;
		deliver_grown(conn);
	} else {
		deliver_fresh(conn, buf->base, (size_t)nread);
	}
	if (conn->backlogged) /* pause before more input fills `in` up */
		set_paused(conn, should_pause(conn));
	if (SCRATCH_SIZE - conn->loop->scratch_used < SCRATCH_LOW)
		loop_process(conn->loop);
}

void conn_start(struct net_conn *conn)
{
	conn->state = CONN_OPEN;
	conn->kind->open(conn->loop->context, conn);
	if (conn->filter && conn->state != CONN_DEAD)
		filter_read(conn, (struct slice){NULL, 0});
	if (conn->state != CONN_DEAD &&
	    uv_read_start((uv_stream_t *)&conn->tcp, on_alloc, on_socket_read))
		conn_kill(conn);
}

void conn_open(struct net_loop *loop, const struct net_kind *kind, int fd, const struct ip *peer,
               bool reserved)
{
	struct net_conn *conn = conn_create(loop, kind), *oldest;

	if (!conn) {
		loop->owner->warn(loop->context, "can't accept a connection", "out of memory");
		conn_limit_release(loop, reserved);
		close(fd);
		return;
	}
	conn->peer = *peer;
	conn->reserved = reserved;
	oldest = reserved ? reserve_add(conn) : NULL;
	if (oldest)
		conn_kill(oldest);
	if (uv_tcp_open(&conn->tcp, fd))
		close(fd);
	conn_start(conn);
}

/* Ends our side; the input is still read for a while, see LINGER_MS in timeout.c. */
static void linger(struct net_conn *conn)
{
	int fd;

	if (conn->filter)
		filter_write(conn, (struct slice){NULL, 0});
	if (conn->state == CONN_DEAD || conn_has_unsent(conn))
		return;
	if (conn->eof || uv_fileno((uv_handle_t *)&conn->tcp, &fd) || shutdown(fd, SHUT_WR)) {
		conn_kill(conn);
		return;
	}
	conn->state = CONN_LINGERING;
	conn->since_ms = conn_now_ms(conn);
	set_paused(conn, false);
}

/* Pauses, resumes, ends or closes a connection by its state, once the batch is answered. */
static void update_state(struct net_conn *conn)
{
	if (conn->eof && (conn_waits_for_answer(conn) || filter_is_handshaking(conn->filter))) {
		conn_kill(conn);
		return;
	}
	if (conn->state == CONN_OPEN && conn->eof && !conn->backlogged)
		conn->state = CONN_FINISHING;
	if (conn->state == CONN_FINISHING && !conn_has_unsent(conn) && conn->pending == 0)
		linger(conn);
	else if (conn->state == CONN_LINGERING && conn->eof)
		conn_kill(conn);
	else if (conn->state == CONN_OPEN)
		set_paused(conn, should_pause(conn));
	if (conn->backlogged && !must_wait(conn))
		ready_add(conn);
}

/* A connection that still has a backlog goes to the end of the queue when the batch is over. */
void conn_resume_all(struct net_loop *loop)
{
	struct net_conn *conn;

	while ((conn = list_of(loop->ready.first, struct net_conn, ready)) &&
	       loop->spent < ITERATION_BYTES_MAX) {
		ready_remove(conn);
		if (conn->backlogged && !must_wait(conn))
			deliver_backlog(conn);
	}
}

/* Drops the input that was answered, and updates the connection. */
static void finish_batch(struct net_conn *conn)
{
	if (conn->consumed > 0)
		buffer_consume(&conn->in, conn->consumed);
	conn->consumed = conn->written = 0;
	conn->yielded = false;
	if (conn->in.len == 0)
		buffer_free(&conn->in);
	else if (conn->pending > 0 && conn->backlogged)
		buffer_trim(&conn->in);
	if (conn->state != CONN_DEAD)
		update_state(conn);
}

void loop_process(struct net_loop *loop)
{
	struct net_conn *conn;

	loop->run_again = false;
	loop->owner->process(loop->context);
	net_loop_flush(loop);
	while ((conn = loop->to_update)) {
		loop->to_update = conn->next_to_update;
		conn->update_scheduled = false;
		finish_batch(conn);
	}
	loop->scratch_used = 0; /* the input of this batch is no longer used */
}

void net_conn_yield(struct net_conn *conn)
{
	conn->yielded = true;
	conn_schedule_update(conn);
}

void net_conn_suspend(struct net_conn *conn, unsigned char reason, bool suspend)
{
	conn->suspended =
	    (unsigned char)(suspend ? conn->suspended | reason : conn->suspended & ~reason);
	conn_schedule_update(conn);
}

void net_conn_set_partial(struct net_conn *conn, uint64_t part)
{
	if (part != conn->partial)
		conn->partial_since_ms = conn_now_ms(conn);
	conn->partial = part;
}

void net_conn_add_pending(struct net_conn *conn, size_t bytes)
{
	conn->pending++;
	conn->pending_bytes += bytes;
	conn->loop->pending_bytes += bytes;
	conn->loop->spent += bytes;
	conn_schedule_update(conn);
}

void net_conn_grow_pending(struct net_conn *conn, size_t bytes)
{
	conn->pending_bytes += bytes;
	conn->loop->pending_bytes += bytes;
}

/* The timeouts run as if the input behind the answered request had arrived now. */
void net_conn_remove_pending(struct net_conn *conn, size_t bytes)
{
	conn->pending--;
	conn->pending_bytes -= bytes;
	conn->loop->pending_bytes -= bytes;
	conn->since_ms = conn->active_ms = conn_now_ms(conn);
	conn_schedule_update(conn);
}

/* Asks the kernel, which knows the end of the peer even behind input that was not read. */
bool net_conn_peer_has_left(const struct net_conn *conn)
{
	struct pollfd ended = {.events = POLLRDHUP};

	if (conn->eof || conn->state == CONN_DEAD)
		return true;
	return uv_fileno((const uv_handle_t *)&conn->tcp, &ended.fd) == 0 && poll(&ended, 1, 0) > 0;
}

bool conn_is_idle(const struct net_conn *conn)
{
	return conn->pending == 0 && !conn_has_unsent(conn) &&
	       (conn->in.len == 0 || conn->state != CONN_OPEN);
}

void *net_conn_data(struct net_conn *conn)
{
	return conn->data;
}

const void *net_conn_tag(const struct net_conn *conn)
{
	return conn->kind->tag;
}

const struct ip *net_conn_peer(const struct net_conn *conn)
{
	return &conn->peer;
}

void *net_conn_filter(struct net_conn *conn)
{
	return conn->filter ? conn->filter->data : NULL;
}

bool net_conn_peer_uid(struct net_conn *conn, uint64_t *user)
{
	struct ucred peer;
	socklen_t size = sizeof peer, domain_size = sizeof(int);
	int fd, domain;

	if (uv_fileno((uv_handle_t *)&conn->tcp, &fd) != 0 ||
	    getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &domain_size) != 0 || domain != AF_UNIX ||
	    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
		return false;
	*user = peer.uid;
	return true;
}
