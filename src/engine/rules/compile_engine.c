/*
 * compile_engine.c: compiles a configuration into an engine: opens its limits, and indexes its
 * rules by name and by the values that they match.
 *
 * A limit at a remote store (Redis) also gets a *local limit*, which counts in this server's memory
 * while the store is unavailable.
 */
#include "engine/rules/compiled.h"

#include <stdalign.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "algo/algorithm.h"
#include "base/error.h"
#include "base/number.h"
#include "base/text/secret_name.h"
#include "base/text/store_url.h"
#include "store/caller.h"

/*
 * Makes a limit ready to count in this table's memory: the limit itself, or if it is remote, a
 * local limit, which it opens. Such a limit gets a generation, a number that changes with its
 * parameters.
 */
static int prepare_in_memory(struct weir_engine *engine, struct weir_limit *limit,
                             const struct rules_limit *from, struct weir_error *error)
{
	struct weir_limit *local = &engine->locals[engine->local_count];
	uint64_t nodes = engine->table->nodes ? engine->table->nodes : engine->config->nodes;
	struct weir_error inner;
	int status;

	if (!engine_remote_store(engine->table, limit)) {
		store_assign_generation(engine->table->store, &limit->algo);
		return WEIR_OK;
	}
	status = limit_init_local(local, limit, &from->options, nodes, engine->table->store, &inner);
	if (status != WEIR_OK)
		return error_set(
		    error, status,
		    "expected a limit that %llu servers can divide while Redis is unavailable, "
		    "found one that they can't: %s",
		    (unsigned long long)nodes, inner.message);
	engine->local_count++;
	store_assign_generation(engine->table->store, &local->algo);
	limit->local = local;
	return WEIR_OK;
}

/* Opens a limit in place. An error gets the line of the limit in the rule file. */
static int open_limit(struct weir_engine *engine, struct weir_limit *limit, struct store *store,
                      const struct rules_limit *from, struct weir_error *error)
{
	int status = limit_init(limit, &from->options, error);

	if (status == WEIR_OK) {
		engine->limit_count++;
		limit->store = store;
		limit->on_store_failure = from->on_store_failure;
		limit->algo.chunk = (uint64_t)((u128)limit->algo.quota * from->chunk_percent / 100);
		status = prepare_in_memory(engine, limit, from, error);
	}
	if (status != WEIR_OK && error) {
		error->line = from->line;
		error->column = from->column;
	}
	return status;
}

static int open_limits(struct weir_engine *engine, struct store *const *stores,
                       struct weir_error *error)
{
	const struct weir_config *config = engine->config;
	int status = WEIR_OK;

	engine->limits = arena_array(&engine->arena, config->limit_count, sizeof *engine->limits);
	engine->locals = arena_array(&engine->arena, config->limit_count, sizeof *engine->locals);
	if (!engine->limits || !engine->locals)
		return error_set(error, WEIR_ENOMEM, "out of memory");
	for (size_t i = 0; i < config->limit_count && status == WEIR_OK; i++)
		status = open_limit(engine, &engine->limits[i], stores ? stores[i] : NULL,
		                    &config->limits[i], error);
	return status;
}

/* Returns a limit by its number: first those of the configuration, then the local ones. */
static struct weir_limit *limit_or_local(const struct weir_engine *engine, size_t number)
{
	return number < engine->limit_count ? &engine->limits[number]
	                                    : &engine->locals[number - engine->limit_count];
}

struct by_identity {
	uint64_t identity;
	struct weir_limit *limit;
};

struct by_name {
	struct map_text key;
	size_t number;
};

static uint64_t hash_name(const struct weir_engine *engine, struct slice name)
{
	return store_hash(engine->table->store, 0, name.data, name.len);
}

/* Maps a name to the number of a limit or rule. Returns false if there is no memory. */
static bool add_name(const struct weir_engine *engine, struct map *names, const char *name,
                     size_t number)
{
	struct slice text = slice_of(name);
	struct by_name *entry = map_add_text(names, hash_name(engine, text), text);

	if (entry)
		entry->number = number;
	return entry;
}

static const struct by_name *find_name(const struct weir_engine *engine, const struct map *names,
                                       struct slice name)
{
	return map_find_text(names, hash_name(engine, name), name);
}

static int index_limits(struct weir_engine *engine, struct weir_error *error)
{
	bool has_memory = true;

	engine->limit_names = MAP_OF(struct by_name, SIZE_MAX);
	engine->identities = MAP_OF(struct by_identity, SIZE_MAX);
	for (size_t i = 0; i < engine->limit_count && has_memory; i++)
		has_memory = add_name(engine, &engine->limit_names, engine->limits[i].name, i);
	for (size_t i = 0; i < engine->limit_count + engine->local_count && has_memory; i++) {
		struct weir_limit *limit = limit_or_local(engine, i);
		struct by_identity *entry = map_add(&engine->identities, limit->algo.identity);

		has_memory = entry;
		if (entry)
			entry->limit = limit;
	}
	return has_memory ? WEIR_OK : error_set(error, WEIR_ENOMEM, "out of memory");
}

/*
 * Finds the attributes of which a rule's key is made. A value that may be a secret, such as a
 * header of a visitor or an API key, must not be shown in listings, nor a key made of it. Returns
 * false if there is no memory.
 */
static bool compile_key(struct weir_engine *engine, size_t number)
{
	const struct rules_rule *rule = &engine->config->rules[number];
	struct rule_key *key = &engine->rule_keys[number];

	key->attributes = arena_array(&engine->arena, rule->key_count, sizeof *key->attributes);
	for (size_t i = 0; key->attributes && i < rule->key_count; i++) {
		key->attributes[i] = match_key_attribute(engine->match, number, slice_of(rule->key[i]));
		key->is_secret |= secret_name_is(rule->key[i]);
	}
	for (size_t i = 0; i < rule->limit_count; i++)
		engine->limits[rule->limits[i]].has_secret_keys |= key->is_secret;
	return key->attributes != NULL;
}

/* Maps the names of rules, and opens the limit of rules that deny by themselves. */
static int index_rules(struct weir_engine *engine, struct weir_error *error)
{
	const struct weir_config *config = engine->config;

	engine->rule_names = MAP_OF(struct by_name, SIZE_MAX);
	for (size_t i = 0; i < config->rule_count; i++)
		if (!add_name(engine, &engine->rule_names, config->rules[i].name, i))
			return error_set(error, WEIR_ENOMEM, "out of memory");
	engine->has_deny_all_limit =
	    limit_init(&engine->deny_all_limit, &algorithm_denies_all, error) == WEIR_OK;
	return engine->has_deny_all_limit ? WEIR_OK : WEIR_ENOMEM;
}

const struct rules_rule *engine_rule(const struct weir_engine *engine, struct slice name)
{
	const struct by_name *entry = find_name(engine, &engine->rule_names, name);

	return entry ? &engine->config->rules[entry->number] : NULL;
}

static int compile_rules(struct weir_engine *engine, struct weir_error *error)
{
	const struct weir_config *config = engine->config;

	engine->match = match_new(config, engine_secret(engine->table), &engine->arena);
	engine->rule_keys = arena_array(&engine->arena, config->rule_count, sizeof *engine->rule_keys);
	if (!engine->match || !engine->rule_keys)
		return error_set(error, WEIR_ENOMEM, "out of memory");
	engine->ip_attribute = match_attribute(engine->match, SLICE("ip"));
	for (size_t i = 0; i < config->rule_count; i++)
		if (!compile_key(engine, i))
			return error_set(error, WEIR_ENOMEM, "out of memory");
	return WEIR_OK;
}

/*
 * Reserves space for the keys of all limits in memory. This is the last step of opening, because
 * reserved tables stay even if opening fails.
 */
static int reserve_limits(struct weir_engine *engine, struct weir_error *error)
{
	size_t count = engine->limit_count + engine->local_count, n = 0;
	const struct algo_limit **limits = arena_array(&engine->arena, count, sizeof *limits);

	if (!limits)
		return error_set(error, WEIR_ENOMEM, "out of memory");
	for (size_t i = 0; i < count; i++) {
		const struct weir_limit *limit = limit_or_local(engine, i);

		if (!engine_remote_store(engine->table, limit))
			limits[n++] = &limit->algo;
	}
	return store_reserve(engine->table->store, limits, n, error);
}

int engine_open(const struct weir_config *config, struct weir_table *table,
                struct store *const *stores, struct weir_engine **out, struct weir_error *error)
{
	struct weir_engine *engine = calloc(1, sizeof *engine);
	int status;

	*out = NULL;
	if (!engine)
		return error_set(error, WEIR_ENOMEM, "out of memory");
	engine->table = table;
	engine->config = config;
	status = open_limits(engine, stores, error);
	if (status == WEIR_OK)
		status = index_limits(engine, error);
	if (status == WEIR_OK)
		status = index_rules(engine, error);
	if (status == WEIR_OK)
		status = compile_rules(engine, error);
	if (status == WEIR_OK)
		status = reserve_limits(engine, error);
	if (status != WEIR_OK) {
		weir_engine_close(engine);
		return status;
	}
	*out = engine;
	return WEIR_OK;
}

/* Whether the URL is that of the table's store. The store's name is its URL without the password.
 */
static bool is_url_of(const struct store_caller *caller, const char *url)
{
	char *shown = caller ? malloc(strlen(url) + 1) : NULL;
	bool is_same = false;

	if (shown) {
		store_url_strip(url, shown);
		is_same = strcmp(shown, caller->name) == 0;
	}
	free(shown);
	return is_same;
}

/*
 * Finds the store that a limit names if a program opens the engine by the library: the table's
 * memory, or NULL for the table's usual store. A table has no other.
 */
static int find_limit_store(const struct weir_table *table, const struct rules_limit *limit,
                            struct store **out, struct weir_error *error)
{
	const char *name = limit->store.text;

	*out = NULL;
	if (!name || is_url_of(table->caller, name))
		return WEIR_OK;
	if (strcmp(name, "memory") == 0) {
		*out = table->remote ? table->store : NULL;
		return WEIR_OK;
	}
	return error_set_at(error, WEIR_EUNSUPPORTED, limit->store.line, limit->store.column,
	                    "expected memory or the table's own store, found another");
}

int weir_engine_open(const weir_config *config, weir_table *table, weir_engine **out,
                     struct weir_error *error)
{
	struct store **stores = calloc(config->limit_count + 1, sizeof *stores);
	int status = WEIR_OK;

	*out = NULL;
	if (!stores)
		return error_set(error, WEIR_ENOMEM, "out of memory");
	for (size_t i = 0; i < config->limit_count && status == WEIR_OK; i++)
		status = find_limit_store(table, &config->limits[i], &stores[i], error);
	if (status == WEIR_OK)
		status = engine_open(config, table, stores, out, error);
	free(stores);
	return status;
}

void weir_engine_close(weir_engine *engine)
{
	if (!engine)
		return;
	for (size_t i = 0; i < engine->limit_count + engine->local_count; i++)
		limit_free(limit_or_local(engine, i));
	if (engine->has_deny_all_limit)
		limit_free(&engine->deny_all_limit);
	map_free(&engine->limit_names);
	map_free(&engine->identities);
	map_free(&engine->rule_names);
	arena_free(&engine->arena);
	free(engine);
}

struct weir_limit *engine_find_limit(const struct weir_engine *engine, uint64_t identity)
{
	const struct by_identity *entry = map_find(&engine->identities, identity);

	return entry ? entry->limit : NULL;
}

/* Lets limits of `next` take over counts by identity, unless the limit has moved to another store.
 */
void engine_succeed(struct weir_engine *engine, struct weir_engine *next)
{
	for (size_t i = 0; i < next->limit_count + next->local_count; i++) {
		struct weir_limit *successor = limit_or_local(next, i);
		struct weir_limit *limit = engine_find_limit(engine, successor->algo.identity);

		if (limit && engine_remote_store(engine->table, limit) ==
		                 engine_remote_store(next->table, successor))
			algo_hand_over(&limit->algo, &successor->algo);
	}
}

size_t engine_limit_count(const struct weir_engine *engine)
{
	return engine->limit_count;
}

struct weir_table *engine_table(const struct weir_engine *engine)
{
	return engine->table;
}

const struct weir_limit *engine_limit_at(const struct weir_engine *engine, size_t index)
{
	return &engine->limits[index];
}

void engine_count_empty_keys(struct weir_engine *engine, size_t rule, _Atomic uint64_t *counter)
{
	engine->rule_keys[rule].empty_count = counter;
}

/* The index of the limit of that name, for one of a later engine; see engine_move_waiting. */
__attribute__((noinline, cold)) static size_t index_by_name(const struct weir_engine *engine,
                                                            const struct weir_limit *limit)
{
	const struct by_name *entry = find_name(engine, &engine->limit_names, slice_of(limit->name));

	return entry && limit != &engine->deny_all_limit ? entry->number : engine->limit_count;
}

/* The index of a local limit is that of the limit that it replaces. */
size_t engine_limit_index(const struct weir_engine *engine, const struct weir_limit *limit)
{
	const struct weir_limit *own = limit->origin ? limit->origin : limit;
	size_t index = ((uintptr_t)own - (uintptr_t)engine->limits) / sizeof *own;

	if (__builtin_expect(index < engine->limit_count, 1))
		return index;
	return own->algo.is_adhoc ? engine->limit_count : index_by_name(engine, own);
}

const weir_limit *weir_engine_limit(const weir_engine *engine, const char *name, size_t name_len)
{
	const struct by_name *entry =
	    find_name(engine, &engine->limit_names, (struct slice){name, name_len});

	return entry ? &engine->limits[entry->number] : NULL;
}
