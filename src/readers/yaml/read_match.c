/*
 * read_match.c: parses and prints `match:` of a rule, a mapping from attributes of a request to the
 * values that they must have for the rule to apply.
 *
 * A value is a range, a number's bound, a prefix or a text, as its form shows. A backslash before
 * it makes it a text, whatever its form.
 */
#include "base/text/path.h"
#include "readers/yaml/read.h"
#include "rules/form.h"
#include "rules/scalar.h"

#define OR_BACKSLASH "; write a backslash in front for the text itself"

/* The keys of a mapping in place of a value, such as { not_in: FILE }. */
enum { KEY_IN, KEY_NOT_IN, KEY_NOT, KEY_ALL };

static const struct node_key keys[] = {
    [KEY_IN] = {"in"}, [KEY_NOT_IN] = {"not_in"}, [KEY_NOT] = {"not"}, [KEY_ALL] = {"all"}};

#define KEY_COUNT (sizeof keys / sizeof *keys)

/* The conditions on one attribute. */
struct conditions {
	const char *attribute;
	struct rules_condition *items;
	size_t count, capacity;
};

/* Whether the text is probably meant as a mapping: the braces of { in: FILE } may be missing. */
static bool begins_with_key_of_mapping(struct slice text)
{
	for (size_t i = 0; i < KEY_COUNT; i++) {
		struct slice rest = text;

		if (slice_skip(&rest, slice_of(keys[i].name)) && slice_skip(&rest, SLICE(":")))
			return true;
	}
	return false;
}

/*
 * Warns of a path that no request has, since /auth normalizes paths. A prefix is checked with a
 * letter behind it, because its last segment may be the beginning of a longer one: /.* for /.git.
 */
static int warn_of_impossible_path(struct reader *reader, const yaml_node_t *node,
                                   const struct rules_value *value)
{
	struct arena *arena = &reader->config->arena;
	struct slice requested_path = value->text, path;
	char *text = arena_alloc(arena, requested_path.len + 1),
	     *decoded = arena_alloc(arena, requested_path.len + 1);

	if (!text || !decoded)
		return node_no_memory(reader);
	memcpy(text, requested_path.data, requested_path.len);
	if (value->test == RULES_PREFIX)
		text[requested_path.len++] = 'x';
	requested_path.data = text;
	path = (struct slice){decoded, path_decode(requested_path, decoded)};
	if (path_normalize(arena, path, &path) != 0)
		return node_no_memory(reader);
	if (slice_equal(path, requested_path) && !memchr(text, '?', requested_path.len))
		return WEIR_OK;
	return node_warning(reader, node,
	                    "expected a path that begins with / and has no query, no escapes and no "
	                    "empty, . or .. segments, found %s: no request at /auth has it",
	                    node_found(node).text);
}

/* Warns of a method that no request has. */
static int warn_of_lowercase_method(struct reader *reader, const yaml_node_t *node,
                                    const struct rules_value *value)
{
	for (size_t i = 0; i < value->text.len; i++)
		if (value->text.data[i] >= 'a' && value->text.data[i] <= 'z')
			return node_warning(reader, node,
			                    "expected a method in capital letters, found %s: no request at "
			                    "/auth has it",
			                    node_found(node).text);
	return WEIR_OK;
}

/* Whether /auth leaves the host as it is: it removes a port and a last dot, and folds case. */
static bool is_normalized_host(struct slice host)
{
	const char *colon = host.len ? memrchr(host.data, ':', host.len) : NULL;
	size_t after_colon = colon ? (size_t)(host.data + host.len - colon) : 0;

	for (size_t i = 0; i < host.len; i++)
		if (host.data[i] >= 'A' && host.data[i] <= 'Z')
			return false;
	return (!colon || memchr(colon, ']', after_colon)) &&
	       (host.len == 0 || host.data[host.len - 1] != '.');
}

/* Warns of a host that no request has. */
static int warn_of_impossible_host(struct reader *reader, const yaml_node_t *node,
                                   const struct rules_value *value)
{
	if (is_normalized_host(value->text))
		return WEIR_OK;
	return node_warning(reader, node,
	                    "expected a host in small letters, without a port and without a dot at its "
	                    "end, found %s: no request at /auth has it",
	                    node_found(node).text);
}

/* Warns of a network such as 10.0.0.1/8, whose address has bits behind its prefix. */
static int warn_of_host_bits(struct reader *reader, const yaml_node_t *node,
                             const struct rules_value *value)
{
	struct slice bits = value->text, address = slice_cut(&bits, '/');
	bool is_network = address.len < value->text.len;
	struct ip written;

	if (!is_network || !ip_parse(address, &written) ||
	    memcmp(&written, &value->range.first, sizeof written) == 0)
		return WEIR_OK;
	return node_warning(
	    reader, node,
	    "expected the first address of a network, found %s: only its first %.*s bits count",
	    node_found(node).text, (int)bits.len, bits.data);
}

static int read_bound(struct reader *reader, const yaml_node_t *node, struct rules_value *out)
{
	struct slice number = {out->text.data + 1, out->text.len - 1};
	bool is_bound = out->text.data[0] == '>' ? form_above(number, out) : form_below(number, out);

	if (is_bound)
		return WEIR_OK;
	return node_error(reader, node,
	                  "expected a whole number of 64 bits after %c, found %s" OR_BACKSLASH,
	                  out->text.data[0], node_found(node).text);
}

/* Reads a value without another form as a text, or as a prefix of paths if it ends in a star. */
static int read_text(struct reader *reader, bool is_path, const yaml_node_t *node,
                     struct rules_value *out)
{
	struct slice text = out->text;

	if (begins_with_key_of_mapping(text))
		return node_error(reader, node,
		                  "expected a mapping such as { in: FILE }, found %s" OR_BACKSLASH,
		                  node_found(node).text);
	if (is_path && text.len > 0 && text.data[text.len - 1] == '*') {
		out->test = RULES_PREFIX;
		out->text.len = --text.len;
	}
	if (memchr(text.data, '*', text.len))
		return node_error(
		    reader, node,
		    "expected * alone, at the end of a path or in an address, found %s" OR_BACKSLASH,
		    node_found(node).text);
	return is_path ? warn_of_impossible_path(reader, node, out) : WEIR_OK;
}

static int read_text_of_attribute(struct reader *reader, const char *attribute,
                                  const yaml_node_t *node, struct rules_value *out)
{
	return read_text(reader, strcmp(attribute, "path") == 0, node, out)
	           ?: strcmp(attribute, "method") == 0 ? warn_of_lowercase_method(reader, node, out)
	          : strcmp(attribute, "host") == 0     ? warn_of_impossible_host(reader, node, out)
	                                               : WEIR_OK;
}

/* Reads a value by its form: any value, a bound, an address or range, or otherwise a text. */
static int read_form(struct reader *reader, const char *attribute, const yaml_node_t *node,
                     struct rules_value *out)
{
	bool is_ip = strcmp(attribute, "ip") == 0, is_address;
	struct slice text = out->text;
	const char *expected;
	enum form form;

	if (slice_equal(text, SLICE("*")) || slice_equal(text, SLICE("!*"))) {
		out->test = text.len == 1 ? RULES_ANY : RULES_NONE;
		return WEIR_OK;
	}
	if (!is_ip && text.len > 0 && (text.data[0] == '>' || text.data[0] == '<'))
		return read_bound(reader, node, out);
	form = form_read(out, is_ip, &expected); /* an address, a range of addresses or of numbers */
	if (form == FORM_WRONG)
		return node_error(reader, node, "expected %s, found %s" OR_BACKSLASH, expected,
		                  node_found(node).text);
	is_address = form == FORM_READ && out->test != RULES_NUMBERS;
	if (is_ip && !is_address)
		return node_expected(reader, node, "an address, 10.0.0.0/8, 10.0.0.* or 10.0.0.1-10.0.0.9");
	if (form == FORM_READ)
		return out->test == RULES_IP_RANGE ? warn_of_host_bits(reader, node, out) : WEIR_OK;
	return read_text_of_attribute(reader, attribute, node, out);
}

/* "!*" is a form of its own, which negates nothing. */
static bool is_negated(const yaml_node_t *node)
{
	struct slice text = node_slice(node);

	return text.len > 0 && text.data[0] == '!' && !slice_equal(text, SLICE("!*"));
}

/* Reads a value behind its sign: `sign_length` is 1 if it begins with !, otherwise 0. */
static int read_value(struct reader *reader, const char *attribute, const yaml_node_t *node,
                      size_t sign_length, struct rules_value *out)
{
	struct slice text = {node_slice(node).data + sign_length, node_slice(node).len - sign_length};
	char *copy = arena_copy(&reader->config->arena, text);

	if (!copy)
		return node_no_memory(reader);
	if (sign_length > 0 && (text.len == 0 || text.data[0] == '!'))
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
	status =
	    copy ? read_dictionary_file(reader->config, reader->directory, name, &out->dictionary, &why)
	         : WEIR_ENOMEM;
	if (status == WEIR_ENOMEM)
		return node_no_memory(reader);
	return status == WEIR_OK ? status : node_error(reader, node, "%s", why.message);
}

/* The values of a condition: plain, all with a !, those of a key `not`, or names of files. */
enum values { VALUES_PLAIN, VALUES_NEGATED, VALUES_UNDER_NOT, VALUES_FILES };

static int read_item(struct reader *reader, const char *attribute, const yaml_node_t *node,
                     enum values kind, struct rules_value *out)
{
	if (node->type != YAML_SCALAR_NODE || node_is_nothing(node))
		return node_expected(reader, node, kind == VALUES_FILES ? "the name of a file" : "a value");
	if (kind == VALUES_FILES)
		return read_dictionary(reader, node, out);
	if (kind == VALUES_UNDER_NOT && is_negated(node))
		return node_expected(reader, node, "a value without ! under not" OR_BACKSLASH);
	if (is_negated(node) != (kind == VALUES_NEGATED))
		return node_expected(reader, node, "! before all values of a list or before none");
	return read_value(reader, attribute, node, kind == VALUES_NEGATED, out);
}

/* Appends a condition for the caller to fill in. Returns NULL without memory. */
static struct rules_condition *add_condition(struct reader *reader, struct conditions *conditions)
{
	struct rules_condition *grown = conditions->items;

	if (conditions->count == conditions->capacity) {
		conditions->capacity = conditions->capacity ? 2 * conditions->capacity : 1;
		grown = arena_array(&reader->config->arena, conditions->capacity, sizeof *grown);
		if (!grown)
			return NULL;
		for (size_t i = 0; i < conditions->count; i++)
			grown[i] = conditions->items[i];
		conditions->items = grown;
	}
	return &grown[conditions->count++];
}

/* Reads a value, or a list of values, as one condition. A ! before the first value is for all. */
static int read_values(struct reader *reader, const yaml_node_t *node, enum values kind,
                       bool negated, struct conditions *conditions)
{
	bool is_list = node->type == YAML_SEQUENCE_NODE;
	size_t count = is_list ? node_item_count(node) : 1;
	struct rules_condition *condition = add_condition(reader, conditions);
	struct rules_value *values = arena_array(&reader->config->arena, count, sizeof *values);
	int status = WEIR_OK;

	if (!condition || !values)
		return node_no_memory(reader);
	if (count == 0)
		return node_error(reader, node, "expected at least one value, found an empty list");
	for (size_t i = 0; i < count && status == WEIR_OK; i++) {
		const yaml_node_t *item =
		    is_list ? node_at(reader, node->data.sequence.items.start[i]) : node;

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

/* Reads `all:`, a list of which each item is a condition of its own. */
static int read_all(struct reader *reader, const yaml_node_t *node, struct conditions *conditions)
{
	int status =
	    node_check_type(reader, node, YAML_SEQUENCE_NODE, "a list of values, lists and mappings");

	if (status == WEIR_OK && node_item_count(node) == 0)
		return node_error(reader, node, "expected at least one value, found an empty list");
	for (size_t i = 0; status == WEIR_OK && i < node_item_count(node); i++)
		status =
		    read_forms(reader, node_at(reader, node->data.sequence.items.start[i]), conditions);
	return status;
}

static int read_mapping(struct reader *reader, const yaml_node_t *node,
                        struct conditions *conditions)
{
	static const struct node_table table = {"a value", keys, KEY_COUNT};
	const yaml_node_t *values_of_keys[NODE_KEYS_MAX];
	int status = node_mapping(reader, node, &table, 0, NULL, values_of_keys);

	if (status == WEIR_OK && node_pair_count(node) == 0)
		return node_error(reader, node, "expected in, not_in, not or all, found an empty mapping");
	if (status == WEIR_OK && values_of_keys[KEY_IN])
		status = read_values(reader, values_of_keys[KEY_IN], VALUES_FILES, false, conditions);
	if (status == WEIR_OK && values_of_keys[KEY_NOT_IN])
		status = read_values(reader, values_of_keys[KEY_NOT_IN], VALUES_FILES, true, conditions);
	if (status == WEIR_OK && values_of_keys[KEY_NOT])
		status = read_values(reader, values_of_keys[KEY_NOT], VALUES_UNDER_NOT, true, conditions);
	if (status == WEIR_OK && values_of_keys[KEY_ALL])
		status = read_all(reader, values_of_keys[KEY_ALL], conditions);
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
	                                             .item_name = "attribute",
	                                             .size = sizeof(struct conditions),
	                                             .read = read_attribute_conditions};
	struct node_array *out = field, attributes_read;
	const struct conditions *per_attribute;
	struct rules_condition *conditions;
	int status = node_items(reader, value, &attributes, &attributes_read, NULL);

	(void)key;
	if (status != WEIR_OK)
		return status;
	per_attribute = attributes_read.elements;
	for (size_t i = 0; i < attributes_read.count; i++)
		out->count += per_attribute[i].count;
	out->elements = conditions =
	    arena_array(&reader->config->arena, out->count, sizeof *conditions);
	if (!conditions)
		return node_no_memory(reader);
	for (size_t i = 0; i < attributes_read.count; i++)
		for (size_t j = 0; j < per_attribute[i].count; j++)
			*conditions++ = per_attribute[i].items[j];
	return WEIR_OK;
}

/* Prints a text, with a backslash before it if it could otherwise be read as another form. */
static void add_literal(struct buffer *out, const char *attribute, struct slice text)
{
	static const char letters[] =
	    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./";
	struct rules_value value = {.text = text};
	const char *expected;
	bool needs_no_backslash = text.len > 0 && strcmp(attribute, "ip") != 0;
	struct buffer copy = {0};

	for (size_t i = 0; needs_no_backslash && i < text.len; i++)
		needs_no_backslash = memchr(letters, text.data[i], sizeof letters - 1);
	if (!needs_no_backslash || form_read(&value, false, &expected) != FORM_TEXT)
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
	bool in_dictionary = condition->value_count && condition->values->test == RULES_LISTED;
	const char *form = forms[in_dictionary][condition->negated];

	buffer_add_text(out, form);
	buffer_add(out, "[", condition->value_count > 1);
	for (size_t i = 0; i < condition->value_count; i++) {
		buffer_add(out, ", ", i ? 2 : 0);
		add_value(out, condition->attribute, &condition->values[i]);
	}
	buffer_add(out, "]", condition->value_count > 1);
	buffer_add_text(out, *form ? " }" : "");
}

/* Returns how many conditions in a row, from `first` on, are on the same attribute. */
static size_t count_same_attribute(const struct rules_condition *conditions, size_t first,
                                   size_t count)
{
	size_t end = first + 1;

	while (end < count && strcmp(conditions[first].attribute, conditions[end].attribute) == 0)
		end++;
	return end - first;
}

static bool print_match(const struct printer *printer, const struct node_key *key,
                        const void *field, const void *default_value)
{
	const struct node_array *array = field;
	const struct rules_condition *conditions = array->elements;
	struct buffer *out = printer->out;
	size_t count;

	(void)key;
	(void)default_value;
	buffer_add_text(out, "{");
	for (size_t i = 0; i < array->count; i += count) {
		count = count_same_attribute(conditions, i, array->count);
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
