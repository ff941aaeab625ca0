#include "proto/json_body.h"

#include <jansson.h>

#include "base/buffer.h"
#include "base/error.h"
#include "proto/adhoc_command.h"

/* Room for any number as text. */
#define SCALAR_MAX 64

/* The text of a string, number, true or false, copied: `value` does not live on. */
static int scalar_text(struct fill *fill, const char *name, const json_t *value, struct slice *out)
{
	char number[SCALAR_MAX];
	struct slice text = {number, 0};
	const char *copy;

	if (json_is_string(value))
		text = (struct slice){json_string_value(value), json_string_length(value)};
	else if (!json_is_object(value) && !json_is_array(value) && !json_is_null(value))
		text.len =
		    json_dumpb(value, number, sizeof number, JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
	else
		return error_set(&fill->error, WEIR_EINVAL,
		                 "expected '%.40s' to be a string, a number, true or false, found %s", name,
		                 json_is_object(value)  ? "an object"
		                 : json_is_array(value) ? "an array"
		                                        : "null");
	copy = arena_copy(fill->arena, text);
	if (!copy)
		return error_set(&fill->error, WEIR_ENOMEM, "out of memory");
	*out = (struct slice){copy, text.len};
	return 0;
}

static int read_attributes(struct fill *fill, json_t *object)
{
	const char *name;
	json_t *value;
	int status;

	if (!json_is_object(object))
		return error_set(&fill->error, WEIR_EINVAL, "expected attributes to be an object");
	status = fill_attribute_room(fill, json_object_size(object));
	json_object_foreach(object, name, value) {
		struct slice text;

		if (status == 0)
			status = scalar_text(fill, name, value, &text);
		if (status == 0)
			status = fill_attribute(fill, slice_of(name), text);
	}
	return status;
}

static int read_fields(struct fill *fill, json_t *object)
{
	const char *name;
	json_t *value;
	int status = 0;

	json_object_foreach(object, name, value) {
		struct slice text;

		if (strcmp(name, "attributes") == 0) {
			status = read_attributes(fill, value);
		} else {
			status = scalar_text(fill, name, value, &text);
			if (status == 0)
				status = fill_field(fill, slice_of(name), text, json_is_string(value));
		}
		if (status != 0)
			return status;
	}
	return fill_finish(fill);
}

/* All of `body`, or NULL with an error. `expected`: what it should be. */
static json_t *load(struct fill *fill, struct slice body, const char *expected)
{
	json_error_t problem;
	json_t *value = json_loadb(body.data ? body.data : "", body.len,
	                           JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &problem);

	if (!value)
		error_set_at(&fill->error, WEIR_ESYNTAX, (unsigned)problem.line, (unsigned)problem.column,
		             "expected %s, line %d column %d: %s", expected, problem.line, problem.column,
		             problem.text);
	return value;
}

int json_read(struct fill *fill, struct slice body)
{
	json_t *object = load(fill, body, "a JSON object");
	int status;

	if (!object)
		return WEIR_ESYNTAX;
	if (json_is_object(object))
		status = read_fields(fill, object);
	else
		status = error_set(&fill->error, WEIR_ESYNTAX, "expected a JSON object, found an array");
	json_decref(object);
	return status;
}

int json_read_throttle(struct fill *fill, struct slice body)
{
	static const char *const names[] = {"max_burst", "count_per_period", "period", "quantity"};
	enum { NUMBERS = sizeof names / sizeof *names };
	json_t *object = load(fill, body, "a JSON object");
	const json_t *name = json_object_get(object, "key");
	struct slice key, numbers[NUMBERS];
	size_t n = 0;
	int status;

	if (!object)
		return WEIR_ESYNTAX;
	status = json_is_string(name)
	             ? scalar_text(fill, "key", name, &key)
	             : error_set(&fill->error, WEIR_ENOTFOUND, "expected key, a string");
	for (; status == 0 && n < NUMBERS; n++) {
		const json_t *number = json_object_get(object, names[n]);

		if (n == NUMBERS - 1 && (!number || json_is_null(number)))
			break;
		status = json_is_integer(number)
		             ? scalar_text(fill, names[n], number, &numbers[n])
		             : error_set(&fill->error, WEIR_ENOTFOUND, "expected %s, a whole number",
		                         names[n]);
	}
	json_decref(object);
	return status == 0 ? adhoc_read(fill, key, numbers, n, 1) : status;
}

static int read_op(struct fill *fill, const json_t *value)
{
	static const struct {
		const char *name;
		enum request_class class;
	} ops[] = {
	    [REQUEST_ACQUIRE] = {"acquire", REQUEST_ASK},
	    [REQUEST_PEEK] = {"peek", REQUEST_ASK},
	    [REQUEST_REFUND] = {"refund", REQUEST_CHANGE},
	    [REQUEST_RESET] = {"reset", REQUEST_CHANGE},
	};

	for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
		if (json_is_string(value) && strcmp(json_string_value(value), ops[i].name) == 0) {
			fill->request->op = (enum request_op)i;
			fill->request->class = ops[i].class;
			return 0;
		}
	return error_set(&fill->error, WEIR_EINVAL,
	                 "expected op to be acquire, peek, refund or reset");
}

/* How the objects of an array become requests. */
struct items {
	int (*read)(const struct items *items, struct fill *item, json_t *value);
	int (*read_arg)(struct fill *item, struct slice arg);
	void (*refuse)(struct fill *item);
};

static int read_item(const struct items *items, struct fill *fill, json_t *item)
{
	const json_t *op = json_object_get(item, "op");
	int status = op ? read_op(fill, op) : 0;

	if (!json_is_object(item))
		return error_set(&fill->error, WEIR_EINVAL, "expected a JSON object in the batch");
	(void)items;
	json_object_del(item, "op");
	return status == 0 ? read_fields(fill, item) : status;
}

static int read_items(struct fill *fill, const json_t *array, const struct items *how)
{
	size_t n = json_array_size(array);
	struct request *items;

	if (!json_is_array(array))
		return error_set(&fill->error, WEIR_ESYNTAX, "expected a JSON array, found an object");
	if (n > fill->limits->batch_max)
		return error_set(&fill->error, WEIR_ELONG, "expected a batch of at most %zu, found %zu",
		                 fill->limits->batch_max, n);
	items = arena_array(fill->arena, n, sizeof *items);
	if (!items)
		return error_set(&fill->error, WEIR_ENOMEM, "out of memory");
	for (size_t i = 0; i < n; i++) {
		struct fill item;

		fill_begin(&item, &items[i], fill->limits, fill->arena);
		items[i].cost = 1;
		items[i].class = REQUEST_ASK;
		if (how->read(how, &item, json_array_get(array, i)) != 0)
			how->refuse(&item);
	}
	fill->request->items = items;
	fill->request->item_count = n;
	return 0;
}

static int load_items(struct fill *fill, struct slice body, const struct items *how)
{
	json_t *array = load(fill, body, "a JSON array");
	int status;

	if (!array)
		return WEIR_ESYNTAX;
	status = read_items(fill, array, how);
	json_decref(array);
	return status;
}

int json_read_items(struct fill *fill, struct slice body,
                    void (*refuse)(struct fill *item))
{
	return load_items(fill, body, &(struct items){.read = read_item, .refuse = refuse});
}

/* The member of that name, as Koala finds it: letter case does not count. NULL: there is none. */
static const json_t *member(json_t *object, const char *wanted)
{
	const char *name;
	json_t *value;

	json_object_foreach (object, name, value)
		if (slice_equal_nocase(slice_of(name), slice_of(wanted)))
			return value;
	return NULL;
}

static int read_args_item(const struct items *items, struct fill *fill, json_t *item)
{
	const json_t *id = member(item, "Id"), *text = member(item, "Arg");
	struct slice arg;
	int status = id ? scalar_text(fill, "Id", id, &fill->request->name) : 0;

	if (status == 0)
		status = text ? scalar_text(fill, "Arg", text, &arg)
		              : error_set(&fill->error, WEIR_EINVAL,
		                          "expected an object with Id and Arg, found no Arg");
	return status == 0 ? items->read_arg(fill, arg) : status;
}

/* Bytes that are not UTF-8 become U+FFFD, as in Koala: the rest of the array can be read. */
static int with_utf8(struct fill *fill, struct slice *text)
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

int json_read_args(struct fill *fill, struct slice array,
                   int (*read)(struct fill *item, struct slice arg),
                   void (*refuse)(struct fill *item))
{
	return with_utf8(fill, &array)
	           ?: load_items(
	                  fill, array,
	                  &(struct items){.read = read_args_item, .read_arg = read, .refuse = refuse});
}
