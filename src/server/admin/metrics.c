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
static const char *const booleans[] = {"false", "true"};
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
 * Counters with up to two labels. They form an array in the counters of each loop, whose last index
 * belongs to the last label.
 */
struct family {
	const char *name, *type, *help;
	size_t at;      /* offset of the array */
	size_t also;    /* offset of an array that is added to it, or 0 */
	uint64_t zeros; /* a set of counters that are shown even if they are 0 */
	struct label labels[2];
	const char *former; /* a name that the next version leaves out, or NULL */
};

#define FORMER_HELP "Former name of a metric, which the next version leaves out."

#define ALL             UINT64_MAX
#define BIT(number)     (UINT64_C(1) << (number))
#define OF_LOOP(field)  offsetof(struct metrics_loop, field)
#define OF_LIMIT(field) offsetof(struct metrics_counts, field)

/* One for each limit in each loop. */
static const struct family of_limits[] = {
    {"weir_decisions_total", "counter",
     "Decisions by limit and reason; no limit: no rule applied, or one answered by itself.",
     OF_LIMIT(decisions), .labels = {LABEL("reason", reasons), LABEL("allowed", booleans)},
     /* Alerts on any limit need these two. */
     .zeros = BIT(2 * WEIR_REASON_OK + true) | BIT(2 * WEIR_REASON_OVER_LIMIT + false)},
    {"weir_shadow_decisions_total", "counter",
     "Decisions of rules in shadow mode, which change no answer.", OF_LIMIT(decisions[1]),
     .labels = {LABEL("reason", reasons), LABEL("allowed", booleans)}},
    /* Sums enforced rules, direct calls and shadow rules, because the remedy is the same. */
    {"weir_no_room_total", "counter",
     "Denials because all entries of the limit's own table were in use.",
     OF_LIMIT(decisions[0][WEIR_REASON_NO_ROOM]), OF_LIMIT(decisions[1][WEIR_REASON_NO_ROOM]), ALL},
    {"weir_store_failures_total", "counter",
     "Operations on limits that their Redis could not do, by what Weir did instead.",
     OF_LIMIT(failures), .labels = {LABEL("policy", policies)}},
    {"weir_permits_withheld_total", "counter",
     "Requests that passed at /auth and will not be reported, by the limit that waits for their "
     "reports.",
     OF_LIMIT(withheld)},
};

/* One for each loop. */
static const struct family of_loops[] = {
    {"weir_requests_total", "counter", "Requests answered; a batch is one.", OF_LOOP(requests),
     .zeros = ALL, .labels = {LABEL("protocol", protocols)}},
    {"weir_errors_total", "counter", "Requests, and elements of batches, answered with an error.",
     OF_LOOP(errors), .zeros = ALL,
     .labels = {LABEL("protocol", protocols), LABEL("status", errors)}},
    {"weir_permits_total", "counter",
     "Permits by their fate; not_held: refunded or reported too late, or twice.", OF_LOOP(permits),
     .zeros = ALL, .labels = {LABEL("event", fates)}},
    {"weir_transactions_bytes", "gauge", "Memory of commands between MULTI and EXEC.",
     OF_LOOP(transaction_bytes), .zeros = ALL},
    {"weir_answers_pending", "gauge",
     "Answers that wait for the start of their requests, for keys or for a Redis.",
     OF_LOOP(pending_answers), .zeros = ALL, .former = "weir_answers_held"},
    {"weir_batches_continued_total", "counter",
     "Iterations of a loop that continued a batch which was too much work for one.",
     OF_LOOP(continued), .zeros = ALL},
    {"weir_waits_cancelled_total", "counter",
     "Answers that were pending when their client left, or the server stopped.", OF_LOOP(cancelled),
     .zeros = ALL},
};

struct histogram {
	const char *name, *help;
	const char *former; /* as in struct family */
	bool seconds;       /* observed in nanoseconds, shown in seconds */
	uint64_t bounds[METRICS_BUCKETS_MAX + 1]; /* ends with 0 */
};

_Static_assert(REDIS_LATENCY_BUCKETS <= METRICS_BUCKETS_MAX + 1, "those of calls fit, too");

static const struct histogram histograms[METRICS_HISTOGRAM_COUNT] = {
    [METRICS_DURATION] = {"weir_request_duration_seconds",
                          "Time from reading a request to its answer, or to a wait for it.",
                          .seconds = true,
                          .bounds = {5000, 10000, 25000, 50000, 100000, 250000, 500000, 1000000,
                                     2500000, 5000000, 10000000, 50000000, 250000000, NS_PER_S}},
    [METRICS_INTAKE_SIZE] =
        {"weir_iteration_requests",
         "Requests that a thread decided together, with one reading of the clock.",
         .former = "weir_turn_requests", .bounds = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024}},
    [METRICS_WAIT] = {"weir_wait_duration_seconds", "How long answers were pending.",
                      .seconds = true,
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
static const struct family of_all = {"weir_reloads_total",
                                     "counter",
                                     "Reloads of the configuration.",
                                     offsetof(struct metrics, reloads),
                                     .zeros = ALL,
                                     .labels = {LABEL("result", results)}};

static void *aligned_zeroed(size_t n, size_t size)
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
	metrics->loops = aligned_zeroed(loops, sizeof *metrics->loops);
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

static uint64_t read_counter(_Atomic uint64_t *counter)
{
	return atomic_load_explicit(counter, memory_order_relaxed);
}

/* Counters of the same kind, one for each loop. */
struct counters {
	const void *first;
	size_t stride, count;
};

static struct counters counters_of(const struct metrics *metrics,
                                   const struct named_counters *limit)
{
	return (struct counters){limit->loops, sizeof(struct metrics_counts), metrics->loop_count};
}

static struct counters loops_of(const struct metrics *metrics)
{
	return (struct counters){metrics->loops, sizeof *metrics->loops, metrics->loop_count};
}

static uint64_t sum_counters(struct counters counters, size_t at)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < counters.count; i++)
		sum +=
		    read_counter((_Atomic uint64_t *)((char *)counters.first + i * counters.stride + at));
	return sum;
}

uint64_t metrics_answered(const struct metrics *metrics, const struct named_counters *rule,
                          bool allowed)
{
	struct counters answers = {rule->loops, sizeof(struct metrics_answers), metrics->loop_count};

	return sum_counters(answers,
	                    offsetof(struct metrics_answers, answers) + allowed * sizeof(uint64_t));
}

static void add_head(struct buffer *out, const char *name, const char *type, const char *help)
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

struct pair {
	const char *label; /* NULL if there is none */
	const char *value;
};

#define PAIRS_MAX 3

/* add_line(out, name, "_sum", PAIRS({"store", url}), ns, true) */
#define PAIRS(...) ((const struct pair[PAIRS_MAX]){__VA_ARGS__})

static void add_pairs(struct buffer *out, const struct pair pairs[PAIRS_MAX])
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

/* Writes `value`, or nanoseconds as seconds. */
static void add_line(struct buffer *out, const char *name, const char *suffix,
                     const struct pair pairs[PAIRS_MAX], uint64_t value, bool seconds)
{
	uint64_t unit = seconds ? NS_PER_S : 1;

	buffer_printf(out, "%s%s", name, suffix);
	add_pairs(out, pairs);
	buffer_printf(out, " %llu", (unsigned long long)(value / unit));
	if (seconds)
		buffer_printf(out, ".%09llu", (unsigned long long)(value % unit));
	buffer_add(out, "\n", 1);
}

/* `limit` is the name for the label "limit", or NULL. */
static void add_counters(struct buffer *out, const struct family *family, struct counters counters,
                         const char *limit)
{
	const struct label *a = &family->labels[0], *b = &family->labels[1];
	size_t inner = u64_max(b->count, 1), n = u64_max(a->count, 1) * inner;

	for (size_t i = 0; i < n; i++) {
		size_t offset = i * sizeof(uint64_t);
		uint64_t value = sum_counters(counters, family->at + offset);
		const char *first = a->name ? a->texts[i / inner] : "";
		const char *second = b->name ? b->texts[i % inner] : "";

		if (family->also)
			value += sum_counters(counters, family->also + offset);
		if (first && second && (value > 0 || family->zeros >> i & 1))
			add_line(out, family->name, "",
			         PAIRS({limit ? "limit" : NULL, limit}, {a->name, first}, {b->name, second}),
			         value, false);
	}
}

static void add_family(struct buffer *out, const struct family *family, struct counters counters)
{
	struct family former = *family;

	add_head(out, family->name, family->type, family->help);
	add_counters(out, family, counters, NULL);
	if (!former.former)
		return;
	former.name = former.former;
	add_head(out, former.name, former.type, FORMER_HELP);
	add_counters(out, &former, counters, NULL);
}

static void add_family_of_limits(struct buffer *out, const struct family *family,
                                 struct metrics *metrics)
{
	const struct named_counters *limit = named_counters_first(&metrics->limits);

	add_head(out, family->name, family->type, family->help);
	for (; limit; limit = limit->next)
		add_counters(out, family, counters_of(metrics, limit), limit->name);
}

/* There is no series for each key, because callers can make any number of keys. */
static void add_phase_metrics(const struct metrics *metrics, const struct metrics_now *now,
                              struct buffer *out)
{
	static const char breakers[] = "weir_breakers",
	                  phase_changes[] = "weir_breaker_transitions_total";

	add_head(out, breakers, "gauge", "Keys that are not closed now, by phase.");
	for (size_t i = 0; i < now->phases_count; i++)
		for (int phase = BREAKER_CLOSED + 1; phase < BREAKER_PHASE_COUNT; phase++)
			add_line(
			    out, breakers, "",
			    PAIRS({"limit", now->phases[i].limit->name}, {"phase", breaker_phase_text(phase)}),
			    now->phases[i].counts[phase], false);
	add_head(out, phase_changes, "counter", "Keys that changed their phase, by the new phase.");
	for (size_t i = 0; i < now->phases_count; i++)
		for (int phase = BREAKER_CLOSED; phase < BREAKER_PHASE_COUNT; phase++)
			add_line(
			    out, phase_changes, "",
			    PAIRS({"limit", now->phases[i].limit->name}, {"to", breaker_phase_text(phase)}),
			    sum_counters(counters_of(metrics, now->phases[i].limit),
			                 OF_LIMIT(phase_changes[phase])),
			    false);
}

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

	add_head(out, "weir_store_up", "gauge", "Whether a Redis can be used.");
	for (size_t i = 0; i < now->store_count; i++)
		add_line(out, "weir_store_up", "", PAIRS({"store", now->stores[i].name}),
		         now->stores[i].stats.is_up, false);
	for (size_t c = 0; c < sizeof counters / sizeof *counters; c++) {
		add_head(out, counters[c].name, "counter", counters[c].help);
		for (size_t i = 0; i < now->store_count; i++) {
			uint64_t value;

			memcpy(&value, (const char *)&now->stores[i].stats + counters[c].offset, sizeof value);
			add_line(out, counters[c].name, "", PAIRS({"store", now->stores[i].name}), value,
			         false);
		}
	}
}

/*
 * `of` is the label of a store, or empty. `counts` has one element for each bound, and one above
 * all bounds.
 */
static void add_buckets(struct buffer *out, const struct histogram *histogram, struct pair of,
                        const uint64_t *counts, uint64_t sum)
{
	bool seconds = histogram->seconds;
	uint64_t count = 0;
	size_t i = 0;

	do {
		char bound[DECIMAL_TEXT_MAX] = "+Inf";
		uint64_t value = histogram->bounds[i];

		if (value > 0)
			format_decimal(bound, (double)value / (seconds ? (double)NS_PER_S : 1));
		count += counts[i];
		add_line(out, histogram->name, "_bucket", PAIRS(of, {"le", bound}), count, false);
	} while (histogram->bounds[i++] > 0);
	add_line(out, histogram->name, "_sum", PAIRS(of), sum, seconds);
	add_line(out, histogram->name, "_count", PAIRS(of), count, false);
}

static void add_times(const struct metrics_now *now, struct buffer *out)
{
	struct histogram times = {"weir_store_call_duration_seconds",
	                          "Time from sending a call to a Redis to its answer.",
	                          .seconds = true};

	for (size_t b = 0; b < REDIS_LATENCY_BUCKETS - 1; b++)
		times.bounds[b] = redis_latency_bound_ns(b);
	add_head(out, times.name, "histogram", times.help);
	for (size_t i = 0; i < now->store_count; i++)
		add_buckets(out, &times, (struct pair){"store", now->stores[i].name},
		            now->stores[i].stats.latency_counts, now->stores[i].stats.latency_sum_ns);
}

static void add_histogram(const struct metrics *metrics, size_t h, struct buffer *out)
{
	uint64_t time_or_count = sum_counters(loops_of(metrics), OF_LOOP(histograms[h].sum));
	struct histogram former = histograms[h];
	uint64_t counts[METRICS_BUCKETS_MAX + 1];

	for (size_t b = 0; b <= METRICS_BUCKETS_MAX; b++)
		counts[b] = sum_counters(loops_of(metrics), OF_LOOP(histograms[h].buckets[b]));
	add_head(out, histograms[h].name, "histogram", histograms[h].help);
	add_buckets(out, &histograms[h], (struct pair){0}, counts, time_or_count);
	if (former.former) {
		former.name = former.former;
		add_head(out, former.name, "histogram", FORMER_HELP);
		add_buckets(out, &former, (struct pair){0}, counts, time_or_count);
	}
}

static void add_singles(struct metrics *metrics, const struct metrics_now *now, struct buffer *out)
{
	const struct {
		const char *name, *type, *help;
		uint64_t value;
		bool seconds; /* known in nanoseconds, shown in seconds */
	} singles[] = {
	    {"weir_config_loaded_timestamp_seconds", "gauge",
	     "When the running configuration was loaded, in Unix time.",
	     read_counter(&metrics->loaded_ns), true},
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
		add_head(out, singles[i].name, singles[i].type, singles[i].help);
		add_line(out, singles[i].name, "", PAIRS({0}), singles[i].value, singles[i].seconds);
	}
	add_head(out, "weir_build_info", "gauge", "The version that runs.");
	add_line(out, "weir_build_info", "", PAIRS({"version", weir_version()}), 1, false);
}

void metrics_render(struct metrics *metrics, const struct metrics_now *now, struct buffer *out)
{
	for (size_t i = 0; i < sizeof of_limits / sizeof *of_limits; i++)
		add_family_of_limits(out, &of_limits[i], metrics);
	add_phase_metrics(metrics, now, out);
	add_stores(now, out);
	add_times(now, out);
	for (size_t i = 0; i < sizeof of_loops / sizeof *of_loops; i++)
		add_family(out, &of_loops[i], loops_of(metrics));
	for (size_t h = 0; h < METRICS_HISTOGRAM_COUNT; h++)
		add_histogram(metrics, h, out);
	add_family(out, &of_all, (struct counters){metrics, 0, 1});
	add_singles(metrics, now, out);
}
