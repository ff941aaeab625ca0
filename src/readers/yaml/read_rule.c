/* read_rule.c: parses `rules:`, a list of rules with the requests that they apply to. */
#include <stdio.h>

#include "algo/parameter.h"
#include "algo/priority/priority.h"
#include "base/text/misspelling.h"
#include "readers/yaml/read.h"
#include "rules/scalar.h"
#include "rules/show.h"

/*
 * A rule counts by limits or answers by itself; each kind has its own keys. With `order: first` a
 * rule that counts may end the search.
 */
enum { BY_LIMITS = 1, BY_ANSWER = 2, BY_BOTH = 4, COUNTS = BY_LIMITS | BY_BOTH };

static const struct word modes[] = {{"enforce", RULES_ENFORCE}, {"shadow", RULES_SHADOW}, {0}};

const struct word read_switches[] = {
    {"yes", RULES_YES}, {"no", RULES_NO}, {"true", RULES_YES}, {"false", RULES_NO}, {0}};

static const struct word answers[] = {{"allow", RULES_ALLOW}, {"deny", RULES_DENY}, {0}};

static const struct node_items attributes = {.type = YAML_SEQUENCE_NODE,
                                             .expected = "a list of attributes such as [ip]",
                                             .each = "attribute",
                                             .size = sizeof(const char *),
                                             .required = true,
                                             .read = read_attribute,
                                             .print = read_print_name};

static int unknown_limit(struct reader *reader, const yaml_node_t *node)
{
	struct phrase known = {0};
	char near[RULES_NAME_MAX + 1] = "";

	for (size_t i = 0; i < reader->config->limit_count; i++) {
		struct slice name = reader->limits[i].text;

		phrase_add(&known, name);
		if (!*near && name.len < sizeof near && is_misspelling(node_slice(node), name))
			snprintf(near, sizeof near, "%.*s", (int)name.len, name.data);
	}
	return node_error(reader, node, "expected the name of a limit (%s), found %s",
	                  known.len ? known.text : "there are none",
	                  node_found_near(node, *near ? near : NULL).text);
}

/* Into the limit's index. */
static int read_limit_name(struct reader *reader, struct node_name *name, const yaml_node_t *node,
                           void *element)
{
	const char *text;
	int status = node_name(reader, node, &text);
	const struct node_name *limit;

	if (status != WEIR_OK || reader->limits_unknown)
		return status;
	limit = node_names_find(reader->limits, reader->config->limit_count, name->text);
	if (!limit)
		return unknown_limit(reader, node);
	*(size_t *)element = limit->index;
	return WEIR_OK;
}

static void print_limit_name(const struct printer *printer, const void *element)
{
	const struct rules_limit *limit = &printer->config->limits[*(const size_t *)element];

	scalar_add(printer->out, slice_of(limit->options.name));
}

static const struct node_items limit_names = {.type = YAML_SEQUENCE_NODE,
                                              .expected = "a list of limits such as [login]",
                                              .each = "limit",
                                              .size = sizeof(size_t),
                                              .required = true,
                                              .read = read_limit_name,
                                              .print = print_limit_name};

static int read_rule_name(struct reader *reader, const struct node_key *key,
                          const yaml_node_t *value, void *field)
{
	(void)key;
	return node_name(reader, value, field);
}

/* feedback: [2, 4] */
static int read_feedback(struct reader *reader, const struct node_key *key,
                         const yaml_node_t *value, void *field)
{
	uint64_t *numbers = field;
	int status = WEIR_OK;

	if (value->type != YAML_SEQUENCE_NODE || node_item_count(value) != 2)
		return node_expected(reader, value, "two numbers such as [2, 4]");
	for (size_t i = 0; i < 2 && status == WEIR_OK; i++)
		status = node_read_number(reader, key, node_at(reader, value->data.sequence.items.start[i]),
		                     &numbers[i]);
	return status;
}

static bool print_feedback(const struct printer *printer, const struct node_key *key,
                           const void *field, const void *otherwise)
{
	const uint64_t *numbers = field;

	(void)key;
	(void)otherwise;
	buffer_printf(printer->out, "[%llu, %llu]", (unsigned long long)numbers[0],
	              (unsigned long long)numbers[1]);
	return numbers[0] || numbers[1];
}

static const struct node_kind name_kind = {read_rule_name, node_print_text};
static const struct node_kind feedback_kind = {read_feedback, print_feedback};

enum { RULE_NAME, RULE_ANSWER, RULE_IPV6_PREFIX, RULE_PATH_VARIANTS };

#define FIELD(name) offsetof(struct rules_rule, name)
#define ARRAY(elements, count) NODE_ARRAY(struct rules_rule, elements, count)

static const struct node_key rule_keys[] = {
    [RULE_NAME] = {"name", &name_kind, FIELD(name)},
    [RULE_ANSWER] = {"answer", &node_word, FIELD(answer), BY_ANSWER | BY_BOTH, .words = answers},
    [RULE_IPV6_PREFIX] = {"ipv6_prefix", &node_number, FIELD(ipv6_prefix), COUNTS, .min = 1,
                          .max = 128},
    [RULE_PATH_VARIANTS] = {"path_variants", &node_word, FIELD(path_variants),
                            .words = read_switches},
    {"match", &read_match_kind, ARRAY(conditions, condition_count)},
    {"key", &node_list, ARRAY(key, key_count), COUNTS, .items = &attributes},
    {"limits", &node_list, ARRAY(limits, limit_count), COUNTS, .items = &limit_names},
    {"mode", &node_word, FIELD(mode), .words = modes},
    {"on_store_failure", &node_word, FIELD(on_store_failure), COUNTS,
     .has = FIELD(has_on_store_failure), .words = rules_failures},
    {"priority", &node_number, FIELD(priority), COUNTS, .has = FIELD(has_priority),
     .max = PRIORITY_LOWEST},
    {"ip_numbers", &node_word, FIELD(ip_numbers), .words = read_switches},
    {"feedback", &feedback_kind, FIELD(feedback), COUNTS, .max = ALGO_COUNT_MAX},
    {"result", &read_result_kind, FIELD(result)},
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
	if (values[RULE_ANSWER] && rule->limit_count > 0 && rule->answer == RULES_DENY)
		return node_expected(reader, values[RULE_ANSWER], "allow beside limits");
	return WEIR_OK;
}

static bool has_near(struct reader *reader, const yaml_node_t *node, const char *name)
{
	const yaml_node_pair_t *pairs = node->data.mapping.pairs.start;

	for (size_t i = 0; i < node_pair_count(node); i++)
		if (is_misspelling(node_slice(node_at(reader, pairs[i].key)), slice_of(name)))
			return true;
	return false;
}

/*
 * In a rule with limits and an answer, the answer is a mistake unless `order` gives it a meaning.
 */
static unsigned kind_of(struct reader *reader, const yaml_node_t *node)
{
	bool answer = node_find(reader, node, "answer"), counts = node_find(reader, node, "limits");

	if (answer && counts && reader->config->order == RULES_FIRST)
		return BY_BOTH;
	/* A slip of the name is told as such. */
	return answer ? BY_ANSWER : counts || has_near(reader, node, "limits") ? BY_LIMITS : 0;
}

static int read_rule(struct reader *reader, struct node_name *name, const yaml_node_t *node,
                     void *element)
{
	static const struct node_table kinds[] = {
	    [BY_LIMITS] = {"a rule with limits", rule_keys, RULE_KEYS},
	    [BY_ANSWER] = {"a rule with an answer", rule_keys, RULE_KEYS},
	    [BY_BOTH] = {"a rule with limits and an answer", rule_keys, RULE_KEYS}};
	struct rules_rule *rule = element;
	const yaml_node_t *values[NODE_KEYS_MAX];
	char unnamed[32];
	unsigned kind;
	int status = node_expect(reader, node, YAML_MAPPING_NODE,
	                         "a rule such as { key: [ip], limits: [login] }");

	if (status != WEIR_OK)
		return status;
	kind = kind_of(reader, node);
	if (kind == 0)
		return node_error(reader, node, "expected limits or answer in a rule, found neither");
	status = node_mapping(reader, node, &kinds[kind], kind, rule, values) ?:
	         check_companions(reader, rule, values);
	if (status != WEIR_OK)
		return status;
	if (!rule->name) {
		snprintf(unnamed, sizeof unnamed, "rule-%zu", name->index + 1);
		rule->name = arena_copy(&reader->config->arena, slice_of(unnamed));
		if (!rule->name)
			return node_no_memory(reader);
	}
	name->text = slice_of(rule->name);
	name->node = values[RULE_NAME] ? values[RULE_NAME] : node;
	rule->file = reader->file;
	rule->line = (unsigned)name->node->start_mark.line + 1;
	rule->column = (unsigned)name->node->start_mark.column + 1;
	return WEIR_OK;
}

static int read_rules(struct reader *reader, const struct node_key *key, const yaml_node_t *value,
                      void *field)
{
	static const struct node_items rules = {.type = YAML_SEQUENCE_NODE,
	                                        .expected = "a list of rules",
	                                        .size = sizeof(struct rules_rule),
	                                        .read = read_rule};
	struct node_array *array = field;
	struct node_name *names;
	int status = node_items(reader, value, &rules, array, &names);

	(void)key;
	if (status == WEIR_OK && !reader->limits_unknown) /* else rules have no limits' indexes */
		status = read_shared_limits(reader, names) ?: read_unused_limits(reader);
	return status != WEIR_OK ? status : node_names_sort(reader, names, array->count, "rule");
}

static bool print_rules(const struct printer *printer, const struct node_key *key,
                        const void *field, const void *otherwise)
{
	static const struct node_table table = {"a rule", rule_keys, RULE_KEYS};
	static const struct rules_rule none;
	const struct node_array *array = field;
	const struct rules_rule *rules = array->elements;

	(void)key;
	(void)otherwise;
	for (size_t i = 0; i < array->count; i++) {
		buffer_add_text(printer->out, "\n  - ");
		node_print(printer, &(struct node_object){&table, COUNTS | BY_ANSWER, &rules[i], &none},
		           "\n    ");
	}
	return array->count > 0;
}

const struct node_kind read_rules_kind = {read_rules, print_rules};
