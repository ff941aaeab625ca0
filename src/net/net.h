/*
 * net.h: one event loop per thread, listeners, connections.
 *
 * It moves bytes and knows no protocol. It calls back the owner of the loop, and for each
 * connection the functions of its kind:
 *
 *   open    the connection was accepted, or net_loop_dial has connected it.
 *   data    hands over all bytes of the connection that were not consumed yet,
 *           contiguous. Once a turn for each connection. Returns how many are
 *           consumed. Those stay where they are until the next `turn` has returned;
 *           the rest comes again with more behind it, at any address.
 *   close   the connection has ended, and what was handed over for it is answered. Called
 *           exactly once for each connection that was opened or dialled, however it ended;
 *           net_conn_error tells why.
 *
 *   turn    everything that was ready has been handed over: answer it. Called
 *           once per turn of the loop, also when nothing came, and when
 *           net_loop_alarm's time has come.
 *   trouble tells what an operator should know.
 *   full    tells whether as many connections are open as the gate admits, when it changes.
 *
 * Replies are appended to net_conn_out; each connection is written once per
 * turn, as long as the replies to one are appended together. An owner may append output
 * that answers no request at any time, to any connection that is not closed: a turn
 * follows at once and writes it.
 *
 * The owner counts the answers of a connection that come in later turns (net_conn_hold),
 * and the memory that it keeps for them. While there are any, a peer that ends its side counts
 * as gone, because a half-close looks like a close: `close` is called, except while the owner is
 * at work on an answer (NET_AT_WORK). No timeout but that of writing applies.
 *
 * A filter (struct net_filter) may stand between the socket and the owner of a connection,
 * such as for TLS. A library with a descriptor of its own uses net_watch.
 *
 * Memory: an idle connection has no buffers. `input_max` bounds the input that is not
 * consumed; a filter may pass it by READ_MAX, the longest read. NET_OUT_MAX and one turn's
 * replies bound the output that the peer does not read and the memory kept for answers;
 * NET_HELD_MAX bounds that memory for all connections of a loop together, except one answer of
 * each. Past a bound the connection is not handed over until it drains or an answer has come.
 * The loop then reads only enough to see that a peer that waits for an answer has gone;
 * otherwise it asks the kernel.
 *
 * Threads: a loop belongs to the thread that runs it; only net_loop_wake and
 * net_loop_stop may be called by others.
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

#define NET_OUT_MAX  ((size_t)256 << 10)
#define NET_HELD_MAX ((size_t)32 << 20)

struct net_address;
struct net_loop;
struct net_conn;
struct net_watch;

struct net_owner {
	void (*turn)(void *context);
	void (*trouble)(void *context, const char *what, const char *why);
	void (*full)(void *context, bool full);
};

/*
 * Counts the accepted connections of all loops of a process. When `max` are open, each loop
 * accepts NET_RESERVE more, so that an operator gets in whoever fills the gate. A connection of
 * the reserve (net_conn_enter says so) must bring its first request within NET_RESERVE_MS, and
 * the oldest makes room for the next.
 */
struct net_gate {
	_Atomic size_t max; /* the owner may change it while loops run */
	_Atomic size_t open;
	_Atomic size_t reserved;   /* connections in the loops' reserves */
	_Atomic uint64_t rejected; /* connections of the reserves that were refused or closed unheard */
	_Atomic bool full;         /* as owners know it */
};

#define NET_RESERVE    32
#define NET_RESERVE_MS 1000

struct net_options {
	size_t input_max;
	uint64_t request_timeout_ms; /* from a request's first byte to its last */
	uint64_t write_timeout_ms;   /* without a byte of progress while output waits */
	uint64_t stop_timeout_ms;    /* for unfinished and held requests, once stopped */
	uint64_t tick_ms;            /* between two looks at the timeouts: one timer a loop */
};

#define NET_OPTIONS_DEFAULT ((struct net_options){81 << 10, 10000, 60000, 3000, 500})

/* The state of a filter. */
enum net_filter_state {
	NET_FILTER_READY,    /* it passes bytes on in both ways, and keeps none */
	NET_FILTER_PARTIAL,  /* the same, but it keeps the beginning of something */
	NET_FILTER_GREETING, /* it needs more input before it takes the owner's output */
	NET_FILTER_END,      /* the peer will send no more */
};

/*
 * A filter between the socket and the owner of a connection. It sees all bytes in both ways
 * and appends what becomes of them. A struct around this one may hold its configuration.
 * While it greets, the loop keeps the owner's output; a connection that greets or keeps
 * a part for longer than request_timeout_ms is closed.
 */
struct net_filter {
	size_t size; /* bytes that it keeps per connection: `state`, zeroed at first */
	/*
	 * `bytes` came from the socket; first it is called without any, when the connection
	 * begins. Appends to `in` what the owner is to see, and to `wire` what it has to say
	 * itself. Returns an enum net_filter_state, or an error (below 0): the connection ends
	 * when `wire` is written.
	 */
	int (*read)(const struct net_filter *filter, void *state, struct slice bytes, struct buffer *in,
	            struct buffer *wire);
	/* Appends to `wire` what becomes of the owner's `bytes`; none: its output has ended. */
	void (*write)(const struct net_filter *filter, void *state, struct slice bytes,
	              struct buffer *wire);
	/*
	 * Frees what `state` refers to; NULL if there is nothing to free. Once, behind the kind's
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
	 * The loop was stopped, and all that the connection has sent is answered; or it was idle for
	 * too long. It ends when what is appended to its output is written. Once for each. Returns
	 * whether that is anything. NULL if it never is.
	 */
	bool (*stop)(void *context, struct net_conn *conn);
	size_t conn_size; /* bytes that the owner keeps per connection, see net_conn_data */
	const void *tag;  /* the owner's, see net_conn_tag */
	const struct net_filter *filter; /* NULL for none */
	/* Between requests; NULL or 0: for ever. The owner may change it at any time. */
	const _Atomic uint64_t *idle_timeout_ms;
};

struct net_listener {
	int socket; /* from net_address_listen; the loop closes it */
	struct net_kind kind;
};

/** 0, ENOMEM or EIO. `options` are copied; `owner` and `gate` must outlive the loop. */
int net_loop_open(struct net_loop **out, const struct net_options *options,
                  const struct net_owner *owner, void *context, struct net_gate *gate);
/** Takes the socket, also on error (EIO, ENOMEM). Before net_loop_run. */
int net_loop_listen(struct net_loop *loop, const struct net_listener *listener);
/** Runs until net_loop_stop, and then until all is answered or stop_timeout_ms over. */
void net_loop_run(struct net_loop *loop);
/** Closes all connections and listeners. Not while it runs. */
void net_loop_close(struct net_loop *loop);

/**
 * Connects to an address. `open` tells that it is connected; `close`, without `open`, that
 * it failed or took longer than `timeout_ms`. Output may be appended at once. The gate does
 * not count it, and it lasts while a loop that was stopped answers the others. It is read
 * whatever it has unread, and in a crowd as well: clients wait for it. `kind` must outlive it.
 * NULL: no memory, or the loop has ended.
 */
struct net_conn *net_loop_dial(struct net_loop *loop, const struct net_kind *kind,
                               const struct net_address *to, uint64_t timeout_ms);

enum net_event {
	NET_READABLE = 1,
	NET_WRITABLE = 2,
	NET_TIME = 4, /* the time of net_watch_alarm has come */
};

/**
 * Watches a library's descriptor, which stays its own; it is non-blocking from now on.
 * `ready` is told what has come, of what net_watch_for asked for; an error of the descriptor
 * counts as all of that. A turn follows. ENOMEM, EIO (such as for a regular file).
 */
int net_watch_open(struct net_watch **out, struct net_loop *loop, int fd,
                   void (*ready)(void *context, unsigned events), void *context);
/** NET_READABLE, NET_WRITABLE or both, until the next call; 0 for nothing, as at first. */
void net_watch_for(struct net_watch *watch, unsigned events);
/** NET_TIME, once, after so long; 0 for never again. The last call counts. */
void net_watch_alarm(struct net_watch *watch, uint64_t after_ms);
/** Before the descriptor is closed, and before net_loop_close. `ready` may call it. */
void net_watch_close(struct net_watch *watch);

/** Makes the loop take a turn, even when nothing is ready. */
void net_loop_wake(struct net_loop *loop);
/**
 * Makes it take a turn at `at_ns` of the monotonic clock, at once when that is past;
 * 0: not any more. One time a loop: the last call counts. Its own thread only.
 */
void net_loop_alarm(struct net_loop *loop, uint64_t at_ns);
/** Whether a loop that was stopped is to wait for its owner, too, within stop_timeout_ms. */
void net_loop_keep(struct net_loop *loop, bool keep);
/** Ends accepting; what was received is answered and written, then the loop ends. */
void net_loop_stop(struct net_loop *loop);

/** Append replies to this buffer, until the next call for another connection. */
struct buffer *net_conn_out(struct net_conn *conn);
/** Writes what the last net_conn_out gathered. The loop does it after `turn`. */
void net_loop_flush(struct net_loop *loop);
/**
 * How many bytes of replies it may still be given: NET_OUT_MAX less what waits, what was
 * written in this turn, and what its owner keeps. 0: consume nothing further, it will come
 * again.
 */
size_t net_conn_room(const struct net_conn *conn);
/** It has had its share of this turn: consume nothing further, it will come again. */
void net_conn_yield(struct net_conn *conn);
/**
 * Sets or clears one of its owner's reasons, a bit each, to take no requests of it in this turn or
 * later ones. While there is a reason, input is only handed over when more has come, up to 4 KiB,
 * and its owner consumes none.
 */
void net_conn_put_off(struct net_conn *conn, unsigned char reason, bool put_off);
/*
 * A reason that the network knows, too: the owner works on a request, for several turns. It waits
 * for nothing meanwhile, so a peer that sends no more gets the answer.
 */
#define NET_AT_WORK 0x80u
/** The part of a `whole` share that a connection gets in this turn: less, the more ask at once. */
size_t net_loop_share(const struct net_loop *loop, size_t whole);
/** So much was answered in this round that costly requests should wait for the next. */
bool net_loop_is_busy(const struct net_loop *loop);
/** Its owner has done other work in this round, as much as so many bytes would be. */
void net_loop_spend(struct net_loop *loop, size_t bytes);
/**
 * While its owner takes a turn: the next poll does not block, so that another turn follows at once.
 */
void net_loop_again(struct net_loop *loop);
/**
 * Ends it: no more input is handed over, and it closes when all replies are written, held ones
 * too. At once when it is not connected yet.
 */
void net_conn_finish(struct net_conn *conn);

/** Closes without waiting for anything; `close` is called later, by the loop. */
void net_conn_abort(struct net_conn *conn);
/** The reason why it failed, such as "connection refused"; NULL if it has not. */
const char *net_conn_error(const struct net_conn *conn);

/**
 * Whether the gate has admitted it; a connection of the reserve is admitted now if there is room
 * by now. If not, it serves an operator's requests only: refuse others by net_conn_reject, and
 * finish it.
 */
bool net_conn_enter(struct net_conn *conn);
/** Counts a request that was refused for want of room. */
void net_conn_reject(struct net_conn *conn);

/**
 * The owner has consumed the beginning of a request that has not ended yet, and numbers it `part`.
 * The request has as much time as input that is not consumed, from the first call with its number.
 * 0 says that there is no such request.
 */
void net_conn_part(struct net_conn *conn, uint64_t part);

/** One more answer comes in a later turn, and takes `bytes` of memory until then. */
void net_conn_hold(struct net_conn *conn, size_t bytes);
/** An answer that is to come takes so many bytes more. */
void net_conn_grow(struct net_conn *conn, size_t bytes);
/** That answer is in net_conn_out, or will not come. */
void net_conn_release(struct net_conn *conn, size_t bytes);
/** Whether its peer has left, even behind input that was not read yet. It will be closed. */
bool net_conn_is_gone(const struct net_conn *conn);

/** The owner's `conn_size` bytes, zeroed when it opens, aligned for any type. */
void *net_conn_data(struct net_conn *conn);
const void *net_conn_tag(const struct net_conn *conn);
const struct ip *net_conn_peer(const struct net_conn *conn);
/** The state of its filter, or NULL. */
void *net_conn_filter(struct net_conn *conn);
/** The account of the program at the other end of a Unix socket. Returns false if it is none. */
bool net_conn_account(struct net_conn *conn, uint64_t *user);

#endif
