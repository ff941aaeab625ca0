/*
 * scenario.c: opens an engine with a table and counters of its own, in which the requests of a log
 * are simulated: with all rules of a configuration, or with a single limit for all requests.
 */
#include "simulate/scenario.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

static int open_scenario(struct scenario *scenario, const struct weir_config *config,
                         uint64_t capacity, struct weir_error *error)
{
	int status;

	scenario->config = config;
	status =
	    weir_table_open(&(struct weir_table_options){.capacity = capacity}, &scenario->table, error)
	        ?: engine_open(config, scenario->table, NULL, &scenario->engine, error);
	if (status != WEIR_OK)
		return status;
	scenario->tally_count = engine_limit_count(scenario->engine);
	scenario->tallies = calloc(scenario->tally_count + 1, sizeof *scenario->tallies);
	scenario->key_fields = calloc(config->rule_count + 1, sizeof *scenario->key_fields);
	scenario->answered = calloc(config->rule_count + 1, sizeof *scenario->answered);
	scenario->shadow = calloc(config->rule_count + 1, sizeof *scenario->shadow);
	if (!scenario->tallies || !scenario->key_fields || !scenario->answered || !scenario->shadow)
		return error_set(error, WEIR_ENOMEM, "out of memory");
	for (size_t i = 0; i < scenario->tally_count && status == WEIR_OK; i++) {
		const struct weir_limit *limit = engine_limit_at(scenario->engine, i);

		scenario->is_reported |= algo_is_reported(&limit->algo);
		status = tally_open(&scenario->tallies[i], limit, &config->limits[i], capacity);
	}
	return status == WEIR_OK ? status : error_set(error, status, "out of memory");
}

int scenario_open_rules(struct scenario *scenario, const struct weir_config *config,
                        uint64_t capacity, struct weir_error *error)
{
	*scenario = (struct scenario){0};
	return open_scenario(scenario, config, capacity, error);
}

const struct rules_rule *scenario_rule_of_limit(const struct weir_config *config, size_t limit)
{
	for (size_t i = 0; i < config->rule_count; i++)
		for (size_t j = 0; j < config->rules[i].limit_count; j++)
			if (config->rules[i].limits[j] == limit)
				return &config->rules[i];
	return NULL;
}

/*
 * Opens a scenario whose only rule has no conditions, so that the limit decides all requests. Its
 * key is `key`, or if that is NULL the key of the first rule with this limit, or else the client's
 * address.
 */
int scenario_open_limit(struct scenario *scenario, const struct weir_config *config, size_t limit,
                        const char *key, uint64_t capacity, struct weir_error *error)
{
	static const char *const client_address[] = {"ip"};
	static const size_t only_limit[] = {0};
	const struct rules_rule *model = key ? NULL : scenario_rule_of_limit(config, limit);
	struct rules_rule *rule;
	const char **requested_key;

	*scenario = (struct scenario){.own = weir_private_config_new()};
	if (!scenario->own)
		return error_set(error, WEIR_ENOMEM, "out of memory");
	rule = arena_alloc(&scenario->own->arena, sizeof *rule);
	requested_key = arena_alloc(&scenario->own->arena, sizeof *requested_key);
	if (!rule || !requested_key)
		return error_set(error, WEIR_ENOMEM, "out of memory");
	*requested_key = key;
	*rule = (struct rules_rule){
	    .name = config->limits[limit].options.name,
	    .key = key ? requested_key : client_address,
	    .key_count = !key || *key,
	    .limits = only_limit,
	    .limit_count = 1,
	};
	if (model) {
		rule->key = model->key;
		rule->key_count = model->key_count;
	}
	scenario->own->limits = &config->limits[limit];
	scenario->own->limit_count = 1;
	scenario->own->rules = rule;
	scenario->own->rule_count = 1;
	return open_scenario(scenario, scenario->own, capacity, error);
}

uint64_t scenario_evictions(const struct scenario *scenario)
{
	struct weir_table_stats stats;

	weir_table_stats(scenario->table, 0, &stats);
	return stats.evictions;
}

void scenario_close(struct scenario *scenario)
{
	for (size_t i = 0; scenario->tallies && i < scenario->tally_count; i++)
		tally_close(&scenario->tallies[i]);
	inflight_close(&scenario->inflight);
	free(scenario->tallies);
	free(scenario->key_fields);
	free(scenario->answered);
	free(scenario->shadow);
	weir_engine_close(scenario->engine);
	weir_table_close(scenario->table);
	weir_config_close(scenario->own);
}

void scenario_count_shadow(struct scenario *scenario, const struct rules_rule *rule,
                           uint64_t number, bool denied)
{
	struct shadow_count *count = &scenario->shadow[scenario_rule_number(scenario, rule)];

	if (count->last_request != number + 1) {
		count->last_request = number + 1;
		count->denies_last = false;
		count->asked++;
	}
	count->denied += denied && !count->denies_last;
	count->denies_last |= denied;
}

enum limit_mode scenario_limit_mode(const struct scenario *scenario, size_t limit)
{
	const struct weir_config *config = scenario->config;
	size_t shadow = 0, enforced = 0;

	for (size_t i = 0; i < config->rule_count; i++)
		for (size_t j = 0; j < config->rules[i].limit_count; j++)
			if (config->rules[i].limits[j] == limit)
				*(config->rules[i].mode == RULES_SHADOW ? &shadow : &enforced) += 1;
	return shadow == 0 ? LIMIT_ENFORCED : enforced == 0 ? LIMIT_SHADOW : LIMIT_PARTLY_SHADOW;
}

/* Index of the field; the number of fields if there is none. */
static size_t find_field(const struct fields *fields, const char *name)
{
	size_t i = 0;

	while (i < fields->count && !slice_equal(fields->names[i], slice_of(name)))
		i++;
	return i;
}

int fields_add(struct fields *fields, const char *name, size_t *index, struct weir_error *error)
{
	size_t i = find_field(fields, name);

	if (i == WEIR_ATTRIBUTES_MAX)
		return error_set(error, WEIR_ELONG, "expected rules with at most %d attributes, found more",
		                 WEIR_ATTRIBUTES_MAX);
	if (i == fields->count)
		fields->names[fields->count++] = slice_of(name);
	*index = i;
	return WEIR_OK;
}

int scenario_add_fields(const struct scenario *scenario, struct fields *fields,
                        struct weir_error *error)
{
	int status = WEIR_OK;
	size_t index;

	for (size_t i = 0; i < scenario->config->rule_count; i++) {
		const struct rules_rule *rule = &scenario->config->rules[i];

		for (size_t j = 0; status == WEIR_OK && j < rule->key_count; j++)
			status = fields_add(fields, rule->key[j], &index, error);
		for (size_t j = 0; status == WEIR_OK && j < rule->condition_count; j++)
			status = fields_add(fields, rule->conditions[j].attribute, &index, error);
	}
	return status;
}

void scenario_bind(struct scenario *scenario, const struct fields *fields)
{
	for (size_t i = 0; i < fields->count; i++)
		scenario->attributes[i] = engine_attribute(scenario->engine, fields->names[i]);
	for (size_t i = 0; i < scenario->config->rule_count; i++)
		for (size_t j = 0; j < scenario->config->rules[i].key_count; j++)
			scenario->key_fields[i] |= UINT64_C(1)
			                           << find_field(fields, scenario->config->rules[i].key[j]);
}
