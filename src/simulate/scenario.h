/*
 * scenario.h: what a trace is replayed through: rules, their limits, and a table.
 *
 * The rules of a file are one scenario. A limit by itself is a scenario, too: a rule
 * without conditions that has no other limit. So the engine that serves decides
 * here as well, and scenarios side by side know nothing of each other.
 */
#ifndef SIMULATE_SCENARIO_H
#define SIMULATE_SCENARIO_H

#include "simulate/inflight.h"
#include "simulate/input/format.h"
#include "simulate/report/tally.h"

struct scenario {
	weir_table *table;
	weir_config *own; /* the config, where it is not the caller's */
	weir_engine *engine;
	const struct weir_config *config;
	struct tally *tallies; /* as the engine's limits */
	size_t tally_count;
	int attributes[FORMAT_FIELDS_MAX]; /* of each field, its number in the engine, or -1 */
	uint64_t *key_fields;     /* of each rule, the fields that its key is made of: a bit for each */
	uint64_t *answered;       /* of each rule, the requests that it answered by itself */
	uint64_t allowed, denied; /* requests, as their answers say */
	uint64_t unlimited;       /* of the allowed ones, those that no limit applied to */
	uint64_t errors;          /* requests that could not be decided: cost or key too large */

	bool is_reported;         /* a limit of it is told how requests end: */
	struct inflight inflight; /* those that have passed */
	uint64_t permits;         /* given so far: the ids are 1, 2, ... */
};

/** The rules of `config`, which must outlive the scenario. `capacity` keys. Free with
 * scenario_close. */
int scenario_open_rules(struct scenario *scenario, const struct weir_config *config,
                        uint64_t capacity, struct weir_error *error);

/**
 * One limit of `config`, by the attribute `key`; NULL: by the key of the first
 * rule that has this limit, or else the client's address.
 */
int scenario_open_limit(struct scenario *scenario, const struct weir_config *config, size_t limit,
                        const char *key, uint64_t capacity, struct weir_error *error);

/** Keys in use that had to make room in its table. */
uint64_t scenario_evictions(const struct scenario *scenario);

/** Also of one that could not be opened. */
void scenario_close(struct scenario *scenario);

/** Adds the attributes that the scenario's rules ask for. ELONG: more than WEIR_ATTRIBUTES_MAX. */
int scenario_fields(const struct scenario *scenario, struct fields *fields,
                    struct weir_error *error);
/** When all fields are there. */
void scenario_bind(struct scenario *scenario, const struct fields *fields);

static inline size_t scenario_rule_number(const struct scenario *scenario,
                                          const struct rules_rule *rule)
{
	return (size_t)(rule - scenario->config->rules);
}

#endif
