/*
 * jsonl.c: a JSON object on each line.
 *
 * Its strings, numbers and booleans are attributes, numbers as they are written
 * (a time never becomes a float); null is as if it were absent. Arrays and
 * objects inside are stepped over, not checked.
 */
#include <endian.h>
#include <string.h>

#include "base/number.h"
#include "base/text/json.h"
#include "simulate/input/format.h"

struct scan {
	struct slice line;
	const char *at, *end;
	struct weir_error *error;
};

static int expected(const struct scan *s, const char *what)
{
	return format_expected(s->error, s->line, s->at, what);
}

static void skip_blanks(struct scan *s)
{
	const char *p = s->at;

	while (p < s->end && (*p == ' ' || *p == '\t'))
		p++;
	s->at = p;
}

static bool take(struct scan *s, char c)
{
	skip_blanks(s);
	if (s->at == s->end || *s->at != c)
		return false;
	s->at++;
	return true;
}

/* The first quote, backslash or control character, eight bytes at a time; or the end. */
static const char *plain_end(const char *p, const char *end)
{
	const uint64_t ones = UINT64_MAX / 255, tops = ones << 7;
	uint64_t word;

	for (; end - p >= (ptrdiff_t)sizeof word; p += sizeof word) {
		uint64_t quote, slash, found;

		memcpy(&word, p, sizeof word);
		word = le64toh(word);
		quote = word ^ ones * '"';
		slash = word ^ ones * '\\';
		/* A byte less than n borrows; what it borrows from may be marked too, but lies behind it. */
		found = ((word - ones * ' ') & ~word) | ((quote - ones) & ~quote) | ((slash - ones) & ~slash);
		if (found & tops)
			return p + __builtin_ctzll(found & tops) / 8;
	}
	while (p < end && *p != '"' && *p != '\\' && (unsigned char)*p >= ' ')
		p++;
	return p;
}

/* From behind the quote; what it becomes is never longer than what stood there. */
static int take_string(struct scan *s, struct slice *value)
{
	char *out = (char *)s->at;
	struct slice rest;

	value->data = s->at;
	for (;;) {
		const char *from = s->at;

		s->at = plain_end(from, s->end);
		if (out != from)
			memmove(out, from, (size_t)(s->at - from));
		out += s->at - from;
		if (s->at == s->end)
			return expected(s, "the end of a string");
		if (*s->at == '"')
			break;
		if (*s->at != '\\')
			return expected(s, "no control character in a string");
		s->at++;
		rest = (struct slice){s->at, (size_t)(s->end - s->at)};
		if (json_read_escape(&rest, &out) == JSON_ESCAPE_BAD)
			return expected(s, "an escape of JSON");
		s->at = rest.data;
	}
	value->len = (size_t)(out - value->data);
	s->at++;
	return WEIR_OK;
}

/* Past an array or object, of which `at` is the beginning. */
static int skip_nested(struct scan *s)
{
	struct slice ignored;
	uint64_t depth = 0;

	do {
		if (s->at == s->end)
			return expected(s, "the end of an array or object");
		if (*s->at == '"') {
			int status;

			s->at++;
			status = take_string(s, &ignored);
			if (status != WEIR_OK)
				return status;
			continue;
		}
		depth += *s->at == '{' || *s->at == '[';
		depth -= *s->at == '}' || *s->at == ']';
		s->at++;
	} while (depth > 0);
	return WEIR_OK;
}

enum { WORD_OTHER, WORD_NUMBER, WORD_END };

/* Numbers, true, false; for null *value stays absent. */
static int take_word(struct scan *s, struct slice *value)
{
	static const uint8_t kinds[256] = {
	    ['0' ... '9'] = WORD_NUMBER, ['+'] = WORD_NUMBER, ['-'] = WORD_NUMBER,
	    ['.'] = WORD_NUMBER,         ['e'] = WORD_NUMBER, ['E'] = WORD_NUMBER,
	    [','] = WORD_END,            [' '] = WORD_END,    ['\t'] = WORD_END,
	    ['}'] = WORD_END,
	};
	const char *from = s->at, *p = from;
	bool number = true;
	struct slice word;

	for (; p < s->end && kinds[(unsigned char)*p] != WORD_END; p++)
		number &= kinds[(unsigned char)*p] == WORD_NUMBER;
	word = (struct slice){from, (size_t)(p - from)};
	s->at = p;
	if (slice_equal(word, SLICE("null")))
		return WEIR_OK;
	*value = word;
	if (word.len > 0 && number && (hex_digit(*from) >= 0 || *from == '-'))
		return WEIR_OK;
	if (slice_equal(word, SLICE("true")) || slice_equal(word, SLICE("false")))
		return WEIR_OK;
	s->at = from;
	return expected(s, "a value of JSON");
}

static int take_value(struct scan *s, struct slice *value)
{
	*value = (struct slice){NULL, 0};
	skip_blanks(s);
	if (s->at < s->end && (*s->at == '{' || *s->at == '['))
		return skip_nested(s);
	if (take(s, '"'))
		return take_string(s, value);
	return take_word(s, value);
}

static int take_field(struct scan *s, const struct columns *columns, struct record *record)
{
	struct slice name, value;
	int status;

	if (!take(s, '"'))
		return expected(s, "a field's name in quotes");
	status = take_string(s, &name);
	if (status != WEIR_OK)
		return status;
	if (!take(s, ':'))
		return expected(s, "a colon");
	status = take_value(s, &value);
	if (status != WEIR_OK || !value.data)
		return status;
	return format_take(record, format_target(columns->fields, name), value, s->line, s->error);
}

int format_jsonl(const struct columns *columns, struct slice line, struct record *record,
                 struct weir_error *error)
{
	struct scan s = {line, line.data, line.data + line.len, error};
	int status;

	format_begin(columns, record);
	if (!take(&s, '{'))
		return expected(&s, "a JSON object");
	if (!take(&s, '}')) {
		do {
			status = take_field(&s, columns, record);
			if (status != WEIR_OK)
				return status;
		} while (take(&s, ','));
		if (!take(&s, '}'))
			return expected(&s, "a comma or the end of the object");
	}
	skip_blanks(&s);
	if (s.at < s.end)
		return expected(&s, "nothing behind the object");
	return format_end(record, line, error);
}
