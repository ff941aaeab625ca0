#include "net/internal.h"

#include <string.h>

/*
 * The share of `max` that must be free before the owner hears that there is room: the log must
 * not flutter.
 */
#define ROOM_SHARE 8

bool gate_is_full(const struct net_gate *gate)
{
	return atomic_load_explicit(&gate->open, memory_order_relaxed) >=
	       atomic_load_explicit(&gate->max, memory_order_relaxed);
}

static bool take(struct net_gate *gate)
{
	size_t max = atomic_load_explicit(&gate->max, memory_order_relaxed);

	if (atomic_fetch_add_explicit(&gate->open, 1, memory_order_relaxed) < max)
		return true;
	atomic_fetch_sub_explicit(&gate->open, 1, memory_order_relaxed);
	return false;
}

bool gate_take(struct net_loop *loop)
{
	struct net_gate *gate = loop->gate;

	if (take(gate))
		return true;
	if (!atomic_exchange_explicit(&gate->full, true, memory_order_relaxed))
		loop->owner->full(loop->context, true);
	atomic_fetch_add_explicit(&gate->reserved, 1, memory_order_relaxed);
	return false;
}

void gate_give_back(struct net_loop *loop, bool reserved)
{
	atomic_fetch_sub_explicit(reserved ? &loop->gate->reserved : &loop->gate->open, 1,
	                          memory_order_relaxed);
}

void gate_tick(struct net_loop *loop)
{
	struct net_gate *gate = loop->gate;
	size_t max = atomic_load_explicit(&gate->max, memory_order_relaxed);
	size_t open = atomic_load_explicit(&gate->open, memory_order_relaxed);

	if (open < max && open <= max - max / ROOM_SHARE &&
	    atomic_load_explicit(&gate->full, memory_order_relaxed) &&
	    atomic_exchange_explicit(&gate->full, false, memory_order_relaxed))
		loop->owner->full(loop->context, false);
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

bool net_conn_enter(struct net_conn *conn)
{
	if (!conn->reserved)
		return true;
	if (!take(conn->loop->gate))
		return false;
	reserve_remove(conn);
	gate_give_back(conn->loop, true);
	conn->reserved = false;
	return true;
}

void net_conn_reject(struct net_conn *conn)
{
	atomic_fetch_add_explicit(&conn->loop->gate->rejected, 1, memory_order_relaxed);
}
