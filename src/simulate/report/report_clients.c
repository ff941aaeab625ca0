#include "simulate/report/report_clients.h"

#include "base/number.h"
#include "base/time/timestamp.h"
#include "rules/rate.h"
#include "simulate/report/figure.h"

#define BINS_IN_COLUMN 4

static const char *const blocks[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
static const char *const ascii[] = {" ", ".", ":", "-", "=", "+", "*", "#", "@"};

#define LEVELS (sizeof blocks / sizeof *blocks - 1)

static double per_second(uint64_t n, uint64_t ns)
{
	return (double)n * (double)NS_PER_S / (double)ns;
}

static uint64_t part_ns(const struct experiment *experiment, size_t part)
{
	return experiment->bins[part] * experiment->bin_ns;
}

static void add_time(const char *before, uint64_t ns, const char *after, struct buffer *out)
{
	buffer_add_text(out, before);
	duration_add(out, ns);
	buffer_add_text(out, after);
}

/* Says in plain words whether the configuration recovers. */
static void add_verdict(const struct experiment *experiment, const struct experiment_result *result,
                        struct buffer *out)
{
	static const char never[] = "with these retries this configuration does not recover: ";
	uint64_t after_ns = part_ns(experiment, PART_AFTER);

	if (result->recovers) {
		figure_add_duration(out, 0, result->recovered_ns);
		buffer_add_text(out, " after the overload it has recovered");
	} else if (!result->was_healthy) {
		buffer_printf(out, "%seven before the overload it answers ", never);
		figure_add_percent(out, 0, result->before_share, 1);
		buffer_add_text(out, " of what it could");
	} else {
		buffer_add_text(out, never);
		figure_add_duration(out, 0, after_ns);
		buffer_add_text(out, " after the overload it answers ");
		figure_add_percent(out, 0, result->end_share, 1);
		buffer_add_text(out, " of what it answered before");
	}
}

static void add_clients(const struct experiment *e, struct buffer *out)
{
	bool is_alone = e->clients == 1;

	buffer_printf(out, "%u client%s", e->clients, is_alone ? "" : "s");
	add_time(is_alone ? " thinks for " : " think for ", e->think_ns, " between requests, and", out);
	add_time(is_alone ? " gives up after " : " give up after ", e->timeout_ns, ".\n", out);
	if (e->attempts > 1) {
		buffer_printf(out, "%s %u attempts, ", is_alone ? "It makes" : "They make", e->attempts);
		if (e->backoff_ns > 0)
			add_time("after random pauses of up to ", e->backoff_ns, ", then twice as long.\n",
			         out);
		else
			buffer_add_text(out, "one at once after the other.\n");
	} else {
		buffer_add_text(out, is_alone ? "It does not retry.\n" : "They do not retry.\n");
	}
}

static void add_backend(const struct experiment *e, struct buffer *out)
{
	buffer_printf(out, "The backend has %u worker%s. A request takes ", e->workers,
	              e->workers == 1 ? "" : "s");
	add_time("", e->service_ns, " on average, so it can answer ", out);
	buffer_printf(out, "%.4g a second.\n", experiment_capacity(e));
	if (e->strain > 0 && e->workers == 1)
		buffer_printf(out, "Each request that waits makes it slower by %.3g%%.\n", 100 * e->strain);
	else if (e->strain > 0)
		buffer_printf(out, "Each %u requests that wait make it slower by %.3g%%.\n", e->workers,
		              100 * e->strain);
}

static void add_settings(const struct experiment *e, struct buffer *out)
{
	add_clients(e, out);
	add_backend(e, out);
	add_time("Overload: from ", experiment_begin_ns(e, PART_OVERLOAD), "", out);
	add_time(" to ", experiment_begin_ns(e, PART_AFTER), " of ", out);
	add_time("", experiment_begin_ns(e, PARTS), "", out);
	buffer_printf(out, ", a request takes %g times as long.\n", e->slow_factor);
}

static void add_part_row(const struct experiment *experiment, size_t part,
                         const struct experiment_part_result *result, struct buffer *out)
{
	const struct backend_work *work = &result->work;
	uint64_t ns = part_ns(experiment, part);

	buffer_printf(out, "%-8s %9.1f %9.1f", experiment_parts[part], per_second(work->requests, ns),
	              per_second(work->answered, ns));
	figure_add_duration(out, 9, histogram_quantile(&result->latencies, 0.5));
	figure_add_duration(out, 9, histogram_quantile(&result->latencies, 0.99));
	buffer_printf(out, " %7.2f",
	              work->requests
	                  ? (double)(work->attempts - u64_min(work->attempts, work->requests)) /
	                        (double)work->requests
	                  : 0);
	figure_add_percent(out, 8, (double)work->denied, (double)work->attempts);
	figure_add_percent(out, 8, (double)work->refused, (double)work->attempts);
	figure_add_percent(out, 8, (double)work->abandoned, (double)work->attempts);
	figure_add_percent(out, 8, work->wasted_ns, work->worked_ns);
	buffer_add_text(out, "\n");
}

/* Sums answered requests for a column of the chart: bins of one part, from `first`. */
static uint64_t column(const struct experiment_result *result, size_t first, size_t end)
{
	uint64_t answered = 0;

	for (size_t i = first; i < end && i < first + BINS_IN_COLUMN; i++)
		answered += result->bins[i].work.answered;
	return answered;
}

/* Adds a chart of the requests answered over time, with a bar between the parts. */
static void add_answered_chart(const struct experiment *experiment,
                               const struct experiment_result *result, uint64_t most, bool plain,
                               struct buffer *out)
{
	const char *const *levels = plain ? ascii : blocks;
	size_t first = 0;

	buffer_printf(out, "answered %s|", plain ? "" : "\033[32m");
	for (size_t part = 0; part < PARTS; part++) {
		size_t end = first + experiment->bins[part];

		for (; first < end; first += BINS_IN_COLUMN)
			buffer_add_text(out, levels[ceil_div(column(result, first, end) * LEVELS, most)]);
		first = end;
		buffer_add_text(out, "|");
	}
	buffer_printf(out, "%s\n", plain ? "" : "\033[0m");
}

static uint64_t largest_column(const struct report_clients *clients)
{
	uint64_t largest = 1;

	for (size_t c = 0; c < clients->count; c++) {
		size_t first = 0;

		for (size_t part = 0; part < PARTS; part++) {
			size_t end = first + clients->experiment->bins[part];

			for (; first < end; first += BINS_IN_COLUMN)
				largest = u64_max(largest, column(clients->configurations[c].result, first, end));
			first = end;
		}
	}
	return largest;
}

void report_clients_text(const struct report_clients *clients, bool plain, struct buffer *out)
{
	const struct experiment *experiment = clients->experiment;
	uint64_t most = largest_column(clients);

	add_settings(experiment, out);
	for (size_t c = 0; c < clients->count; c++) {
		const struct experiment_result *result = clients->configurations[c].result;

		buffer_printf(out, "\n%s:\n%-8s %9s %9s%9s%9s %7s%8s%8s%8s%8s\n",
		              clients->configurations[c].name, "", "asked/s", "answered", "p50", "p99",
		              "retries", "denied", "full", "timeout", "wasted");
		for (size_t part = 0; part < PARTS; part++)
			add_part_row(experiment, part, &result->parts[part], out);
		add_answered_chart(experiment, result, most, plain, out);
		buffer_add_text(out, "=> ");
		add_verdict(experiment, result, out);
		buffer_add_text(out, "\n");
	}
}

static void add_count(const char *before, uint64_t value, struct buffer *out)
{
	buffer_add_text(out, before);
	buffer_add_u64(out, value);
}

static void add_milliseconds(const char *before, uint64_t ns, struct buffer *out)
{
	buffer_printf(out, "%s%.6g", before, (double)ns / NS_PER_MS);
}

static void add_json_part(const struct experiment *experiment, size_t part,
                          const struct experiment_part_result *result, struct buffer *out)
{
	const struct backend_work *work = &result->work;
	const struct histogram *latencies = &result->latencies;

	buffer_printf(out, ",\"%s\":{\"seconds\":%.9g", experiment_parts[part],
	              (double)part_ns(experiment, part) / (double)NS_PER_S);
	add_count(",\"requests\":", work->requests, out);
	add_count(",\"attempts\":", work->attempts, out);
	add_count(",\"retries\":", work->attempts - u64_min(work->attempts, work->requests), out);
	add_count(",\"answered\":", work->answered, out);
	add_count(",\"denied\":", work->denied, out);
	add_count(",\"refused\":", work->refused, out);
	add_count(",\"timeouts\":", work->abandoned, out);
	buffer_printf(out, ",\"goodput\":%.9g", per_second(work->answered, part_ns(experiment, part)));
	buffer_printf(out, ",\"wasted_share\":%.9g",
	              work->worked_ns > 0 ? work->wasted_ns / work->worked_ns : 0);
	add_milliseconds(",\"latency_ms\":{\"p50\":", histogram_quantile(latencies, 0.5), out);
	add_milliseconds(",\"p90\":", histogram_quantile(latencies, 0.9), out);
	add_milliseconds(",\"p99\":", histogram_quantile(latencies, 0.99), out);
	add_milliseconds(",\"max\":", latencies->max, out);
	buffer_add_text(out, "}}");
}

/* Adds a number of each bin: the member of struct backend_work at `offset`. */
static void add_bins(const char *name, const struct experiment_result *result, size_t offset,
                     struct buffer *out)
{
	buffer_printf(out, ",\"%s\":[", name);
	for (size_t i = 0; i < result->bin_count; i++)
		add_count(i > 0 ? "," : "",
		          *(const uint64_t *)(const void *)((const char *)&result->bins[i].work + offset),
		          out);
	buffer_add_text(out, "]");
}

static void add_json_timeline(const struct experiment *experiment,
                              const struct experiment_result *result, struct buffer *out)
{
	buffer_printf(out, ",\"timeline\":{\"width\":%.9g",
	              (double)experiment->bin_ns / (double)NS_PER_S);
	add_bins("asked", result, offsetof(struct backend_work, requests), out);
	add_bins("attempts", result, offsetof(struct backend_work, attempts), out);
	add_bins("answered", result, offsetof(struct backend_work, answered), out);
	add_bins("denied", result, offsetof(struct backend_work, denied), out);
	add_bins("refused", result, offsetof(struct backend_work, refused), out);
	add_bins("timeouts", result, offsetof(struct backend_work, abandoned), out);
	buffer_add_text(out, ",\"inside\":[");
	for (size_t i = 0; i < result->bin_count; i++)
		add_count(i > 0 ? "," : "", result->bins[i].inside, out);
	buffer_add_text(out, "]}");
}

static void add_json_configuration(const struct report_clients *clients, size_t number,
                                   struct buffer *out)
{
	const struct report_configuration *configuration = &clients->configurations[number];
	const struct experiment_result *result = configuration->result;

	buffer_add_text(out, number > 0 ? ",{\"name\":\"" : "{\"name\":\"");
	buffer_add_json(out, slice_of(configuration->name));
	buffer_printf(out, "\",\"limited\":%s,\"recovers\":%s", number > 0 ? "true" : "false",
	              result->recovers ? "true" : "false");
	if (result->recovers)
		add_milliseconds(",\"recovered_after_ms\":", result->recovered_ns, out);
	else
		buffer_add_text(out, ",\"recovered_after_ms\":null");
	buffer_printf(out, ",\"healthy_before\":%s,\"end_share\":%.9g,\"verdict\":\"",
	              result->was_healthy ? "true" : "false", result->end_share);
	add_verdict(clients->experiment, result, out);
	buffer_add_text(out, "\"");
	for (size_t part = 0; part < PARTS; part++)
		add_json_part(clients->experiment, part, &result->parts[part], out);
	add_json_timeline(clients->experiment, result, out);
	buffer_add_text(out, "}");
}

void report_clients_json(const struct report_clients *clients, struct buffer *out)
{
	const struct experiment *e = clients->experiment;

	add_count("{\"count\":", e->clients, out);
	add_count(",\"attempts\":", e->attempts, out);
	add_milliseconds(",\"timeout_ms\":", e->timeout_ns, out);
	add_milliseconds(",\"think_ms\":", e->think_ns, out);
	add_milliseconds(",\"backoff_ms\":", e->backoff_ns, out);
	add_count(",\"workers\":", e->workers, out);
	add_milliseconds(",\"service_ms\":", e->service_ns, out);
	buffer_printf(out, ",\"capacity\":%.9g,\"strain\":%.9g", experiment_capacity(e), e->strain);
	add_count(",\"seed\":", e->seed, out);
	buffer_printf(out, ",\"overload\":{\"factor\":%.9g", e->slow_factor);
	add_milliseconds(",\"from_ms\":", experiment_begin_ns(e, PART_OVERLOAD), out);
	add_milliseconds(",\"to_ms\":", experiment_begin_ns(e, PART_AFTER), out);
	add_milliseconds(",\"end_ms\":", experiment_begin_ns(e, PARTS), out);
	buffer_add_text(out, "},\"configurations\":[");
	for (size_t i = 0; i < clients->count; i++)
		add_json_configuration(clients, i, out);
	buffer_add_text(out, "]}");
}
