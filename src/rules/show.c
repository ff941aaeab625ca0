/* show.c: prints limits and rules as JSON objects, for listings. */
#include "rules/show.h"

#include "algo/algorithm.h"
#include "base/number.h"
#include "rules/rate.h"

const struct word rules_failures[] = {
    {"local", RULES_LOCAL}, {"open", RULES_OPEN}, {"closed", RULES_CLOSED}, {0}};

const char *rules_word(const struct word *words, unsigned value)
{
	while (words->name && words->value != value)
		words++;
	return words->name ? words->name : "";
}

void rules_show_value(const struct algo_parameter *parameter,
                      const struct weir_limit_options *options, struct buffer *out)
{
	const void *field = parameter_field(parameter, options);
	uint64_t number;
	char text[DECIMAL_TEXT_MAX];

	switch (parameter->type) {
	case ALGO_NUMBER:
	case ALGO_PERCENT:
	case ALGO_TIME:
		number = parameter_number(parameter, options);
		number = number == WEIR_ZERO ? 0 : number;
		if (parameter->type == ALGO_TIME)
			duration_add(out, number);
		else
			buffer_add_u64(out, number);
		buffer_add(out, "%", parameter->type == ALGO_PERCENT);
		break;
	case ALGO_DECIMAL:
		format_decimal(text, *(const double *)field);
		buffer_add_text(out, text);
		break;
	case ALGO_TEXT:
		buffer_add_text(out, *(const char *const *)field);
		break;
	case ALGO_WORD:
		buffer_add_text(out, rules_word(parameter->words, *(const unsigned *)field));
		break;
	default:
		rate_add(out, field);
		break;
	}
}

/* Appends the value of a parameter as JSON: numbers as they are, all else in quotes. */
static void add_json_value(const struct algo_parameter *parameter,
                           const struct weir_limit_options *options, struct buffer *out)
{
	bool is_number = parameter->type == ALGO_NUMBER || parameter->type == ALGO_DECIMAL;
	struct buffer value = {0};

	rules_show_value(parameter, options, &value);
	buffer_add(out, "\"", !is_number);
	buffer_add_json(out, (struct slice){value.data, value.len});
	buffer_add(out, "\"", !is_number);
	out->failed |= value.failed;
	buffer_free(&value);
}

/* Whether the limit uses the parameter, with a value that a file could have. */
static bool is_in_effect(const struct algo_parameter *parameter,
                         const struct weir_limit_options *options)
{
	uint64_t value;

	if (parameter_effect_in(parameter, options) != ALGO_USED)
		return false;
	if (parameter->type != ALGO_NUMBER && parameter->type != ALGO_PERCENT &&
	    parameter->type != ALGO_TIME)
		return true;
	value = parameter_number(parameter, options);
	return value >= parameter->min && value <= parameter->max;
}

void rules_show_limit(const struct rules_limit *limit, struct buffer *out)
{
	const struct algorithm *algorithm = algorithm_of(limit->options.algorithm);
	struct weir_limit_options options = limit->options;
	union algo_own own;

	algorithm_resolve(&options, &own);
	buffer_printf(out, "\"algorithm\":\"%s\"", algorithm->name);
	for (const struct algo_parameter *parameter = algorithm->parameters; parameter->name;
	     parameter++) {
		if (!is_in_effect(parameter, &options))
			continue;
		buffer_printf(out, ",\"%s\":", parameter->name);
		add_json_value(parameter, &options, out);
	}
	buffer_printf(out, ",\"on_store_failure\":\"%s\"",
	              rules_word(rules_failures, limit->on_store_failure));
	if (limit->chunk_percent)
		buffer_printf(out, ",\"chunk\":\"%u%%\"", limit->chunk_percent);
}

static void add_condition(const struct rules_condition *condition, struct buffer *out)
{
	static const char *const tests[2][2] = {{"any_of", "none_of"},
	                                        {"in", "not_in"}}; /* [in_dictionary][negated] */
	bool in_dictionary = condition->value_count > 0 && condition->values->test == RULES_LISTED;

	buffer_add_text(out, "{\"attribute\":");
	buffer_add_json_string(out, slice_of(condition->attribute));
	buffer_printf(out, ",\"%s\":[", tests[in_dictionary][condition->negated]);
	for (size_t i = 0; i < condition->value_count; i++) {
		buffer_add(out, ",", i > 0);
		buffer_add_json_string(out, condition->values[i].text);
	}
	buffer_add(out, "]}", 2);
}

static void add_conditions(const struct rules_rule *rule, struct buffer *out)
{
	buffer_add_text(out, ",\"match\":[");
	for (size_t i = 0; i < rule->condition_count; i++) {
		buffer_add(out, ",", i > 0);
		add_condition(&rule->conditions[i], out);
	}
	buffer_add_text(out, "],\"key\":[");
	for (size_t i = 0; i < rule->key_count; i++) {
		buffer_add(out, ",", i > 0);
		buffer_add_json_string(out, slice_of(rule->key[i]));
	}
	buffer_add(out, "]", 1);
}

static void add_limits(const struct weir_config *config, const struct rules_rule *rule,
                       struct buffer *out)
{
	buffer_add_text(out, ",\"limits\":[");
	for (size_t i = 0; i < rule->limit_count; i++) {
		const struct rules_limit *limit = &config->limits[rule->limits[i]];

		buffer_add_text(out, i > 0 ? ",{\"name\":" : "{\"name\":");
		buffer_add_json_string(out, slice_of(limit->options.name));
		buffer_add(out, ",", 1);
		rules_show_limit(limit, out);
		buffer_add(out, "}", 1);
	}
	buffer_add(out, "]", 1);
}

void rules_show_rule(const struct weir_config *config, const struct rules_rule *rule,
                     struct buffer *out)
{
	static const char *const answers[] = {NULL, "allow", "deny"};

	buffer_add_text(out, "{\"name\":");
	buffer_add_json_string(out, slice_of(rule->name));
	add_conditions(rule, out);
	add_limits(config, rule, out);
	if (rule->answer != RULES_BY_LIMITS)
		buffer_printf(out, ",\"answer\":\"%s\"", answers[rule->answer]);
	if (rule->mode == RULES_SHADOW)
		buffer_add_text(out, ",\"mode\":\"shadow\"");
	if (rule->feedback[0] || rule->feedback[1])
		buffer_printf(out, ",\"feedback\":[%llu,%llu]", (unsigned long long)rule->feedback[0],
		              (unsigned long long)rule->feedback[1]);
	if (rule->has_priority)
		buffer_printf(out, ",\"priority\":%llu", (unsigned long long)rule->priority);
	if (rule->has_on_store_failure)
		buffer_printf(out, ",\"on_store_failure\":\"%s\"",
		              rules_word(rules_failures, rule->on_store_failure));
	if (rule->result)
		buffer_printf(out, ",\"result\":%s", rule->result);
	buffer_add(out, "}", 1);
}
