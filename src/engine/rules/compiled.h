/* compiled.h: the members of a compiled configuration (struct weir_engine). */
#ifndef ENGINE_RULES_COMPILED_H
#define ENGINE_RULES_COMPILED_H

#include "base/map.h"
#include "engine/engine.h"
#include "engine/rules/rule_match.h"

struct rule_key {
	int *attributes; /* by number */
	bool is_secret;  /* a proxied request carries one of them */
	_Atomic uint64_t *empty_count; /* see engine_count_empty_keys; or NULL */
};

struct weir_engine {
	struct weir_table *table;
	const struct weir_config *config;
	struct arena arena;
	struct weir_limit *limits; /* as the config's */
	size_t limit_count;        /* of them opened */
	struct weir_limit *locals; /* of remote ones, in the order of `limits` */
	size_t local_count;
	struct map limit_names, rule_names; /* the indexes of limits and rules by name */
	struct map identities;        /* limits and locals by identity, which is a hash */
	struct weir_limit deny_all_limit; /* denies all: for rules that deny without a limit */
	bool has_deny_all_limit;
	struct match *match;
	int ip_attribute;           /* the attribute of that name, by number, or -1 */
	struct rule_key *rule_keys; /* of each rule */
};

#endif
