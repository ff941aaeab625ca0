/*
 * fairness.c: divides the work of one iteration of the event loop among its connections. The more
 * connections have input, the fewer bytes each may read, so that an iteration stays short.
 */
#include "net/internal.h"

/* Each time the number of connections doubles beyond SHARE_WHOLE, the share of each is halved. */
static void halve_share_for(struct net_loop *loop, size_t conn_count)
{
	while (loop->share_halvings < SHARE_HALVINGS && conn_count >= (size_t)SHARE_WHOLE
	                                                                  << loop->share_halvings)
		loop->share_halvings++;
}

void fairness_begin(struct net_loop *loop)
{
	loop->iteration++;
	loop->iteration_bytes = 0;
	loop->share_halvings = 0;
	halve_share_for(loop, loop->delivered_count + loop->backlogs_count);
	loop->delivered_count = 0;
}

void fairness_count_delivery(struct net_loop *loop)
{
	halve_share_for(loop, ++loop->delivered_count);
}

/* While the idle handle is active, libuv's polls do not block. */
void loop_poll_again(struct net_loop *loop)
{
	if (loop->phase != LOOP_ENDED)
		uv_idle_start(&loop->poll_again, loop->on_poll_again);
}

void backlogs_add(struct net_conn *conn)
{
	struct net_loop *loop = conn->loop;

	if (list_has(&conn->backlog_node))
		return;
	list_append(&loop->backlogs, &conn->backlog_node);
	loop->backlogs_count++;
	loop_poll_again(loop);
}

void backlogs_remove(struct net_conn *conn)
{
	if (!list_has(&conn->backlog_node))
		return;
	list_remove(&conn->loop->backlogs, &conn->backlog_node);
	conn->loop->backlogs_count--;
}

size_t net_loop_share(const struct net_loop *loop, size_t whole)
{
	return whole >> loop->share_halvings;
}

bool net_loop_is_busy(const struct net_loop *loop)
{
	return loop->iteration_bytes + loop->out.len >= ITERATION_BYTES_MAX;
}

void net_loop_run_again(struct net_loop *loop)
{
	loop->wants_run_again = true;
	loop_poll_again(loop);
}

void net_loop_charge(struct net_loop *loop, size_t bytes)
{
	loop->iteration_bytes += bytes;
}
