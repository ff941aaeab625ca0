/*
 * history.c: keeps how many requests each limit has allowed and denied in each second of the last
 * hour. A series has a ring of points, one for each second; all series have the same position.
 */
#include "server/history/history.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"

/* How much a value decays in a second if it halves in 600: 0.5 to the power of 1/600. */
#define DECAY_OF_SECOND 0.99884543

/*
 * How much busier a limit must be than the quietest one with a series to take its place. Otherwise
 * two limits that are equally busy would take it from each other again and again.
 */
#define REPLACE_RATIO 1.25

enum result {
	RESULT_ALLOWED,
	RESULT_DENIED, /* the client has asked too much: status 429 */
	RESULT_SHED,
	RESULT_BREAKER_OPEN,
	RESULT_FAILED, /* Weir could not decide: its store or its table failed */
	RESULT_SHADOW, /* a rule in shadow mode would have denied the request */
	RESULT_COUNT
};

static const char *const result_names[RESULT_COUNT] = {
    [RESULT_ALLOWED] = "allowed",           [RESULT_DENIED] = "denied", [RESULT_SHED] = "shed",
    [RESULT_BREAKER_OPEN] = "breaker_open", [RESULT_FAILED] = "failed", [RESULT_SHADOW] = "shadow",
};

static const enum result result_of_denial[WEIR_REASON_COUNT] = {
    [WEIR_REASON_OK] = RESULT_DENIED,
    [WEIR_REASON_HIT_QUOTA] = RESULT_DENIED,
    [WEIR_REASON_OVER_LIMIT] = RESULT_DENIED,
    [WEIR_REASON_QUEUE_FULL] = RESULT_DENIED,
    [WEIR_REASON_WAIT_TOO_LONG] = RESULT_DENIED,
    [WEIR_REASON_LISTED] = RESULT_DENIED,
    [WEIR_REASON_SHED] = RESULT_SHED,
    [WEIR_REASON_BREAKER_OPEN] = RESULT_BREAKER_OPEN,
    [WEIR_REASON_STORE_FAILURE] = RESULT_FAILED,
    [WEIR_REASON_NO_ROOM] = RESULT_FAILED,
    [WEIR_REASON_STORE_OPEN] = RESULT_DENIED,
    [WEIR_REASON_STORE_LOCAL] = RESULT_DENIED,
};

/* A digit less than HISTORY_POINT_MAX has, and a comma; names are short beside it. */
#define POINT_TEXT_MAX sizeof "999999999"
_Static_assert(HISTORY_SECONDS *(HISTORY_LIMITS + 1) * RESULT_COUNT * POINT_TEXT_MAX <
                   HISTORY_TEXT_MAX - ((size_t)1 << 20),
               "the longest answer is bounded");

/* The ring of points of one limit, or of all others. */
struct series {
	uint32_t points[RESULT_COUNT][HISTORY_SECONDS];
};

/* A limit that has ever been configured. */
struct history_limit {
	const struct named_counters *counters;
	uint64_t counted[RESULT_COUNT]; /* the counters at the last call */
	uint64_t added[RESULT_COUNT];   /* what they have grown by */
	double activity;
	bool is_active; /* they have grown */
	bool has_series, was_among_others;
};

/* A limit with a series of its own. */
struct tracked {
	size_t limit; /* index in history->limits */
	const char *name;
	double activity;
	uint64_t first; /* the first point of its series; earlier ones are among the others */
	struct series *series;
};

struct history {
	const struct metrics *metrics;
	uint64_t monotonic_ns; /* of the last call */
	/* of the counting thread alone */
	struct history_limit *limits;
	size_t limit_count, limit_capacity;
	const struct named_counters *newest; /* the newest of the limits */
	/* of all threads, under `lock` */
	pthread_mutex_t lock;
	struct tracked tracked[HISTORY_LIMITS];
	size_t tracked_count;
	struct series *others;
	uint64_t point_count; /* since the start; the last HISTORY_SECONDS are in the rings */
	uint64_t last_s;      /* the Unix time of the last point: the beginning of its second */
};

struct history *history_open(const struct metrics *metrics, struct history_time now)
{
	struct history *history = calloc(1, sizeof *history);

	if (!history)
		return NULL;
	history->others = calloc(1, sizeof *history->others);
	if (!history->others) {
		free(history);
		return NULL;
	}
	history->metrics = metrics;
	history->monotonic_ns = now.monotonic_ns;
	history->last_s = sat_sub(now.wall_ns / NS_PER_S, 1);
	pthread_mutex_init(&history->lock, NULL);
	return history;
}

void history_close(struct history *history)
{
	if (!history)
		return;
	for (size_t i = 0; i < history->tracked_count; i++)
		free(history->tracked[i].series);
	pthread_mutex_destroy(&history->lock);
	free(history->others);
	free(history->limits);
	free(history);
}

/* Adds a limit. If memory is short, it stays out, and may be added by a later call. */
static bool add_history_limit(struct history *history, const struct named_counters *counters)
{
	if (history->limit_count == history->limit_capacity) {
		size_t capacity = history->limit_capacity ? 2 * history->limit_capacity : 16;
		struct history_limit *limits = realloc(history->limits, capacity * sizeof *limits);

		if (!limits)
			return false;
		history->limits = limits;
		history->limit_capacity = capacity;
	}
	history->limits[history->limit_count++] = (struct history_limit){.counters = counters};
	return true;
}

/* Adds the limits that the configuration has got since the last call: they begin the list. */
static void find_new_limits(struct history *history)
{
	const struct named_counters *first = metrics_first_limit(history->metrics);
	size_t before = history->limit_count;

	for (const struct named_counters *at = first; at && at != history->newest; at = at->next)
		if (!add_history_limit(history, at)) {
			history->limit_count = before;
			return;
		}
	history->newest = first;
}

/* Reads the counters of a limit. Returns by how many decisions they have grown. */
static uint64_t read_limit(const struct history *history, struct history_limit *limit)
{
	uint64_t counted[RESULT_COUNT] = {0}, sum = 0;

	for (size_t loop = 0; loop < metrics_loop_count(history->metrics); loop++) {
		struct metrics_counts *counts = metrics_counts_of(limit->counters, loop);

		for (size_t reason = 0; reason < WEIR_REASON_COUNT; reason++) {
			counted[RESULT_ALLOWED] += metrics_read(&counts->decisions[false][reason][true]);
			counted[result_of_denial[reason]] +=
			    metrics_read(&counts->decisions[false][reason][false]);
			counted[RESULT_SHADOW] += metrics_read(&counts->decisions[true][reason][false]);
		}
	}
	for (size_t result = 0; result < RESULT_COUNT; result++) {
		limit->added[result] = counted[result] - limit->counted[result];
		limit->counted[result] = counted[result];
		sum += limit->added[result];
	}
	return sum;
}

static size_t ring_index(uint64_t point)
{
	return point % HISTORY_SECONDS;
}

static uint32_t add_to_point(uint32_t point, uint64_t n)
{
	return (uint32_t)u64_min(sat_add(point, n), HISTORY_POINT_MAX);
}

/* Adds what was counted to the points of the last `seconds`, which it divides it among. */
static void add_to_series(const struct history *history, struct series *series,
                          const uint64_t added[RESULT_COUNT], uint64_t seconds)
{
	for (size_t result = 0; result < RESULT_COUNT; result++) {
		uint64_t left = added[result];

		for (uint64_t ago = seconds; left > 0; ago--) {
			uint32_t *point = &series->points[result][ring_index(history->point_count - ago)];
			uint64_t share = left / ago;

			*point = add_to_point(*point, share);
			left -= share;
		}
	}
}

/* Begins the points of the last `seconds`, which replace those of an hour before. */
static void clear_points(const struct history *history, struct series *series, uint64_t seconds)
{
	for (size_t result = 0; result < RESULT_COUNT; result++)
		for (uint64_t ago = 1; ago <= seconds; ago++)
			series->points[result][ring_index(history->point_count - ago)] = 0;
}

/* Adds the points of a limit that loses its series to those of the others, and clears them. */
static void merge_into_others(struct history *history, struct series *series)
{
	for (size_t result = 0; result < RESULT_COUNT; result++)
		for (size_t i = 0; i < HISTORY_SECONDS; i++) {
			uint32_t *point = &history->others->points[result][i];

			*point = add_to_point(*point, series->points[result][i]);
		}
	memset(series, 0, sizeof *series);
}

static void begin_series(struct history *history, struct tracked *tracked, size_t limit,
                         uint64_t seconds)
{
	bool was_among_others = history->limits[limit].was_among_others;

	tracked->limit = limit;
	tracked->name = history->limits[limit].counters->name;
	tracked->first = was_among_others ? history->point_count - seconds : 0;
	history->limits[limit].has_series = true;
}

/* Gives a limit a series if there are fewer than HISTORY_LIMITS. */
static void try_track(struct history *history, size_t limit, uint64_t seconds)
{
	struct tracked *tracked = &history->tracked[history->tracked_count];

	if (history->tracked_count == HISTORY_LIMITS)
		return;
	tracked->series = calloc(1, sizeof *tracked->series);
	if (!tracked->series)
		return;
	begin_series(history, tracked, limit, seconds);
	history->tracked_count++;
}

/* Gives a limit the series of the quietest limit that has one, if it is busier than that. */
static void try_replace_quietest(struct history *history, size_t limit, uint64_t seconds)
{
	struct history_limit *limits = history->limits;
	struct tracked *quietest = &history->tracked[0];

	for (size_t i = 1; i < history->tracked_count; i++)
		if (limits[history->tracked[i].limit].activity < limits[quietest->limit].activity)
			quietest = &history->tracked[i];
	if (history->tracked_count < HISTORY_LIMITS ||
	    limits[limit].activity <= REPLACE_RATIO * limits[quietest->limit].activity)
		return;
	limits[quietest->limit].has_series = false;
	limits[quietest->limit].was_among_others = true;
	merge_into_others(history, quietest->series);
	begin_series(history, quietest, limit, seconds);
}

/* How many seconds have ended since the last call. */
static uint64_t seconds_ended(const struct history *history, struct history_time now)
{
	uint64_t second = now.wall_ns / NS_PER_S, current = history->last_s + 1;
	uint64_t elapsed_s = sat_sub(now.monotonic_ns, history->monotonic_ns) / NS_PER_S;
	bool was_set = second < current || second - current > elapsed_s + 1;

	return was_set ? elapsed_s : second - current;
}

/* Reads the counters of all limits. */
static void read_limits(struct history *history, uint64_t seconds)
{
	double decay = 1;

	for (uint64_t i = 0; i < seconds; i++)
		decay *= DECAY_OF_SECOND;
	for (size_t i = 0; i < history->limit_count; i++) {
		struct history_limit *limit = &history->limits[i];
		uint64_t added = read_limit(history, limit);

		limit->is_active = added > 0;
		limit->activity = limit->activity * decay + (double)added;
	}
}

/* Gives series to limits that were in use in the last `seconds`. */
static void choose_tracked(struct history *history, uint64_t seconds)
{
	const struct history_limit *limits = history->limits;
	size_t busiest = SIZE_MAX; /* of those without a series */

	for (size_t i = 0; i < history->limit_count; i++) {
		if (limits[i].is_active && !limits[i].has_series)
			try_track(history, i, seconds);
		if (limits[i].is_active && !limits[i].has_series &&
		    (busiest == SIZE_MAX || limits[i].activity > limits[busiest].activity))
			busiest = i;
	}
	if (busiest != SIZE_MAX)
		try_replace_quietest(history, busiest, seconds);
}

/* Adds what was read to the points of the last `seconds`. */
static void add_points(struct history *history, uint64_t seconds)
{
	uint64_t others[RESULT_COUNT] = {0};

	for (size_t i = 0; i < history->tracked_count; i++) {
		struct tracked *tracked = &history->tracked[i];

		tracked->activity = history->limits[tracked->limit].activity;
		add_to_series(history, tracked->series, history->limits[tracked->limit].added, seconds);
	}
	for (size_t i = 0; i < history->limit_count; i++) {
		struct history_limit *limit = &history->limits[i];

		if (limit->has_series || !limit->is_active)
			continue;
		limit->was_among_others = true;
		for (size_t result = 0; result < RESULT_COUNT; result++)
			others[result] += limit->added[result];
	}
	add_to_series(history, history->others, others, seconds);
}

void history_count(struct history *history, struct history_time now)
{
	uint64_t seconds = u64_min(seconds_ended(history, now), HISTORY_SECONDS);

	if (seconds == 0)
		return;
	find_new_limits(history);
	read_limits(history, seconds);
	pthread_mutex_lock(&history->lock);
	history->monotonic_ns = now.monotonic_ns;
	history->last_s = sat_sub(now.wall_ns / NS_PER_S, 1);
	history->point_count += seconds;
	for (size_t i = 0; i < history->tracked_count; i++)
		clear_points(history, history->tracked[i].series, seconds);
	clear_points(history, history->others, seconds);
	choose_tracked(history, seconds);
	add_points(history, seconds);
	pthread_mutex_unlock(&history->lock);
}

/* The points to render: the last `count`. */
struct span {
	uint64_t count, first;
};

static bool has_points(const uint32_t *points, struct span span)
{
	for (uint64_t i = 0; i < span.count; i++)
		if (points[ring_index(span.first + i)] != 0)
			return true;
	return false;
}

/* Adds `"NAME":[1,2]`. */
static void add_points_of_result(struct buffer *out, const char *name, const uint32_t *points,
                                 struct span span)
{
	char *to;

	buffer_printf(out, "\"%s\":", name);
	to = buffer_reserve(out, span.count * POINT_TEXT_MAX + 1);
	if (!to)
		return;
	for (uint64_t i = 0; i < span.count; i++) {
		*to++ = i == 0 ? '[' : ',';
		to = format_u64(to, points[ring_index(span.first + i)]);
	}
	*to++ = ']';
	out->len = (size_t)(to - out->data);
}

/* Adds the results that have any points. */
static void add_points_of_results(struct buffer *out, const struct series *series, struct span span)
{
	const char *before = "";

	for (size_t result = 0; result < RESULT_COUNT; result++) {
		if (!has_points(series->points[result], span))
			continue;
		buffer_add_text(out, before);
		add_points_of_result(out, result_names[result], series->points[result], span);
		before = ",";
	}
}

static int compare_activity(const void *a, const void *b)
{
	double left = (*(const struct tracked *const *)a)->activity;
	double right = (*(const struct tracked *const *)b)->activity;

	return (left < right) - (left > right);
}

static void add_points_of_limit(struct buffer *out, const struct history *history,
                                const struct tracked *tracked, struct span span)
{
	size_t begin = out->len, begin_results;

	buffer_add_text(out, out->data[out->len - 1] == '[' ? "{\"limit\":\"" : ",{\"limit\":\"");
	buffer_add_json(out, slice_of(tracked->name));
	buffer_add_text(out, "\",");
	if (tracked->first + HISTORY_SECONDS > history->point_count && tracked->first > 0)
		buffer_printf(
		    out, "\"since\":%llu,",
		    (unsigned long long)(history->last_s + 1 - (history->point_count - tracked->first)));
	begin_results = out->len;
	add_points_of_results(out, tracked->series, span);
	buffer_add(out, "}", 1);
	if (out->len == begin_results + 1) /* nothing was counted */
		out->len = begin;
}

/* The points of the seconds after `since_s`, as far as they are kept. */
static struct span span_since(const struct history *history, uint64_t since_s)
{
	uint64_t count = u64_min(history->point_count, HISTORY_SECONDS);

	count = u64_min(count, sat_sub(history->last_s, since_s));
	return (struct span){count, history->point_count - count};
}

void history_render(struct history *history, uint64_t since_s, struct buffer *out)
{
	const struct tracked *busiest_first[HISTORY_LIMITS];
	struct span span;

	pthread_mutex_lock(&history->lock);
	span = span_since(history, since_s);
	for (size_t i = 0; i < history->tracked_count; i++)
		busiest_first[i] = &history->tracked[i];
	qsort(busiest_first, history->tracked_count, sizeof *busiest_first, compare_activity);
	buffer_printf(out, "{\"now\":%llu,\"from\":%llu,\"limits\":[",
	              (unsigned long long)history->last_s,
	              (unsigned long long)(history->last_s + 1 - span.count));
	for (size_t i = 0; i < history->tracked_count && !out->failed; i++)
		add_points_of_limit(out, history, busiest_first[i], span);
	buffer_add_text(out, "],\"others\":{");
	add_points_of_results(out, history->others, span);
	buffer_add_text(out, "}}");
	pthread_mutex_unlock(&history->lock);
}
