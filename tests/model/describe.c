/*
 * describe: the descriptions of all algorithms as JSON, in the order of the list, for what is
 * written from them (parameters.py) and for tests that go through all algorithms.
 */
#include <stdio.h>

#include "algo/algo.h"
#include "base/buffer.h"
#include "rules/rate.h"

/* Adds the parameter's default, or null if it is required or its default is outside its bounds. */
static void add_default(struct buffer *out, const struct algo_parameter *parameter)
{
	if (parameter->type == ALGO_TEXT)
		buffer_printf(out, "\"%s\"", parameter->text);
	else if (parameter->type == ALGO_WORD)
		buffer_printf(out, "\"%s\"", parameter->words[0].name);
	else if (parameter->default_value == ALGO_DEFAULT_AS_RATE)
		buffer_add_text(out, "\"rate\"");
	else if (parameter->default_value == ALGO_DEFAULT_DERIVED)
		buffer_printf(out, "\"%s\"", parameter->text);
	else if (parameter->required || parameter->default_value < parameter->min ||
	         parameter->default_value > parameter->max)
		buffer_add_text(out, "null");
	else if (parameter->type == ALGO_NUMBER || parameter->type == ALGO_DECIMAL)
		buffer_add_u64(out, parameter->default_value);
	else if (parameter->type == ALGO_PERCENT)
		buffer_printf(out, "\"%u%%\"", (unsigned)parameter->default_value);
	else {
		buffer_add_text(out, "\"");
		duration_add(out, parameter->default_value);
		buffer_add_text(out, "\"");
	}
}

static void add_parameter(struct buffer *out, const struct algo_parameter *parameter)
{
	static const char *const types[] = {
	    [ALGO_NUMBER] = "number", [ALGO_PERCENT] = "percent", [ALGO_TIME] = "time", [ALGO_DECIMAL] = "decimal",
	    [ALGO_WORD] = "word",     [ALGO_TEXT] = "text", [ALGO_RATE] = "rate",
	    [ALGO_CALENDAR_RATE] = "calendar rate"};

	buffer_printf(out, "{\"name\":\"%s\",\"type\":\"%s\",\"required\":%s,\"min\":%llu,\"max\":%llu",
	              parameter->name, types[parameter->type], parameter->required ? "true" : "false",
	              (unsigned long long)parameter->min, (unsigned long long)parameter->max);
	buffer_add_text(out, ",\"words\":[");
	for (const struct word *word = parameter->words; word && word->name; word++)
		buffer_printf(out, "%s\"%s\"", word == parameter->words ? "" : ",", word->name);
	buffer_printf(out, "],\"with\":\"%s\",\"rival\":\"%s\",\"default\":",
	              parameter->with ? parameter->with : "", parameter->rival ? parameter->rival : "");
	add_default(out, parameter);
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
		for (const struct algo_parameter *parameter = algorithm->parameters; parameter->name;
		     parameter++) {
			buffer_add_text(&out, parameter == algorithm->parameters ? "" : ",");
			add_parameter(&out, parameter);
		}
		buffer_add_text(&out, "]}");
	}
	buffer_add_text(&out, "]\n");
	fwrite(out.data, 1, out.len, stdout);
	failed = out.failed;
	buffer_free(&out);
	return failed;
}
