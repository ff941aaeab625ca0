#include "redis/gather.h"

/* So few requests are not gathered. */
#define FEW 8

/* After so many answers more requests are awaited. */
#define MANY 4

/* The longest wait for clients that were answered: as long as they waited, and at most this. */
#define LONGEST_NS NS_PER_MS

/* After each wait in vain, twice as many calls go by before the next, at most so many. */
#define REST_MAX 64

/* Ends a wait for clients. */
static void end(struct redis_lane *lane)
{
	struct gather *gather = &lane->gather;
	bool has_paid = lane->jobs >= gather->least;

	gather->until_ns = 0;
	gather->penalty = has_paid ? 0 : u64_min(2 * gather->penalty + 1, REST_MAX);
	gather->rest = gather->penalty;
}

/* It would be one step with those behind it, and the one on its way comes first. */
static bool is_of_newest_key(const struct redis_lane *lane)
{
	const struct task *task = lane->batch.tasks.first;

	return lane->batch.count == 1 && task->jobs->step.key.hash == lane->gather.newest_key;
}

void gather_answered(struct redis_lane *lane)
{
	struct gather *gather = &lane->gather;
	uint64_t answered = gather->answered;

	if (lane->on_the_way > 0 || answered == 0)
		return;
	gather->answered = 0;
	if (!lane->port->kind->has_clients || answered < MANY || lane->is_closing ||
	    lane->store->url.cluster)
		return;
	if (gather->rest > 0) {
		gather->rest--;
		return;
	}
	gather->least = lane->jobs + answered - answered / 4;
	gather->most = lane->jobs + answered;
	gather->until_ns = lane_now_ns(lane) + u64_min(gather->round_ns, LONGEST_NS);
	lane_alarm_at(lane, gather->until_ns);
}

bool gather_waits(struct redis_lane *lane)
{
	struct gather *gather = &lane->gather;

	if (lane->has_sent || lane->store->url.cluster || lane->is_closing)
		return false;
	if (lane->on_the_way > 0)
		return lane->jobs > FEW || is_of_newest_key(lane);
	if (gather->until_ns != 0 && lane->jobs >= gather->most)
		end(lane);
	return gather->until_ns != 0;
}

void gather_tick(struct redis_lane *lane)
{
	if (lane->gather.until_ns == 0)
		return;
	if (lane->gather.until_ns <= lane_now_ns(lane))
		end(lane);
	else
		lane_alarm_at(lane, lane->gather.until_ns);
}
