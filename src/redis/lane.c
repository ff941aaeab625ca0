#include "base/draw.h"
#include "redis/batch.h"
#include "redis/gather.h"
#include "redis/known/known.h"
#include "redis/nodes/node.h"

#include <stdlib.h>

static struct redis_lane *lane_of(struct store_lane *lane)
{
	return (struct redis_lane *)lane;
}

static void send_batch(struct redis_lane *lane)
{
	struct task *first = batch_take(&lane->batch);

	if (!first)
		return;
	lane->has_sent = true;
	nodes_send(lane, first);
}

/* Cuts up to STEP_CALL_MAX jobs off the chain. */
static struct store_job *cut(struct store_job **chain, size_t *n)
{
	struct store_job *first = *chain, **end = chain;

	for (*n = 0; *end && *n < STEP_CALL_MAX; ++*n)
		end = &(*end)->next;
	*chain = *end;
	*end = NULL;
	return first;
}

void redis_lane_submit(struct store_lane *store_lane, struct store_job *chain)
{
	struct redis_lane *lane = lane_of(store_lane);
	bool together = chain && chain->next && chain->together;
	size_t jobs_before = lane->jobs;

	for (const struct store_job *job = chain; job; job = job->next)
		lane->jobs++;
	if (lane->jobs > LANE_JOBS_MAX && jobs_before > 0) {
		batch_refuse(lane, chain, WEIR_ESTORE);
		return;
	}
	while (chain) {
		size_t n;
		struct store_job *jobs = cut(&chain, &n);

		together &= !chain; /* what is in one call can be all or nothing */
		if (lane->batch.count > 0 && lane->batch.count + n > STEP_CALL_FULL)
			send_batch(lane);
		batch_add(lane, jobs, together);
	}
}

/* Gives back units that the lane took from Redis in advance and nobody uses. */
static void give_back(struct redis_lane *lane)
{
	struct store_job *jobs = known_idle(lane);

	if (jobs)
		redis_lane_submit(&lane->lane, jobs);
	if (lane->idle_ns != 0 && !lane->is_closing)
		lane_alarm_at(lane, lane->idle_ns);
}

void redis_lane_stop(struct store_lane *lane)
{
	lane_of(lane)->is_stopping = true;
}

void redis_lane_begin(struct store_lane *lane)
{
	lane_of(lane)->now_ns = 0;
}

void redis_lane_flush(struct store_lane *store_lane)
{
	struct redis_lane *lane = lane_of(store_lane);

	if (lane->is_stopping)
		give_back(lane);
	lane->is_held = lane->batch.count > 0 && gather_waits(lane);
	if (!lane->is_held)
		send_batch(lane);
	lane->has_sent = false;
	lane->now_ns = 0;
}

void redis_lane_tick(struct store_lane *store_lane, uint64_t monotonic_ns)
{
	struct redis_lane *lane = lane_of(store_lane);

	lane->now_ns = monotonic_ns;
	lane->alarm_ns = 0;
	nodes_tick(lane);
	give_back(lane);
	gather_tick(lane);
	redis_lane_flush(store_lane);
}

size_t redis_lane_steps(const struct store_lane *lane)
{
	return ((const struct redis_lane *)lane)->steps;
}

bool redis_lane_is_awaited(const struct store_lane *lane)
{
	return nodes_are_awaited((const struct redis_lane *)lane);
}

int redis_lane_open(struct store *store, struct redis_port *port, struct store_lane **out)
{
	struct redis_lane *lane = calloc(1, sizeof *lane);

	*out = NULL;
	if (!lane)
		return WEIR_ENOMEM;
	lane->lane.store = store;
	lane->store = (struct redis_store *)store;
	lane->port = port;
	lane->turn = (uint32_t)draw_next() | 1; /* never 0 */
	batch_open(&lane->batch);
	if (lane->store->url.master)
		lane_alarm_at(lane, 1); /* at once: to ask Sentinels */
	task_list_clear(&lane->again);
	task_list_clear(&lane->later);
	pthread_mutex_lock(&lane->store->lock);
	lane->next = lane->store->lanes;
	lane->store->lanes = lane;
	pthread_mutex_unlock(&lane->store->lock);
	*out = &lane->lane;
	return WEIR_OK;
}

void redis_lane_close(struct store_lane *store_lane)
{
	struct redis_lane *lane = lane_of(store_lane), **at;
	struct redis_store *store = lane->store;

	lane->is_closing = true;
	give_back(lane);
	send_batch(lane); /* which fails them */
	nodes_close(lane);
	send_batch(lane); /* what was submitted meanwhile */
	if (lane->alarm_ns != 0)
		lane->port->kind->alarm(lane->port, 0);
	pthread_mutex_lock(&store->lock);
	for (at = &store->lanes; *at != lane;)
		at = &(*at)->next;
	*at = lane->next;
	store_add_counts(&store->closed, &lane->counts);
	pthread_mutex_unlock(&store->lock);
	batch_close(lane);
	free(lane);
}
