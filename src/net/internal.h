/* internal.h: shared by the files of this folder. */
#ifndef NET_INTERNAL_H
#define NET_INTERNAL_H

#include <stdalign.h>
#include <uv.h>

#include "base/list.h"
#include "net/net.h"

/*
 * Bytes are read into `scratch`, one connection after the other, and stay until
 * the turn has answered them. When less than SCRATCH_LOW is left the turn is
 * taken early.
 */
#define SCRATCH_SIZE ((size_t)256 << 10)
#define SCRATCH_LOW  ((size_t)16 << 10)
#define READ_MAX     ((size_t)64 << 10)
#define READ_MIN     ((size_t)4 << 10)
#define ROUND_MAX    ((size_t)512 << 10)

/*
 * Work is shared out in rounds; a round is one pass of libuv's loop. Connections that
 * have kept input come first, oldest first, until ROUND_MAX bytes have gone in and
 * out. Then every connection that is ready is read once, READ_MAX bytes at most. So a
 * client that asks little waits for one such round, whatever the others have sent.
 *
 * A round must not grow with the number of connections that ask for much. The first
 * SHARE_WHOLE of a round may have whole shares. Each time their number doubles, a share
 * is halved, SHARE_HALVINGS times at most; a crowd that is left waiting counts in the
 * next round from its start.
 */
#define SHARE_WHOLE    64
#define SHARE_HALVINGS 6

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
	uint64_t alarm_ns; /* when; 0 means never */
	uv_timer_t tick;
	struct net_options options;
	const struct net_owner *owner;
	void *context;
	struct net_gate *gate;
	struct listen_handle *listeners;
	bool accepting;  /* false while listeners rest: until a connection closes, or the next tick */
	bool may_accept; /* a connection has closed */
	struct list conns;
	struct net_conn *touched; /* to be settled in this turn */
	struct list ready;        /* to be handed their kept input, oldest first */
	uv_idle_t resume;                    /* active while there are some ... */
	uv_idle_cb on_resume;                /* ... and what it calls */
	size_t ready_count;
	uint64_t round;
	size_t handed;                         /* connections handed over in this round */
	unsigned halvings;                     /* by how many halves shares are smaller now */
	size_t spent;                          /* bytes consumed, kept and written in this round */
	size_t held_bytes;                     /* of all connections */
	bool kept;                             /* its owner has something to finish */
	bool again;                            /* its owner asked for another turn at once */
	struct net_conn *reserve[NET_RESERVE]; /* oldest first */
	size_t reserve_count;
	struct net_conn *writing; /* `out` holds its replies */
	struct buffer out;
	struct buffer wire; /* `out` behind a filter; empty between two writes */
	_Atomic bool stop;
	enum { LOOP_RUNNING, LOOP_STOPPING, LOOP_DRAINING, LOOP_ENDED } phase;
	uint64_t stop_at_ms;
	size_t scratch_used;
	alignas(max_align_t) char scratch[SCRATCH_SIZE];
};

enum conn_state {
	CONN_CONNECTING,
	CONN_OPEN,
	CONN_FINISHING, /* takes no more requests; replies may still come */
	CONN_LINGERING, /* our side has ended; input is read and dropped, see linger in conn.c */
	CONN_DEAD,      /* closed; its memory lasts until the turn is over */
};

/* The filter of a connection. */
struct conn_filter {
	const struct net_filter *type;
	enum net_filter_state state;
	bool has_ended;    /* the end of the owner's output was told, or the filter failed */
	struct buffer out; /* the owner's output, kept while the filter greets */
	alignas(max_align_t) unsigned char data[];
};

struct net_conn {
	uv_tcp_t tcp; /* or a Unix socket: libuv reads and writes both alike */
	struct net_loop *loop;
	const struct net_kind *kind;
	struct conn_filter *filter;    /* NULL for none */
	struct list_node node;         /* of the loop's connections */
	struct net_conn *next_touched;
	struct list_node ready; /* of those that are to be handed their kept input */
	bool touched;
	bool is_dialled;         /* we connected to it: the gate has not admitted it */
	struct net_conn **opener; /* the opener's pointer to it, or NULL; set to NULL when it ends */
	bool eof;                /* the peer has sent its last byte */
	bool paused;             /* not read: output waits, or `in` is full */
	bool reserved;           /* beyond the gate's `max` */
	bool kept;    /* `in` waits for output to drain, an answer or the next round, not for input */
	bool yielded; /* the owner takes no more of it in this turn */
	unsigned char put_off; /* likewise, until the owner has taken back all these reasons */
	enum conn_state state;
	int error; /* of libuv, or 0 */
	struct ip peer;
	/*
	 * Input that was kept. Requests of this turn point to the first `taken` bytes, which are
	 * consumed: `in` does not grow while there are any.
	 */
	struct buffer in;
	size_t taken;
	size_t queued;     /* bytes that wait for the peer to read */
	size_t written;    /* bytes written or queued in this turn */
	size_t held;       /* answers that come in later turns */
	size_t held_bytes; /* that the owner keeps for them */
	size_t left;       /* bytes of a long write that were left at the last tick */
	uint64_t opened_ms;
	uint64_t round;    /* the last round in which it was handed over or read */
	uint64_t since_ms; /* when the first byte of the unfinished request came */
	bool stop_is_told;
	uint64_t part,
	    part_ms;        /* the same of one that its owner has the beginning of, see net_conn_part */
	uint64_t active_ms; /* when the last byte came or went */
	alignas(max_align_t) unsigned char data[];
};

/** Takes over an accepted `fd`; `reserved` unless gate_take admitted it. */
void conn_open(struct net_loop *loop, const struct net_kind *kind, int fd, const struct ip *peer,
               bool reserved);
/** A connection without a socket; NULL if there is no memory. */
struct net_conn *conn_make(struct net_loop *loop, const struct net_kind *kind);
/** Its socket is connected: calls `open`, and reads. */
void conn_start(struct net_conn *conn);
void conn_kill(struct net_conn *conn);
/** Closes it at once, because of an error of libuv. */
void conn_fail(struct net_conn *conn, int error);
/** Has it settled in this turn, or in one that follows at once. */
void conn_touch(struct net_conn *conn);
/** The peer will send no more. */
void conn_end_input(struct net_conn *conn);
/** To the socket, or to what is queued. It may fail. */
void conn_send(struct net_conn *conn, struct slice bytes);
/** Ready for the next use; a long one gives its memory back. */
void out_reset(struct buffer *out);
/** Hands over kept input, as far as the round has room. */
void conn_resume_all(struct net_loop *loop);
/** Once, before we end a connection that is idle. Returns whether its owner has something to say.
 */
bool conn_tell_end(struct net_conn *conn);
/** Closes a connection that exceeds a timeout. */
void conn_tick(struct net_conn *conn, uint64_t now_ms);
/** Output that the socket has not taken. */
bool conn_is_unsent(const struct net_conn *conn);
/** Bytes of output that the peer has not read. */
size_t conn_unread(const struct net_conn *conn);
/** Nothing of it is unanswered or unwritten. */
bool conn_is_idle(const struct net_conn *conn);

static inline uint64_t conn_now_ms(const struct net_conn *conn)
{
	return uv_now(&conn->loop->uv);
}

/** Whether its owner waits, too: neither is at work. */
static inline bool conn_waits_for_answer(const struct net_conn *conn)
{
	return conn->held > 0 && !(conn->put_off & NET_AT_WORK);
}

/** Bytes of the socket; what the owner is to see is appended to `in`. */
void filter_read(struct net_conn *conn, struct slice bytes);
/** Bytes of the owner; none: its output has ended. */
void filter_write(struct net_conn *conn, struct slice bytes);
/** It needs input before the owner's output can go. */
static inline bool filter_greets(const struct conn_filter *filter)
{
	return filter && filter->state == NET_FILTER_GREETING;
}

/** It keeps input that is not complete. */
static inline bool filter_keeps(const struct conn_filter *filter)
{
	return filter && (filter->state == NET_FILTER_PARTIAL || filter->state == NET_FILTER_GREETING);
}

/** Admits one more connection; false if `max` are open, so that it belongs in the reserve. */
bool gate_take(struct net_loop *loop);
/** A connection has ended that gate_take admitted, or sent to the reserve. */
void gate_give_back(struct net_loop *loop, bool reserved);
bool gate_is_full(const struct net_gate *gate);
/** Tells the owner when there is room again. */
void gate_tick(struct net_loop *loop);
/** Adds a connection that gate_take has sent here. Returns one that must end for it, or NULL. */
struct net_conn *reserve_add(struct net_conn *conn);
void reserve_remove(struct net_conn *conn);

/** Has the owner answer what was handed over, writes it, and settles the connections. */
void loop_turn(struct net_loop *loop);

void round_begin(struct net_loop *loop);
/** Counts a connection that is handed over in this round. */
void round_hand_over(struct net_loop *loop);
/** The next poll will not block: a turn follows. */
void round_go_on(struct net_loop *loop);
/** Its kept input is handed over in a later round, behind that of others. */
void round_add_ready(struct net_conn *conn);
void round_remove_ready(struct net_conn *conn);

/** Starts the listeners again if they rest. */
void accept_resume(struct net_loop *loop);
/** Accepts the connections that the kernel has queued, then closes the listeners. */
void accept_end(struct net_loop *loop);

#endif
