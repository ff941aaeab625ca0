/*
 * limit_use.c: warns of limits that rules with different keys share, or that no rule uses.
 *
 * A count belongs to a limit and a key's bytes. Where one rule counts API keys and another one
 * addresses, a visitor whose API key reads like an address uses up that address's count.
 */
#include <strings.h>

#include "readers/yaml/read.h"

/* Names of headers may differ in case. */
static bool same_attribute(const char *a, const char *b)
{
	struct forwarded_attribute left, right;

	return strcmp(a, b) == 0 || (forwarded_parse(a, &left) && left.in == FORWARDED_FROM_HEADER &&
	                             forwarded_parse(b, &right) && right.in == FORWARDED_FROM_HEADER &&
	                             strcasecmp(a, b) == 0);
}

static bool same_key(const struct rules_rule *a, const struct rules_rule *b)
{
	bool same = a->key_count == b->key_count;

	for (size_t i = 0; same && i < a->key_count; i++)
		same = same_attribute(a->key[i], b->key[i]);
	return same;
}

static struct phrase list_attributes(const struct rules_rule *rule)
{
	struct phrase words = {0};

	for (size_t i = 0; i < rule->key_count; i++)
		phrase_add(&words, slice_of(rule->key[i]));
	return words;
}

static int warn_of_other_key(struct reader *reader, const yaml_node_t *node, const char *limit,
                             const struct rules_rule *rule, const struct rules_rule *first)
{
	return node_warning(
	    reader, node,
	    "expected the rules of limit \"%s\" to have one key, found [%s] here and [%s] "
	    "in \"%s\": equal values share a count",
	    limit, list_attributes(rule).text, list_attributes(first).text, first->name);
}

int warn_of_shared_limits(struct reader *reader, const struct node_name *names)
{
	const struct weir_config *config = reader->config;
	const struct rules_rule **first_rules = /* the first rule of each limit */
	    arena_array(&reader->config->arena, config->limit_count, sizeof *first_rules);
	bool *warned = arena_array(&reader->config->arena, config->limit_count, sizeof *warned);
	int status = WEIR_OK;

	if (!first_rules || !warned)
		return node_no_memory(reader);
	for (size_t i = 0; i < config->rule_count; i++) {
		const struct rules_rule *rule = &config->rules[i];

		for (size_t j = 0; status == WEIR_OK && j < rule->limit_count; j++) {
			size_t limit = rule->limits[j];

			if (!first_rules[limit]) {
				first_rules[limit] = rule;
			} else if (!warned[limit] && !same_key(rule, first_rules[limit])) {
				warned[limit] = true; /* one warning for each limit */
				status =
				    warn_of_other_key(reader, names[i].node, config->limits[limit].options.name,
				                      rule, first_rules[limit]);
			}
		}
	}
	return status;
}

int warn_of_unused_limits(struct reader *reader)
{
	const struct weir_config *config = reader->config;
	bool *used = arena_array(&reader->config->arena, config->limit_count, sizeof *used);
	int status = WEIR_OK;

	if (!used)
		return node_no_memory(reader);
	if (config->rule_count == 0) /* then all calls name their limits */
		return WEIR_OK;
	for (size_t i = 0; i < config->rule_count; i++)
		for (size_t j = 0; j < config->rules[i].limit_count; j++)
			used[config->rules[i].limits[j]] = true;
	for (size_t i = 0; i < config->limit_count && status == WEIR_OK; i++) {
		const struct node_name *limit = &reader->limits[i]; /* sorted by name, not by index */

		if (!used[limit->index])
			status = node_warning(reader, limit->node,
			                      "expected a rule that uses the limit \"%.*s\", found none: only "
			                      "calls that name it count there",
			                      (int)limit->text.len, limit->text.data);
	}
	return status;
}
