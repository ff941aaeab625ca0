/*
 * report_text.c: writes the result of a simulation as tables and charts for a terminal. Either the
 * rules decided, and a limit was asked for the requests that its rules select, or each limit
 * decided all requests alone, in a scenario of its own.
 */
#include "simulate/report/report.h"

#include <string.h>

#include "base/time/timestamp.h"
#include "rules/show.h"
#include "simulate/report/figure.h"
#include "simulate/report/report_notes.h"

#define CHART_COLUMNS 64
#define TOP_SHOWN     3
#define POINTS_SHOWN  20
#define CURVE_BAR     20

static const char *const blocks[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
static const char *const ascii[] = {" ", ".", ":", "-", "=", "+", "*", "#", "@"};

#define LEVELS (sizeof blocks / sizeof *blocks - 1)

/* The scale of the charts, the same for all limits, so that charts can be compared. */
struct chart {
	uint64_t begin_ns, column_ns; /* multiples of the timelines' intervals */
	uint64_t most;                /* the largest count of a column, of all limits */
	bool plain;
};

struct bars {
	uint64_t asked[CHART_COLUMNS], passed[CHART_COLUMNS], denied[CHART_COLUMNS];
};

static size_t column_at(const struct chart *chart, uint64_t at_ns)
{
	return (size_t)((at_ns - chart->begin_ns) / chart->column_ns);
}

/* Sums the counts of a timeline for each column of a chart. */
static struct bars bars_of(const struct chart *chart, const struct timeline *timeline)
{
	struct bars bars = {0};

	for (size_t i = 0; i < timeline->count; i++) {
		size_t column = column_at(chart, timeline_interval_ns(timeline, i));

		bars.asked[column] += timeline->counts[i].asked;
		bars.passed[column] += timeline->counts[i].passed;
		bars.denied[column] += timeline->counts[i].denied;
	}
	return bars;
}

/* Finds the largest count of a column in the charts of all limits. */
static uint64_t largest_count(const struct chart *chart, const struct replay *replay)
{
	uint64_t largest = 0;

	for (size_t s = 0; s < replay->scenario_count; s++)
		for (size_t i = 0; i < replay->scenarios[s].tally_count; i++) {
			struct bars bars = bars_of(chart, &replay->scenarios[s].tallies[i].timeline);

			/* More may pass than are asked for, since a request that waits passes later. */
			for (size_t j = 0; j < CHART_COLUMNS; j++)
				largest = u64_max(largest, u64_max(bars.asked[j], bars.passed[j]));
		}
	return largest;
}

/* Chooses columns that cover all timelines, whose intervals replay_widen has made equally wide. */
static struct chart scale_chart(const struct replay *replay, bool plain)
{
	struct chart chart = {.begin_ns = UINT64_MAX, .plain = plain};
	uint64_t end_ns = 0, width_ns = 1;

	for (size_t s = 0; s < replay->scenario_count; s++)
		for (size_t i = 0; i < replay->scenarios[s].tally_count; i++) {
			const struct timeline *t = &replay->scenarios[s].tallies[i].timeline;

			if (t->count == 0)
				continue;
			width_ns = timeline_width_ns(t);
			chart.begin_ns = u64_min(chart.begin_ns, timeline_start_ns(t));
			end_ns = u64_max(end_ns, timeline_start_ns(t) + t->count * width_ns);
		}
	chart.column_ns =
	    ceil_div(ceil_div(sat_sub(end_ns, chart.begin_ns), width_ns), CHART_COLUMNS) * width_ns;
	chart.most = largest_count(&chart, replay);
	return chart;
}

/* A count above zero shows at least the smallest bar. */
static void add_chart(const struct chart *chart, const char *name, const char *colour,
                      const uint64_t *values, struct buffer *out)
{
	const char *const *levels = chart->plain ? ascii : blocks;

	buffer_printf(out, "  %s %s|", name, chart->plain ? "" : colour);
	for (size_t i = 0; i < CHART_COLUMNS; i++)
		buffer_add_text(out, levels[ceil_div(values[i] * LEVELS, u64_max(chart->most, 1))]);
	buffer_printf(out, "|%s\n", chart->plain ? "" : "\033[0m");
}

static void add_asked(const struct chart *chart, const struct bars *bars, struct buffer *out)
{
	add_chart(chart, "asked ", "\033[90m", bars->asked, out);
}

/* Writes the parameters "algorithm":"NAME","rate":"5/s" as: algorithm NAME, rate 5/s */
static void add_parameters(const struct tally *tally, struct buffer *out)
{
	static const char last[] = ",\"on_store_failure\""; /* has no effect in a simulation */
	struct buffer json = {0};
	const char *end;

	rules_show_limit(tally->declared, &json);
	end = json.failed ? NULL : memmem(json.data, json.len, last, sizeof last - 1);
	for (size_t i = 0; i < (end ? (size_t)(end - json.data) : json.len); i++) {
		char c = json.data[i];

		if (c != '"')
			buffer_add_text(out, c == ':' ? " " : c == ',' ? ", " : (char[]){c, '\0'});
	}
	out->failed |= json.failed;
	buffer_free(&json);
}

/* Writes only the visible ASCII characters of a key, since clients choose keys. */
static void add_text_key(struct slice key, struct buffer *out)
{
	for (size_t i = 0; i < key.len; i++)
		buffer_printf(out, "%c", key.data[i] < ' ' || key.data[i] > '~' ? '?' : key.data[i]);
}

/* Adds the keys with the most denials. Their counts are exact, or else upper bounds. */
static void add_top(const struct tally *tally, struct buffer *out)
{
	struct arena arena = {0};
	size_t n = TOP_SHOWN;
	const struct top_entry *top = top_list(tally->top, &n, TALLY_TOP_TIME_NS, &arena);

	out->failed |= !top;
	for (size_t i = 0; top && i < n; i++) {
		buffer_add_text(out, i > 0 ? ", " : "  most denied: ");
		if (top[i].key.len == 0) /* all requests have one key */
			buffer_add_text(out, "\"\"");
		add_text_key(top[i].key, out);
		buffer_printf(out, "%s %s%llu", top[i].cut ? "..." : "",
		              top[i].excess_max > 0 ? "at most " : "", (unsigned long long)top[i].denied);
	}
	buffer_add_text(out, top && n > 0 ? "\n" : "");
	arena_free(&arena);
}

/* Returns the mark of a limit that rules in shadow mode ask, which denies nothing. */
static const char *shadow_mark(const struct scenario *scenario, const struct tally *tally)
{
	static const char *const marks[] = {[LIMIT_ENFORCED] = "",
	                                    [LIMIT_SHADOW] = " (shadow)",
	                                    [LIMIT_PARTLY_SHADOW] = " (partly shadow)"};

	return marks[scenario_limit_mode(scenario, (size_t)(tally - scenario->tallies))];
}

/* The width of the column of limits' names. */
static int name_width(const struct replay *replay)
{
	size_t width = 16;

	for (size_t s = 0; s < replay->scenario_count; s++)
		for (size_t i = 0; i < replay->scenarios[s].tally_count; i++) {
			const struct tally *tally = &replay->scenarios[s].tallies[i];

			width = u64_max(width, strlen(tally->limit->name) +
			                           strlen(shadow_mark(&replay->scenarios[s], tally)));
		}
	return (int)width;
}

/* Adds the limit's name and its mark, padded to the width of the column. */
static void add_name(const struct scenario *scenario, const struct tally *tally, int width,
                     struct buffer *out)
{
	const char *mark = shadow_mark(scenario, tally);

	buffer_printf(out, "%s%-*s", tally->limit->name, width - (int)strlen(tally->limit->name), mark);
}

/* Adds a limit's counts; the worst period is the one in which a key was granted most. */
static void add_limit_row(const struct scenario *scenario, const struct tally *tally, int width,
                          struct buffer *out)
{
	const struct histogram *retry = &tally->retry_after;
	uint64_t declared = tally->declared->options.rate.count;
	struct burst_stats stats = burst_stats(tally->burst);

	add_name(scenario, tally, width, out);
	buffer_printf(out, " %9llu %9llu %7llu %8llu", (unsigned long long)tally->allowed,
	              (unsigned long long)tally->denied, (unsigned long long)stats.keys,
	              (unsigned long long)tally->worst_period.granted);
	if (declared > 0)
		buffer_printf(out, " %6.2f x", (double)tally->worst_period.granted / (double)declared);
	else
		buffer_printf(out, " %8s", "-");
	figure_add_duration(out, 10, histogram_quantile(retry, 0.5));
	figure_add_duration(out, 8, retry->max);
	buffer_add_text(out, "\n");
}

static void add_wait_row(const struct tally *tally, int width, struct buffer *out)
{
	const struct histogram *waits = &tally->waits.waits;

	buffer_printf(out, "%-*s %9llu", width, tally->limit->name,
	              (unsigned long long)tally->waits.waited);
	figure_add_duration(out, 10, (uint64_t)tally_wait_mean_ns(&tally->waits));
	figure_add_duration(out, 10, histogram_quantile(waits, 0.5));
	figure_add_duration(out, 10, histogram_quantile(waits, 0.99));
	figure_add_duration(out, 10, waits->max);
	buffer_add_text(out, "\n");
}

/* Adds a table of the limits that make requests wait, if there are any. */
static void add_wait_table(const struct replay *replay, int width, struct buffer *out)
{
	bool has_any = false;

	for (size_t s = 0; s < replay->scenario_count; s++)
		for (size_t i = 0; i < replay->scenarios[s].tally_count; i++) {
			const struct tally *tally = &replay->scenarios[s].tallies[i];

			if (tally->waits.waits.count == 0)
				continue;
			if (!has_any)
				buffer_printf(out, "\n%-*s %9s %9s %9s %9s %9s\n", width, "limit", "waited",
				              "mean wait", "p50", "p99", "max");
			has_any = true;
			add_wait_row(tally, width, out);
		}
}

static void add_outcome_row(const struct tally *tally, int width, struct buffer *out)
{
	const struct phases *phases = tally->phases;

	buffer_printf(out, "%-*s %10llu %9llu %10llu %11llu", width, tally->limit->name,
	              (unsigned long long)tally->ends_of_denied[TALLY_BAD],
	              (unsigned long long)tally->ends_of_denied[TALLY_GOOD],
	              (unsigned long long)tally->ends_of_passed[TALLY_BAD],
	              (unsigned long long)tally->ends_of_passed[TALLY_GOOD]);
	if (phases) {
		buffer_printf(out, " %7llu", (unsigned long long)phases->opened);
		figure_add_duration(out, 8, phases->sum.phase_ns[TIMELINE_OPEN]);
		figure_add_duration(out, 10, phases->sum.phase_ns[TIMELINE_HALF_OPEN]);
		figure_add_duration(out, 8, phases->sum.phase_ns[TIMELINE_RAMP]);
	}
	buffer_add_text(out, "\n");
}

/*
 * Adds a table of the limits that judge how requests end, if there are any: how those that they
 * denied and those that they passed ended in the log.
 */
static void add_outcome_table(const struct replay *replay, int width, struct buffer *out)
{
	bool has_any = false;

	for (size_t s = 0; s < replay->scenario_count; s++)
		for (size_t i = 0; i < replay->scenarios[s].tally_count; i++) {
			const struct tally *tally = &replay->scenarios[s].tallies[i];

			if (!tally->limit->algo.algorithm->judges)
				continue;
			if (!has_any)
				buffer_printf(out, "\n%-*s %10s %9s %10s %11s %7s %7s %9s %7s\n", width, "limit",
				              "bad spared", "good lost", "bad passed", "good passed", "opened",
				              "open", "half-open", "ramp");
			has_any = true;
			add_outcome_row(tally, width, out);
		}
}

/*
 * Adds, for each column of the chart of requests, the letter of the phase in which keys were
 * longest. A column in which all keys were closed, which is no phase of the timeline, has a blank.
 */
static void add_chart_phases(const struct chart *chart, const struct tally *tally,
                             struct buffer *out)
{
	static const char letters[TIMELINE_PHASES] = {
	    [TIMELINE_OPEN] = 'o', [TIMELINE_HALF_OPEN] = 'h', [TIMELINE_RAMP] = 'r'};
	struct timeline_counts columns[CHART_COLUMNS] = {0};
	const struct timeline *requests = &tally->timeline;

	for (size_t i = 0; i < requests->count; i++) {
		struct timeline_counts times =
		    timeline_in_interval_of(&tally->phases->timeline, requests, i);
		size_t column = column_at(chart, timeline_interval_ns(requests, i));

		for (size_t p = 0; p < TIMELINE_PHASES; p++)
			columns[column].phase_ns[p] += times.phase_ns[p];
	}
	buffer_add_text(out, "  phase  |");
	for (size_t i = 0; i < CHART_COLUMNS; i++) {
		const uint64_t *phase_ns = columns[i].phase_ns;
		size_t longest = 0;

		for (size_t p = 1; p < TIMELINE_PHASES; p++)
			longest = phase_ns[p] > phase_ns[longest] ? p : longest;
		buffer_printf(out, "%c", phase_ns[longest] > 0 ? letters[longest] : ' ');
	}
	buffer_add_text(out, "|\n");
}

/* Adds the shares of denied requests and hit keys, and percentiles of denials per hit key. */
static void add_hits(const struct tally *tally, struct buffer *out)
{
	const struct hits *hits = &tally->hits;
	struct hits_spread ignored, denied;

	if (hits->hit == 0)
		return;
	out->failed |= !hits_spreads(hits, &ignored, &denied);
	if (out->failed)
		return;
	buffer_add_text(out, "  denied ");
	figure_add_percent(out, 0, tally->denied, tally->allowed + tally->denied);
	buffer_printf(out, " of requests; keys hit: %llu (", (unsigned long long)hits->hit);
	figure_add_percent(out, 0, hits->hit, hits->keys.count);
	buffer_printf(out, "), p50 %llu, p99 %llu, max %llu\n", (unsigned long long)denied.p50,
	              (unsigned long long)denied.p99, (unsigned long long)denied.max);
}

/* Adds the parameters, charts and most denied keys of one limit. */
static void add_detail(const struct chart *chart, const struct scenario *scenario,
                       const struct tally *tally, bool charts_asked, struct buffer *out)
{
	struct bars bars = bars_of(chart, &tally->timeline);

	buffer_printf(out, "\n%s%s: ", tally->limit->name, shadow_mark(scenario, tally));
	add_parameters(tally, out);
	buffer_add_text(out, "\n");
	if (charts_asked)
		add_asked(chart, &bars, out);
	add_chart(chart, "passed", "\033[32m", bars.passed, out);
	add_chart(chart, "denied", "\033[31m", bars.denied, out);
	if (tally->phases)
		add_chart_phases(chart, tally, out);
	add_hits(tally, out);
	add_top(tally, out);
}

/* Adds how many requests each rule in shadow mode would have denied. */
static void add_shadow(const struct scenario *scenario, struct buffer *out)
{
	for (size_t i = 0; i < scenario->config->rule_count; i++) {
		const struct shadow_count *count = &scenario->shadow[i];

		if (scenario->config->rules[i].mode != RULES_SHADOW)
			continue;
		buffer_printf(out, "\nshadow: \"%s\" would have denied %llu of %llu requests (",
		              scenario->config->rules[i].name, (unsigned long long)count->denied,
		              (unsigned long long)count->asked);
		figure_add_percent(out, 0, count->denied, count->asked);
		buffer_add_text(out, ")");
	}
}

/* Adds how many requests each rule answered without a limit. */
static void add_answered(const struct scenario *scenario, struct buffer *out)
{
	bool has_any = false;

	for (size_t i = 0; i < scenario->config->rule_count; i++) {
		const struct rules_rule *rule = &scenario->config->rules[i];

		if (scenario->answered[i] == 0)
			continue;
		buffer_printf(out, "%s %llu %s by \"%s\"", has_any ? "," : "\nwithout a limit:",
		              (unsigned long long)scenario->answered[i],
		              rule->answer == RULES_ALLOW ? "allowed" : "denied", rule->name);
		has_any = true;
	}
}

static void add_point(const struct report_point *point, bool is_found, bool by_requests,
                      struct buffer *out)
{
	uint64_t part = by_requests ? point->denied : point->hit;
	uint64_t whole = by_requests ? point->requests : point->keys;
	double bar = whole > 0 ? CURVE_BAR * (double)part / (double)whole : 0;

	buffer_printf(out, "%c %12llu %10llu ", is_found ? '>' : ' ', (unsigned long long)point->count,
	              (unsigned long long)point->denied);
	figure_add_percent(out, 9, point->denied, point->requests);
	buffer_printf(out, " %9llu ", (unsigned long long)point->hit);
	figure_add_percent(out, 9, point->hit, point->keys);
	buffer_add_text(out, "  |");
	for (double i = 0; i < CURVE_BAR; i++)
		buffer_add_text(out, i < bar ? "#" : " ");
	buffer_add_text(out, "|\n");
}

/* Says so if the share is of so few keys or requests that it allows to deny none. */
static void add_none_to_deny(const struct report_suggestion *suggestion, struct buffer *out)
{
	const struct report_point *point = suggestion->points;
	const char *what = suggestion->by_requests ? "request" : "key";
	uint64_t whole;

	if (suggestion->point_count == 0)
		return;
	whole = suggestion->by_requests ? point->requests : point->keys;
	if (report_share_is_none(suggestion->share, whole))
		buffer_printf(out, "%.9g%% of %llu %s%s is none: the limit must deny no %s\n",
		              100 * suggestion->share, (unsigned long long)whole, what,
		              whole == 1 ? "" : "s", what);
}

/*
 * Adds the denials of some of the counts that were tried, up to twice the suggested count. Always
 * shows that count, and the one just below it, which denies too many.
 */
static void add_curve(const struct report_suggestion *suggestion, struct buffer *out)
{
	size_t n = 0, step;

	buffer_printf(out, "\ndenies at most %.9g%% of %s:\n", 100 * suggestion->share,
	              suggestion->by_requests ? "requests" : "keys");
	buffer_printf(out, "%14s %10s %9s %9s %9s\n", "limit", "denied", "", "keys hit", "");
	add_none_to_deny(suggestion, out);
	while (n < suggestion->point_count && suggestion->points[n].count <= 2 * suggestion->count)
		n++;
	step = ceil_div(n, POINTS_SHOWN);
	for (size_t i = 0; i < n; i++) {
		const struct report_point *point = &suggestion->points[i];
		bool is_found = point->count == suggestion->count;
		bool is_just_below = point->count + 1 == suggestion->count;

		if (i % step == 0 || is_found || is_just_below)
			add_point(point, is_found, suggestion->by_requests, out);
	}
	if (suggestion->unsure)
		buffer_add_text(out, "requests differ in cost: a much smaller limit may deny as few\n");
	buffer_printf(out, "\n%s\n", suggestion->limit);
}

/* Adds where the requests came from, their number and times, and how the rules decided them. */
static void add_summary(const struct report *report, struct buffer *out)
{
	const struct replay *replay = report->replay;
	const struct scenario *rules = &replay->scenarios[0];

	buffer_printf(out, "%s: %llu request%s, ", report->source, (unsigned long long)replay->requests,
	              replay->requests == 1 ? "" : "s");
	timestamp_add_date(out, replay->first_ns);
	buffer_add_text(out, " to ");
	timestamp_add_date(out, replay->last_ns);
	if (report->decided_by_rules) {
		buffer_printf(out, "\nby the rules %llu allowed, %llu denied; %llu under no limit",
		              (unsigned long long)rules->allowed, (unsigned long long)rules->denied,
		              (unsigned long long)rules->unlimited);
		add_answered(rules, out);
		add_shadow(rules, out);
	}
}

static void add_limit_table(const struct replay *replay, int width, struct buffer *out)
{
	buffer_printf(out, "\n\n%-*s %9s %9s %7s %8s %8s %9s %7s\n", width, "limit", "allowed",
	              "denied", "keys", "worst", "declared", "retry p50", "max");
	for (size_t s = 0; s < replay->scenario_count; s++)
		for (size_t i = 0; i < replay->scenarios[s].tally_count; i++)
			add_limit_row(&replay->scenarios[s], &replay->scenarios[s].tallies[i], width, out);
}

/* Adds the charts and details of the limits that were asked for a request. */
static void add_details(const struct report *report, const struct chart *chart, struct buffer *out)
{
	const struct replay *replay = report->replay;

	/* Without rules all limits were asked for the same requests, one chart is enough. */
	if (!report->decided_by_rules) {
		struct bars traffic = bars_of(chart, &replay->scenarios[0].tallies[0].timeline);

		buffer_add_text(out, "\n");
		add_asked(chart, &traffic, out);
	}
	for (size_t s = 0; s < replay->scenario_count; s++)
		for (size_t i = 0; i < replay->scenarios[s].tally_count; i++) {
			const struct tally *tally = &replay->scenarios[s].tallies[i];

			if (tally->timeline.count > 0)
				add_detail(chart, &replay->scenarios[s], tally, report->decided_by_rules, out);
		}
}

void report_text(const struct report *report, bool plain, struct buffer *out)
{
	struct chart chart = scale_chart(report->replay, plain);
	int width = name_width(report->replay);

	if (report->clients)
		report_clients_text(report->clients, plain, out);
	else
		add_summary(report, out);
	if (report->replay->scenario_count == 0) /* clients without limits */
		return;
	add_limit_table(report->replay, width, out);
	add_wait_table(report->replay, width, out);
	if (!report->clients) /* the limits change how requests of clients end */
		add_outcome_table(report->replay, width, out);
	add_details(report, &chart, out);
	report_notes(report, out);
	if (report->suggestion)
		add_curve(report->suggestion, out);
}
