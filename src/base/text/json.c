/*
 * json.c: reads JSON where it lies in memory, one value after another, and copies nothing. Texts
 * stay escaped until the caller unescapes them.
 */
#include "base/text/json.h"

#include <endian.h>
#include <stdint.h>

#include "base/number.h"

#define REPLACEMENT 0xfffd

/* Reads "uXXXX" off *rest. Returns false and leaves *rest as it is if that begins otherwise. */
static bool read_code_unit(struct slice *rest, unsigned *out)
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

/* A character past U+FFFF is written as a pair of code units: a high surrogate and a low one. */
static bool is_high_surrogate(unsigned unit)
{
	return unit >> 10 == 0xd800 >> 10;
}

static bool is_low_surrogate(unsigned unit)
{
	return unit >> 10 == 0xdc00 >> 10;
}

/* Reads the second half of a pair off *rest. Returns false if it isn't there. */
static bool read_low_surrogate(struct slice *rest, unsigned *low)
{
	struct slice text = *rest;

	if (!slice_skip(&text, SLICE("\\")) || !read_code_unit(&text, low) || !is_low_surrogate(*low))
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

/* Returns the index of the first byte from `from` on that is no digit. */
static size_t skip_digits(struct slice text, size_t from)
{
	while (from < text.len && text.data[from] >= '0' && text.data[from] <= '9')
		from++;
	return from;
}

/* Returns the length of a number, or 0 for leading zeros, a plus, or no digit beside a point. */
static size_t number_length(struct slice text)
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

enum escape { ESCAPE_GOOD, ESCAPE_LONE_SURROGATE, ESCAPE_BAD };

/*
 * Reads an escape off *rest, which begins behind the backslash; a bad escape stays there. Writes
 * its character in UTF-8 to *to, which has fewer bytes than the escape, and moves *to behind it. A
 * half pair becomes U+FFFD.
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
	if (!read_code_unit(rest, &unit))
		return ESCAPE_BAD;
	if (is_high_surrogate(unit) && read_low_surrogate(rest, &low)) {
		unit = 0x10000 + ((unit & 0x3ff) << 10) + (low & 0x3ff);
	} else if (is_high_surrogate(unit) || is_low_surrogate(unit)) {
		unit = REPLACEMENT;
		result = ESCAPE_LONE_SURROGATE;
	}
	*to = put_utf8(*to, unit);
	return result;
}

/* Copies what is before each backslash, and then the character of the escape. */
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
		if (slice_skip(&rest, SLICE("\\")))
			read_escape(&rest, &out);
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

/* Skips blanks, and `c` if it comes next. Returns false if something else comes. */
static inline bool skip_if(struct json *json, char c)
{
	if (json_peek(json) != c || json->at == json->end)
		return false;
	json->at++;
	return true;
}

bool json_open(struct json *json, char open)
{
	json->is_before_first = skip_if(json, open);
	return json->is_before_first;
}

/* Returns whether another member follows, after the comma before it, or reads `close`. */
bool json_more(struct json *json, char close)
{
	bool needs_no_comma = json->is_before_first;

	json->is_before_first = false;
	if (json->expected || skip_if(json, close))
		return false;
	return needs_no_comma || skip_if(json, ',') ||
	       json_fail(json, close == '}' ? "a comma or the end of the object"
	                                    : "a comma or the end of the list");
}

/*
 * Finds the first quote, backslash or control character, or the end, eight bytes at a time. For a
 * byte b below 128, b - n has its highest bit (of `tops`) set if b is below n; b XOR c is 0, which
 * is below 1, if b is c.
 */
static const char *find_special(const char *p, const char *end)
{
	const uint64_t ones = UINT64_MAX / 255, tops = ones << 7;
	uint64_t word;

	for (; end - p >= (ptrdiff_t)sizeof word; p += sizeof word) {
		uint64_t xor_quote, xor_slash, found;

		memcpy(&word, p, sizeof word);
		word = le64toh(word);
		xor_quote = word ^ ones * '"';
		xor_slash = word ^ ones * '\\';
		found = ((word - ones * ' ') & ~word) | ((xor_quote - ones) & ~xor_quote) |
		        ((xor_slash - ones) & ~xor_slash);
		/* A byte that borrows may set the bit of the byte behind it, too; only the first counts. */
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
	if (escape == ESCAPE_LONE_SURROGATE && !json->allows_lone_surrogates)
		return json_fail(json, "both halves of a character");
	json->at = rest.data;
	return true;
}

/* Reads a text, from behind its opening quote. */
static bool read_text(struct json *json, struct slice *text)
{
	const char *from = json->at;

	json->has_escapes = false;
	for (;;) {
		json->at = find_special(json->at, json->end);
		if (json->at == json->end)
			return json_fail(json, "the end of a text in quotes");
		if (*json->at == '"')
			break;
		if (*json->at != '\\')
			return json_fail(json, "no control character in a text");
		json->at++;
		json->has_escapes = true;
		if (!skip_escape(json))
			return false;
	}
	*text = (struct slice){from, (size_t)(json->at++ - from)};
	return true;
}

bool json_text(struct json *json, struct slice *text)
{
	return skip_if(json, '"') ? read_text(json, text) : json_fail(json, "a text in quotes");
}

bool json_name(struct json *json, struct slice *name)
{
	if (!skip_if(json, '"'))
		return json_fail(json, "a field's name in quotes");
	return read_text(json, name) && (skip_if(json, ':') || json_fail(json, "a colon"));
}

static bool is_letter_or_digit(char c)
{
	return (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z');
}

/* Reads a number, true, false or null. */
bool json_word(struct json *json, struct slice *word)
{
	static const struct slice words[] = {SLICE("true"), SLICE("false"), SLICE("null")};
	struct slice rest;
	size_t len;
	bool runs_on; /* such as true1 */

	json_peek(json); /* skips blanks */
	rest = json_rest(json);
	len = number_length(rest);
	for (size_t i = 0; i < sizeof words / sizeof *words && len == 0; i++)
		if (slice_skip(&rest, words[i]))
			len = words[i].len;
	runs_on = len < (size_t)(json->end - json->at) && is_letter_or_digit(json->at[len]);
	if (len == 0 || runs_on)
		return json_fail(json, "a value of JSON");
	*word = (struct slice){json->at, len};
	json->at += len;
	return true;
}

/* Skips a value that is neither an object nor a list. */
static bool skip_scalar(struct json *json)
{
	struct slice ignored;

	return skip_if(json, '"') ? read_text(json, &ignored) : json_word(json, &ignored);
}

/*
 * Skips any value, and sets json->member_count to the number of its members, of which an empty
 * object and a scalar have none. It goes through nested objects and lists without recursion:
 * `closes` is the stack of the characters that end them.
 */
bool json_skip(struct json *json)
{
	char closes[JSON_DEPTH_MAX];
	size_t depth = 0, member_count = 0;
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
		while (depth > 0 && !json_more(json, closes[depth - 1])) { /* it has ended, or failed */
			if (json->expected)
				return false;
			depth--;
		}
		member_count += depth == 1; /* here a member of the outermost value begins */
		if (depth > 0 && closes[depth - 1] == '}' && !json_name(json, &name))
			return false;
	} while (depth > 0);
	json->member_count = member_count;
	return true;
}

bool json_end(struct json *json)
{
	json_peek(json);
	return json->at == json->end || json_fail(json, "nothing behind the object or list");
}

/* Continuation bytes of UTF-8 (10xxxxxx) count for no column. */
void json_place(struct slice text, const char *at, unsigned *line, unsigned *column)
{
	*line = *column = 1;
	for (const char *p = text.data; p < at; p++) {
		*column = *p == '\n' ? 1 : *column + ((*p & 0xc0) != 0x80);
		*line += *p == '\n';
	}
}
