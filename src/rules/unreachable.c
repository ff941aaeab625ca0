/*
 * unreachable.c: warns of rules that decide nothing, because no request meets their conditions, or
 * because an earlier rule answers all that they would.
 */
#include "rules/unreachable.h"

#include "rules/remark.h"

/*
 * Comparisons of values, over all rules (`comparisons` counts them). After so many the rest is not
 * compared: these are only warnings.
 */
#define COMPARISONS_MAX 5000000

/* Returns the numbers that the value matches: a range, or a single number. False if it has none. */
static bool get_numbers(const struct rules_value *value, struct rules_numbers *out)
{
	*out = value->numbers;
	if (value->test != RULES_EQUAL)
		return value->test == RULES_NUMBERS;
	if (!parse_i64(value->text, &out->first))
		return false;
	out->last = out->first;
	return true;
}

/* Whether certainly no value of an attribute matches both. */
static bool values_exclude(const struct rules_value *a, const struct rules_value *b)
{
	struct rules_numbers left, right;

	if (a->test == RULES_EQUAL && b->test == RULES_EQUAL)
		return !slice_equal(a->text, b->text);
	return get_numbers(a, &left) && get_numbers(b, &right) &&
	       (left.last < right.first || right.last < left.first);
}

static bool same_value(const struct rules_value *a, const struct rules_value *b)
{
	return a->test == b->test && slice_equal(a->text, b->text);
}

/* Whether `outer` has each value of `values`, in the same words. */
static bool has_all_values(const struct rules_condition *outer,
                           const struct rules_condition *values, size_t *comparisons)
{
	for (size_t i = 0; i < values->value_count; i++) {
		bool found = false;

		for (size_t j = 0; j < outer->value_count && !found && ++*comparisons <= COMPARISONS_MAX;
		     j++)
			found = same_value(&values->values[i], &outer->values[j]);
		if (!found)
			return false;
	}
	return true;
}

/* Whether two conditions are on one attribute, and certainly no value of it meets both. */
static bool conditions_exclude(const struct rules_condition *a, const struct rules_condition *b,
                               size_t *comparisons)
{
	if ((a->negated && b->negated) || strcmp(a->attribute, b->attribute) != 0)
		return false;
	if (a->negated || b->negated)
		return a->negated ? has_all_values(a, b, comparisons) : has_all_values(b, a, comparisons);
	for (size_t i = 0; i < a->value_count; i++)
		for (size_t j = 0; j < b->value_count; j++)
			if (++*comparisons > COMPARISONS_MAX || !values_exclude(&a->values[i], &b->values[j]))
				return false;
	return true;
}

/* Whether the condition excludes every value. */
static bool matches_no_value(const struct rules_condition *condition)
{
	for (size_t i = 0; i < condition->value_count && condition->negated; i++)
		if (condition->values[i].test == RULES_ANY)
			return true;
	return false;
}

/* Returns a condition that no request meets together with those before it, or NULL. */
static const struct rules_condition *find_impossible(const struct rules_rule *rule,
                                                     size_t *comparisons)
{
	for (size_t i = 0; i < rule->condition_count; i++) {
		if (matches_no_value(&rule->conditions[i]))
			return &rule->conditions[i];
		for (size_t j = 0; j < i; j++)
			if (conditions_exclude(&rule->conditions[i], &rule->conditions[j], comparisons))
				return &rule->conditions[i];
	}
	return NULL;
}

static bool same_condition(const struct rules_condition *a, const struct rules_condition *b,
                           size_t *comparisons)
{
	if (a->negated != b->negated || a->value_count != b->value_count ||
	    strcmp(a->attribute, b->attribute) != 0)
		return false;
	for (size_t i = 0; i < a->value_count; i++)
		if (++*comparisons > COMPARISONS_MAX || !same_value(&a->values[i], &b->values[i]))
			return false;
	return true;
}

/* Whether each request that meets `rule` meets `first`, too. */
static bool matches_at_least(const struct rules_rule *first, const struct rules_rule *rule,
                             size_t *comparisons)
{
	/* They must read paths and addresses in the same way, or equal conditions may differ. */
	if (first->path_variants != rule->path_variants || first->ip_numbers != rule->ip_numbers)
		return false;
	for (size_t i = 0; i < first->condition_count; i++) {
		bool found = false;

		for (size_t j = 0; j < rule->condition_count && !found && ++*comparisons <= COMPARISONS_MAX;
		     j++)
			found = same_condition(&first->conditions[i], &rule->conditions[j], comparisons);
		if (!found)
			return false;
	}
	return true;
}

/* Returns a rule before number `n` that answers all requests that rule `n` would, or NULL. */
static const struct rules_rule *find_answering_rule(const struct weir_config *config, size_t n,
                                                    size_t *comparisons)
{
	for (size_t i = 0; i < n && ++*comparisons <= COMPARISONS_MAX; i++) {
		const struct rules_rule *first = &config->rules[i];

		if (first->limit_count == 0 && first->mode == RULES_ENFORCE &&
		    matches_at_least(first, &config->rules[n], comparisons))
			return first;
	}
	return NULL;
}

int rules_warn_of_unreachable(struct weir_config *config)
{
	size_t comparisons = 0;
	int status = WEIR_OK;

	for (size_t i = 0;
	     i < config->rule_count && status == WEIR_OK && comparisons <= COMPARISONS_MAX; i++) {
		const struct rules_rule *rule = &config->rules[i], *first = NULL;
		const struct rules_condition *never = find_impossible(rule, &comparisons);

		if (never)
			status = remark_add(config, REMARK_WARNING(rule->file, never->line, never->column),
			                    "expected conditions that a request can meet, found %s in rule "
			                    "\"%s\"",
			                    matches_no_value(never) ? "one that no value meets"
			                                            : "ones that exclude each other",
			                    rule->name);
		else if (config->order == RULES_FIRST &&
		         (first = find_answering_rule(config, i, &comparisons)))
			status = remark_add(config, REMARK_WARNING(rule->file, rule->line, rule->column),
			                    "expected requests to reach rule \"%s\", found \"%s\" before it, "
			                    "which answers all of them",
			                    rule->name, first->name);
	}
	return status;
}
