/*
 * read_match.c: parses `match:`, a mapping of attributes to the values that they may have.
 *
 * The form of a value alone tells its meaning, so every form can be written as plain text,
 * too: behind a backslash all is literal.
 */
#include "base/text/path.h"
#include "readers/yaml/read.h"
#include "rules/form.h"
#include "rules/scalar.h"

#define LITERAL "; write a backslash in front for the text itself"

/* Keys of a mapping. A text that begins like a mapping is hardly meant as text. */
enum { KEY_IN, KEY_NOT_IN, KEY_NOT, KEY_ALL };

static const struct node_key keys[] = {
    [KEY_IN] = {"in"}, [KEY_NOT_IN] = {"not_in"}, [KEY_NOT] = {"not"}, [KEY_ALL] = {"all"}};

#define KEYS (sizeof keys / sizeof *keys)

/* The conditions on one attribute. */
struct conditions {
	const char *attribute;
	struct rules_condition *items;
	size_t count, room;
};

static bool begins_like_a_key(struct slice text)
{
	for (size_t i = 0; i < KEYS; i++) {
		struct slice rest = text;

		if (slice_skip(&rest, slice_of(keys[i].name)) && slice_skip(&rest, SLICE(":")))
			return true;
	}
	return false;
}

/*
 * Warns of a path that no request has, since /auth spells paths in one way. The last segment of a
 * prefix may be the beginning of a longer one: /.* holds for /.git.
 */
static int check_path(struct reader *reader, const yaml_node_t *node,
                      const struct rules_value *value)
{
	struct arena *arena = &reader->config->arena;
	struct slice asked = value->text, path;
	char *text = arena_alloc(arena, asked.len + 1), *decoded = arena_alloc(arena, asked.len + 1);

	if (!text || !decoded)
		return node_no_memory(reader);
	memcpy(text, asked.data, asked.len);
	if (value->test == RULES_PREFIX)
		text[asked.len++] = 'x';
	asked.data = text;
	path = (struct slice){decoded, path_decode(asked, decoded)};
	if (path_normalize(arena, path, &path) != 0)
		return node_no_memory(reader);
	if (slice_equal(path, asked) && !memchr(text, '?', asked.len))
		return WEIR_OK;
	return node_warning(reader, node,
	                    "expected a path that begins with / and has no query, no escapes and no "
	                    "empty, . or .. segments, found %s: no request at /auth has it",
	                    node_found(node).text);
}

/* Warns of a method that no request has. */
static int check_method(struct reader *reader, const yaml_node_t *node,
                        const struct rules_value *value)
{
	for (size_t i = 0; i < value->text.len; i++)
		if (value->text.data[i] >= 'a' && value->text.data[i] <= 'z')
			return node_warning(reader, node,
			                    "expected a method in capital letters, found %s: no request at "
			                    "/auth has it", node_found(node).text);
	return WEIR_OK;
}

/* Warns of a network's address that goes on behind its prefix: 10.0.0.1/8. */
static int check_prefix(struct reader *reader, const yaml_node_t *node,
                        const struct rules_value *value)
{
	struct slice address = value->text, prefix = address;
	struct ip first;

	address = slice_cut(&prefix, '/');
	if (address.len == value->text.len || !ip_parse(address, &first) ||
	    memcmp(&first, &value->range.first, sizeof first) == 0)
		return WEIR_OK;
	return node_warning(
	    reader, node,
	    "expected the first address of a network, found %s: only its first %.*s bits count",
	    node_found(node).text, (int)prefix.len, prefix.data);
}

/* A number behind > or <. */
static int read_bound(struct reader *reader, const yaml_node_t *node, struct rules_value *out)
{
	struct slice number = {out->text.data + 1, out->text.len - 1};
	bool read = out->text.data[0] == '>' ? form_above(number, out)
	                                     : form_below(number, out);

	if (read)
		return WEIR_OK;
	return node_error(reader, node, "expected a whole number of 64 bits after %c, found %s" LITERAL,
	                  out->text.data[0], node_found(node).text);
}

/* A text that has no form of its own, but for a path's star. */
static int read_plain(struct reader *reader, bool is_path, const yaml_node_t *node,
                      struct rules_value *out)
{
	struct slice text = out->text;

	if (begins_like_a_key(text))
		return node_error(reader, node, "expected a mapping such as { in: FILE }, found %s" LITERAL,
		                  node_found(node).text);
	if (is_path && text.len > 0 && text.data[text.len - 1] == '*') {
		out->test = RULES_PREFIX;
		out->text.len = --text.len;
	}
	if (memchr(text.data, '*', text.len))
		return node_error(
		    reader, node,
		    "expected * alone, at the end of a path or in an address, found %s" LITERAL,
		    node_found(node).text);
	return is_path ? check_path(reader, node, out) : WEIR_OK;
}

static int check_text(struct reader *reader, const char *attribute, const yaml_node_t *node,
                      struct rules_value *out)
{
	return read_plain(reader, strcmp(attribute, "path") == 0, node, out) ?:
	       strcmp(attribute, "method") == 0 ? check_method(reader, node, out) : WEIR_OK;
}

static int read_form(struct reader *reader, const char *attribute, const yaml_node_t *node,
                     struct rules_value *out)
{
	bool is_ip = strcmp(attribute, "ip") == 0;
	struct slice text = out->text;
	const char *expected;
	enum form form;

	if (slice_equal(text, SLICE("*")) || slice_equal(text, SLICE("!*"))) {
		out->test = text.len == 1 ? RULES_ANY : RULES_NONE;
		return WEIR_OK;
	}
	if (!is_ip && text.len > 0 && (text.data[0] == '>' || text.data[0] == '<'))
		return read_bound(reader, node, out);
	form = form_read(out, is_ip, &expected);
	if (form == FORM_WRONG)
		return node_error(reader, node, "expected %s, found %s" LITERAL, expected,
		                  node_found(node).text);
	if (is_ip && (form == FORM_TEXT || out->test == RULES_NUMBERS))
		return node_expected(reader, node, "an address, 10.0.0.0/8, 10.0.0.* or 10.0.0.1-10.0.0.9");
	if (form == FORM_READ)
		return out->test == RULES_IP_RANGE ? check_prefix(reader, node, out) : WEIR_OK;
	return check_text(reader, attribute, node, out);
}

/* "!*" is a form of its own, which negates nothing. */
static bool is_negated(const yaml_node_t *node)
{
	struct slice text = node_slice(node);

	return text.len > 0 && text.data[0] == '!' && !slice_equal(text, SLICE("!*"));
}

/* `negations`: how many bytes in front negate it. */
static int read_value(struct reader *reader, const char *attribute, const yaml_node_t *node,
                      size_t negations, struct rules_value *out)
{
	struct slice text = {node_slice(node).data + negations, node_slice(node).len - negations};
	char *copy = arena_copy(&reader->config->arena, text);

	if (!copy)
		return node_no_memory(reader);
	if (negations > 0 && (text.len == 0 || text.data[0] == '!'))
		return node_expected(reader, node, "a value after !");
	*out = (struct rules_value){.test = RULES_EQUAL, .text = {copy, text.len}};
	if (text.len > 0 && text.data[0] == '\\') {
		out->text = (struct slice){copy + 1, text.len - 1};
		return WEIR_OK;
	}
	return read_form(reader, attribute, node, out);
}

static int read_dictionary(struct reader *reader, const yaml_node_t *node, struct rules_value *out)
{
	struct weir_error why;
	struct slice name = node_slice(node);
	char *copy = arena_copy(&reader->config->arena, name);
	int status;

	if (name.len == 0 || memchr(name.data, '\0', name.len))
		return node_expected(reader, node, "the name of a file");
	*out = (struct rules_value){.test = RULES_LISTED, .text = {copy, name.len}};
	status = copy ? read_dictionary_file(reader->config, reader->directory, name, &out->dictionary, &why)
	              : WEIR_ENOMEM;
	if (status == WEIR_ENOMEM)
		return node_no_memory(reader);
	return status == WEIR_OK ? status : node_error(reader, node, "%s", why.message);
}

/* The kinds of values of a condition, by the sign before each. */
enum values { VALUES_PLAIN, VALUES_NEGATED, VALUES_IN_NOT, VALUES_FILES };

static int read_item(struct reader *reader, const char *attribute, const yaml_node_t *node,
                     enum values kind, struct rules_value *out)
{
	if (node->type != YAML_SCALAR_NODE || node_is_nothing(node))
		return node_expected(reader, node, kind == VALUES_FILES ? "the name of a file" : "a value");
	if (kind == VALUES_FILES)
		return read_dictionary(reader, node, out);
	if (kind == VALUES_IN_NOT && is_negated(node))
		return node_expected(reader, node, "a value without ! under not" LITERAL);
	if (is_negated(node) != (kind == VALUES_NEGATED))
		return node_expected(reader, node, "! before all values of a list or before none");
	return read_value(reader, attribute, node, kind == VALUES_NEGATED, out);
}

/* The next condition, or NULL. */
static struct rules_condition *add_condition(struct reader *reader, struct conditions *conditions)
{
	struct rules_condition *grown = conditions->items;

	if (conditions->count == conditions->room) {
		conditions->room = conditions->room ? 2 * conditions->room : 1;
		grown = arena_array(&reader->config->arena, conditions->room, sizeof *grown);
		if (!grown)
			return NULL;
		for (size_t i = 0; i < conditions->count; i++)
			grown[i] = conditions->items[i];
		conditions->items = grown;
	}
	return &grown[conditions->count++];
}

/* A value or a list of values: any of them, or none. */
static int read_values(struct reader *reader, const yaml_node_t *node, enum values kind,
                       bool negated, struct conditions *conditions)
{
	bool list = node->type == YAML_SEQUENCE_NODE;
	size_t count = list ? node_item_count(node) : 1;
	struct rules_condition *condition = add_condition(reader, conditions);
	struct rules_value *values = arena_array(&reader->config->arena, count, sizeof *values);
	int status = WEIR_OK;

	if (!condition || !values)
		return node_no_memory(reader);
	if (count == 0)
		return node_error(reader, node, "expected at least one value, found an empty list");
	for (size_t i = 0; i < count && status == WEIR_OK; i++) {
		const yaml_node_t *item =
		    list ? node_at(reader, node->data.sequence.items.start[i]) : node;

		if (i == 0 && kind == VALUES_PLAIN && item->type == YAML_SCALAR_NODE && is_negated(item))
			kind = VALUES_NEGATED;
		status = read_item(reader, conditions->attribute, item, kind, &values[i]);
	}
	*condition = (struct rules_condition){.attribute = conditions->attribute,
	                                      .values = values,
	                                      .value_count = count,
	                                      .negated = negated || kind == VALUES_NEGATED,
	                                      .line = (unsigned)node->start_mark.line + 1,
	                                      .column = (unsigned)node->start_mark.column + 1};
	return status;
}

static int read_forms(struct reader *reader, const yaml_node_t *node,
                      struct conditions *conditions);

/* `all:`, each of which holds. */
static int read_all(struct reader *reader, const yaml_node_t *node, struct conditions *conditions)
{
	int status = node_expect(reader, node, YAML_SEQUENCE_NODE, "a list of values, lists and mappings");

	if (status == WEIR_OK && node_item_count(node) == 0)
		return node_error(reader, node, "expected at least one value, found an empty list");
	for (size_t i = 0; status == WEIR_OK && i < node_item_count(node); i++)
		status = read_forms(reader, node_at(reader, node->data.sequence.items.start[i]), conditions);
	return status;
}

static int read_mapping(struct reader *reader, const yaml_node_t *node,
                        struct conditions *conditions)
{
	static const struct node_table table = {"a value", keys, KEYS};
	const yaml_node_t *found[NODE_KEYS_MAX];
	int status = node_mapping(reader, node, &table, 0, NULL, found);

	if (status == WEIR_OK && node_pair_count(node) == 0)
		return node_error(reader, node, "expected in, not_in, not or all, found an empty mapping");
	if (status == WEIR_OK && found[KEY_IN])
		status = read_values(reader, found[KEY_IN], VALUES_FILES, false, conditions);
	if (status == WEIR_OK && found[KEY_NOT_IN])
		status = read_values(reader, found[KEY_NOT_IN], VALUES_FILES, true, conditions);
	if (status == WEIR_OK && found[KEY_NOT])
		status = read_values(reader, found[KEY_NOT], VALUES_IN_NOT, true, conditions);
	if (status == WEIR_OK && found[KEY_ALL])
		status = read_all(reader, found[KEY_ALL], conditions);
	return status;
}

static int read_forms(struct reader *reader, const yaml_node_t *node, struct conditions *conditions)
{
	return node->type == YAML_MAPPING_NODE
	           ? read_mapping(reader, node, conditions)
	           : read_values(reader, node, VALUES_PLAIN, false, conditions);
}

static int read_attribute_conditions(struct reader *reader, struct node_name *name,
                                     const yaml_node_t *node, void *element)
{
	struct conditions *conditions = element;
	int status = read_attribute(reader, name, name->node, &conditions->attribute);

	return status == WEIR_OK ? read_forms(reader, node, conditions) : status;
}

static int read_match(struct reader *reader, const struct node_key *key, const yaml_node_t *value,
                      void *field)
{
	static const struct node_items attributes = {.type = YAML_MAPPING_NODE,
	                                             .expected = "a mapping of attributes to values",
	                                             .each = "attribute",
	                                             .size = sizeof(struct conditions),
	                                             .read = read_attribute_conditions};
	struct node_array *out = field, found;
	const struct conditions *each;
	struct rules_condition *all;
	int status = node_items(reader, value, &attributes, &found, NULL);

	(void)key;
	if (status != WEIR_OK)
		return status;
	each = found.elements;
	for (size_t i = 0; i < found.count; i++)
		out->count += each[i].count;
	out->elements = all = arena_array(&reader->config->arena, out->count, sizeof *all);
	if (!all)
		return node_no_memory(reader);
	for (size_t i = 0; i < found.count; i++)
		for (size_t j = 0; j < each[i].count; j++)
			*all++ = each[i].items[j];
	return WEIR_OK;
}

/* Behind a backslash all is text; without one only what has no other form. */
static void add_literal(struct buffer *out, const char *attribute, struct slice text)
{
	static const char letters[] =
	    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./";
	struct rules_value value = {.text = text};
	const char *expected;
	bool plain = text.len > 0 && strcmp(attribute, "ip") != 0;
	struct buffer copy = {0};

	for (size_t i = 0; plain && i < text.len; i++)
		plain = memchr(letters, text.data[i], sizeof letters - 1);
	if (!plain || form_read(&value, false, &expected) != FORM_TEXT)
		buffer_add(&copy, "\\", 1);
	buffer_add_slice(&copy, text);
	scalar_add(out, (struct slice){copy.data, copy.len});
	out->failed |= copy.failed;
	buffer_free(&copy);
}

static void add_value(struct buffer *out, const char *attribute, const struct rules_value *value)
{
	struct buffer prefix = {0};

	switch (value->test) {
	case RULES_EQUAL:
		add_literal(out, attribute, value->text);
		break;
	case RULES_ANY:
		scalar_add(out, SLICE("*"));
		break;
	case RULES_NONE:
		scalar_add(out, SLICE("!*"));
		break;
	case RULES_PREFIX:
		buffer_add_slice(&prefix, value->text);
		buffer_add(&prefix, "*", 1);
		scalar_add(out, (struct slice){prefix.data, prefix.len});
		out->failed |= prefix.failed;
		buffer_free(&prefix);
		break;
	default:
		scalar_add(out, value->text);
		break;
	}
}

static void print_condition(struct buffer *out, const struct rules_condition *condition)
{
	static const char *const forms[2][2] = {{"", "{ not: "}, {"{ in: ", "{ not_in: "}};
	bool listed = condition->value_count && condition->values->test == RULES_LISTED;
	const char *form = forms[listed][condition->negated];

	buffer_add_text(out, form);
	buffer_add(out, "[", condition->value_count > 1);
	for (size_t i = 0; i < condition->value_count; i++) {
		buffer_add(out, ", ", i ? 2 : 0);
		add_value(out, condition->attribute, &condition->values[i]);
	}
	buffer_add(out, "]", condition->value_count > 1);
	buffer_add_text(out, *form ? " }" : "");
}

/* How many conditions from `first` on are about one attribute. */
static size_t same_attribute(const struct rules_condition *conditions, size_t first, size_t count)
{
	size_t end = first + 1;

	while (end < count && strcmp(conditions[first].attribute, conditions[end].attribute) == 0)
		end++;
	return end - first;
}

static bool print_match(const struct printer *printer, const struct node_key *key,
                        const void *field, const void *otherwise)
{
	const struct node_array *array = field;
	const struct rules_condition *conditions = array->elements;
	struct buffer *out = printer->out;
	size_t count;

	(void)key;
	(void)otherwise;
	buffer_add_text(out, "{");
	for (size_t i = 0; i < array->count; i += count) {
		count = same_attribute(conditions, i, array->count);
		buffer_add_text(out, i ? ", " : " ");
		scalar_add(out, slice_of(conditions[i].attribute));
		buffer_add_text(out, count > 1 ? ": { all: [" : ": ");
		for (size_t j = 0; j < count; j++) {
			buffer_add(out, ", ", j ? 2 : 0);
			print_condition(out, &conditions[i + j]);
		}
		buffer_add_text(out, count > 1 ? "] }" : "");
	}
	buffer_add_text(out, " }");
	return array->count > 0;
}

const struct node_kind read_match_kind = {read_match, print_match};
