/*
 * rule_match.h: finds the rules that apply to a request without checking every rule.
 *
 * A rule is filed under one of its conditions, the one whose values the fewest rules share. The
 * values of that condition are hashed, whole or as prefixes of text or of an address. A request
 * looks its own values up and then checks each rule that it finds in full, so colliding hashes cost
 * only time. Rules that can't be filed are checked for each request. Therefore the time grows with
 * the number of rules found, not with the number of all rules.
 */
#ifndef ENGINE_RULES_RULE_MATCH_H
#define ENGINE_RULES_RULE_MATCH_H

#include <weir/engine.h>

#include "base/arena.h"
#include "base/hash.h"
#include "rules/model.h"

struct match;

/** An attribute's value in a request. */
struct match_value {
	struct slice text; /* its data is NULL if absent */
	enum {
		IP_UNTRIED,
		IP_VALID,
		IP_NUMBER,
		IP_INVALID
	} address_form; /* IP_NUMBER as by ip_parse_number */
	struct ip ip;
	uint32_t whole_value_slot; /* of rule_match.c: 0 until it is looked up; then where, or that it
	                              is nowhere */
};

/**
 * Compiles the rules of `config`, which must live as long as the result. The memory is from
 * `arena`; returns NULL if there is none.
 */
struct match *match_new(const struct weir_config *config, const struct hash_key *key,
                        struct arena *arena);

/** The number that stands for an attribute's name, or -1 where no rule names it. */
int match_attribute(const struct match *match, struct slice name);

/**
 * The attribute of that name as the key of a rule has it, or -1: of `path` its
 * variants' one spelling, where the rule says so. match_rules() fills that in.
 */
int match_key_attribute(const struct match *match, size_t rule, struct slice name);

/** Room for the values of a request, as numbered by match_attribute, from 0: all absent. */
struct match_value *match_alloc_values(const struct match *match, struct arena *arena);

/** The same with the attributes there are; where several have one name the first counts. */
struct match_value *match_values(const struct match *match, const struct weir_attribute *attributes,
                                 size_t n, struct arena *arena);

/** Whether the value, which is present, is an address: then `ip` is it. */
bool match_is_ip(struct match_value *value);

/* Numbers of rules, in the order of the rules, each once. */
struct match_found {
	uint32_t *rules;
	size_t count;
};

/**
 * The rules that apply, in `arena`. Fills in the values that derive from others. Returns
 * false if there is no memory.
 */
bool match_rules(const struct match *match, struct match_value *values, struct arena *arena,
                 struct match_found *found);

#endif
