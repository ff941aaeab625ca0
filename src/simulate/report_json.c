#include "simulate/report.h"

#include "rules/show.h"
#include "base/when.h"

static void add_number(struct buffer *out, const char *before, uint64_t value)
{
	buffer_add_text(out, before);
	buffer_add_u64(out, value);
}

static void add_key(struct buffer *out, const char *before, struct slice key, bool cut)
{
	buffer_add_text(out, before);
	buffer_add_json(out, key);
	buffer_add_text(out, cut ? "…\"" : "\"");
}

static void add_worst(const struct tally *tally, struct buffer *out)
{
	const struct tally_worst *worst = &tally->worst;
	struct burst_stats stats = burst_stats(tally->burst);
	uint64_t declared = tally->declared->options.rate.count;

	add_number(out, ",\"worst\":{\"granted\":", worst->granted);
	add_number(out, ",\"declared\":", declared);
	add_number(out, ",\"period_ms\":", ceil_div(tally->limit->algo.period_ns, NS_PER_MS));
	if (declared > 0)
		buffer_printf(out, ",\"ratio\":%.3f", (double)worst->granted / (double)declared);
	if (worst->granted > 0) {
		bool cut = worst->key_len > sizeof worst->key;

		add_key(out, ",\"key\":\"",
		        (struct slice){worst->key, cut ? sizeof worst->key : worst->key_len}, cut);
		buffer_add_text(out, ",\"at\":");
		when_add_seconds(out, worst->at_ns);
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

static void add_waits(const struct tally_waits *waits, struct buffer *out)
{
	if (waits->waits.count == 0)
		return;
	add_number(out, ",\"wait_ms\":{\"waited\":", waits->waited);
	buffer_printf(out, ",\"mean\":%.3f", tally_wait_mean_ns(waits) / NS_PER_MS);
	add_spread(",\"p50\":", &waits->waits, out);
}

static void add_top(const struct tally *tally, struct buffer *out)
{
	struct arena arena = {0};
	size_t n = REPORT_TOP;
	const struct top_entry *top = top_list(tally->top, &n, TALLY_TIME, &arena);

	out->failed |= !top;
	buffer_add_text(out, ",\"top\":[");
	for (size_t i = 0; top && i < n; i++) {
		add_key(out, i > 0 ? ",{\"key\":\"" : "{\"key\":\"", top[i].key, top[i].cut);
		add_number(out, ",\"denied\":", top[i].denied);
		add_number(out, ",\"error\":", top[i].error);
		buffer_add_text(out, "}");
	}
	buffer_add_text(out, "]");
	arena_free(&arena);
}

static void add_timeline(const struct timeline *t, struct buffer *out)
{
	static const struct {
		const char *name;
		size_t offset;
	} fields[] = {
	    {"asked", offsetof(struct timeline_counts, asked)},
	    {"passed", offsetof(struct timeline_counts, passed)},
	    {"denied", offsetof(struct timeline_counts, denied)},
	};

	buffer_add_text(out, ",\"timeline\":{\"start\":");
	when_add_seconds(out, timeline_start_ns(t));
	buffer_add_text(out, ",\"width\":");
	when_add_seconds(out, timeline_width_ns(t));
	for (size_t f = 0; f < sizeof fields / sizeof *fields; f++) {
		buffer_printf(out, ",\"%s\":[", fields[f].name);
		for (size_t i = 0; i < t->count; i++)
			add_number(out, i > 0 ? "," : "",
			           *(const uint64_t *)((const char *)&t->counts[i] + fields[f].offset));
		buffer_add_text(out, "]");
	}
	buffer_add_text(out, "}");
}

static void add_limit(const struct report *report, const struct lane *lane,
                      const struct tally *tally, struct buffer *out)
{
	buffer_add_text(out, "\"");
	buffer_add_json(out, slice_of(tally->limit->name));
	add_number(out, "\":{\"allowed\":", tally->allowed);
	add_number(out, ",\"denied\":", tally->denied);
	add_number(out, ",\"keys\":", burst_stats(tally->burst).keys);
	if (!report->as_rules) {
		add_number(out, ",\"errors\":", lane->errors);
		add_number(out, ",\"evictions\":", lane_evictions(lane));
	}
	buffer_add_text(out, ",\"parameters\":{");
	rules_show_limit(tally->declared, out);
	buffer_add_text(out, "}");
	add_worst(tally, out);
	add_spread(",\"retry_after_ms\":{\"p50\":", &tally->retry_after, out);
	add_waits(&tally->waits, out);
	add_top(tally, out);
	add_timeline(&tally->timeline, out);
	buffer_add_text(out, "}");
}

/* Counts the requests that lacked a field of their key. */
static void add_without(const struct replay *replay, struct buffer *out)
{
	const char *between = "\"";

	buffer_add_text(out, ",\"without\":{");
	for (size_t i = 0; i < replay->fields.count; i++) {
		if (replay->without[i] == 0)
			continue;
		add_key(out, between, replay->fields.names[i], false);
		add_number(out, ":", replay->without[i]);
		between = ",\"";
	}
	buffer_add_text(out, "}");
}

/* Counts the requests that each rule answered by itself. */
static void add_answered(const struct lane *lane, struct buffer *out)
{
	const char *between = "\"";

	buffer_add_text(out, ",\"answered\":{");
	for (size_t i = 0; i < lane->config->rule_count; i++) {
		if (lane->answered[i] == 0)
			continue;
		add_key(out, between, slice_of(lane->config->rules[i].name), false);
		add_number(out, ":", lane->answered[i]);
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
	when_add_seconds(out, replay->first_ns);
	buffer_add_text(out, ",\"to\":");
	when_add_seconds(out, replay->last_ns);
	add_number(out, ",\"order\":{\"sorted\":", replay->order.sorted);
	add_number(out, ",\"late\":", replay->order.late);
	add_number(out, ",\"ahead\":", replay->order.ahead);
	buffer_add_text(out, "}");
	add_without(replay, out);
	if (report->as_rules) {
		const struct lane *lane = &replay->lanes[0];

		add_number(out, ",\"allowed\":", lane->allowed);
		add_number(out, ",\"denied\":", lane->denied);
		add_number(out, ",\"unlimited\":", lane->unlimited);
		add_number(out, ",\"errors\":", lane->errors);
		add_number(out, ",\"evictions\":", lane_evictions(lane));
		add_answered(lane, out);
	}
	buffer_add_text(out, ",\"source\":\"");
	buffer_add_json(out, slice_of(report->source));
	buffer_add_text(out, "\",\"limits\":{");
	for (size_t l = 0; l < replay->lane_count; l++)
		for (size_t i = 0; i < replay->lanes[l].tally_count; i++) {
			buffer_add_text(out, between);
			add_limit(report, &replay->lanes[l], &replay->lanes[l].tallies[i], out);
			between = ",";
		}
	buffer_add_text(out, "}}\n");
}
