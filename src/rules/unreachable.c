/* unreachable.c: compares the conditions of rules, and warns of rules that decide nothing. */
#include "rules/unreachable.h"

#include "rules/remark.h"

/* Comparisons of values; past them the rest is not looked at, for it is warnings only. */
#define WORK_MAX 5000000

static bool are_apart(const struct rules_value *a, const struct rules_value *b)
{
	struct rules_numbers range;
	bool is_number;

	if (a->test == RULES_EQUAL && b->test == RULES_EQUAL)
		return !slice_equal(a->text, b->text);
	if (a->test == RULES_EQUAL) {
		const struct rules_value *text = a;

		a = b;
		b = text;
	}
	if (a->test != RULES_NUMBERS)
		return false;
	range = b->numbers;
	is_number = b->test == RULES_NUMBERS;
	if (b->test == RULES_EQUAL && parse_i64(b->text, &range.first)) {
		range.last = range.first;
		is_number = true;
	}
	return is_number && (range.last < a->numbers.first || range.first > a->numbers.last);
}

static bool same_value(const struct rules_value *a, const struct rules_value *b)
{
	return a->test == b->test && slice_equal(a->text, b->text);
}

/* Whether `names` has each value of `values`, in the same words. */
static bool has_all(const struct rules_condition *names, const struct rules_condition *values,
                    size_t *work)
{
	for (size_t i = 0; i < values->value_count; i++) {
		bool found = false;

		for (size_t j = 0; j < names->value_count && !found && ++*work <= WORK_MAX; j++)
			found = same_value(&values->values[i], &names->values[j]);
		if (!found)
			return false;
	}
	return true;
}

/* Two conditions on one attribute of which no value meets both. */
static bool exclude(const struct rules_condition *a, const struct rules_condition *b, size_t *work)
{
	if ((a->negated && b->negated) || strcmp(a->attribute, b->attribute) != 0)
		return false;
	if (a->negated || b->negated)
		return a->negated ? has_all(a, b, work) : has_all(b, a, work);
	for (size_t i = 0; i < a->value_count; i++)
		for (size_t j = 0; j < b->value_count; j++)
			if (++*work > WORK_MAX || !are_apart(&a->values[i], &b->values[j]))
				return false;
	return true;
}

static bool is_nothing(const struct rules_condition *condition)
{
	for (size_t i = 0; i < condition->value_count && condition->negated; i++)
		if (condition->values[i].test == RULES_ANY)
			return true;
	return false;
}

/* The condition that no request meets, beside those before it; NULL if there is none. */
static const struct rules_condition *never_met(const struct rules_rule *rule, size_t *work)
{
	for (size_t i = 0; i < rule->condition_count; i++) {
		if (is_nothing(&rule->conditions[i]))
			return &rule->conditions[i];
		for (size_t j = 0; j < i; j++)
			if (exclude(&rule->conditions[i], &rule->conditions[j], work))
				return &rule->conditions[i];
	}
	return NULL;
}

static bool same_condition(const struct rules_condition *a, const struct rules_condition *b,
                           size_t *work)
{
	if (a->negated != b->negated || a->value_count != b->value_count ||
	    strcmp(a->attribute, b->attribute) != 0)
		return false;
	for (size_t i = 0; i < a->value_count; i++)
		if (++*work > WORK_MAX || !same_value(&a->values[i], &b->values[i]))
			return false;
	return true;
}

/* Whether each request that meets `rule` meets `first`, too. */
static bool covers(const struct rules_rule *first, const struct rules_rule *rule, size_t *work)
{
	if (first->path_variants != rule->path_variants || first->ip_numbers != rule->ip_numbers)
		return false;
	for (size_t i = 0; i < first->condition_count; i++) {
		bool found = false;

		for (size_t j = 0; j < rule->condition_count && !found && ++*work <= WORK_MAX; j++)
			found = same_condition(&first->conditions[i], &rule->conditions[j], work);
		if (!found)
			return false;
	}
	return true;
}

/* The rule before number `n` that answers all that it would. */
static const struct rules_rule *answered_before(const struct weir_config *config, size_t n,
                                                size_t *work)
{
	for (size_t i = 0; i < n && ++*work <= WORK_MAX; i++) {
		const struct rules_rule *first = &config->rules[i];

		if (first->limit_count == 0 && first->mode == RULES_ENFORCE &&
		    covers(first, &config->rules[n], work))
			return first;
	}
	return NULL;
}

int rules_warn_of_unreachable(struct weir_config *config)
{
	size_t work = 0;
	int status = WEIR_OK;

	for (size_t i = 0; i < config->rule_count && status == WEIR_OK && work <= WORK_MAX; i++) {
		const struct rules_rule *rule = &config->rules[i], *first = NULL;
		const struct rules_condition *never = never_met(rule, &work);

		if (never)
			status = remark_add(config, REMARK_WARNING(rule->file, never->line, never->column),
			                    "expected conditions that a request can meet, found %s in rule "
			                    "\"%s\"",
			                    is_nothing(never) ? "one that no value meets"
			                                      : "ones that exclude each other",
			                    rule->name);
		else if (config->order == RULES_FIRST && (first = answered_before(config, i, &work)))
			status = remark_add(config, REMARK_WARNING(rule->file, rule->line, rule->column),
			                    "expected requests to reach rule \"%s\", found \"%s\" before it, "
			                    "which answers all of them",
			                    rule->name, first->name);
	}
	return status;
}
