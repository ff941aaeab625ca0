/*
 * remove_latency_limits.c: removes from a configuration the limits that need to know when requests
 * end, because a log without latencies can't show how they would decide.
 */
#include "simulate/input/remove_latency_limits.h"

#include <string.h>

#include "algo/algorithm.h"
#include "base/error.h"

#define REMOVED SIZE_MAX

static bool is_named(const char *name, const char *const *names, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(name, names[i]) == 0)
			return true;
	return false;
}

/* Removes the limits from the rules. `moved` has the new index of each limit, or REMOVED. */
static int remove_from_rules(struct weir_config *config, const size_t *moved)
{
	struct rules_rule *rules = arena_array(&config->arena, config->rule_count, sizeof *rules);

	for (size_t i = 0; rules && i < config->rule_count; i++) {
		const struct rules_rule *from = &config->rules[i];
		size_t *limits = arena_array(&config->arena, from->limit_count, sizeof *limits);

		if (!limits)
			return WEIR_ENOMEM;
		rules[i] = *from;
		rules[i].limits = limits;
		rules[i].limit_count = 0;
		for (size_t j = 0; j < from->limit_count; j++)
			if (moved[from->limits[j]] != REMOVED)
				limits[rules[i].limit_count++] = moved[from->limits[j]];
		/* A rule that has lost all its limits must not answer without them. */
		if (rules[i].limit_count < from->limit_count && rules[i].limit_count == 0)
			rules[i].answer = RULES_BY_LIMITS;
	}
	config->rules = rules;
	return rules ? WEIR_OK : WEIR_ENOMEM;
}

/* Whether a limit of this algorithm decides by how long requests take or how they end. */
static bool needs_request_ends(const struct algorithm *algorithm)
{
	return algorithm->record == ALGO_RECORD_LEASES || algorithm->judges;
}

/* Warns of each removed limit. To remove one of the `n` that --limit names is an error. */
int remove_latency_limits(struct weir_config *config, const char *const *names, size_t n,
                          FILE *warnings, struct weir_error *error)
{
	struct rules_limit *kept = arena_array(&config->arena, config->limit_count, sizeof *kept);
	size_t *moved = arena_array(&config->arena, config->limit_count, sizeof *moved), count = 0;

	if (!kept || !moved)
		return error_set(error, WEIR_ENOMEM, "out of memory");
	for (size_t i = 0; i < config->limit_count; i++) {
		const struct weir_limit_options *options = &config->limits[i].options;
		const struct algorithm *algorithm = algorithm_of(options->algorithm);

		moved[i] = needs_request_ends(algorithm) ? REMOVED : count;
		if (moved[i] != REMOVED)
			kept[count++] = config->limits[i];
		else if (is_named(options->name, names, n))
			return error_set(error, WEIR_EINVAL,
			                 "--limit: expected a limit that a log can show, found '%.64s', of "
			                 "%s: the log does not tell how long requests took",
			                 options->name, algorithm->name);
		else
			fprintf(
			    warnings,
			    "weir simulate: '%s' is left out: the log does not tell how long requests took\n",
			    options->name);
	}
	if (count == config->limit_count)
		return WEIR_OK;
	if (count == 0)
		return error_set(error, WEIR_EINVAL,
		                 "expected a limit that a log can show, found none: the log does not "
		                 "tell how long requests took");
	config->limits = kept;
	config->limit_count = count;
	return remove_from_rules(config, moved) == WEIR_OK
	           ? WEIR_OK
	           : error_set(error, WEIR_ENOMEM, "out of memory");
}
