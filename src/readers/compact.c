#include "readers/compact.h"

#include "base/text/json.h"

static bool fail(struct compact *compact, const char *expected)
{
	compact->expected = expected;
	return false;
}

static void skip(struct compact *compact, size_t n)
{
	compact->rest.data += n;
	compact->rest.len -= n;
}

/* The next character behind blanks, which stays; 0: the end. */
static char peek(struct compact *compact)
{
	while (compact->rest.len > 0 && memchr(" \t\r\n", *compact->rest.data, 4))
		skip(compact, 1);
	return compact->rest.len > 0 ? *compact->rest.data : '\0';
}

/* Copies `c` behind blanks. */
static bool copy(struct compact *compact, char c)
{
	if (peek(compact) != c)
		return false;
	skip(compact, 1);
	buffer_add(&compact->out, &c, 1);
	return true;
}

static bool read_escape(struct compact *compact, struct buffer *text)
{
	struct slice rest;
	char character[4], *end = character;
	enum json_escape escape;

	skip(compact, 1);
	rest = compact->rest;
	escape = json_read_escape(&rest, &end);
	if (escape != JSON_ESCAPE_GOOD)
		return fail(compact, escape == JSON_ESCAPE_HALF ? "both halves of a character"
		                                                : "an escape of JSON");
	buffer_add(text, character, (size_t)(end - character));
	compact->rest = rest;
	return true;
}

static bool read_text(struct compact *compact, struct buffer *text)
{
	if (peek(compact) != '"')
		return fail(compact, "text in quotes");
	skip(compact, 1);
	while (compact->rest.len > 0 && *compact->rest.data != '"') {
		if (*compact->rest.data == '\\') {
			if (!read_escape(compact, text))
				return false;
		} else {
			buffer_add(text, compact->rest.data, 1);
			skip(compact, 1);
		}
	}
	if (compact->rest.len == 0)
		return fail(compact, "a quote after the text");
	skip(compact, 1);
	return true;
}

/* Appends text as JSON writes it; `raw` gets it as it is. */
static bool copy_text(struct compact *compact, struct buffer *raw)
{
	if (!read_text(compact, raw))
		return false;
	compact->out.failed |= raw->failed;
	buffer_add(&compact->out, "\"", 1);
	buffer_add_json(&compact->out, (struct slice){raw->data, raw->len});
	buffer_add(&compact->out, "\"", 1);
	return true;
}

static bool copy_string(struct compact *compact)
{
	struct buffer raw = {.max = compact->out.max};
	bool read = copy_text(compact, &raw);

	buffer_free(&raw);
	return read;
}

static bool copy_scalar(struct compact *compact)
{
	static const struct slice words[] = {SLICE("true"), SLICE("false"), SLICE("null")};
	size_t length = json_number_len(compact->rest);

	for (size_t i = 0; i < sizeof words / sizeof *words && length == 0; i++) {
		struct slice rest = compact->rest;

		if (slice_skip(&rest, words[i]))
			length = words[i].len;
	}
	if (length == 0)
		return fail(compact, "a value of JSON");
	buffer_add(&compact->out, compact->rest.data, length);
	skip(compact, length);
	return true;
}

static bool copy_value(struct compact *compact);

static bool copy_items(struct compact *compact)
{
	if (!copy(compact, '['))
		return fail(compact, "a list");
	if (copy(compact, ']'))
		return true;
	do {
		if (!copy_value(compact))
			return false;
	} while (copy(compact, ','));
	return copy(compact, ']') || fail(compact, "] or a comma");
}

/* The fields of an object so far, as places in `out`. */
struct names {
	size_t count;
	struct {
		size_t begin, len;
	} at[COMPACT_FIELDS_MAX];
};

static bool is_new(const struct compact *compact, const struct names *names, size_t begin,
                   size_t len)
{
	const char *data = compact->out.data;

	for (size_t i = 0; i < names->count; i++)
		if (names->at[i].len == len && memcmp(data + names->at[i].begin, data + begin, len) == 0)
			return false;
	return true;
}

/* Its name and the colon. */
static bool copy_name(struct compact *compact, struct names *names, bool *wanted)
{
	struct buffer raw = {.max = compact->out.max};
	struct slice before, name;
	size_t begin = compact->out.len;
	bool good;

	peek(compact);
	before = compact->rest;
	good = copy_text(compact, &raw);
	name = (struct slice){raw.data, raw.len};
	if (good && !compact->out.failed) {
		size_t len = compact->out.len - begin;

		if (names->count == COMPACT_FIELDS_MAX)
			good = fail(compact, "fewer fields in an object");
		else if (name.len > COMPACT_NAME_MAX)
			good = fail(compact, "a shorter name of a field");
		else if (!is_new(compact, names, begin, len))
			good = fail(compact, "each field once");
		else if (compact->depth == 1 && compact->field)
			good = compact->field(name);
		if (!good)
			compact->rest = (struct slice){before.data, (size_t)(compact->rest.data - before.data)};
		else
			names->at[names->count].begin = begin, names->at[names->count++].len = len;
	}
	*wanted = compact->depth == 1 && slice_equal(name, compact->wanted);
	for (size_t i = 0; i < compact->name_count && compact->depth == 1; i++)
		compact->found |= (uint32_t)slice_equal(name, compact->names[i]) << i;
	buffer_free(&raw);
	return good && (copy(compact, ':') || fail(compact, "a colon after the name of a field"));
}

static bool copy_fields(struct compact *compact)
{
	struct names names = {.count = 0};

	if (!copy(compact, '{'))
		return fail(compact, "an object of JSON such as { \"Ret_type\":2 }");
	if (copy(compact, '}'))
		return true;
	do {
		bool wanted;
		size_t begin;

		if (!copy_name(compact, &names, &wanted))
			return false;
		begin = compact->out.len;
		if (!copy_value(compact))
			return false;
		if (wanted) {
			compact->wanted_begin = begin;
			compact->wanted_end = compact->out.len;
		}
	} while (copy(compact, ','));
	return copy(compact, '}') || fail(compact, "} or a comma");
}

static bool copy_value(struct compact *compact)
{
	char c = peek(compact);
	bool read;

	if (c == '"')
		return copy_string(compact);
	if (c != '{' && c != '[')
		return copy_scalar(compact);
	if (compact->depth == COMPACT_DEPTH_MAX)
		return fail(compact, "objects and lists nested less deep");
	compact->depth++;
	read = c == '{' ? copy_fields(compact) : copy_items(compact);
	compact->depth--;
	return read;
}

bool compact_object(struct compact *compact)
{
	return peek(compact) == '{' ? copy_value(compact)
	                            : fail(compact, "an object of JSON such as { \"Ret_type\":2 }");
}
