/*
 * read_attribute.c: reads the names of request attributes that rules use, and warns of names that
 * are probably misspelled.
 */
#include "base/text/misspelling.h"
#include "readers/yaml/read.h"
#include "rules/attribute.h"
#include "rules/scalar.h"

/* Every request at /auth has these, and so does every request that a proxy asks about. */
static const char *const common_attributes[] = {"method", "host", "path", "ip"};

/*
 * Sets *is_known if the name is that of a common or configured attribute. Returns the first of
 * these that it may be a misspelling of, or NULL.
 */
static const char *find_similar(const struct weir_config *config, const char *name, bool *is_known)
{
	size_t count = sizeof common_attributes / sizeof *common_attributes;
	const char *similar = NULL;

	*is_known = false;
	for (size_t i = 0; i < count + config->attribute_count && !*is_known; i++) {
		const char *candidate = i < count ? common_attributes[i] : config->attributes[i - count];

		*is_known = strcmp(name, candidate) == 0;
		if (!similar && is_misspelling(slice_of(name), slice_of(candidate)))
			similar = candidate;
	}
	return similar;
}

static int warn_of_misspelling(struct reader *reader, const yaml_node_t *node, const char *name)
{
	const struct weir_config *config = reader->config;
	struct forwarded_attribute forwarded;
	bool is_known, is_forwarded;
	const char *similar = find_similar(config, name, &is_known);

	is_forwarded = forwarded_parse(name, &forwarded); /* such as header.NAME, with any name */
	if (is_known || is_forwarded)
		return WEIR_OK;
	if (similar)
		return node_warning(reader, node, "expected an attribute that callers send, found %s",
		                    node_found_near(node, similar).text);
	if (config->attribute_count > 0) /* otherwise callers may send any */
		return node_warning(reader, node,
		                    "expected method, host, path, ip or one of `attributes`, found %s",
		                    node_found(node).text);
	return WEIR_OK;
}

int read_attribute(struct reader *reader, struct node_name *name, const yaml_node_t *node,
                   void *element)
{
	const char **out = element;
	struct weir_error error = {0};
	int status = node_name(reader, node, out);

	(void)name;
	if (status == WEIR_OK)
		status = attribute_use(reader->config, *out, &error);
	if (error.status == WEIR_ENOMEM)
		return node_no_memory(reader);
	if (error.status)
		return node_error(reader, node, "%s", error.message);
	return status ?: warn_of_misspelling(reader, node, *out);
}

void read_print_name(const struct printer *printer, const void *element)
{
	scalar_add(printer->out, slice_of(*(const char *const *)element));
}
