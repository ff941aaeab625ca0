/*
 * denial_line.c: writes and reads a denial as a line of JSON. A line that is read may have been
 * changed by another program, so each member is checked, and attributes are copied text by text.
 */
#include "server/denials/denial_line.h"

#include <string.h>

#include "base/number.h"
#include "base/text/json.h"
#include "base/time/timestamp.h"

/* The members of a denial, as a set. */
enum {
	HAS_ID = 1,
	HAS_TIME = 2,
	HAS_RULE = 4,
	HAS_LIMIT = 8,
	HAS_KEY = 16,
	HAS_REASON = 32,
	HAS_RETRY = 64,
	HAS_SHADOW = 128,
	HAS_ATTRIBUTES = 256,
	HAS_ALL = 511,    /* that a denial must have */
	HAS_VALUES = 512, /* a denial of a key without attributes has none */
};

/*
 * Reads a text and replaces its escapes where it lies. A NUL then stands behind it, in the place of
 * its quote or before, and none in it: it becomes the name of a rule or limit.
 */
static bool read_name(struct json *json, struct slice *out)
{
	char *text;

	if (!json_text(json, out))
		return false;
	text = (char *)out->data;
	out->len = json_unescape(*out, text);
	if (memchr(text, '\0', out->len) != NULL)
		return json_fail(json, "a text without NUL");
	text[out->len] = '\0';
	return true;
}

static bool read_kept_id(struct json *json, struct denial_line *line)
{
	struct slice text;

	if (!read_name(json, &text))
		return false;
	if (!hex_is_valid(text, DENIAL_ID_TEXT - 1))
		return json_fail(json, "an id of 16 hexadecimal digits");
	memcpy(line->id, text.data, DENIAL_ID_TEXT);
	return true;
}

static bool read_kept_time(struct json *json, struct denial_line *line)
{
	struct slice text;

	if (!read_name(json, &text))
		return false;
	return timestamp_parse(text, &line->denial.time_ns) ||
	       json_fail(json, "a time such as 2026-01-31T10:00:00Z");
}

static bool read_kept_rule(struct json *json, struct denial_line *line)
{
	struct slice text;

	if (!read_name(json, &text))
		return false;
	line->denial.rule = text.data;
	return true;
}

static bool read_kept_limit(struct json *json, struct denial_line *line)
{
	struct slice text;

	if (!read_name(json, &text))
		return false;
	line->denial.limit = text.data;
	return true;
}

/* The name of a key may have any bytes, also NUL. */
static bool read_kept_key(struct json *json, struct denial_line *line)
{
	struct slice *key = &line->denial.key;

	if (!json_text(json, key))
		return false;
	key->len = json_unescape(*key, (char *)key->data);
	return true;
}

static bool read_kept_reason(struct json *json, struct denial_line *line)
{
	struct slice text;

	if (!read_name(json, &text))
		return false;
	for (int reason = 0; reason < WEIR_REASON_COUNT; reason++)
		if (strcmp(weir_reason_text((enum weir_reason)reason), text.data) == 0) {
			line->denial.reason = (enum weir_reason)reason;
			return true;
		}
	return json_fail(json, "a reason");
}

static bool read_kept_retry(struct json *json, struct denial_line *line)
{
	struct slice word;
	uint64_t retry_after_ms;

	if (!json_word(json, &word))
		return false;
	if (!parse_u64(word, &retry_after_ms))
		return json_fail(json, "whole milliseconds");
	line->denial.retry_after_ns = sat_u64((u128)retry_after_ms * NS_PER_MS);
	return true;
}

static bool read_kept_shadow(struct json *json, struct denial_line *line)
{
	struct slice word;

	if (!json_word(json, &word))
		return false;
	line->denial.shadow = slice_equal(word, SLICE("true"));
	return line->denial.shadow || slice_equal(word, SLICE("false")) ||
	       json_fail(json, "true or false");
}

static bool read_kept_attributes(struct json *json, struct denial_line *line)
{
	struct buffer *out = &line->attributes;
	struct slice name, value;

	if (!json_open(json, '{'))
		return false;
	out->len = 0;
	buffer_add(out, "{", 1);
	while (json_more(json, '}')) {
		if (!json_name(json, &name) || !json_text(json, &value))
			return false;
		name.len = json_unescape(name, (char *)name.data);
		value.len = json_unescape(value, (char *)value.data);
		buffer_add_text(out, out->len > 1 ? ",\"" : "\"");
		buffer_add_json(out, name);
		buffer_add(out, "\":\"", 3);
		buffer_add_json(out, value);
		buffer_add(out, "\"", 1);
	}
	buffer_add(out, "}", 1);
	line->denial.attributes = (struct slice){out->data, out->len};
	return !json->expected && !out->failed;
}

static bool read_kept_values(struct json *json, struct denial_line *line)
{
	struct slice *values = &line->denial.values;

	if (!read_name(json, values))
		return false;
	return (values->len % DENIAL_DIGEST == 0 && values->len <= DENIAL_VALUES_MAX &&
	        hex_is_valid(*values, values->len)) ||
	       json_fail(json, "digests of 16 hexadecimal digits each");
}

static const struct member {
	struct slice name;
	unsigned flag;
	bool (*read)(struct json *json, struct denial_line *line);
} members[] = {
    {SLICE("id"), HAS_ID, read_kept_id},
    {SLICE("time"), HAS_TIME, read_kept_time},
    {SLICE("rule"), HAS_RULE, read_kept_rule},
    {SLICE("limit"), HAS_LIMIT, read_kept_limit},
    {SLICE("key"), HAS_KEY, read_kept_key},
    {SLICE("reason"), HAS_REASON, read_kept_reason},
    {SLICE("retry_after_ms"), HAS_RETRY, read_kept_retry},
    {SLICE("shadow"), HAS_SHADOW, read_kept_shadow},
    {SLICE("attributes"), HAS_ATTRIBUTES, read_kept_attributes},
    {SLICE("values"), HAS_VALUES, read_kept_values},
};

/* Reads the value of a member; skips one that a later version may have added. */
static bool read_member(struct json *json, struct slice name, struct denial_line *line,
                        unsigned *found)
{
	for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
		if (!slice_equal(members[i].name, name))
			continue;
		if (*found & members[i].flag)
			return json_fail(json, "each member once");
		*found |= members[i].flag;
		return members[i].read(json, line);
	}
	return json_skip(json);
}

bool denial_line_read(char *line, size_t len, struct denial_line *out)
{
	struct json json = json_of((struct slice){line, len});
	struct slice name;
	unsigned found = 0;

	*out = (struct denial_line){0};
	if (json_open(&json, '{'))
		while (json_more(&json, '}') && json_name(&json, &name) &&
		       read_member(&json, name, out, &found))
			;
	if (!json.expected && (found & HAS_ALL) != HAS_ALL)
		json_fail(&json, "id, time, rule, limit, key, reason, retry_after_ms, shadow, attributes");
	if (!json.expected)
		json_end(&json);
	out->expected = json.expected ? json.expected : out->attributes.failed ? "memory" : NULL;
	out->column = (unsigned)(json.at - line) + 1;
	return out->expected == NULL;
}

void denial_line_write(struct buffer *out, struct slice json, struct slice values)
{
	buffer_add(out, json.data, json.len - 1); /* without its last brace */
	if (values.len > 0 && values.len <= DENIAL_VALUES_MAX) {
		buffer_add_text(out, ",\"values\":\"");
		buffer_add_slice(out, values);
		buffer_add(out, "\"", 1);
	}
	buffer_add(out, "}\n", 2);
}
