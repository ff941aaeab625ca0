/* read_denials.c: reads `denials:`, which denials a server keeps. */
#include "readers/yaml/read.h"

#define FIELD(name) offsetof(struct weir_config, denials.name)

static const struct word denial_keys[] = {
    {"digest", RULES_DENIAL_DIGEST}, {"full", RULES_DENIAL_FULL}, {0}};

static const struct node_items listed_attributes = {.type = YAML_SEQUENCE_NODE,
                                                    .expected =
                                                        "rule, none or a list of attributes",
                                                    .item_name = "attribute",
                                                    .size = sizeof(const char *),
                                                    .read = read_attribute,
                                                    .print = read_print_name};

static int read_attributes(struct reader *reader, const struct node_key *key,
                           const yaml_node_t *value, void *field)
{
	struct rules_denials *denials = &reader->config->denials;
	bool is_text = value->type == YAML_SCALAR_NODE;

	(void)key;
	denials->attributes = RULES_DENIAL_OF_LIST;
	if (value->type == YAML_SEQUENCE_NODE)
		return node_items(reader, value, &listed_attributes, field, NULL);
	denials->attributes = RULES_DENIAL_OF_NONE;
	if (is_text && slice_equal(node_slice(value), SLICE("none")))
		return WEIR_OK;
	denials->attributes = RULES_DENIAL_OF_RULE;
	if (is_text && slice_equal(node_slice(value), SLICE("rule")))
		return WEIR_OK;
	return node_expected(reader, value, listed_attributes.expected);
}

static bool print_attributes(const struct printer *printer, const struct node_key *key,
                             const void *field, const void *default_value)
{
	enum rules_denial_attributes attributes = printer->config->denials.attributes;

	(void)key;
	(void)default_value;
	if (attributes == RULES_DENIAL_OF_LIST)
		node_print_items(printer, &listed_attributes, field);
	else if (attributes == RULES_DENIAL_OF_NONE)
		buffer_add_text(printer->out, "none");
	return attributes != RULES_DENIAL_OF_RULE;
}

static const struct node_kind attributes_kind = {read_attributes, print_attributes};

static const struct node_key denials_keys[] = {
    {"keep", &node_number, FIELD(keep), .max = RULES_DENIALS_KEEP_MAX},
    {"per_second", &node_number, FIELD(per_second), .max = RULES_DENIALS_KEEP_MAX},
    {"key", &node_word, FIELD(key), .words = denial_keys},
    {"attributes", &attributes_kind,
     NODE_ARRAY(struct weir_config, denials.listed, denials.listed_count)},
    {"headers", &node_word, FIELD(headers), .words = read_switches},
};

const struct node_table read_denials_table = {"denials", denials_keys,
                                              sizeof denials_keys / sizeof *denials_keys};
