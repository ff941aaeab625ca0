/* config.h: a configuration made by hand, for tests of the engine. */
#ifndef TESTS_ENGINE_CONFIG_H
#define TESTS_ENGINE_CONFIG_H

#include "rules/model.h"

#define RULES_OF(array) .rules = (array), .rule_count = sizeof(array) / sizeof *(array)
#define LIMITS_OF(array) .limits = (array), .limit_count = sizeof(array) / sizeof *(array)

static inline struct rules_value equal(const char *text)
{
	return (struct rules_value){.test = RULES_EQUAL, .text = slice_of(text)};
}

static inline struct rules_value prefix(const char *text)
{
	return (struct rules_value){.test = RULES_PREFIX, .text = slice_of(text)};
}

static inline struct rules_value range(const char *text)
{
	struct rules_value value = {.test = RULES_IP_RANGE, .text = slice_of(text)};

	if (!ip_range_parse(value.text, &value.range))
		abort();
	return value;
}

#endif
