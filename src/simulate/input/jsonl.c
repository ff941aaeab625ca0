/*
 * jsonl.c: parses lines of a log in JSON into requests, an object on each line.
 *
 * Strings, numbers and booleans are fields. The text of a number is used as it is, so a time never
 * becomes a float. null counts as absent; arrays and objects inside are skipped.
 */
#include "base/text/json.h"
#include "simulate/input/format.h"

/* Decodes escapes in place, which never makes the text longer. */
static struct slice without_escapes(const struct json *json, struct slice text)
{
	if (json->has_escapes)
		text.len = json_unescape(text, (char *)text.data);
	return text;
}

/* Reads a value; data is NULL for null, arrays and objects. */
static bool read_json_value(struct json *json, struct slice *value)
{
	char c = json_peek(json);

	*value = (struct slice){NULL, 0};
	if (c == '{' || c == '[')
		return json_skip(json);
	if (c != '"') {
		if (!json_word(json, value))
			return false;
		if (*value->data == 'n')
			value->data = NULL;
		return true;
	}
	if (!json_text(json, value))
		return false;
	*value = without_escapes(json, *value);
	return true;
}

int format_jsonl(const struct columns *columns, struct slice line, struct record *record,
                 struct weir_error *error)
{
	struct json json = json_of(line);
	struct slice name, value;

	json.allows_lone_surrogates = true; /* a text that was cut off is no reason to skip the line */
	format_begin(columns, record);
	/* After a failure, here or below, json.expected is set and json_more is false. */
	if (!json_open(&json, '{'))
		json_fail(&json, "a JSON object");
	while (json_more(&json, '}') && json_name(&json, &name)) {
		int target = format_target(columns->fields, without_escapes(&json, name)), status;

		if (!read_json_value(&json, &value))
			break;
		status = value.data ? format_store_value(record, target, value, line, error) : WEIR_OK;
		if (status != WEIR_OK)
			return status;
	}
	if (json.expected || !json_end(&json))
		return format_expected(error, line, json.at, json.expected);
	return format_end(record, line, error);
}
