/*
 * conn_limit.c: limits how many accepted connections all event loops together have open.
 * Connections beyond the limit go into a small reserve of each loop, so that an operator still gets
 * in; when the reserve is full, its oldest connection is closed.
 */
#include "net/internal.h"

#include <string.h>

/*
 * Before the owner is notified that the limit is no longer reached, 1/FREE_PART of it must be free:
 * otherwise the log would report each connection that ends and each that takes its place.
 */
#define FREE_PART 8

bool conn_limit_is_reached(const struct net_conn_limit *limit)
{
	return atomic_load_explicit(&limit->open_count, memory_order_relaxed) >=
	       atomic_load_explicit(&limit->max, memory_order_relaxed);
}

/* Returns false, and counts nothing, if the limit is reached. */
static bool try_count_connection(struct net_conn_limit *limit)
{
	size_t max = atomic_load_explicit(&limit->max, memory_order_relaxed);

	if (atomic_fetch_add_explicit(&limit->open_count, 1, memory_order_relaxed) < max)
		return true;
	atomic_fetch_sub_explicit(&limit->open_count, 1, memory_order_relaxed);
	return false;
}

/* Returns false, and counts the connection in the reserve, if the limit is reached. */
bool conn_limit_acquire(struct net_loop *loop)
{
	struct net_conn_limit *limit = loop->conn_limit;

	if (try_count_connection(limit))
		return true;
	if (!atomic_exchange_explicit(&limit->reported_full, true, memory_order_relaxed))
		loop->owner->full_changed(loop->context, true);
	atomic_fetch_add_explicit(&limit->reserve_count, 1, memory_order_relaxed);
	return false;
}

void conn_limit_release(struct net_loop *loop, bool in_reserve)
{
	struct net_conn_limit *limit = loop->conn_limit;

	atomic_fetch_sub_explicit(in_reserve ? &limit->reserve_count : &limit->open_count, 1,
	                          memory_order_relaxed);
}

/* Notifies the owner once enough connections have ended since the limit was reached. */
void conn_limit_report_capacity(struct net_loop *loop)
{
	struct net_conn_limit *limit = loop->conn_limit;
	size_t max = atomic_load_explicit(&limit->max, memory_order_relaxed);
	size_t open = atomic_load_explicit(&limit->open_count, memory_order_relaxed);

	if (open < max && open <= max - max / FREE_PART &&
	    atomic_load_explicit(&limit->reported_full, memory_order_relaxed) &&
	    atomic_exchange_explicit(&limit->reported_full, false, memory_order_relaxed))
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

/* Returns the connection that must be closed to make space, or NULL. */
struct net_conn *reserve_add(struct net_conn *conn)
{
	struct net_loop *loop = conn->loop;
	struct net_conn *oldest = loop->reserve_count == NET_RESERVE ? loop->reserve[0] : NULL;

	if (oldest) {
		net_conn_count_rejection(oldest);
		reserve_remove(oldest);
	}
	loop->reserve[loop->reserve_count++] = conn;
	return oldest;
}

/* Moves a connection of the reserve into the limit. Returns false if the limit is reached. */
bool net_conn_admit(struct net_conn *conn)
{
	if (!conn->in_reserve)
		return true;
	if (!try_count_connection(conn->loop->conn_limit))
		return false;
	reserve_remove(conn);
	conn_limit_release(conn->loop, true);
	conn->in_reserve = false;
	return true;
}

void net_conn_count_rejection(struct net_conn *conn)
{
	atomic_fetch_add_explicit(&conn->loop->conn_limit->rejected_count, 1, memory_order_relaxed);
}
