/*
 * compact.c: reads an object in JSON strictly and writes it without blanks, for the answers that
 * rule files contain. Refuses objects nested too deep, and fields that are repeated or not allowed.
 */
#include "readers/compact.h"

static bool copy_value(struct compact *compact);

/* Appends a text as JSON writes it; `plain` gets it without escapes. */
static void copy_text(struct compact *compact, struct slice text, struct buffer *plain)
{
	char *to = buffer_reserve(plain, text.len);

	if (to)
		plain->len = json_unescape(text, to);
	compact->out.failed |= plain->failed;
	buffer_add_json_string(&compact->out, (struct slice){plain->data, plain->len});
}

static bool copy_scalar(struct compact *compact)
{
	struct buffer plain = {.max = compact->out.max};
	struct slice value;

	if (json_peek(&compact->json) != '"') {
		if (!json_word(&compact->json, &value))
			return false;
		buffer_add(&compact->out, value.data, value.len);
		return true;
	}
	if (!json_text(&compact->json, &value))
		return false;
	copy_text(compact, value, &plain);
	buffer_free(&plain);
	return true;
}

/* The names of an object's fields so far, as positions in `out`. */
struct object_names {
	size_t count;
	struct {
		size_t begin, len;
	} at[COMPACT_FIELDS_MAX];
};

static bool is_new(const struct compact *compact, const struct object_names *names, size_t begin,
                   size_t len)
{
	const char *data = compact->out.data;

	for (size_t i = 0; i < names->count; i++)
		if (names->at[i].len == len && memcmp(data + names->at[i].begin, data + begin, len) == 0)
			return false;
	return true;
}

/* Checks and stores a name, whose copy in `out` begins at `begin`. */
static bool check_name(struct compact *compact, struct object_names *names, size_t begin,
                       struct slice name)
{
	size_t len = compact->out.len - begin;

	if (compact->out.failed)
		return true;
	if (names->count == COMPACT_FIELDS_MAX)
		return json_fail(&compact->json, "fewer fields in an object");
	if (name.len > COMPACT_NAME_MAX)
		return json_fail(&compact->json, "a shorter name of a field");
	if (!is_new(compact, names, begin, len))
		return json_fail(&compact->json, "each field once");
	if (compact->depth == 1 && compact->may_have_field && !compact->may_have_field(name))
		return json_fail(&compact->json, COMPACT_NO_FIELD);
	names->at[names->count].begin = begin;
	names->at[names->count++].len = len;
	return true;
}

/*
 * Copies a field's name and the colon. Sets *is_located if it is the name whose value is to be
 * located in `out`, and notes in found_names which of the names that the caller looks for it is.
 */
static bool copy_name(struct compact *compact, struct object_names *names, bool *is_located)
{
	struct buffer plain = {.max = compact->out.max};
	size_t begin = compact->out.len;
	struct slice text, name;
	bool good;

	if (!json_name(&compact->json, &text))
		return false;
	copy_text(compact, text, &plain);
	name = (struct slice){plain.data, plain.len};
	good = check_name(compact, names, begin, name);
	if (!good) { /* the place of the error is the name with its quotes */
		compact->json.at = text.data - 1;
		compact->json.end = text.data + text.len + 1;
	}
	*is_located = compact->depth == 1 && slice_equal(name, compact->located_name);
	for (size_t i = 0; i < compact->counted_name_count && compact->depth == 1; i++)
		compact->found_names |= (uint32_t)slice_equal(name, compact->counted_names[i]) << i;
	buffer_free(&plain);
	buffer_add(&compact->out, ":", 1);
	return good;
}

/* Copies the fields of an object or the items of a list. An error is in compact->json. */
static void copy_members(struct compact *compact, char close)
{
	struct object_names names = {.count = 0};

	for (bool any = false; json_more(&compact->json, close); any = true) {
		bool is_located = false;
		size_t begin;

		buffer_add(&compact->out, ",", any);
		if (close == '}' && !copy_name(compact, &names, &is_located))
			return;
		begin = compact->out.len;
		if (!copy_value(compact))
			return;
		if (is_located) {
			compact->located_begin = begin;
			compact->located_end = compact->out.len;
		}
	}
}

static bool copy_value(struct compact *compact)
{
	char open = json_peek(&compact->json), close = open == '{' ? '}' : ']';

	if (open != '{' && open != '[')
		return copy_scalar(compact);
	if (compact->depth == COMPACT_DEPTH_MAX)
		return json_fail(&compact->json, "objects and lists nested less deep");
	json_open(&compact->json, open);
	buffer_add(&compact->out, &open, 1);
	compact->depth++;
	copy_members(compact, close);
	compact->depth--;
	buffer_add(&compact->out, &close, 1);
	return !compact->json.expected;
}

bool compact_object(struct compact *compact)
{
	return json_peek(&compact->json) == '{'
	           ? copy_value(compact)
	           : json_fail(&compact->json, "an object of JSON such as { \"Ret_type\":2 }");
}
