#include "server/admin/limit_list.h"

#include "engine/engine.h"
#include "engine/table.h"
#include "redis/redis.h"
#include "rules/model.h"
#include "rules/show.h"

/* A rule that uses a limit. */
struct use {
	const struct use *next;
	const char *rule;
};

/*
 * For each limit a list of the rules that use it, in the order of the file. NULL if memory is
 * short.
 */
static const struct use **find_uses(const struct weir_config *rules, struct arena *arena)
{
	const struct use **uses = arena_array(arena, rules->limit_count, sizeof *uses);

	for (size_t i = rules->rule_count; uses && i-- > 0;) {
		const struct rules_rule *rule = &rules->rules[i];
		struct use *fresh = arena_array(arena, rule->limit_count, sizeof *fresh);

		if (!fresh)
			return NULL;
		for (size_t j = 0; j < rule->limit_count; j++) {
			fresh[j] = (struct use){uses[rule->limits[j]], rule->name};
			uses[rule->limits[j]] = &fresh[j];
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

/* Adds the store of a limit that is not in the table. */
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
	buffer_add_text(out, ",\"switched\":{\"by\":\"");
	buffer_add_json(out, slice_of(override->by));
	buffer_add_text(out, "\",\"at\":\"");
	timestamp_add_date(out, override->at_ns);
	if (override->until_ns != 0) {
		buffer_add_text(out, "\",\"until\":\"");
		timestamp_add_date(out, override->until_ns);
	}
	buffer_add(out, "\"}", 2);
}

static void add_share(struct overrides *overrides, const struct weir_limit *limit,
                      struct buffer *out)
{
	struct override override;

	if (limit->algo.algorithm->set_share && overrides_find(overrides, limit->name, &override))
		add_override(&override, out);
}

/* Adds a key, unless it is closed by now. */
static void add_phase(struct decider *decider, const struct weir_limit *limit,
                      const struct key_phase *key, bool first, struct buffer *out)
{
	struct algo_decision outcome;
	struct override override;

	engine_view(&decider->context, limit, key->hash, &outcome);
	if (outcome.phase == BREAKER_CLOSED)
		return;
	buffer_add_text(out, first ? "{\"key\":\"" : ",{\"key\":\"");
	buffer_add_json(out, (struct slice){key->name, key->len});
	buffer_printf(out, "%s\",\"phase\":\"%s\"", key->cut ? "…" : "",
	              breaker_phase_text(outcome.phase));
	if (outcome.phase >= BREAKER_FORCED_OPEN &&
	    forced_keys_find(&decider->shared->forced, key->hash, &override))
		add_override(&override, out);
	buffer_add(out, "}", 1);
}

/* Adds keys that are not closed: all forced ones, and some of the others. */
static int add_key_phases(struct decider *decider, const struct weir_limit *limit,
                          struct buffer *out)
{
	struct forced_keys *all = &decider->shared->forced;
	struct key_phase *keys =
	    arena_array(&decider->arena, FORCED_KEYS_MAX + LIMIT_LIST_PHASES, sizeof *keys);
	struct override override;
	size_t forced, n, begin;

	if (!keys)
		return WEIR_ENOMEM;
	forced = forced_keys_list(all, limit->algo.identity, keys);
	n = forced + key_phases_list(decider->shared->phases, limit->algo.identity, &keys[forced],
	                             LIMIT_LIST_PHASES);
	buffer_add_text(out, ",\"breakers\":[");
	begin = out->len;
	for (size_t i = 0; i < n; i++)
		if (i < forced || !forced_keys_find(all, keys[i].hash, &override))
			add_phase(decider, limit, &keys[i], out->len == begin, out);
	buffer_add(out, "]", 1);
	return WEIR_OK;
}

int limit_list_render(struct decider *decider, struct buffer *out)
{
	const struct server_config *config = decider->config;
	const struct weir_config *rules = config->rules;
	const struct use **uses = find_uses(rules, &decider->arena);

	if (!uses)
		return WEIR_ENOMEM;
	buffer_add(out, "[", 1);
	for (size_t i = 0; i < rules->limit_count; i++) {
		const struct weir_limit *limit = engine_limit_at(config->engine, i);
		struct rules_limit shown;

		buffer_add_text(out, i > 0 ? ",{\"name\":\"" : "{\"name\":\"");
		buffer_add_json(out, slice_of(limit->name));
		buffer_add_text(out, "\",");
		shown = rules->limits[i];
		if (limit->algo.algorithm->amend)
			limit->algo.algorithm->amend(algo_current(&limit->algo), &shown.options);
		rules_show_limit(&shown, out);
		add_share(&decider->shared->overrides, limit, out);
		if (algo_has_phases(&limit->algo) && add_key_phases(decider, limit, out) != WEIR_OK)
			return WEIR_ENOMEM;
		add_store(engine_table(config->engine), limit, out);
		buffer_add_text(out, ",\"quota\":");
		buffer_add_u64(out, limit->algo.quota);
		buffer_add_text(out, ",\"room\":");
		add_capacity(engine_table(config->engine), limit, out);
		buffer_add_text(out, ",\"rules\":[");
		for (const struct use *use = uses[i]; use; use = use->next) {
			buffer_add_text(out, use == uses[i] ? "\"" : ",\"");
			buffer_add_json(out, slice_of(use->rule));
			buffer_add(out, "\"", 1);
		}
		buffer_add(out, "]}", 2);
	}
	buffer_add(out, "]", 1);
	return WEIR_OK;
}
