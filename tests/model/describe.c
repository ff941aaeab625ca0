/*
 * describe: the descriptions of all algorithms as JSON, in the order of the list, for what is
 * written from them (parameters.py) and for tests that go through all algorithms.
 */
#include <stdio.h>

#include "algo/algo.h"
#include "base/buffer.h"
#include "rules/rate.h"

/* Adds the parameter's default; null: it has none that could be told. */
static void add_default(struct buffer *out, const struct algo_parameter *record)
{
	if (record->type == ALGO_TEXT)
		buffer_printf(out, "\"%s\"", record->text);
	else if (record->type == ALGO_WORD)
		buffer_printf(out, "\"%s\"", record->words[0].name);
	else if (record->default_value == ALGO_DEFAULT_AS_RATE)
		buffer_add_text(out, "\"rate\"");
	else if (record->default_value == ALGO_DEFAULT_DERIVED)
		buffer_printf(out, "\"%s\"", record->text);
	else if (record->required || record->default_value < record->min ||
	         record->default_value > record->max)
		buffer_add_text(out, "null");
	else if (record->type == ALGO_NUMBER || record->type == ALGO_DECIMAL)
		buffer_add_u64(out, record->default_value);
	else if (record->type == ALGO_PERCENT)
		buffer_printf(out, "\"%u%%\"", (unsigned)record->default_value);
	else {
		buffer_add_text(out, "\"");
		duration_add(out, record->default_value);
		buffer_add_text(out, "\"");
	}
}

static void add_parameter(struct buffer *out, const struct algo_parameter *record)
{
	static const char *const types[] = {
	    [ALGO_NUMBER] = "number", [ALGO_PERCENT] = "percent", [ALGO_TIME] = "time", [ALGO_DECIMAL] = "decimal",
	    [ALGO_WORD] = "word",     [ALGO_TEXT] = "text", [ALGO_RATE] = "rate",
	    [ALGO_CALENDAR_RATE] = "calendar rate"};

	buffer_printf(out, "{\"name\":\"%s\",\"type\":\"%s\",\"required\":%s,\"min\":%llu,\"max\":%llu",
	              record->name, types[record->type], record->required ? "true" : "false",
	              (unsigned long long)record->min, (unsigned long long)record->max);
	buffer_add_text(out, ",\"words\":[");
	for (const struct word *word = record->words; word && word->name; word++)
		buffer_printf(out, "%s\"%s\"", word == record->words ? "" : ",", word->name);
	buffer_printf(out, "],\"with\":\"%s\",\"default\":", record->with ? record->with : "");
	add_default(out, record);
	buffer_add_text(out, "}");
}

int main(void)
{
	const struct algorithm *algorithm;
	struct buffer out = {0};
	bool failed;

	for (size_t i = 0; (algorithm = algorithm_listed(i)); i++) {
		buffer_printf(&out, "%s{\"name\":\"%s\",\"value\":%d,\"paced\":%s,\"is_reported\":%s,",
		              i ? ",\n" : "[", algorithm->name, (int)algorithm->id,
		              algorithm->paced ? "true" : "false",
		              algorithm->record == ALGO_RECORD_LEASES || algorithm->judges ? "true"
		                                                                           : "false");
		buffer_printf(&out, "\"sample\":\"%s\",\"parameters\":[",
		              algorithm->sample ? algorithm->sample : "");
		for (const struct algo_parameter *record = algorithm->parameters; record->name; record++) {
			buffer_add_text(&out, record == algorithm->parameters ? "" : ",");
			add_parameter(&out, record);
		}
		buffer_add_text(&out, "]}");
	}
	buffer_add_text(&out, "]\n");
	fwrite(out.data, 1, out.len, stdout);
	failed = out.failed;
	buffer_free(&out);
	return failed;
}
