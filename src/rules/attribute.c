/*
 * attribute.c: checks the names of attributes that rules use, and lists those that a proxy forwards
 * from its visitor's request (header.NAME and others), so that protocols read only these.
 */
#include "rules/attribute.h"

#include <ctype.h>

#include "base/error.h"

/* Whether a header can have this name (RFC 9110). */
static bool is_header_name(struct slice text)
{
	for (size_t i = 0; i < text.len; i++)
		if (!isalnum((unsigned char)text.data[i]) && !memchr("!#$%&'*+-.^_`|~", text.data[i], 15))
			return false;
	return text.len > 0;
}

/* Adds an attribute to config->forwarded once. Returns 0, EINVAL if the list is full, or ENOMEM. */
static int add_forwarded(struct weir_config *config, const struct forwarded_attribute *forwarded,
                         struct weir_error *error)
{
	struct forwarded_list *list = &config->forwarded;
	struct forwarded_attribute *items =
	    (struct forwarded_attribute *)list->items; /* const only for readers */

	for (size_t i = 0; i < list->count; i++)
		if (strcmp(items[i].attribute, forwarded->attribute) == 0)
			return WEIR_OK;
	if (list->count == FORWARDED_MAX)
		return error_set(error, WEIR_EINVAL,
		                 "expected at most %d attributes header.NAME, cookie.NAME and query.NAME "
		                 "in all rules, found \"%s\"",
		                 FORWARDED_MAX, forwarded->attribute);
	if (!items)
		list->items = items = arena_array(&config->arena, FORWARDED_MAX, sizeof *items);
	if (!items)
		return error_set(error, WEIR_ENOMEM, "%s", weir_strerror(WEIR_ENOMEM));
	items[list->count++] = *forwarded;
	return WEIR_OK;
}

int attribute_use(struct weir_config *config, const char *attribute, struct weir_error *error)
{
	struct forwarded_attribute forwarded;

	if (!forwarded_parse(attribute, &forwarded))
		return WEIR_OK;
	if (forwarded.in == FORWARDED_FROM_HEADER ? !is_header_name(forwarded.name)
	                                          : forwarded.name.len == 0)
		return error_set(error, WEIR_EINVAL,
		                 "expected header.NAME, cookie.NAME or query.NAME, found \"%s\"",
		                 attribute);
	return add_forwarded(config, &forwarded, error);
}
