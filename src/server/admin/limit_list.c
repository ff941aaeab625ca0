/*
 * limit_list.c: renders the page /v1/limits: for each limit its settings, store, capacity, rules,
 * and the changes that operators have made to it while the server runs, as JSON.
 */
#include "server/admin/limit_list.h"

#include <string.h>

#include "engine/engine.h"
#include "engine/table.h"
#include "redis/redis.h"
#include "rules/model.h"
#include "rules/show.h"

/* A rule that uses a limit, in the list of all that do. */
struct rule_use {
	const struct rule_use *next;
	const struct rules_rule *rule;
};

/*
 * Returns for each limit a list of the rules that use it, in the order of the file (they are put in
 * front, so from the last to the first). NULL if memory is short.
 */
static const struct rule_use **find_rule_uses(const struct weir_config *rules, struct arena *arena)
{
	const struct rule_use **uses = arena_array(arena, rules->limit_count, sizeof *uses);

	for (size_t i = rules->rule_count; uses && i-- > 0;) {
		const struct rules_rule *rule = &rules->rules[i];
		struct rule_use *rule_uses = arena_array(arena, rule->limit_count, sizeof *rule_uses);

		if (!rule_uses)
			return NULL;
		for (size_t j = 0; j < rule->limit_count; j++) {
			rule_uses[j] = (struct rule_use){uses[rule->limits[j]], rule};
			uses[rule->limits[j]] = &rule_uses[j];
		}
	}
	return uses;
}

static void add_capacity(const struct weir_table *table, const struct weir_limit *limit,
                         struct buffer *out)
{
	struct store_capacity capacity;

	if (limit->algo.algorithm->draws) { /* such a limit stores no states */
		buffer_add_text(out, "null");
		return;
	}
	capacity = engine_capacity_of(table, limit);
	buffer_printf(out, "{\"keys\":%llu,\"bytes\":%llu,\"shared\":%s}",
	              (unsigned long long)capacity.keys, (unsigned long long)capacity.bytes,
	              capacity.is_shared ? "true" : "false");
}

/* Adds the limit's store if that is a Redis rather than this server's table. */
static void add_store(const struct weir_table *table, const struct weir_limit *limit,
                      struct buffer *out)
{
	const struct store *store = engine_remote_store(table, limit);

	if (!store)
		return;
	buffer_add_text(out, ",\"store\":\"");
	buffer_add_json(out, slice_of(redis_store_name(store)));
	buffer_add(out, "\"", 1);
}

/* Adds the operator, the time and the end of an override. */
static void add_override(const struct override *override, struct buffer *out)
{
	buffer_add_text(out, ",\"switched\":{");
	overrides_add_members(override, out);
	buffer_add(out, "}", 1);
}

/* Adds the override of the share that a limit denies, if an operator has set one. */
static void add_share_override(struct overrides *overrides, const struct weir_limit *limit,
                               struct buffer *out)
{
	struct override override;

	if (limit->algo.algorithm->set_share && overrides_find(overrides, limit->name, &override))
		add_override(&override, out);
}

/* Adds a key of a circuit breaker and its phase, unless it is closed by now. */
static void add_unclosed_key(struct decider *decider, const struct weir_limit *limit,
                             const struct key_phase *key, bool first, struct buffer *out)
{
	struct algo_decision decision;
	struct override override;

	engine_view(&decider->context, limit, key->hash, &decision);
	if (decision.phase == BREAKER_CLOSED)
		return;
	buffer_add_text(out, first ? "{\"key\":\"" : ",{\"key\":\"");
	buffer_add_json(out, (struct slice){key->name, key->len});
	buffer_printf(out, "%s\",\"phase\":\"%s\"", key->is_truncated ? "…" : "",
	              breaker_phase_text(decision.phase));
	if (decision.phase >= BREAKER_FORCED_OPEN &&
	    forced_keys_find(&decider->shared->forced, key->hash, &override))
		add_override(&override, out);
	buffer_add(out, "}", 1);
}

/* Adds keys of a circuit breaker that are not closed: all forced ones, and some of the others. */
static int add_key_phases(struct decider *decider, const struct weir_limit *limit,
                          struct buffer *out)
{
	struct forced_keys *forced_keys = &decider->shared->forced;
	struct key_phase *keys =
	    arena_array(&decider->arena, FORCED_KEYS_MAX + LIMIT_LIST_PHASES, sizeof *keys);
	struct override override;
	size_t forced_count, n, begin;

	if (!keys)
		return WEIR_ENOMEM;
	forced_count = forced_keys_list(forced_keys, limit->algo.identity, keys);
	n = forced_count + key_phases_list(decider->shared->phases, limit->algo.identity,
	                                   &keys[forced_count], LIMIT_LIST_PHASES);
	buffer_add_text(out, ",\"breakers\":[");
	begin = out->len;
	for (size_t i = 0; i < n; i++) /* forced keys are in the second list, too: show them once */
		if (i < forced_count || !forced_keys_find(forced_keys, keys[i].hash, &override))
			add_unclosed_key(decider, limit, &keys[i], out->len == begin, out);
	buffer_add(out, "]", 1);
	return WEIR_OK;
}

static void add_rules(const struct rule_use *uses, struct buffer *out)
{
	buffer_add_text(out, ",\"rules\":[");
	for (const struct rule_use *use = uses; use; use = use->next) {
		buffer_add_text(out, use == uses ? "\"" : ",\"");
		buffer_add_json(out, slice_of(use->rule->name));
		buffer_add(out, "\"", 1);
	}
	buffer_add(out, "]", 1);
}

/*
 * Adds how many bits of an IPv6 address make the key, by each rule that counts by the address
 * alone. By this, a client that knows the address finds the key that counts.
 */
static void add_ipv6_prefixes(const struct weir_config *rules, const struct rule_use *uses,
                              struct buffer *out)
{
	size_t n = 0;

	for (const struct rule_use *use = uses; use; use = use->next) {
		const struct rules_rule *rule = use->rule;

		if (rule->key_count != 1 || strcmp(rule->key[0], "ip") != 0)
			continue;
		buffer_add_text(out, n++ > 0 ? "," : ",\"ipv6_prefixes\":[");
		buffer_add_u64(out, rules_ipv6_prefix(rules, rule));
	}
	buffer_add_text(out, n > 0 ? "]" : "");
}

/* Adds the limit at `index` as a JSON object. Returns 0 or ENOMEM. */
static int add_limit(struct decider *decider, size_t index, const struct rule_use *uses,
                     struct buffer *out)
{
	const struct weir_engine *engine = decider->config->engine;
	const struct weir_limit *limit = engine_limit_at(engine, index);
	struct rules_limit settings = decider->config->rules->limits[index];

	buffer_add_text(out, "{\"name\":\"");
	buffer_add_json(out, slice_of(limit->name));
	buffer_add_text(out, "\",");
	if (limit->algo.algorithm->amend) /* shows values that operators have changed since */
		limit->algo.algorithm->amend(algo_current(&limit->algo), &settings.options);
	rules_show_limit(&settings, out);
	add_share_override(&decider->shared->overrides, limit, out);
	if (algo_has_phases(&limit->algo) && add_key_phases(decider, limit, out) != WEIR_OK)
		return WEIR_ENOMEM;
	add_store(engine_table(engine), limit, out);
	buffer_add_text(out, ",\"quota\":");
	buffer_add_u64(out, limit->algo.quota_kind == ALGO_QUOTA_NONE ? 0 : limit->algo.quota);
	buffer_add_text(out, ",\"room\":");
	add_capacity(engine_table(engine), limit, out);
	add_rules(uses, out);
	add_ipv6_prefixes(decider->config->rules, uses, out);
	buffer_add(out, "}", 1);
	return WEIR_OK;
}

int limit_list_render(struct decider *decider, struct buffer *out)
{
	const struct weir_config *rules = decider->config->rules;
	const struct rule_use **uses = find_rule_uses(rules, &decider->arena);

	if (!uses)
		return WEIR_ENOMEM;
	buffer_add(out, "[", 1);
	for (size_t i = 0; i < rules->limit_count; i++) {
		buffer_add_text(out, i > 0 ? "," : "");
		if (add_limit(decider, i, uses[i], out) != WEIR_OK)
			return WEIR_ENOMEM;
	}
	buffer_add(out, "]", 1);
	return WEIR_OK;
}
