/*
 * prepare_rules.c: prepares the plan of a request: finds the rules that apply to its attributes,
 * and adds a step for each of their limits, on the key that the rule makes of the attributes.
 *
 * Rules have numbers in the order of the configuration.
 */
#include <string.h>

#include "base/number.h"
#include "engine/plan/denial.h"
#include "engine/rules/compiled.h"

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

/* Returns EPERM, and sets the limit, if the request may not use one of the rule's limits. */
static int check_limits_permitted(const struct rule_request *request, size_t rule_number,
                                  struct plan *plan)
{
	const struct rules_rule *rule = &request->engine->config->rules[rule_number];

	for (size_t i = 0; i < rule->limit_count; i++) {
		size_t limit = rule->limits[i];
		bool is_permitted = request->permitted[limit / 64] >> limit % 64 & 1;

		if (!is_permitted) {
			plan->direct_step.limit = &request->engine->limits[limit];
			return WEIR_EPERM;
		}
	}
	return WEIR_OK;
}

/*
 * Counts a request to a rule whose attribute is empty, once for the first such attribute of the
 * key. Called only where a value is empty, so that other requests pay nothing for the count.
 */
__attribute__((noinline, cold)) static void count_empty(const struct rule_request *request,
                                                        size_t rule_number, int attribute,
                                                        const struct plan *plan)
{
	const struct rule_key *key = &request->engine->rule_keys[rule_number];
	const int *first = key->attributes;

	while (request->values[*first].text.len > 0)
		first++;
	if (key->empty_count && *first == attribute && plan_charges(plan))
		atomic_fetch_add_explicit(key->empty_count, 1, memory_order_relaxed);
}

/*
 * Returns the part of an attribute that goes into a rule's key: its value, or the network of an
 * IPv6 address, since a client that has one address has all of its network. Its data is NULL if
 * there is no memory.
 */
static struct slice key_value(const struct rule_request *request, size_t rule_number, int attribute,
                              const struct plan *plan)
{
	const struct rules_rule *rule = &request->engine->config->rules[rule_number];
	struct match_value *value = &request->values[attribute];
	char *network;
	size_t len;

	if (value->text.len == 0) {
		count_empty(request, rule_number, attribute, plan);
		return SLICE("");
	}
	/* Without a colon it may still be IPv4, whose key is its text. */
	if (attribute != request->engine->ip_attribute ||
	    !memchr(value->text.data, ':', value->text.len) || !match_is_ip(value))
		return value->text;
	network = arena_alloc(request->arena, IP_TEXT_MAX);
	if (!network)
		return (struct slice){0};
	len = ip_format_network(&value->ip, rules_ipv6_prefix(request->engine->config, rule), network);
	return (struct slice){network, len};
}

/*
 * Makes the key of a rule: the value of one attribute as it is; the values of several attributes
 * each with its length before it, so that no two lists of values look alike. An absent attribute
 * counts as an empty value. Its data is NULL if there is no memory.
 */
static struct slice make_key(const struct rule_request *request, size_t rule_number,
                             const struct plan *plan)
{
	const struct rules_rule *rule = &request->engine->config->rules[rule_number];
	const int *attributes = request->engine->rule_keys[rule_number].attributes;
	size_t size = IP_TEXT_MAX; /* a network's text may be longer than its address */
	char *key, *end;

	if (rule->key_count == 0)
		return SLICE("");
	if (rule->key_count == 1)
		return key_value(request, rule_number, attributes[0], plan);
	for (size_t i = 0; i < rule->key_count; i++)
		size += request->values[attributes[i]].text.len + 20 + 1; /* digits of a length, colon */
	end = key = arena_alloc(request->arena, size);
	for (size_t i = 0; key && i < rule->key_count; i++) {
		struct slice value = key_value(request, rule_number, attributes[i], plan);

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

/*
 * Returns a quota with which a limit could surely grant all charges of the plan to one key: such
 * limits need no check by could_grant.
 */
static uint64_t sufficient_quota(const struct plan *plan, size_t steps)
{
	return plan->max_wait_ns != 0 ? UINT64_MAX : sat_u64((u128)u64_max(plan->cost, 1) * steps);
}

/*
 * Whether the step's limit could ever grant what the plan charges to its key so far. If not, sets
 * in the plan the limit and this sum, for the message of ECOST.
 */
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

/*
 * Adds a step for a limit of a rule that applies. Returns ECOST if the limit could never grant the
 * cost.
 */
static int add_step(const struct rule_request *request, size_t rule_number,
                    const struct weir_limit *limit, struct slice key, struct plan *plan)
{
	const struct weir_engine *engine = request->engine;
	const struct rules_rule *rule = &engine->config->rules[rule_number];
	struct plan_step *step = &plan->steps[plan->step_count++];

	*step = (struct plan_step){
	    .limit = limit,
	    .rule = rule,
	    .key = step_key_of(engine->table, limit, key),
	    .key_name = key,
	    .shadow = rule->mode == RULES_SHADOW,
	    .key_is_secret = engine->rule_keys[rule_number].is_secret,
	    .remote = engine_remote_store(engine->table, limit) != NULL,
	    .priority = rule->has_priority ? (uint8_t)rule->priority : request->priority,
	};
	plan->has_remote_steps |= step->remote;
	if (__builtin_expect(request->sufficient_quota <= limit->algo.quota, 1) || step->shadow)
		return WEIR_OK;
	return could_grant(plan, step) ? WEIR_OK : WEIR_ECOST;
}

/*
 * Adds a step for each limit of a rule that applies. Returns ELONG if its key is too long: then the
 * message needs the rule, in plan->answering_rule.
 */
static int add_steps(const struct rule_request *request, size_t rule_number, struct plan *plan)
{
	const struct weir_engine *engine = request->engine;
	const struct rules_rule *rule = &engine->config->rules[rule_number];
	struct slice key = make_key(request, rule_number, plan);
	int status = WEIR_OK;

	if (!key.data)
		return WEIR_ENOMEM;
	if (key.len > request->key_max) {
		plan->answering_rule = rule;
		return WEIR_ELONG;
	}
	for (size_t i = 0; i < rule->limit_count && status == WEIR_OK; i++)
		status = add_step(request, rule_number, &engine->limits[rule->limits[i]], key, plan);
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
 * If the first refusal decides, and the limit of the last step could never grant its cost: removes
 * this step, because a rule before it may decide. Returns ECOST if no enforced step is before it.
 */
static int drop_impossible_step(struct plan *plan)
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

/* Whether the rule allows or denies all requests that it applies to, without limits. */
static bool answers_by_itself(const struct rules_rule *rule)
{
	return rule->answer != RULES_BY_LIMITS && rule->limit_count == 0 && rule->mode == RULES_ENFORCE;
}

/* Whether the operation uses the rule. It is NULL in plans that decide a request: these use all. */
static inline bool uses_rule(const struct engine_rule_operation *operation,
                             const struct rules_rule *rule)
{
	if (operation && operation->only_rule && operation->only_rule != rule)
		return false;
	return !operation || operation->feedback == 0 || rule->feedback[operation->feedback - 1] > 0;
}

/* Whether a rule that denies without limits becomes a refused step of the operation's plan. */
static inline bool has_refused_step(const struct engine_rule_operation *operation,
                                    const struct rules_rule *rule)
{
	return operation && rule->limit_count == 0 && rule->answer != RULES_BY_LIMITS &&
	       !operation->only_rule && (operation->op == ALGO_PEEK || operation->all_or_none);
}

/* Adds the step that refuses in place of a rule that denies without limits. */
static int add_refused_step(const struct rule_request *request, size_t rule_number,
                            struct plan *plan)
{
	return add_step(request, rule_number, &request->engine->deny_all_limit, SLICE(""), plan);
}

/*
 * Adds the steps of the first `count` rules that were found. The request must be permitted to use
 * all of them before any is added.
 */
static inline int add_rules(struct rule_request *request, const struct match_found *found,
                            size_t count, const struct engine_rule_operation *operation,
                            struct plan *plan)
{
	const struct rules_rule *rules = request->engine->config->rules;
	int status = WEIR_OK;
	size_t step_capacity = 0;

	for (size_t i = 0; i < count && status == WEIR_OK; i++) {
		step_capacity += rules[found->rules[i]].limit_count;
		step_capacity += operation != NULL; /* for a refused step */
		if (request->permitted && uses_rule(operation, &rules[found->rules[i]]))
			status = check_limits_permitted(request, found->rules[i], plan);
	}
	if (status != WEIR_OK)
		return status;
	plan->steps = arena_array(request->arena, step_capacity, sizeof *plan->steps);
	if (!plan->steps)
		return WEIR_ENOMEM;
	request->sufficient_quota = sufficient_quota(plan, step_capacity);
	for (size_t i = 0; i < count && status == WEIR_OK; i++) {
		const struct rules_rule *rule = &rules[found->rules[i]];

		if (!uses_rule(operation, rule))
			continue;
		status = add_steps(request, found->rules[i], plan);
		if (status == WEIR_OK && has_refused_step(operation, rule))
			status = add_refused_step(request, found->rules[i], plan);
	}
	return status;
}

/*
 * Finds the first rule that answers without limits. Returns how many rules there are up to it and
 * with it, or the number of all if there is none.
 */
static size_t find_answering_rule(const struct weir_config *config, const struct match_found *found,
                                  struct plan *plan)
{
	size_t count = 0;

	for (; count < found->count && !plan->answering_rule; count++)
		if (answers_by_itself(&config->rules[found->rules[count]]))
			plan->answering_rule = &config->rules[found->rules[count]];
	return count;
}

/*
 * Adds the steps of all rules that apply. If one of them answers without limits, it decides alone,
 * so no steps are added; but where the first rule decides, those of the rules before it. There a
 * step that could never be granted is an error only if no rule before it may decide.
 */
static int prepare_matching_rules(struct rule_request *request, struct plan *plan)
{
	const struct weir_config *config = request->engine->config;
	struct match_found found;
	size_t count;
	int status;

	if (!find_rules(request, &found))
		return WEIR_ENOMEM;
	plan->first_refusal_decides = config->order == RULES_FIRST;
	count = find_answering_rule(config, &found, plan);
	if (plan->answering_rule && !plan->first_refusal_decides)
		return WEIR_OK;
	status = add_rules(request, &found, count, NULL, plan);
	if (__builtin_expect(status == WEIR_ECOST && plan->first_refusal_decides, 0))
		return drop_impossible_step(plan);
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

/*
 * For operations that show a result for each limit: a peek at all limits of a request, or a call of
 * Koala, in which each rule has its own result. Such a call may give `feedback`: units that the
 * rule sets. With all_or_none the steps decide the request together, and all get a decision;
 * without it each is decided by itself.
 */
int engine_prepare_rule_operation(const struct weir_engine *engine,
                                  const struct engine_rule_operation *operation,
                                  const struct engine_attributes *attributes, struct arena *arena,
                                  struct plan *plan)
{
	struct rule_request request = {
	    engine, NULL, arena, attributes->key_max, 0, attributes->permitted};
	struct match_found found;

	engine_prepare_empty(&(struct algo_call){.op = operation->op, .cost = 1}, plan);
	plan->steps_are_independent = !operation->all_or_none;
	plan->decides_every_step = operation->all_or_none;
	plan->feedback = operation->feedback & 3; /* 0 to 3: the mask is for the compiler */
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
