/*
 * bench_report.c: prints the result of `weir bench` as text or JSON: counts of answers, rates, and
 * quantiles of the latency.
 */
#include "cli/bench_report.h"

#include <inttypes.h>
#include <stddef.h>

#include "base/buffer.h"
#include "base/number.h"

static const struct {
	const char *name;
	double q;
} quantiles[] = {
    {"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p99.9", 0.999}, {"p99.99", 0.9999}, {"max", 1},
};

#define QUANTILES (sizeof quantiles / sizeof *quantiles)

#define OFFSET(member) offsetof(struct load_counts, member)

/* The names of counts in JSON and in text (NULL if not shown there), and where they are. */
static const struct {
	const char *json, *text;
	size_t offset;
} shown_counts[] = {
    {"sent", NULL, OFFSET(sent)},
    {"allowed", "allowed", OFFSET(answers[SCAN_ALLOWED])},
    {"denied", "denied", OFFSET(answers[SCAN_DENIED])},
    {NULL, "other", OFFSET(answers[SCAN_ANSWER])},
    {"errors", "errors", OFFSET(answers[SCAN_ERROR])},
    {"unanswered", "unanswered", OFFSET(unanswered)},
    {"unsent", "never sent", OFFSET(unsent)},
    {"disconnects", "connections lost", OFFSET(disconnects)},
    {"bytes_sent", NULL, OFFSET(bytes_sent)},
    {"bytes_received", NULL, OFFSET(bytes_received)},
};

#define SHOWN_COUNTS (sizeof shown_counts / sizeof *shown_counts)

static uint64_t count_at(const struct load_counts *counts, size_t i)
{
	return *(const uint64_t *)((const char *)counts + shown_counts[i].offset);
}

static uint64_t count_answers(const struct load_counts *counts)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < SCAN_OUTCOMES; i++)
		sum += counts->answers[i];
	return sum;
}

/* 0 if there is nothing to divide by. */
static double divide_by_count(double amount, uint64_t count)
{
	return count > 0 ? amount / (double)count : 0;
}

/* Replies per second. */
static double per_second(const struct load_result *result)
{
	return divide_by_count((double)count_answers(&result->counts) * NS_PER_S, result->elapsed_ns);
}

/* Prints a time in a unit with at most four digits before the point. */
static void print_time(FILE *to, uint64_t ns)
{
	if (ns < 10 * NS_PER_MS)
		fprintf(to, " %7.1f us", (double)ns / 1e3);
	else if (ns < 10 * NS_PER_S)
		fprintf(to, " %7.1f ms", (double)ns / NS_PER_MS);
	else
		fprintf(to, " %7.1f  s", (double)ns / NS_PER_S);
}

static void print_latency(FILE *to, const char *name, const struct histogram *latency)
{
	fprintf(to, "%-10s", name);
	for (size_t i = 0; i < QUANTILES; i++)
		print_time(to, histogram_quantile(latency, quantiles[i].q));
	fputc('\n', to);
}

/* Explains what the printed latencies mean. */
static void print_loop_kind(FILE *to, const struct load_options *options)
{
	if (options->rate > 0)
		fprintf(to,
		        "open loop, %" PRIu64 " a second: latency counts from the time a request was due,\n"
		        "from_send from the time it was sent\n\n",
		        options->rate);
	else
		fputs("closed loop: a connection sends when its replies have arrived. A stall delays "
		      "requests,\n"
		      "but their latency does not include this delay; see --rate\n\n",
		      to);
}

static void print_counts(FILE *to, const struct load_counts *counts)
{
	const char *separator = "";

	fprintf(to, "%-10s ", "answers");
	for (size_t i = 0; i < SHOWN_COUNTS; i++)
		if (shown_counts[i].text && count_at(counts, i) > 0) {
			fprintf(to, "%s%" PRIu64 " %s", separator, count_at(counts, i), shown_counts[i].text);
			separator = ", ";
		}
	fprintf(to, "%s\n", *separator ? "" : "none");
}

bool bench_report_text(FILE *to, const struct load_options *options, const char *protocol,
                       const char *distribution, const struct load_result *result)
{
	const struct load_counts *counts = &result->counts;
	uint64_t n = count_answers(counts);
	char server[NET_ADDRESS_TEXT_MAX];

	net_address_format(&options->server, server);
	fprintf(to, "%s, %s: %zu connections, pipeline %zu, threads %zu, %" PRIu64 " keys (%s)\n",
	        server, protocol, options->connections, options->pipeline, options->threads,
	        options->keys.count, distribution);
	print_loop_kind(to, options);
	fprintf(to, "%-10s %" PRIu64 " answered in %.2f s: %.0f a second%s\n", "requests", n,
	        (double)result->elapsed_ns / NS_PER_S, per_second(result),
	        result->interrupted ? " (interrupted)" : "");
	print_counts(to, counts);
	fprintf(to, "%-10s %" PRIu64 " sent, %" PRIu64 " received\n", "bytes", counts->bytes_sent,
	        counts->bytes_received);
	fprintf(to, "%-10s", "cpu");
	fprintf(to, " %.2f us a request here", divide_by_count((double)result->client_cpu_ns / 1e3, n));
	if (options->server_pid)
		fprintf(to, ", %.2f us in the server",
		        divide_by_count((double)result->server_cpu_ns / 1e3, n));
	fprintf(to, "\n\n%-10s", "");
	for (size_t i = 0; i < QUANTILES; i++)
		fprintf(to, " %10s", quantiles[i].name);
	fputc('\n', to);
	print_latency(to, "latency", &result->latency);
	if (options->rate > 0)
		print_latency(to, "from_send", &result->from_send);
	return !ferror(to);
}

static void add_latency(struct buffer *out, const char *name, const struct histogram *latency)
{
	buffer_printf(out, "\"%s\":{", name);
	for (size_t i = 0; i < QUANTILES; i++)
		buffer_printf(out, "%s\"%s\":%" PRIu64, i > 0 ? "," : "", quantiles[i].name,
		              histogram_quantile(latency, quantiles[i].q));
	buffer_add_text(out, "},");
}

/* Adds how many requests were slower than 1, 10, ... 10000 ms. */
static void add_slower(struct buffer *out, const struct histogram *latency)
{
	buffer_add_text(out, "\"slower_than_ms\":{");
	for (uint64_t ms = 1; ms <= 10000; ms *= 10)
		buffer_printf(out, "%s\"%" PRIu64 "\":%" PRIu64, ms > 1 ? "," : "", ms,
		              histogram_above(latency, ms * NS_PER_MS));
	buffer_add_text(out, "},");
}

static void add_options(struct buffer *out, const struct load_options *options,
                        const char *protocol, const char *distribution)
{
	char server[NET_ADDRESS_TEXT_MAX];

	net_address_format(&options->server, server);
	buffer_printf(out,
	              "\"server\":\"%s\",\"protocol\":\"%s\",\"loop\":\"%s\",\"rate\":%" PRIu64
	              ",\"connections\":%zu,\"pipeline\":%zu,\"threads\":%zu,\"keys\":%" PRIu64
	              ",\"distribution\":\"%s\",",
	              server, protocol, options->rate > 0 ? "open" : "closed", options->rate,
	              options->connections, options->pipeline, options->threads, options->keys.count,
	              distribution);
}

static void add_counts(struct buffer *out, const struct load_counts *counts)
{
	buffer_printf(out, "\"answered\":%" PRIu64 ",", count_answers(counts));
	for (size_t i = 0; i < SHOWN_COUNTS; i++)
		if (shown_counts[i].json)
			buffer_printf(out, "\"%s\":%" PRIu64 ",", shown_counts[i].json, count_at(counts, i));
}

bool bench_report_json(FILE *to, const struct load_options *options, const char *protocol,
                       const char *distribution, const struct load_result *result)
{
	uint64_t n = count_answers(&result->counts);
	struct buffer out = {0};
	bool written;

	buffer_add_text(&out, "{");
	add_options(&out, options, protocol, distribution);
	add_counts(&out, &result->counts);
	buffer_printf(&out, "\"seconds\":%.6f,\"per_second\":%.1f,",
	              (double)result->elapsed_ns / NS_PER_S, per_second(result));
	add_latency(&out, "latency_ns", &result->latency);
	add_latency(&out, "from_send_ns", &result->from_send);
	add_slower(&out, &result->latency);
	buffer_printf(&out, "\"client_cpu_ns\":%.1f,",
	              divide_by_count((double)result->client_cpu_ns, n));
	if (options->server_pid)
		buffer_printf(&out, "\"server_cpu_ns\":%.1f,",
		              divide_by_count((double)result->server_cpu_ns, n));
	buffer_printf(&out, "\"interrupted\":%s,\"trouble\":\"",
	              result->interrupted ? "true" : "false");
	buffer_add_json(&out, slice_of(result->first_error));
	buffer_add_text(&out, "\"}\n");
	written = !out.failed && fwrite(out.data, 1, out.len, to) == out.len;
	buffer_free(&out);
	return written;
}
