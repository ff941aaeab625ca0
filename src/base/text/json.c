/* json.c: reads JSON in place, value by value, and unescapes its texts. */
#include "base/text/json.h"

#include <endian.h>
#include <stdint.h>

#include "base/number.h"

#define REPLACEMENT 0xfffd

/* Reads "uXXXX" off *rest. Returns false and leaves *rest if it begins otherwise. */
static bool read_unit(struct slice *rest, unsigned *out)
{
	struct slice text = *rest;
	unsigned unit = 0;

	if (!slice_skip(&text, SLICE("u")) || text.len < 4)
		return false;
	for (size_t i = 0; i < 4; i++) {
		int digit = hex_digit(text.data[i]);

		if (digit < 0)
			return false;
		unit = unit << 4 | (unsigned)digit;
	}
	*rest = (struct slice){text.data + 4, text.len - 4};
	*out = unit;
	return true;
}

static bool is_half(unsigned unit, bool low)
{
	return unit >> 10 == (low ? 0xdc00 : 0xd800) >> 10;
}

/* Reads the second half of a pair off *rest. */
static bool read_low(struct slice *rest, unsigned *low)
{
	struct slice text = *rest;

	if (!slice_skip(&text, SLICE("\\")) || !read_unit(&text, low) || !is_half(*low, true))
		return false;
	*rest = text;
	return true;
}

static char *put_utf8(char *to, unsigned character)
{
	static const unsigned char lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
	size_t n = character < 0x80 ? 1 : character < 0x800 ? 2 : character < 0x10000 ? 3 : 4;

	for (size_t i = n - 1; i > 0; i--, character >>= 6)
		to[i] = (char)(0x80 | (character & 0x3f));
	*to = (char)(lead[n] | character);
	return to + n;
}

static size_t skip_digits(struct slice text, size_t from)
{
	while (from < text.len && text.data[from] >= '0' && text.data[from] <= '9')
		from++;
	return from;
}

/* The length of a number, or 0 for leading zeros, a plus, or no digit on one side of a point. */
static size_t number_len(struct slice text)
{
	size_t first = text.len > 0 && text.data[0] == '-', end = skip_digits(text, first), more;

	if (end == first || (text.data[first] == '0' && end > first + 1))
		return 0;
	if (end < text.len && text.data[end] == '.') {
		more = skip_digits(text, end + 1);
		if (more == end + 1)
			return 0;
		end = more;
	}
	if (end < text.len && (text.data[end] | 32) == 'e') {
		size_t from = end + 1;

		from += from < text.len && (text.data[from] == '-' || text.data[from] == '+');
		more = skip_digits(text, from);
		if (more == from)
			return 0;
		end = more;
	}
	return end;
}

enum escape { ESCAPE_GOOD, ESCAPE_HALF, ESCAPE_BAD };

/*
 * Reads an escape off *rest, which begins behind the backslash, or nothing of a bad one. Writes its
 * character in UTF-8 to *to and moves *to behind it: that has fewer bytes than the escape.
 */
static enum escape read_escape(struct slice *rest, char **to)
{
	static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
	const char *name = rest->len > 0 ? memchr(names, *rest->data, sizeof names - 1) : NULL;
	enum escape result = ESCAPE_GOOD;
	unsigned unit, low;

	if (name) {
		*(*to)++ = values[name - names];
		*rest = (struct slice){rest->data + 1, rest->len - 1};
		return ESCAPE_GOOD;
	}
	if (!read_unit(rest, &unit))
		return ESCAPE_BAD;
	if (is_half(unit, false) && read_low(rest, &low)) {
		unit = 0x10000 + ((unit & 0x3ff) << 10) + (low & 0x3ff);
	} else if (is_half(unit, false) || is_half(unit, true)) {
		unit = REPLACEMENT;
		result = ESCAPE_HALF;
	}
	*to = put_utf8(*to, unit);
	return result;
}

size_t json_unescape(struct slice text, char *to)
{
	char *out = to;
	struct slice rest = text;

	while (rest.len > 0) {
		const char *slash = memchr(rest.data, '\\', rest.len);
		size_t plain = slash ? (size_t)(slash - rest.data) : rest.len;

		memmove(out, rest.data, plain);
		out += plain;
		rest = (struct slice){rest.data + plain, rest.len - plain};
		if (rest.len > 0)
			rest = (struct slice){rest.data + 1, rest.len - 1}, read_escape(&rest, &out);
	}
	return (size_t)(out - to);
}

struct json json_of(struct slice text)
{
	const char *data = text.data ? text.data : "";

	return (struct json){.at = data, .end = data + text.len};
}

bool json_fail(struct json *json, const char *expected)
{
	if (!json->expected)
		json->expected = expected;
	return false;
}

static inline bool take_mark(struct json *json, char c)
{
	if (json_peek(json) != c || json->at == json->end)
		return false;
	json->at++;
	return true;
}

bool json_open(struct json *json, char open)
{
	json->begins = take_mark(json, open);
	return json->begins;
}

bool json_more(struct json *json, char close)
{
	bool begins = json->begins;

	json->begins = false;
	if (json->expected || take_mark(json, close))
		return false;
	return begins || take_mark(json, ',') ||
	       json_fail(json, close == '}' ? "a comma or the end of the object"
	                                    : "a comma or the end of the list");
}

/* Finds the first quote, backslash or control character, or the end, by eight bytes at a time. */
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
		/* A byte less than n borrows; what it borrows from may be marked too, but lies behind it.
		 */
		found =
		    ((word - ones * ' ') & ~word) | ((quote - ones) & ~quote) | ((slash - ones) & ~slash);
		if (found & tops)
			return p + __builtin_ctzll(found & tops) / 8;
	}
	while (p < end && *p != '"' && *p != '\\' && (unsigned char)*p >= ' ')
		p++;
	return p;
}

/* Skips an escape, from behind its backslash. */
static bool skip_escape(struct json *json)
{
	struct slice rest = json_rest(json);
	char ignored[4], *to = ignored;
	enum escape escape = read_escape(&rest, &to);

	if (escape == ESCAPE_BAD)
		return json_fail(json, "an escape of JSON");
	if (escape == ESCAPE_HALF && !json->halves)
		return json_fail(json, "both halves of a character");
	json->at = rest.data;
	return true;
}

/* Reads a text, from behind its opening quote. */
static bool read_text(struct json *json, struct slice *text)
{
	const char *from = json->at;

	json->escaped = false;
	for (;;) {
		json->at = plain_end(json->at, json->end);
		if (json->at == json->end)
			return json_fail(json, "the end of a text in quotes");
		if (*json->at == '"')
			break;
		if (*json->at != '\\')
			return json_fail(json, "no control character in a text");
		json->at++;
		json->escaped = true;
		if (!skip_escape(json))
			return false;
	}
	*text = (struct slice){from, (size_t)(json->at++ - from)};
	return true;
}

bool json_text(struct json *json, struct slice *text)
{
	return take_mark(json, '"') ? read_text(json, text) : json_fail(json, "a text in quotes");
}

bool json_name(struct json *json, struct slice *name)
{
	if (!take_mark(json, '"'))
		return json_fail(json, "a field's name in quotes");
	return read_text(json, name) && (take_mark(json, ':') || json_fail(json, "a colon"));
}

static bool is_letter_or_digit(char c)
{
	return (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z');
}

bool json_word(struct json *json, struct slice *word)
{
	static const struct slice words[] = {SLICE("true"), SLICE("false"), SLICE("null")};
	struct slice rest;
	size_t len;

	json_peek(json);
	rest = json_rest(json);
	len = number_len(rest);
	for (size_t i = 0; i < sizeof words / sizeof *words && len == 0; i++)
		if (slice_skip(&rest, words[i]))
			len = words[i].len;
	if (len == 0 || (len < (size_t)(json->end - json->at) && is_letter_or_digit(json->at[len])))
		return json_fail(json, "a value of JSON");
	*word = (struct slice){json->at, len};
	json->at += len;
	return true;
}

/* Skips a value that is neither an object nor a list. */
static bool skip_scalar(struct json *json)
{
	struct slice ignored;

	return take_mark(json, '"') ? read_text(json, &ignored) : json_word(json, &ignored);
}

/* Objects and lists in each other, without recursion. */
bool json_skip(struct json *json)
{
	char closes[JSON_DEPTH_MAX];
	size_t depth = 0, members = 0;
	struct slice name;

	do {
		char c = json_peek(json);

		if (c == '{' || c == '[') {
			if (depth == JSON_DEPTH_MAX)
				return json_fail(json, "objects and lists nested less deep");
			json_open(json, c);
			closes[depth++] = (char)(c == '{' ? '}' : ']');
		} else if (!skip_scalar(json)) {
			return false;
		}
		while (depth > 0 && !json_more(json, closes[depth - 1]))
			if (json->expected)
				return false;
			else
				depth--;
		members += depth == 1;
		if (depth > 0 && closes[depth - 1] == '}' && !json_name(json, &name))
			return false;
	} while (depth > 0);
	json->members = members;
	return true;
}

bool json_end(struct json *json)
{
	json_peek(json);
	return json->at == json->end || json_fail(json, "nothing behind the object or list");
}

void json_place(struct slice text, const char *at, unsigned *line, unsigned *column)
{
	*line = *column = 1;
	for (const char *p = text.data; p < at; p++) {
		*column = *p == '\n' ? 1 : *column + ((*p & 0xc0) != 0x80);
		*line += *p == '\n';
	}
}
