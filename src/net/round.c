/* round.c: shares out the work of a loop; internal.h says how. */
#include "net/internal.h"

static void share_among(struct net_loop *loop, size_t count)
{
	while (loop->halvings < SHARE_HALVINGS && count >= (size_t)SHARE_WHOLE << loop->halvings)
		loop->halvings++;
}

void round_begin(struct net_loop *loop)
{
	loop->round++;
	loop->spent = 0;
	loop->halvings = 0;
	share_among(loop, loop->handed + loop->ready_count);
	loop->handed = 0;
}

void round_hand_over(struct net_loop *loop)
{
	share_among(loop, ++loop->handed);
}

void round_go_on(struct net_loop *loop)
{
	if (loop->phase != LOOP_ENDED)
		uv_idle_start(&loop->resume, loop->on_resume);
}

void round_add_ready(struct net_conn *conn)
{
	struct net_loop *loop = conn->loop;

	if (list_has(&conn->ready))
		return;
	list_append(&loop->ready, &conn->ready);
	loop->ready_count++;
	round_go_on(loop);
}

void round_remove_ready(struct net_conn *conn)
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
	return loop->spent + loop->out.len >= ROUND_MAX;
}

void net_loop_again(struct net_loop *loop)
{
	loop->again = true;
	round_go_on(loop);
}

void net_loop_spend(struct net_loop *loop, size_t bytes)
{
	loop->spent += bytes;
}
