/* rule.c: `rules:`, a list of what applies to which requests. */
#include <stdio.h>

#include "readers/read.h"
#include "rules/show.h"

/* A rule counts by limits or answers by itself; each kind has its own keys. */
enum { BY_LIMITS = 1, BY_ANSWER = 2 };

static const struct word modes[] = {{"enforce", RULES_ENFORCE}, {"shadow", RULES_SHADOW}, {0}};

const struct word read_switches[] = {
    {"true", RULES_YES}, {"false", RULES_NO}, {"yes", RULES_YES}, {"no", RULES_NO}, {0}};

static const struct word answers[] = {{"allow", RULES_ALLOW}, {"deny", RULES_DENY}, {0}};

struct name_list {
	const char *what, *expected;
	int (*read)(struct reader *reader, const yaml_node_t *node, const char **out);
};

static const struct name_list attribute_list = {"attribute", "a list of attributes such as [ip]",
                                                read_attribute};
static const struct name_list limit_list = {"limit", "a list of limits such as [login]", node_name};

/* A list of names, each once: sorted in *names, their texts in the order of the file in *texts. */
static int read_names(struct reader *reader, const yaml_node_t *value, const struct name_list *list,
                      struct node_name **names, const char ***texts)
{
	struct arena *arena = &reader->config->arena;
	int status = node_expect(reader, value, YAML_SEQUENCE_NODE, list->expected);
	size_t count;

	if (status != WEIR_OK)
		return status;
	count = node_item_count(value);
	if (count == 0)
		return node_error(reader, value, "expected at least one %s, found an empty list",
		                  list->what);
	*names = arena_array(arena, count, sizeof **names);
	*texts = arena_array(arena, count, sizeof **texts);
	if (!*names || !*texts)
		return node_no_memory(reader);
	for (size_t i = 0; i < count && status == WEIR_OK; i++) {
		const yaml_node_t *item = node_at(reader, value->data.sequence.items.start[i]);

		status = list->read(reader, item, &(*texts)[i]);
		if (status == WEIR_OK)
			(*names)[i] = (struct node_name){node_slice(item), item, i};
	}
	return status == WEIR_OK ? node_names_sort(reader, *names, count, list->what) : status;
}

static int read_key(struct reader *reader, const struct node_key *key, const yaml_node_t *value,
                    void *field)
{
	struct rules_rule *rule = field;
	struct node_name *names;
	const char **texts;
	int status = read_names(reader, value, &attribute_list, &names, &texts);

	(void)key;
	if (status == WEIR_OK) {
		rule->key = texts;
		rule->key_count = node_item_count(value);
	}
	return status;
}

static int unknown_limit(struct reader *reader, const yaml_node_t *node)
{
	struct node_words known = {0};

	for (size_t i = 0; i < reader->config->limit_count; i++)
		node_words_add(&known, reader->limits[i].text);
	return node_error(reader, node, "expected the name of a limit (%s), found %s",
	                  known.len ? known.text : "there are none", node_found(node).text);
}

static int read_rule_limits(struct reader *reader, const struct node_key *key,
                            const yaml_node_t *value, void *field)
{
	struct rules_rule *rule = field;
	struct node_name *names;
	const char **texts;
	size_t *limits, count;
	int status = read_names(reader, value, &limit_list, &names, &texts);

	(void)key;
	if (status != WEIR_OK)
		return status;
	count = node_item_count(value);
	limits = arena_array(&reader->config->arena, count, sizeof *limits);
	if (!limits)
		return node_no_memory(reader);
	for (size_t i = 0; i < count; i++) {
		const struct node_name *limit =
		    node_names_find(reader->limits, reader->config->limit_count, names[i].text);

		if (!limit)
			return unknown_limit(reader, names[i].node);
		limits[names[i].index] = limit->index;
	}
	rule->limits = limits;
	rule->limit_count = count;
	return WEIR_OK;
}

static int read_rule_name(struct reader *reader, const struct node_key *key,
                          const yaml_node_t *value, void *field)
{
	(void)key;
	return node_name(reader, value, field);
}

enum { RULE_NAME, RULE_ON_STORE_FAILURE, RULE_IPV6_PREFIX, RULE_PATH_VARIANTS };

#define FIELD(name) offsetof(struct rules_rule, name)

static const struct node_key rule_keys[] = {
    [RULE_NAME] = {"name", read_rule_name, FIELD(name)},
    [RULE_ON_STORE_FAILURE] = {"on_store_failure", node_word, FIELD(on_store_failure), BY_LIMITS,
                               .words = rules_failures},
    [RULE_IPV6_PREFIX] = {"ipv6_prefix", node_number, FIELD(ipv6_prefix), BY_LIMITS, .min = 1,
                          .max = 128},
    [RULE_PATH_VARIANTS] = {"path_variants", node_word, FIELD(path_variants),
                            .words = read_switches},
    {"match", read_match},
    {"key", read_key, .variants = BY_LIMITS},
    {"limits", read_rule_limits, .variants = BY_LIMITS},
    {"answer", node_word, FIELD(answer), BY_ANSWER, .words = answers},
    {"mode", node_word, FIELD(mode), .words = modes},
    {"result", read_result, FIELD(result)},
};

#define RULE_KEYS (sizeof rule_keys / sizeof *rule_keys)

static bool has_in_key(const struct rules_rule *rule, const char *attribute)
{
	for (size_t i = 0; i < rule->key_count; i++)
		if (strcmp(rule->key[i], attribute) == 0)
			return true;
	return false;
}

static bool has_in_match(const struct rules_rule *rule, const char *attribute)
{
	for (size_t i = 0; i < rule->condition_count; i++)
		if (strcmp(rule->conditions[i].attribute, attribute) == 0)
			return true;
	return false;
}

/* Keys that say something about another, which must be there. */
static int check_companions(struct reader *reader, const struct rules_rule *rule,
                            const yaml_node_t *const values[])
{
	if (values[RULE_IPV6_PREFIX] && !has_in_key(rule, "ip"))
		return node_error(reader, values[RULE_IPV6_PREFIX],
		                  "expected ip in the key beside ipv6_prefix, found none");
	if (values[RULE_PATH_VARIANTS] && !has_in_match(rule, "path") && !has_in_key(rule, "path"))
		return node_error(reader, values[RULE_PATH_VARIANTS],
		                  "expected path in match or key beside path_variants, found none");
	return WEIR_OK;
}

static int read_rule(struct reader *reader, const yaml_node_t *node, size_t index,
                     struct rules_rule *rule, struct node_name *name)
{
	static const struct node_table by_limits = {"a rule with limits", rule_keys, RULE_KEYS};
	static const struct node_table by_answer = {"a rule with an answer", rule_keys, RULE_KEYS};
	const yaml_node_t *values[NODE_KEYS_MAX];
	char unnamed[32];
	bool answers_itself;
	int status = node_expect(reader, node, YAML_MAPPING_NODE,
	                         "a rule such as { key: [ip], limits: [login] }");

	if (status != WEIR_OK)
		return status;
	answers_itself = node_find(reader, node, "answer") != NULL;
	if (!answers_itself && !node_find(reader, node, "limits"))
		return node_error(reader, node, "expected limits or answer in a rule, found neither");
	status = node_mapping(reader, node, answers_itself ? &by_answer : &by_limits,
	                      answers_itself ? BY_ANSWER : BY_LIMITS, rule, values);
	if (status == WEIR_OK)
		status = check_companions(reader, rule, values);
	if (status != WEIR_OK)
		return status;
	rule->has_on_store_failure = values[RULE_ON_STORE_FAILURE] != NULL;
	if (!rule->name) {
		snprintf(unnamed, sizeof unnamed, "rule-%zu", index + 1);
		rule->name = arena_copy(&reader->config->arena, slice_of(unnamed));
		if (!rule->name)
			return node_no_memory(reader);
	}
	*name = (struct node_name){slice_of(rule->name), values[RULE_NAME] ? values[RULE_NAME] : node,
	                           index};
	return WEIR_OK;
}

int read_rules(struct reader *reader, const struct node_key *key, const yaml_node_t *value,
               void *field)
{
	struct weir_config *config = reader->config;
	struct rules_rule *rules;
	struct node_name *names;
	size_t count;
	int status = node_expect(reader, value, YAML_SEQUENCE_NODE, "a list of rules");

	(void)key;
	(void)field;
	if (status != WEIR_OK)
		return status;
	count = node_item_count(value);
	rules = arena_array(&config->arena, count, sizeof *rules);
	names = arena_array(&config->arena, count, sizeof *names);
	if (!rules || !names)
		return node_no_memory(reader);
	for (size_t i = 0; i < count && status == WEIR_OK; i++)
		status = read_rule(reader, node_at(reader, value->data.sequence.items.start[i]), i,
		                   &rules[i], &names[i]);
	config->rules = rules;
	config->rule_count = count;
	if (status == WEIR_OK)
		status = read_shared_limits(reader, names);
	return status == WEIR_OK ? node_names_sort(reader, names, count, "rule") : status;
}
