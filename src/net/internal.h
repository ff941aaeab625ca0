/* internal.h: what loop.c, listen.c and conn.c share. */
#ifndef NET_INTERNAL_H
#define NET_INTERNAL_H

#include <stdalign.h>
#include <uv.h>

#include "net/net.h"

/* How often timeouts are looked at: one timer a loop, none per connection. */
#define TICK_MS 500

/*
 * Bytes are read into `scratch`, one connection after the other, and stay until
 * the turn has answered them. When less than SCRATCH_LOW is left the turn is
 * taken early.
 */
#define SCRATCH_SIZE ((size_t)256 << 10)
#define SCRATCH_LOW  ((size_t)16 << 10)
#define READ_MAX     ((size_t)64 << 10)

struct listen_handle {
	uv_poll_t poll;
	struct net_loop *loop;
	struct net_listener listener;
	struct listen_handle *next;
};

struct net_loop {
	uv_loop_t uv;
	uv_check_t check;
	int wake_fd;
	uv_poll_t wake;
	int alarm_fd;
	uv_poll_t alarm;
	uint64_t alarm_ns; /* when; 0: never */
	uv_timer_t tick;
	struct net_options options;
	const struct net_owner *owner;
	void *context;
	struct net_gate *gate;
	struct listen_handle *listeners;
	bool accepting; /* false: listeners rest until the next tick, or for good */
	struct net_conn *conns;
	struct net_conn *touched; /* those that this turn has to settle */
	struct net_conn *ready;   /* whose kept input is handed over when the loop is woken */
	struct net_conn *writing; /* whose replies are in `out` */
	struct buffer out;
	_Atomic bool stop;
	enum { LOOP_RUNNING, LOOP_STOPPING, LOOP_DRAINING, LOOP_ENDED } phase;
	uint64_t stop_at_ms;
	size_t scratch_used;
	alignas(max_align_t) char scratch[SCRATCH_SIZE];
};

enum conn_state {
	CONN_OPEN,
	CONN_FINISHING, /* no more requests; replies may still come */
	CONN_LINGERING, /* our side is shut; input is read and dropped, see conn_linger */
	CONN_DEAD,      /* closing; its memory lasts until the turn is over */
};

struct net_conn {
	uv_tcp_t tcp;
	struct net_loop *loop;
	const struct net_listener *listener;
	struct net_conn *next, **link; /* all of the loop */
	struct net_conn *next_touched;
	struct net_conn *next_ready, **ready_link; /* NULL: not among them */
	bool touched;
	bool eof;    /* the peer has sent its last byte */
	bool paused; /* not read, for its output waits, or `in` is full */
	bool held;   /* its owner's answer comes later */
	bool kept;   /* `in` waits for output to drain or an answer to come, not for more input */
	enum conn_state state;
	struct ip peer;
	/*
	 * Unconsumed bytes. The first `taken` of them are consumed, but this turn's
	 * requests point to them: `in` does not grow while there are any.
	 */
	struct buffer in;
	size_t taken;
	size_t queued;      /* bytes that wait for the peer to read */
	size_t written;     /* in this turn, to the peer or to what is queued */
	size_t left;        /* of `queued` when it was last looked at */
	uint64_t since_ms;  /* the unfinished request's first byte */
	uint64_t active_ms; /* the last byte in or out */
	alignas(max_align_t) unsigned char data[];
};

/** Takes over `fd`, accepted by `listener`. */
void conn_open(struct net_loop *loop, const struct net_listener *listener, int fd,
               const struct ip *peer);
void conn_kill(struct net_conn *conn);
/** Hands over what the connections that are ready now have kept back. */
void conn_resume_all(struct net_loop *loop);
/** After a turn: forgets what it answered, ends or pauses what is to end or pause. */
void conn_settle(struct net_conn *conn);
/** Closes a connection that exceeds a timeout. */
void conn_tick(struct net_conn *conn, uint64_t now_ms);
/** Nothing of it is unanswered or unwritten. */
bool conn_is_idle(const struct net_conn *conn);

void loop_turn(struct net_loop *loop);
void loop_pause_accepting(struct net_loop *loop);

void listen_start(struct listen_handle *handle);
/** Accepts what the kernel has already accepted for us, then closes. */
void listen_end(struct listen_handle *handle);

#endif
