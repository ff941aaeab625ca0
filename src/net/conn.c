#include "net/internal.h"

#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/number.h"

/* While answers are to come and no input is wanted, so much is read to see the peer's end. */
#define AHEAD_MAX READ_MIN

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf);
static void on_read(uv_stream_t *stream, ssize_t nread, const uv_buf_t *buf);

static bool had_its_share(const struct net_conn *conn)
{
	return conn->round == conn->loop->round;
}

static void set_paused(struct net_conn *conn, bool pause)
{
	if (conn->paused == pause || conn->eof)
		return;
	conn->paused = pause;
	if (pause)
		uv_read_stop((uv_stream_t *)&conn->tcp);
	else if (uv_read_start((uv_stream_t *)&conn->tcp, on_alloc, on_read))
		conn_kill(conn);
}

/* Its owner takes no input now. */
static bool must_wait(const struct net_conn *conn)
{
	return conn->yielded || conn->put_off || (net_conn_room(conn) == 0 && !conn->is_dialled);
}

/* How much is read of it at once. Answers to many may come over a connection of our own. */
static size_t read_max(const struct net_conn *conn)
{
	return conn->is_dialled ? READ_MAX : net_loop_share(conn->loop, READ_MAX);
}

/*
 * Whether reading must pause, since input would only pile up. A connection that is held or put off
 * is read while it sends little, so that its owner sees the end of the peer, and what the peer
 * cancels.
 */
static bool should_pause(const struct net_conn *conn)
{
	if (filter_greets(conn->filter))
		return conn->queued >= NET_OUT_MAX;
	if (!conn->kept && (net_conn_room(conn) > 0 || conn->is_dialled))
		return false;
	return (conn->held == 0 && !conn->put_off) || conn->in.len >= AHEAD_MAX ||
	       conn_unread(conn) >= NET_OUT_MAX;
}

/* Hands over all input that is unconsumed; returns how many bytes are consumed now. */
static size_t deliver(struct net_conn *conn, struct slice bytes)
{
	struct net_loop *loop = conn->loop;
	size_t consumed;

	round_hand_over(loop);
	consumed = conn->kind->data(loop->context, conn, bytes);
	conn->round = loop->round;
	loop->spent += consumed;
	conn->kept = conn->state == CONN_OPEN && consumed < bytes.len && must_wait(conn);
	if (consumed > 0)
		conn->since_ms = conn_now_ms(conn);
	conn_touch(conn);
	return consumed;
}

static void deliver_kept(struct net_conn *conn)
{
	struct buffer *in = &conn->in;

	conn->taken += deliver(conn, (struct slice){in->data + conn->taken, in->len - conn->taken});
	if (conn->state != CONN_OPEN)
		in->len = conn->taken;
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

/* A long request costs much, and many may come at once: hand it over in a later round. */
static void deliver_grown(struct net_conn *conn)
{
	if (conn->in.len > READ_MIN && net_loop_is_busy(conn->loop)) {
		conn->kept = true;
		net_conn_yield(conn);
	} else {
		deliver_kept(conn);
	}
}

static void deliver_filtered(struct net_conn *conn, struct slice bytes)
{
	size_t before = conn->in.len;

	if (before == 0 && conn->filter->state == NET_FILTER_READY)
		conn->since_ms = conn_now_ms(conn);
	conn->round = conn->loop->round;
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
	size_t room;

	(void)suggested;
	*buf = uv_buf_init(NULL, 0);
	/* It is read again in the next round: what was handed over in this one must not move. */
	if (had_its_share(conn))
		return;
	if (conn->in.len == 0 || conn->filter || conn->state != CONN_OPEN) {
		room = u64_min(SCRATCH_SIZE - loop->scratch_used,
		               must_wait(conn) ? AHEAD_MAX : read_max(conn));
		if (conn->filter)
			room = u64_min(room, sat_sub(loop->options.input_max, conn->in.len));
		*buf = uv_buf_init(loop->scratch + loop->scratch_used, (unsigned)room);
		return;
	}
	/* No room left: libuv reports UV_ENOBUFS to on_read, which ends the connection. */
	room = loop->options.input_max - conn->in.len;
	if (room > READ_MIN && room > conn->in.len)
		room = conn->in.len > READ_MIN ? conn->in.len : READ_MIN;
	room = u64_min(room, u64_max(read_max(conn), READ_MIN));
	*buf = uv_buf_init(room ? buffer_reserve(&conn->in, room) : NULL, 0);
	if (buf->base)
		buf->len = room;
}

static void on_read(uv_stream_t *stream, ssize_t nread, const uv_buf_t *buf)
{
	struct net_conn *conn = (struct net_conn *)stream;

	if (nread == 0 || conn->state == CONN_DEAD || (nread == UV_ENOBUFS && had_its_share(conn)))
		return;
	if (nread == UV_EOF) {
		conn_end_input(conn);
		return;
	}
	if (nread < 0) {
		conn_fail(conn, (int)nread);
		return;
	}
	if (conn->state != CONN_OPEN && !(conn->state == CONN_FINISHING && filter_greets(conn->filter)))
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
	if (conn->kept) /* before further input fills `in` up */
		set_paused(conn, should_pause(conn));
	if (SCRATCH_SIZE - conn->loop->scratch_used < SCRATCH_LOW)
		loop_turn(conn->loop);
}

void conn_start(struct net_conn *conn)
{
	conn->state = CONN_OPEN;
	conn->kind->open(conn->loop->context, conn);
	if (conn->filter && conn->state != CONN_DEAD)
		filter_read(conn, (struct slice){NULL, 0});
	if (conn->state != CONN_DEAD && uv_read_start((uv_stream_t *)&conn->tcp, on_alloc, on_read))
		conn_kill(conn);
}

void conn_open(struct net_loop *loop, const struct net_kind *kind, int fd, const struct ip *peer,
               bool reserved)
{
	struct net_conn *conn = conn_make(loop, kind), *oldest;

	if (!conn) {
		loop->owner->trouble(loop->context, "can't take a connection", "out of memory");
		gate_give_back(loop, reserved);
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

static void linger(struct net_conn *conn)
{
	int fd;

	if (conn->filter)
		filter_write(conn, (struct slice){NULL, 0});
	if (conn->state == CONN_DEAD || conn_is_unsent(conn))
		return;
	if (conn->eof || uv_fileno((uv_handle_t *)&conn->tcp, &fd) || shutdown(fd, SHUT_WR)) {
		conn_kill(conn);
		return;
	}
	conn->state = CONN_LINGERING;
	conn->since_ms = conn_now_ms(conn);
	set_paused(conn, false);
}

/* Pauses, resumes, ends or closes it, as its state asks for. Not before the turn has answered. */
static void update(struct net_conn *conn)
{
	if (conn->eof && (conn_waits_for_answer(conn) || filter_greets(conn->filter))) {
		conn_kill(conn);
		return;
	}
	if (conn->state == CONN_OPEN && conn->eof && !conn->kept)
		conn->state = CONN_FINISHING;
	if (conn->state == CONN_FINISHING && !conn_is_unsent(conn) && conn->held == 0)
		linger(conn);
	else if (conn->state == CONN_LINGERING && conn->eof)
		conn_kill(conn);
	else if (conn->state == CONN_OPEN)
		set_paused(conn, should_pause(conn));
	if (conn->kept && !must_wait(conn))
		round_add_ready(conn);
}

/* A connection that keeps some of its input again goes to the end, when the turn is over. */
void conn_resume_all(struct net_loop *loop)
{
	struct net_conn *conn;

	while ((conn = list_of(loop->ready.first, struct net_conn, ready)) &&
	       loop->spent < ROUND_MAX) {
		round_remove_ready(conn);
		if (conn->kept && !must_wait(conn))
			deliver_kept(conn);
	}
}

/* After a turn: drops the input that was answered, and updates the connection. */
static void settle(struct net_conn *conn)
{
	if (conn->taken > 0)
		buffer_consume(&conn->in, conn->taken);
	conn->taken = conn->written = 0;
	conn->yielded = false;
	if (conn->in.len == 0)
		buffer_free(&conn->in);
	else if (conn->held > 0 && conn->kept)
		buffer_trim(&conn->in);
	if (conn->state != CONN_DEAD)
		update(conn);
}

void loop_turn(struct net_loop *loop)
{
	struct net_conn *conn;

	loop->again = false;
	loop->owner->turn(loop->context);
	net_loop_flush(loop);
	while ((conn = loop->touched)) {
		loop->touched = conn->next_touched;
		conn->touched = false;
		settle(conn);
	}
	loop->scratch_used = 0;
}

void net_conn_yield(struct net_conn *conn)
{
	conn->yielded = true;
	conn_touch(conn);
}

void net_conn_put_off(struct net_conn *conn, unsigned char reason, bool put_off)
{
	conn->put_off = (unsigned char)(put_off ? conn->put_off | reason : conn->put_off & ~reason);
	conn_touch(conn);
}

void net_conn_part(struct net_conn *conn, uint64_t part)
{
	if (part != conn->part)
		conn->part_ms = conn_now_ms(conn);
	conn->part = part;
}

void net_conn_hold(struct net_conn *conn, size_t bytes)
{
	conn->held++;
	conn->held_bytes += bytes;
	conn->loop->held_bytes += bytes;
	conn->loop->spent += bytes;
	conn_touch(conn);
}

void net_conn_grow(struct net_conn *conn, size_t bytes)
{
	conn->held_bytes += bytes;
	conn->loop->held_bytes += bytes;
}

/* The timeouts count as if its later input had come now. */
void net_conn_release(struct net_conn *conn, size_t bytes)
{
	conn->held--;
	conn->held_bytes -= bytes;
	conn->loop->held_bytes -= bytes;
	conn->since_ms = conn->active_ms = conn_now_ms(conn);
	conn_touch(conn);
}

/* The kernel knows whether the peer has ended, even behind input that was not read. */
bool net_conn_is_gone(const struct net_conn *conn)
{
	struct pollfd ended = {.events = POLLRDHUP};

	if (conn->eof || conn->state == CONN_DEAD)
		return true;
	return uv_fileno((const uv_handle_t *)&conn->tcp, &ended.fd) == 0 && poll(&ended, 1, 0) > 0;
}

bool conn_is_idle(const struct net_conn *conn)
{
	return conn->held == 0 && !conn_is_unsent(conn) &&
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

bool net_conn_account(struct net_conn *conn, uint64_t *user)
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
