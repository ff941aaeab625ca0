#include "server/config/reload.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/error.h"
#include "rules/model.h"
#include "server/config/config_warnings.h"
#include "server/start/service_manager.h"
#include "server/stores/quorum_group.h"
#include "wait/waitlist.h"

/* Descriptors that are not for connections: of the process, and of each thread. */
#define DESCRIPTORS_PROCESS 32
#define DESCRIPTORS_THREAD  8

/* Raises the limit of descriptors as far as the system permits, and returns it. */
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

void reload_apply_connections(struct server *server)
{
	struct worker_shared *shared = &server->shared;
	const struct weir_config *rules = server->config->rules;
	uint64_t others =
	    DESCRIPTORS_PROCESS + server->plan.threads * (DESCRIPTORS_THREAD + NET_RESERVE);
	uint64_t descriptors = raise_descriptor_limit();
	uint64_t max = u64_min(rules->connections, u64_max(sat_sub(descriptors, others), 1));

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

static bool same_address(const struct net_address *a, const struct net_address *b)
{
	char left[NET_ADDRESS_TEXT_MAX], right[NET_ADDRESS_TEXT_MAX];

	net_address_format(a, left);
	net_address_format(b, right);
	return a->any.sa_family == b->any.sa_family && strcmp(left, right) == 0 && a->mode == b->mode &&
	       a->has_owner == b->has_owner && a->owner == b->owner && a->has_group == b->has_group &&
	       a->group == b->group && a->plain == b->plain;
}

/* Either may be NULL. */
static bool same_text(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

static void warn_restart_needed(const struct server *server, const struct weir_config *rules,
                                const struct settings_plan *wanted)
{
	const struct settings_plan *now = &server->plan;
	const struct stores *stores = &server->shared.stores;
	const struct stores_item *main = stores->main ? &stores->items[stores->main->index] : NULL;
	const struct {
		const char *name;
		bool same;
	} fixed[] = {
	    {"listen.http", same_address(&now->http, &wanted->http)},
	    {"listen.resp", same_address(&now->resp, &wanted->resp)},
	    {"listen.admin", same_address(&now->admin, &wanted->admin)},
	    {"tls", now->tls == wanted->tls},
	    {"store", strcmp(now->path, wanted->path) == 0 && same_text(now->redis, wanted->redis)},
	    {"store_owner", now->owner == wanted->owner},
	    {"store_group", now->group == wanted->group},
	    {"capacity", now->capacity == wanted->capacity},
	    {"prefix", !main || strcmp(main->prefix, rules->prefix) == 0},
	    {"store_timeout", !main || main->timeout_ns == rules->store_timeout_ns},
	    {"denied_cache", !main || main->denied_cache_ns == rules->denied_cache_ns},
	};

	for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
		if (!fixed[i].same)
			log_event(server->shared.log, LOG_WARNING, "restart_needed",
			          {"setting", fixed[i].name});
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

static void log_warning(struct log *log, const struct weir_config_remark *warning)
{
	log_remark(log, "config_warning", warning);
}

static void report_warning(void *context, const struct weir_config_remark *warning)
{
	const struct server *server = context;

	log_warning(server->shared.log, warning);
}

void reload_log_warnings(struct server *server)
{
	const struct server_config *config = server->config;

	log_capacity(server);
	config_warnings_check(config->rules, config->engine,
	                      config->rules->tls.cert ? config->tls : NULL, &server->plan,
	                      report_warning, server);
}

/* Logs warnings, and errors in files as `event`; records whether there were errors. */
struct remark_log {
	struct log *log;
	const char *event;
	bool has_errors;
	struct file_watch *watch; /* gets the names of the files */
};

static void log_config_remark(void *context, const struct weir_config_remark *remark)
{
	struct remark_log *remark_log = context;

	if (remark->is_error)
		log_remark(remark_log->log, remark_log->event, remark);
	else
		log_warning(remark_log->log, remark);
	remark_log->has_errors |= remark->is_error;
}

static void watch_file(void *context, const char *path)
{
	struct remark_log *remark_log = context;

	if (remark_log->watch->fd >= 0 && !file_watch_add(remark_log->watch, path))
		log_event(remark_log->log, LOG_WARNING, "not_watched", {"file", path});
}

int reload_read(struct server *server, const char *event, struct server_config **out,
                struct weir_error *error)
{
	struct remark_log remark_log = {server->shared.log, event, false, &server->watch};
	const struct weir_config_files files = {.paths = server->settings.files,
	                                        .count = server->settings.file_count,
	                                        .say = log_config_remark,
	                                        .file = watch_file,
	                                        .context = &remark_log};
	int status;

	file_watch_reset(&server->watch);
	status = server_config_open(&files, out, error);
	return remark_log.has_errors ? error_set(error, status, "%s", "") : status;
}

void reload_warn_of_exposure(const struct server *server)
{
	for (size_t i = 0; i < server->listener_count; i++)
		listener_warn_if_exposed(&server->listeners[i], server->config->rules, server->shared.log);
}

/* Whether `next` protects less: a network may change and administer that could not before. */
static bool adds_networks(const struct weir_config *rules, const struct weir_config *next)
{
	for (size_t i = 0; i < next->protected_count; i++) {
		const struct ip_range *range = &next->protected[i];
		size_t j = 0;

		while (j < rules->protected_count && (!ip_in_range(&range->first, &rules->protected[j]) ||
		                                      !ip_in_range(&range->last, &rules->protected[j])))
			j++;
		if (j == rules->protected_count)
			return true;
	}
	return false;
}

/* Whether `next` permits callers more than the rules before. */
static bool grants_more(const struct weir_config *rules, const struct weir_config *next)
{
	if (next->user_count > 0)
		return false;
	return rules->user_count > 0 ||
	       (!rules->unprotected && (next->unprotected || adds_networks(rules, next)));
}

/* Does all that can fail before it replaces the running configuration. */
static int reload_config(struct server *server, struct server_config *config,
                         struct weir_error *error)
{
	struct worker_shared *shared = &server->shared;
	struct settings_plan wanted;
	bool is_opened = grants_more(server->config->rules, config->rules);
	int status = settings_resolve(&server->settings, config->rules, &wanted, error);

	if (status == WEIR_OK)
		status = reload_compile(server, config, server->config, error);
	for (size_t i = 0; status == WEIR_OK && i < server->worker_count; i++)
		if (worker_open_store_clients(&server->workers[i]) != WEIR_OK)
			status = error_set(error, WEIR_ENOMEM, "out of memory");
	if (status != WEIR_OK)
		return status;
	warn_restart_needed(server, config->rules, &wanted);
	server->plan.sync_ns = wanted.sync_ns;
	server_config_replace(&server->config, config);
	if (is_opened)
		reload_warn_of_exposure(server);
	reload_apply_connections(server);
	reload_wake(server);
	waitlist_wake_all(&shared->table->waiting); /* the new limits may grant their requests */
	return WEIR_OK;
}

static void reload_files(struct server *server)
{
	struct log *log = server->shared.log;
	struct server_config *config;
	struct weir_error error = {0};
	int status = reload_read(server, "reload_failed", &config, &error);

	if (status == WEIR_OK)
		status = reload_config(server, config, &error);
	metrics_count_reload(server->shared.metrics, status == WEIR_OK, os_wall_ns());
	if (status != WEIR_OK) {
		if (*error.message)
			log_error(log, "reload_failed", config ? config->rules->file : NULL, &error);
		server_config_release(config);
		return;
	}
	log_event(log, LOG_INFO, "reloaded", {"file", server->files},
	          {"limits", .number = server->config->rules->limit_count},
	          {"rules", .number = server->config->rules->rule_count});
	reload_log_warnings(server);
}

void reload(struct server *server)
{
	service_manager_notify_reloading();
	if (server->settings.file_count > 0)
		reload_files(server);
	else
		log_event(server->shared.log, LOG_WARNING, "reload_failed",
		          {"message", "nothing to reload: started without a file"});
	service_manager_notify("READY=1");
}
