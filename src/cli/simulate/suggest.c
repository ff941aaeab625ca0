/*
 * suggest.c: finds the smallest limit that denies few enough requests of a log, for `weir
 * simulate --suggest`, by replaying the log through several limits at once and bisecting their
 * counts.
 */
#include "cli/simulate/suggest.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "cli/simulate/limits.h"
#include "simulate/input/trace.h"
#include "simulate/smallest.h"

#define SHARE_UNIT     UINT64_C(1000000000000) /* the unit of shares, so that decimals are exact */
#define PERCENT        (SHARE_UNIT / 100)
#define NAME_SHOWN_MAX 63
#define TRY_EACH_MAX                                                                               \
	1000 /* counts to try one by one where bisection is not exact, see smallest.h */
#define LIMIT_BYTES 256

/* The goal of a search, read from the flags. */
struct goal {
	const struct algorithm *algorithm;
	const char *period;
	uint64_t deny; /* in parts of SHARE_UNIT */
	bool by_requests;
};

/* The state of a search. */
struct search_state {
	struct suggest *suggest;
	struct goal goal;
	struct smallest search;
	struct buffer points; /* struct report_point, in the order in which they were tried */
	bool costs_differ;    /* some request costs more or less than 1 */
	struct trace trace;
	size_t filtered; /* index of the filter's field */
};

/* Reads "0.5%" or "0.005" as parts of SHARE_UNIT. Returns false if it is no share. */
static bool read_share(const char *text, uint64_t *out)
{
	size_t len = strlen(text);
	bool percent = len > 0 && text[len - 1] == '%';
	double number;

	if (!parse_decimal((struct slice){text, len - percent}, &number) ||
	    number > (percent ? 100 : 1))
		return false;
	*out = (uint64_t)(number * (double)(percent ? PERCENT : SHARE_UNIT) + 0.5);
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

/* The parameter that is the algorithm's rate; NULL if it has none. */
static const struct algo_parameter *rate_parameter(const struct algorithm *algorithm)
{
	const struct algo_parameter *parameter = algorithm->parameters;

	while (parameter->name && parameter->type != ALGO_RATE && parameter->type != ALGO_CALENDAR_RATE)
		parameter++;
	return parameter->name ? parameter : NULL;
}

static int read_goal(const struct suggest *suggest, struct goal *goal, struct weir_error *error)
{
	const char *what = suggest->algorithm_and_period, *slash = strchr(what, '/');
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
	if (!goal->algorithm || !rate_parameter(goal->algorithm))
		return error_set(error, WEIR_EINVAL,
		                 "--suggest: expected an algorithm with a rate, found '%.*s'",
		                 (int)u64_min((uint64_t)(slash - what), NAME_SHOWN_MAX), what);
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

	for (const struct algo_parameter *parameter = goal->algorithm->parameters; parameter->name;
	     parameter++)
		if (parameter->type == ALGO_NUMBER && parameter->default_value == ALGO_DEFAULT_AS_RATE)
			len += snprintf(out + len, LIMIT_BYTES - (size_t)len, ", %s: %llu", parameter->name,
			                (unsigned long long)count);
	snprintf(out + len, LIMIT_BYTES - (size_t)len, " }");
	return out;
}

/* Whether the limit of that point denies a share of requests or keys that the goal permits. */
static bool denies_few_enough(const struct goal *goal, const struct report_point *point)
{
	uint64_t part = goal->by_requests ? point->denied : point->hit;
	uint64_t whole = goal->by_requests ? point->requests : point->keys;

	return (u128)part * SHARE_UNIT <= (u128)goal->deny * whole;
}

static bool passes_filter(const struct search_state *state, const struct record *record)
{
	const struct suggest_filter *filter = state->suggest->filter;
	size_t i = 0;

	if (!filter)
		return true;
	while (i < filter->count &&
	       !slice_equal(slice_of(filter->values[i]), record->values[state->filtered]))
		i++;
	return (i < filter->count) != filter->others;
}

/* The `next` function of a struct source, which also records whether costs differ. */
static int next_request(void *context, struct record *record, struct weir_error *error)
{
	struct search_state *state = context;
	int status;

	do
		status = trace_next(&state->trace, record, error);
	while (status == 1 && !passes_filter(state, record));

	state->costs_differ |= status == 1 && record->cost != 1;
	return status;
}

/* Makes a limit with this count, and a scenario that replays it. */
static int open_candidate(const struct search_state *state, uint64_t count, weir_config **config,
                          struct scenario *scenario, struct fields *fields,
                          struct weir_error *error)
{
	char text[LIMIT_BYTES];
	int status =
	    simulate_limit_read("--suggest", limit_text(&state->goal, count, text), config, error);

	if (status == WEIR_OK)
		status = scenario_open_limit(scenario, *config, 0, state->suggest->key,
		                             state->suggest->capacity, error);
	return status == WEIR_OK ? scenario_add_fields(scenario, fields, error) : status;
}

/* Replays the whole log through the scenarios of `replay`. */
static int read_log(struct search_state *state, struct replay *replay, struct weir_error *error)
{
	const struct suggest *suggest = state->suggest;
	const struct source source = {next_request, state};
	int fd = reusable_log_reopen(&suggest->log, suggest->path, error);
	int status = fd < 0 ? fd
	                    : trace_open_descriptor(&state->trace, fd, suggest->format, &replay->fields,
	                                            NULL, error);

	if (status != WEIR_OK)
		return status;
	suggest->progress->trace = &state->trace;
	suggest->progress->search_pass++;
	replay->progress = progress_show;
	replay->progress_context = suggest->progress;
	status = replay_run(replay, &source, error);
	suggest->progress->trace = NULL;
	trace_close(&state->trace);
	return status == WEIR_OK && replay->requests == 0
	           ? error_set(error, WEIR_ESYNTAX, "%s: expected requests, found none", suggest->path)
	           : status;
}

/* The result of a replayed limit: how many requests it denied, and how many keys had a denial. */
static struct report_point point_of(const struct scenario *scenario, uint64_t count)
{
	const struct tally *tally = &scenario->tallies[0];

	uint64_t denied = tally->denied + tally->refused;

	return (struct report_point){count, tally->allowed + denied, denied, tally->hits.keys.count,
	                             tally->hits.hit};
}

/* Replays limits with these counts side by side, and appends their points. */
static int try_counts(struct search_state *state, const uint64_t *counts, size_t n,
                      struct weir_error *error)
{
	struct scenario *scenarios = calloc(n, sizeof *scenarios);
	weir_config *configs[SMALLEST_AT_ONCE] = {0};
	struct replay replay = {.scenarios = scenarios};
	int status = scenarios ? WEIR_OK : error_set(error, WEIR_ENOMEM, "out of memory");

	for (size_t i = 0; i < n && status == WEIR_OK; i++)
		status = open_candidate(state, counts[i], &configs[i], &scenarios[replay.scenario_count++],
		                        &replay.fields, error);
	if (status == WEIR_OK && state->suggest->filter)
		status = fields_add(&replay.fields, state->suggest->filter->field, &state->filtered, error);
	if (status == WEIR_OK)
		status = read_log(state, &replay, error);
	for (size_t i = 0; i < n && status == WEIR_OK; i++) {
		struct report_point point = point_of(&scenarios[i], counts[i]);

		buffer_add(&state->points, (const char *)&point, sizeof point);
	}
	for (size_t i = 0; i < replay.scenario_count; i++)
		scenario_close(&scenarios[i]);
	for (size_t i = 0; i < SMALLEST_AT_ONCE; i++)
		weir_config_close(configs[i]);
	free(scenarios);
	return state->points.failed ? error_set(error, WEIR_ENOMEM, "out of memory") : status;
}

static size_t point_count(const struct search_state *state)
{
	return state->points.len / sizeof(struct report_point);
}

static struct report_point *point_at(const struct search_state *state, size_t i)
{
	return (struct report_point *)(void *)state->points.data + i;
}

/* Tries counts until the smallest one that denies few enough is known, several in each replay. */
static int bisect(struct search_state *state, struct weir_error *error)
{
	uint64_t counts[SMALLEST_AT_ONCE];
	size_t n;

	while ((n = smallest_next(&state->search, counts)) > 0) {
		size_t first = point_count(state);
		int status = try_counts(state, counts, n, error);

		if (status != WEIR_OK)
			return status;
		for (size_t i = 0; i < n; i++)
			smallest_report(&state->search, counts[i],
			                denies_few_enough(&state->goal, point_at(state, first + i)));
	}
	if (state->search.smallest_fit > 0)
		return WEIR_OK;
	return error_set(error, WEIR_ENOTFOUND,
	                 "--suggest: expected a limit of at most %llu that denies so few, found none",
	                 (unsigned long long)state->search.max);
}

/*
 * Tries the counts below the one that bisection found, ascending, until one denies few enough: for
 * limits of which a larger count may deny more. If there are too many, the result is unsure.
 */
static int try_smaller_counts(struct search_state *state, struct weir_error *error)
{
	uint64_t found = state->search.smallest_fit, next = 1, counts[SMALLEST_AT_ONCE];

	if (found - 1 > TRY_EACH_MAX) {
		state->suggest->found.unsure = true;
		return WEIR_OK;
	}
	while (next < found) {
		size_t n = 0, first = point_count(state);
		int status;

		while (n < SMALLEST_AT_ONCE && next < found)
			counts[n++] = next++;
		status = try_counts(state, counts, n, error);
		if (status != WEIR_OK)
			return status;
		for (size_t i = 0; i < n; i++)
			if (denies_few_enough(&state->goal, point_at(state, first + i))) {
				state->search.smallest_fit = counts[i];
				return WEIR_OK;
			}
	}
	return WEIR_OK;
}

static int compare_counts(const void *a, const void *b)
{
	uint64_t left = ((const struct report_point *)a)->count;
	uint64_t right = ((const struct report_point *)b)->count;

	return (left > right) - (left < right);
}

/* Stores the result, with each count once, though try_smaller_counts may have repeated some. */
static int store_result(struct search_state *state, struct weir_error *error)
{
	struct suggest *suggest = state->suggest;
	struct report_point *points = arena_array(&suggest->arena, point_count(state), sizeof *points);
	char text[LIMIT_BYTES];
	char *limit = arena_copy(&suggest->arena,
	                         slice_of(limit_text(&state->goal, state->search.smallest_fit, text)));
	size_t n = 0;

	if (!points || !limit)
		return error_set(error, WEIR_ENOMEM, "out of memory");
	qsort(state->points.data, point_count(state), sizeof *points, compare_counts);
	for (size_t i = 0; i < point_count(state); i++)
		if (n == 0 || points[n - 1].count != point_at(state, i)->count)
			points[n++] = *point_at(state, i);
	suggest->found = (struct report_suggestion){.limit = limit, .unsure = suggest->found.unsure};
	suggest->found.count = state->search.smallest_fit;
	suggest->found.by_requests = state->goal.by_requests;
	suggest->found.share = (double)state->goal.deny / (double)SHARE_UNIT;
	suggest->found.points = points;
	suggest->found.point_count = n;
	return WEIR_OK;
}

/* Whether a larger count never denies more, so that bisection finds the smallest one. */
static bool bisection_is_exact(const struct search_state *state)
{
	return !state->goal.algorithm->unordered && !(state->costs_differ && state->goal.by_requests);
}

int suggest_open_log(struct suggest *suggest, struct weir_error *error)
{
	int status = suggest->log_is_open
	                 ? WEIR_OK
	                 : reusable_log_open(&suggest->log, suggest->path, REUSABLE_LOG_MAX, error);

	suggest->log_is_open = status == WEIR_OK;
	return status;
}

/* Searches for the smallest count that denies few enough, and stores it and all points tried. */
int suggest_run(struct suggest *suggest, struct weir_error *error)
{
	struct search_state state = {.suggest = suggest, .trace.path = suggest->path};
	int status = read_goal(suggest, &state.goal, error);

	suggest->found.unsure = false;
	if (status == WEIR_OK)
		status = suggest_open_log(suggest, error);
	if (status == WEIR_OK) {
		state.search.max = rate_parameter(state.goal.algorithm)->max;
		status = bisect(&state, error);
	}
	if (status == WEIR_OK && !bisection_is_exact(&state))
		status = try_smaller_counts(&state, error);
	if (status == WEIR_OK)
		status = store_result(&state, error);
	suggest->progress->search_pass = 0;
	buffer_free(&state.points);
	return status;
}

void suggest_close(struct suggest *suggest)
{
	if (suggest->log_is_open)
		reusable_log_close(&suggest->log);
	arena_free(&suggest->arena);
}
