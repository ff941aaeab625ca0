/*
 * ending.c: reads from a request's line in a log how long the request took and whether it
 * succeeded, from fields such as `request_time` and `status`. Limits that judge outcomes need both.
 */
#include "simulate/input/ending.h"

#include <string.h>

#include "base/number.h"

static const struct slice names[ENDING_FIELDS] = {
    [ENDING_LATENCY_MS] = SLICE("latency_ms"),
    [ENDING_LATENCY] = SLICE("latency"),
    [ENDING_UPSTREAM_TIME] = SLICE("upstream_response_time"),
    [ENDING_REQUEST_TIME] = SLICE("request_time"),
    [ENDING_OUTCOME] = SLICE("outcome"),
    [ENDING_STATUS] = SLICE("status"),
};

void endings_add_fields(struct endings *endings, struct fields *fields)
{
	for (size_t i = 0; i < ENDING_FIELDS; i++) {
		size_t *at = &endings->fields[i];

		*at = 0;
		while (*at < fields->count && !slice_equal(fields->names[*at], names[i]))
			++*at;
		if (*at == fields->count)
			fields->names[fields->count++] = names[i];
	}
}

/* The value of a field; none if it is empty or "-", as programs write for no value. */
static struct slice value_of(const struct endings *endings, const struct record *record, int field)
{
	struct slice value = slice_trim(record->values[endings->fields[field]]);

	if (value.len == 0 || slice_equal(value, SLICE("-")))
		return (struct slice){NULL, 0};
	return value;
}

/* Reads a number of units, each `unit_ns` long. Returns false above ENDING_LATENCY_MAX_NS. */
static bool read_units(struct slice text, uint64_t unit_ns, uint64_t *out_ns)
{
	double units;

	if (!parse_decimal(text, &units) || units > (double)ENDING_LATENCY_MAX_NS / (double)unit_ns)
		return false;
	*out_ns = (uint64_t)(units * (double)unit_ns + 0.5);
	return true;
}

/* Reads seconds, or a number with a unit such as 120ms. */
static bool read_duration(struct slice text, uint64_t *out_ns)
{
	static const struct {
		struct slice name;
		uint64_t ns;
	} units[] = {
	    {SLICE("ns"), 1},       {SLICE("us"), 1000},         {SLICE("ms"), NS_PER_MS},
	    {SLICE("s"), NS_PER_S}, {SLICE("m"), 60 * NS_PER_S}, {SLICE("h"), 3600 * NS_PER_S},
	};

	for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
		struct slice name = units[i].name;

		if (text.len > name.len &&
		    memcmp(text.data + text.len - name.len, name.data, name.len) == 0)
			return read_units((struct slice){text.data, text.len - name.len}, units[i].ns, out_ns);
	}
	return read_units(text, NS_PER_S, out_ns);
}

static bool read_ms(struct slice text, uint64_t *out_ns)
{
	return read_units(text, NS_PER_MS, out_ns);
}

/* Reads the sum of seconds such as "0.100, 0.200 : -", one for each server that nginx has tried. */
static bool read_seconds(struct slice text, uint64_t *out_ns)
{
	const char *at = text.data, *end = text.data + text.len;

	*out_ns = 0;
	for (;;) {
		const char *from = at;
		struct slice one;
		uint64_t ns = 0;

		while (at < end && *at != ',' && *at != ':')
			at++;
		one = slice_trim((struct slice){from, (size_t)(at - from)});
		if (!slice_equal(one, SLICE("-")) && !read_units(one, NS_PER_S, &ns))
			return false;
		*out_ns += ns;
		if (at == end)
			return *out_ns <= ENDING_LATENCY_MAX_NS;
		at++;
	}
}

static bool (*const readers[])(struct slice text, uint64_t *out_ns) = {
    [ENDING_LATENCY_MS] = read_ms,
    [ENDING_LATENCY] = read_duration,
    [ENDING_UPSTREAM_TIME] = read_seconds,
    [ENDING_REQUEST_TIME] = read_seconds,
};

static bool read_outcome(struct slice text, uint8_t *out)
{
	static const struct slice outcomes[] = {
#define NAME(name, text) SLICE(text),
	    WEIR_OUTCOME_LIST(NAME)
#undef NAME
	};

	for (uint8_t i = 0; i < WEIR_OUTCOME_COUNT; i++)
		if (slice_equal(text, outcomes[i])) {
			*out = i;
			return true;
		}
	return false;
}

/* Reads a status. nginx logs 499 if the client did not wait for the answer. */
static bool read_status(struct slice text, uint8_t *out)
{
	uint64_t status;

	if (!parse_u64(text, &status) || status < 100 || status > 599)
		return false;
	*out = status == 499 || status == 504 ? WEIR_OUTCOME_TIMEOUT
	       : status >= 500                ? WEIR_OUTCOME_FAILURE
	                                      : WEIR_OUTCOME_SUCCESS;
	return true;
}

/* Reads the first valid latency. */
static bool read_latency(const struct endings *endings, const struct record *record,
                         uint64_t *out_ns, bool *wrong)
{
	for (int i = ENDING_LATENCY_MS; i <= ENDING_REQUEST_TIME; i++) {
		struct slice text = value_of(endings, record, i);

		if (!text.data)
			continue;
		if (readers[i](text, out_ns))
			return true;
		*wrong = true;
	}
	return false;
}

/* nginx logs the time when a request ended: subtract how long it took. */
static void read_begin(const struct endings *endings, struct record *record)
{
	struct slice text = value_of(endings, record, ENDING_REQUEST_TIME);
	uint64_t took_ns;

	if (text.data && read_seconds(text, &took_ns))
		record->time_ns = sat_sub(record->time_ns, took_ns);
}

void endings_read(struct endings *endings, struct record *record)
{
	struct slice outcome = value_of(endings, record, ENDING_OUTCOME);
	struct slice status = value_of(endings, record, ENDING_STATUS);
	bool wrong = false, has_latency, has_outcome;

	record->latency_ns = 0;
	has_latency = read_latency(endings, record, &record->latency_ns, &wrong);
	has_outcome = outcome.data && read_outcome(outcome, &record->outcome);
	wrong |= outcome.data && !has_outcome;
	if (!has_outcome && status.data) {
		has_outcome = read_status(status, &record->outcome);
		wrong |= !has_outcome;
	}
	if (!has_outcome)
		record->outcome = has_latency ? WEIR_OUTCOME_SUCCESS : RECORD_NO_END;
	endings->invalid += wrong;
	endings->no_latency += !has_latency && has_outcome;
	endings->no_outcome += has_latency && !has_outcome;
	endings->no_end += !has_latency && !has_outcome;
	read_begin(endings, record);
	record->end_ns = sat_add(record->time_ns, record->latency_ns);
}

bool endings_has_latency(const struct endings *endings, const struct record *record)
{
	uint64_t latency_ns;
	bool wrong;

	return read_latency(endings, record, &latency_ns, &wrong);
}
