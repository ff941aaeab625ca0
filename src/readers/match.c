/*
 * match.c: `match:`, a mapping of attributes to what their values may be.
 *
 * The form of a value alone tells its meaning, so every form can be written as plain text,
 * too: behind a backslash all is literal. Forms of later
 * versions are refused instead of being taken for text that never matches.
 */
#include "base/path.h"
#include "readers/read.h"

#define LITERAL "; write a backslash in front for the text itself"

/* How values of later versions begin. */
static const struct slice later_forms[] = {
    {"!", 1}, {">", 1}, {"<", 1}, {"in:", 3}, {"not_in:", 7}, {"not:", 4},
};

static bool is_number_range(struct slice text)
{
	size_t first = node_number_end(text, 0);

	return first > 0 && first + 1 < text.len && text.data[first] == '-' &&
	       node_number_end(text, first + 1) == text.len;
}

static bool is_later_form(struct slice text)
{
	for (size_t i = 0; i < sizeof later_forms / sizeof *later_forms; i++)
		if (slice_skip(&text, later_forms[i]))
			return true;
	return is_number_range(text);
}

/* One address is text like any other, except for the attribute `ip`; a range of them never is. */
static bool is_ip_range(struct slice text, bool is_ip, struct ip_range *range)
{
	struct ip ip;

	return ip_range_parse(text, range) && (is_ip || !ip_parse(text, &ip));
}

/*
 * Warns of a path that no request has, since /auth spells paths in one way. What a prefix ends
 * in may go on: /.* holds for /.git.
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

static int read_form(struct reader *reader, const char *attribute, const yaml_node_t *node,
                     struct rules_value *out)
{
	bool is_ip = strcmp(attribute, "ip") == 0, is_path = strcmp(attribute, "path") == 0;
	struct slice text = out->text;

	if (slice_equal(text, SLICE("*"))) {
		out->test = RULES_ANY;
		return WEIR_OK;
	}
	if (slice_equal(text, SLICE("!*"))) {
		out->test = RULES_NONE;
		return WEIR_OK;
	}
	if (is_ip_range(text, is_ip, &out->range)) {
		out->test = RULES_IP_RANGE;
		return WEIR_OK;
	}
	if (is_later_form(text))
		return node_error(reader, node,
		                  "expected a value, found %s, a form not supported yet" LITERAL,
		                  node_found(node).text);
	if (is_ip)
		return node_expected(reader, node, "an address, 10.0.0.0/8, 10.0.0.* or 10.0.0.1-10.0.0.9");
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

static int read_value(struct reader *reader, const char *attribute, const yaml_node_t *node,
                      struct rules_value *out)
{
	struct slice text;
	char *copy;

	if (node->type == YAML_MAPPING_NODE)
		return node_error(reader, node,
		                  "expected a value or a list of values, found a mapping "
		                  "(not, in and not_in are not supported yet)");
	if (node->type != YAML_SCALAR_NODE || node_is_nothing(node))
		return node_expected(reader, node, "a value");
	text = node_slice(node);
	copy = arena_copy(&reader->config->arena, text);
	if (!copy)
		return node_no_memory(reader);
	*out = (struct rules_value){.test = RULES_EQUAL, .text = {copy, text.len}};
	if (text.len > 0 && text.data[0] == '\\') {
		out->text = (struct slice){copy + 1, text.len - 1};
		return WEIR_OK;
	}
	return read_form(reader, attribute, node, out);
}

static int read_condition(struct reader *reader, struct node_name *name, const yaml_node_t *node,
                          void *element)
{
	bool list = node->type == YAML_SEQUENCE_NODE;
	struct rules_condition *condition = element;
	struct rules_value *values;
	int status = read_attribute(reader, name, name->node, &condition->attribute);

	if (status != WEIR_OK)
		return status;
	condition->value_count = list ? node_item_count(node) : 1;
	if (condition->value_count == 0)
		return node_error(reader, node, "expected at least one value, found an empty list");
	values = arena_array(&reader->config->arena, condition->value_count, sizeof *values);
	if (!values)
		return node_no_memory(reader);
	for (size_t i = 0; i < condition->value_count && status == WEIR_OK; i++)
		status = read_value(reader, condition->attribute,
		                    list ? node_at(reader, node->data.sequence.items.start[i]) : node,
		                    &values[i]);
	condition->values = values;
	return status;
}

const struct node_items read_conditions = {.type = YAML_MAPPING_NODE,
                                           .expected = "a mapping of attributes to values",
                                           .each = "attribute",
                                           .size = sizeof(struct rules_condition),
                                           .read = read_condition};
