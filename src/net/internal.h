/*
 * internal.h: defines the structs of loops and connections, and declares the functions that the
 * files of this folder share.
 */
#ifndef NET_INTERNAL_H
#define NET_INTERNAL_H

#include <stdalign.h>
#include <uv.h>

#include "base/list.h"
#include "net/net.h"

/*
 * Bytes are read into `scratch`, one connection after the other, and stay until the batch is
 * answered. When less than SCRATCH_LOW is left, the batch ends early.
 */
#define SCRATCH_SIZE        ((size_t)256 << 10)
#define SCRATCH_LOW         ((size_t)16 << 10)
#define READ_MAX            ((size_t)64 << 10)
#define READ_MIN            ((size_t)4 << 10)
#define ITERATION_BYTES_MAX ((size_t)512 << 10)

/*
 * Fairness. An iteration first hands over the backlog: input that connections could not use before,
 * the oldest backlog first, until ITERATION_BYTES_MAX bytes have gone in and out. Then every
 * connection that is ready is read once, READ_MAX bytes at most. So a client that asks little
 * waits for one such iteration, whatever the others have sent.
 *
 * An iteration must not grow with the number of connections that ask for much. The first
 * SHARE_WHOLE connections of an iteration may use whole shares. Each time their number doubles, a
 * share is halved, SHARE_HALVINGS times at most. Connections that still have a backlog count in the
 * next iteration from its start.
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
	uint64_t alarm_ns; /* 0 if no alarm is set */
	uv_timer_t tick;
	struct net_options options;
	const struct net_owner *owner;
	void *context;
	struct net_conn_limit *conn_limit;
	struct listen_handle *listeners;
	bool is_accepting; /* false after an error, until a connection closes or the next tick */
	bool retry_accept; /* a connection has closed */
	struct list conns;
	struct net_conn *first_to_update; /* connections to update after this batch */
	struct list backlogs;     /* connections whose backlog is to be handed over, oldest first */
	uv_idle_t poll_again;     /* while it is active, polls do not block ... */
	uv_idle_cb on_poll_again; /* ... and each is preceded by this call */
	size_t backlogs_count;
	uint64_t iteration;
	size_t delivered_count;  /* connections handed over in this iteration */
	unsigned share_halvings; /* in this iteration */
	size_t iteration_bytes;  /* bytes consumed, pending and written in this iteration */
	size_t pending_bytes;    /* of all connections */
	bool end_delayed;        /* the owner has something to finish */
	bool wants_run_again;    /* the owner asked for another iteration at once */
	struct net_conn *reserve[NET_RESERVE]; /* oldest first */
	size_t reserve_count;
	struct net_conn *out_conn; /* whose replies `out` holds */
	struct buffer out;
	struct buffer filter_output; /* empty between two writes */
	_Atomic bool stop_requested;
	enum { LOOP_RUNNING, LOOP_STOPPING, LOOP_DRAINING, LOOP_ENDED } phase;
	uint64_t stop_at_ms;
	size_t scratch_used;
	alignas(max_align_t) char scratch[SCRATCH_SIZE];
};

enum conn_state {
	CONN_CONNECTING,
	CONN_OPEN,
	CONN_FINISHING, /* accepts no more requests; replies may still be written */
	CONN_LINGERING, /* our side has ended; input is read and dropped, see linger in conn.c */
	CONN_DEAD,      /* closed; its memory lasts until libuv has closed the handle */
};

/* The filter of a connection. */
struct conn_filter {
	const struct net_filter *type;
	enum net_filter_state state;
	bool has_output_ended; /* the filter knows that the owner's output has ended, or has failed */
	struct buffer handshake_output; /* the owner's output during the handshake */
	alignas(max_align_t) unsigned char data[];
};

struct net_conn {
	uv_tcp_t tcp; /* or a Unix socket: libuv reads and writes both alike */
	struct net_loop *loop;
	const struct net_kind *kind;
	struct conn_filter *filter;  /* NULL for none */
	struct list_node conns_node; /* in the loop's `conns` */
	struct net_conn *next_to_update;
	struct list_node backlog_node; /* in the loop's `backlogs` */
	bool has_update_scheduled;
	bool is_dialled;            /* we connected to the peer: does not count in the limit */
	struct net_conn **weak_ref; /* another's pointer to this, set to NULL at the end; or NULL */
	bool eof;                   /* the peer has sent its last byte */
	bool paused;                /* not read: output waits, or `input` is full */
	bool in_reserve;            /* beyond the limit's `max` */
	bool has_backlog;           /* `input` waits for output to drain, for an answer or for the next
	                               iteration, not for more input */
	bool yielded;               /* the owner accepts no more in this batch */
	unsigned char suspend_reasons; /* the owner's reasons to accept no requests, a bit each */
	enum conn_state state;
	int error; /* of libuv, or 0 */
	struct ip peer;
	/*
	 * Input that was not consumed at once. Requests of this batch point to the first
	 * `consumed_bytes`: `input` does not grow while there are any.
	 */
	struct buffer input;
	size_t consumed_bytes;
	size_t queued_bytes;        /* that the socket has not accepted */
	size_t batch_written_bytes; /* written or queued in this batch */
	size_t pending_count;       /* answers that are given in later iterations */
	size_t pending_bytes;       /* of the owner's memory for them */
	size_t unwritten_at_tick;   /* bytes of a long write that were left at the last tick */
	uint64_t opened_at_ms;
	uint64_t read_in_iteration; /* the last one in which it was handed over or read */
	uint64_t request_since_ms;  /* when the first byte of the unfinished request arrived */
	bool stop_was_called;       /* the kind's `stop` */
	uint64_t partial_request;   /* the request whose beginning the owner has, or 0 */
	uint64_t partial_since_ms;
	uint64_t progress_at_ms; /* when the last byte arrived or was written */
	alignas(max_align_t) unsigned char data[];
};

/** Takes over an accepted `fd`; `in_reserve` unless conn_limit_acquire admitted it. */
void conn_open(struct net_loop *loop, const struct net_kind *kind, int fd, const struct ip *peer,
               bool in_reserve);
/** Makes a connection without a socket; NULL if there is no memory. */
struct net_conn *conn_create(struct net_loop *loop, const struct net_kind *kind);
/** Calls `open` and begins to read. The socket is connected. */
void conn_start(struct net_conn *conn);
void conn_kill(struct net_conn *conn);
/** Closes the connection at once, because of an error of libuv. */
void conn_fail(struct net_conn *conn, int error);
/** Has the connection updated after this batch; without a batch, in one that follows at once. */
void conn_schedule_update(struct net_conn *conn);
/** Records that the peer will send no more. */
void conn_end_input(struct net_conn *conn);
/** Writes to the socket, and queues what the socket does not accept. May fail the connection. */
void conn_send(struct net_conn *conn, struct slice bytes);
/** Empties the buffer for its next use; frees the memory of a long one. */
void output_reset(struct buffer *out);
/** Hands over the backlog of connections until the iteration has done its share of work. */
void deliver_backlogs(struct net_loop *loop);
/** Calls the kind's `stop`, at most once. Returns whether the owner has appended last output. */
bool conn_append_last_output(struct net_conn *conn);
/** Closes a connection that exceeds a timeout. */
void conn_check_timeout(struct net_conn *conn, uint64_t now_ms);
/** Whether the socket has not accepted all output. */
bool conn_has_unsent(const struct net_conn *conn);
/** Bytes of output that the peer has not read. */
size_t conn_unread_output(const struct net_conn *conn);
/** Whether nothing is unanswered or unwritten. */
bool conn_is_idle(const struct net_conn *conn);

static inline uint64_t conn_now_ms(const struct net_conn *conn)
{
	return uv_now(&conn->loop->uv);
}

/** Whether the owner waits for something before it answers, and does not work on it. */
static inline bool conn_waits_for_answer(const struct net_conn *conn)
{
	return conn->pending_count > 0 && !(conn->suspend_reasons & NET_AT_WORK);
}

/** Passes bytes of the socket through the filter; the owner's input is appended to `input`. */
void filter_read(struct net_conn *conn, struct slice bytes);
/** Passes bytes of the owner through the filter to the socket. No bytes: its output has ended. */
void filter_write(struct net_conn *conn, struct slice bytes);

static inline bool filter_is_handshaking(const struct conn_filter *filter)
{
	return filter && filter->state == NET_FILTER_HANDSHAKE;
}

/** Whether the filter has the beginning of a record or of a handshake. */
static inline bool filter_has_partial(const struct conn_filter *filter)
{
	return filter && (filter->state == NET_FILTER_PARTIAL || filter->state == NET_FILTER_HANDSHAKE);
}

/** Counts a new connection. Returns false if `max` are open: then it belongs in the reserve. */
bool conn_limit_acquire(struct net_loop *loop);
/** Uncounts a connection that has ended. */
void conn_limit_release(struct net_loop *loop, bool in_reserve);
bool conn_limit_is_reached(const struct net_conn_limit *limit);
/** Tells the owner once enough connections have ended. */
void conn_limit_report_capacity(struct net_loop *loop);
/** Adds a connection to the reserve. Returns the oldest one if it must end for it, or NULL. */
struct net_conn *reserve_add(struct net_conn *conn);
void reserve_remove(struct net_conn *conn);

/** Ends the batch: the owner answers it, the answers are written, connections are updated. */
void loop_process(struct net_loop *loop);
/** Makes the next poll not block, so that `process` follows at once. */
void loop_poll_again(struct net_loop *loop);

/** Begins an iteration: resets the shares. */
void fairness_begin(struct net_loop *loop);
/** Counts a connection whose input is handed over in this iteration. */
void fairness_count_delivery(struct net_loop *loop);
/** Queues the connection's backlog for a later iteration, behind others. */
void backlogs_add(struct net_conn *conn);
void backlogs_remove(struct net_conn *conn);

/** Starts the listeners again if an error has stopped them. */
void accept_resume(struct net_loop *loop);
/** Accepts the connections that the kernel has queued, then closes the listeners. */
void accept_close_listeners(struct net_loop *loop);

#endif
