/* prepare_rules.c: prepares the plan of a request by the rules that apply to its attributes. */
#include <string.h>

#include "base/number.h"
#include "engine/plan/denial.h"
#include "engine/rules/compiled.h"

static unsigned ipv6_prefix(const struct weir_config *config, const struct rules_rule *rule)
{
	uint64_t bits = rule->ipv6_prefix ? rule->ipv6_prefix : config->ipv6_prefix;

	return (unsigned)(bits ? bits : RULES_IPV6_PREFIX);
}

/* The values that a request's keys are made of, and the memory for them. */
struct rule_request {
	const struct weir_engine *engine;
	struct match_value *values;
	struct arena *arena;
	size_t key_max;
	uint8_t priority;          /* the caller's */
	const uint64_t *permitted; /* see struct engine_attributes */
	uint64_t sufficient_quota; /* see sufficient_quota */
};

/* Whether the request may use all limits of a rule: WEIR_OK or WEIR_EPERM. */
static int check_limits_permitted(const struct rule_request *request, size_t number,
                                  struct plan *plan)
{
	const struct rules_rule *rule = &request->engine->config->rules[number];

	for (size_t i = 0; i < rule->limit_count; i++) {
		size_t limit = rule->limits[i];

		if (!(request->permitted[limit / 64] >> limit % 64 & 1)) {
			plan->direct_step.limit = &request->engine->limits[limit];
			return WEIR_EPERM;
		}
	}
	return WEIR_OK;
}

/*
 * The part of an attribute that goes into a rule's key: its value, or the network of an IPv6
 * address, since a client that has one address has all of its network. Its data is NULL if there is
 * no memory.
 */
static struct slice key_value(const struct rule_request *request, const struct rules_rule *rule,
                              int attribute)
{
	struct match_value *value = &request->values[attribute];
	char *network;

	if (value->text.len == 0)
		return SLICE("");
	/* Without a colon it may still be IPv4, whose key is its text. */
	if (attribute != request->engine->ip_attribute ||
	    !memchr(value->text.data, ':', value->text.len) || !match_is_ip(value))
		return value->text;
	network = arena_alloc(request->arena, IP_TEXT_MAX);
	return (struct slice){
	    network,
	    network ? ip_format_network(&value->ip, ipv6_prefix(request->engine->config, rule), network)
	            : 0};
}

/*
 * The key of a rule: the value of one attribute as it is, of several each with its length
 * before it, so that no two lists of values look alike. An absent attribute counts as an
 * empty value. Its data is NULL if there is no memory.
 */
static struct slice make_key(const struct rule_request *request, size_t number)
{
	const struct rules_rule *rule = &request->engine->config->rules[number];
	const int *attributes = request->engine->rule_keys[number].attributes;
	size_t size = IP_TEXT_MAX; /* a network's text may be longer than the address's */
	char *key, *end;

	if (rule->key_count == 0)
		return SLICE("");
	if (rule->key_count == 1)
		return key_value(request, rule, attributes[0]);
	for (size_t i = 0; i < rule->key_count; i++)
		size += request->values[attributes[i]].text.len + 21;
	end = key = arena_alloc(request->arena, size);
	for (size_t i = 0; key && i < rule->key_count; i++) {
		struct slice value = key_value(request, rule, attributes[i]);

		if (!value.data)
			return value;
		end = format_u64(end, value.len);
		*end++ = ':';
		memcpy(end, value.data, value.len);
		end += value.len;
	}
	return (struct slice){key, (size_t)(end - key)};
}

static struct store_key step_key_of(const struct weir_table *table, const struct weir_limit *limit,
                                    struct slice key)
{
	uint64_t hash = store_hash(table->store, limit->algo.identity, key.data, key.len);

	return store_key(table->store, &limit->algo, hash);
}

/* The quota with which any limit could grant all charges of a plan of so many steps. */
static uint64_t sufficient_quota(const struct plan *plan, size_t steps)
{
	return plan->max_wait_ns != 0 ? UINT64_MAX : sat_u64((u128)u64_max(plan->cost, 1) * steps);
}

/* Whether the limit of the last step could ever grant what the request charges its key so far. */
__attribute__((noinline, cold)) static bool could_grant(struct plan *plan,
                                                        const struct plan_step *step)
{
	uint64_t earlier = denial_earlier_charges(plan, step);

	if (limit_could_grant(step->limit, plan->op, plan->cost, earlier, plan->max_wait_ns))
		return true;
	plan->direct_step = (struct plan_step){.limit = step->limit,
	                                       .total_cost = sat_add(u64_max(plan->cost, 1), earlier)};
	return false;
}

/* Adds a step of a rule that applies. */
static int add_step(const struct rule_request *request, size_t number,
                    const struct weir_limit *limit, struct slice key, struct plan *plan)
{
	const struct weir_engine *engine = request->engine;
	const struct rules_rule *rule = &engine->config->rules[number];
	struct plan_step *step = &plan->steps[plan->step_count++];

	*step = (struct plan_step){
	    .limit = limit,
	    .rule = rule,
	    .key = step_key_of(engine->table, limit, key),
	    .key_name = key,
	    .shadow = rule->mode == RULES_SHADOW,
	    .key_is_secret = engine->rule_keys[number].is_secret,
	    .remote = engine_remote_store(engine->table, limit) != NULL,
	    .priority = rule->has_priority ? (uint8_t)rule->priority : request->priority,
	};
	plan->has_remote_steps |= step->remote;
	if (__builtin_expect(request->sufficient_quota <= limit->algo.quota, 1) || step->shadow)
		return WEIR_OK;
	return could_grant(plan, step) ? WEIR_OK : WEIR_ECOST;
}

/* Adds the steps that a rule which applies asks for. */
static int add_steps(const struct rule_request *request, size_t number, struct plan *plan)
{
	const struct weir_engine *engine = request->engine;
	const struct rules_rule *rule = &engine->config->rules[number];
	struct slice key = make_key(request, number);
	int status = WEIR_OK;

	if (!key.data)
		return WEIR_ENOMEM;
	if (key.len > request->key_max) {
		plan->answering_rule = rule;
		return WEIR_ELONG;
	}
	for (size_t i = 0; i < rule->limit_count && status == WEIR_OK; i++)
		status = add_step(request, number, &engine->limits[rule->limits[i]], key, plan);
	return status;
}

static bool has_enforced(const struct plan *plan)
{
	for (size_t i = 0; i < plan->step_count; i++)
		if (!plan->steps[i].shadow)
			return true;
	return false;
}

/*
 * Where the order of rules decides, a rule above the last step, which could never be granted, may
 * decide before it: then the plan ends in front of that step. Returns WEIR_ECOST if no
 * rule is above it.
 */
static int end_before_last(struct plan *plan)
{
	plan->step_count--;
	plan->cost_exceeds_limit = true;
	plan->answering_rule = NULL;
	return has_enforced(plan) ? WEIR_OK : WEIR_ECOST;
}

static bool find_rules(const struct rule_request *request, struct match_found *found)
{
	return request->values &&
	       match_rules(request->engine->match, request->values, request->arena, found);
}

static bool answers_by_itself(const struct rules_rule *rule)
{
	return rule->answer != RULES_BY_LIMITS && rule->limit_count == 0 && rule->mode == RULES_ENFORCE;
}

/* Whether a rule that applies has steps in a plan of each. `each` is NULL in any other plan. */
static inline bool uses_rule(const struct engine_rule_operation *operation,
                             const struct rules_rule *rule)
{
	if (operation && operation->only_rule && operation->only_rule != rule)
		return false;
	return !operation || operation->feedback == 0 || rule->feedback[operation->feedback - 1] > 0;
}

/* Whether a rule that answers by itself becomes a refused step, in plans of rule operations. */
static inline bool has_refused_step(const struct engine_rule_operation *operation,
                                    const struct rules_rule *rule)
{
	return operation && rule->limit_count == 0 && rule->answer != RULES_BY_LIMITS &&
	       !operation->only_rule && (operation->op == ALGO_PEEK || operation->all_or_none);
}

/* Adds the steps of the first `count` rules that were found; all are checked before any is added.
 */
static inline int add_rules(struct rule_request *request, const struct match_found *found,
                            size_t count, const struct engine_rule_operation *operation,
                            struct plan *plan)
{
	const struct rules_rule *rules = request->engine->config->rules;
	int status = WEIR_OK;
	size_t most = 0;

	for (size_t i = 0; i < count && status == WEIR_OK; i++) {
		most += rules[found->rules[i]].limit_count + (operation != NULL);
		if (request->permitted && uses_rule(operation, &rules[found->rules[i]]))
			status = check_limits_permitted(request, found->rules[i], plan);
	}
	if (status != WEIR_OK)
		return status;
	plan->steps = arena_array(request->arena, most, sizeof *plan->steps);
	if (!plan->steps)
		return WEIR_ENOMEM;
	request->sufficient_quota = sufficient_quota(plan, most);
	for (size_t i = 0; i < count && status == WEIR_OK; i++) {
		const struct rules_rule *rule = &rules[found->rules[i]];

		if (uses_rule(operation, rule))
			status = add_steps(request, found->rules[i], plan);
		if (status == WEIR_OK && uses_rule(operation, rule) && has_refused_step(operation, rule))
			status = add_step(request, found->rules[i], &request->engine->deny_all_limit, SLICE(""),
			                  plan);
	}
	return status;
}

static int prepare_matching_rules(struct rule_request *request, struct plan *plan)
{
	const struct weir_config *config = request->engine->config;
	struct match_found found;
	size_t count = 0;
	int status;

	if (!find_rules(request, &found))
		return WEIR_ENOMEM;
	plan->first_refusal_decides = config->order == RULES_FIRST;
	for (; count < found.count && !plan->answering_rule; count++)
		if (answers_by_itself(&config->rules[found.rules[count]]))
			plan->answering_rule = &config->rules[found.rules[count]];
	if (plan->answering_rule && !plan->first_refusal_decides)
		return WEIR_OK;
	status = add_rules(request, &found, count, NULL, plan);
	if (__builtin_expect(status == WEIR_ECOST && plan->first_refusal_decides, 0))
		return end_before_last(plan);
	return status;
}

int engine_prepare_rules(const struct weir_engine *engine, const struct algo_call *call,
                         const struct engine_attributes *attributes, struct arena *arena,
                         struct plan *plan)
{
	struct rule_request request = {
	    engine, NULL, arena, attributes->key_max, call->priority, attributes->permitted};

	engine_prepare_empty(call, plan);
	if (attributes->count > WEIR_ATTRIBUTES_MAX)
		return WEIR_ELONG;
	request.values = match_values(engine->match, attributes->items, attributes->count, arena);
	return prepare_matching_rules(&request, plan);
}

int engine_prepare_rule_operation(const struct weir_engine *engine,
                                  const struct engine_rule_operation *operation,
                                  const struct engine_attributes *attributes, struct arena *arena,
                                  struct plan *plan)
{
	struct rule_request request = {
	    engine, NULL, arena, attributes->key_max, 0, attributes->permitted};
	struct match_found found;

	engine_prepare_empty(&(struct algo_call){operation->op, 1}, plan);
	plan->steps_are_independent = !operation->all_or_none;
	plan->decides_every_step = operation->all_or_none;
	plan->feedback = (unsigned char)(operation->feedback & 3);
	if (attributes->count > WEIR_ATTRIBUTES_MAX)
		return WEIR_ELONG;
	request.values = match_values(engine->match, attributes->items, attributes->count, arena);
	if (!find_rules(&request, &found))
		return WEIR_ENOMEM;
	return add_rules(&request, &found, found.count, operation, plan);
}

int engine_attribute(const struct weir_engine *engine, struct slice name)
{
	return match_attribute(engine->match, name);
}

int engine_prepare_values(const struct weir_engine *engine, const struct algo_call *call,
                          const struct engine_values *values, struct arena *arena,
                          struct plan *plan)
{
	struct rule_request request = {engine,         match_alloc_values(engine->match, arena),
	                               arena,          WEIR_KEY_MAX,
	                               call->priority, NULL};

	engine_prepare_empty(call, plan);
	for (size_t i = 0; request.values && i < values->count; i++)
		if (values->numbers[i] >= 0)
			request.values[values->numbers[i]].text = values->items[i];
	return prepare_matching_rules(&request, plan);
}
