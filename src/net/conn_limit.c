/*
 * conn_limit.c: limits accepted connections. Connections beyond the limit go into a small reserve,
 * from which the owner may admit operators; when it is full, the oldest is closed.
 */
#include "net/internal.h"

#include <string.h>

/*
 * 1/FREE_SHARE of `max` must be free before the owner is told that the limit is no longer reached,
 * so that the log does not report each connection.
 */
#define FREE_SHARE 8

bool conn_limit_is_reached(const struct net_conn_limit *limit)
{
	return atomic_load_explicit(&limit->open, memory_order_relaxed) >=
	       atomic_load_explicit(&limit->max, memory_order_relaxed);
}

static bool try_admit(struct net_conn_limit *limit)
{
	size_t max = atomic_load_explicit(&limit->max, memory_order_relaxed);

	if (atomic_fetch_add_explicit(&limit->open, 1, memory_order_relaxed) < max)
		return true;
	atomic_fetch_sub_explicit(&limit->open, 1, memory_order_relaxed);
	return false;
}

bool conn_limit_acquire(struct net_loop *loop)
{
	struct net_conn_limit *limit = loop->limit;

	if (try_admit(limit))
		return true;
	if (!atomic_exchange_explicit(&limit->full, true, memory_order_relaxed))
		loop->owner->full_changed(loop->context, true);
	atomic_fetch_add_explicit(&limit->reserved, 1, memory_order_relaxed);
	return false;
}

void conn_limit_release(struct net_loop *loop, bool reserved)
{
	atomic_fetch_sub_explicit(reserved ? &loop->limit->reserved : &loop->limit->open, 1,
	                          memory_order_relaxed);
}

void conn_limit_tick(struct net_loop *loop)
{
	struct net_conn_limit *limit = loop->limit;
	size_t max = atomic_load_explicit(&limit->max, memory_order_relaxed);
	size_t open = atomic_load_explicit(&limit->open, memory_order_relaxed);

	if (open < max && open <= max - max / FREE_SHARE &&
	    atomic_load_explicit(&limit->full, memory_order_relaxed) &&
	    atomic_exchange_explicit(&limit->full, false, memory_order_relaxed))
		loop->owner->full_changed(loop->context, false);
}

void reserve_remove(struct net_conn *conn)
{
	struct net_loop *loop = conn->loop;
	size_t i = 0;

	while (i < loop->reserve_count && loop->reserve[i] != conn)
		i++;
	if (i == loop->reserve_count)
		return;
	loop->reserve_count--;
	memmove(&loop->reserve[i], &loop->reserve[i + 1],
	        (loop->reserve_count - i) * sizeof *loop->reserve);
}

struct net_conn *reserve_add(struct net_conn *conn)
{
	struct net_loop *loop = conn->loop;
	struct net_conn *oldest = loop->reserve_count == NET_RESERVE ? loop->reserve[0] : NULL;

	if (oldest) {
		net_conn_reject(oldest);
		reserve_remove(oldest);
	}
	loop->reserve[loop->reserve_count++] = conn;
	return oldest;
}

bool net_conn_admit(struct net_conn *conn)
{
	if (!conn->reserved)
		return true;
	if (!try_admit(conn->loop->limit))
		return false;
	reserve_remove(conn);
	conn_limit_release(conn->loop, true);
	conn->reserved = false;
	return true;
}

void net_conn_reject(struct net_conn *conn)
{
	atomic_fetch_add_explicit(&conn->loop->limit->rejected, 1, memory_order_relaxed);
}
