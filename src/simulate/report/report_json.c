/*
 * report_json.c: writes the result of a simulation as a JSON object. Either the rules decided, all
 * in one scenario, or each limit decided all requests in a scenario of its own.
 */
#include "simulate/report/report.h"

#include "base/time/timestamp.h"
#include "rules/show.h"
#include "simulate/report/report_notes.h"

static void add_number(struct buffer *out, const char *before, uint64_t value)
{
	buffer_add_text(out, before);
	buffer_add_u64(out, value);
}

static void add_json_key(struct buffer *out, const char *before, struct slice key, bool cut)
{
	buffer_add_text(out, before);
	buffer_add_json(out, key);
	buffer_add_text(out, cut ? "…\"" : "\"");
}

/*
 * Adds the most that the limit granted to a key in one period, beside the count that it declares,
 * and for how many keys and requests that is not exact.
 */
static void add_worst_period(const struct tally *tally, struct buffer *out)
{
	const struct tally_worst *worst = &tally->worst_period;
	struct burst_stats stats = burst_stats(tally->burst);
	uint64_t declared = tally->declared->options.rate.count;

	add_number(out, ",\"worst\":{\"granted\":", worst->granted);
	add_number(out, ",\"declared\":", declared);
	add_number(out, ",\"period_ms\":", ceil_div(tally->limit->algo.period_ns, NS_PER_MS));
	if (declared > 0)
		buffer_printf(out, ",\"ratio\":%.3f", (double)worst->granted / (double)declared);
	if (worst->granted > 0) {
		bool cut = worst->key_len > sizeof worst->key;

		add_json_key(out, ",\"key\":\"",
		             (struct slice){worst->key, cut ? sizeof worst->key : worst->key_len}, cut);
		buffer_add_text(out, ",\"at\":");
		timestamp_add_seconds(out, worst->at_ns);
	}
	add_number(out, ",\"estimated_keys\":", stats.estimated);
	add_number(out, ",\"untracked_requests\":", stats.untracked);
	buffer_add_text(out, "}");
}

static void add_spread(const char *before, const struct histogram *h, struct buffer *out)
{
	add_number(out, before, ceil_div(histogram_quantile(h, 0.5), NS_PER_MS));
	add_number(out, ",\"p99\":", ceil_div(histogram_quantile(h, 0.99), NS_PER_MS));
	add_number(out, ",\"max\":", ceil_div(h->max, NS_PER_MS));
	buffer_add_text(out, "}");
}

static double divide_share(uint64_t part, uint64_t whole)
{
	return whole > 0 ? (double)part / (double)whole : 0;
}

static void add_percentiles(const char *before, const struct hits_spread *spread,
                            struct buffer *out)
{
	add_number(out, before, spread->p50);
	add_number(out, ",\"p90\":", spread->p90);
	add_number(out, ",\"p99\":", spread->p99);
	add_number(out, ",\"max\":", spread->max);
	buffer_add_text(out, "}");
}

/* Adds how many keys were hit, and percentiles of their requests and denials. */
static void add_hits(const struct hits *hits, struct buffer *out)
{
	struct hits_spread asked = {0}, denied = {0};

	out->failed |= !hits_spreads(hits, &asked, &denied);
	add_number(out, ",\"hits\":{\"keys\":", hits->hit);
	buffer_printf(out, ",\"share\":%.9g", divide_share(hits->hit, hits->keys.count));
	add_percentiles(",\"requests_per_key\":{\"p50\":", &asked, out);
	add_percentiles(",\"denied_per_key\":{\"p50\":", &denied, out);
	buffer_add_text(out, "}");
}

static void add_suggestion(const struct report_suggestion *suggestion, struct buffer *out)
{
	add_json_key(out, ",\"suggestion\":{\"limit\":\"", slice_of(suggestion->limit), false);
	add_number(out, ",\"count\":", suggestion->count);
	buffer_printf(out, ",\"by\":\"%s\",\"deny\":%.9g,\"unsure\":%s,\"curve\":[",
	              suggestion->by_requests ? "requests" : "keys", suggestion->share,
	              suggestion->unsure ? "true" : "false");
	for (size_t i = 0; i < suggestion->point_count; i++) {
		const struct report_point *point = &suggestion->points[i];

		add_number(out, i > 0 ? ",{\"count\":" : "{\"count\":", point->count);
		add_number(out, ",\"requests\":", point->requests);
		add_number(out, ",\"denied\":", point->denied);
		add_number(out, ",\"keys\":", point->keys);
		add_number(out, ",\"hit\":", point->hit);
		buffer_add_text(out, "}");
	}
	buffer_add_text(out, "]}");
}

static void add_waits(const struct tally_waits *waits, struct buffer *out)
{
	if (waits->waits.count == 0)
		return;
	add_number(out, ",\"wait_ms\":{\"waited\":", waits->waited);
	buffer_printf(out, ",\"mean\":%.3f", tally_wait_mean_ns(waits) / NS_PER_MS);
	add_spread(",\"p50\":", &waits->waits, out);
}

static void add_ends(const char *before, const uint64_t ends[TALLY_ENDS], struct buffer *out)
{
	add_number(out, before, ends[TALLY_GOOD]);
	add_number(out, ",\"bad\":", ends[TALLY_BAD]);
	add_number(out, ",\"neither\":", ends[TALLY_NEITHER]);
	buffer_add_text(out, "}");
}

/*
 * For a limit that judges how requests end: adds how those that it denied and those that it passed
 * ended in the log.
 */
static void add_judged_ends(const struct tally *tally, struct buffer *out)
{
	if (!tally->limit->algo.algorithm->judges)
		return;
	add_ends(",\"ends\":{\"denied\":{\"good\":", tally->ends_of_denied, out);
	add_ends(",\"passed\":{\"good\":", tally->ends_of_passed, out);
	buffer_add_text(out, "}");
}

static void add_json_phases(const struct phases *phases, struct buffer *out)
{
	if (!phases)
		return;
	add_number(out, ",\"phases\":{\"opened\":", phases->opened);
	add_number(out, ",\"open_ms\":", phases->sum.phase_ns[TIMELINE_OPEN] / NS_PER_MS);
	add_number(out, ",\"half_open_ms\":", phases->sum.phase_ns[TIMELINE_HALF_OPEN] / NS_PER_MS);
	add_number(out, ",\"ramp_ms\":", phases->sum.phase_ns[TIMELINE_RAMP] / NS_PER_MS);
	add_number(out, ",\"untracked\":", phases->untracked);
	buffer_add_text(out, "}");
}

/* Adds the keys with the most denials. `error` is by how much a count may be too high. */
static void add_top(const struct tally *tally, struct buffer *out)
{
	struct arena arena = {0};
	size_t n = REPORT_TOP;
	const struct top_entry *top = top_list(tally->top, &n, TALLY_TOP_TIME_NS, &arena);

	out->failed |= !top;
	buffer_add_text(out, ",\"top\":[");
	for (size_t i = 0; top && i < n; i++) {
		add_json_key(out, i > 0 ? ",{\"key\":\"" : "{\"key\":\"", top[i].key, top[i].cut);
		add_number(out, ",\"denied\":", top[i].denied);
		add_number(out, ",\"error\":", top[i].excess_max);
		buffer_add_text(out, "}");
	}
	buffer_add_text(out, "]");
	arena_free(&arena);
}

/* Adds a number for each interval of `requests`, from another timeline of the same width. */
static void add_series(const char *name, const struct timeline *requests, const struct timeline *t,
                       size_t field, uint64_t unit, struct buffer *out)
{
	buffer_printf(out, ",\"%s\":[", name);
	for (size_t i = 0; i < requests->count; i++)
		add_number(out, i > 0 ? "," : "", timeline_in_interval_of(t, requests, i).n[field] / unit);
	buffer_add_text(out, "]");
}

static void add_timeline(const struct tally *tally, struct buffer *out)
{
	static const char *const fields[] = {"asked", "passed", "denied"};
	static const char *const phases[] = {"open", "half_open", "ramp"};
	const struct timeline *t = &tally->timeline;

	buffer_add_text(out, ",\"timeline\":{\"start\":");
	timestamp_add_seconds(out, timeline_start_ns(t));
	buffer_add_text(out, ",\"width\":");
	timestamp_add_seconds(out, timeline_width_ns(t));
	for (size_t f = 0; f < sizeof fields / sizeof *fields; f++)
		add_series(fields[f], t, t, f, 1, out);
	for (size_t f = 0; tally->phases && f < sizeof phases / sizeof *phases; f++)
		add_series(phases[f], t, &tally->phases->timeline, f, NS_PER_MS, out);
	buffer_add_text(out, "}");
}

static void add_limit(const struct report *report, const struct scenario *scenario,
                      const struct tally *tally, struct buffer *out)
{
	static const char *const modes[] = {
	    [LIMIT_SHADOW] = ",\"shadow\":true", [LIMIT_PARTLY_SHADOW] = ",\"partly_shadow\":true"};
	enum limit_mode mode = scenario_limit_mode(scenario, (size_t)(tally - scenario->tallies));

	buffer_add_text(out, "\"");
	buffer_add_json(out, slice_of(tally->limit->name));
	add_number(out, "\":{\"allowed\":", tally->allowed);
	add_number(out, ",\"denied\":", tally->denied);
	if (mode != LIMIT_ENFORCED)
		buffer_add_text(out, modes[mode]);
	buffer_printf(out, ",\"denied_share\":%.9g",
	              divide_share(tally->denied, tally->allowed + tally->denied));
	add_number(out, ",\"keys\":", burst_stats(tally->burst).keys);
	if (!report->decided_by_rules) { /* with rules, report_json adds these of the only scenario */
		add_number(out, ",\"errors\":", scenario->errors);
		add_number(out, ",\"evictions\":", scenario_evictions(scenario));
	}
	buffer_add_text(out, ",\"parameters\":{");
	rules_show_limit(tally->declared, out);
	buffer_add_text(out, "}");
	add_hits(&tally->hits, out);
	add_worst_period(tally, out);
	add_spread(",\"retry_after_ms\":{\"p50\":", &tally->retry_after, out);
	add_waits(&tally->waits, out);
	add_judged_ends(tally, out);
	add_json_phases(tally->phases, out);
	add_top(tally, out);
	add_timeline(tally, out);
	buffer_add_text(out, "}");
}

/* Adds how many requests lacked a field of their key. */
static void add_without(const struct replay *replay, struct buffer *out)
{
	const char *between = "\"";

	buffer_add_text(out, ",\"without\":{");
	for (size_t i = 0; i < replay->fields.count; i++) {
		if (replay->without[i] == 0)
			continue;
		add_json_key(out, between, replay->fields.names[i], false);
		add_number(out, ":", replay->without[i]);
		between = ",\"";
	}
	buffer_add_text(out, "}");
}

/* Adds the attributes that no request had, with the number of rules that use each. */
static void add_missing(const struct report *report, struct buffer *out)
{
	const char *between = "\"";

	buffer_add_text(out, ",\"missing\":{");
	for (size_t i = 0; i < report->replay->fields.count; i++) {
		size_t rules = report_rules_missing(report, i);

		if (rules == 0)
			continue;
		add_json_key(out, between, report->replay->fields.names[i], false);
		add_number(out, ":", rules);
		between = ",\"";
	}
	buffer_add_text(out, "}");
}

/*
 * Adds how complete the latencies and outcomes in the log were, if a limit needed them. `early`
 * requests ended before their time for lack of space, `unheld` ones without their permits.
 */
static void add_endings(const struct replay *replay, struct buffer *out)
{
	const struct endings *endings = &replay->endings;

	if (!replay->reads_ends)
		return;
	add_number(out, ",\"endings\":{\"wrong\":", endings->invalid);
	add_number(out, ",\"no_latency\":", endings->no_latency);
	add_number(out, ",\"no_outcome\":", endings->no_outcome);
	add_number(out, ",\"no_end\":", endings->no_end);
	add_number(out, ",\"early\":", replay->ended_early);
	add_number(out, ",\"unheld\":", replay->evicted_permits);
	buffer_add_text(out, "}");
}

/* Adds what each rule in shadow mode would have done to the requests that it applied to. */
static void add_shadow(const struct scenario *scenario, struct buffer *out)
{
	const char *between = "\"";

	buffer_add_text(out, ",\"shadow\":{");
	for (size_t i = 0; i < scenario->config->rule_count; i++) {
		if (scenario->config->rules[i].mode != RULES_SHADOW)
			continue;
		add_json_key(out, between, slice_of(scenario->config->rules[i].name), false);
		add_number(out, ":{\"asked\":", scenario->shadow[i].asked);
		add_number(out, ",\"denied\":", scenario->shadow[i].denied);
		buffer_add_text(out, "}");
		between = ",\"";
	}
	buffer_add_text(out, "}");
}

/* Adds how many requests each rule answered without a limit. */
static void add_answered(const struct scenario *scenario, struct buffer *out)
{
	const char *between = "\"";

	buffer_add_text(out, ",\"answered\":{");
	for (size_t i = 0; i < scenario->config->rule_count; i++) {
		if (scenario->answered[i] == 0)
			continue;
		add_json_key(out, between, slice_of(scenario->config->rules[i].name), false);
		add_number(out, ":", scenario->answered[i]);
		between = ",\"";
	}
	buffer_add_text(out, "}");
}

void report_json(const struct report *report, struct buffer *out)
{
	const struct replay *replay = report->replay;
	const char *between = "";

	add_number(out, "{\"requests\":", replay->requests);
	add_number(out, ",\"malformed\":", report->malformed);
	buffer_add_text(out, ",\"from\":");
	timestamp_add_seconds(out, replay->first_ns);
	buffer_add_text(out, ",\"to\":");
	timestamp_add_seconds(out, replay->last_ns);
	add_number(out, ",\"order\":{\"sorted\":", replay->order.sorted);
	add_number(out, ",\"late\":", replay->order.late);
	add_number(out, ",\"ahead\":", replay->order.ahead);
	buffer_add_text(out, "}");
	add_without(replay, out);
	add_missing(report, out);
	add_endings(replay, out);
	if (report->decided_by_rules) {
		const struct scenario *scenario = &replay->scenarios[0];

		add_number(out, ",\"allowed\":", scenario->allowed);
		add_number(out, ",\"denied\":", scenario->denied);
		add_number(out, ",\"unlimited\":", scenario->unlimited);
		add_number(out, ",\"errors\":", scenario->errors);
		add_number(out, ",\"evictions\":", scenario_evictions(scenario));
		add_answered(scenario, out);
		add_shadow(scenario, out);
	}
	buffer_add_text(out, ",\"source\":\"");
	buffer_add_json(out, slice_of(report->source));
	buffer_add_text(out, "\"");
	if (report->clients) {
		buffer_add_text(out, ",\"clients\":");
		report_clients_json(report->clients, out);
	}
	if (report->suggestion)
		add_suggestion(report->suggestion, out);
	buffer_add_text(out, ",\"limits\":{");
	for (size_t s = 0; s < replay->scenario_count; s++)
		for (size_t i = 0; i < replay->scenarios[s].tally_count; i++) {
			buffer_add_text(out, between);
			add_limit(report, &replay->scenarios[s], &replay->scenarios[s].tallies[i], out);
			between = ",";
		}
	buffer_add_text(out, "}}\n");
}
