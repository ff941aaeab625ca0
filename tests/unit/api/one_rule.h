/*
 * one_rule.h: an engine with one rule, whose limits differ from test to test: a limit alone, and
 * with a wide one beside it. The test defines `limits`, of which WIDE is the last, before it
 * includes this.
 */
#ifndef TESTS_API_ONE_RULE_H
#define TESTS_API_ONE_RULE_H

#include "../engine/config.h"

struct place {
	size_t limits[2];
	size_t count;
};

/* The limit alone, before the wide one, and behind it. */
#define PLACES_OF(limit)                                                                           \
	{                                                                                              \
		{{(limit)}, 1}, {{(limit), WIDE}, 2}, {{WIDE, (limit)}, 2},                                \
	}
#define PLACES_COUNT 3

static const char *const by_key[] = {"key"};
static struct rules_rule rule = {.name = "rule", .key = by_key, .key_count = 1};
static struct weir_config config = {LIMITS_OF(limits), .rules = &rule, .rule_count = 1};
static weir_table *table;
static weir_engine *engine;
static uint64_t now_ns;

static void begin(const struct place *place)
{
	rule.limits = place->limits;
	rule.limit_count = place->count;
	now_ns = NOW;
	weir_seed(1);
	assert_int_equal(weir_table_open(&(struct weir_table_options){.capacity = 1000}, &table, NULL),
	                 0);
	assert_int_equal(weir_engine_open(&config, table, &engine, NULL), 0);
}

static void end(void)
{
	weir_engine_close(engine);
	weir_table_close(table);
}

/* Asks for the key by the rule. The permits are the caller's to report. */
static bool ask_once(unsigned priority, struct weir_permits *permits, struct weir_decision *d)
{
	const struct weir_attribute key = {"key", "k", 1};
	struct weir_ask request = {.priority = priority, .now_ns = now_ns, .permits = permits};

	assert_int_equal(weir_engine_ask(engine, &key, 1, &request, d), 0);
	return d->allowed;
}

#endif
