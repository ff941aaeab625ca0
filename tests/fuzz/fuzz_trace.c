/* Parses log lines. The first byte chooses the format; the others are the lines. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/time/timestamp.h"
#include "simulate/input/ending.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct record *record, const struct fields *fields, struct slice line)
{
	if (record->time_ns > TIMESTAMP_MAX_NS)
		abort();
	for (size_t i = 0; i < fields->count; i++) {
		struct slice value = record->values[i];

		if (value.data && (value.data < line.data || value.len > line.len ||
		                   value.data + value.len > line.data + line.len))
			abort();
	}
}

static void check_end(struct endings *endings, struct record *record)
{
	uint64_t time_ns = record->time_ns;

	endings_read(endings, record);
	if (record->latency_ns > ENDING_LATENCY_MAX_NS || record->outcome > RECORD_NO_END ||
	    record->time_ns > time_ns || record->end_ns != record->time_ns + record->latency_ns)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const names[] = {"combined", "jsonl", "csv"};
	struct fields fields = {{SLICE("ip"), SLICE("path"), SLICE("user_agent"), SLICE("a")}, 4};
	struct endings endings = {0};
	const struct format *format;
	struct columns columns;
	struct record record = {0};
	const uint8_t *end = data + size;
	bool header;

	if (size == 0)
		return 0;
	endings_add_fields(&endings, &fields);
	format = format_named(names[*data++ % 3]);
	format_columns(format, &fields, &columns);
	header = format->header != NULL;
	for (const uint8_t *next; data < end; data = next) {
		const uint8_t *newline = memchr(data, '\n', (size_t)(end - data));
		size_t len = (size_t)((newline ? newline : end) - data);
		struct slice line = {malloc(len ? len : 1), len}; /* so that a step past it is seen */
		struct weir_error error = {0};
		int status;

		if (!line.data)
			return 0;
		next = newline ? newline + 1 : end;
		memcpy((char *)line.data, data, len);
		format_guess(line);
		status = header ? format->header(&columns, line, &error)
		                : format->parse(&columns, line, &record, &error);
		if (status != WEIR_OK && error.message[0] == 0)
			abort();
		if (status == WEIR_OK && !header) {
			check(&record, &fields, line);
			check_end(&endings, &record);
		}
		free((char *)line.data);
		if (header && status != WEIR_OK)
			return 0;
		header = false;
	}
	return 0;
}
