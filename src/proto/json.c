#include "proto/json.h"

#include <jansson.h>

#include "base/error.h"

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

int json_read(struct fill *fill, struct slice body)
{
	json_error_t problem;
	json_t *object = json_loadb(body.data ? body.data : "", body.len,
	                            JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &problem);
	int status;

	if (!object)
		return error_set_at(&fill->error, WEIR_ESYNTAX, (unsigned)problem.line,
		                    (unsigned)problem.column,
		                    "expected a JSON object, line %d column %d: %s", problem.line,
		                    problem.column, problem.text);
	if (json_is_object(object))
		status = read_fields(fill, object);
	else
		status = error_set(&fill->error, WEIR_ESYNTAX, "expected a JSON object, found an array");
	json_decref(object);
	return status;
}
