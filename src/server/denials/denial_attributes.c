/*
 * denial_attributes.c: chooses the attributes of a request that are kept with its denial, and shows
 * them as JSON.
 */
#include "server/denials/denial_attributes.h"

#include "base/number.h"
#include "base/text/secret_name.h"

static bool names_attribute(const char *const *names, size_t count, const char *name)
{
	for (size_t i = 0; i < count; i++)
		if (strcmp(names[i], name) == 0)
			return true;
	return false;
}

static bool counts_by(const struct rules_rule *rule, const char *name)
{
	return names_attribute(rule->key, rule->key_count, name);
}

static bool matches_by(const struct rules_rule *rule, const char *name)
{
	for (size_t i = 0; i < rule->condition_count; i++)
		if (strcmp(rule->conditions[i].attribute, name) == 0)
			return true;
	return false;
}

/* Whether the attribute of that name is kept with a denial by the rule, which may be NULL. */
static bool is_chosen(const struct rules_denials *denials, const struct rules_rule *rule,
                      const char *name)
{
	if (denials->attributes == RULES_DENIAL_OF_LIST)
		return names_attribute(denials->listed, denials->listed_count, name);
	return denials->attributes == RULES_DENIAL_OF_RULE && rule &&
	       (counts_by(rule, name) || matches_by(rule, name));
}

/* Whether the name is that of an earlier attribute, too: an object has each name once. */
static bool is_repeated(const struct plan_attributes *attributes, size_t i)
{
	for (size_t j = 0; j < i; j++)
		if (strcmp(attributes->items[j].name, attributes->items[i].name) == 0)
			return true;
	return false;
}

/*
 * Whether the value of the attribute finds a denial by the rule, because the rule counts by it. A
 * rule that denies without limits has no key; there the rule must match by the attribute.
 */
static bool finds_denial(const struct rules_rule *rule, const char *name)
{
	return rule->limit_count > 0 ? counts_by(rule, name) : matches_by(rule, name);
}

bool denial_attributes_are_kept(const struct decider *decider, const struct plan *plan, size_t i)
{
	const struct rules_denials *denials = &decider->config->rules->denials;
	const char *name = plan->attributes.items[i].name;
	const struct rules_rule *last = NULL, *answering = plan->answering_rule;

	if (!decider->shared->denials)
		return false;
	if (answering && (is_chosen(denials, answering, name) || finds_denial(answering, name)))
		return true;
	for (size_t step = 0; step < plan->step_count; step++) {
		const struct rules_rule *rule = plan->steps[step].rule;

		if (rule == last) /* the steps of a rule are next to each other */
			continue;
		if (is_chosen(denials, rule, name) || (rule && finds_denial(rule, name)))
			return true;
		last = rule;
	}
	return false;
}

/* Whether the value is that of many visitors, so that it names none of them. */
static bool names_no_visitor(const char *name)
{
	return strcmp(name, "path") == 0 || strcmp(name, "method") == 0 || strcmp(name, "host") == 0;
}

/* Whether a digest stands for the attribute's value in a denial by the rule, which may be NULL. */
static bool is_hidden(const struct rules_denials *denials, const struct rules_rule *rule,
                      const char *name)
{
	if (secret_name_is(name))
		return true;
	if (denials->key == RULES_DENIAL_FULL)
		return false;
	return (rule && counts_by(rule, name)) ||
	       (denials->attributes != RULES_DENIAL_OF_LIST && !names_no_visitor(name));
}

/* Adds a value as it may be shown: in clear and cut to DENIAL_VALUE_MAX, or as a digest. */
static void add_shown_value(const struct decider *decider, const struct rules_rule *rule,
                            const struct weir_attribute *attribute, struct buffer *out)
{
	const struct worker_shared *shared = decider->shared;
	struct slice value = {attribute->value, attribute->value_len};
	char digest[KEY_DIGEST_TEXT];

	if (is_hidden(&decider->config->rules->denials, rule, attribute->name)) {
		digest_keys_write(&shared->digest_keys, value, digest);
		buffer_add_text(out, digest);
		return;
	}
	value.len = u64_min(value.len, DENIAL_VALUE_MAX);
	buffer_add_json(out, value);
	if (value.len < attribute->value_len)
		buffer_add_text(out, "…");
}

void denial_attributes_add_json(const struct decider *decider, const struct plan *plan,
                                const struct plan_step *step, struct buffer *out)
{
	const struct rules_denials *denials = &decider->config->rules->denials;
	size_t count = plan->has_attributes ? plan->attributes.count : 0, begin = out->len;

	buffer_add(out, "{", 1);
	for (size_t i = 0; i < count; i++) {
		const struct weir_attribute *attribute = &plan->attributes.items[i];
		size_t before = out->len;

		if (!is_chosen(denials, step->rule, attribute->name) || is_repeated(&plan->attributes, i))
			continue;
		buffer_add_text(out, before > begin + 1 ? ",\"" : "\"");
		buffer_add_json(out, slice_of(attribute->name));
		buffer_add(out, "\":\"", 3);
		add_shown_value(decider, step->rule, attribute, out);
		buffer_add(out, "\"", 1);
		if (out->len - begin > DENIAL_ATTRIBUTES_MAX)
			out->len = before;
	}
	buffer_add(out, "}", 1);
}

void denial_attributes_add_values(const struct decider *decider, const struct plan *plan,
                                  const struct plan_step *step, struct buffer *out)
{
	const struct worker_shared *shared = decider->shared;
	size_t count = plan->has_attributes && step->rule ? plan->attributes.count : 0;
	char digest[KEY_DIGEST_TEXT];

	for (size_t i = 0; i < count; i++) {
		const struct weir_attribute *attribute = &plan->attributes.items[i];
		struct slice value = {attribute->value, attribute->value_len};

		if (!finds_denial(step->rule, attribute->name) || is_repeated(&plan->attributes, i))
			continue;
		digest_keys_write(&shared->digest_keys, value, digest);
		buffer_add(out, digest, DENIAL_DIGEST);
	}
}
