/* read_denials.c: reads `denials:`, which denials a server keeps. */
#include <string.h>

#include "base/number.h"
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

static int read_kept_attributes(struct reader *reader, const struct node_key *key,
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

static bool print_kept_attributes(const struct printer *printer, const struct node_key *key,
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

static const struct node_kind attributes_kind = {read_kept_attributes, print_kept_attributes};

/* `off`, or the path of a file. */
static int read_denials_file(struct reader *reader, const struct node_key *key,
                             const yaml_node_t *value, void *field)
{
	const char **path = field;
	int status = node_read_text(reader, key, value, path);

	if (status != WEIR_OK)
		return status;
	if (strcmp(*path, "off") == 0) {
		*path = NULL;
		return WEIR_OK;
	}
	*path = source_path(reader->config, reader->directory, slice_of(*path));
	return *path ? WEIR_OK : node_no_memory(reader);
}

static const struct node_kind file_kind = {read_denials_file, node_print_text};

static const struct unit {
	const char *name;
	uint64_t bytes;
} units[] = {{"GB", 1000000000}, {"GiB", 1 << 30}, {"MB", 1000000}, {"MiB", 1 << 20},
             {"kB", 1000},       {"KiB", 1 << 10}, {"", 1}};

/* Reads a number with a unit. Returns false if the text is none. */
static bool parse_size(struct slice text, uint64_t *bytes)
{
	size_t digits = 0;

	while (digits < text.len && text.data[digits] >= '0' && text.data[digits] <= '9')
		digits++;
	for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
		struct slice unit = {text.data + digits, text.len - digits};

		if (!slice_equal(unit, slice_of(units[i].name)))
			continue;
		if (!parse_u64((struct slice){text.data, digits}, bytes))
			return false;
		*bytes = sat_u64((u128)*bytes * units[i].bytes);
		return true;
	}
	return false;
}

static int read_size(struct reader *reader, const struct node_key *key, const yaml_node_t *value,
                     void *field)
{
	uint64_t *bytes = field;

	if (value->type == YAML_SCALAR_NODE && parse_size(node_slice(value), bytes) &&
	    *bytes >= key->min && *bytes <= key->max)
		return WEIR_OK;
	return node_expected(reader, value, key->expected);
}

static bool print_size(const struct printer *printer, const struct node_key *key, const void *field,
                       const void *default_value)
{
	uint64_t bytes = *(const uint64_t *)field;
	size_t i = 0;

	(void)key;
	if (default_value && bytes == *(const uint64_t *)default_value)
		return false;
	while (bytes % units[i].bytes != 0)
		i++;
	buffer_add_u64(printer->out, bytes / units[i].bytes);
	buffer_add_text(printer->out, units[i].name);
	return true;
}

static const struct node_kind size_kind = {read_size, print_size};

#define PATH_MAX_LEN 4095

static const struct node_key denials_keys[] = {
    {"keep", &node_number, FIELD(keep), .max = RULES_DENIALS_KEEP_MAX},
    {"per_second", &node_number, FIELD(per_second), .max = RULES_DENIALS_KEEP_MAX},
    {"key", &node_word, FIELD(key), .words = denial_keys},
    {"attributes", &attributes_kind,
     NODE_ARRAY(struct weir_config, denials.listed, denials.listed_count)},
    {"file", &file_kind, FIELD(file), .min = 1, .max = PATH_MAX_LEN},
    {"rotate", &size_kind, FIELD(rotate), .expected = "a size from 8kB to 1GB such as 64MB",
     .min = 8000, .max = 1000000000},
    {"files", &node_number, FIELD(files), .min = 1, .max = 100},
    {"headers", &node_word, FIELD(headers), .words = read_switches},
};

const struct node_table read_denials_table = {"denials", denials_keys,
                                              sizeof denials_keys / sizeof *denials_keys};
