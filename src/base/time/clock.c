/*
 * clock.c: reads the system's clock, and draws the line by which clock_now (clock.h) converts the
 * processor's counter, whose reading costs less. A *line* goes through two pairs of (counter,
 * system's time). It is followed for half a millisecond, and then replaced by the next one. No
 * reading is below the *floor*, to which all readings and the ends of lines raise it.
 */
#include "base/time/clock.h"

uint64_t clock_offset(void)
{
	return os_wall_ns() - os_monotonic_ns();
}

struct clock clock_start(uint64_t offset_ns, bool by_counter)
{
	return (struct clock){
	    .line.slope = by_counter && os_trusts_counter() ? 0 : CLOCK_NO_SLOPE,
	    .offset_ns = offset_ns,
	};
}

/* Raises *least to `ns` if it is lower. Returns the value after that. */
uint64_t clock_raise(uint64_t *least, uint64_t ns)
{
	uint64_t before = __atomic_load_n(least, __ATOMIC_RELAXED);

	while (before < ns && !__atomic_compare_exchange_n(least, &before, ns, true, __ATOMIC_RELAXED,
	                                                   __ATOMIC_RELAXED))
		;
	return u64_max(before, ns);
}

/*
 * Returns the line that replaces `line` at its end: it begins at `pair`, with the slope from the
 * beginning of `line` to there. Begins anew, without a slope, after a pause or a step of the
 * counter. Returns `line` itself if the pair is too near or too wide for an exact slope. The new
 * line is followed (its span is not 0) only if its slope agrees with the one before. So a single
 * disturbance, between two pairs or inside one, spoils at most one line, which no reading follows.
 */
static struct clock_line next_clock_line(const struct clock_line *line,
                                         const struct clock_pair *pair)
{
	uint64_t width = pair->after - pair->before, middle = pair->before + width / 2;
	uint64_t counts = middle - line->counter, elapsed_ns = pair->ns - line->ns, slope, change;
	bool went_back = counts > INT64_MAX || counts == 0, is_too_near, is_too_wide;

	if (went_back || elapsed_ns > CLOCK_GAP_NS)
		return (struct clock_line){middle, pair->ns, 0, 0};
	slope = (elapsed_ns << 32) / counts;
	is_too_near = elapsed_ns < CLOCK_APART_NS;
	is_too_wide = (u128)width * slope >> 32 > CLOCK_PAIR_NS;
	if (is_too_near || is_too_wide)
		return *line;
	change = slope > line->slope ? slope - line->slope : line->slope - slope;
	return (struct clock_line){middle, pair->ns, slope,
	                           change < line->slope / 512 ? (CLOCK_LINE_NS << 32) / slope : 0};
}

/* Only one thread at a time writes: the one that has raised clock->begun. */
static void write_line(struct clock *clock, const struct clock_line *line)
{
	/* Releases, so that a thread that sees one of them sees the value of `begun` before it. */
	__atomic_store_n(&clock->line.counter, line->counter, __ATOMIC_RELEASE);
	__atomic_store_n(&clock->line.ns, line->ns, __ATOMIC_RELEASE);
	__atomic_store_n(&clock->line.slope, line->slope, __ATOMIC_RELEASE);
	__atomic_store_n(&clock->line.span, line->span, __ATOMIC_RELEASE);
}

/* Copies the line. Returns false if it was being written meanwhile. */
static bool read_clock_line(const struct clock *clock, struct clock_line *line, uint32_t *done)
{
	*done = __atomic_load_n(&clock->done, __ATOMIC_ACQUIRE);
	line->counter = __atomic_load_n(&clock->line.counter, __ATOMIC_ACQUIRE);
	line->ns = __atomic_load_n(&clock->line.ns, __ATOMIC_ACQUIRE);
	line->slope = __atomic_load_n(&clock->line.slope, __ATOMIC_ACQUIRE);
	line->span = __atomic_load_n(&clock->line.span, __ATOMIC_ACQUIRE);
	return __atomic_load_n(&clock->begun, __ATOMIC_RELAXED) == *done;
}

/*
 * Whether no reading follows `line` any more. A pair from before the line comes from a thread
 * that has slept since, unless so much time has passed that the counter must have gone back.
 */
static bool is_line_over(const struct clock_line *line, const struct clock_pair *pair)
{
	uint64_t age = pair->after - line->counter;

	if (age > INT64_MAX)
		return (int64_t)(pair->ns - line->ns) >= (int64_t)CLOCK_APART_NS;
	return age >= line->span;
}

/*
 * The floor rises to a line's end before the next line is there, and to the system's reading
 * before that is returned. So no thread reads less than before, whether it reads by the line or
 * from the system.
 */
uint64_t clock_read_pair(struct clock *clock, const struct clock_pair *pair)
{
	struct clock_line line;
	uint64_t now_ns;
	uint32_t done;
	bool is_line_due = read_clock_line(clock, &line, &done) && is_line_over(&line, pair);

	if (is_line_due)
		clock_raise(&clock->floor_ns, line.ns + (line.span * line.slope >> 32));
	now_ns = clock_raise(&clock->floor_ns, pair->ns);
	if (is_line_due && __atomic_compare_exchange_n(&clock->begun, &done, done + 1, false,
	                                               __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
		line = next_clock_line(&line, pair);
		write_line(clock, &line);
		__atomic_store_n(&clock->done, done + 1, __ATOMIC_RELEASE);
	}
	return now_ns;
}

/* Stores the time for the next start of a clock that belongs to a file, if the last one is old. */
static void record_time(const struct clock *clock, uint64_t now_ns)
{
	if (clock->recorded_ns &&
	    now_ns > __atomic_load_n(clock->recorded_ns, __ATOMIC_RELAXED) + CLOCK_RECORD_NS)
		clock_raise(clock->recorded_ns, now_ns);
}

static uint64_t read_system_ns(const struct clock *clock)
{
	return os_monotonic_ns() + clock->offset_ns;
}

/*
 * Reads the counter after all earlier loads. The system's clock waits for these, too, so the pair
 * would otherwise seem to take a long time.
 */
static uint64_t counter_after_loads(void)
{
#if defined(__x86_64__)
	__builtin_ia32_lfence();
#endif
	return clock_counter();
}

static uint64_t read_by_pair(const struct clock *clock)
{
	struct clock_pair pair = {.before = counter_after_loads()};

	pair.ns = read_system_ns(clock);
	pair.after = clock_counter();
	return clock_read_pair((struct clock *)clock, &pair);
}

/* Reads the system's clock, and may draw the next line through it. */
uint64_t clock_now_slow(const struct clock *clock)
{
	bool ignores_counter = __atomic_load_n(&clock->line.slope, __ATOMIC_RELAXED) == CLOCK_NO_SLOPE;
	uint64_t now_ns = ignores_counter ? read_system_ns(clock) : read_by_pair(clock);

	record_time(clock, now_ns);
	return now_ns;
}
