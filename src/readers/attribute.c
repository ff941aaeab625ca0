/* attribute.c: names of attributes, and the list of those that requests carry. */
#include <ctype.h>

#include "readers/read.h"

/* The characters of a header's name (RFC 9110): another one never comes. */
static bool is_token(struct slice text)
{
	for (size_t i = 0; i < text.len; i++)
		if (!isalnum((unsigned char)text.data[i]) &&
		    !memchr("!#$%&'*+-.^_`|~", text.data[i], 15))
			return false;
	return text.len > 0;
}

static int carry(struct reader *reader, const yaml_node_t *node, const struct carried *carried)
{
	struct carried_list *list = &reader->config->carried;

	if (carried->in == CARRIED_HEADER ? !is_token(carried->name) : carried->name.len == 0)
		return node_expected(reader, node, "header.NAME, cookie.NAME or query.NAME");
	for (size_t i = 0; i < list->count; i++)
		if (strcmp(list->items[i].attribute, carried->attribute) == 0)
			return WEIR_OK;
	if (list->count == CARRIED_MAX)
		return node_error(reader, node,
		                  "expected at most %d attributes header.NAME, cookie.NAME and query.NAME "
		                  "in all rules, found %s",
		                  CARRIED_MAX, node_found(node).text);
	if (!reader->carried) {
		reader->carried = arena_array(&reader->config->arena, CARRIED_MAX, sizeof *carried);
		list->items = reader->carried;
	}
	if (!reader->carried)
		return node_no_memory(reader);
	reader->carried[list->count++] = *carried;
	return WEIR_OK;
}

int read_attribute(struct reader *reader, struct node_name *name, const yaml_node_t *node,
                   void *element)
{
	const char **out = element;
	struct carried carried;
	int status = node_name(reader, node, out);

	(void)name;
	if (status != WEIR_OK || !carried_parse(*out, &carried))
		return status;
	return carry(reader, node, &carried);
}
