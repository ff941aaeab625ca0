/*
 * describe: the descriptions of all algorithms as JSON, in the order of the list, for what is
 * written from them (parameters.py) and for tests that go through all algorithms.
 */
#include <stdio.h>

#include "algo/algo.h"
#include "base/buffer.h"
#include "rules/rate.h"

/* Adds the parameter's default; null: it has none that could be told. */
static void add_default(struct buffer *out, const struct algo_parameter *row)
{
	if (row->type == ALGO_TEXT)
		buffer_printf(out, "\"%s\"", row->text);
	else if (row->type == ALGO_WORD)
		buffer_printf(out, "\"%s\"", row->words[0].name);
	else if (row->otherwise == ALGO_DEFAULT_AS_RATE)
		buffer_add_text(out, "\"rate\"");
	else if (row->otherwise == ALGO_DEFAULT_DERIVED)
		buffer_printf(out, "\"%s\"", row->text);
	else if (row->required || row->otherwise < row->min || row->otherwise > row->max)
		buffer_add_text(out, "null");
	else if (row->type == ALGO_NUMBER || row->type == ALGO_DECIMAL)
		buffer_add_u64(out, row->otherwise);
	else if (row->type == ALGO_PERCENT)
		buffer_printf(out, "\"%u%%\"", (unsigned)row->otherwise);
	else {
		buffer_add_text(out, "\"");
		duration_add(out, row->otherwise);
		buffer_add_text(out, "\"");
	}
}

static void add_parameter(struct buffer *out, const struct algo_parameter *row)
{
	static const char *const types[] = {
	    [ALGO_NUMBER] = "number", [ALGO_PERCENT] = "percent", [ALGO_TIME] = "time", [ALGO_DECIMAL] = "decimal",
	    [ALGO_WORD] = "word",     [ALGO_TEXT] = "text", [ALGO_RATE] = "rate",
	    [ALGO_CALENDAR_RATE] = "calendar rate"};

	buffer_printf(out, "{\"name\":\"%s\",\"type\":\"%s\",\"required\":%s,\"min\":%llu,\"max\":%llu",
	              row->name, types[row->type], row->required ? "true" : "false",
	              (unsigned long long)row->min, (unsigned long long)row->max);
	buffer_add_text(out, ",\"words\":[");
	for (const struct word *word = row->words; word && word->name; word++)
		buffer_printf(out, "%s\"%s\"", word == row->words ? "" : ",", word->name);
	buffer_printf(out, "],\"with\":\"%s\",\"default\":", row->with ? row->with : "");
	add_default(out, row);
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
		              algorithm->rows == ALGO_ROWS_PLACES || algorithm->judges ? "true" : "false");
		buffer_printf(&out, "\"sample\":\"%s\",\"parameters\":[",
		              algorithm->sample ? algorithm->sample : "");
		for (const struct algo_parameter *row = algorithm->parameters; row->name; row++) {
			buffer_add_text(&out, row == algorithm->parameters ? "" : ",");
			add_parameter(&out, row);
		}
		buffer_add_text(&out, "]}");
	}
	buffer_add_text(&out, "]\n");
	fwrite(out.data, 1, out.len, stdout);
	failed = out.failed;
	buffer_free(&out);
	return failed;
}
