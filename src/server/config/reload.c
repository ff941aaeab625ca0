/*
 * reload.c: reads and compiles the configuration at the start, and again when its files change or
 * an operator asks for it while the server runs.
 */
#include "server/config/reload.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/error.h"
#include "rules/model.h"
#include "server/config/config_warnings.h"
#include "server/start/service_manager.h"
#include "server/stores/quorum_group.h"
#include "wait/waitlist.h"

/* File descriptors that are not for connections: of the process, and of each thread. */
#define DESCRIPTORS_PROCESS 32
#define DESCRIPTORS_THREAD  8

/* Raises the limit of file descriptors as far as the system permits, and returns it. */
static uint64_t raise_descriptor_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
		return UINT64_MAX;
	if (limit.rlim_cur < limit.rlim_max) {
		limit.rlim_cur = limit.rlim_max;
		if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
			getrlimit(RLIMIT_NOFILE, &limit);
	}
	return limit.rlim_cur; /* RLIM_INFINITY is the largest number */
}

/*
 * Sets the most connections that the workers accept, as configured or as few as there are file
 * descriptors, and the time after which they close an idle connection.
 */
void reload_apply_connections(struct server *server)
{
	struct worker_shared *shared = &server->shared;
	const struct weir_config *rules = server->config->rules;
	uint64_t other_descriptors =
	    DESCRIPTORS_PROCESS + server->plan.threads * (DESCRIPTORS_THREAD + NET_RESERVE);
	uint64_t descriptors = raise_descriptor_limit();
	uint64_t available = u64_max(sat_sub(descriptors, other_descriptors), 1);
	uint64_t max = u64_min(rules->connections, available);

	if (max < rules->connections)
		log_event(shared->log, LOG_WARNING, "connections_lowered", {"connections", .number = max},
		          {"wanted", .number = rules->connections}, {"descriptors", .number = descriptors});
	atomic_store_explicit(&shared->conn_limit.max, max, memory_order_relaxed);
	atomic_store_explicit(&shared->idle_timeout_ms[METRICS_HTTP], rules->idle_http_ns / NS_PER_MS,
	                      memory_order_relaxed);
	atomic_store_explicit(&shared->idle_timeout_ms[METRICS_RESP], rules->idle_resp_ns / NS_PER_MS,
	                      memory_order_relaxed);
}

void reload_wake(void *context)
{
	struct server *server = context;

	for (size_t i = 0; i < server->worker_count; i++)
		net_loop_wake(server->workers[i].loop);
}

/* Joins the server to the groups of servers that decide together on breakers with a quorum. */
static int join_quorum_groups(struct server *server, const struct server_config *config,
                              struct weir_error *error)
{
	int status = quorum_groups_join(&server->shared.quorum_groups, config->engine);

	return status == WEIR_OK ? status : error_set(error, status, "%s", weir_strerror(status));
}

int reload_compile(struct server *server, struct server_config *config,
                   const struct server_config *before, struct weir_error *error)
{
	struct worker_shared *shared = &server->shared;
	int status = server_config_compile(config, before, shared->table, &shared->stores,
	                                   shared->metrics, error);

	if (status == WEIR_OK && config->users &&
	    login_throttle_open(&shared->login_throttle) != WEIR_OK)
		status = error_set(error, WEIR_ENOMEM, "users: out of memory");
	return status == WEIR_OK ? join_quorum_groups(server, config, error) : status;
}

/* Whether two listeners have the same address, and a Unix socket the same access. */
static bool is_same_listener(const struct net_address *a, const struct net_address *b)
{
	char left[NET_ADDRESS_TEXT_MAX], right[NET_ADDRESS_TEXT_MAX];

	net_address_format(a, left);
	net_address_format(b, right);
	return a->any.sa_family == b->any.sa_family && strcmp(left, right) == 0 && a->mode == b->mode &&
	       a->has_owner == b->has_owner && a->owner == b->owner && a->has_group == b->has_group &&
	       a->group == b->group && a->without_tls == b->without_tls;
}

/* Either may be NULL. */
static bool is_same_text(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

/*
 * Warns of each setting that differs from the running one and takes effect only at a restart, and
 * adds it to the result.
 */
static void warn_restart_needed(const struct server *server, const struct weir_config *rules,
                                const struct settings_plan *wanted, struct reload_result *result)
{
	size_t len = 0;
	const struct settings_plan *running = &server->plan;
	const struct stores *stores = &server->shared.stores;
	const struct stores_item *main = stores->main ? &stores->items[stores->main->index] : NULL;
	const struct {
		const char *name;
		bool is_same;
	} settings[] = {
	    {"listen.http", is_same_listener(&running->http, &wanted->http)},
	    {"listen.resp", is_same_listener(&running->resp, &wanted->resp)},
	    {"listen.admin", is_same_listener(&running->admin, &wanted->admin)},
	    {"tls", running->tls == wanted->tls},
	    {"store",
	     strcmp(running->path, wanted->path) == 0 && is_same_text(running->redis, wanted->redis)},
	    {"store_owner", running->owner == wanted->owner},
	    {"store_group", running->group == wanted->group},
	    {"capacity", running->capacity == wanted->capacity},
	    {"prefix", !main || strcmp(main->prefix, rules->prefix) == 0},
	    {"store_timeout", !main || main->timeout_ns == rules->store_timeout_ns},
	    {"denials.keep", denial_sample_capacity(server->shared.denials) == rules->denials.keep},
	    {"denials.file", denial_file_is_of(server->shared.denial_file, &rules->denials)},
	    {"denied_cache", !main || main->denied_cache_ns == rules->denied_cache_ns},
	};

	for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
		if (settings[i].is_same)
			continue;
		log_event(server->shared.log, LOG_WARNING, "restart_needed", {"setting", settings[i].name});
		if (len < sizeof result->restart_needed) /* it has room for all names */
			len +=
			    (size_t)snprintf(result->restart_needed + len, sizeof result->restart_needed - len,
			                     "%s\"%s\"", len > 0 ? "," : "", settings[i].name);
	}
}

/* Logs the capacity of limits that have tables of their own. */
static void log_capacity(const struct server *server)
{
	const struct weir_engine *engine = server->config->engine;

	for (size_t i = 0; i < engine_limit_count(engine); i++) {
		const struct weir_limit *limit = engine_limit_at(engine, i);
		struct store_capacity capacity = engine_capacity_of(server->shared.table, limit);

		if (!capacity.is_shared)
			log_event(server->shared.log, LOG_INFO, "limit_room", {"limit", limit->name},
			          {"keys", .number = capacity.keys}, {"bytes", .number = capacity.bytes});
	}
}

static void log_config_warning(struct log *log, const struct weir_config_remark *warning)
{
	log_remark(log, "config_warning", warning);
}

static void log_warning_of_server(void *context, const struct weir_config_remark *warning)
{
	const struct server *server = context;

	log_config_warning(server->shared.log, warning);
}

void reload_log_warnings(struct server *server)
{
	const struct server_config *config = server->config;

	log_capacity(server);
	/* without a certificate in the file, `tls` has those of an earlier configuration */
	config_warnings_check(config->rules, config->engine,
	                      config->rules->tls.cert ? config->tls : NULL, &server->plan,
	                      log_warning_of_server, server);
}

/* The context of the callbacks of the reader of configuration files. */
struct reader_context {
	struct log *log;
	const char *error_event; /* the event that an error is logged as */
	size_t error_count;
	struct buffer first_error;
	struct file_watch *watch; /* for the files that are read */
};

/* Called by the reader for each error or warning of a file. */
static void log_config_remark(void *context, const struct weir_config_remark *remark)
{
	struct reader_context *reader_context = context;

	if (!remark->is_error) {
		log_config_warning(reader_context->log, remark);
		return;
	}
	log_remark(reader_context->log, reader_context->error_event, remark);
	if (reader_context->error_count++ == 0)
		log_add_remark(&reader_context->first_error, remark);
}

/* Called by the reader for each file before it opens it. */
static void watch_config_file(void *context, const char *path)
{
	struct reader_context *reader_context = context;

	if (reader_context->watch->fd >= 0 && !file_watch_add(reader_context->watch, path))
		log_event(reader_context->log, LOG_WARNING, "not_watched", {"file", path});
}

/* Shows the first error of the files, and how many others there are, in /v1/status. */
static void show_file_errors(struct server *server, struct reader_context *reader_context)
{
	struct buffer *text = &reader_context->first_error;

	if (reader_context->error_count > 1)
		buffer_printf(text, " (1 of %zu errors)", reader_context->error_count);
	buffer_add(text, "", 1); /* a NUL */
	server_status_set_reload_error(&server->shared.status,
	                               text->failed ? "out of memory" : text->data);
	buffer_free(text);
}

int reload_read(struct server *server, const char *event, struct server_config **out,
                struct weir_error *error)
{
	struct reader_context reader_context = {
	    .log = server->shared.log, .error_event = event, .watch = &server->watch};
	const struct weir_config_files files = {.paths = server->settings.files,
	                                        .count = server->settings.file_count,
	                                        .say = log_config_remark,
	                                        .file = watch_config_file,
	                                        .context = &reader_context};
	int status;

	file_watch_reset(&server->watch);
	status = server_config_open(&files, out, error);
	if (reader_context.error_count == 0)
		return status;
	show_file_errors(server, &reader_context);
	/* errors that were logged already have no message */
	return error_set(error, status, "%s", "");
}

void reload_warn_of_exposure(const struct server *server)
{
	for (size_t i = 0; i < server->listener_count; i++)
		listener_warn_if_exposed(&server->listeners[i], server->config->rules, server->shared.log);
}

static bool is_within_protected(const struct ip_range *range, const struct weir_config *rules)
{
	for (size_t i = 0; i < rules->protected_count; i++)
		if (ip_in_range(&range->first, &rules->protected[i]) &&
		    ip_in_range(&range->last, &rules->protected[i]))
			return true;
	return false;
}

/* Whether `next` lets a network change and administer that could not before. */
static bool adds_protected_networks(const struct weir_config *rules, const struct weir_config *next)
{
	for (size_t i = 0; i < next->protected_count; i++)
		if (!is_within_protected(&next->protected[i], rules))
			return true;
	return false;
}

/* Whether callers without a login may do more by `next` than by `rules`. */
static bool permits_more(const struct weir_config *rules, const struct weir_config *next)
{
	if (next->user_count > 0)
		return false; /* each caller must log in */
	if (rules->user_count > 0)
		return true;
	return !rules->unprotected && (next->unprotected || adds_protected_networks(rules, next));
}

/*
 * Compiles `config`, and replaces the running configuration by it. Everything that can fail comes
 * first, so that the running one stays untouched then.
 */
static int reload_config(struct server *server, struct server_config *config,
                         struct reload_result *result, struct weir_error *error)
{
	struct worker_shared *shared = &server->shared;
	struct settings_plan wanted;
	bool is_less_protected = permits_more(server->config->rules, config->rules);
	int status = settings_resolve(&server->settings, config->rules, &wanted, error);

	if (status == WEIR_OK)
		status = reload_compile(server, config, server->config, error);
	for (size_t i = 0; status == WEIR_OK && i < server->worker_count; i++)
		if (worker_open_store_clients(&server->workers[i]) != WEIR_OK)
			status = error_set(error, WEIR_ENOMEM, "out of memory");
	if (status != WEIR_OK)
		return status;
	warn_restart_needed(server, config->rules, &wanted, result);
	server->plan.sync_ns = wanted.sync_ns;
	server_config_replace(&server->config, config);
	if (is_less_protected)
		reload_warn_of_exposure(server);
	reload_apply_connections(server);
	reload_wake(server);
	waitlist_wake_all(&shared->table->waiting); /* the new limits may grant their requests */
	return WEIR_OK;
}

/* Logs why a reload failed, and shows it in /v1/status. `path` is the file, or NULL. */
static void log_reload_error(struct server *server, const char *path,
                             const struct weir_error *error)
{
	struct buffer text = {0};

	log_error(server->shared.log, "reload_failed", path, error);
	if (path)
		log_add_error(&text, path, error);
	else
		buffer_add_text(&text, error->message);
	buffer_add(&text, "", 1); /* a NUL */
	server_status_set_reload_error(&server->shared.status,
	                               text.failed ? error->message : text.data);
	buffer_free(&text);
}

/* Reads and applies the files. Logs why that failed, or what the new configuration has. */
static void reload_files(struct server *server, struct reload_result *result)
{
	struct log *log = server->shared.log;
	struct server_config *config;
	struct weir_error error = {0};
	int status = reload_read(server, "reload_failed", &config, &error);

	if (status == WEIR_OK)
		status = reload_config(server, config, result, &error);
	metrics_count_reload(server->shared.metrics, status == WEIR_OK, os_wall_ns());
	if (status != WEIR_OK) {
		if (*error.message)
			log_reload_error(server, config ? config->rules->file : NULL, &error);
		server_config_release(config);
		return;
	}
	server_status_set_reload_error(&server->shared.status, NULL);
	log_event(log, LOG_INFO, "reloaded", {"file", server->files},
	          {"limits", .number = server->config->rules->limit_count},
	          {"rules", .number = server->config->rules->rule_count});
	reload_log_warnings(server);
}

void reload(struct server *server)
{
	static const char no_file[] = "nothing to reload: started without a file";
	struct reload_result result = {0};

	service_manager_notify_reloading();
	if (server->settings.file_count > 0) {
		reload_files(server, &result);
		snprintf(result.message, sizeof result.message, "%s",
		         server->shared.status.reload_error); /* which this thread alone writes */
	} else {
		log_event(server->shared.log, LOG_WARNING, "reload_failed", {"message", no_file});
		memcpy(result.message, no_file, sizeof no_file);
	}
	service_manager_notify("READY=1");
	reload_requests_end(&server->shared.reload_requests, &result);
	reload_wake(server); /* loops have requests that wait for this reload */
}
