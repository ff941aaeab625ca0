/*
 * metrics.c: counts requests, decisions and errors of the server, and renders the page /metrics
 * that Prometheus reads. Counters are described by tables ("families"); each event loop has
 * counters of its own, which the page adds up.
 */
#include "server/admin/metrics.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "base/os/os.h"
#include "rules/model.h"

/* A label, with the text of each of its values; values with text NULL are not shown. */
struct label {
	const char *name;
	const char *const *texts;
	size_t count;
};

static const char *const protocols[METRICS_PROTOCOL_COUNT] = {"http", "resp"};
static const char *const false_true[] = {"false", "true"};
static const char *const results[] = {"failure", "success"};
static const char *const policies[METRICS_FAILURE_COUNT] = {
    [RULES_LOCAL] = "local", [RULES_OPEN] = "open", [RULES_CLOSED] = "closed"};
static const char *const fates[METRICS_PERMIT_COUNT] = {
    [METRICS_PERMIT_HANDED_OUT] = "handed_out",
    [METRICS_PERMIT_REFUNDED] = "refunded",
    [METRICS_PERMIT_REPORTED] = "reported",
    [METRICS_PERMIT_NOT_HELD] = "not_held",
};
static const char *const reasons[WEIR_REASON_COUNT] = {
#define REASON_TEXT(name, text) [WEIR_REASON_##name] = text,
    WEIR_REASON_LIST(REASON_TEXT)
#undef REASON_TEXT
};
static const char *const errors[METRICS_STATUS_COUNT] = {
#define STATUS_NAME(name, value, text) [-(value)] = (value) == WEIR_OK ? NULL : #name,
    WEIR_STATUS_LIST(STATUS_NAME)
#undef STATUS_NAME
};

/* clang-format off */
#define LABEL(name, texts) {name, texts, sizeof(texts) / sizeof *(texts)}
/* clang-format on */

/*
 * A metric: counters with up to two labels. They form an array in the counters of each loop, whose
 * last index belongs to the last label.
 */
struct family {
	const char *name, *type, *help;
	size_t offset;        /* of the array */
	size_t added_offset;  /* of an array that is added to it, or 0 */
	uint64_t shown_zeros; /* a bit for each counter of the array that is shown even if it is 0 */
	struct label labels[2];
	const char *former_name; /* shown, too, until the next version leaves it out; or NULL */
};

#define FORMER_HELP "Former name of a metric, which the next version leaves out."

#define ALL_COUNTERS        UINT64_MAX
#define COUNTER_BIT(number) (UINT64_C(1) << (number))
#define OF_LOOP(field)      offsetof(struct metrics_loop, field)
#define OF_LIMIT(field)     offsetof(struct metrics_counts, field)

/* One for each limit in each loop. */
static const struct family limit_families[] = {
    {"weir_decisions_total", "counter",
     "Decisions by limit and reason; no limit: no rule applied, or one answered by itself.",
     OF_LIMIT(decisions), .labels = {LABEL("reason", reasons), LABEL("allowed", false_true)},
     /* Alerts on any limit need these two: [reason][allowed] */
     .shown_zeros =
         COUNTER_BIT(2 * WEIR_REASON_OK + true) | COUNTER_BIT(2 * WEIR_REASON_OVER_LIMIT + false)},
    {"weir_shadow_decisions_total", "counter",
     "Decisions of rules in shadow mode, which change no answer.", OF_LIMIT(decisions[1]),
     .labels = {LABEL("reason", reasons), LABEL("allowed", false_true)}},
    /* Sums enforced rules, direct calls and shadow rules, because the remedy is the same. */
    {"weir_no_room_total", "counter",
     "Denials because all entries of the limit's own table were in use.",
     OF_LIMIT(decisions[0][WEIR_REASON_NO_ROOM]), OF_LIMIT(decisions[1][WEIR_REASON_NO_ROOM]),
     ALL_COUNTERS},
    {"weir_store_failures_total", "counter",
     "Operations on limits that their Redis could not do, by what Weir did instead.",
     OF_LIMIT(failures), .labels = {LABEL("policy", policies)}},
    {"weir_permits_withheld_total", "counter",
     "Requests that passed at /auth and will not be reported, by the limit that waits for their "
     "reports.",
     OF_LIMIT(withheld)},
};

/* One for each loop. */
static const struct family loop_families[] = {
    {"weir_requests_total", "counter", "Requests answered; a batch is one.", OF_LOOP(requests),
     .shown_zeros = ALL_COUNTERS, .labels = {LABEL("protocol", protocols)}},
    {"weir_errors_total", "counter", "Requests, and elements of batches, answered with an error.",
     OF_LOOP(errors), .shown_zeros = ALL_COUNTERS,
     .labels = {LABEL("protocol", protocols), LABEL("status", errors)}},
    {"weir_permits_total", "counter",
     "Permits by their fate; not_held: refunded or reported too late, or twice.", OF_LOOP(permits),
     .shown_zeros = ALL_COUNTERS, .labels = {LABEL("event", fates)}},
    {"weir_transactions_bytes", "gauge", "Memory of commands between MULTI and EXEC.",
     OF_LOOP(transaction_bytes), .shown_zeros = ALL_COUNTERS},
    {"weir_answers_pending", "gauge",
     "Answers that wait for the start of their requests, for keys or for a Redis.",
     OF_LOOP(pending_answers), .shown_zeros = ALL_COUNTERS, .former_name = "weir_answers_held"},
    {"weir_batches_continued_total", "counter",
     "Iterations of a loop that continued a batch which was too much work for one.",
     OF_LOOP(continued), .shown_zeros = ALL_COUNTERS},
    {"weir_denials_left_out_total", "counter",
     "Denials that were not kept, because their rule had `per_second` in that second.",
     OF_LOOP(denials_left_out), .shown_zeros = ALL_COUNTERS},
    {"weir_waits_cancelled_total", "counter",
     "Answers that were pending when their client left, or the server stopped.", OF_LOOP(cancelled),
     .shown_zeros = ALL_COUNTERS},
};

struct histogram {
	const char *name, *help;
	const char *former_name;                  /* as in struct family */
	bool in_seconds;                          /* observed in nanoseconds, shown in seconds */
	uint64_t bounds[METRICS_BUCKETS_MAX + 1]; /* ends with 0 */
};

_Static_assert(REDIS_LATENCY_BUCKETS <= METRICS_BUCKETS_MAX + 1, "those of calls fit, too");

static const struct histogram histograms[METRICS_HISTOGRAM_COUNT] = {
    [METRICS_DURATION] = {"weir_request_duration_seconds",
                          "Time from reading a request to its answer, or to a wait for it.",
                          .in_seconds = true,
                          .bounds = {5000, 10000, 25000, 50000, 100000, 250000, 500000, 1000000,
                                     2500000, 5000000, 10000000, 50000000, 250000000, NS_PER_S}},
    [METRICS_INTAKE_SIZE] =
        {"weir_iteration_requests",
         "Requests that a thread decided together, with one reading of the clock.",
         .former_name = "weir_turn_requests",
         .bounds = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024}},
    [METRICS_WAIT] = {"weir_wait_duration_seconds", "How long answers were pending.",
                      .in_seconds = true,
                      .bounds = {1000000, 5000000, 10000000, 25000000, 50000000, 100000000,
                                 250000000, 500000000, NS_PER_S, 5 * NS_PER_S / 2, 5 * NS_PER_S,
                                 10 * NS_PER_S, 30 * NS_PER_S, 60 * NS_PER_S}},
};

struct metrics {
	size_t loop_count;
	struct metrics_loop *loops;
	struct named_counters_set limits, rules;
	_Atomic uint64_t reloads[2]; /* [success] */
	_Atomic uint64_t loaded_ns;  /* when the configuration was loaded */
	uint64_t start_ns;
};

/* One for all loops. */
static const struct family reload_family = {"weir_reloads_total",
                                            "counter",
                                            "Reloads of the configuration.",
                                            offsetof(struct metrics, reloads),
                                            .shown_zeros = ALL_COUNTERS,
                                            .labels = {LABEL("result", results)}};

/* Allocates zeroed memory that begins at a cache line. */
static void *alloc_cache_lines(size_t n, size_t size)
{
	void *memory = aligned_alloc(64, n * size);

	return memory ? memset(memory, 0, n * size) : NULL;
}

struct metrics *metrics_open(size_t loops)
{
	struct metrics *metrics = calloc(1, sizeof *metrics);

	if (!metrics)
		return NULL;
	metrics->loop_count = loops;
	metrics->limits = named_counters_open(loops, sizeof(struct metrics_counts));
	metrics->rules = named_counters_open(loops, sizeof(struct metrics_answers));
	metrics->start_ns = os_wall_ns();
	metrics->loaded_ns = metrics->start_ns;
	metrics->loops = alloc_cache_lines(loops, sizeof *metrics->loops);
	if (!metrics->loops) {
		free(metrics);
		return NULL;
	}
	return metrics;
}

void metrics_close(struct metrics *metrics)
{
	if (!metrics)
		return;
	named_counters_free_all(&metrics->limits);
	named_counters_free_all(&metrics->rules);
	free(metrics->loops);
	free(metrics);
}

struct metrics_loop *metrics_loop(struct metrics *metrics, size_t index)
{
	return &metrics->loops[index];
}

struct named_counters *metrics_limit(struct metrics *metrics, const char *name)
{
	return named_counters_get(&metrics->limits, name);
}

const struct named_counters *metrics_first_limit(const struct metrics *metrics)
{
	return named_counters_first(&metrics->limits);
}

size_t metrics_loop_count(const struct metrics *metrics)
{
	return metrics->loop_count;
}

struct named_counters *metrics_rule(struct metrics *metrics, const char *name)
{
	return named_counters_get(&metrics->rules, name);
}

void metrics_count_reload(struct metrics *metrics, bool success, uint64_t wall_ns)
{
	atomic_fetch_add_explicit(&metrics->reloads[success], 1, memory_order_relaxed);
	if (success)
		atomic_store_explicit(&metrics->loaded_ns, wall_ns, memory_order_relaxed);
}

/* Adds `n` equal observations to the bucket of the smallest bound that is not below the value. */
void metrics_observe(struct metrics_loop *loop, enum metrics_histogram histogram, uint64_t value,
                     uint64_t n)
{
	const uint64_t *bounds = histograms[histogram].bounds;
	size_t i = 0;

	while (bounds[i] != 0 && value > bounds[i])
		i++;
	metrics_add(&loop->histograms[histogram].buckets[i], n);
	metrics_add(&loop->histograms[histogram].sum, value * n);
}

/* Counters of the same kind, one for each loop. */
struct counters {
	const void *first;
	size_t stride, count;
};

static struct counters limit_counters_of(const struct metrics *metrics,
                                         const struct named_counters *limit)
{
	return (struct counters){limit->loops, sizeof(struct metrics_counts), metrics->loop_count};
}

static struct counters loop_counters_of(const struct metrics *metrics)
{
	return (struct counters){metrics->loops, sizeof *metrics->loops, metrics->loop_count};
}

/* Adds up the counter at `offset` of all loops. */
static uint64_t sum_counters(struct counters counters, size_t offset)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < counters.count; i++) {
		char *of_loop = (char *)counters.first + i * counters.stride;

		sum += metrics_read((_Atomic uint64_t *)(of_loop + offset));
	}
	return sum;
}

uint64_t metrics_answered(const struct metrics *metrics, const struct named_counters *rule,
                          bool allowed)
{
	struct counters answers = {rule->loops, sizeof(struct metrics_answers), metrics->loop_count};

	return sum_counters(answers,
	                    offsetof(struct metrics_answers, answers) + allowed * sizeof(uint64_t));
}

uint64_t metrics_loop_sum(const struct metrics *metrics, size_t offset)
{
	return sum_counters(loop_counters_of(metrics), offset);
}

static void add_metric_head(struct buffer *out, const char *name, const char *type,
                            const char *help)
{
	buffer_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* Escapes backslash, quote and newline, as the format requires. */
static void add_label_value(struct buffer *out, const char *text)
{
	for (; *text; text++) {
		if (*text == '\n')
			buffer_add_text(out, "\\n");
		else if (*text == '\\' || *text == '"')
			buffer_add(out, (char[2]){'\\', *text}, 2);
		else
			buffer_add(out, text, 1);
	}
}

/* A label of one sample, and its value. */
struct pair {
	const char *label; /* NULL if there is none */
	const char *value;
};

#define PAIRS_MAX 3

/* add_sample(out, name, "_sum", PAIRS({"store", url}), ns, true) */
#define PAIRS(...) ((const struct pair[PAIRS_MAX]){__VA_ARGS__})

static void add_labels(struct buffer *out, const struct pair pairs[PAIRS_MAX])
{
	const char *before = "{";

	for (size_t i = 0; i < PAIRS_MAX; i++) {
		if (!pairs[i].label)
			continue;
		buffer_printf(out, "%s%s=\"", before, pairs[i].label);
		add_label_value(out, pairs[i].value);
		buffer_add(out, "\"", 1);
		before = ",";
	}
	buffer_add_text(out, *before == ',' ? "}" : "");
}

/* Writes a line with one value: the number, or nanoseconds converted to seconds. */
static void add_sample(struct buffer *out, const char *name, const char *suffix,
                       const struct pair pairs[PAIRS_MAX], uint64_t value, bool in_seconds)
{
	uint64_t unit = in_seconds ? NS_PER_S : 1;

	buffer_printf(out, "%s%s", name, suffix);
	add_labels(out, pairs);
	buffer_printf(out, " %llu", (unsigned long long)(value / unit));
	if (in_seconds)
		buffer_printf(out, ".%09llu", (unsigned long long)(value % unit));
	buffer_add(out, "\n", 1);
}

/*
 * Writes a line for each counter of a family that is not 0, or shown anyway. `limit` is the value
 * of the label "limit", or NULL for none.
 */
static void add_family_samples(struct buffer *out, const struct family *family,
                               struct counters counters, const char *limit)
{
	const struct label *a = &family->labels[0], *b = &family->labels[1];
	size_t inner_count = u64_max(b->count, 1), n = u64_max(a->count, 1) * inner_count;

	for (size_t i = 0; i < n; i++) {
		size_t offset = i * sizeof(uint64_t);
		uint64_t value = sum_counters(counters, family->offset + offset);
		const char *first = a->name ? a->texts[i / inner_count] : "";
		const char *second = b->name ? b->texts[i % inner_count] : "";
		bool shows_zero = family->shown_zeros >> i & 1;
		bool has_text = first && second;

		if (family->added_offset)
			value += sum_counters(counters, family->added_offset + offset);
		if (has_text && (value > 0 || shows_zero))
			add_sample(out, family->name, "",
			           PAIRS({limit ? "limit" : NULL, limit}, {a->name, first}, {b->name, second}),
			           value, false);
	}
}

static void add_family(struct buffer *out, const struct family *family, struct counters counters)
{
	struct family former = *family;

	add_metric_head(out, family->name, family->type, family->help);
	add_family_samples(out, family, counters, NULL);
	if (!former.former_name)
		return;
	former.name = former.former_name;
	add_metric_head(out, former.name, former.type, FORMER_HELP);
	add_family_samples(out, &former, counters, NULL);
}

static void add_family_of_limits(struct buffer *out, const struct family *family,
                                 struct metrics *metrics)
{
	const struct named_counters *limit = named_counters_first(&metrics->limits);

	add_metric_head(out, family->name, family->type, family->help);
	for (; limit; limit = limit->next)
		add_family_samples(out, family, limit_counters_of(metrics, limit), limit->name);
}

/*
 * Adds, for each limit that is a circuit breaker, how many keys are in each phase and have changed
 * it. There is no series for each key, because callers can make any number of keys.
 */
static void add_phase_metrics(const struct metrics *metrics, const struct metrics_now *now,
                              struct buffer *out)
{
	static const char breakers[] = "weir_breakers",
	                  phase_changes[] = "weir_breaker_transitions_total";

	add_metric_head(out, breakers, "gauge", "Keys that are not closed now, by phase.");
	for (size_t i = 0; i < now->phases_count; i++)
		for (int phase = BREAKER_CLOSED + 1; phase < BREAKER_PHASE_COUNT; phase++)
			add_sample(
			    out, breakers, "",
			    PAIRS({"limit", now->phases[i].limit->name}, {"phase", breaker_phase_text(phase)}),
			    now->phases[i].counts[phase], false);
	add_metric_head(out, phase_changes, "counter",
	                "Keys that changed their phase, by the new phase.");
	for (size_t i = 0; i < now->phases_count; i++)
		for (int phase = BREAKER_CLOSED; phase < BREAKER_PHASE_COUNT; phase++)
			add_sample(
			    out, phase_changes, "",
			    PAIRS({"limit", now->phases[i].limit->name}, {"to", breaker_phase_text(phase)}),
			    sum_counters(limit_counters_of(metrics, now->phases[i].limit),
			                 OF_LIMIT(phase_changes[phase])),
			    false);
}

/* Adds the counters of each Redis. */
static void add_stores(const struct metrics_now *now, struct buffer *out)
{
#define OF_STORE(field) offsetof(struct redis_stats, field)
	static const struct {
		const char *name, *help;
		size_t offset;
	} counters[] = {
	    {"weir_store_calls_total", "Calls to a Redis.", OF_STORE(calls)},
	    {"weir_store_steps_total", "Steps of limits in these calls.", OF_STORE(steps)},
	    {"weir_store_failed_steps_total", "Steps that were not done, or may not have been.",
	     OF_STORE(failed)},
	    {"weir_store_timeouts_total", "Calls without an answer in time.", OF_STORE(timeouts)},
	    {"weir_store_switches_total", "Times that Redis became unavailable.", OF_STORE(switches)},
	    {"weir_store_denied_hits_total", "Operations answered from the denial cache.",
	     OF_STORE(denied)},
	    {"weir_store_chunk_hits_total", "Steps answered from a chunk that was taken before.",
	     OF_STORE(granted_by_chunks)},
	};
#undef OF_STORE

	add_metric_head(out, "weir_store_up", "gauge", "Whether a Redis can be used.");
	for (size_t i = 0; i < now->store_count; i++)
		add_sample(out, "weir_store_up", "", PAIRS({"store", now->stores[i].name}),
		           now->stores[i].stats.is_up, false);
	for (size_t c = 0; c < sizeof counters / sizeof *counters; c++) {
		add_metric_head(out, counters[c].name, "counter", counters[c].help);
		for (size_t i = 0; i < now->store_count; i++) {
			uint64_t value;

			memcpy(&value, (const char *)&now->stores[i].stats + counters[c].offset, sizeof value);
			add_sample(out, counters[c].name, "", PAIRS({"store", now->stores[i].name}), value,
			           false);
		}
	}
}

/*
 * Writes the lines of a histogram, in which each bucket includes all smaller ones. `of` is the
 * label of a store, or empty. `counts` has one element for each bound, and one above all bounds.
 */
static void add_buckets(struct buffer *out, const struct histogram *histogram, struct pair of,
                        const uint64_t *counts, uint64_t sum)
{
	bool in_seconds = histogram->in_seconds;
	uint64_t count = 0;
	size_t i = 0;

	do {
		char bound[DECIMAL_TEXT_MAX] = "+Inf";
		uint64_t value = histogram->bounds[i];

		if (value > 0)
			format_decimal(bound, (double)value / (in_seconds ? (double)NS_PER_S : 1));
		count += counts[i];
		add_sample(out, histogram->name, "_bucket", PAIRS(of, {"le", bound}), count, false);
	} while (histogram->bounds[i++] > 0);
	add_sample(out, histogram->name, "_sum", PAIRS(of), sum, in_seconds);
	add_sample(out, histogram->name, "_count", PAIRS(of), count, false);
}

/* Adds the histogram of the durations of calls to each Redis. */
static void add_store_latency(const struct metrics_now *now, struct buffer *out)
{
	struct histogram times = {"weir_store_call_duration_seconds",
	                          "Time from sending a call to a Redis to its answer.",
	                          .in_seconds = true};

	for (size_t b = 0; b < REDIS_LATENCY_BUCKETS - 1; b++)
		times.bounds[b] = redis_latency_bound_ns(b);
	add_metric_head(out, times.name, "histogram", times.help);
	for (size_t i = 0; i < now->store_count; i++)
		add_buckets(out, &times, (struct pair){"store", now->stores[i].name},
		            now->stores[i].stats.latency_counts, now->stores[i].stats.latency_sum_ns);
}

/* Adds a histogram of all loops; its sum is a time or a number of requests. */
static void add_histogram(const struct metrics *metrics, size_t h, struct buffer *out)
{
	uint64_t time_or_count = sum_counters(loop_counters_of(metrics), OF_LOOP(histograms[h].sum));
	struct histogram former = histograms[h];
	uint64_t counts[METRICS_BUCKETS_MAX + 1];

	for (size_t b = 0; b <= METRICS_BUCKETS_MAX; b++)
		counts[b] = sum_counters(loop_counters_of(metrics), OF_LOOP(histograms[h].buckets[b]));
	add_metric_head(out, histograms[h].name, "histogram", histograms[h].help);
	add_buckets(out, &histograms[h], (struct pair){0}, counts, time_or_count);
	if (former.former_name) {
		former.name = former.former_name;
		add_metric_head(out, former.name, "histogram", FORMER_HELP);
		add_buckets(out, &former, (struct pair){0}, counts, time_or_count);
	}
}

/* Adds the metrics that have one value and no labels, and weir_build_info. */
static void add_singles(struct metrics *metrics, const struct metrics_now *now, struct buffer *out)
{
	const struct {
		const char *name, *type, *help;
		uint64_t value;
		bool in_seconds; /* known in nanoseconds, shown in seconds */
	} singles[] = {
	    {"weir_config_loaded_timestamp_seconds", "gauge",
	     "When the running configuration was loaded, in Unix time.",
	     metrics_read(&metrics->loaded_ns), true},
	    {"weir_connections", "gauge", "Open connections.", now->connections, false},
	    {"weir_connections_max", "gauge", "Connections that may be open, without the reserve.",
	     now->connections_max, false},
	    {"weir_connections_reserved", "gauge", "Further connections that only operators may use.",
	     now->connections_reserved, false},
	    {"weir_connections_rejected_total", "counter",
	     "Connections closed or refused because too many were open.", now->connections_rejected,
	     false},
	    {"weir_event_streams", "gauge", "Clients that follow /v1/events.", now->event_streams,
	     false},
	    {"weir_table_cells", "gauge", "Places in the key table.", now->table.cells, false},
	    {"weir_table_live_keys", "gauge",
	     "Keys in use now, estimated from a sample in large tables.", now->table.live, false},
	    {"weir_table_evictions_total", "counter", "Keys in use that were evicted for others.",
	     now->table.evictions, false},
	    {"weir_table_bytes", "gauge", "Memory of the key table.", now->table.bytes, false},
	    {"weir_log_lines_dropped_total", "counter",
	     "Log lines left out because there were too many.", now->log_lines_dropped, false},
	    {"weir_denials_lost_total", "counter",
	     "Kept denials that could not be written to their file.", now->denials_lost, false},
	    {"process_start_time_seconds", "gauge", "When the server started, in Unix time.",
	     metrics->start_ns, true},
	    {"process_cpu_seconds_total", "counter", "Processor time taken, user and system.",
	     now->usage.cpu_ns, true},
	    {"process_resident_memory_bytes", "gauge", "Memory in use.", now->usage.resident_bytes,
	     false},
	    {"process_virtual_memory_bytes", "gauge", "Address space in use.", now->usage.virtual_bytes,
	     false},
	};

	for (size_t i = 0; i < sizeof singles / sizeof *singles; i++) {
		add_metric_head(out, singles[i].name, singles[i].type, singles[i].help);
		add_sample(out, singles[i].name, "", PAIRS({0}), singles[i].value, singles[i].in_seconds);
	}
	add_metric_head(out, "weir_build_info", "gauge", "The version that runs.");
	add_sample(out, "weir_build_info", "", PAIRS({"version", weir_version()}), 1, false);
}

static void add_empty_keys(struct buffer *out, const char *label, struct named_counters_set *set)
{
	for (struct named_counters *each = named_counters_first(set); each; each = each->next)
		if (metrics_read(&each->empty_keys) > 0)
			add_sample(out, "weir_empty_keys_total", "", PAIRS({label, each->name}),
			           metrics_read(&each->empty_keys), false);
}

void metrics_render(struct metrics *metrics, const struct metrics_now *now, struct buffer *out)
{
	for (size_t i = 0; i < sizeof limit_families / sizeof *limit_families; i++)
		add_family_of_limits(out, &limit_families[i], metrics);
	add_metric_head(out, "weir_empty_keys_total", "counter", "Requests with an empty key.");
	add_empty_keys(out, "rule", &metrics->rules);
	add_empty_keys(out, "limit", &metrics->limits);
	add_phase_metrics(metrics, now, out);
	add_stores(now, out);
	add_store_latency(now, out);
	for (size_t i = 0; i < sizeof loop_families / sizeof *loop_families; i++)
		add_family(out, &loop_families[i], loop_counters_of(metrics));
	for (size_t h = 0; h < METRICS_HISTOGRAM_COUNT; h++)
		add_histogram(metrics, h, out);
	add_family(out, &reload_family, (struct counters){metrics, 0, 1});
	add_singles(metrics, now, out);
}
