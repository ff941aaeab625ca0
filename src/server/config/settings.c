/*
 * settings.c: reads how the server is to run (addresses, store, threads, log) from flags, the
 * environment and the configuration file, in this order of precedence, and checks it.
 */
#include "server/config/settings.h"

#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/number.h"
#include "redis/network/url.h"
#include "rules/model.h"
#include "rules/rate.h"
#include "rules/store_kind.h"
#include "server/access/account.h"

#define DEFAULT_HTTP "127.0.0.1:8080"
#define DEFAULT_RESP "127.0.0.1:6380"

void settings_add(struct settings *settings, enum setting setting, const char *text)
{
	settings->text[setting] = text;
	if (setting == SETTING_CONFIG && settings->file_count <= SETTINGS_FILES_MAX)
		settings->files[settings->file_count++] = text;
}

void settings_add_environment(struct settings *settings, char *(*get)(const char *name))
{
	static const char *const variables[] = {
#define SETTING_VARIABLE(name, flag, variable) variable,
	    SETTING_LIST(SETTING_VARIABLE)
#undef SETTING_VARIABLE
	};

	for (int i = 0; i < SETTING_COUNT; i++) {
		const char *value = settings->text[i] ? NULL : get(variables[i]);

		if (value && *value)
			settings_add(settings, (enum setting)i, value);
	}
}

/* Writes the paths of the configuration files, separated by commas, for the log. */
void settings_format_files(const struct settings *settings, char out[SETTINGS_FILES_TEXT_MAX])
{
	size_t len = 0;

	out[0] = '\0';
	for (size_t i = 0; i < settings->file_count && len < SETTINGS_FILES_TEXT_MAX; i++)
		len += (size_t)snprintf(out + len, SETTINGS_FILES_TEXT_MAX - len, "%s%s", i ? "," : "",
		                        settings->files[i]);
}

/* Sets *out to LOG_TEXT if the setting is absent. */
int settings_log_format(const struct settings *settings, enum log_format *out,
                        struct weir_error *error)
{
	static const char *const names[] = {[LOG_TEXT] = "text", [LOG_JSON] = "json"};
	const char *text = settings->text[SETTING_LOG_FORMAT];

	*out = LOG_TEXT;
	for (size_t i = 0; text && i < sizeof names / sizeof *names; i++)
		if (strcmp(text, names[i]) == 0) {
			*out = (enum log_format)i;
			return WEIR_OK;
		}
	return text ? error_set(error, WEIR_EINVAL, "log-format: expected text or json, found '%.40s'",
	                        text)
	            : WEIR_OK;
}

/* The text that takes precedence; a flag's or the file's is NULL if it is not set there. */
static const char *first_not_null(const char *flag_text, const char *file_text,
                                  const char *default_text)
{
	if (flag_text)
		return flag_text;
	return file_text ? file_text : default_text;
}

static int read_positive_number(const char *name, const char *text, uint64_t max, uint64_t *out,
                                struct weir_error *error)
{
	if (!parse_u64(slice_of(text), out) || *out < 1 || *out > max)
		return error_set(error, WEIR_EINVAL, "%s: expected 1 to %llu, found '%.40s'", name,
		                 (unsigned long long)max, text);
	return WEIR_OK;
}

static int read_sync(const char *text, uint64_t *out, struct weir_error *error)
{
	if (!duration_parse(slice_of(text), out) || *out == 0)
		return error_set(error, WEIR_EINVAL, "sync: expected " DURATION_EXPECTED ", found '%.40s'",
		                 text);
	return WEIR_OK;
}

/* Reads where the server keeps its state: in memory, in a file, or at Redis. */
static int read_store(const char *text, struct settings_plan *out, struct weir_error *error)
{
	const char *path = text + sizeof RULES_FILE_PREFIX - 1;
	enum rules_store_kind kind;
	struct weir_error inner;
	int status = rules_store_kind_read(text, &kind, &inner);

	out->path[0] = '\0';
	out->redis = status == WEIR_OK && kind == RULES_REDIS ? text : NULL;
	if (status != WEIR_OK)
		return error_set(error, status, "store: %s", inner.message);
	if (kind != RULES_FILE)
		return WEIR_OK;
	if (strlen(path) >= SETTINGS_PATH_MAX)
		return error_set(error, WEIR_ELONG, "store: expected a path below %d bytes, found %zu",
		                 SETTINGS_PATH_MAX, strlen(path));
	strcpy(out->path, path);
	return WEIR_OK;
}

/*
 * Checks that the URL is one of a Redis, and that the certificate files that it names exist. An
 * error has a position in the file if the URL stands there, in `text`, rather than in a flag.
 */
static int check_url(const char *url, const struct rules_text *text, struct weir_error *error)
{
	struct weir_error inner = {0};
	struct redis_url read;
	int status = redis_url_read(url, &read, &inner);

	if (status == WEIR_OK)
		redis_url_free(&read);
	else if (url == text->text)
		error_set_at(error, status, text->line, text->column, "%s", inner.message);
	else
		error_set(error, status, "store: %s", inner.message);
	return status;
}

/* Checks the URL of the server's Redis, if any, and those that limits name. */
static int check_urls(const struct weir_config *config, const char *redis, struct weir_error *error)
{
	int status = redis ? check_url(redis, &config->store, error) : WEIR_OK;
	const char *last_checked = redis ? redis : "";

	for (size_t i = 0; i < config->limit_count && status == WEIR_OK; i++) {
		const char *url = rules_store(&config->limits[i], redis);

		/* most limits have the same URL as the limit before */
		if (!url || strcmp(url, last_checked) == 0)
			continue;
		status = check_url(url, &config->limits[i].store, error);
		last_checked = url;
	}
	return status;
}

/* Finds the number of a user or group by its name, with `find`. An omitted account is 0. */
static int read_account(const char *name, const char *text, const char *expected,
                        bool (*find)(const char *text, uint64_t *id), uint64_t *out,
                        struct weir_error *error)
{
	*out = 0;
	if (text && !find(text, out))
		return error_set(error, WEIR_EINVAL, "%s: expected a %s of this system, found '%.64s'",
		                 name, expected, text);
	return WEIR_OK;
}

/* Names the setting, and its position in the file if it has one. Returns `status`. */
static int set_setting_error(const struct rules_text *text, const char *name, int status,
                             const char *message, struct weir_error *error)
{
	return error_set_at(error, status, text ? text->line : 0, text ? text->column : 0, "%s: %s",
	                    name, message);
}

/* Reads who may use a Unix socket: its mode and its owners. */
static int read_socket_access(const char *name, const struct rules_listen *listen,
                              struct net_address *out, struct weir_error *error)
{
	struct weir_error inner;
	uint64_t owner, group;
	int status = read_account("owner", listen->owner, "user", account_user, &owner, &inner);

	if (status == WEIR_OK)
		status = read_account("group", listen->group, "group", account_group, &group, &inner);
	if (status != WEIR_OK)
		return set_setting_error(&listen->address, name, status, inner.message, error);
	out->mode = listen->mode;
	out->has_owner = listen->owner;
	out->has_group = listen->group;
	out->owner = (uid_t)owner;
	out->group = (gid_t)group;
	return WEIR_OK;
}

/* Reads the address of a listener. Only the file can set a Unix socket's owner and mode. */
static int read_address(const char *name, const char *flag_text, const struct rules_listen *file,
                        const char *default_text, struct net_address *out, struct weir_error *error)
{
	const char *text = first_not_null(flag_text, file->address.text, default_text);
	struct weir_error inner;
	int status = net_address_parse(slice_of(text), out, &inner);

	if (status != WEIR_OK)
		return set_setting_error(flag_text ? NULL : &file->address, name, status, inner.message,
		                         error);
	return flag_text ? WEIR_OK : read_socket_access(name, file, out, error);
}

/* Port 0 stands for a different free port each time, and family 0 for no address. */
static bool is_same_address(const struct net_address *a, const struct net_address *b)
{
	sa_family_t family = a->any.sa_family;

	if (family == 0 || family != b->any.sa_family)
		return false;
	if ((family == AF_INET && a->v4.sin_port == 0) || (family == AF_INET6 && a->v6.sin6_port == 0))
		return false;
	return memcmp(&a->any, &b->any, net_address_size(a)) == 0;
}

/* Checks that no two listeners have the same address. */
static int check_addresses(const struct settings *settings, const struct weir_config *config,
                           const struct settings_plan *plan, struct weir_error *error)
{
	const struct {
		const char *name;
		const struct net_address *address;
		const struct rules_text *text; /* NULL for a flag */
	} listeners[] = {
	    {"http", &plan->http, settings->text[SETTING_HTTP] ? NULL : &config->listen_http.address},
	    {"resp", &plan->resp, settings->text[SETTING_RESP] ? NULL : &config->listen_resp.address},
	    {"admin", &plan->admin, &config->listen_admin.address},
	};

	for (size_t i = 1; i < sizeof listeners / sizeof *listeners; i++)
		for (size_t j = 0; j < i; j++) {
			char message[64];

			snprintf(message, sizeof message,
			         "expected another address than %s has, found the same", listeners[j].name);
			if (is_same_address(listeners[j].address, listeners[i].address))
				return set_setting_error(listeners[i].text, listeners[i].name, WEIR_EINVAL, message,
				                         error);
		}
	return WEIR_OK;
}

/* The processors that this process may use, which is the default number of threads. */
static uint64_t usable_cpu_count(void)
{
	cpu_set_t cpus;

	if (sched_getaffinity(0, sizeof cpus, &cpus))
		return 1;
	return u64_min((uint64_t)CPU_COUNT(&cpus), SETTINGS_THREADS_MAX);
}

int settings_resolve(const struct settings *settings, const struct weir_config *config,
                     struct settings_plan *out, struct weir_error *error)
{
	const char *const *text = settings->text;
	int status;

	if (text[SETTING_GRPC])
		return error_set(error, WEIR_EUNSUPPORTED, "grpc: not supported yet");
	out->threads = usable_cpu_count();
	out->tls = config->tls.cert != NULL;
	status =
	    read_store(first_not_null(text[SETTING_STORE], config->store.text, "memory"), out, error);
	if (status == WEIR_OK)
		status = check_urls(config, out->redis, error);
	if (status == WEIR_OK)
		status = read_account("store_owner", config->store_owner, "user", account_user, &out->owner,
		                      error);
	if (status == WEIR_OK)
		status = read_account("store_group", config->store_group, "group", account_group,
		                      &out->group, error);
	out->capacity = config->capacity;
	if (out->capacity == 0 && !*out->path) /* an existing table file has its own capacity */
		out->capacity = SETTINGS_CAPACITY_DEFAULT;
	if (status == WEIR_OK)
		status = read_address("http", text[SETTING_HTTP], &config->listen_http, DEFAULT_HTTP,
		                      &out->http, error);
	if (status == WEIR_OK)
		status = read_address("resp", text[SETTING_RESP], &config->listen_resp, DEFAULT_RESP,
		                      &out->resp, error);
	out->admin = (struct net_address){0};
	if (status == WEIR_OK && config->listen_admin.address.text)
		status = read_address("admin", NULL, &config->listen_admin, NULL, &out->admin, error);
	if (status == WEIR_OK)
		status = check_addresses(settings, config, out, error);
	if (status == WEIR_OK && text[SETTING_CAPACITY])
		status = read_positive_number("capacity", text[SETTING_CAPACITY], UINT64_MAX,
		                              &out->capacity, error);
	out->sync_ns = config->sync_ns;
	if (status == WEIR_OK && text[SETTING_SYNC])
		status = read_sync(text[SETTING_SYNC], &out->sync_ns, error);
	if (status == WEIR_OK && text[SETTING_THREADS])
		status = read_positive_number("threads", text[SETTING_THREADS], SETTINGS_THREADS_MAX,
		                              &out->threads, error);
	return status;
}
