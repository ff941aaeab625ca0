/*
 * config_warnings.c: warns of settings of a configuration that are valid but hardly intended, for
 * example a limit that is counted in another place than the operator may expect, or a certificate
 * that has expired.
 */
#include "server/config/config_warnings.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "algo/algorithm.h"
#include "engine/engine.h"

/* The configuration to check, and the function that receives the warnings. */
struct warnings {
	const struct weir_config *config;
	const struct settings_plan *plan;
	config_warning_callback *report;
	void *context; /* the first argument of `report` */
};

/* A position in a file; line 0 stands for a flag or the file as a whole. */
struct position {
	const char *file;
	unsigned line, column;
};

__attribute__((format(printf, 3, 4))) static void
warn_at(const struct warnings *warnings, struct position position, const char *format, ...)
{
	char text[640];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	warnings->report(warnings->context, &(struct weir_config_remark){.path = position.file,
	                                                                 .line = position.line,
	                                                                 .column = position.column,
	                                                                 .text = text});
}

/*
 * The text of the file, with its position, that names the Redis where the limit is counted. NULL if
 * the limit is counted in this server.
 */
static const struct rules_text *redis_text_of_limit(const struct warnings *warnings, size_t limit)
{
	const struct rules_limit *rules = &warnings->config->limits[limit];
	const struct algorithm *algorithm = algorithm_of(rules->options.algorithm);
	bool is_per_server = algorithm->draws || algorithm->judges;

	if (is_per_server || !rules_store(rules, warnings->plan->redis))
		return NULL;
	return rules->store.text ? &rules->store : &warnings->config->store;
}

/*
 * The text that names the Redis of some limit whose on_store_failure is `local`: while that Redis
 * is unavailable, each server counts the limit alone. NULL if there is no such limit. The text is
 * empty (`text` is NULL) if a flag alone names the Redis.
 */
static const struct rules_text *redis_text_of_local_limit(const struct warnings *warnings)
{
	const struct weir_config *config = warnings->config;
	const struct rules_text *redis = NULL;

	/* limits that come with requests are `local`, too, and are counted at the server's Redis */
	if (config->limit_count == 0)
		return warnings->plan->redis ? &config->store : NULL;
	for (size_t i = 0; i < config->limit_count && !redis; i++)
		if (config->limits[i].on_store_failure == RULES_LOCAL)
			redis = redis_text_of_limit(warnings, i);
	for (size_t i = 0; i < config->rule_count && !redis; i++) {
		const struct rules_rule *rule = &config->rules[i];
		bool is_local = rule->has_on_store_failure && rule->on_store_failure == RULES_LOCAL;

		for (size_t j = 0; is_local && j < rule->limit_count && !redis; j++)
			redis = redis_text_of_limit(warnings, rule->limits[j]);
	}
	return redis;
}

static void warn_of_missing_nodes(const struct warnings *warnings)
{
	const struct rules_text *store = redis_text_of_local_limit(warnings);
	bool is_named_by_flag;

	if (!store || warnings->config->has_nodes)
		return;
	/* a flag may name the server's store in place of the file */
	is_named_by_flag = store == &warnings->config->store &&
	                   (!store->text || strcmp(store->text, warnings->plan->redis) != 0);
	warn_at(warnings,
	        is_named_by_flag ? (struct position){0}
	                         : (struct position){store->file, store->line, store->column},
	        "expected `nodes` beside a store at Redis, found none: while Redis is unavailable, "
	        "each server would grant the whole quota of limits whose on_store_failure is local");
}

/*
 * Warns of a chunk that makes no sense: the share of a limit's quota that a server takes from Redis
 * at once, to grant it without asking Redis again.
 */
static void warn_of_chunk(const struct warnings *warnings, const struct rules_limit *limit,
                          uint64_t quota)
{
	/* quota * chunk_percent / 100 without overflow */
	uint64_t units = quota / 100 * limit->chunk_percent + quota % 100 * limit->chunk_percent / 100;
	/* without `nodes` at least two servers are assumed */
	uint64_t nodes = warnings->config->has_nodes ? warnings->config->nodes : 2;
	struct position position = {limit->file, limit->line, limit->column};

	if (!rules_store(limit, warnings->plan->redis))
		warn_at(warnings, position,
		        "expected a store at Redis beside chunk, found none: limit \"%s\" is counted in "
		        "this server's own table",
		        limit->options.name);
	else if (units < 2)
		warn_at(
		    warnings, position,
		    "expected a chunk of 2 units at least, found %u%% of %llu: limit \"%s\" asks Redis for "
		    "each request",
		    limit->chunk_percent, (unsigned long long)quota, limit->options.name);
	else if (nodes * limit->chunk_percent > 100)
		warn_at(
		    warnings, position,
		    "expected the chunks of %llu servers to fit into the quota, found %llu%% of it: one "
		    "server may deny units of limit \"%s\" that another holds unused",
		    (unsigned long long)nodes, (unsigned long long)(nodes * limit->chunk_percent),
		    limit->options.name);
}

/* Warns of settings of a circuit breaker that have no effect beside its other settings. */
static void warn_of_breaker(const struct warnings *warnings, const struct rules_limit *limit)
{
	const struct weir_breaker_options *configured = limit->options.breaker;
	struct weir_limit_options with_defaults = limit->options;
	union algo_own own;
	const struct weir_breaker_options *effective = &own.breaker;
	struct position position = {limit->file, limit->line, limit->column};

	algorithm_resolve(&with_defaults, &own); /* fills in `own.breaker` */
	if (effective->quorum && !rules_store(limit, warnings->plan->redis))
		warn_at(warnings, position,
		        "expected a store at Redis beside quorum, found none: this server alone judges "
		        "limit \"%s\"",
		        limit->options.name);
	if (configured->slow_percent && effective->slow_ns == 0)
		warn_at(warnings, position,
		        "expected slow beside slow_rate, found none: no call of limit \"%s\" is slow",
		        limit->options.name);
	if (configured->minimum && effective->calls && configured->minimum > effective->calls)
		warn_at(warnings, position,
		        "expected a minimum of at most the %llu calls of the window, found %llu: limit "
		        "\"%s\" is judged from %llu calls on",
		        (unsigned long long)effective->calls, (unsigned long long)configured->minimum,
		        limit->options.name, (unsigned long long)effective->calls);
	if (configured->probe_timeout_ns > effective->permit_timeout_ns)
		warn_at(warnings, position,
		        "expected a probe_timeout of at most permit_timeout, found a longer one: probes of "
		        "limit "
		        "\"%s\" end with their permits",
		        limit->options.name);
	if (configured->sleep_max_ns && configured->sleep_max_ns < effective->sleep_ns)
		warn_at(warnings, position,
		        "expected a sleep_max of at least sleep, found a shorter one: each sleep of limit "
		        "\"%s\" is as long as the first",
		        limit->options.name);
	if (effective->calls && configured->failures > effective->calls)
		warn_at(warnings, position,
		        "expected failures of at most the %llu calls of the window, found %u: limit \"%s\" "
		        "opens when all of these calls failed",
		        (unsigned long long)effective->calls, configured->failures, limit->options.name);
}

static void warn_of_limit(const struct warnings *warnings, const struct rules_limit *limit,
                          const struct weir_limit *compiled)
{
	bool table_is_in_file = *warnings->plan->path != '\0';

	if (limit->options.breaker)
		warn_of_breaker(warnings, limit);
	if (limit->chunk_percent)
		warn_of_chunk(warnings, limit, compiled->algo.quota);
	if (table_is_in_file && limit->store.text && !rules_store(limit, NULL))
		warn_at(
		    warnings, (struct position){limit->store.file, limit->store.line, limit->store.column},
		    "expected no `store: memory` beside a store in a file, found it: limit \"%s\" is in "
		    "the file, like all limits that are not at Redis",
		    limit->options.name);
}

static void warn_of_tls(const struct warnings *warnings, const struct tls_context *tls)
{
	const struct rules_tls *rules = &warnings->config->tls;
	struct position position = {warnings->config->file, rules->line, rules->column};
	const char *key = rules->key ? rules->key : rules->cert;
	struct stat key_file;

	if (tls_context_is_expired(tls))
		warn_at(warnings, position,
		        "expected a certificate that is valid today, found one that has expired or has not "
		        "begun: clients refuse cert=%s",
		        rules->cert);
	if (stat(key, &key_file) == 0 && key_file.st_mode & S_IRWXO)
		warn_at(warnings, position,
		        "expected a key that other users can't read, found mode %04o: key=%s",
		        (unsigned)key_file.st_mode & 07777, key);
	if (rules->ca && rules->clients == RULES_CLIENTS_NONE)
		warn_at(
		    warnings, position,
		    "expected `clients: required` or `clients: optional` beside ca, found none: no client "
		    "is asked for a certificate");
}

static bool has_unix_socket(const struct settings_plan *plan)
{
	return net_address_is_unix(&plan->http) || net_address_is_unix(&plan->resp) ||
	       net_address_is_unix(&plan->admin);
}

/* Warns of a user that nobody can log in as, because no listener asks for the user's proof. */
static void warn_of_user(const struct warnings *warnings, const struct rules_user *user)
{
	struct position position = {warnings->config->file, user->line, user->column};

	if (user->proof == RULES_CERTIFICATE &&
	    (!warnings->plan->tls || warnings->config->tls.clients == RULES_CLIENTS_NONE))
		warn_at(warnings, position,
		        "expected `tls` with `clients` beside a user's certificate, found none: no client "
		        "can be user '%s'",
		        user->name);
	if (user->proof == RULES_UNIX && !has_unix_socket(warnings->plan))
		warn_at(warnings, position,
		        "expected a listener at a Unix socket beside a user's account, found none: no "
		        "client can be user '%s'",
		        user->name);
}

/* Warns of users without effect, and of `protected` networks that users make void. */
static void warn_of_access(const struct warnings *warnings)
{
	const struct weir_config *config = warnings->config;

	for (size_t i = 0; i < config->user_count; i++)
		warn_of_user(warnings, &config->users[i]);
	if (config->user_count > 0 && (config->unprotected || config->protected_count > 0))
		warn_at(warnings, (struct position){config->file, 0, 0},
		        "expected no `protected` beside users, found it: users alone decide, whatever the "
		        "address");
}

/*
 * Whether a request at /auth, where proxies ask for decisions, can have the attribute: each has
 * these four, and the proxy may forward others.
 */
static bool is_known_at_auth(const char *attribute)
{
	static const char *const always[] = {"method", "host", "path", "ip"};
	struct forwarded_attribute forwarded;

	for (size_t i = 0; i < sizeof always / sizeof *always; i++)
		if (strcmp(attribute, always[i]) == 0)
			return true;
	return forwarded_parse(attribute, &forwarded);
}

/* Whether the condition holds for a request that lacks its attribute. */
static bool holds_without_attribute(const struct rules_condition *condition)
{
	for (size_t i = 0; i < condition->value_count && !condition->negated; i++)
		if (condition->values[i].test == RULES_NONE)
			return true;
	return false;
}

/* Whether a request at /auth can meet all conditions of the rule. */
static bool may_apply_at_auth(const struct rules_rule *rule)
{
	for (size_t i = 0; i < rule->condition_count; i++)
		if (!is_known_at_auth(rule->conditions[i].attribute) &&
		    !holds_without_attribute(&rule->conditions[i]))
			return false;
	return true;
}

/*
 * Warns if a rule that applies at /auth has a limit that needs reports of how requests end: answers
 * to a proxy have no permit, so it can't report.
 */
static void warn_of_missing_reports(const struct warnings *warnings, const struct rules_rule *rule,
                                    const weir_engine *engine)
{
	const struct weir_limit *limit = NULL;

	for (size_t i = 0; i < rule->limit_count && !limit; i++)
		if (algo_is_reported(&engine_limit_at(engine, rule->limits[i])->algo))
			limit = engine_limit_at(engine, rule->limits[i]);
	if (limit && may_apply_at_auth(rule))
		warn_at(
		    warnings, (struct position){rule->file, rule->line, rule->column},
		    "expected `auth: no`, `auth: reports`, or an attribute in `match` that no proxy sends, "
		    "found none: limit \"%s\" waits for a report of each request that passes, and a proxy "
		    "that asks at /auth for rule \"%s\" can't report: %s. Behind nginx, HAProxy or Envoy "
		    "write `auth: reports` and let the proxy report; otherwise let the application ask at "
		    "/v1/acquire and report",
		    limit->name, rule->name, limit->algo.algorithm->unreported);
}

/* Returns the first attribute of the rule that is read at /auth alone, or NULL. */
static const char *find_forwarded(const struct rules_rule *rule)
{
	struct forwarded_attribute forwarded;

	for (size_t i = 0; i < rule->condition_count; i++)
		if (forwarded_parse(rule->conditions[i].attribute, &forwarded))
			return rule->conditions[i].attribute;
	for (size_t i = 0; i < rule->key_count; i++)
		if (forwarded_parse(rule->key[i], &forwarded))
			return rule->key[i];
	return NULL;
}

static bool is_listed(const struct weir_config *config, const char *attribute)
{
	for (size_t i = 0; i < config->attribute_count; i++)
		if (strcmp(attribute, config->attributes[i]) == 0)
			return true;
	return false;
}

/* Returns an attribute that the rule needs and that no request at /auth has, or NULL. */
static const char *find_missing_at_auth(const struct weir_config *config,
                                        const struct rules_rule *rule)
{
	for (size_t i = 0; i < rule->condition_count; i++) {
		const struct rules_condition *condition = &rule->conditions[i];

		if (!is_known_at_auth(condition->attribute) && !holds_without_attribute(condition) &&
		    !is_listed(config, condition->attribute))
			return condition->attribute;
	}
	for (size_t i = 0; i < rule->key_count; i++)
		if (!is_known_at_auth(rule->key[i]) && !is_listed(config, rule->key[i]))
			return rule->key[i];
	return NULL;
}

/*
 * Warns of attributes that no request has together: those of a visitor's request, which are read at
 * /auth alone, beside those that only other callers send.
 */
static void warn_of_separate_attributes(const struct warnings *warnings,
                                        const struct rules_rule *rule)
{
	const char *forwarded = find_forwarded(rule);
	const char *missing = forwarded ? find_missing_at_auth(warnings->config, rule) : NULL;
	struct position position = {rule->file, rule->line, rule->column};

	if (missing)
		warn_at(warnings, position,
		        "expected attributes that one request has, found \"%s\" beside \"%s\" in rule "
		        "\"%s\": the former is read only at /auth, where no request has the latter. If "
		        "callers send both, list \"%s\" in `attributes`",
		        forwarded, missing, rule->name, missing);
}

/*
 * Warns if a proxy asks at /auth by a rule that counts by an attribute which no request there has:
 * all visitors share one count.
 */
static void warn_of_shared_count(const struct warnings *warnings, const struct rules_rule *rule)
{
	const struct weir_config *config = warnings->config;
	bool is_for_proxies = config->trusted_proxy_count > 0 && config->auth != RULES_AUTH_NO;
	const char *missing = NULL;

	if (!is_for_proxies || rule->limit_count == 0 || find_forwarded(rule) ||
	    !may_apply_at_auth(rule))
		return;
	for (size_t i = 0; i < rule->key_count && !missing; i++)
		if (!is_known_at_auth(rule->key[i]) && !is_listed(config, rule->key[i]))
			missing = rule->key[i];
	if (missing)
		warn_at(warnings, (struct position){rule->file, rule->line, rule->column},
		        "expected a key of attributes that a proxy sends, found \"%s\" in rule \"%s\": all "
		        "requests at /auth share one count. A header is `header.NAME`; if callers send "
		        "\"%s\", list it in `attributes`",
		        missing, rule->name, missing);
}

void config_warnings_check(const struct weir_config *config, const weir_engine *engine,
                           const struct tls_context *tls, const struct settings_plan *plan,
                           config_warning_callback *report, void *context)
{
	const struct warnings warnings = {config, plan, report, context};

	warn_of_missing_nodes(&warnings);
	for (size_t i = 0; i < config->limit_count; i++)
		warn_of_limit(&warnings, &config->limits[i], engine_limit_at(engine, i));
	for (size_t i = 0; i < config->rule_count && config->auth == RULES_AUTH_YES; i++)
		warn_of_missing_reports(&warnings, &config->rules[i], engine);
	for (size_t i = 0; i < config->rule_count; i++)
		warn_of_separate_attributes(&warnings, &config->rules[i]);
	for (size_t i = 0; i < config->rule_count; i++)
		warn_of_shared_count(&warnings, &config->rules[i]);
	if (tls)
		warn_of_tls(&warnings, tls);
	warn_of_access(&warnings);
}
