/*
 * read_attribute.c: reads the names of request attributes that rules use, and warns of names that
 * are probably misspelled.
 */
#include <ctype.h>
#include <stdio.h>

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

/* Spellings of forwarded attributes in other programs, such as nginx's $http_x_api_key. */
static const struct {
	const char *prefix;
	bool is_header; /* whose name may have '_' in place of '-', and letters of any case */
	const char *meant;
} prefixes[] = {
    {"header.", true, "header."},   {"cookie.", false, "cookie."}, {"query.", false, "query."},
    {"headers.", true, "header."},  {"header-", true, "header."},  {"header:", true, "header."},
    {"http_x_", true, "header.x-"}, {"x-", true, "header.x-"},     {"cookies.", false, "cookie."},
    {"cookie_", false, "cookie."},  {"cookie:", false, "cookie."}, {"queries.", false, "query."},
    {"query:", false, "query."},    {"args.", false, "query."},    {"arg_", false, "query."},
    {"params.", false, "query."},   {"param.", false, "query."},
};

/* Names that stand for other attributes: headers, and variables of proxies. */
static const struct {
	const char *name, *meant;
} synonyms[] = {
    {"x-forwarded-for", "ip"},
    {"x-real-ip", "ip"},
    {"remote_addr", "ip"},
    {"binary_remote_addr", "ip"},
    {"x-forwarded-host", "host"},
    {"http_host", "host"},
    {"x-forwarded-uri", "path"},
    {"x-original-uri", "path"},
    {"request_uri", "path"},
    {"document_uri", "path"},
    {"x-forwarded-method", "method"},
    {"request_method", "method"},
    {"authorization", "header.authorization"},
    {"http_authorization", "header.authorization"},
    {"user-agent", "header.user-agent"},
    {"http_user_agent", "header.user-agent"},
    {"referer", "header.referer"},
    {"http_referer", "header.referer"},
    {"content-type", "header.content-type"},
    {"accept-language", "header.accept-language"},
    {"cf-connecting-ip", "ip"},
    {"true-client-ip", "ip"},
};

/* Returns the attribute that the name of a header, cookie or parameter means, or NULL. */
static const char *find_meant(struct slice name, char text[RULES_NAME_MAX + sizeof "header."])
{
	for (size_t i = 0; i < sizeof synonyms / sizeof *synonyms; i++)
		if (slice_equal_nocase(name, slice_of(synonyms[i].name)))
			return synonyms[i].meant;
	for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
		struct slice prefix = slice_of(prefixes[i].prefix);
		size_t begin = strlen(prefixes[i].meant);

		if (name.len <= prefix.len ||
		    !slice_equal_nocase((struct slice){name.data, prefix.len}, prefix))
			continue;
		snprintf(text, RULES_NAME_MAX + sizeof "header.", "%s%.*s", prefixes[i].meant,
		         (int)(name.len - prefix.len), name.data + prefix.len);
		for (char *c = text + begin; *c && prefixes[i].is_header; c++)
			*c = *c == '_' ? '-' : (char)tolower((unsigned char)*c);
		return text;
	}
	return NULL;
}

/* Warns of a name that no route gives to an attribute, unless callers send it. */
static int warn_of_missing_prefix(struct reader *reader, const yaml_node_t *node, const char *meant)
{
	return node_warning(
	    reader, node,
	    "expected an attribute that callers send, found %s If callers send it, list "
	    "it in `attributes`",
	    node_found_near(node, meant).text);
}

static int warn_of_misspelling(struct reader *reader, const yaml_node_t *node, const char *name)
{
	const struct weir_config *config = reader->config;
	struct forwarded_attribute forwarded;
	char text[RULES_NAME_MAX + sizeof "header."];
	bool is_known, is_forwarded;
	const char *similar = find_similar(config, name, &is_known);
	const char *meant = find_meant(slice_of(name), text);

	is_forwarded = forwarded_parse(name, &forwarded); /* such as header.NAME, with any name */
	if (is_known || is_forwarded)
		return WEIR_OK;
	if (meant)
		return warn_of_missing_prefix(reader, node, meant);
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
