/*
 * result.c: parses and prints `result:` of a rule file in YAML, a mapping that the answer to a
 * denied request includes. It becomes JSON here, once, and not at each denial.
 */
#include "base/buffer.h"
#include "base/text/json.h"
#include "readers/reserved.h"
#include "readers/yaml/read.h"
#include "rules/scalar.h"

/* Whether it is a number, true, false or null. */
static bool is_json_word(struct slice text)
{
	struct json json = json_of(text);
	struct slice word;

	return json_word(&json, &word) && word.len == text.len;
}

static void add_scalar(const yaml_node_t *node, struct buffer *out)
{
	struct slice text = node_slice(node);
	bool is_unquoted = node->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;

	if (node_is_nothing(node))
		buffer_add_text(out, "null");
	else if (is_unquoted && is_json_word(text))
		buffer_add_slice(out, text);
	else
		buffer_add_json_string(out, text);
}

static int add_node(struct reader *reader, const yaml_node_t *node, struct buffer *out);

static int add_mapping(struct reader *reader, const yaml_node_t *node, struct buffer *out)
{
	const yaml_node_pair_t *pairs = node->data.mapping.pairs.start;
	int status = WEIR_OK;

	buffer_add(out, "{", 1);
	/* The bound on `out` ends the loop early, and with it the search for equal names. */
	for (size_t i = 0; i < node_pair_count(node) && status == WEIR_OK && !out->failed; i++) {
		const yaml_node_t *name = node_at(reader, pairs[i].key);

		for (size_t j = 0; j < i; j++)
			if (slice_equal(node_slice(node_at(reader, pairs[j].key)), node_slice(name)))
				return node_error(reader, name, "expected each field once, found %s again",
				                  node_found(name).text);
		buffer_add(out, ",", i > 0);
		buffer_add_json_string(out, node_slice(name));
		buffer_add(out, ":", 1);
		status = add_node(reader, node_at(reader, pairs[i].value), out);
	}
	buffer_add(out, "}", 1);
	return status;
}

static int add_list(struct reader *reader, const yaml_node_t *node, struct buffer *out)
{
	int status = WEIR_OK;

	buffer_add(out, "[", 1);
	for (size_t i = 0; i < node_item_count(node) && status == WEIR_OK && !out->failed; i++) {
		buffer_add(out, ",", i > 0);
		status = add_node(reader, node_at(reader, node->data.sequence.items.start[i]), out);
	}
	buffer_add(out, "]", 1);
	return status;
}

static int add_node(struct reader *reader, const yaml_node_t *node, struct buffer *out)
{
	if (node->type == YAML_MAPPING_NODE)
		return add_mapping(reader, node, out);
	if (node->type == YAML_SEQUENCE_NODE)
		return add_list(reader, node, out);
	add_scalar(node, out);
	return WEIR_OK;
}

/* Refuses names of fields that every answer has, since those of the result are beside them. */
static int refuse_reserved_names(struct reader *reader, const yaml_node_t *node)
{
	const yaml_node_pair_t *pairs = node->data.mapping.pairs.start;

	for (size_t i = 0; i < node_pair_count(node); i++) {
		const yaml_node_t *name = node_at(reader, pairs[i].key);

		if (reserved_field(node_slice(name)))
			return node_error(reader, name, RESERVED_EXPECTED, reserved_fields().text,
			                  node_found(name).text);
	}
	return WEIR_OK;
}

static int read_result(struct reader *reader, const struct node_key *key, const yaml_node_t *value,
                       void *field)
{
	const char **result = field;
	struct buffer out = {.max = RESULT_MAX};
	int status = node_check_type(reader, value, YAML_MAPPING_NODE, "a mapping of fields to values");

	(void)key;
	status = status ?: refuse_reserved_names(reader, value) ?: add_mapping(reader, value, &out);
	if (status == WEIR_OK && out.failed)
		status =
		    node_error(reader, value, "expected at most %d bytes as JSON, found more", RESULT_MAX);
	if (status == WEIR_OK) {
		*result = arena_copy(&reader->config->arena, (struct slice){out.data, out.len});
		if (!*result)
			status = node_no_memory(reader);
	}
	buffer_free(&out);
	return status;
}

static bool print_result(const struct printer *printer, const struct node_key *key,
                         const void *field, const void *default_value)
{
	const char *json = *(const char *const *)field;

	(void)key;
	(void)default_value;
	if (json)
		scalar_add_json(printer->out, slice_of(json));
	return json != NULL;
}

const struct node_kind read_result_kind = {read_result, print_result};
