#include "simulate/lane.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

static int open_lane(struct lane *lane, const struct weir_config *config, uint64_t capacity,
                     struct weir_error *error)
{
	int status;

	lane->config = config;
	status =
	    weir_table_open(&(struct weir_table_options){.capacity = capacity}, &lane->table, error) ?:
	    engine_open(config, lane->table, NULL, &lane->engine, error);
	if (status != WEIR_OK)
		return status;
	lane->tally_count = engine_limit_count(lane->engine);
	lane->tallies = calloc(lane->tally_count + 1, sizeof *lane->tallies);
	lane->key_fields = calloc(config->rule_count + 1, sizeof *lane->key_fields);
	lane->answered = calloc(config->rule_count + 1, sizeof *lane->answered);
	if (!lane->tallies || !lane->key_fields || !lane->answered)
		return error_set(error, WEIR_ENOMEM, "out of memory");
	for (size_t i = 0; i < lane->tally_count && status == WEIR_OK; i++) {
		const struct weir_limit *limit = engine_limit_at(lane->engine, i);

		lane->is_reported |= algo_is_reported(&limit->algo);
		status = tally_open(&lane->tallies[i], limit, &config->limits[i], capacity);
	}
	return status == WEIR_OK ? status : error_set(error, status, "out of memory");
}

int lane_open_rules(struct lane *lane, const struct weir_config *config, uint64_t capacity,
                    struct weir_error *error)
{
	*lane = (struct lane){0};
	return open_lane(lane, config, capacity, error);
}

static const struct rules_rule *first_rule_with(const struct weir_config *config, size_t limit)
{
	for (size_t i = 0; i < config->rule_count; i++)
		for (size_t j = 0; j < config->rules[i].limit_count; j++)
			if (config->rules[i].limits[j] == limit)
				return &config->rules[i];
	return NULL;
}

int lane_open_limit(struct lane *lane, const struct weir_config *config, size_t limit,
                    const char *key, uint64_t capacity, struct weir_error *error)
{
	static const char *const client[] = {"ip"};
	static const size_t only[] = {0};
	const struct rules_rule *from = key ? NULL : first_rule_with(config, limit);
	struct rules_rule *rule;
	const char **own_key;

	*lane = (struct lane){.own = weir_private_config_new()};
	if (!lane->own)
		return error_set(error, WEIR_ENOMEM, "out of memory");
	rule = arena_alloc(&lane->own->arena, sizeof *rule);
	own_key = arena_alloc(&lane->own->arena, sizeof *own_key);
	if (!rule || !own_key)
		return error_set(error, WEIR_ENOMEM, "out of memory");
	*own_key = key;
	*rule = (struct rules_rule){
	    .name = config->limits[limit].options.name,
	    .key = key    ? own_key
	           : from ? from->key
	                  : client,
	    .key_count = from ? from->key_count : 1,
	    .limits = only,
	    .limit_count = 1,
	};
	lane->own->limits = &config->limits[limit];
	lane->own->limit_count = 1;
	lane->own->rules = rule;
	lane->own->rule_count = 1;
	return open_lane(lane, lane->own, capacity, error);
}

uint64_t lane_evictions(const struct lane *lane)
{
	struct weir_table_stats stats;

	weir_table_stats(lane->table, 0, &stats);
	return stats.evictions;
}

void lane_close(struct lane *lane)
{
	for (size_t i = 0; lane->tallies && i < lane->tally_count; i++)
		tally_close(&lane->tallies[i]);
	inflight_close(&lane->inflight);
	free(lane->tallies);
	free(lane->key_fields);
	free(lane->answered);
	weir_engine_close(lane->engine);
	weir_table_close(lane->table);
	weir_config_close(lane->own);
}

/* Its number, or the count of all. */
static size_t find_field(const struct fields *fields, const char *name)
{
	size_t i = 0;

	while (i < fields->count && !slice_equal(fields->names[i], slice_of(name)))
		i++;
	return i;
}

static int add_field(struct fields *fields, const char *name, struct weir_error *error)
{
	size_t i = find_field(fields, name);

	if (i == WEIR_ATTRIBUTES_MAX)
		return error_set(error, WEIR_ELONG, "expected rules with at most %d attributes, found more",
		                 WEIR_ATTRIBUTES_MAX);
	if (i == fields->count)
		fields->names[fields->count++] = slice_of(name);
	return WEIR_OK;
}

int lane_fields(const struct lane *lane, struct fields *fields, struct weir_error *error)
{
	int status = WEIR_OK;

	for (size_t i = 0; i < lane->config->rule_count; i++) {
		const struct rules_rule *rule = &lane->config->rules[i];

		for (size_t j = 0; status == WEIR_OK && j < rule->key_count; j++)
			status = add_field(fields, rule->key[j], error);
		for (size_t j = 0; status == WEIR_OK && j < rule->condition_count; j++)
			status = add_field(fields, rule->conditions[j].attribute, error);
	}
	return status;
}

void lane_bind(struct lane *lane, const struct fields *fields)
{
	for (size_t i = 0; i < fields->count; i++)
		lane->attributes[i] = engine_attribute(lane->engine, fields->names[i]);
	for (size_t i = 0; i < lane->config->rule_count; i++)
		for (size_t j = 0; j < lane->config->rules[i].key_count; j++)
			lane->key_fields[i] |= UINT64_C(1)
			                       << find_field(fields, lane->config->rules[i].key[j]);
}
