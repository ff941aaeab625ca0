/*
 * check.c: checks a complete configuration: names are unique, limits suit the feedback of their
 * rules, and patterns of users match a limit.
 */
#include "rules/check.h"

#include <stdlib.h>

#include "algo/algorithm.h"
#include "rules/match/pattern.h"
#include "rules/remark.h"
#include "rules/unreachable.h"

/* The name of a limit or rule, and where it stands. `number` keeps equal names in their order. */
struct named_place {
	const char *name, *file;
	unsigned line, column;
	size_t number;
};

static int compare_names(const void *a, const void *b)
{
	const struct named_place *left = a, *right = b;
	int order = strcmp(left->name, right->name);

	return order ? order : (left->number > right->number) - (left->number < right->number);
}

/*
 * Adds an error for each name that stands twice. `kind` is the word for messages, such as "limit".
 */
static int check_unique(struct weir_config *config, struct named_place *names, size_t count,
                        const char *kind)
{
	int status = WEIR_OK;

	if (count > 0)
		qsort(names, count, sizeof *names, compare_names);
	for (size_t i = 1; i < count && status != WEIR_ENOMEM; i++) {
		const struct named_place *first = &names[i - 1], *again = &names[i];

		if (strcmp(first->name, again->name) == 0)
			status = remark_add(config, REMARK_ERROR(again->file, again->line, again->column),
			                    "expected each %s once, found \"%s\" again; the other one is at "
			                    "%s%s%u:%u",
			                    kind, again->name, first->file ? first->file : "",
			                    first->file ? ":" : "", first->line, first->column)
			             ?: WEIR_EINVAL;
	}
	return status;
}

static int check_limit_names(struct weir_config *config, struct named_place *names)
{
	for (size_t i = 0; i < config->limit_count; i++) {
		const struct rules_limit *limit = &config->limits[i];

		names[i] =
		    (struct named_place){limit->options.name, limit->file, limit->line, limit->column, i};
	}
	return check_unique(config, names, config->limit_count, "limit");
}

static int check_rule_names(struct weir_config *config, struct named_place *names)
{
	for (size_t i = 0; i < config->rule_count; i++) {
		const struct rules_rule *rule = &config->rules[i];

		names[i] = (struct named_place){rule->name, rule->file, rule->line, rule->column, i};
	}
	return check_unique(config, names, config->rule_count, "rule");
}

/* Feedback takes back a rule's newest units. Whether the algorithm knows which these are. */
static bool can_take_back_newest(const struct algorithm *algorithm)
{
	return algorithm->record == ALGO_RECORD_LOG || algorithm->record == ALGO_RECORD_SLOTS;
}

/* Adds an error that names an algorithm with a log as the one to use. Returns EINVAL or ENOMEM. */
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
			if (!can_take_back_newest(
			        algorithm_of(config->limits[rule->limits[j]].options.algorithm)))
				status = refuse_feedback(config, rule, &config->limits[rule->limits[j]]);
	}
	return status;
}

/* Also whether the pattern matches a command that brings its own limits along. */
static bool matches_any_limit(const struct weir_config *config, const char *pattern)
{
	if (pattern_matches(pattern, "CL.THROTTLE") || pattern_matches(pattern, "THROTTLE"))
		return true;
	for (size_t i = 0; i < config->limit_count; i++)
		if (pattern_matches(pattern, config->limits[i].options.name))
			return true;
	return false;
}

/* Warns of patterns of users that match no limit. Returns 0 or ENOMEM. */
static int warn_of_unmatched_patterns(struct weir_config *config)
{
	int status = WEIR_OK;

	/* A limit that could not be read may be the one that is meant. */
	for (size_t i = 0; i < config->user_count && config->remarks.errors == 0; i++)
		for (size_t j = 0; j < config->users[i].limit_count && status == WEIR_OK; j++) {
			const struct rules_text *pattern = &config->users[i].limits[j];

			if (!matches_any_limit(config, pattern->text))
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
	struct named_place *names = calloc(most + 1, sizeof *names);
	int status = WEIR_ENOMEM, feedback = WEIR_OK;

	/* In Koala's language a rule and its limit have one name, so one remark on it is enough. */
	if (names)
		status = check_rule_names(config, names) ?: check_limit_names(config, names);
	free(names);
	if (status != WEIR_ENOMEM && (feedback = check_feedback(config)) != WEIR_OK)
		status = feedback;
	if (status != WEIR_ENOMEM && (warn_of_unmatched_patterns(config) != WEIR_OK ||
	                              rules_warn_of_unreachable(config) != WEIR_OK))
		return WEIR_ENOMEM;
	return status;
}
