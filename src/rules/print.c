#include "rules/print.h"

#include <stdio.h>

#include "algo/algorithm.h"
#include "base/endpoint.h"
#include "rules/form.h"
#include "rules/rate.h"
#include "rules/scalar.h"
#include "rules/show.h"

/* Writes the value of a row: true; false where it is the default. */
typedef bool print_value(struct buffer *out, const void *field, const void *otherwise);

/* A key of the top level, or of a mapping in it. */
struct row {
	const char *name;
	size_t offset;
	print_value *print;
};

#define FIELD(name) offsetof(struct weir_config, name)

static void add_text(struct buffer *out, const char *text)
{
	scalar_add(out, slice_of(text));
}

static bool print_text(struct buffer *out, const void *field, const void *otherwise)
{
	const char *text = *(const char *const *)field, *old = *(const char *const *)otherwise;

	if (!text || (old && strcmp(text, old) == 0))
		return false;
	add_text(out, text);
	return true;
}

/* A mapping only for what the text of an address can't say. */
static bool print_listen(struct buffer *out, const void *field, const void *otherwise)
{
	const struct rules_listen *listen = field;
	struct slice path;

	(void)otherwise;
	if (!listen->address.text)
		return false;
	path = slice_of(listen->address.text);
	if ((!listen->mode && !listen->owner && !listen->group) ||
	    !slice_skip(&path, SLICE(ENDPOINT_UNIX))) {
		scalar_add(out, path);
		return true;
	}
	buffer_add_text(out, "{ path: ");
	scalar_add(out, path);
	if (listen->mode)
		buffer_printf(out, ", mode: \"%04o\"", listen->mode);
	if (listen->owner) {
		buffer_add_text(out, ", owner: ");
		add_text(out, listen->owner);
	}
	if (listen->group) {
		buffer_add_text(out, ", group: ");
		add_text(out, listen->group);
	}
	buffer_add_text(out, " }");
	return true;
}

static bool print_number(struct buffer *out, const void *field, const void *otherwise)
{
	if (*(const uint64_t *)field == *(const uint64_t *)otherwise)
		return false;
	buffer_add_u64(out, *(const uint64_t *)field);
	return true;
}

static bool print_time(struct buffer *out, const void *field, const void *otherwise)
{
	if (*(const uint64_t *)field == *(const uint64_t *)otherwise)
		return false;
	duration_add(out, *(const uint64_t *)field);
	return true;
}

static bool print_share(struct buffer *out, const void *field, const void *otherwise)
{
	char text[DECIMAL_TEXT_MAX];

	if (*(const double *)field == *(const double *)otherwise)
		return false;
	format_decimal(text, *(const double *)field);
	buffer_add_text(out, text);
	return true;
}

static bool print_switch(struct buffer *out, const void *field, const void *otherwise)
{
	enum rules_switch value = *(const enum rules_switch *)field;

	(void)otherwise;
	if (value != RULES_UNSET)
		buffer_add_text(out, value == RULES_YES ? "yes" : "no");
	return value != RULES_UNSET;
}

static bool print_order(struct buffer *out, const void *field, const void *otherwise)
{
	(void)otherwise;
	buffer_add_text(out, "first");
	return *(const enum rules_order *)field == RULES_FIRST;
}

static bool print_auth(struct buffer *out, const void *field, const void *otherwise)
{
	enum rules_auth value = *(const enum rules_auth *)field;

	(void)otherwise;
	buffer_add_text(out, value == RULES_AUTH_NO ? "no" : "reports");
	return value != RULES_AUTH_YES;
}

/* An answer in JSON. */
static bool print_json(struct buffer *out, const void *field, const void *otherwise)
{
	const char *json = *(const char *const *)field;

	(void)otherwise;
	if (json)
		scalar_add_json(out, slice_of(json));
	return json != NULL;
}

static const struct row listen_rows[] = {
    {"http", FIELD(listen_http), print_listen},
    {"resp", FIELD(listen_resp), print_listen},
    {"admin", FIELD(listen_admin), print_listen},
    {0},
};

static const struct row idle_rows[] = {
    {"http", FIELD(idle_http_ns), print_time},
    {"resp", FIELD(idle_resp_ns), print_time},
    {0},
};

static const struct row koala_rows[] = {
    {"timezone", FIELD(koala.timezone), print_text},
    {"unmatched", FIELD(koala.unmatched), print_json},
    {"unexceeded", FIELD(koala.unexceeded), print_json},
    {0},
};

static const struct row file_rows[] = {
    {"store", FIELD(store.text), print_text},
    {"store_owner", FIELD(store_owner), print_text},
    {"store_group", FIELD(store_group), print_text},
    {"capacity", FIELD(capacity), print_number},
    {"sync", FIELD(sync_ns), print_time},
    {"prefix", FIELD(prefix), print_text},
    {"store_timeout", FIELD(store_timeout_ns), print_time},
    {"denied_cache", FIELD(denied_cache_ns), print_time},
    {"store_poll", FIELD(store_poll_ns), print_time},
    {"ipv6_prefix", FIELD(ipv6_prefix), print_number},
    {"path_variants", FIELD(path_variants), print_switch},
    {"retry_jitter", FIELD(retry_jitter), print_share},
    {"connections", FIELD(connections), print_number},
    {"order", FIELD(order), print_order},
    {"auth", FIELD(auth), print_auth},
    {0},
};

/* The configuration that is printed, and what it may leave out. */
struct print {
	const struct weir_config *config, *defaults;
	struct buffer *out;
};

static bool print_row(const struct print *print, const struct row *row, const char *before,
                      const char *after)
{
	struct buffer value = {0};
	bool given = row->print(&value, (const char *)print->config + row->offset,
	                        (const char *)print->defaults + row->offset);

	if (given) {
		buffer_printf(print->out, "%s%s: ", before, row->name);
		buffer_add(print->out, value.data, value.len);
		buffer_add_text(print->out, after);
	}
	print->out->failed |= value.failed;
	buffer_free(&value);
	return given;
}

/* name: { key: value, … }, unless all are the defaults. */
static void print_rows(const struct print *print, const char *name, const struct row *rows)
{
	char before[32];
	bool some = false;

	snprintf(before, sizeof before, "%s: { ", name);
	for (; rows->name; rows++)
		some |= print_row(print, rows, some ? ", " : before, "");
	if (some)
		buffer_add_text(print->out, " }\n");
}

static void add_range(struct buffer *out, const struct ip_range *range)
{
	int bits = ip_range_prefix(range);
	bool v4 = ip_is_v4(&range->first) && ip_is_v4(&range->last);
	char text[2 * IP_TEXT_MAX + 8];
	size_t len = ip_format(&range->first, text);

	if (bits < 0) {
		text[len++] = '-';
		len += ip_format(&range->last, text + len);
	} else if (bits < 128) {
		len += (size_t)sprintf(text + len, "/%d", v4 ? bits - 96 : bits);
	}
	scalar_add(out, (struct slice){text, len});
}

static void print_ranges(struct buffer *out, const char *name, const struct ip_range *ranges,
                         size_t count)
{
	buffer_printf(out, "%s: [", name);
	for (size_t i = 0; i < count; i++) {
		buffer_add(out, ", ", i ? 2 : 0);
		add_range(out, &ranges[i]);
	}
	buffer_add_text(out, "]\n");
}

static void add_names(struct buffer *out, const char *const *names, size_t count)
{
	buffer_add(out, "[", 1);
	for (size_t i = 0; i < count; i++) {
		buffer_add(out, ", ", i ? 2 : 0);
		add_text(out, names[i]);
	}
	buffer_add(out, "]", 1);
}

static void print_names(struct buffer *out, const char *name, const char *const *names, size_t count)
{
	if (count == 0)
		return;
	buffer_printf(out, "%s: ", name);
	add_names(out, names, count);
	buffer_add(out, "\n", 1);
}

static void print_tls(const struct rules_tls *tls, struct buffer *out)
{
	static const char *const clients[] = {
	    [RULES_CLIENTS_NONE] = "none",
	    [RULES_CLIENTS_OPTIONAL] = "optional",
	    [RULES_CLIENTS_REQUIRED] = "required",
	};

	buffer_add_text(out, "tls: { cert: ");
	add_text(out, tls->cert);
	if (tls->key) {
		buffer_add_text(out, ", key: ");
		add_text(out, tls->key);
	}
	if (tls->ca) {
		buffer_add_text(out, ", ca: ");
		add_text(out, tls->ca);
	}
	buffer_printf(out, ", clients: %s", clients[tls->clients]);
	if (tls->minimum)
		buffer_printf(out, ", minimum: \"1.%u\"", tls->minimum % 10);
	buffer_add_text(out, " }\n");
}

static void print_top(const struct print *print)
{
	const struct weir_config *config = print->config;
	struct buffer *out = print->out;

	print_rows(print, "listen", listen_rows);
	for (const struct row *row = file_rows; row->name; row++)
		print_row(print, row, "", "\n");
	if (config->has_nodes)
		buffer_printf(out, "nodes: %llu\n", (unsigned long long)config->nodes);
	print_rows(print, "idle", idle_rows);
	if (config->trusted_proxy_count)
		print_ranges(out, "trusted_proxies", config->trusted_proxies, config->trusted_proxy_count);
	if (config->protected_count)
		print_ranges(out, "protected", config->protected, config->protected_count);
	if (config->unprotected)
		buffer_add_text(out, "protected: no\n");
	print_names(out, "hosts", config->hosts, config->host_count);
	print_names(out, "attributes", config->attributes, config->attribute_count);
	print_rows(print, "koala", koala_rows);
	if (config->tls.cert)
		print_tls(&config->tls, out);
}

static void print_user(const struct rules_user *user, struct buffer *out)
{
	static const char *const proofs[] = {
	    [RULES_TOKEN] = "token",
	    [RULES_PASSWORD] = "password",
	    [RULES_CERTIFICATE] = "certificate",
	    [RULES_UNIX] = "unix",
	};
	static const char *const rights[] = {"ask", "change", "admin"};
	const char *between = "";

	buffer_add_text(out, "  - { name: ");
	add_text(out, user->name);
	buffer_printf(out, ", %s: ", proofs[user->proof]);
	add_text(out, user->secret);
	buffer_add_text(out, ", may: [");
	for (unsigned i = 0; i < sizeof rights / sizeof *rights; i++)
		if (user->may & 1u << i) {
			buffer_printf(out, "%s%s", between, rights[i]);
			between = ", ";
		}
	buffer_add_text(out, "]");
	between = ", limits: [";
	for (size_t i = 0; i < user->limit_count; i++) {
		buffer_add_text(out, between);
		add_text(out, user->limits[i].text);
		between = ", ";
	}
	buffer_add_text(out, user->limit_count > 0 ? "] }\n" : " }\n");
}

static void print_users(const struct weir_config *config, struct buffer *out)
{
	if (config->user_count > 0)
		buffer_add_text(out, "users:\n");
	for (size_t i = 0; i < config->user_count; i++)
		print_user(&config->users[i], out);
}

static void print_limit(const struct rules_limit *limit, struct buffer *out)
{
	const struct algorithm *algorithm = algorithm_of(limit->options.algorithm);
	struct buffer value = {0};

	buffer_add_text(out, "  ");
	add_text(out, limit->options.name);
	buffer_printf(out, ": { algorithm: %s", algorithm->name);
	for (const struct algo_parameter *row = algorithm->parameters; row->name; row++) {
		if (!parameter_is_given(row, &limit->options))
			continue;
		value.len = 0;
		rules_show_value(row, &limit->options, &value);
		buffer_printf(out, ", %s: ", row->name);
		scalar_add(out, (struct slice){value.data, value.len});
	}
	if (limit->on_store_failure != RULES_LOCAL)
		buffer_printf(out, ", on_store_failure: %s",
		              rules_word(rules_failures, limit->on_store_failure));
	if (limit->store.text) {
		buffer_add_text(out, ", store: ");
		add_text(out, limit->store.text);
	}
	if (limit->chunk_percent)
		buffer_printf(out, ", chunk: %u%%", limit->chunk_percent);
	buffer_add_text(out, " }\n");
	out->failed |= value.failed;
	buffer_free(&value);
}

/* Behind a backslash all is text; without one only what has no other form. */
static void add_literal(struct buffer *out, const char *attribute, struct slice text)
{
	static const char letters[] =
	    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./";
	struct rules_value value = {.text = text};
	const char *expected;
	bool plain = text.len > 0 && strcmp(attribute, "ip") != 0;
	struct buffer copy = {0};

	for (size_t i = 0; plain && i < text.len; i++)
		plain = memchr(letters, text.data[i], sizeof letters - 1);
	if (!plain || form_read(&value, false, &expected) != FORM_TEXT)
		buffer_add(&copy, "\\", 1);
	buffer_add_slice(&copy, text);
	scalar_add(out, (struct slice){copy.data, copy.len});
	out->failed |= copy.failed;
	buffer_free(&copy);
}

static void add_value(struct buffer *out, const char *attribute, const struct rules_value *value)
{
	struct buffer prefix = {0};

	switch (value->test) {
	case RULES_EQUAL:
		add_literal(out, attribute, value->text);
		break;
	case RULES_ANY:
		add_text(out, "*");
		break;
	case RULES_NONE:
		add_text(out, "!*");
		break;
	case RULES_PREFIX:
		buffer_add_slice(&prefix, value->text);
		buffer_add(&prefix, "*", 1);
		scalar_add(out, (struct slice){prefix.data, prefix.len});
		out->failed |= prefix.failed;
		buffer_free(&prefix);
		break;
	default:
		scalar_add(out, value->text);
		break;
	}
}

static void add_condition(struct buffer *out, const struct rules_condition *condition)
{
	static const char *const keys[2][2] = {{"", "{ not: "}, {"{ in: ", "{ not_in: "}};
	bool listed = condition->value_count && condition->values->test == RULES_LISTED;
	const char *key = keys[listed][condition->negated];

	buffer_add_text(out, key);
	buffer_add(out, "[", condition->value_count > 1);
	for (size_t i = 0; i < condition->value_count; i++) {
		buffer_add(out, ", ", i ? 2 : 0);
		add_value(out, condition->attribute, &condition->values[i]);
	}
	buffer_add(out, "]", condition->value_count > 1);
	buffer_add_text(out, *key ? " }" : "");
}

/* How many conditions from `first` on are about one attribute. */
static size_t same_attribute(const struct rules_rule *rule, size_t first)
{
	size_t end = first + 1;

	while (end < rule->condition_count &&
	       strcmp(rule->conditions[first].attribute, rule->conditions[end].attribute) == 0)
		end++;
	return end - first;
}

static void print_conditions(const struct rules_rule *rule, struct buffer *out)
{
	size_t count;

	if (rule->condition_count == 0)
		return;
	buffer_add_text(out, "    match: {");
	for (size_t i = 0; i < rule->condition_count; i += count) {
		count = same_attribute(rule, i);
		buffer_add_text(out, i ? ", " : " ");
		add_text(out, rule->conditions[i].attribute);
		buffer_add_text(out, count > 1 ? ": { all: [" : ": ");
		for (size_t j = 0; j < count; j++) {
			buffer_add(out, ", ", j ? 2 : 0);
			add_condition(out, &rule->conditions[i + j]);
		}
		buffer_add_text(out, count > 1 ? "] }" : "");
	}
	buffer_add_text(out, " }\n");
}

static void print_limits(const struct weir_config *config, const struct rules_rule *rule,
                         struct buffer *out)
{
	buffer_add_text(out, "    limits: [");
	for (size_t i = 0; i < rule->limit_count; i++) {
		buffer_add(out, ", ", i ? 2 : 0);
		add_text(out, config->limits[rule->limits[i]].options.name);
	}
	buffer_add_text(out, "]\n");
}

static void print_rule(const struct weir_config *config, const struct rules_rule *rule,
                       struct buffer *out)
{
	buffer_add_text(out, "  - name: ");
	add_text(out, rule->name);
	buffer_add(out, "\n", 1);
	print_conditions(rule, out);
	if (rule->key_count) {
		buffer_add_text(out, "    key: ");
		add_names(out, rule->key, rule->key_count);
		buffer_add(out, "\n", 1);
	}
	if (rule->limit_count)
		print_limits(config, rule, out);
	if (rule->answer != RULES_BY_LIMITS)
		buffer_printf(out, "    answer: %s\n", rule->answer == RULES_ALLOW ? "allow" : "deny");
	if (rule->feedback[0] || rule->feedback[1])
		buffer_printf(out, "    feedback: [%llu, %llu]\n", (unsigned long long)rule->feedback[0],
		              (unsigned long long)rule->feedback[1]);
	if (rule->has_priority)
		buffer_printf(out, "    priority: %llu\n", (unsigned long long)rule->priority);
	if (rule->ipv6_prefix)
		buffer_printf(out, "    ipv6_prefix: %llu\n", (unsigned long long)rule->ipv6_prefix);
	if (rule->ip_numbers == RULES_YES)
		buffer_add_text(out, "    ip_numbers: yes\n");
	if (rule->path_variants != RULES_UNSET)
		buffer_printf(out, "    path_variants: %s\n",
		              rule->path_variants == RULES_YES ? "yes" : "no");
	if (rule->mode == RULES_SHADOW)
		buffer_add_text(out, "    mode: shadow\n");
	if (rule->has_on_store_failure)
		buffer_printf(out, "    on_store_failure: %s\n",
		              rules_word(rules_failures, rule->on_store_failure));
	if (rule->result) {
		buffer_add_text(out, "    result: ");
		scalar_add_json(out, slice_of(rule->result));
		buffer_add(out, "\n", 1);
	}
}

void rules_print(const struct weir_config *config, const struct weir_config *defaults,
                 struct buffer *out)
{
	print_top(&(struct print){config, defaults, out});
	print_users(config, out);
	if (config->limit_count)
		buffer_add_text(out, "limits:\n");
	for (size_t i = 0; i < config->limit_count; i++)
		print_limit(&config->limits[i], out);
	if (config->rule_count)
		buffer_add_text(out, "rules:\n");
	for (size_t i = 0; i < config->rule_count; i++)
		print_rule(config, &config->rules[i], out);
}
