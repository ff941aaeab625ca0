/* limit.c: from options to parameters, and the dispatch over algorithms. */
#include "algo/algo.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "algo/calendar.h"
#include "base/error.h"
#include "base/zone.h"

#define ALGORITHMS (WEIR_CONCURRENCY + 1)
#define KIND(algorithm) (1U << (algorithm))
#define BUCKETS                                                                                    \
	(KIND(WEIR_TOKEN_BUCKET) | KIND(WEIR_LEAKY_BUCKET) | KIND(WEIR_PACER) | KIND(WEIR_LEAKY_QUEUE))
#define WIDE                                                                                       \
	(KIND(WEIR_SLIDING_WINDOW) | KIND(WEIR_SLIDING_COUNTER) | KIND(WEIR_SLIDING_LOG) |             \
	 KIND(WEIR_BASE) | KIND(WEIR_CONCURRENCY)) /* their states have tables of their own */
#define TIMELESS (KIND(WEIR_RANDOM) | KIND(WEIR_CONCURRENCY)) /* they have no rate */

/*
 * The last window found, so that the calendar is worked out once a window.
 * Threads write it without a lock; `check` gives away a pair that was read
 * while another was being written.
 */
struct algo_cache {
	_Atomic uint64_t start_ns, end_ns, check;
};

static const uint64_t unit_ns[] = {
    [WEIR_SECOND] = NS_PER_S,
    [WEIR_NANOSECOND] = 1,
    [WEIR_MILLISECOND] = NS_PER_MS,
    [WEIR_MINUTE] = 60 * NS_PER_S,
    [WEIR_HOUR] = 3600 * NS_PER_S,
    [WEIR_DAY] = NS_PER_DAY,
    [WEIR_WEEK] = 7 * NS_PER_DAY,
    [WEIR_MONTH] = 31 * NS_PER_DAY, /* the longest; only the calendar has these */
    [WEIR_YEAR] = 366 * NS_PER_DAY,
};

static int period_of(const struct weir_limit_options *options, uint64_t *period_ns,
                     struct weir_error *error)
{
	const struct weir_rate *rate = &options->rate;
	uint64_t units = rate->period ? rate->period : 1;
	bool by_calendar = rate->unit == WEIR_MONTH || rate->unit == WEIR_YEAR;

	if (rate->count < 1 || rate->count > ALGO_COUNT_MAX)
		return error_set(error, WEIR_ERANGE, "rate: expected a count of 1 to %llu, found %llu",
		                 (unsigned long long)ALGO_COUNT_MAX, (unsigned long long)rate->count);
	if ((unsigned)rate->unit > WEIR_YEAR)
		return error_set(error, WEIR_EINVAL, "rate: expected a unit of time, found %d",
		                 (int)rate->unit);
	if (by_calendar &&
	    (options->algorithm != WEIR_FIXED_WINDOW || options->align != WEIR_ALIGN_CALENDAR))
		return error_set(error, WEIR_EINVAL,
		                 "rate: expected a period of fixed length, found months or years, which "
		                 "only calendar windows (fixed_window) have");
	if (units > (rate->unit == WEIR_MONTH ? 12 : ALGO_PERIOD_MAX_NS / unit_ns[rate->unit]))
		return error_set(error, WEIR_ERANGE, "rate: expected a period of a year at most");
	*period_ns = u64_min(units * unit_ns[rate->unit], ALGO_PERIOD_MAX_NS);
	return WEIR_OK;
}

/* An option where 0 means the default, and WEIR_ZERO none. */
static uint64_t option(uint64_t value, uint64_t otherwise)
{
	return value == 0 ? otherwise : value == WEIR_ZERO ? 0 : value;
}

static int init_bucket(struct algo_limit *limit, const struct weir_limit_options *options,
                       struct weir_error *error)
{
	bool pacer = options->algorithm == WEIR_PACER, queue = options->algorithm == WEIR_LEAKY_QUEUE;
	uint64_t burst = options->burst ? options->burst : options->rate.count;
	uint64_t slack = option(options->slack, ALGO_SLACK_DEFAULT);
	uint64_t max_wait_ns =
	    option(options->max_wait_ns, pacer ? ALGO_WAIT_DEFAULT_NS : ALGO_HORIZON_NS);
	const char *word = pacer                                         ? "slack"
	                   : options->algorithm == WEIR_TOKEN_BUCKET ? "burst"
	                                                             : "capacity";
	struct bucket_shape shape = {burst, 0, 0};

	if (burst > ALGO_COUNT_MAX)
		return error_set(error, WEIR_ERANGE, "%s: expected 1 to %llu, found %llu", word,
		                 (unsigned long long)ALGO_COUNT_MAX, (unsigned long long)burst);
	if (slack > ALGO_SLACK_MAX)
		return error_set(error, WEIR_ERANGE, "slack: expected at most %llu, found %llu",
		                 (unsigned long long)ALGO_SLACK_MAX, (unsigned long long)slack);
	if (pacer)
		shape = (struct bucket_shape){slack + 1, ALGO_TURNS_MAX, max_wait_ns};
	else if (queue)
		shape = (struct bucket_shape){1, burst, max_wait_ns};
	if (!bucket_init(&limit->bucket, options->rate.count, limit->period_ns, &shape))
		return error_set(error, WEIR_ERANGE,
		                 "%s: expected to be refilled within 16 years, found more", word);
	limit->is_whole = limit->bucket.q == 1;
	limit->paced = pacer || queue;
	limit->quota = bucket_quota(&limit->bucket);
	limit->window_ns = u64_max(limit->bucket.depth.ns, 1);
	return WEIR_OK;
}

static int init_calendar(struct algo_limit *limit, const struct weir_limit_options *options,
                         uint64_t period, enum weir_unit unit, struct weir_error *error)
{
	int status = zone_open(options->timezone ? options->timezone : "UTC", &limit->calendar.zone,
	                       error);

	if (status != WEIR_OK)
		return status;
	limit->calendar.period = period;
	limit->calendar.unit = unit;
	limit->calendar.week_start = options->week_start;
	limit->cache = calloc(1, sizeof *limit->cache);
	return limit->cache ? WEIR_OK : error_set(error, WEIR_ENOMEM, "out of memory");
}

static int init_window(struct algo_limit *limit, const struct weir_limit_options *options,
                       struct weir_error *error)
{
	limit->window = (struct window_params){
	    .count = options->rate.count,
	    .period_ns = limit->period_ns,
	    .aligned = options->algorithm == WEIR_FIXED_WINDOW && options->align == WEIR_ALIGN_CALENDAR,
	};
	if (!limit->window.aligned)
		return WEIR_OK;
	return init_calendar(limit, options, options->rate.period ? options->rate.period : 1,
	                     options->rate.unit, error);
}

/* Twice as many each, so that a row is hardly more than half empty, and growth seldom moves it. */
static unsigned width_of(uint64_t cells)
{
	static const unsigned widths[] = {ALGO_WIDTH_LEAST, 32, 64, 128, 256, 512, 1024, 2048, 4096,
	                                  ALGO_WIDTH_MOST};
	size_t i = 0;

	while (widths[i] < cells)
		i++;
	return widths[i];
}

static void join_slots(struct algo_limit *limit)
{
	limit->rows = ALGO_ROWS_SLOTS;
	limit->generation = slots_generation(limit->slots.slots, limit->slots.count);
	limit->is_summed = !(limit->generation & SLOTS_BARE);
	limit->width = width_of(limit->slots.slots);
}

static int init_slots(struct algo_limit *limit, const struct weir_limit_options *options,
                      struct weir_error *error)
{
	uint32_t slots = options->slots ? options->slots : ALGO_SLOTS_DEFAULT;

	if (slots > ALGO_SLOTS_MAX)
		return error_set(error, WEIR_ERANGE, "slots: expected 1 to %d, found %u", ALGO_SLOTS_MAX,
		                 slots);
	/* Times are whole nanoseconds: finer slots tell nothing more, and their numbers overflow. */
	slots = (uint32_t)u64_min(slots, limit->period_ns);
	limit->slots = (struct slots_params){
	    .count = options->rate.count,
	    .period_ns = limit->period_ns,
	    .slot_ns = limit->period_ns / slots,
	    .slots = slots,
	    .whole = limit->period_ns % slots == 0,
	};
	join_slots(limit);
	return WEIR_OK;
}

static void init_counter(struct algo_limit *limit, const struct weir_limit_options *options)
{
	limit->slots = (struct slots_params){
	    .count = options->rate.count,
	    .period_ns = 2 * limit->period_ns,
	    .slot_ns = limit->period_ns,
	    .slots = 2,
	    .whole = true,
	    .weighted = true,
	};
	join_slots(limit);
}

static int init_log(struct algo_limit *limit, const struct weir_limit_options *options,
                    struct weir_error *error)
{
	if (options->rate.count > ALGO_LOG_MAX)
		return error_set(error, WEIR_ERANGE,
		                 "rate: expected a count of 1 to %d in a log, found %llu", ALGO_LOG_MAX,
		                 (unsigned long long)options->rate.count);
	limit->log = (struct log_params){options->rate.count, limit->period_ns};
	limit->rows = ALGO_ROWS_LOG;
	limit->width = width_of(options->rate.count + 1);
	return WEIR_OK;
}

/* What passes at once is what passes in a day, if nothing comes later. */
static int init_base(struct algo_limit *limit, const struct weir_limit_options *options,
                     struct weir_error *error)
{
	uint64_t count = options->rate.count, most = ALGO_COUNT_MAX - count + 1;

	if (options->base < 1 || options->base > most)
		return error_set(error, WEIR_ERANGE, "base: expected 1 to %llu, found %llu",
		                 (unsigned long long)most, (unsigned long long)options->base);
	limit->day = (struct day_params){options->base - 1, count, limit->period_ns};
	limit->quota = options->base - 1 + count;
	limit->window_ns = NS_PER_DAY;
	limit->rows = ALGO_ROWS_DAY;
	limit->width = ALGO_WIDTH_LEAST;
	return init_calendar(limit, options, 1, WEIR_DAY, error);
}

/* It has no period. Where one is needed, such as to tell rates, that is a second. */
static int init_random(struct algo_limit *limit, const struct weir_limit_options *options,
                       struct weir_error *error)
{
	uint64_t deny;

	if (!(options->deny >= 0 && options->deny <= 1))
		return error_set(error, WEIR_ERANGE, "deny: expected 0 to 1, found %g", options->deny);
	deny = random_threshold(options->deny);
	limit->random = (struct random_params){
	    deny, deny, options->retry_ns ? options->retry_ns : ALGO_RETRY_DEFAULT_NS};
	limit->quota = ALGO_COUNT_MAX;
	limit->window_ns = 0;
	return WEIR_OK;
}

static int init_permits(struct algo_limit *limit, const struct weir_limit_options *options,
                        struct weir_error *error)
{
	uint64_t lease_ns = options->lease_ns ? options->lease_ns : ALGO_LEASE_DEFAULT_NS;

	if (options->max < 1 || options->max > ALGO_PERMITS_MAX)
		return error_set(error, WEIR_ERANGE, "max: expected 1 to %d, found %llu", ALGO_PERMITS_MAX,
		                 (unsigned long long)options->max);
	if (options->queue > ALGO_QUEUE_MAX)
		return error_set(error, WEIR_ERANGE, "queue: expected at most %llu, found %llu",
		                 (unsigned long long)ALGO_QUEUE_MAX, (unsigned long long)options->queue);
	if (lease_ns > ALGO_PERIOD_MAX_NS)
		return error_set(error, WEIR_ERANGE, "lease: expected a year at most");
	limit->places = (struct places_params){
	    .max = options->max,
	    .lease_ns = lease_ns,
	    .retry_ns = options->retry_ns ? options->retry_ns : ALGO_RETRY_DEFAULT_NS,
	    .queue = options->queue,
	    .max_wait_ns = option(options->max_wait_ns, ALGO_WAIT_DEFAULT_NS),
	};
	limit->quota = options->max;
	limit->window_ns = lease_ns;
	limit->rows = ALGO_ROWS_PLACES;
	limit->width = width_of(options->max);
	return WEIR_OK;
}

/* What does not belong to the algorithm is refused, not ignored. */
static int check_foreign(const struct weir_limit_options *options, struct weir_error *error)
{
	bool calendar = options->algorithm == WEIR_FIXED_WINDOW && options->align == WEIR_ALIGN_CALENDAR;
	const struct {
		bool given;
		unsigned kinds;
		const char *expected;
	} parameters[] = {
	    {options->burst, BUCKETS & ~KIND(WEIR_PACER), "burst: expected with a bucket only"},
	    {options->slots, KIND(WEIR_SLIDING_WINDOW), "slots: expected with sliding_window only"},
	    {options->align, KIND(WEIR_FIXED_WINDOW), "align: expected with fixed_window only"},
	    {options->slack, KIND(WEIR_PACER), "slack: expected with pacer only"},
	    {options->max_wait_ns,
	     KIND(WEIR_PACER) | KIND(WEIR_LEAKY_QUEUE) | KIND(WEIR_CONCURRENCY),
	     "max_wait: expected with pacer, leaky_queue and concurrency only"},
	    {options->deny != 0, KIND(WEIR_RANDOM), "deny: expected with random only"},
	    {options->base, KIND(WEIR_BASE), "base: expected with base only"},
	    {options->retry_ns, TIMELESS, "retry: expected with random and concurrency only"},
	    {options->rate.count || options->rate.period || options->rate.unit, ~TIMELESS,
	     "rate: expected with any algorithm but random and concurrency"},
	    {options->max, KIND(WEIR_CONCURRENCY), "max: expected with concurrency only"},
	    {options->queue, KIND(WEIR_CONCURRENCY), "queue: expected with concurrency only"},
	    {options->lease_ns, KIND(WEIR_CONCURRENCY), "lease: expected with concurrency only"},
	    {options->keys, WIDE,
	     "keys: expected with sliding_window, sliding_counter, sliding_log, base and concurrency "
	     "only; all others share the store's capacity"},
	};

	if ((unsigned)options->algorithm >= ALGORITHMS)
		return error_set(error, WEIR_EINVAL, "algorithm: expected a known one, found %d",
		                 (int)options->algorithm);
	for (size_t i = 0; i < sizeof parameters / sizeof *parameters; i++)
		if (parameters[i].given && !(parameters[i].kinds & KIND(options->algorithm)))
			return error_set(error, WEIR_EINVAL, "%s", parameters[i].expected);
	if (options->timezone && !calendar && options->algorithm != WEIR_BASE)
		return error_set(error, WEIR_EINVAL,
		                 "timezone: expected with calendar windows and base only");
	if (options->week_start && !calendar)
		return error_set(error, WEIR_EINVAL, "week_start: expected with calendar windows only");
	if (options->max_wait_ns != WEIR_ZERO && options->max_wait_ns > ALGO_PERIOD_MAX_NS)
		return error_set(error, WEIR_ERANGE, "max_wait: expected a year at most");
	if (options->retry_ns > ALGO_PERIOD_MAX_NS)
		return error_set(error, WEIR_ERANGE, "retry: expected a year at most");
	if (options->keys > WEIR_CAPACITY_MAX)
		return error_set(error, WEIR_ERANGE, "keys: expected 1 to %llu, found %llu",
		                 (unsigned long long)WEIR_CAPACITY_MAX, (unsigned long long)options->keys);
	if ((unsigned)options->align > WEIR_ALIGN_FIRST_REQUEST)
		return error_set(error, WEIR_EINVAL, "align: expected calendar or first_request, found %d",
		                 (int)options->align);
	if ((unsigned)options->week_start > WEIR_SUNDAY)
		return error_set(error, WEIR_EINVAL, "week_start: expected a day of the week, found %d",
		                 (int)options->week_start);
	return WEIR_OK;
}

int algo_limit_init(struct algo_limit *limit, const struct weir_limit_options *options,
                    struct weir_error *error)
{
	int status = check_foreign(options, error);

	*limit = (struct algo_limit){.algorithm = options->algorithm, .keys = options->keys};
	limit->period_ns = NS_PER_S;
	if (status == WEIR_OK && !(TIMELESS & KIND(options->algorithm)))
		status = period_of(options, &limit->period_ns, error);
	if (status != WEIR_OK)
		return status;
	limit->quota = options->rate.count;
	limit->window_ns = limit->period_ns;
	switch (options->algorithm) {
	case WEIR_TOKEN_BUCKET:
	case WEIR_LEAKY_BUCKET:
	case WEIR_PACER:
	case WEIR_LEAKY_QUEUE:
		status = init_bucket(limit, options, error);
		break;
	case WEIR_FIXED_WINDOW:
	case WEIR_RESETTING_BUCKET:
		status = init_window(limit, options, error);
		break;
	case WEIR_SLIDING_WINDOW:
		status = init_slots(limit, options, error);
		break;
	case WEIR_SLIDING_COUNTER:
		init_counter(limit, options);
		break;
	case WEIR_SLIDING_LOG:
		status = init_log(limit, options, error);
		break;
	case WEIR_RANDOM:
		status = init_random(limit, options, error);
		break;
	case WEIR_BASE:
		status = init_base(limit, options, error);
		break;
	case WEIR_CONCURRENCY:
		status = init_permits(limit, options, error);
		break;
	}
	/* As far ahead as a calendar's next window can end, or ALGO_SKEW_NS more than any other. */
	limit->farthest_ns = limit->window_ns + (limit->cache ? limit->window_ns / 8 : ALGO_SKEW_NS);
	if (status != WEIR_OK)
		algo_limit_free(limit);
	return status;
}

void algo_limit_free(struct algo_limit *limit)
{
	zone_close(limit->calendar.zone);
	free(limit->cache);
	limit->calendar.zone = NULL;
	limit->cache = NULL;
}

static uint64_t cache_check(uint64_t start_ns, uint64_t end_ns)
{
	return (start_ns * UINT64_C(0x9e3779b97f4a7c15)) ^ (end_ns * UINT64_C(0xc2b2ae3d27d4eb4f)) ^ 1;
}

static uint64_t window_end(const struct algo_limit *limit, uint64_t wall_ns)
{
	struct algo_cache *cache = limit->cache;
	uint64_t start = atomic_load_explicit(&cache->start_ns, memory_order_relaxed);
	uint64_t end = atomic_load_explicit(&cache->end_ns, memory_order_relaxed);
	struct calendar_window window;

	if (start <= wall_ns && wall_ns < end &&
	    atomic_load_explicit(&cache->check, memory_order_relaxed) == cache_check(start, end))
		return end;
	window = calendar_window_at(&limit->calendar, (int64_t)u64_min(wall_ns, INT64_MAX));
	start = (uint64_t)(window.start_ns > 0 ? window.start_ns : 0);
	end = (uint64_t)window.end_ns;
	atomic_store_explicit(&cache->start_ns, start, memory_order_relaxed);
	atomic_store_explicit(&cache->end_ns, end, memory_order_relaxed);
	atomic_store_explicit(&cache->check, cache_check(start, end), memory_order_relaxed);
	return end;
}

struct algo_time algo_time_at(const struct algo_limit *limit, struct moment at)
{
	if (!limit->cache)
		return (struct algo_time){at.now_ns, 0};
	return (struct algo_time){at.wall_ns, window_end(limit, at.wall_ns)};
}

/*
 * Of two numbers of slots that follow one another the generations differ, as those of the
 * two forms always do.
 */
static void succeed_wide(const struct algo_limit *limit, struct algo_limit *next)
{
	unsigned differ = limit->generation ^ next->generation;

	if (limit->rows == ALGO_ROWS_SLOTS && !(differ & SLOTS_BARE)) {
		if (limit->slots.slots == next->slots.slots)
			next->generation = limit->generation;
		else if (differ == 0)
			next->generation ^= SLOTS_OTHER;
	}
}

/*
 * Once `next` is the successor: whoever changes the share stores it first and then
 * looks for one, so it is read here, or stored in `next` by then.
 */
static void keep_shed(struct random_params *params, struct random_params *next)
{
	uint64_t given = next->deny;

	atomic_compare_exchange_strong(&next->deny_now, &given, atomic_load(&params->deny_now));
}

void algo_succeed(struct algo_limit *limit, struct algo_limit *next)
{
	if (limit->width != 0)
		succeed_wide(limit, next);
	atomic_store(&limit->successor, next);
	if (limit->algorithm == WEIR_RANDOM && limit->random.deny == next->random.deny)
		keep_shed(&limit->random, &next->random);
}

/* In what takes over meanwhile, too. */
int algo_shed(const struct algo_limit *limit, double deny)
{
	if (limit->algorithm != WEIR_RANDOM)
		return WEIR_EINVAL;
	if (!(deny >= 0 && deny <= 1))
		return WEIR_ERANGE;
	do {
		limit = algo_current(limit);
		atomic_store(&((struct algo_limit *)limit)->random.deny_now, random_threshold(deny));
	} while (atomic_load(&((struct algo_limit *)limit)->successor));
	return WEIR_OK;
}

/* One number in, one out: a state that is passed whole would be in memory for all. */
__attribute__((noinline, cold)) static uint64_t
cut_back(const struct algo_limit *limit, uint64_t now_ns, uint64_t window_end_ns, uint64_t until_ns)
{
	uint64_t nearest_ns = limit->cache ? window_end_ns : now_ns;

	/* Calendar windows differ in length, so theirs is judged from the end of this one. */
	if (until_ns - nearest_ns <= limit->farthest_ns)
		return until_ns;
	return limit->cache ? nearest_ns : nearest_ns + limit->window_ns;
}

static bool dispatch(const struct algo_limit *limit, const struct algo_call *call,
                     const struct algo_time *time, struct algo_state *state,
                     struct algo_outcome *out)
{
	algo_outcome_open(out);
	switch (limit->algorithm) {
	case WEIR_TOKEN_BUCKET:
	case WEIR_LEAKY_BUCKET:
	case WEIR_PACER:
	case WEIR_LEAKY_QUEUE:
		return bucket_step(&limit->bucket, call, time, state, out);
	case WEIR_FIXED_WINDOW:
	case WEIR_RESETTING_BUCKET:
		return window_step(&limit->window, call, time, state, out);
	case WEIR_RANDOM:
		return random_step(&limit->random, call, out);
	default:
		break;
	}
	__builtin_unreachable(); /* algo_limit_init lets no other through, and others' states are wide */
}

/* What is too far ahead is denied, so nobody else is asked whether it is. */
bool algo_step(const struct algo_limit *limit, const struct algo_call *call,
               const struct algo_time *time, struct algo_state *state, struct algo_outcome *out)
{
	bool changed = dispatch(limit, call, time, state, out);

	if (__builtin_expect(!out->allowed, 0) &&
	    __builtin_expect(algo_is_far(limit, time, state), 0)) {
		uint64_t until_ns = cut_back(limit, time->now_ns, time->window_end_ns, state->until_ns);

		if (until_ns != state->until_ns) {
			state->until_ns = until_ns;
			if (algo_is_bucket(limit))
				state->word = limit->bucket.depth.under;
			dispatch(limit, call, time, state, out);
			changed = call->op == ALGO_ACQUIRE; /* a peek writes nothing */
		}
	}
	return changed;
}

bool algo_step_whole(const struct algo_limit *limit, const struct algo_call *call,
                     const struct algo_time *time, struct algo_state *state,
                     struct algo_outcome *out)
{
	algo_outcome_open(out);
	return bucket_step_whole(&limit->bucket, call, time, state, out);
}
