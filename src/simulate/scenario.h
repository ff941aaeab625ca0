/*
 * scenario.h: a configuration on which `weir simulate` tries the requests of a log: an engine with
 * its rules, its limits, and a table for their states.
 *
 * A rule file is one scenario. So is a single limit, which gets one rule without conditions.
 * Several scenarios are replayed side by side and share no state.
 */
#ifndef SIMULATE_SCENARIO_H
#define SIMULATE_SCENARIO_H

#include "simulate/inflight.h"
#include "simulate/input/format.h"
#include "simulate/report/tally.h"

/* How many requests a rule in shadow mode applied to, and how many it would have denied. */
struct shadow_count {
	uint64_t asked, denied; /* requests */
	uint64_t last_request;  /* the number of the last one, plus 1: a rule may have several limits */
	bool denies_last;
};

/* Which rules ask a limit. */
enum limit_mode { LIMIT_ENFORCED, LIMIT_SHADOW, LIMIT_PARTLY_SHADOW };

struct scenario {
	weir_table *table;
	weir_config *own; /* `config` if the scenario owns it; NULL for rules */
	weir_engine *engine;
	const struct weir_config *config;
	struct tally *tallies; /* one for each limit of the engine */
	size_t tally_count;
	int attributes[FORMAT_FIELDS_MAX]; /* for each field its number in the engine, or -1 */
	uint64_t *key_fields; /* of each rule, the fields that its key is made of: a bit for each */
	uint64_t *answered;   /* of each rule, the requests that it answered by itself */
	struct shadow_count *shadow; /* of each rule */
	uint64_t allowed, denied;    /* requests, as their answers say */
	uint64_t unlimited;          /* of the allowed ones, those that no limit applied to */
	uint64_t errors;             /* requests that could not be decided: cost or key too large */

	bool is_reported;         /* a limit needs reports; then these are used: */
	struct inflight inflight; /* requests that have passed and not ended */
	uint64_t permits;         /* issued so far: their IDs are 1, 2, ... */
};

/** Opens a scenario of the rules of `config`, which must outlive it, for `capacity` keys. */
int scenario_open_rules(struct scenario *scenario, const struct weir_config *config,
                        uint64_t capacity, struct weir_error *error);

#define SCENARIO_ONE_KEY "" /* the key of a limit with one key for all requests */

/**
 * Opens a scenario of one limit of `config`, keyed by the attribute `key`. If `key` is NULL, it is
 * the key of the first rule with this limit, or the client's address if there is none.
 */
int scenario_open_limit(struct scenario *scenario, const struct weir_config *config, size_t limit,
                        const char *key, uint64_t capacity, struct weir_error *error);

/** Returns the first rule with a limit, or NULL. */
const struct rules_rule *scenario_rule_of_limit(const struct weir_config *config, size_t limit);

/** How many keys in use the table has evicted. */
uint64_t scenario_evictions(const struct scenario *scenario);

/** Call it also if opening has failed. */
void scenario_close(struct scenario *scenario);

/** Adds the attributes of the rules to `fields`. ELONG if there are more than WEIR_ATTRIBUTES_MAX.
 */
int scenario_add_fields(const struct scenario *scenario, struct fields *fields,
                        struct weir_error *error);
/** Adds a field unless it is there, and sets *index to its number. ELONG as above. */
int fields_add(struct fields *fields, const char *name, size_t *index, struct weir_error *error);
/** Maps fields to attributes and keys. Call it once `fields` is complete. */
void scenario_bind(struct scenario *scenario, const struct fields *fields);

/** Counts a step of a rule in shadow mode. `number` is that of its request in the log. */
void scenario_count_shadow(struct scenario *scenario, const struct rules_rule *rule,
                           uint64_t number, bool denied);

/** Returns which rules ask the limit with this index in the configuration. */
enum limit_mode scenario_limit_mode(const struct scenario *scenario, size_t limit);

/** Returns the counters of the step's limit. */
static inline struct tally *scenario_tally(const struct scenario *scenario,
                                           const struct plan_step *step)
{
	return &scenario->tallies[engine_limit_index(scenario->engine, step->limit)];
}

static inline size_t scenario_rule_number(const struct scenario *scenario,
                                          const struct rules_rule *rule)
{
	return (size_t)(rule - scenario->config->rules);
}

#endif
