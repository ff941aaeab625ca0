/*
 * json_body.c: reads requests from JSON: one object, an array of objects (a batch), and the bodies
 * of throttlecrab and Koala, two other rate limiters. The syntax of a body is checked as a whole
 * before its members are read.
 */
#include "proto/json_body.h"

#include <stdint.h>
#include <stdio.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/text/json.h"
#include "proto/adhoc_command.h"

/* Returns the first byte that is not UTF-8, or the end. ASCII is read eight bytes at a time. */
static const char *utf8_end(struct slice text)
{
	const unsigned char *p = (const unsigned char *)text.data;
	size_t left = text.len, valid = 1;
	uint64_t word;

	for (; left > 0 && valid > 0; p += valid, left -= valid) {
		valid = 0;
		if (left >= sizeof word) {
			memcpy(&word, p, sizeof word);
			valid = word & UINT64_C(0x8080808080808080) ? 0 : sizeof word;
		}
		valid = valid ?: utf8_sequence(p, left);
	}
	return (const char *)p;
}

/* For messages: the kind of a JSON value that begins with this character. */
static const char *kind_of_value(char begin)
{
	return begin == '{'   ? "an object"
	       : begin == '[' ? "an array"
	       : begin == '"' ? "a string"
	       : begin == 'n' ? "null"
	       : begin == 't' ? "true"
	       : begin == 'f' ? "false"
	                      : "a number";
}

/* Sets the error of a body that is not `wanted`; its syntax error is where *json has stopped. */
static int refuse_syntax(struct fill *fill, struct slice body, const struct json *json,
                         const char *wanted)
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
	                    "expected %s, line %u column %u: expected %s, found %s", wanted, line,
	                    column, json->expected ?: "text in UTF-8", quoted);
}

/*
 * Checks the syntax of all of `body`, and opens its object ('{') or array ('[') in *json, so that
 * later reading finds no syntax errors. Returns 0, or ESYNTAX.
 */
static int check_and_open(struct fill *fill, struct slice body, char open, struct json *json)
{
	const char *wanted = open == '{' ? "a JSON object" : "a JSON array";
	struct json all = json_of(body);
	const char *valid_end = utf8_end(json_rest(&all));
	char begin = json_peek(&all);
	bool has_bad_byte = valid_end < all.end;

	*json = all;
	if (has_bad_byte)
		all.at = valid_end;
	if (has_bad_byte || !json_skip(&all) || !json_end(&all))
		return refuse_syntax(fill, body, &all, wanted);
	if (!json_open(json, open))
		return error_set(&fill->error, WEIR_ESYNTAX, "expected %s, found %s", wanted,
		                 kind_of_value(begin));
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
		                 FILL_QUOTE(name), kind_of_value(begin));
	if (!(begin == '"' ? json_text(json, &text) : json_word(json, &text)))
		return WEIR_ESYNTAX;
	return copy_json_text(fill, text, out);
}

/*
 * Reads the name of the object's next member. Returns false at the end, and when *status is or
 * becomes an error.
 */
static bool next_name(struct fill *fill, struct json *json, struct slice *name, int *status)
{
	if (*status != 0 || !json_more(json, '}') || !json_name(json, name))
		return false;
	if (json->has_escapes)
		*status = copy_json_text(fill, *name, name);
	return *status == 0;
}

/* Reads the object of attributes. It is skipped first in a copy of *json, to count its members. */
static int read_attributes(struct fill *fill, struct json *json)
{
	struct json counting = *json;
	struct slice name, text;
	int status;

	if (!json_open(json, '{'))
		return error_set(&fill->error, WEIR_EINVAL, "expected attributes to be an object");
	if (fill->attributes)
		return error_set(&fill->error, WEIR_EINVAL, "expected attributes once, found them again");
	json_skip(&counting);
	status = fill_reserve_attributes(fill, counting.member_count);
	while (next_name(fill, json, &name, &status)) {
		status = read_scalar(fill, json, name, &text);
		if (status == 0)
			status = fill_attribute(fill, name, text);
	}
	return status;
}

/* An item of a batch has its operation in "op", which is read before the other members. */
enum op_member { REFUSE_OP, SKIP_OP };

/* Reads the members of an open object as the fields of a request. */
static int read_fields(struct fill *fill, struct json *json, enum op_member op_member)
{
	struct slice name, text;
	int status = 0;

	while (next_name(fill, json, &name, &status)) {
		enum fill_form form = json_peek(json) == '"' ? FILL_JSON_STRING : FILL_UNQUOTED;

		if (slice_equal(name, SLICE("attributes"))) {
			status = read_attributes(fill, json);
		} else if (op_member == SKIP_OP && slice_equal(name, SLICE("op"))) {
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

	return status == 0 ? read_fields(fill, &json, REFUSE_OP) : status;
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
 * Finds the members of an open object whose name is `equal` to the wanted one. Returns how many
 * there are; *value is where the value of the first begins.
 */
static size_t find_member(struct json object, const char *wanted,
                          bool (*equal)(struct slice, struct slice), struct json *value)
{
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

/* Reads throttlecrab's key and parameters. Returns ENOTFOUND for fields that it would refuse. */
int json_body_read_throttle(struct fill *fill, struct slice body)
{
	static const char *const names[] = {"key", "max_burst", "count_per_period", "period",
	                                    "quantity"};
	enum { KEY = 0, QUANTITY = 4, FIELDS };
	struct slice texts[FIELDS];
	struct json object, value;
	size_t n = 0;
	int status = check_and_open(fill, body, '{', &object);
	bool is_other_json = status != 0 && fill->error.line == 0; /* no syntax error, but no object */

	if (is_other_json)
		return fill->error.status = WEIR_ENOTFOUND;
	for (; status == 0 && n < FIELDS; n++) {
		size_t times = find_member(object, names[n], slice_equal, &value);
		bool is_absent = times == 0 || (times == 1 && json_peek(&value) == 'n');

		if (n == QUANTITY && is_absent)
			break;
		if (times == 1 && (n == KEY ? json_peek(&value) == '"' : is_whole_number(value)))
			status = read_scalar(fill, &value, slice_of(names[n]), &texts[n]);
		else
			status = error_set(&fill->error, WEIR_ENOTFOUND, "expected %s, %s%s", names[n],
			                   n == KEY ? "a string" : "a whole number", times > 1 ? ", once" : "");
	}
	if (status != 0)
		return status;
	return adhoc_read(fill, texts[KEY], texts + 1, n - 1, THROTTLECRAB_MIN_BURST);
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

	n = find_member(item, "op", slice_equal, &value);
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

/* The functions that read an item of a batch, and make it one that is answered with its error. */
struct item_reader {
	int (*read)(const struct item_reader *reader, struct fill *item, struct json *json);
	int (*read_arg)(struct fill *item, struct slice arg); /* Koala's: reads the item's "Arg" */
	void (*refuse)(struct fill *item);
};

static int read_batch_item(const struct item_reader *reader, struct fill *fill, struct json *item)
{
	int status;

	(void)reader;
	if (!json_open(item, '{'))
		return error_set(&fill->error, WEIR_EINVAL, "expected a JSON object in the batch");
	status = read_op(fill, *item);
	return status == 0 ? read_fields(fill, item, SKIP_OP) : status;
}

/* Makes the request a batch of the array's items. Returns 0, or the status of the whole array. */
static int read_items(struct fill *fill, struct slice body, const struct item_reader *reader)
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
		if (reader->read(reader, &item, &value) != 0)
			reader->refuse(&item);
		json_skip(&json);
	}
	fill->request->items = items;
	fill->request->item_count = n;
	return 0;
}

int json_body_read_items(struct fill *fill, struct slice body, void (*refuse)(struct fill *item))
{
	return read_items(fill, body, &(struct item_reader){.read = read_batch_item, .refuse = refuse});
}

/* Reads "Id", which may be absent, and "Arg", both in any case, as Koala does. */
static int read_args_item(const struct item_reader *reader, struct fill *fill, struct json *item)
{
	struct json value;
	struct slice arg;
	int status = 0;

	json_open(item, '{');
	if (find_member(*item, "Id", slice_equal_nocase, &value))
		status = read_scalar(fill, &value, SLICE("Id"), &fill->request->name);
	if (status != 0)
		return status;
	if (!find_member(*item, "Arg", slice_equal_nocase, &value))
		return error_set(&fill->error, WEIR_EINVAL,
		                 "expected an object with Id and Arg, found no Arg");
	status = read_scalar(fill, &value, SLICE("Arg"), &arg);
	return status == 0 ? reader->read_arg(fill, arg) : status;
}

/* Replaces bytes that are not UTF-8 by U+FFFD, as Koala does, so that the array can be read. */
static int replace_invalid_utf8(struct fill *fill, struct slice *text)
{
	static const struct slice replacement = SLICE("\xef\xbf\xbd");
	char *copy = arena_alloc(fill->arena, replacement.len * text->len), *end = copy;

	if (!copy)
		return error_set(&fill->error, WEIR_ENOMEM, "out of memory");
	for (size_t i = 0, valid; i < text->len; i += valid ? valid : 1) {
		const char *at = text->data + i;

		valid = utf8_sequence((const unsigned char *)at, text->len - i);
		end = valid ? mempcpy(end, at, valid) : mempcpy(end, replacement.data, replacement.len);
	}
	*text = (struct slice){copy, (size_t)(end - copy)};
	return 0;
}

int json_body_read_args(struct fill *fill, struct slice array,
                        int (*read)(struct fill *item, struct slice arg),
                        void (*refuse)(struct fill *item))
{
	const struct item_reader reader = {read_args_item, read, refuse};
	int status = replace_invalid_utf8(fill, &array);

	return status == 0 ? read_items(fill, array, &reader) : status;
}
