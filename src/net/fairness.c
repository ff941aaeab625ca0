/*
 * fairness.c: divides the work of an iteration of the event loop among its connections. The more
 * connections are ready, the smaller the share of each.
 */
#include "net/internal.h"

static void share_among(struct net_loop *loop, size_t count)
{
	while (loop->halvings < SHARE_HALVINGS && count >= (size_t)SHARE_WHOLE << loop->halvings)
		loop->halvings++;
}

void fairness_begin(struct net_loop *loop)
{
	loop->iteration++;
	loop->spent = 0;
	loop->halvings = 0;
	share_among(loop, loop->delivered + loop->ready_count);
	loop->delivered = 0;
}

void fairness_count_delivery(struct net_loop *loop)
{
	share_among(loop, ++loop->delivered);
}

void loop_poll_again(struct net_loop *loop)
{
	if (loop->phase != LOOP_ENDED)
		uv_idle_start(&loop->resume, loop->on_resume);
}

void ready_add(struct net_conn *conn)
{
	struct net_loop *loop = conn->loop;

	if (list_has(&conn->ready))
		return;
	list_append(&loop->ready, &conn->ready);
	loop->ready_count++;
	loop_poll_again(loop);
}

void ready_remove(struct net_conn *conn)
{
	if (!list_has(&conn->ready))
		return;
	list_remove(&conn->loop->ready, &conn->ready);
	conn->loop->ready_count--;
}

size_t net_loop_share(const struct net_loop *loop, size_t whole)
{
	return whole >> loop->halvings;
}

bool net_loop_is_busy(const struct net_loop *loop)
{
	return loop->spent + loop->out.len >= ITERATION_BYTES_MAX;
}

void net_loop_run_again(struct net_loop *loop)
{
	loop->run_again = true;
	loop_poll_again(loop);
}

void net_loop_charge(struct net_loop *loop, size_t bytes)
{
	loop->spent += bytes;
}
