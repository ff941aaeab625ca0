/*
 * read_rule.c: parses and prints `rules:` of a rule file in YAML. A rule says to which requests it
 * applies, and then either by which limits they count or what answers them.
 */
#include <stdio.h>

#include "algo/parameter.h"
#include "algo/priority/priority.h"
#include "base/text/misspelling.h"
#include "readers/yaml/read.h"
#include "rules/scalar.h"
#include "rules/show.h"

/*
 * The variants of a rule, as bits that say which keys it may have. Only with `order: first` may a
 * rule have limits and an answer: then a request within the limits is not passed to later rules.
 */
enum { WITH_LIMITS = 1, WITH_ANSWER = 2, WITH_BOTH = 4, WITH_ANY_LIMITS = WITH_LIMITS | WITH_BOTH };

static const struct word modes[] = {
    {"enforce", RULES_ENFORCE},      {"shadow", RULES_SHADOW},
    {"dry-run", RULES_SHADOW, true}, {"dry_run", RULES_SHADOW, true},
    {"dryrun", RULES_SHADOW, true},  {"log", RULES_SHADOW, true},
    {"monitor", RULES_SHADOW, true}, {0}};

const struct word read_switches[] = {
    {"yes", RULES_YES}, {"no", RULES_NO}, {"true", RULES_YES}, {"false", RULES_NO}, {0}};

static const struct word answers[] = {{"allow", RULES_ALLOW}, {"deny", RULES_DENY}, {0}};

static const struct node_items attributes = {.type = YAML_SEQUENCE_NODE,
                                             .expected = "a list of attributes such as [ip]",
                                             .item_name = "attribute",
                                             .size = sizeof(const char *),
                                             .required = true,
                                             .read = read_attribute,
                                             .print = read_print_name};

static int report_unknown_limit(struct reader *reader, const yaml_node_t *node)
{
	struct phrase known = {0};
	char probable[RULES_NAME_MAX + 1] = "";

	for (size_t i = 0; i < reader->config->limit_count; i++) {
		struct slice name = reader->limits[i].text;

		phrase_add(&known, name);
		if (!*probable && name.len < sizeof probable && is_misspelling(node_slice(node), name))
			snprintf(probable, sizeof probable, "%.*s", (int)name.len, name.data);
	}
	return node_error(reader, node, "expected the name of a limit (%s), found %s",
	                  known.len ? known.text : "there are none",
	                  node_found_near(node, *probable ? probable : NULL).text);
}

/*
 * Reads a limit's name, which the caller has put into name->text, and stores the index of the
 * limit, a size_t. Without limits that could be read, no name is looked up.
 */
static int read_limit_name(struct reader *reader, struct node_name *name, const yaml_node_t *node,
                           void *element)
{
	const char *unused;
	int status = node_name(reader, node, &unused); /* an error unless the node is a name */
	const struct node_name *limit;

	if (status != WEIR_OK || reader->limits_unreadable)
		return status;
	limit = node_names_find(reader->limits, reader->config->limit_count, name->text);
	if (!limit)
		return report_unknown_limit(reader, node);
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
                                              .item_name = "limit",
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

/* Reads two numbers, such as `feedback: [2, 4]`. */
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
                           const void *field, const void *default_value)
{
	const uint64_t *numbers = field;

	(void)key;
	(void)default_value;
	buffer_printf(printer->out, "[%llu, %llu]", (unsigned long long)numbers[0],
	              (unsigned long long)numbers[1]);
	return numbers[0] || numbers[1];
}

static const struct node_kind name_kind = {read_rule_name, node_print_text};
static const struct node_kind feedback_kind = {read_feedback, print_feedback};

enum { RULE_NAME, RULE_ANSWER, RULE_IPV6_PREFIX, RULE_PATH_VARIANTS };

#define FIELD(name)            offsetof(struct rules_rule, name)
#define ARRAY(elements, count) NODE_ARRAY(struct rules_rule, elements, count)

static const struct node_key rule_keys[] = {
    [RULE_NAME] = {"name", &name_kind, FIELD(name)},
    [RULE_ANSWER] = {"answer", &node_word, FIELD(answer), WITH_ANSWER | WITH_BOTH,
                     .words = answers},
    [RULE_IPV6_PREFIX] = {"ipv6_prefix", &node_number, FIELD(ipv6_prefix), WITH_ANY_LIMITS,
                          .min = 1, .max = 128},
    [RULE_PATH_VARIANTS] = {"path_variants", &node_word, FIELD(path_variants),
                            .words = read_switches},
    {"match", &read_match_kind, ARRAY(conditions, condition_count)},
    {"key", &node_list, ARRAY(key, key_count), WITH_ANY_LIMITS, .items = &attributes},
    {"limits", &node_list, ARRAY(limits, limit_count), WITH_ANY_LIMITS, .items = &limit_names},
    {"mode", &node_word, FIELD(mode), .words = modes},
    {"on_store_failure", &node_word, FIELD(on_store_failure), WITH_ANY_LIMITS,
     .presence_flag = FIELD(has_on_store_failure), .words = rules_failures},
    {"priority", &node_number, FIELD(priority), WITH_ANY_LIMITS,
     .presence_flag = FIELD(has_priority), .max = PRIORITY_LOWEST},
    {"ip_numbers", &node_word, FIELD(ip_numbers), .words = read_switches},
    {"feedback", &feedback_kind, FIELD(feedback), WITH_ANY_LIMITS, .max = ALGO_COUNT_MAX},
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

/* Refuses a key whose effect depends on another one that the rule lacks, or that contradicts it. */
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

/* Whether the mapping has a key that was probably meant to be `name`. */
static bool has_misspelled_key(struct reader *reader, const yaml_node_t *node, const char *name)
{
	const yaml_node_pair_t *pairs = node->data.mapping.pairs.start;

	for (size_t i = 0; i < node_pair_count(node); i++)
		if (is_misspelling(node_slice(node_at(reader, pairs[i].key)), slice_of(name)))
			return true;
	return false;
}

/*
 * Returns 0 if the rule has neither limits nor an answer. With both, without `order: first`, it is
 * WITH_ANSWER, so that `limits` is reported as an unknown key.
 */
static unsigned rule_variant(struct reader *reader, const yaml_node_t *node)
{
	bool answer = node_find_value(reader, node, "answer"),
	     limits = node_find_value(reader, node, "limits");

	if (answer && limits && reader->config->order == RULES_FIRST)
		return WITH_BOTH;
	if (answer)
		return WITH_ANSWER;
	/* A misspelled `limits` counts, so that it is reported as misspelled and not as missing. */
	return limits || has_misspelled_key(reader, node, "limits") ? WITH_LIMITS : 0;
}

static int read_rule(struct reader *reader, struct node_name *name, const yaml_node_t *node,
                     void *element)
{
	static const struct node_table tables[] = {
	    [WITH_LIMITS] = {"a rule with limits", rule_keys, RULE_KEYS},
	    [WITH_ANSWER] = {"a rule with an answer", rule_keys, RULE_KEYS},
	    [WITH_BOTH] = {"a rule with limits and an answer", rule_keys, RULE_KEYS}};
	struct rules_rule *rule = element;
	const yaml_node_t *values[NODE_KEYS_MAX];
	char default_name[32];
	unsigned variant;
	int status = node_check_type(reader, node, YAML_MAPPING_NODE,
	                             "a rule such as { key: [ip], limits: [login] }");

	if (status != WEIR_OK)
		return status;
	variant = rule_variant(reader, node);
	if (variant == 0)
		return node_error(reader, node, "expected limits or answer in a rule, found neither");
	status = node_mapping(reader, node, &tables[variant], variant, rule, values)
	             ?: check_companions(reader, rule, values);
	if (status != WEIR_OK)
		return status;
	if (!rule->name) {
		snprintf(default_name, sizeof default_name, "rule-%zu", name->index + 1);
		rule->name = arena_copy(&reader->config->arena, slice_of(default_name));
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
	/* Without readable limits the rules have no indexes of limits to check. */
	if (status == WEIR_OK && !reader->limits_unreadable)
		status = warn_of_shared_limits(reader, names) ?: warn_of_unused_limits(reader);
	if (status != WEIR_OK)
		return status;
	/* Sorting them finds a name that stands twice. */
	return node_names_sort(reader, names, array->count, "rule");
}

static bool print_rules(const struct printer *printer, const struct node_key *key,
                        const void *field, const void *default_value)
{
	static const struct node_table table = {"a rule", rule_keys, RULE_KEYS};
	static const struct rules_rule none;
	const struct node_array *array = field;
	const struct rules_rule *rules = array->elements;

	(void)key;
	(void)default_value;
	for (size_t i = 0; i < array->count; i++) {
		buffer_add_text(printer->out, "\n  - ");
		node_print(printer,
		           &(struct node_object){&table, WITH_ANY_LIMITS | WITH_ANSWER, &rules[i], &none},
		           "\n    ");
	}
	return array->count > 0;
}

const struct node_kind read_rules_kind = {read_rules, print_rules};
