/* json_members.c: reads and prints the JSON that a server answers with. */
#include "cli/remote/json_members.h"

#include "base/buffer.h"
#include "base/number.h"

/* Reads any value, and returns it as it is written. */
static bool read_any_value(struct json *json, struct slice *value)
{
	json_peek(json); /* skips blanks */
	value->data = json->at;
	if (!json_skip(json))
		return false;
	value->len = (size_t)(json->at - value->data);
	return true;
}

bool json_members_read(struct slice text, struct json_member *members, size_t count)
{
	struct json json = json_of(text);
	struct slice name, value;

	for (size_t i = 0; i < count; i++)
		members[i].value = (struct slice){NULL, 0};
	if (!json_open(&json, '{'))
		return false;
	while (json_more(&json, '}') && json_name(&json, &name) && read_any_value(&json, &value))
		for (size_t i = 0; i < count; i++)
			if (slice_equal(name, slice_of(members[i].name)))
				members[i].value = value;
	return !json.expected && json_end(&json);
}

bool json_list_open(struct json *list, struct slice text)
{
	*list = json_of(text);
	return json_open(list, '[');
}

bool json_list_next(struct json *list, struct slice *value)
{
	return json_more(list, ']') && read_any_value(list, value);
}

struct slice json_value_text(struct slice value)
{
	if (!value.data || slice_equal(value, SLICE("null")))
		return SLICE("");
	if (*value.data != '"')
		return value;
	value = (struct slice){value.data + 1, value.len - 2};
	value.len = json_unescape(value, (char *)value.data);
	return value;
}

struct slice json_value_key(struct slice value)
{
	struct slice key = json_value_text(value);

	return key.len > 0 ? key : SLICE("(no key)");
}

uint64_t json_value_u64(struct slice value)
{
	uint64_t number;

	return value.data && parse_u64(value, &number) ? number : 0;
}

bool json_value_is_true(struct slice value)
{
	return slice_equal(value, SLICE("true"));
}

bool json_is_valid(struct slice text)
{
	struct json json = json_of(text);

	return json_skip(&json) && json_end(&json);
}

/* The number of a character in UTF-8, of which `len` bytes are valid and below U+10000. */
static unsigned number_of_character(const unsigned char *p, size_t len)
{
	if (len == 1)
		return *p;
	if (len == 2)
		return (*p & 0x1fu) << 6 | (p[1] & 0x3fu);
	return (*p & 0x0fu) << 12 | (p[1] & 0x3fu) << 6 | (p[2] & 0x3fu);
}

void json_print(FILE *to, struct slice text)
{
	const unsigned char *p = (const unsigned char *)text.data, *end = p + text.len;
	struct buffer out = {0};

	while (p < end && (end[-1] == '\n' || end[-1] == '\r' || end[-1] == ' '))
		end--;
	while (p < end) {
		size_t n = utf8_sequence(p, (size_t)(end - p));

		if (*p == '\n' || *p == '\t')
			buffer_add(&out, p, 1);
		else if (*p == '\r') /* between values: texts have no control characters */
			buffer_add(&out, " ", 1);
		else if (n == 0)
			buffer_add_text(&out, "\\ufffd");
		else if (utf8_is_printable(p, n))
			buffer_add(&out, p, n);
		else
			buffer_printf(&out, "\\u%04x", number_of_character(p, n));
		p += u64_max(n, 1);
	}
	buffer_add(&out, "\n", 1);
	fwrite(out.data, 1, out.failed ? 0 : out.len, to);
	buffer_free(&out);
}
