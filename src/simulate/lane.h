/*
 * lane.h: what a trace is replayed through: rules, their limits, and a table.
 *
 * The rules of a file are one lane. A limit by itself is a lane, too: a rule
 * without conditions that has no other limit. So the engine that serves decides
 * here as well, and lanes side by side know nothing of each other.
 */
#ifndef SIMULATE_LANE_H
#define SIMULATE_LANE_H

#include "simulate/inflight.h"
#include "simulate/input/format.h"
#include "simulate/report/tally.h"

struct lane {
	weir_table *table;
	weir_config *own; /* the config, where it is not the caller's */
	weir_engine *engine;
	const struct weir_config *config;
	struct tally *tallies; /* as the engine's limits */
	size_t tally_count;
	int attributes[FORMAT_FIELDS_MAX]; /* of each field, its number in the engine, or -1 */
	uint64_t *key_fields; /* of each rule, the fields that its key is made of: a bit for each */
	uint64_t *answered;   /* of each rule, the requests that it answered by itself */
	uint64_t allowed, denied; /* requests, as their answers say */
	uint64_t unlimited;       /* of the allowed ones, those that no limit applied to */
	uint64_t errors;          /* requests that could not be decided: cost or key too large */

	bool is_reported;         /* a limit of it is told how requests end: */
	struct inflight inflight; /* those that have passed */
	uint64_t permits;         /* given so far: the ids are 1, 2, ... */
};

/** The rules of `config`, which must outlive the lane. `capacity` keys. Free with lane_close. */
int lane_open_rules(struct lane *lane, const struct weir_config *config, uint64_t capacity,
                    struct weir_error *error);

/**
 * One limit of `config`, by the attribute `key`; NULL: by the key of the first
 * rule that has this limit, or else the client's address.
 */
int lane_open_limit(struct lane *lane, const struct weir_config *config, size_t limit,
                    const char *key, uint64_t capacity, struct weir_error *error);

/** Keys in use that had to make room in its table. */
uint64_t lane_evictions(const struct lane *lane);

/** Also of one that could not be opened. */
void lane_close(struct lane *lane);

/** Adds the attributes that the lane's rules ask for. ELONG: more than WEIR_ATTRIBUTES_MAX. */
int lane_fields(const struct lane *lane, struct fields *fields, struct weir_error *error);
/** When all fields are there. */
void lane_bind(struct lane *lane, const struct fields *fields);

static inline size_t lane_rule_number(const struct lane *lane, const struct rules_rule *rule)
{
	return (size_t)(rule - lane->config->rules);
}

#endif
