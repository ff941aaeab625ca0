#include "proto/json_body.h"

#include <stdint.h>
#include <stdio.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/text/json.h"
#include "proto/adhoc_command.h"

/* The first byte that is not UTF-8, or the end. */
static const char *utf8_end(struct slice text)
{
	const unsigned char *p = (const unsigned char *)text.data;
	size_t left = text.len, n = 1;
	uint64_t word;

	for (; left > 0 && n > 0; p += n, left -= n) {
		n = 0;
		if (left >= sizeof word) {
			memcpy(&word, p, sizeof word);
			n = word & UINT64_C(0x8080808080808080) ? 0 : sizeof word;
		}
		n = n ?: utf8_sequence(p, left);
	}
	return (const char *)p;
}

static const char *name_of(char begin)
{
	return begin == '{'   ? "an object"
	       : begin == '[' ? "an array"
	       : begin == '"' ? "a string"
	       : begin == 'n' ? "null"
	       : begin == 't' ? "true"
	       : begin == 'f' ? "false"
	                      : "a number";
}

/* The syntax error in `body` is where *json has stopped. */
static int refuse_syntax(struct fill *fill, struct slice body, const struct json *json,
                         const char *what)
{
	struct slice found = json_rest(json);
	unsigned line, column;
	char quoted[64];

	json_place(body, json->at, &line, &column);
	if (found.len == 0)
		strcpy(quoted, "the end");
	else if (utf8_sequence((const unsigned char *)found.data, found.len) == 0)
		snprintf(quoted, sizeof quoted, "the byte 0x%02x", (unsigned char)*found.data);
	else
		snprintf(quoted, sizeof quoted, "'%.*s'", FILL_QUOTE(found));
	return error_set_at(&fill->error, WEIR_ESYNTAX, line, column,
	                    "expected %s, line %u column %u: expected %s, found %s", what, line, column,
	                    json->expected ?: "text in UTF-8", quoted);
}

/*
 * Checks the syntax of all of `body` and opens its object or array. Reading from *json on finds no
 * syntax errors.
 */
static int check_and_open(struct fill *fill, struct slice body, char open, struct json *json)
{
	const char *what = open == '{' ? "a JSON object" : "a JSON array";
	struct json all = json_of(body);
	const char *bad = utf8_end(json_rest(&all));
	char found = json_peek(&all);

	*json = all;
	if (bad < all.end)
		all.at = bad;
	if (bad < all.end || !json_skip(&all) || !json_end(&all))
		return refuse_syntax(fill, body, &all, what);
	if (!json_open(json, open))
		return error_set(&fill->error, WEIR_ESYNTAX, "expected %s, found %s", what, name_of(found));
	json->member_count = all.member_count;
	return 0;
}

/* Copies a text to the arena, without its escapes. */
static int copy_json_text(struct fill *fill, struct slice text, struct slice *out)
{
	char *copy = arena_alloc(fill->arena, text.len + 1);

	if (!copy)
		return error_set(&fill->error, WEIR_ENOMEM, "out of memory");
	*out = (struct slice){copy, json_unescape(text, copy)};
	copy[out->len] = '\0';
	return 0;
}

/* Copies the text of a string, number, true or false. */
static int read_scalar(struct fill *fill, struct json *json, struct slice name, struct slice *out)
{
	char begin = json_peek(json);
	struct slice text;

	if (begin == '{' || begin == '[' || begin == 'n')
		return error_set(&fill->error, WEIR_EINVAL,
		                 "expected '%.*s' to be a string, a number, true or false, found %s",
		                 FILL_QUOTE(name), name_of(begin));
	return (begin == '"' ? json_text(json, &text) : json_word(json, &text))
	           ? copy_json_text(fill, text, out)
	           : WEIR_ESYNTAX;
}

/* Reads the name of the next member. Returns false at the end, or if there is no memory (*status).
 */
static bool next_name(struct fill *fill, struct json *json, struct slice *name, int *status)
{
	if (*status != 0 || !json_more(json, '}') || !json_name(json, name))
		return false;
	if (json->has_escapes)
		*status = copy_json_text(fill, *name, name);
	return *status == 0;
}

static int read_attributes(struct fill *fill, struct json *json)
{
	struct json all = *json;
	struct slice name, text;
	int status;

	if (!json_open(json, '{'))
		return error_set(&fill->error, WEIR_EINVAL, "expected attributes to be an object");
	if (fill->attributes)
		return error_set(&fill->error, WEIR_EINVAL, "expected attributes once, found them again");
	json_skip(&all);
	status = fill_reserve_attributes(fill, all.member_count);
	while (next_name(fill, json, &name, &status)) {
		status = read_scalar(fill, json, name, &text);
		if (status == 0)
			status = fill_attribute(fill, name, text);
	}
	return status;
}

/* Reads the members of an open object. With `skip_op`, "op" was read before and is skipped. */
static int read_fields(struct fill *fill, struct json *json, bool skip_op)
{
	struct slice name, text;
	int status = 0;

	while (next_name(fill, json, &name, &status)) {
		enum fill_form form = json_peek(json) == '"' ? FILL_JSON_STRING : FILL_UNQUOTED;

		if (slice_equal(name, SLICE("attributes"))) {
			status = read_attributes(fill, json);
		} else if (skip_op && slice_equal(name, SLICE("op"))) {
			json_skip(json);
		} else {
			status = read_scalar(fill, json, name, &text);
			if (status == 0)
				status = fill_field(fill, name, text, form);
		}
	}
	return status == 0 ? fill_finish(fill) : status;
}

int json_body_read(struct fill *fill, struct slice body)
{
	struct json json;
	int status = check_and_open(fill, body, '{', &json);

	return status == 0 ? read_fields(fill, &json, false) : status;
}

/* Bytes of the longest name that is compared, count_per_period, if each character is an escape. */
#define WORD_MAX (6 * 16)

/*
 * The name or text that was read last, without its escapes, which are undone in `space`. A text
 * that is longer than `space` equals no name.
 */
static struct slice without_escapes(const struct json *json, struct slice text,
                                    char space[WORD_MAX])
{
	if (!json->has_escapes)
		return text;
	if (text.len > WORD_MAX)
		return (struct slice){NULL, 0};
	return (struct slice){space, json_unescape(text, space)};
}

/*
 * Finds the members of an open object that have a name. Returns how many there are; *value is where
 * the value of the first begins.
 */
static size_t find_member(struct json object, const char *wanted, bool any_case, struct json *value)
{
	bool (*equal)(struct slice, struct slice) = any_case ? slice_equal_nocase : slice_equal;
	char space[WORD_MAX];
	struct slice name;
	size_t n = 0;

	while (json_more(&object, '}') && json_name(&object, &name)) {
		if (equal(without_escapes(&object, name, space), slice_of(wanted)) && n++ == 0)
			*value = object;
		if (!json_skip(&object))
			break;
	}
	return n;
}

static bool is_whole_number(struct json value)
{
	char begin = json_peek(&value);
	struct slice word;

	return (begin == '-' || (begin >= '0' && begin <= '9')) && json_word(&value, &word) &&
	       !memchr(word.data, '.', word.len) && !memchr(word.data, 'e', word.len) &&
	       !memchr(word.data, 'E', word.len);
}

int json_body_read_throttle(struct fill *fill, struct slice body)
{
	static const char *const names[] = {"key", "max_burst", "count_per_period", "period",
	                                    "quantity"};
	enum { FIELDS = sizeof names / sizeof *names };
	struct slice texts[FIELDS];
	struct json object, value;
	size_t n = 0;
	int status = check_and_open(fill, body, '{', &object);

	if (status != 0 && fill->error.line == 0) /* JSON, but no object */
		return fill->error.status = WEIR_ENOTFOUND;
	for (; status == 0 && n < FIELDS; n++) {
		bool is_key = n == 0;
		size_t times = find_member(object, names[n], false, &value);

		if (n == FIELDS - 1 && (times == 0 || (times == 1 && json_peek(&value) == 'n')))
			break;
		if (times == 1 && (is_key ? json_peek(&value) == '"' : is_whole_number(value)))
			status = read_scalar(fill, &value, slice_of(names[n]), &texts[n]);
		else
			status = error_set(&fill->error, WEIR_ENOTFOUND, "expected %s, %s%s", names[n],
			                   is_key ? "a string" : "a whole number", times > 1 ? ", once" : "");
	}
	return status == 0 ? adhoc_read(fill, texts[0], texts + 1, n - 1, THROTTLECRAB_MIN_BURST)
	                   : status;
}

/* Reads the operation of an item; the default is acquire. */
static int read_op(struct fill *fill, struct json item)
{
	static const struct {
		struct slice name;
		enum request_class class;
	} ops[] = {
	    [REQUEST_ACQUIRE] = {SLICE("acquire"), REQUEST_ASK},
	    [REQUEST_PEEK] = {SLICE("peek"), REQUEST_ASK},
	    [REQUEST_REFUND] = {SLICE("refund"), REQUEST_CHANGE},
	    [REQUEST_RESET] = {SLICE("reset"), REQUEST_CHANGE},
	};
	struct slice text = {NULL, 0};
	char space[WORD_MAX];
	struct json value;
	size_t n;

	n = find_member(item, "op", false, &value);
	if (n == 0)
		return 0;
	if (n > 1)
		return error_set(&fill->error, WEIR_EINVAL, "expected op once, found it again");
	if (json_peek(&value) == '"' && json_text(&value, &text))
		text = without_escapes(&value, text, space);
	for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
		if (slice_equal(text, ops[i].name)) {
			fill->request->op = (enum request_op)i;
			fill->request->class = ops[i].class;
			return 0;
		}
	return error_set(&fill->error, WEIR_EINVAL, "expected op to be acquire, peek, refund or reset");
}

/* How the items of an array are read. */
struct items {
	int (*read)(const struct items *items, struct fill *item, struct json *json);
	int (*read_arg)(struct fill *item, struct slice arg);
	void (*refuse)(struct fill *item);
};

static int read_batch_item(const struct items *items, struct fill *fill, struct json *item)
{
	int status;

	(void)items;
	if (!json_open(item, '{'))
		return error_set(&fill->error, WEIR_EINVAL, "expected a JSON object in the batch");
	status = read_op(fill, *item);
	return status == 0 ? read_fields(fill, item, true) : status;
}

static int read_items(struct fill *fill, struct slice body, const struct items *how)
{
	struct json json;
	int status = check_and_open(fill, body, '[', &json);
	size_t n = json.member_count;
	struct request *items;

	if (status != 0)
		return status;
	if (n > fill->bounds->batch_max)
		return error_set(&fill->error, WEIR_ELONG, "expected a batch of at most %zu, found %zu",
		                 fill->bounds->batch_max, n);
	items = arena_array(fill->arena, n, sizeof *items);
	if (!items)
		return error_set(&fill->error, WEIR_ENOMEM, "out of memory");
	for (size_t i = 0; json_more(&json, ']'); i++) {
		struct json value = json;
		struct fill item;

		fill_begin(&item, &items[i], fill->bounds, fill->arena);
		items[i].cost = 1;
		items[i].class = REQUEST_ASK;
		if (how->read(how, &item, &value) != 0)
			how->refuse(&item);
		json_skip(&json);
	}
	fill->request->items = items;
	fill->request->item_count = n;
	return 0;
}

int json_body_read_items(struct fill *fill, struct slice body, void (*refuse)(struct fill *item))
{
	return read_items(fill, body, &(struct items){.read = read_batch_item, .refuse = refuse});
}

/* Reads "Id" and "Arg" in any case, as Koala does. */
static int read_args_item(const struct items *items, struct fill *fill, struct json *item)
{
	struct json id, text;
	struct slice arg;
	int status;

	json_open(item, '{');
	status = find_member(*item, "Id", true, &id)
	             ? read_scalar(fill, &id, SLICE("Id"), &fill->request->name)
	             : 0;
	if (status == 0)
		status = find_member(*item, "Arg", true, &text)
		             ? read_scalar(fill, &text, SLICE("Arg"), &arg)
		             : error_set(&fill->error, WEIR_EINVAL,
		                         "expected an object with Id and Arg, found no Arg");
	return status == 0 ? items->read_arg(fill, arg) : status;
}

/* Replaces bytes that are not UTF-8 by U+FFFD, as Koala does, so that the array can be read. */
static int replace_invalid_utf8(struct fill *fill, struct slice *text)
{
	static const struct slice unknown = SLICE("\xef\xbf\xbd");
	char *copy = arena_alloc(fill->arena, unknown.len * text->len), *end = copy;

	if (!copy)
		return error_set(&fill->error, WEIR_ENOMEM, "out of memory");
	for (size_t i = 0, n; i < text->len; i += n ? n : 1) {
		n = utf8_sequence((const unsigned char *)text->data + i, text->len - i);
		memcpy(end, n ? text->data + i : unknown.data, n ? n : unknown.len);
		end += n ? n : unknown.len;
	}
	*text = (struct slice){copy, (size_t)(end - copy)};
	return 0;
}

int json_body_read_args(struct fill *fill, struct slice array,
                        int (*read)(struct fill *item, struct slice arg),
                        void (*refuse)(struct fill *item))
{
	return replace_invalid_utf8(fill, &array)
	           ?: read_items(
	                  fill, array,
	                  &(struct items){.read = read_args_item, .read_arg = read, .refuse = refuse});
}
