/*
 * simulate_suggest.c: finds the smallest limit that denies few enough requests of a log, for `weir
 * simulate --suggest`, by replaying the log through several limits at once and bisecting their
 * counts.
 */
#include "cli/simulate_suggest.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "cli/simulate_limits.h"
#include "simulate/input/trace.h"
#include "simulate/smallest.h"

#define WHOLE       UINT64_C(1000000000000) /* the unit of shares, so that decimals are exact */
#define PERCENT     (WHOLE / 100)
#define SHOWN_MAX   63
#define SCAN_MAX    1000 /* counts to try one by one where bisection is not exact, see smallest.h */
#define LIMIT_BYTES 256

/* The goal of a search, read from the flags. */
struct goal {
	const struct algorithm *algorithm;
	const char *period;
	uint64_t deny; /* in parts of WHOLE */
	bool by_requests;
};

/* The state of a search. */
struct finder {
	struct suggest *suggest;
	struct goal goal;
	struct smallest search;
	struct buffer points; /* struct report_point, in the order in which they were tried */
	bool costs_differ;    /* a request has a cost that is not 1 */
	struct trace trace;
};

static bool read_share(const char *text, uint64_t *out)
{
	size_t len = strlen(text);
	bool percent = len > 0 && text[len - 1] == '%';
	double number;

	if (!parse_decimal((struct slice){text, len - percent}, &number) ||
	    number > (percent ? 100 : 1))
		return false;
	*out = (uint64_t)(number * (double)(percent ? PERCENT : WHOLE) + 0.5);
	return true;
}

static const struct algorithm *find_algorithm(struct slice name)
{
	const struct algorithm *algorithm;

	for (size_t i = 0; (algorithm = algorithm_listed(i)); i++)
		if (slice_equal(name, slice_of(algorithm->name)))
			return algorithm;
	return NULL;
}

static const struct algo_parameter *rate_of(const struct algorithm *algorithm)
{
	const struct algo_parameter *row = algorithm->parameters;

	while (row->name && row->type != ALGO_RATE && row->type != ALGO_CALENDAR_RATE)
		row++;
	return row->name ? row : NULL;
}

static int read_goal(const struct suggest *suggest, struct goal *goal, struct weir_error *error)
{
	const char *what = suggest->what, *slash = strchr(what, '/');
	const char *deny = suggest->deny ? suggest->deny : SUGGEST_DENY;
	const char *by = suggest->by ? suggest->by : "keys";

	if (!slash || !slash[1] ||
	    strspn(slash + 1, "0123456789abcdefghijklmnopqrstuvwxyz") != strlen(slash + 1))
		return error_set(error, WEIR_EINVAL,
		                 "--suggest: expected ALGORITHM/PERIOD, with a period such as m or 10s, "
		                 "found '%.64s'",
		                 what);
	goal->period = slash + 1;
	if (goal->period[0] == '1' && goal->period[1] >= 'a') /* 22/m, as rule files have it */
		goal->period++;
	goal->algorithm = find_algorithm((struct slice){what, (size_t)(slash - what)});
	if (!goal->algorithm || !rate_of(goal->algorithm))
		return error_set(error, WEIR_EINVAL,
		                 "--suggest: expected an algorithm with a rate, found '%.*s'",
		                 (int)u64_min((uint64_t)(slash - what), SHOWN_MAX), what);
	if (!read_share(deny, &goal->deny))
		return error_set(error, WEIR_EINVAL,
		                 "--deny: expected a share such as 0.1%% or 0.001, found '%.40s'", deny);
	goal->by_requests = strcmp(by, "requests") == 0;
	if (!goal->by_requests && strcmp(by, "keys") != 0)
		return error_set(error, WEIR_EINVAL, "--by: expected keys or requests, found '%.40s'", by);
	return WEIR_OK;
}

int suggest_check(const struct suggest *suggest, struct weir_error *error)
{
	struct goal goal;

	return read_goal(suggest, &goal, error);
}

/* Writes the limit in the form of a rule file. A burst, which equals the count, is written, too. */
static const char *limit_text(const struct goal *goal, uint64_t count, char out[LIMIT_BYTES])
{
	int len = snprintf(out, LIMIT_BYTES, "suggested: { algorithm: %s, rate: %llu/%.40s",
	                   goal->algorithm->name, (unsigned long long)count, goal->period);

	for (const struct algo_parameter *row = goal->algorithm->parameters; row->name; row++)
		if (row->type == ALGO_NUMBER && row->default_value == ALGO_DEFAULT_AS_RATE)
			len += snprintf(out + len, LIMIT_BYTES - (size_t)len, ", %s: %llu", row->name,
			                (unsigned long long)count);
	snprintf(out + len, LIMIT_BYTES - (size_t)len, " }");
	return out;
}

static bool fits(const struct goal *goal, const struct report_point *point)
{
	uint64_t part = goal->by_requests ? point->denied : point->hit;
	uint64_t whole = goal->by_requests ? point->requests : point->keys;

	return (u128)part * WHOLE <= (u128)goal->deny * whole;
}

/* The `next` function of a struct source, which also records whether costs differ. */
static int next_request(void *context, struct record *record, struct weir_error *error)
{
	struct finder *finder = context;
	int status = trace_next(&finder->trace, record, error);

	finder->costs_differ |= status == 1 && record->cost != 1;
	return status;
}

static int open_candidate(const struct finder *finder, uint64_t count, weir_config **config,
                          struct scenario *scenario, struct fields *fields,
                          struct weir_error *error)
{
	char text[LIMIT_BYTES];
	int status =
	    simulate_limit_read("--suggest", limit_text(&finder->goal, count, text), config, error);

	if (status == WEIR_OK)
		status = scenario_open_limit(scenario, *config, 0, finder->suggest->key,
		                             finder->suggest->capacity, error);
	return status == WEIR_OK ? scenario_fields(scenario, fields, error) : status;
}

static int read_log(struct finder *finder, struct replay *replay, struct weir_error *error)
{
	const struct suggest *suggest = finder->suggest;
	const struct source source = {next_request, finder};
	int fd = reusable_log_reopen(&suggest->log, suggest->path, error);
	int status = fd < 0 ? fd
	                    : trace_open_descriptor(&finder->trace, fd, suggest->format,
	                                            &replay->fields, NULL, error);

	if (status != WEIR_OK)
		return status;
	replay->progress = suggest->progress;
	replay->progress_context = suggest->progress_context;
	status = replay_run(replay, &source, error);
	trace_close(&finder->trace);
	return status == WEIR_OK && replay->requests == 0
	           ? error_set(error, WEIR_ESYNTAX, "%s: expected requests, found none", suggest->path)
	           : status;
}

static struct report_point point_of(const struct scenario *scenario, uint64_t count)
{
	const struct tally *tally = &scenario->tallies[0];

	uint64_t denied = tally->denied + tally->refused;

	return (struct report_point){count, tally->allowed + denied, denied, tally->hits.keys.count,
	                             tally->hits.hit};
}

/* Replays limits with these counts side by side, and appends their points. */
static int try_counts(struct finder *finder, const uint64_t *counts, size_t n,
                      struct weir_error *error)
{
	struct scenario *scenarios = calloc(n, sizeof *scenarios);
	weir_config *configs[SMALLEST_AT_ONCE] = {0};
	struct replay replay = {.scenarios = scenarios};
	int status = scenarios ? WEIR_OK : error_set(error, WEIR_ENOMEM, "out of memory");

	for (size_t i = 0; i < n && status == WEIR_OK; i++)
		status = open_candidate(finder, counts[i], &configs[i], &scenarios[replay.scenario_count++],
		                        &replay.fields, error);
	if (status == WEIR_OK)
		status = read_log(finder, &replay, error);
	for (size_t i = 0; i < n && status == WEIR_OK; i++) {
		struct report_point point = point_of(&scenarios[i], counts[i]);

		buffer_add(&finder->points, (const char *)&point, sizeof point);
	}
	for (size_t i = 0; i < replay.scenario_count; i++)
		scenario_close(&scenarios[i]);
	for (size_t i = 0; i < SMALLEST_AT_ONCE; i++)
		weir_config_close(configs[i]);
	free(scenarios);
	return finder->points.failed ? error_set(error, WEIR_ENOMEM, "out of memory") : status;
}

static size_t point_count(const struct finder *finder)
{
	return finder->points.len / sizeof(struct report_point);
}

static struct report_point *point_at(const struct finder *finder, size_t i)
{
	return (struct report_point *)(void *)finder->points.data + i;
}

/* Tries counts until the smallest one that fits is known, several in each replay. */
static int bisect(struct finder *finder, struct weir_error *error)
{
	uint64_t counts[SMALLEST_AT_ONCE];
	size_t n;

	while ((n = smallest_next(&finder->search, counts)) > 0) {
		size_t first = point_count(finder);
		int status = try_counts(finder, counts, n, error);

		if (status != WEIR_OK)
			return status;
		for (size_t i = 0; i < n; i++)
			smallest_report(&finder->search, counts[i],
			                fits(&finder->goal, point_at(finder, first + i)));
	}
	if (finder->search.fits > 0)
		return WEIR_OK;
	return error_set(error, WEIR_ENOTFOUND,
	                 "--suggest: expected a limit of at most %llu that denies so few, found none",
	                 (unsigned long long)finder->search.max);
}

/* Tries the counts below the one found, ascending, until one fits. */
static int try_smaller_counts(struct finder *finder, struct weir_error *error)
{
	uint64_t found = finder->search.fits, next = 1, counts[SMALLEST_AT_ONCE];

	if (found - 1 > SCAN_MAX) {
		finder->suggest->found.unsure = true;
		return WEIR_OK;
	}
	while (next < found) {
		size_t n = 0, first = point_count(finder);
		int status;

		while (n < SMALLEST_AT_ONCE && next < found)
			counts[n++] = next++;
		status = try_counts(finder, counts, n, error);
		if (status != WEIR_OK)
			return status;
		for (size_t i = 0; i < n; i++)
			if (fits(&finder->goal, point_at(finder, first + i))) {
				finder->search.fits = counts[i];
				return WEIR_OK;
			}
	}
	return WEIR_OK;
}

static int by_count(const void *a, const void *b)
{
	uint64_t left = ((const struct report_point *)a)->count;
	uint64_t right = ((const struct report_point *)b)->count;

	return (left > right) - (left < right);
}

/* Stores the result, with each count once, though try_smaller_counts may have repeated some. */
static int store_result(struct finder *finder, struct weir_error *error)
{
	struct suggest *suggest = finder->suggest;
	struct report_point *points = arena_array(&suggest->arena, point_count(finder), sizeof *points);
	char text[LIMIT_BYTES];
	char *limit =
	    arena_copy(&suggest->arena, slice_of(limit_text(&finder->goal, finder->search.fits, text)));
	size_t n = 0;

	if (!points || !limit)
		return error_set(error, WEIR_ENOMEM, "out of memory");
	qsort(finder->points.data, point_count(finder), sizeof *points, by_count);
	for (size_t i = 0; i < point_count(finder); i++)
		if (n == 0 || points[n - 1].count != point_at(finder, i)->count)
			points[n++] = *point_at(finder, i);
	suggest->found.limit = limit;
	suggest->found.count = finder->search.fits;
	suggest->found.by_requests = finder->goal.by_requests;
	suggest->found.share = (double)finder->goal.deny / (double)WHOLE;
	suggest->found.points = points;
	suggest->found.point_count = n;
	return WEIR_OK;
}

int suggest_run(struct suggest *suggest, struct weir_error *error)
{
	struct finder finder = {.suggest = suggest, .trace.path = suggest->path};
	int status = read_goal(suggest, &finder.goal, error);

	if (status == WEIR_OK) {
		status = reusable_log_open(&suggest->log, suggest->path, REUSABLE_LOG_MAX, error);
		suggest->log_is_open = status == WEIR_OK;
	}
	if (status == WEIR_OK) {
		finder.search.max = rate_of(finder.goal.algorithm)->max;
		status = bisect(&finder, error);
	}
	if (status == WEIR_OK &&
	    (finder.goal.algorithm->unordered || (finder.costs_differ && finder.goal.by_requests)))
		status = try_smaller_counts(&finder, error);
	if (status == WEIR_OK)
		status = store_result(&finder, error);
	buffer_free(&finder.points);
	return status;
}

void suggest_close(struct suggest *suggest)
{
	if (suggest->log_is_open)
		reusable_log_close(&suggest->log);
	arena_free(&suggest->arena);
}
