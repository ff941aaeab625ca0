/* check.c: checks names, feedback and patterns of a complete configuration. */
#include "rules/check.h"

#include <stdlib.h>

#include "algo/algorithm.h"
#include "rules/match/pattern.h"
#include "rules/remark.h"
#include "rules/unreachable.h"

/* A name, and where it stands. */
struct named_counters {
	const char *name, *file;
	unsigned line, column;
	size_t number;
};

static int compare_names(const void *a, const void *b)
{
	const struct named_counters *left = a, *right = b;
	int order = strcmp(left->name, right->name);

	return order ? order : (left->number > right->number) - (left->number < right->number);
}

/* `what`: "limit". */
static int check_names(struct weir_config *config, struct named_counters *names, size_t count,
                       const char *what)
{
	int status = WEIR_OK;

	if (count > 0)
		qsort(names, count, sizeof *names, compare_names);
	for (size_t i = 1; i < count && status != WEIR_ENOMEM; i++) {
		const struct named_counters *first = &names[i - 1], *again = &names[i];

		if (strcmp(first->name, again->name) == 0)
			status = remark_add(config, REMARK_ERROR(again->file, again->line, again->column),
			                    "expected each %s once, found \"%s\" again; the other one is at "
			                    "%s%s%u:%u",
			                    what, again->name, first->file ? first->file : "",
			                    first->file ? ":" : "", first->line, first->column)
			             ?: WEIR_EINVAL;
	}
	return status;
}

static int check_limit_names(struct weir_config *config, struct named_counters *names)
{
	for (size_t i = 0; i < config->limit_count; i++) {
		const struct rules_limit *limit = &config->limits[i];

		names[i] = (struct named_counters){limit->options.name, limit->file, limit->line,
		                                   limit->column, i};
	}
	return check_names(config, names, config->limit_count, "limit");
}

static int check_rule_names(struct weir_config *config, struct named_counters *names)
{
	for (size_t i = 0; i < config->rule_count; i++) {
		const struct rules_rule *rule = &config->rules[i];

		names[i] = (struct named_counters){rule->name, rule->file, rule->line, rule->column, i};
	}
	return check_names(config, names, config->rule_count, "rule");
}

/* Whether it knows which units are the newest, so that these can be taken back. */
static bool keeps_order(const struct algorithm *algorithm)
{
	return algorithm->record == ALGO_RECORD_LOG || algorithm->record == ALGO_RECORD_SLOTS;
}

static int refuse_feedback(struct weir_config *config, const struct rules_rule *rule,
                           const struct rules_limit *limit)
{
	const struct algorithm *algorithm;

	for (size_t i = 0; (algorithm = algorithm_listed(i)) && algorithm->record != ALGO_RECORD_LOG;
	     i++)
		;
	return remark_add(config, REMARK_ERROR(rule->file, rule->line, rule->column),
	                  "expected limits of %s beside the feedback of rule \"%s\", found \"%s\"",
	                  algorithm ? algorithm->name : "none", rule->name, limit->options.name)
	           ?: WEIR_EINVAL;
}

static int check_feedback(struct weir_config *config)
{
	int status = WEIR_OK;

	for (size_t i = 0; i < config->rule_count; i++) {
		const struct rules_rule *rule = &config->rules[i];
		bool has_feedback = rule->feedback[0] || rule->feedback[1];

		for (size_t j = 0; has_feedback && j < rule->limit_count && status != WEIR_ENOMEM; j++)
			if (!keeps_order(algorithm_of(config->limits[rule->limits[j]].options.algorithm)))
				status = refuse_feedback(config, rule, &config->limits[rule->limits[j]]);
	}
	return status;
}

static bool stands_for_any(const struct weir_config *config, const char *pattern)
{
	if (pattern_matches(pattern, "CL.THROTTLE") || pattern_matches(pattern, "THROTTLE"))
		return true;
	for (size_t i = 0; i < config->limit_count; i++)
		if (pattern_matches(pattern, config->limits[i].options.name))
			return true;
	return false;
}

/* Patterns of users that stand for nothing. 0 or ENOMEM. */
static int warn_of_patterns(struct weir_config *config)
{
	int status = WEIR_OK;

	/* A limit that could not be read may be the one that is meant. */
	for (size_t i = 0; i < config->user_count && config->remarks.errors == 0; i++)
		for (size_t j = 0; j < config->users[i].limit_count && status == WEIR_OK; j++) {
			const struct rules_text *pattern = &config->users[i].limits[j];

			if (!stands_for_any(config, pattern->text))
				status = remark_add(config,
				                    REMARK_WARNING(pattern->file, pattern->line, pattern->column),
				                    "expected a limit that matches '%s', found none: the user can "
				                    "use no limit by it",
				                    pattern->text);
		}
	return status;
}

int rules_check(struct weir_config *config)
{
	size_t most = u64_max(config->limit_count, config->rule_count);
	struct named_counters *names = calloc(most + 1, sizeof *names);
	int status = WEIR_ENOMEM, feedback = WEIR_OK;

	/* A rule of Koala's language has the name of its limit, of which one remark is enough. */
	if (names)
		status = check_rule_names(config, names) ?: check_limit_names(config, names);
	free(names);
	if (status != WEIR_ENOMEM && (feedback = check_feedback(config)) != WEIR_OK)
		status = feedback;
	if (status != WEIR_ENOMEM &&
	    (warn_of_patterns(config) != WEIR_OK || rules_warn_of_unreachable(config) != WEIR_OK))
		return WEIR_ENOMEM;
	return status;
}
