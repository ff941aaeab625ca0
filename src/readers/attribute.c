/* attribute.c: names of attributes. */
#include "readers/read.h"
#include "rules/attribute.h"

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
	return error.status ? node_error(reader, node, "%s", error.message) : status;
}
