/*
 * net.h: runs an event loop per thread, with its listeners and connections.
 *
 * The loop moves bytes and knows no protocol. An *iteration* is one pass: the loop polls the
 * sockets, reads those that are ready, and hands the input to its owner. A *batch* is all input
 * that is handed over between two calls of `process`; an iteration has one batch, or several if
 * the memory for input runs out. The loop calls its owner, and for each connection the functions of
 * the connection's kind:
 *
 *   open     The connection was accepted, or net_loop_dial has connected it.
 *   data     Gets all bytes of the connection that were not consumed yet, contiguous, at most once
 *            an iteration. Returns how many are consumed. Consumed bytes stay where they are until
 *            the next `process` has returned; the others are handed over again with more behind
 *            them, at any address.
 *   close    The connection has ended, and the batch that has its last input is answered. Called
 *            exactly once for each connection that was opened or dialled, however it ended;
 *            net_conn_error returns why.
 *
 *   process  Answers the batch. Called at least once an iteration, also when there was no input and
 *            when the time of net_loop_alarm has come.
 *   warn     Reports a problem that an operator should know.
 *   full_changed  The limit of connections is reached, or no longer.
 *
 * The owner appends replies to net_conn_output. The loop writes each connection once per batch, as
 * long as the replies to one connection are appended together. An owner may append output that
 * answers no request at any time, to any connection that is not closed: `process` is called at once
 * and then the output is written.
 *
 * The owner counts the pending answers of a connection, which are given in later iterations
 * (net_conn_add_pending), and the memory that it needs for them. While a connection has pending
 * answers, the end of the peer's input counts as the end of the peer, because a half-close looks
 * like a close. Then `close` is called, except while the owner works on an answer (NET_AT_WORK). No
 * timeout but that of writing applies.
 *
 * A filter (struct net_filter), such as TLS, may stand between the socket and the owner of a
 * connection. net_descriptor_open polls a descriptor that belongs to a library.
 *
 * Memory: an idle connection has no buffers. `input_max` bounds the input that is not consumed; a
 * filter may exceed it by READ_MAX, the longest read. NET_OUT_MAX and the replies to one batch
 * bound, for each connection, the output that the peer does not read and the memory for pending
 * answers. NET_PENDING_MAX bounds the memory for the pending answers of all connections of a loop,
 * except one answer of each. Past a bound the connection's input is not handed over until its
 * output drains or an answer is given. Meanwhile the loop reads only a little, to notice that a
 * peer that waits for an answer has left; after that it asks the kernel.
 *
 * Threads: a loop belongs to the thread that runs it. Other threads may call only net_loop_wake and
 * net_loop_stop.
 */
#ifndef NET_NET_H
#define NET_NET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/network/ip.h"
#include "base/slice.h"

#define NET_OUT_MAX     ((size_t)256 << 10)
#define NET_PENDING_MAX ((size_t)32 << 20)

struct net_address;
struct net_loop;
struct net_conn;
struct net_descriptor;

struct net_owner {
	void (*process)(void *context);
	void (*warn)(void *context, const char *what, const char *why);
	void (*full_changed)(void *context, bool full);
};

/*
 * Limits the accepted connections of all loops of a process. When `max` are open, each loop accepts
 * NET_RESERVE more, so that an operator gets in even if other clients use up the limit. A
 * connection of the reserve must send its first request within NET_RESERVE_MS; when the reserve is
 * full, a new connection replaces the oldest.
 */
struct net_conn_limit {
	_Atomic size_t max; /* the owner may change it while loops run */
	_Atomic size_t open_count;
	_Atomic size_t reserve_count; /* connections in the loops' reserves */
	/* Connections of the reserves that were refused, or closed without a request. */
	_Atomic uint64_t rejected_count;
	_Atomic bool reported_full; /* the last value that full_changed reported */
};

#define NET_RESERVE    32
#define NET_RESERVE_MS 1000

struct net_options {
	size_t input_max;
	uint64_t request_timeout_ms; /* from a request's first byte to its last */
	uint64_t write_timeout_ms;   /* without a byte of progress while output waits */
	uint64_t stop_timeout_ms;    /* for unfinished and pending requests, once stopped */
	uint64_t tick_ms;            /* between two checks of all timeouts: one timer a loop */
};

#define NET_OPTIONS_DEFAULT ((struct net_options){81 << 10, 10000, 60000, 3000, 500})

/* The state of a filter. */
enum net_filter_state {
	NET_FILTER_READY,     /* passes bytes on in both directions; none are buffered */
	NET_FILTER_PARTIAL,   /* the same, but the beginning of a record is buffered */
	NET_FILTER_HANDSHAKE, /* needs more input before it accepts the owner's output */
	NET_FILTER_END,       /* the peer will send no more */
};

/*
 * Transforms the bytes between the socket and the owner of a connection, in both directions. A
 * larger struct that contains this one may hold the filter's configuration. During the handshake
 * the loop buffers the owner's output. A connection whose handshake or partial record takes longer
 * than request_timeout_ms is closed.
 */
struct net_filter {
	size_t size; /* bytes of `state` for each connection, zeroed at first */
	/*
	 * Transforms `bytes` of the socket. The first call, when the connection begins, has no bytes.
	 * Appends to `in` the input for the owner, and to `wire` the filter's own output. Returns an
	 * enum net_filter_state, or an error (below 0): the connection ends when `wire` is written.
	 */
	int (*read)(const struct net_filter *filter, void *state, struct slice bytes, struct buffer *in,
	            struct buffer *wire);
	/* Transforms the owner's `bytes` and appends to `wire`. No bytes: the output has ended. */
	void (*write)(const struct net_filter *filter, void *state, struct slice bytes,
	              struct buffer *wire);
	/*
	 * Frees what `state` refers to; NULL if there is nothing to free. Called once, after the kind's
	 * `close`.
	 */
	void (*close)(const struct net_filter *filter, void *state);
};

/* The properties that connections of one kind share. The context is that of the loop's owner. */
struct net_kind {
	void (*open)(void *context, struct net_conn *conn);
	size_t (*data)(void *context, struct net_conn *conn, struct slice bytes);
	void (*close)(void *context, struct net_conn *conn);
	/*
	 * Called once, before the loop ends a connection because the loop was stopped and all requests
	 * are answered, or because the connection was idle for too long. May append last output;
	 * returns whether it did. NULL if there never is any.
	 */
	bool (*stop)(void *context, struct net_conn *conn);
	size_t conn_size; /* bytes that the owner needs per connection, see net_conn_data */
	const void *tag;  /* the owner's, see net_conn_tag */
	const struct net_filter *filter; /* NULL for none */
	/* Between requests; no timeout if NULL or 0. The owner may change it at any time. */
	const _Atomic uint64_t *idle_timeout_ms;
};

struct net_listener {
	int socket; /* from net_address_listen; the loop closes it */
	struct net_kind kind;
};

/** 0, ENOMEM or EIO. `options` are copied; `owner` and `limit` must outlive the loop. */
int net_loop_open(struct net_loop **out, const struct net_options *options,
                  const struct net_owner *owner, void *context, struct net_conn_limit *limit);
/** Takes over the socket, also on error (EIO, ENOMEM). Call it before net_loop_run. */
int net_loop_listen(struct net_loop *loop, const struct net_listener *listener);
/** Runs until net_loop_stop, and then until all is answered or stop_timeout_ms is over. */
void net_loop_run(struct net_loop *loop);
/** Closes all connections and listeners. Not while the loop runs. */
void net_loop_close(struct net_loop *loop);

/**
 * Connects to an address. `open` is called once it is connected; `close`, without `open`, if
 * connecting failed or took longer than `timeout_ms`. Output may be appended at once. The
 * connection does not count in the limit, and stays open while a stopped loop answers clients. It
 * is read even if its peer does not read, and in full reads however many connections are busy,
 * because clients wait for it. `kind` must outlive the connection. Returns NULL if there is no
 * memory or the loop has ended.
 */
struct net_conn *net_loop_dial(struct net_loop *loop, const struct net_kind *kind,
                               const struct net_address *to, uint64_t timeout_ms);

enum net_event {
	NET_READABLE = 1,
	NET_WRITABLE = 2,
};

/**
 * Polls a library's descriptor, which the library still closes; makes it non-blocking. `ready`
 * gets those events of net_descriptor_set_events that have occurred; an error of the descriptor
 * counts as all of them. `process` follows. ENOMEM, EIO (such as for a regular file).
 */
int net_descriptor_open(struct net_descriptor **out, struct net_loop *loop, int fd,
                        void (*ready)(void *context, unsigned events), void *context);
/** Polls for NET_READABLE, NET_WRITABLE, both, or 0 for none (the default), until the next call. */
void net_descriptor_set_events(struct net_descriptor *descriptor, unsigned events);
/** Call it before the descriptor is closed, and before net_loop_close. `ready` may call it. */
void net_descriptor_close(struct net_descriptor *descriptor);

/** Makes the loop call `process`, even if no socket is ready. */
void net_loop_wake(struct net_loop *loop);
/**
 * Makes the loop call `process` at `at_ns` of the monotonic clock, at once if that is past. 0
 * cancels the alarm. A loop has one alarm: the last call counts. Its own thread only.
 */
void net_loop_alarm(struct net_loop *loop, uint64_t at_ns);
/** Sets whether a stopped loop waits for its owner, too, within stop_timeout_ms. */
void net_loop_delay_end(struct net_loop *loop, bool delay);
/** Ends accepting. The loop ends when the input received by now is answered and written. */
void net_loop_stop(struct net_loop *loop);

/** Append replies to this buffer, until the next call for another connection. */
struct buffer *net_conn_output(struct net_conn *conn);
/** Writes the output of the last net_conn_output. The loop does it after `process`. */
void net_loop_flush(struct net_loop *loop);
/**
 * How many bytes of replies the connection may still get: NET_OUT_MAX less its unread output, the
 * output of this batch, and the memory of its pending answers. At 0 consume nothing further: the
 * input is handed over again.
 */
size_t net_conn_output_space(const struct net_conn *conn);
/** The connection has used up its share of this batch: its other input is handed over again. */
void net_conn_yield(struct net_conn *conn);
/**
 * Sets or clears one of the owner's reasons, a bit each, to accept no requests of a connection in
 * this batch or later ones. While there is a reason, input is handed over only when more has
 * arrived, up to 4 KiB, and the owner must consume none.
 */
void net_conn_suspend(struct net_conn *conn, unsigned char reason, bool suspend);
/*
 * A reason that the loop knows, too: the owner works on a request, over several iterations. It does
 * not wait for anything meanwhile, so a peer that has ended its output still gets the answer.
 */
#define NET_AT_WORK 0x80u
/**
 * The part of a `whole` share that a connection may use in this iteration. The more connections
 * have input, the smaller it is.
 */
size_t net_loop_share(const struct net_loop *loop, size_t whole);
/** Whether this iteration has done so much work that costly requests should wait for the next. */
bool net_loop_is_busy(const struct net_loop *loop);
/** Adds the owner's other work to that of this iteration, as so many bytes. */
void net_loop_charge(struct net_loop *loop, size_t bytes);
/** For `process`: the next poll does not block, so `process` is called again at once. */
void net_loop_run_again(struct net_loop *loop);
/**
 * Hands over no more input, and closes the connection when all its replies, pending ones too, are
 * written. Closes it at once if it is not connected yet.
 */
void net_conn_finish(struct net_conn *conn);

/** Closes without waiting for anything; the loop calls `close` later. */
void net_conn_abort(struct net_conn *conn);
/** Why the connection failed, such as "connection refused"; NULL if it has not failed. */
const char *net_conn_error(const struct net_conn *conn);

/**
 * Returns whether the connection counts in the limit. A connection of the reserve is moved into the
 * limit if that has capacity now. If it has none, serve operators' requests only: refuse others
 * with net_conn_count_rejection and net_conn_finish.
 */
bool net_conn_admit(struct net_conn *conn);
/** Counts a request that was refused because the limit of connections is reached. */
void net_conn_count_rejection(struct net_conn *conn);

/**
 * Reports that the owner has consumed the beginning of a request but not its end. The request's
 * timeout runs from the first call with its number. 0 says that there is no such request.
 */
void net_conn_set_partial(struct net_conn *conn, uint64_t request);

/** Adds a pending answer, which needs `bytes` of memory until it is given. */
void net_conn_add_pending(struct net_conn *conn, size_t bytes);
/** A pending answer needs so many bytes more. */
void net_conn_grow_pending(struct net_conn *conn, size_t bytes);
/** A pending answer of `bytes` is in net_conn_output, or is cancelled. */
void net_conn_remove_pending(struct net_conn *conn, size_t bytes);
/** Whether the peer has ended its output, even behind input that was not read. It will be closed.
 */
bool net_conn_peer_has_left(const struct net_conn *conn);

/** The owner's `conn_size` bytes, zeroed when the connection opens, aligned for any type. */
void *net_conn_data(struct net_conn *conn);
const void *net_conn_tag(const struct net_conn *conn);
const struct ip *net_conn_peer(const struct net_conn *conn);
/** The state of the connection's filter, or NULL. */
void *net_conn_filter(struct net_conn *conn);
/** The user ID of the program at the other end of a Unix socket. False for other sockets. */
bool net_conn_peer_uid(struct net_conn *conn, uint64_t *user);

#endif
