/*
 * conn.c: reads the sockets of an event loop's connections, and hands the input to the owner of the
 * loop. The owner answers all input of a *batch* together. After each batch this file decides for
 * each connection whether to read on, to pause or to close it.
 */
#include "net/internal.h"

#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/number.h"

/* While the owner accepts no input, this much is still read ahead, to notice the peer's end. */
#define READ_AHEAD_MAX READ_MIN

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf);
static void on_socket_read(uv_stream_t *stream, ssize_t nread, const uv_buf_t *buf);

static bool was_read_in_this_iteration(const struct net_conn *conn)
{
	return conn->read_in_iteration == conn->loop->iteration;
}

static void pause_or_resume_reading(struct net_conn *conn, bool pause)
{
	if (conn->paused == pause || conn->eof)
		return;
	conn->paused = pause;
	if (pause)
		uv_read_stop((uv_stream_t *)&conn->tcp);
	else if (uv_read_start((uv_stream_t *)&conn->tcp, on_alloc, on_socket_read))
		conn_kill(conn);
}

static bool owner_accepts_input(const struct net_conn *conn)
{
	bool has_output_space = net_conn_output_space(conn) > 0 || conn->is_dialled;

	return !conn->yielded && !conn->suspend_reasons && has_output_space;
}

/* Dialled connections may read in full, because they carry answers for many clients. */
static size_t longest_read(const struct net_conn *conn)
{
	return conn->is_dialled ? READ_MAX : net_loop_share(conn->loop, READ_MAX);
}

/*
 * Whether reading must pause, because the owner can't use the input yet. A connection that has a
 * pending answer, or is suspended, is still read as long as it sends little, so that the owner
 * notices when the peer ends, or cancels a request.
 */
static bool should_pause(const struct net_conn *conn)
{
	bool has_output_space = net_conn_output_space(conn) > 0 || conn->is_dialled;
	bool reads_ahead = conn->pending_count > 0 || conn->suspend_reasons;

	if (filter_is_handshaking(conn->filter))
		return conn->queued_bytes >= NET_OUT_MAX;
	if (!conn->has_backlog && has_output_space)
		return false;
	return !reads_ahead || conn->input.len >= READ_AHEAD_MAX ||
	       conn_unread_output(conn) >= NET_OUT_MAX;
}

/*
 * Hands input to the owner. Returns how many bytes the owner has consumed. If the owner accepts
 * input and still leaves some, that is the beginning of a request and no backlog: it waits for the
 * request's other bytes.
 */
static size_t deliver(struct net_conn *conn, struct slice bytes)
{
	struct net_loop *loop = conn->loop;
	size_t consumed;

	fairness_count_delivery(loop);
	consumed = conn->kind->data(loop->context, conn, bytes);
	conn->read_in_iteration = loop->iteration;
	loop->iteration_bytes += consumed;
	conn->has_backlog =
	    conn->state == CONN_OPEN && consumed < bytes.len && !owner_accepts_input(conn);
	if (consumed > 0)
		conn->request_since_ms = conn_now_ms(conn);
	conn_schedule_update(conn);
	return consumed;
}

/* Hands over the input that an earlier call has left unconsumed, with any that arrived since. */
static void deliver_buffered(struct net_conn *conn)
{
	struct buffer *input = &conn->input;
	struct slice input_left = {input->data + conn->consumed_bytes,
	                           input->len - conn->consumed_bytes};

	conn->consumed_bytes += deliver(conn, input_left);
	if (conn->state != CONN_OPEN) /* no more input is wanted */
		input->len = conn->consumed_bytes;
}

/* Hands over what was just read into the loop's scratch; buffers what the owner leaves of it. */
static void deliver_scratch(struct net_conn *conn, const char *data, size_t len)
{
	struct net_loop *loop = conn->loop;
	size_t consumed;

	conn->request_since_ms = conn_now_ms(conn);
	consumed = deliver(conn, (struct slice){data, len});
	loop->scratch_used += consumed;
	if (conn->state == CONN_OPEN && consumed < len)
		buffer_add(&conn->input, data + consumed, len - consumed);
	if (conn->input.failed)
		conn_kill(conn);
}

/*
 * Hands over buffered input, to which a read has added. On a busy loop a long request is left for a
 * later iteration, because many long requests may arrive at once.
 */
static void deliver_buffered_unless_busy(struct net_conn *conn)
{
	if (conn->input.len > READ_MIN && net_loop_is_busy(conn->loop)) {
		conn->has_backlog = true;
		net_conn_yield(conn);
	} else {
		deliver_buffered(conn);
	}
}

/* Decrypts (or otherwise filters) what was read, and hands it over. */
static void deliver_filtered(struct net_conn *conn, struct slice bytes)
{
	size_t len_before = conn->input.len;

	if (len_before == 0 && conn->filter->state == NET_FILTER_READY)
		conn->request_since_ms = conn_now_ms(conn);
	conn->read_in_iteration = conn->loop->iteration;
	filter_read(conn, bytes);
	if (conn->input.failed)
		conn_fail(conn, UV_ENOBUFS);
	if (conn->state == CONN_OPEN && conn->input.len > len_before)
		deliver_buffered_unless_busy(conn);
}

/* The loop's scratch is memory for input that the owner most likely consumes in this batch. */
static uv_buf_t space_in_scratch(const struct net_conn *conn)
{
	struct net_loop *loop = conn->loop;
	size_t space = u64_min(SCRATCH_SIZE - loop->scratch_used,
	                       owner_accepts_input(conn) ? longest_read(conn) : READ_AHEAD_MAX);

	if (conn->filter)
		space = u64_min(space, sat_sub(loop->options.input_max, conn->input.len));
	return uv_buf_init(loop->scratch + loop->scratch_used, (unsigned)space);
}

/*
 * A long request is read behind its beginning, which is buffered: as much again as is there, so
 * that the buffer doubles. Without space libuv reports UV_ENOBUFS to on_socket_read, which ends
 * the connection.
 */
static uv_buf_t space_behind_input(struct net_conn *conn)
{
	size_t space = conn->loop->options.input_max - conn->input.len;
	char *base;

	space = u64_min(space, u64_max(conn->input.len, READ_MIN));
	space = u64_min(space, u64_max(longest_read(conn), READ_MIN));
	base = space ? buffer_reserve(&conn->input, space) : NULL;
	return uv_buf_init(base, base ? (unsigned)space : 0);
}

/* Gives libuv the memory for its next read of the socket. */
static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
	struct net_conn *conn = (struct net_conn *)handle;

	(void)suggested;
	if (was_read_in_this_iteration(conn)) /* no space: the input of this batch must not move */
		*buf = uv_buf_init(NULL, 0);
	else if (conn->input.len == 0 || conn->filter || conn->state != CONN_OPEN)
		*buf = space_in_scratch(conn);
	else
		*buf = space_behind_input(conn);
}

/* Hands over `len` bytes that libuv has read to the space of on_alloc. */
static void deliver_read(struct net_conn *conn, char *data, size_t len)
{
	if (conn->filter) {
		deliver_filtered(conn, (struct slice){data, len});
	} else if (conn->input.len > 0) {
		conn->input.len += len;
		deliver_buffered_unless_busy(conn);
	} else {
		deliver_scratch(conn, data, len);
	}
}

/*
 * libuv has read `nread` bytes to the space of on_alloc, or reports an error below 0. A read
 * without space fails with UV_ENOBUFS; it is repeated in a later iteration.
 */
static void on_socket_read(uv_stream_t *stream, ssize_t nread, const uv_buf_t *buf)
{
	struct net_conn *conn = (struct net_conn *)stream;
	/* The last output of a finishing connection can be sent only after its handshake. */
	bool wants_input = conn->state == CONN_OPEN ||
	                   (conn->state == CONN_FINISHING && filter_is_handshaking(conn->filter));

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
	if (!wants_input)
		return;
	if (conn->queued_bytes == 0) /* otherwise only writing the queued output is progress */
		conn->progress_at_ms = conn_now_ms(conn);
	deliver_read(conn, buf->base, (size_t)nread);
	if (conn->has_backlog) /* pause before more input fills the buffer */
		pause_or_resume_reading(conn, should_pause(conn));
	if (SCRATCH_SIZE - conn->loop->scratch_used < SCRATCH_LOW)
		loop_process(conn->loop);
}

/* Calls the owner's `open`, begins the filter's handshake, and reads the socket from now on. */
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

/*
 * Takes over an accepted socket. `in_reserve`: the connection exceeds the limit of connections, and
 * replaces the oldest of those that do if there are too many.
 */
void conn_open(struct net_loop *loop, const struct net_kind *kind, int fd, const struct ip *peer,
               bool in_reserve)
{
	struct net_conn *conn = conn_create(loop, kind), *oldest;

	if (!conn) {
		loop->owner->warn(loop->context, "can't accept a connection", "out of memory");
		conn_limit_release(loop, in_reserve);
		close(fd);
		return;
	}
	conn->peer = *peer;
	conn->in_reserve = in_reserve;
	oldest = in_reserve ? reserve_add(conn) : NULL;
	if (oldest)
		conn_kill(oldest);
	if (uv_tcp_open(&conn->tcp, fd))
		close(fd); /* conn_start can't read without a socket, and kills the connection */
	conn_start(conn);
}

/*
 * Ends our side of the connection, but reads and drops input for a while (LINGER_MS in timeout.c):
 * a socket closed with unread input is reset by TCP, and the peer might lose the last reply. While
 * output is unsent, nothing happens: the connection is updated again when it is written.
 */
static void linger(struct net_conn *conn)
{
	const struct slice end_of_output = {NULL, 0};
	int fd;

	if (conn->filter)
		filter_write(conn, end_of_output);
	if (conn->state == CONN_DEAD || conn_has_unsent(conn))
		return;
	if (conn->eof || uv_fileno((uv_handle_t *)&conn->tcp, &fd) || shutdown(fd, SHUT_WR)) {
		conn_kill(conn);
		return;
	}
	conn->state = CONN_LINGERING;
	conn->request_since_ms = conn_now_ms(conn);
	pause_or_resume_reading(conn, false);
}

/* Pauses, resumes, ends or closes a connection by its state, once the batch is answered. */
static void update_state(struct net_conn *conn)
{
	if (conn->eof && (conn_waits_for_answer(conn) || filter_is_handshaking(conn->filter))) {
		conn_kill(conn);
		return;
	}
	if (conn->state == CONN_OPEN && conn->eof && !conn->has_backlog)
		conn->state = CONN_FINISHING;
	if (conn->state == CONN_FINISHING && !conn_has_unsent(conn) && conn->pending_count == 0)
		linger(conn);
	else if (conn->state == CONN_LINGERING && conn->eof)
		conn_kill(conn);
	else if (conn->state == CONN_OPEN)
		pause_or_resume_reading(conn, should_pause(conn));
	if (conn->has_backlog && owner_accepts_input(conn))
		backlogs_add(conn);
}

/*
 * Hands over input that earlier iterations have left. A connection that still has some afterwards
 * goes to the end of the queue when the batch is over.
 */
void deliver_backlogs(struct net_loop *loop)
{
	struct net_conn *conn;

	while ((conn = list_of(loop->backlogs.first, struct net_conn, backlog_node)) &&
	       loop->iteration_bytes < ITERATION_BYTES_MAX) {
		backlogs_remove(conn);
		if (conn->has_backlog && owner_accepts_input(conn))
			deliver_buffered(conn);
	}
}

/* Drops the input that the owner has consumed, and updates the connection. */
static void finish_batch_of(struct net_conn *conn)
{
	if (conn->consumed_bytes > 0)
		buffer_consume(&conn->input, conn->consumed_bytes);
	conn->consumed_bytes = conn->batch_written_bytes = 0;
	conn->yielded = false;
	if (conn->input.len == 0)
		buffer_free(&conn->input);
	else if (conn->pending_count > 0 && conn->has_backlog)
		buffer_trim(&conn->input);
	if (conn->state != CONN_DEAD)
		update_state(conn);
}

/* Ends the batch: the owner answers it, the answers are written, and connections are updated. */
void loop_process(struct net_loop *loop)
{
	struct net_conn *conn;

	loop->wants_run_again = false;
	loop->owner->process(loop->context);
	net_loop_flush(loop);
	while ((conn = loop->first_to_update)) {
		loop->first_to_update = conn->next_to_update;
		conn->has_update_scheduled = false;
		finish_batch_of(conn);
	}
	loop->scratch_used = 0; /* the input of this batch is no longer used */
}

/* The owner accepts no more of this connection's input in this batch. */
void net_conn_yield(struct net_conn *conn)
{
	conn->yielded = true;
	conn_schedule_update(conn);
}

/* Sets or clears one of the reasons, a bit each, for which the owner accepts no input. */
void net_conn_suspend(struct net_conn *conn, unsigned char reason, bool suspend)
{
	unsigned others = conn->suspend_reasons & ~(unsigned)reason;

	conn->suspend_reasons = (unsigned char)(suspend ? others | reason : others);
	conn_schedule_update(conn);
}

/* `request` is the owner's number of a request of which it has only the beginning; 0 if none. */
void net_conn_set_partial(struct net_conn *conn, uint64_t request)
{
	if (request != conn->partial_request)
		conn->partial_since_ms = conn_now_ms(conn);
	conn->partial_request = request;
}

/* Counts an answer that a later iteration will give, and the memory that it needs until then. */
void net_conn_add_pending(struct net_conn *conn, size_t bytes)
{
	conn->pending_count++;
	conn->pending_bytes += bytes;
	conn->loop->pending_bytes += bytes;
	conn->loop->iteration_bytes += bytes;
	conn_schedule_update(conn);
}

void net_conn_grow_pending(struct net_conn *conn, size_t bytes)
{
	conn->pending_bytes += bytes;
	conn->loop->pending_bytes += bytes;
}

/* Also restarts the timeouts, as if the input behind the answered request had arrived now. */
void net_conn_remove_pending(struct net_conn *conn, size_t bytes)
{
	conn->pending_count--;
	conn->pending_bytes -= bytes;
	conn->loop->pending_bytes -= bytes;
	conn->request_since_ms = conn->progress_at_ms = conn_now_ms(conn);
	conn_schedule_update(conn);
}

/* Asks the kernel, which knows the end of the peer even behind input that was not read. */
bool net_conn_peer_has_left(const struct net_conn *conn)
{
	struct pollfd peer_end = {.events = POLLRDHUP};

	if (conn->eof || conn->state == CONN_DEAD)
		return true;
	return uv_fileno((const uv_handle_t *)&conn->tcp, &peer_end.fd) == 0 &&
	       poll(&peer_end, 1, 0) > 0;
}

bool conn_is_idle(const struct net_conn *conn)
{
	return conn->pending_count == 0 && !conn_has_unsent(conn) &&
	       (conn->input.len == 0 || conn->state != CONN_OPEN);
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

/* Returns false, and leaves *user, unless the connection is a Unix socket. */
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
