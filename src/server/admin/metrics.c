#include "server/admin/metrics.h"

#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "base/os/os.h"
#include "rules/model.h"

static const char *const protocol_names[METRICS_PROTOCOL_COUNT] = {"http", "resp"};

static const char *const status_names[METRICS_STATUS_COUNT] = {
#define STATUS_NAME(name, value, text) [-(value)] = #name,
    WEIR_STATUS_LIST(STATUS_NAME)
#undef STATUS_NAME
};

static const struct {
	const char *name, *help;
	bool seconds; /* shown as such, observed in nanoseconds */
	struct {
		uint64_t value;
		const char *text;
	} bounds[METRICS_BUCKETS_MAX + 1]; /* the last: 0 */
} histograms[METRICS_HISTOGRAM_COUNT] = {
    [METRICS_DURATION] = {"weir_request_duration_seconds",
                          "Time from reading a request to writing its reply, or to holding it.", true,
                          {{5000, "0.000005"}, {10000, "0.00001"}, {25000, "0.000025"},
                           {50000, "0.00005"}, {100000, "0.0001"}, {250000, "0.00025"},
                           {500000, "0.0005"}, {1000000, "0.001"}, {2500000, "0.0025"},
                           {5000000, "0.005"}, {10000000, "0.01"}, {50000000, "0.05"},
                           {250000000, "0.25"}, {1000000000, "1"}}},
    [METRICS_TURN] = {"weir_turn_requests",
                      "Requests that a thread decided together, with one reading of the clock.",
                      false,
                      {{1, "1"}, {2, "2"}, {4, "4"}, {8, "8"}, {16, "16"}, {32, "32"}, {64, "64"},
                       {128, "128"}, {256, "256"}, {512, "512"}, {1024, "1024"}}},
    [METRICS_WAIT] = {"weir_wait_duration_seconds",
                      "How long answers were held until their requests' turns.", true,
                      {{1000000, "0.001"}, {5000000, "0.005"}, {10000000, "0.01"},
                       {25000000, "0.025"}, {50000000, "0.05"}, {100000000, "0.1"},
                       {250000000, "0.25"}, {500000000, "0.5"}, {1000000000, "1"},
                       {2500000000, "2.5"}, {5000000000, "5"}, {10000000000, "10"},
                       {30000000000, "30"}, {60000000000, "60"}}},
};

struct metrics {
	size_t loop_count;
	struct metrics_loop *loops;
	struct named_set limits, rules;
	_Atomic uint64_t reloads[2];            /* [success] */
	_Atomic uint64_t loaded_ns;             /* when a configuration was last taken over */
	uint64_t start_ns;
};

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
	metrics->limits = named_open(loops, sizeof(struct metrics_counts));
	metrics->rules = named_open(loops, sizeof(struct metrics_answers));
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
	named_free_all(&metrics->limits);
	named_free_all(&metrics->rules);
	free(metrics->loops);
	free(metrics);
}

struct metrics_loop *metrics_loop(struct metrics *metrics, size_t index)
{
	return &metrics->loops[index];
}

struct named *metrics_limit(struct metrics *metrics, const char *name)
{
	return named_get(&metrics->limits, name);
}

struct named *metrics_rule(struct metrics *metrics, const char *name)
{
	return named_get(&metrics->rules, name);
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
	size_t i = 0;

	while (histograms[histogram].bounds[i].text && value > histograms[histogram].bounds[i].value)
		i++;
	metrics_add(&loop->histograms[histogram].buckets[i], n);
	metrics_add(&loop->histograms[histogram].sum, value * n);
}

static uint64_t read_counter(_Atomic uint64_t *counter)
{
	return atomic_load_explicit(counter, memory_order_relaxed);
}

uint64_t metrics_answered(const struct metrics *metrics, const struct named *rule, bool allowed)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < metrics->loop_count; i++)
		sum += read_counter(&metrics_answers_of(rule, i)->answers[allowed]);
	return sum;
}

static void add_head(struct buffer *out, const char *name, const char *type, const char *help)
{
	buffer_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* Backslash, quote and newline are what the format escapes. */
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

/* Zeros are left out, except for the two that every limit is watched by. */
static bool worth_showing(uint64_t value, bool shadow, bool allowed, enum weir_reason reason)
{
	return value > 0 ||
	       (!shadow && reason == (allowed ? WEIR_REASON_OK : WEIR_REASON_OVER_LIMIT));
}

static void add_limit(const struct metrics *metrics, struct named *limit, bool shadow,
                      const char *name, struct buffer *out)
{
	for (int pair = 0; pair < 2 * WEIR_REASON_COUNT; pair++) {
		bool allowed = pair < WEIR_REASON_COUNT;
		enum weir_reason reason = (enum weir_reason)(pair % WEIR_REASON_COUNT);
		uint64_t value = 0;

		for (size_t i = 0; i < metrics->loop_count; i++)
			value += read_counter(&metrics_counts_of(limit, i)->decisions[shadow][allowed][reason]);
		if (!worth_showing(value, shadow, allowed, reason))
			continue;
		buffer_printf(out, "%s{limit=\"", name);
		add_label_value(out, limit->name);
		buffer_printf(out, "\",reason=\"%s\",allowed=\"%s\"} %llu\n", weir_reason_text(reason),
		              allowed ? "true" : "false", (unsigned long long)value);
	}
}

static void add_decisions(struct metrics *metrics, struct buffer *out)
{
	static const char *const names[] = {"weir_decisions_total", "weir_shadow_decisions_total"};
	static const char *const helps[] = {
	    "Decisions by limit and reason; no limit: no rule applied, or one answered by itself.",
	    "Decisions of rules in shadow mode, which change no answer."};

	for (int shadow = 0; shadow < 2; shadow++) {
		add_head(out, names[shadow], "counter", helps[shadow]);
		for (struct named *limit = named_first(&metrics->limits); limit; limit = limit->next)
			add_limit(metrics, limit, shadow, names[shadow], out);
	}
}

/* Counts enforced rules, direct calls and shadow rules together: the remedy is the same. */
static void add_no_room(struct metrics *metrics, struct buffer *out)
{
	struct named *limit = named_first(&metrics->limits);

	add_head(out, "weir_no_room_total", "counter",
	         "Denials because all places of the limit's own table were held.");
	for (; limit; limit = limit->next) {
		uint64_t value = 0;

		for (size_t i = 0; i < metrics->loop_count; i++)
			for (int shadow = 0; shadow < 2; shadow++)
				value += read_counter(
				    &metrics_counts_of(limit, i)->decisions[shadow][false][WEIR_REASON_NO_ROOM]);
		buffer_add_text(out, "weir_no_room_total{limit=\"");
		add_label_value(out, limit->name);
		buffer_printf(out, "\"} %llu\n", (unsigned long long)value);
	}
}

/* Limits that never failed so are left out: only those at Redis can. */
static void add_failures(struct metrics *metrics, struct buffer *out)
{
	static const char *const policies[METRICS_FAILURE_COUNT] = {
	    [RULES_LOCAL] = "local", [RULES_OPEN] = "open", [RULES_CLOSED] = "closed"};
	struct named *limit = named_first(&metrics->limits);

	add_head(out, "weir_store_failures_total", "counter",
	         "Steps of limits that their Redis could not do, by what Weir did instead.");
	for (; limit; limit = limit->next)
		for (int p = 0; p < METRICS_FAILURE_COUNT; p++) {
			uint64_t value = 0;

			for (size_t i = 0; i < metrics->loop_count; i++)
				value += read_counter(&metrics_counts_of(limit, i)->failures[p]);
			if (value == 0)
				continue;
			buffer_add_text(out, "weir_store_failures_total{limit=\"");
			add_label_value(out, limit->name);
			buffer_printf(out, "\",policy=\"%s\"} %llu\n", policies[p], (unsigned long long)value);
		}
}

/* Limits without such permits are left out: most hand out none. */
static void add_withheld(struct metrics *metrics, struct buffer *out)
{
	struct named *limit = named_first(&metrics->limits);

	add_head(out, "weir_permits_withheld_total", "counter",
	         "Requests that passed at /auth and will not be reported, by the limit that waits for "
	         "their reports.");
	for (; limit; limit = limit->next) {
		uint64_t value = 0;

		for (size_t i = 0; i < metrics->loop_count; i++)
			value += read_counter(&metrics_counts_of(limit, i)->withheld);
		if (value == 0)
			continue;
		buffer_add_text(out, "weir_permits_withheld_total{limit=\"");
		add_label_value(out, limit->name);
		buffer_printf(out, "\"} %llu\n", (unsigned long long)value);
	}
}

static void add_phase(const char *name, const char *label, const struct metrics_phases *of,
                      enum health_phase phase, uint64_t value, struct buffer *out)
{
	buffer_printf(out, "%s{limit=\"", name);
	add_label_value(out, of->limit->name);
	buffer_printf(out, "\",%s=\"%s\"} %llu\n", label, health_phase_text(phase),
	              (unsigned long long)value);
}

/* No series for each key: callers make as many keys as they like. */
static void add_phases(const struct metrics *metrics, const struct metrics_now *now,
                       struct buffer *out)
{
	static const char breakers[] = "weir_breakers", turns[] = "weir_breaker_transitions_total";

	add_head(out, breakers, "gauge", "Keys that are not closed now, by phase.");
	for (size_t i = 0; i < now->phases_count; i++)
		for (int phase = HEALTH_CLOSED + 1; phase < HEALTH_PHASE_COUNT; phase++)
			add_phase(breakers, "phase", &now->phases[i], phase, now->phases[i].counts[phase], out);
	add_head(out, turns, "counter", "Keys that changed their phase, by the new phase.");
	for (size_t i = 0; i < now->phases_count; i++)
		for (int phase = HEALTH_CLOSED; phase < HEALTH_PHASE_COUNT; phase++) {
			uint64_t value = 0;

			for (size_t l = 0; l < metrics->loop_count; l++)
				value += read_counter(&metrics_counts_of(now->phases[i].limit, l)->turns[phase]);
			add_phase(turns, "to", &now->phases[i], phase, value, out);
		}
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
	    {"weir_store_switches_total", "Times that Redis was found away.", OF_STORE(switches)},
	    {"weir_store_denied_hits_total", "Steps answered by a known denial.",
	     OF_STORE(denied)},
	    {"weir_store_chunk_hits_total", "Steps answered from a chunk that was taken before.",
	     OF_STORE(chunk)},
	};
#undef OF_STORE

	add_head(out, "weir_store_up", "gauge", "Whether a Redis can be used.");
	for (size_t i = 0; i < now->store_count; i++)
		buffer_printf(out, "weir_store_up{store=\"%s\"} %d\n", now->stores[i].name,
		              now->stores[i].stats.is_up);
	for (size_t c = 0; c < sizeof counters / sizeof *counters; c++) {
		add_head(out, counters[c].name, "counter", counters[c].help);
		for (size_t i = 0; i < now->store_count; i++) {
			uint64_t value;

			memcpy(&value, (const char *)&now->stores[i].stats + counters[c].offset, sizeof value);
			buffer_printf(out, "%s{store=\"%s\"} %llu\n", counters[c].name, now->stores[i].name,
			              (unsigned long long)value);
		}
	}
}

/* `value` as it is, or nanoseconds in seconds. */
static void add_value(struct buffer *out, uint64_t value, bool seconds)
{
	uint64_t unit = seconds ? NS_PER_S : 1;

	buffer_printf(out, " %llu", (unsigned long long)(value / unit));
	if (seconds)
		buffer_printf(out, ".%09llu", (unsigned long long)(value % unit));
	buffer_add(out, "\n", 1);
}

static void add_times(const struct metrics_now *now, struct buffer *out)
{
	const char *name = "weir_store_call_duration_seconds";

	add_head(out, name, "histogram", "Time from sending a call to a Redis to its answer.");
	for (size_t i = 0; i < now->store_count; i++) {
		const struct metrics_store *store = &now->stores[i];
		uint64_t count = 0;

		for (size_t b = 0; b < REDIS_TIMES; b++) {
			count += store->stats.times[b];
			buffer_printf(out, "%s_bucket{store=\"%s\",le=\"", name, store->name);
			if (b < REDIS_TIMES - 1)
				buffer_printf(out, "%.6g", (double)redis_time_ns(b) / NS_PER_S);
			else
				buffer_add_text(out, "+Inf");
			buffer_printf(out, "\"} %llu\n", (unsigned long long)count);
		}
		buffer_printf(out, "%s_sum{store=\"%s\"}", name, store->name);
		add_value(out, store->stats.time_ns, true);
		buffer_printf(out, "%s_count{store=\"%s\"} %llu\n", name, store->name,
		              (unsigned long long)count);
	}
}

/* Sums the counter at this offset in each loop. */
static uint64_t sum_at(const struct metrics *metrics, size_t offset)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < metrics->loop_count; i++)
		sum += read_counter((_Atomic uint64_t *)((char *)&metrics->loops[i] + offset));
	return sum;
}

static void add_requests(struct metrics *metrics, struct buffer *out)
{
	add_head(out, "weir_requests_total", "counter", "Requests answered; a batch is one.");
	for (int p = 0; p < METRICS_PROTOCOL_COUNT; p++) {
		uint64_t value = 0;

		for (size_t i = 0; i < metrics->loop_count; i++)
			value += read_counter(&metrics->loops[i].requests[p]);
		buffer_printf(out, "weir_requests_total{protocol=\"%s\"} %llu\n", protocol_names[p],
		              (unsigned long long)value);
	}
}

static void add_errors(struct metrics *metrics, struct buffer *out)
{
	add_head(out, "weir_errors_total", "counter",
	         "Requests, and elements of batches, answered with an error.");
	for (int pair = 0; pair < METRICS_PROTOCOL_COUNT * METRICS_STATUS_COUNT; pair++) {
		int p = pair / METRICS_STATUS_COUNT, status = pair % METRICS_STATUS_COUNT;
		uint64_t value = 0;

		if (status == WEIR_OK)
			continue;
		for (size_t i = 0; i < metrics->loop_count; i++)
			value += read_counter(&metrics->loops[i].errors[p][status]);
		buffer_printf(out, "weir_errors_total{protocol=\"%s\",status=\"%s\"} %llu\n",
		              protocol_names[p], status_names[status], (unsigned long long)value);
	}
}

static void add_permits(struct metrics *metrics, struct buffer *out)
{
	static const char *const events[METRICS_PERMIT_COUNT] = {
	    [METRICS_PERMIT_HANDED_OUT] = "handed_out",
	    [METRICS_PERMIT_REFUNDED] = "refunded",
	    [METRICS_PERMIT_REPORTED] = "reported",
	    [METRICS_PERMIT_NOT_HELD] = "not_held",
	};

	add_head(out, "weir_permits_total", "counter",
	         "Permits by their fate; not_held: refunded or reported too late, or twice.");
	for (int e = 0; e < METRICS_PERMIT_COUNT; e++) {
		uint64_t value = 0;

		for (size_t i = 0; i < metrics->loop_count; i++)
			value += read_counter(&metrics->loops[i].permits[e]);
		buffer_printf(out, "weir_permits_total{event=\"%s\"} %llu\n", events[e],
		              (unsigned long long)value);
	}
}

static void add_histogram(struct metrics *metrics, enum metrics_histogram h, struct buffer *out)
{
	const char *name = histograms[h].name, *bound;
	uint64_t count = 0, sum = 0;
	size_t b = 0;

	add_head(out, name, "histogram", histograms[h].help);
	do {
		bound = histograms[h].bounds[b].text;
		for (size_t i = 0; i < metrics->loop_count; i++)
			count += read_counter(&metrics->loops[i].histograms[h].buckets[b]);
		buffer_printf(out, "%s_bucket{le=\"%s\"} %llu\n", name, bound ? bound : "+Inf",
		              (unsigned long long)count);
		b++;
	} while (bound);
	for (size_t i = 0; i < metrics->loop_count; i++)
		sum += read_counter(&metrics->loops[i].histograms[h].sum);
	buffer_printf(out, "%s_sum", name);
	add_value(out, sum, histograms[h].seconds);
	buffer_printf(out, "%s_count %llu\n", name, (unsigned long long)count);
}

static void add_reloads(struct metrics *metrics, struct buffer *out)
{
	add_head(out, "weir_reloads_total", "counter", "Reloads of the configuration.");
	for (int success = 0; success < 2; success++)
		buffer_printf(out, "weir_reloads_total{result=\"%s\"} %llu\n",
		              success ? "success" : "failure",
		              (unsigned long long)read_counter(&metrics->reloads[success]));
}

static void add_singles(struct metrics *metrics, const struct metrics_now *now, struct buffer *out)
{
	const struct {
		const char *name, *type, *help;
		uint64_t value;
		bool seconds; /* shown as such, known in nanoseconds */
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
	    {"weir_event_streams", "gauge", "Clients that follow /v1/events.", now->event_streams, false},
	    {"weir_transactions_bytes", "gauge", "Memory of commands between MULTI and EXEC.",
	     sum_at(metrics, offsetof(struct metrics_loop, kept)), false},
	    {"weir_answers_held", "gauge", "Answers that wait for their requests' turns, or for a Redis.",
	     sum_at(metrics, offsetof(struct metrics_loop, held)), false},
	    {"weir_batches_continued_total", "counter",
	     "Turns in which a batch went on that was too much work for one.",
	     sum_at(metrics, offsetof(struct metrics_loop, continued)), false},
	    {"weir_waits_cancelled_total", "counter",
	     "Answers that were held when their client left, or the server stopped.",
	     sum_at(metrics, offsetof(struct metrics_loop, cancelled)), false},
	    {"weir_table_cells", "gauge", "Places in the key table.", now->table.cells, false},
	    {"weir_table_live_keys", "gauge",
	     "Keys in use now, estimated from a sample in large tables.", now->table.live, false},
	    {"weir_table_evictions_total", "counter", "Keys in use that had to make room for others.",
	     now->table.evictions, false},
	    {"weir_table_bytes", "gauge", "Memory of the key table.", now->table.bytes, false},
	    {"weir_log_lines_dropped_total", "counter", "Log lines left out because there were too many.",
	     now->log_lines_dropped, false},
	    {"process_start_time_seconds", "gauge", "When the server started, in Unix time.",
	     metrics->start_ns, true},
	    {"process_cpu_seconds_total", "counter", "Processor time taken, user and system.",
	     now->usage.cpu_ns, true},
	    {"process_resident_memory_bytes", "gauge", "Memory in use.", now->usage.resident_bytes, false},
	    {"process_virtual_memory_bytes", "gauge", "Address space in use.",
	     now->usage.virtual_bytes, false},
	};

	for (size_t i = 0; i < sizeof singles / sizeof *singles; i++) {
		add_head(out, singles[i].name, singles[i].type, singles[i].help);
		buffer_add_text(out, singles[i].name);
		add_value(out, singles[i].value, singles[i].seconds);
	}
	add_head(out, "weir_build_info", "gauge", "The version that runs.");
	buffer_printf(out, "weir_build_info{version=\"%s\"} 1\n", weir_version());
}

void metrics_render(struct metrics *metrics, const struct metrics_now *now, struct buffer *out)
{
	add_decisions(metrics, out);
	add_no_room(metrics, out);
	add_failures(metrics, out);
	add_phases(metrics, now, out);
	add_stores(now, out);
	add_times(now, out);
	add_requests(metrics, out);
	add_errors(metrics, out);
	add_permits(metrics, out);
	add_withheld(metrics, out);
	for (int h = 0; h < METRICS_HISTOGRAM_COUNT; h++)
		add_histogram(metrics, (enum metrics_histogram)h, out);
	add_reloads(metrics, out);
	add_singles(metrics, now, out);
}
