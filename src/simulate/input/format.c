/*
 * format.c: knows the formats of logs (combined, jsonl and csv), and has what their parsers share:
 * storing a value of a line in its field of the request, and errors with a column.
 */
#include "simulate/input/format.h"

#include <string.h>

#include "base/error.h"
#include "base/number.h"
#include "base/time/timestamp.h"

#define TIME_ABSENT UINT64_MAX
#define FOUND_MAX   40

static const char *const combined_columns[] = {"ip",
                                               "user",
                                               "time",
                                               "method",
                                               "path",
                                               "status",
                                               "bytes",
                                               "referer",
                                               "user_agent",
                                               "request_time",
                                               "upstream_response_time",
                                               NULL};

static const struct format formats[] = {
    {"combined", combined_columns, NULL, format_combined},
    {"jsonl", NULL, NULL, format_jsonl},
    {"csv", NULL, format_csv_header, format_csv},
};

const struct format *format_named(const char *name)
{
	for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
		if (strcmp(formats[i].name, name) == 0)
			return &formats[i];
	return NULL;
}

/* Whether the line has a time such as [14/Nov/2023:22:13:20 +0000]. */
static bool has_log_time(struct slice line)
{
	const char *at = line.data, *end = line.data + line.len;
	uint64_t ignored;

	for (; at < end && (at = memchr(at, '[', (size_t)(end - at))); at++)
		if (end - at > FORMAT_SECOND_LEN + 1 && at[FORMAT_SECOND_LEN + 1] == ']' &&
		    timestamp_parse_log((struct slice){at + 1, FORMAT_SECOND_LEN}, &ignored))
			return true;
	return false;
}

/* A brace begins only JSON, and a time in brackets does not occur in the header of a CSV. */
const struct format *format_guess(struct slice line)
{
	struct slice text = slice_trim(line);

	if (text.len > 0 && *text.data == '{')
		return format_named("jsonl");
	return format_named(has_log_time(line) ? "combined" : "csv");
}

int format_target(const struct fields *fields, struct slice name)
{
	if (slice_equal(name, SLICE("time")))
		return TARGET_TIME;
	if (slice_equal(name, SLICE("cost")))
		return TARGET_COST;
	for (size_t i = 0; i < fields->count; i++)
		if (slice_equal(fields->names[i], name))
			return (int)i;
	return TARGET_NONE;
}

void format_columns(const struct format *format, const struct fields *fields,
                    struct columns *columns)
{
	*columns = (struct columns){.fields = fields};
	for (; format->fixed && format->fixed[columns->count]; columns->count++)
		columns->targets[columns->count] =
		    format_target(fields, slice_of(format->fixed[columns->count]));
}

int format_expected(struct weir_error *error, struct slice line, const char *at, const char *what)
{
	size_t left = (size_t)(line.data + line.len - at), len = 0;
	char found[FOUND_MAX + 1];

	for (; len < left && len < FOUND_MAX; len++)
		found[len] = at[len] < ' ' || at[len] > '~' ? '?' : at[len];
	found[len] = '\0';
	return error_set_at(error, WEIR_ESYNTAX, 0, (unsigned)(at - line.data) + 1,
	                    left ? "expected %s, found '%s'" : "expected %s, found the end of the line",
	                    what, found);
}

int format_store_value(struct record *record, int target, struct slice value, struct slice line,
                       struct weir_error *error)
{
	switch (target) {
	case TARGET_NONE:
		return WEIR_OK;
	case TARGET_TIME:
		if (record->time_ns != TIME_ABSENT)
			return format_expected(error, line, value.data, "each field once");
		if (timestamp_parse(value, &record->time_ns))
			return WEIR_OK;
		return format_expected(error, line, value.data, "Unix seconds or a time of RFC 3339");
	case TARGET_COST:
		if (parse_u64(value, &record->cost))
			return WEIR_OK;
		return format_expected(error, line, value.data, "a cost, a whole number");
	default:
		if (record->values[target].data)
			return format_expected(error, line, value.data, "each field once");
		record->values[target] = value;
		return WEIR_OK;
	}
}

void format_begin(const struct columns *columns, struct record *record)
{
	record->time_ns = TIME_ABSENT;
	record->cost = 1;
	memset(record->values, 0, columns->fields->count * sizeof *record->values);
}

int format_end(const struct record *record, struct slice line, struct weir_error *error)
{
	if (record->time_ns != TIME_ABSENT)
		return WEIR_OK;
	return format_expected(error, line, line.data + line.len, "a field \"time\"");
}
