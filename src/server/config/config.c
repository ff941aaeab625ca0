/*
 * config.c: compiles everything that a reload replaces (rules, limits, users, certificates) into
 * one object, and hands it to the threads of the server by counted references.
 */
#include "server/config/config.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "engine/engine.h"
#include "rules/model.h"

/* Reads the files, or makes a configuration without rules if there are none. */
static int read_rules_of_files(const struct weir_config_files *files, struct weir_config **out,
                               struct weir_error *error)
{
	if (files->count > 0)
		return weir_config_read_files(files, out, error);
	*out = weir_private_config_new();
	return *out ? WEIR_OK : error_set(error, WEIR_ENOMEM, "out of memory");
}

int server_config_open(const struct weir_config_files *files, struct server_config **out,
                       struct weir_error *error)
{
	struct server_config *config = calloc(1, sizeof *config);
	int status;

	*out = NULL;
	if (!config)
		return error_set(error, WEIR_ENOMEM, "out of memory");
	status = read_rules_of_files(files, &config->rules, error);
	if (status != WEIR_OK) {
		free(config);
		return status;
	}
	config->references = 1;
	config->read_ns = os_wall_ns();
	*out = config;
	return WEIR_OK;
}

/*
 * Finds the counters of each limit, in the engine's order, and of each rule, so that a request
 * finds them by index. Two counters that always exist follow those of the limits: for limits that
 * come with requests, and for requests without a limit.
 */
static int find_counters(struct server_config *config, struct metrics *metrics,
                         struct weir_error *error)
{
	const struct weir_config *rules = config->rules;
	size_t n = engine_limit_count(config->engine);

	config->adhoc_counters_index = n;
	config->no_limit_counters_index = n + 1;
	config->limit_counters = calloc(n + 2, sizeof *config->limit_counters);
	config->rule_counters = calloc(rules->rule_count + 1, sizeof *config->rule_counters);
	if (!config->limit_counters || !config->rule_counters)
		return error_set(error, WEIR_ENOMEM, "out of memory");
	for (size_t i = 0; i < n + 2; i++) {
		const char *name = i == config->adhoc_counters_index ? "CL.THROTTLE" : "";

		if (i < n)
			name = engine_limit_at(config->engine, i)->name;
		config->limit_counters[i] = metrics_limit(metrics, name);
		if (!config->limit_counters[i])
			return error_set(error, WEIR_ENOMEM, "out of memory");
	}
	for (size_t i = 0; i < rules->rule_count; i++) {
		config->rule_counters[i] = metrics_rule(metrics, rules->rules[i].name);
		if (!config->rule_counters[i])
			return error_set(error, WEIR_ENOMEM, "out of memory");
		engine_count_empty_keys(config->engine, i, &config->rule_counters[i]->empty_keys);
	}
	return WEIR_OK;
}

/*
 * Opens the stores that limits name, and fills in the store of each limit: the one at Redis, the
 * table's for `store: memory`, or NULL for the default if the limit names none.
 */
static int open_named_stores(const struct weir_config *rules, weir_table *table,
                             struct stores *stores, struct store **out, struct weir_error *error)
{
	for (size_t i = 0; i < rules->limit_count; i++) {
		const struct rules_text *named = &rules->limits[i].store;
		const char *url = rules_store(&rules->limits[i], NULL);
		int status;

		if (!url) {
			out[i] = named->text ? table->store : NULL;
			continue;
		}
		status = stores_open(stores, url, rules, &out[i], error);
		if (status != WEIR_OK) {
			error->line = named->line;
			error->column = named->column;
			return status;
		}
	}
	return WEIR_OK;
}

int server_config_engine(const struct weir_config *rules, weir_table *table, struct stores *stores,
                         weir_engine **out, struct weir_error *error)
{
	struct store **found = calloc(rules->limit_count + 1, sizeof *found);
	int status = found ? open_named_stores(rules, table, stores, found, error)
	                   : error_set(error, WEIR_ENOMEM, "out of memory");

	if (status == WEIR_OK)
		status = engine_open(rules, table, found, out, error);
	free(found);
	return status;
}

int server_config_tls(const struct weir_config *rules, struct tls_context **out,
                      struct weir_error *error)
{
	const struct rules_tls *tls = &rules->tls;
	const struct tls_server server = {
	    .files = {.ca = (char *)tls->ca, .cert = (char *)tls->cert, .key = (char *)tls->key},
	    .clients = (enum tls_clients)tls->clients,
	    .only_1_3 = tls->minimum == 13,
	};
	struct weir_error inner = {0};
	int status;

	*out = NULL;
	if (!tls->cert)
		return WEIR_OK;
	status = tls_context_open_server(out, &server, &inner);
	if (status != WEIR_OK)
		error_set_at(error, status, tls->line, tls->column, "tls: %s", inner.message);
	return status;
}

/*
 * Loads the certificates, or keeps those of the configuration `before` if the new one has none:
 * listeners that have TLS keep it until a restart.
 */
static int open_tls(struct server_config *config, const struct server_config *before,
                    struct weir_error *error)
{
	int status = server_config_tls(config->rules, &config->tls, error);

	if (status == WEIR_OK && !config->tls && before)
		config->tls = tls_context_retain(before->tls);
	return status;
}

/* The set of stores at Redis, by index: such a store completes a decision in a later iteration. */
static uint64_t find_remote_stores(const struct server_config *config, const weir_table *table,
                                   const struct stores *stores)
{
	uint64_t set = stores->main ? UINT64_C(1) << stores->main->index : 0;

	for (size_t i = 0; i < config->rules->limit_count; i++) {
		const struct store *store = engine_remote_store(table, engine_limit_at(config->engine, i));

		set |= store ? UINT64_C(1) << store->index : 0;
	}
	return set;
}

int server_config_compile(struct server_config *config, const struct server_config *before,
                          weir_table *table, struct stores *stores, struct metrics *metrics,
                          struct weir_error *error)
{
	const struct weir_config *rules = config->rules;
	int status = server_config_engine(rules, table, stores, &config->engine, error);

	if (status != WEIR_OK)
		return status;
	config->remote_stores = find_remote_stores(config, table, stores);
	status =
	    users_open(&config->users, rules, config->engine, before ? before->users : NULL, error);
	if (status == WEIR_OK)
		status = open_tls(config, before, error);
	return status == WEIR_OK ? find_counters(config, metrics, error) : status;
}

static void close_config(struct server_config *config)
{
	free(config->limit_counters);
	free(config->rule_counters);
	users_close(config->users);
	tls_context_close(config->tls);
	weir_engine_close(config->engine);
	weir_config_close(config->rules);
	free(config);
}

struct server_config *server_config_retain(struct server_config *config)
{
	atomic_fetch_add_explicit(&config->references, 1, memory_order_relaxed);
	return config;
}

void server_config_release(struct server_config *config)
{
	/* Acquire and release: all uses of the configuration happen before it is freed. */
	while (config && atomic_fetch_sub_explicit(&config->references, 1, memory_order_acq_rel) == 1) {
		struct server_config *next = atomic_load_explicit(&config->successor, memory_order_relaxed);

		close_config(config); /* before its successor, to which its limits point */
		config = next;        /* the reference that the closed one had to its successor */
	}
}

void server_config_replace(struct server_config **config, struct server_config *next)
{
	struct server_config *old = *config;

	engine_succeed(old->engine, next->engine); /* the new limits take over the counts */
	atomic_store_explicit(&old->successor, server_config_retain(next), memory_order_release);
	*config = next;
	server_config_release(old);
}

struct server_config *server_config_newest(struct server_config *config)
{
	struct server_config *next;

	while ((next = atomic_load_explicit(&config->successor, memory_order_acquire)))
		config = next;
	return config;
}

/* Returns false if the caller has the newest configuration already. */
bool server_config_advance(struct server_config **config)
{
	struct server_config *old = *config, *newest = server_config_newest(old);

	if (newest == old)
		return false;
	*config = server_config_retain(newest);
	server_config_release(old);
	return true;
}
