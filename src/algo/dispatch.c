/*
 * dispatch.c: makes limits from options, finds their calendar windows, and calls their algorithm's
 * step, which decides one operation on the state of a key.
 *
 * A state whose end is more than the limit's farthest_ns ahead of now was written under a clock
 * that has been set back since. It is cut: then it ends with the calendar window, or window_ns
 * after now.
 */
#include "algo/algo.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "algo/priority/demand.h"
#include "algo/rates/bucket.h"
#include "algo/rates/calendar.h"
#include "base/error.h"
#include "base/os/cpu.h"
#include "base/time/zone.h"

/*
 * The calendar window that was computed last. Threads write it without a lock, so a thread may read
 * a start and an end of two windows: then `check` does not match them.
 */
struct algo_cache {
	_Atomic uint64_t start_ns, end_ns, check;
};

/* Gives the limit windows of the calendar, such as days in a time zone. */
int algo_use_calendar(struct algo_limit *limit, const struct weir_limit_options *options,
                      uint64_t period, enum weir_unit unit, struct weir_error *error)
{
	struct weir_error why = {0};
	int status = zone_open(options->timezone, &limit->calendar.zone, &why);

	if (status != WEIR_OK)
		return error_set(error, status, "timezone: %s", why.message);
	limit->calendar.period = period;
	limit->calendar.unit = unit;
	limit->calendar.week_start = options->week_start;
	limit->cache = calloc(1, sizeof *limit->cache);
	return limit->cache ? WEIR_OK : error_set(error, WEIR_ENOMEM, "out of memory");
}

/*
 * Returns the width of a state of at least so many cells. Widths double, so that a state wastes at
 * most about half its cells, and seldom has to move.
 */
unsigned algo_width(uint64_t cells)
{
	static const unsigned widths[] = {ALGO_WIDTH_LEAST, 32, 64, 128, 256, 512, 1024, 2048, 4096,
	                                  ALGO_WIDTH_MOST};
	size_t i = 0;

	while (widths[i] < cells)
		i++;
	return widths[i];
}

/* Checks the options, completes them, and lets the algorithm set its parameters. */
int algo_limit_init(struct algo_limit *limit, const struct weir_limit_options *given,
                    struct weir_error *error)
{
	struct weir_limit_options options = *given;
	union algo_own own;
	int status = algorithm_check(given, error);

	*limit = (struct algo_limit){.algorithm = algorithm_of(given->algorithm)};
	if (status != WEIR_OK)
		return status;
	algorithm_resolve(&options, &own);
	limit->record = limit->algorithm->record;
	limit->paced = limit->algorithm->paced;
	limit->retry_ns = options.retry_ns ? options.retry_ns : ALGO_RETRY_DEFAULT_NS;
	limit->queue = options.queue;
	limit->max_wait_ns = options.max_wait_ns;
	limit->keys = options.keys;
	limit->count = options.rate.count;
	limit->period_ns = parameter_period_ns(&options.rate); /* a second if it has no rate */
	limit->quota = options.rate.count;
	limit->window_ns = limit->period_ns;
	status = limit->algorithm->init(limit, &options, error);
	/*
	 * A state further ahead than this is a clock's error. A window of the calendar (`cache`) may be
	 * an eighth longer than the one before it; other states need room for clocks that differ.
	 */
	limit->farthest_ns = u64_max(limit->farthest_ns, limit->window_ns) +
	                     (limit->cache ? limit->window_ns / 8 : ALGO_SKEW_NS);
	if (status != WEIR_OK)
		algo_limit_free(limit);
	return status;
}

/* Copies the limit, with memory of its own for all that it points to. */
int algo_limit_copy(struct algo_limit *copy, const struct algo_limit *limit)
{
	int status = WEIR_OK;

	/* All but `successor`, the last field: another thread may set it meanwhile. */
	memcpy(copy, limit, offsetof(struct algo_limit, successor));
	atomic_init(&copy->successor, NULL);
	copy->calendar.zone = NULL;
	copy->cache = NULL;
	copy->demand = NULL;
	copy->cpu = NULL;
	if (limit->calendar.zone)
		status = zone_open(zone_name(limit->calendar.zone), &copy->calendar.zone, NULL);
	if (status == WEIR_OK && limit->cache) {
		copy->cache = calloc(1, sizeof *copy->cache);
		status = copy->cache ? WEIR_OK : WEIR_ENOMEM;
	}
	if (status == WEIR_OK && limit->demand) {
		copy->demand = demand_open();
		status = copy->demand ? WEIR_OK : WEIR_ENOMEM;
	}
	if (status == WEIR_OK && limit->cpu) {
		copy->cpu = cpu_open("");
		status = copy->cpu ? WEIR_OK : WEIR_ENOMEM;
	}
	if (status != WEIR_OK)
		algo_limit_free(copy);
	return status;
}

void algo_limit_free(struct algo_limit *limit)
{
	zone_close(limit->calendar.zone);
	free(limit->cache);
	demand_close(limit->demand);
	cpu_close(limit->cpu);
	limit->cpu = NULL;
	limit->calendar.zone = NULL;
	limit->cache = NULL;
	limit->demand = NULL;
}

bool algo_has_step(const struct algo_limit *limit, algorithm_step *step)
{
	return algorithm_of(limit->algorithm->id)->step == step;
}

/* The shortest wait behind `earlier` units, each of which takes the rate's interval at least. */
static uint64_t wait_behind_ns(const struct algo_limit *limit, uint64_t earlier)
{
	u128 ns = ((u128)earlier * limit->period_ns + limit->count - 1) / limit->count;

	return ns > limit->max_wait_ns ? ALGO_NEVER : (uint64_t)ns;
}

uint64_t algo_least_wait_ns(const struct algo_limit *limit, uint64_t cost, uint64_t earlier)
{
	if (limit->algorithm->pays_later)
		return wait_behind_ns(limit, earlier);
	return limit->algorithm->least_wait_ns
	           ? limit->algorithm->least_wait_ns(limit, sat_add(cost, earlier))
	           : 0;
}

static uint64_t window_checksum(uint64_t start_ns, uint64_t end_ns)
{
	return (start_ns * UINT64_C(0x9e3779b97f4a7c15)) ^ (end_ns * UINT64_C(0xc2b2ae3d27d4eb4f)) ^ 1;
}

/* Returns the calendar window that contains a time, from the cache if that has it. */
struct algo_window algo_window_at(const struct algo_limit *limit, uint64_t wall_ns)
{
	struct algo_cache *cache = limit->cache;
	uint64_t start = atomic_load_explicit(&cache->start_ns, memory_order_relaxed);
	uint64_t end = atomic_load_explicit(&cache->end_ns, memory_order_relaxed);
	struct calendar_window window;

	if (start <= wall_ns && wall_ns < end &&
	    atomic_load_explicit(&cache->check, memory_order_relaxed) == window_checksum(start, end))
		return (struct algo_window){start, end};
	window = calendar_window_at(&limit->calendar, (int64_t)u64_min(wall_ns, INT64_MAX));
	start = (uint64_t)(window.start_ns > 0 ? window.start_ns : 0);
	end = (uint64_t)window.end_ns;
	atomic_store_explicit(&cache->start_ns, start, memory_order_relaxed);
	atomic_store_explicit(&cache->end_ns, end, memory_order_relaxed);
	atomic_store_explicit(&cache->check, window_checksum(start, end), memory_order_relaxed);
	return (struct algo_window){start, end};
}

struct algo_time algo_time_at(const struct algo_limit *limit, struct moment at)
{
	if (!limit->cache)
		return (struct algo_time){at.now_ns, 0};
	return (struct algo_time){at.wall_ns, algo_window_at(limit, at.wall_ns).end_ns};
}

/*
 * Converts a state written under the parameters `from`. Returns the end that it has with all its
 * units; the state itself is cut if that end is too far ahead.
 */
uint64_t algo_convert_now(const struct algo_limit *limit, const struct algo_layout *from,
                          uint64_t now_ns, struct algo_state *state)
{
	struct algo_converted converted =
	    limit->algorithm->convert(limit, from, now_ns, now_ns, *state);
	bool is_far = converted.whole.until_ns > now_ns + limit->farthest_ns;

	*state = is_far ? converted.cut : converted.whole;
	return converted.whole.until_ns;
}

/* Lets `next`, of a new configuration, take over the states of `limit`. */
void algo_hand_over(struct algo_limit *limit, struct algo_limit *next)
{
	if (limit->algorithm->before_takeover)
		limit->algorithm->before_takeover(limit, next);
	atomic_store(&limit->successor, next);
	if (limit->algorithm->after_takeover)
		limit->algorithm->after_takeover(limit, next);
}

/*
 * Sets the share of requests that the limit denies. Repeats for a successor that takes over
 * meanwhile.
 */
int algo_shed(const struct algo_limit *limit, double deny)
{
	if (!limit->algorithm->set_share)
		return WEIR_EINVAL;
	if (!(deny >= 0 && deny <= 1))
		return WEIR_ERANGE;
	do {
		limit = algo_current(limit);
		limit->algorithm->set_share(limit, deny);
	} while (atomic_load(&((struct algo_limit *)limit)->successor));
	return WEIR_OK;
}

/*
 * Returns the end of a state that is too far ahead, cut if necessary. Takes and returns numbers
 * only: if the state's address went to a function, callers could not keep it in registers.
 */
__attribute__((noinline, cold)) static uint64_t cut_back_end(const struct algo_limit *limit,
                                                             uint64_t now_ns,
                                                             uint64_t window_end_ns,
                                                             uint64_t until_ns)
{
	uint64_t nearest_ns = limit->cache ? window_end_ns : now_ns;

	/* Calendar windows differ in length, so their ends are measured from the end of this one. */
	if (until_ns - nearest_ns <= limit->farthest_ns)
		return until_ns;
	return limit->cache ? nearest_ns : nearest_ns + limit->window_ns;
}

static inline bool dispatch_step(const struct algo_limit *limit, const struct algo_call *call,
                                 const struct algo_time *time, struct algo_state *state,
                                 struct algo_decision *out)
{
	algo_decision_allow(out);
	if (limit->algorithm->step == bucket_step) /* the most frequent: this call is inlined */
		return bucket_step(limit, call, time, state, out);
	return limit->algorithm->step(limit, call, time, state, out);
}

/*
 * Runs the step. If it denies because the state is too far ahead, cuts the state and runs it again.
 * A state too far ahead always leads to a denial, so other decisions need no check.
 */
bool algo_step(const struct algo_limit *limit, const struct algo_call *call,
               const struct algo_time *time, struct algo_state *state, struct algo_decision *out)
{
	bool changed = dispatch_step(limit, call, time, state, out);

	if (__builtin_expect(!out->allowed, 0) &&
	    __builtin_expect(algo_is_too_far_ahead(limit, time, state), 0) &&
	    algo_op_requests(call->op)) {
		uint64_t until_ns = cut_back_end(limit, time->now_ns, time->window_end_ns, state->until_ns);

		if (until_ns != state->until_ns) {
			state->until_ns = until_ns;
			if (limit->algorithm->cut)
				limit->algorithm->cut(limit, state);
			dispatch_step(limit, call, time, state, out);
			changed = call->op == ALGO_ACQUIRE; /* a peek writes nothing */
		}
	}
	return changed;
}
