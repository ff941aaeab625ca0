#include "server/advice.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "algo/algorithm.h"
#include "engine/engine.h"

struct advice {
	const struct weir_config *config;
	const struct settings_plan *plan;
	advice_say *say;
	void *context;
};

/* A place in a file; line 0: none. */
struct spot {
	const char *file;
	unsigned line, column;
};

__attribute__((format(printf, 3, 4))) static void advise(const struct advice *advice,
                                                         struct spot spot, const char *format, ...)
{
	char text[512];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	advice->say(advice->context,
	            &(struct weir_config_remark){
	                .path = spot.file, .line = spot.line, .column = spot.column, .text = text});
}

/* Where a limit names its Redis; NULL: it counts in the table, or not at all. */
static const struct rules_store *redis_of(const struct advice *advice, size_t limit)
{
	const struct rules_limit *from = &advice->config->limits[limit];

	if (algorithm_of(from->options.algorithm)->draws || !rules_store(from, advice->plan->redis))
		return NULL;
	return from->store.text ? &from->store : &advice->config->store;
}

/* The Redis of a limit that each server would grant whole; NULL: there is none. */
static const struct rules_store *local_redis(const struct advice *advice)
{
	const struct weir_config *config = advice->config;
	const struct rules_store *redis = NULL;

	for (size_t i = 0; i < config->limit_count && !redis; i++)
		if (config->limits[i].on_store_failure == RULES_LOCAL)
			redis = redis_of(advice, i);
	for (size_t i = 0; i < config->rule_count && !redis; i++) {
		const struct rules_rule *rule = &config->rules[i];
		bool is_local = rule->has_on_store_failure && rule->on_store_failure == RULES_LOCAL;

		for (size_t j = 0; is_local && j < rule->limit_count && !redis; j++)
			redis = redis_of(advice, rule->limits[j]);
	}
	/* Without limits there are those that requests bring along. */
	return config->limit_count == 0 && advice->plan->redis ? &config->store : redis;
}

static void check_nodes(const struct advice *advice)
{
	const struct rules_store *store = advice->config->has_nodes ? NULL : local_redis(advice);
	bool in_file = store && store->text &&
	               (store != &advice->config->store || strcmp(store->text, advice->plan->redis) == 0);

	if (store)
		advise(advice,
		       in_file ? (struct spot){store->file, store->line, store->column} : (struct spot){0},
		       "expected `nodes` beside a store at Redis, found none: while Redis is away, each "
		       "server would grant the whole quota of limits whose on_store_failure is local");
}

static void check_chunk(const struct advice *advice, const struct rules_limit *limit,
                        uint64_t quota)
{
	uint64_t units = quota / 100 * limit->chunk_percent + quota % 100 * limit->chunk_percent / 100;
	uint64_t nodes = advice->config->has_nodes ? advice->config->nodes : 2;
	struct spot spot = {limit->file, limit->line, limit->column};

	if (!rules_store(limit, advice->plan->redis))
		advise(advice, spot,
		       "expected a store at Redis beside chunk, found none: limit \"%s\" is in this "
		       "server's own "
		       "table",
		       limit->options.name);
	else if (units < 2)
		advise(
		    advice, spot,
		    "expected a chunk of 2 units at least, found %u%% of %llu: limit \"%s\" asks Redis for "
		    "each request",
		    limit->chunk_percent, (unsigned long long)quota, limit->options.name);
	else if (nodes * limit->chunk_percent > 100)
		advise(
		    advice, spot,
		    "expected the chunks of %llu servers to fit into the quota, found %llu%% of it: limit "
		    "\"%s\" may deny at one server what another one holds unused",
		    (unsigned long long)nodes, (unsigned long long)(nodes * limit->chunk_percent),
		    limit->options.name);
}

static void check_limit(const struct advice *advice, const struct rules_limit *limit,
                        const struct weir_limit *compiled)
{
	bool in_file = *advice->plan->path != '\0';

	if (limit->chunk_percent)
		check_chunk(advice, limit, compiled->algo.quota);
	if (in_file && limit->store.text && !rules_store(limit, NULL))
		advise(
		    advice, (struct spot){limit->store.file, limit->store.line, limit->store.column},
		    "expected no memory beside a store in a file, found it: limit \"%s\" is in the file as "
		    "all limits that are not at Redis",
		    limit->options.name);
}

void advice_give(const struct weir_config *config, const weir_engine *engine,
                 const struct settings_plan *plan, advice_say *say, void *context)
{
	const struct advice advice = {config, plan, say, context};

	check_nodes(&advice);
	for (size_t i = 0; i < config->limit_count; i++)
		check_limit(&advice, &config->limits[i], engine_limit_at(engine, i));
}
