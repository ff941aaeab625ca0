/*
 * node_kind.c: reads and prints the kinds of values that many keys of a rule file in YAML have,
 * such as numbers and durations, and prints whole mappings by their tables of keys.
 */
#include "base/number.h"
#include "readers/yaml/yaml_node.h"
#include "rules/rate.h"
#include "rules/scalar.h"
#include "rules/show.h"

bool node_print_text(const struct printer *printer, const struct node_key *key, const void *field,
                     const void *default_value)
{
	const char *text = *(const char *const *)field;
	const char *default_text = default_value ? *(const char *const *)default_value : NULL;

	(void)key;
	if (!text || (default_text && strcmp(text, default_text) == 0))
		return false;
	scalar_add(printer->out, slice_of(text));
	return true;
}

static bool print_number(const struct printer *printer, const struct node_key *key,
                         const void *field, const void *default_value)
{
	uint64_t number = *(const uint64_t *)field;

	(void)key;
	if (default_value && number == *(const uint64_t *)default_value)
		return false;
	buffer_add_u64(printer->out, number);
	return true;
}

static bool print_duration(const struct printer *printer, const struct node_key *key,
                           const void *field, const void *default_value)
{
	uint64_t ns = *(const uint64_t *)field;

	(void)key;
	if (default_value && ns == *(const uint64_t *)default_value)
		return false;
	duration_add(printer->out, ns);
	return true;
}

static bool print_decimal(const struct printer *printer, const struct node_key *key,
                          const void *field, const void *default_value)
{
	double value = *(const double *)field;
	char text[DECIMAL_TEXT_MAX];

	(void)key;
	if (default_value && value == *(const double *)default_value)
		return false;
	format_decimal(text, value);
	buffer_add_text(printer->out, text);
	return true;
}

static bool print_word(const struct printer *printer, const struct node_key *key, const void *field,
                       const void *default_value)
{
	unsigned value = *(const unsigned *)field;

	if (default_value && value == *(const unsigned *)default_value)
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
                       const void *default_value)
{
	const struct node_array *array = field;

	(void)default_value;
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
                         const void *field, const void *default_value)
{
	return node_print_flow(printer, &(struct node_object){key->nested, 0, field, default_value});
}

const struct node_kind node_text = {node_read_text, node_print_text};
const struct node_kind node_number = {node_read_number, print_number};
const struct node_kind node_decimal = {node_read_decimal, print_decimal};
const struct node_kind node_duration = {node_read_duration, print_duration};
const struct node_kind node_word = {node_read_word, print_word};
const struct node_kind node_list = {read_list, print_list};
const struct node_kind node_nested = {read_nested, print_nested};

/* Whether objects of this variant have the key, and this object has a value for it. */
static bool has_printable_value(const struct node_key *key, const struct node_object *object)
{
	bool is_of_variant = key->variants == 0 || (key->variants & object->variant);
	const bool *is_present = key->presence_flag
	                             ? (const bool *)((const char *)object->fields + key->presence_flag)
	                             : NULL;

	return key->kind && key->kind->print && is_of_variant && (!is_present || *is_present);
}

/*
 * Prints `name: value`. Returns false if the key has no value or its default; then the caller
 * removes what was printed. A value that is known to be present is printed even if it is the
 * default.
 */
static bool print_key(const struct printer *printer, const struct node_key *key,
                      const struct node_object *object)
{
	const char *fields = object->fields, *defaults = object->defaults;
	struct buffer *out = printer->out;
	size_t start;
	bool begins_line;

	if (!has_printable_value(key, object))
		return false;
	buffer_printf(out, "%s: ", key->name);
	start = out->len;
	if (!key->kind->print(printer, key, fields + key->offset,
	                      defaults && !key->presence_flag ? defaults + key->offset : NULL))
		return false;
	begins_line = start < out->len && out->data[start] == '\n';
	if (begins_line) { /* then no blank follows the colon */
		memmove(out->data + start - 1, out->data + start, out->len - start);
		out->len--;
	}
	return true;
}

bool node_print(const struct printer *printer, const struct node_object *object,
                const char *between)
{
	struct buffer *out = printer->out;
	bool has_any = false;

	for (size_t i = 0; i < object->table->count; i++) {
		size_t before = out->len;

		buffer_add_text(out, has_any ? between : "");
		if (print_key(printer, &object->table->keys[i], object))
			has_any = true;
		else
			out->len = before;
	}
	return has_any;
}

bool node_print_flow(const struct printer *printer, const struct node_object *object)
{
	bool has_any;

	buffer_add(printer->out, "{ ", 2);
	has_any = node_print(printer, object, ", ");
	buffer_add(printer->out, " }", 2);
	return has_any;
}
