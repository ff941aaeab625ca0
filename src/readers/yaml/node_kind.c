/* node_kind.c: reads and prints the kinds of values that keys of several mappings have. */
#include "base/number.h"
#include "readers/yaml/yaml_node.h"
#include "rules/rate.h"
#include "rules/scalar.h"
#include "rules/show.h"

bool node_print_text(const struct printer *printer, const struct node_key *key, const void *field,
                     const void *otherwise)
{
	const char *text = *(const char *const *)field;
	const char *old = otherwise ? *(const char *const *)otherwise : NULL;

	(void)key;
	if (!text || (old && strcmp(text, old) == 0))
		return false;
	scalar_add(printer->out, slice_of(text));
	return true;
}

static bool print_number(const struct printer *printer, const struct node_key *key,
                         const void *field, const void *otherwise)
{
	uint64_t number = *(const uint64_t *)field;

	(void)key;
	if (otherwise && number == *(const uint64_t *)otherwise)
		return false;
	buffer_add_u64(printer->out, number);
	return true;
}

static bool print_duration(const struct printer *printer, const struct node_key *key,
                           const void *field, const void *otherwise)
{
	uint64_t ns = *(const uint64_t *)field;

	(void)key;
	if (otherwise && ns == *(const uint64_t *)otherwise)
		return false;
	duration_add(printer->out, ns);
	return true;
}

static bool print_decimal(const struct printer *printer, const struct node_key *key,
                          const void *field, const void *otherwise)
{
	double value = *(const double *)field;
	char text[DECIMAL_TEXT_MAX];

	(void)key;
	if (otherwise && value == *(const double *)otherwise)
		return false;
	format_decimal(text, value);
	buffer_add_text(printer->out, text);
	return true;
}

static bool print_word(const struct printer *printer, const struct node_key *key, const void *field,
                       const void *otherwise)
{
	unsigned value = *(const unsigned *)field;

	if (otherwise && value == *(const unsigned *)otherwise)
		return false;
	scalar_add(printer->out, slice_of(rules_word(key->words, value)));
	return true;
}

void node_print_items(const struct printer *printer, const struct node_items *items,
                      const struct node_array *array)
{
	buffer_add(printer->out, "[", 1);
	for (size_t i = 0; i < array->count; i++) {
		buffer_add(printer->out, ", ", i > 0 ? 2 : 0);
		items->print(printer, (const char *)array->elements + i * items->size);
	}
	buffer_add(printer->out, "]", 1);
}

static int read_list(struct reader *reader, const struct node_key *key, const yaml_node_t *value,
                     void *field)
{
	return node_items(reader, value, key->items, field, NULL);
}

static bool print_list(const struct printer *printer, const struct node_key *key, const void *field,
                       const void *otherwise)
{
	const struct node_array *array = field;

	(void)otherwise;
	if (array->count > 0)
		node_print_items(printer, key->items, array);
	return array->count > 0;
}

static int read_nested(struct reader *reader, const struct node_key *key, const yaml_node_t *value,
                       void *field)
{
	return node_mapping(reader, value, key->nested, 0, field, NULL);
}

static bool print_nested(const struct printer *printer, const struct node_key *key,
                         const void *field, const void *otherwise)
{
	return node_print_flow(printer, &(struct node_object){key->nested, 0, field, otherwise});
}

const struct node_kind node_text = {node_read_text, node_print_text};
const struct node_kind node_number = {node_read_number, print_number};
const struct node_kind node_decimal = {node_read_decimal, print_decimal};
const struct node_kind node_duration = {node_read_duration, print_duration};
const struct node_kind node_word = {node_read_word, print_word};
const struct node_kind node_list = {read_list, print_list};
const struct node_kind node_nested = {read_nested, print_nested};

static bool print_key(const struct printer *printer, const struct node_key *key,
                      const struct node_object *object)
{
	const char *fields = object->fields, *defaults = object->defaults;
	struct buffer *out = printer->out;
	size_t value;

	if (!key->kind || !key->kind->print || (key->variants && !(key->variants & object->variant)) ||
	    (key->has && !*(const bool *)(fields + key->has)))
		return false;
	buffer_printf(out, "%s: ", key->name);
	value = out->len;
	if (!key->kind->print(printer, key, fields + key->offset,
	                      defaults && !key->has ? defaults + key->offset : NULL))
		return false;
	if (value < out->len && out->data[value] == '\n') { /* no blank at the end of the line */
		memmove(out->data + value - 1, out->data + value, out->len - value);
		out->len--;
	}
	return true;
}

bool node_print(const struct printer *printer, const struct node_object *object,
                const char *between)
{
	struct buffer *out = printer->out;
	bool any = false;

	for (size_t i = 0; i < object->table->count; i++) {
		size_t before = out->len;

		buffer_add_text(out, any ? between : "");
		if (print_key(printer, &object->table->keys[i], object))
			any = true;
		else
			out->len = before;
	}
	return any;
}

bool node_print_flow(const struct printer *printer, const struct node_object *object)
{
	bool any;

	buffer_add(printer->out, "{ ", 2);
	any = node_print(printer, object, ", ");
	buffer_add(printer->out, " }", 2);
	return any;
}
