#include "server/config/reload.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/error.h"
#include "rules/model.h"
#include "server/config/config_warnings.h"
#include "server/start/notify.h"
#include "server/stores/quorum_group.h"
#include "wait/waitlist.h"

/* Descriptors beside those of connections: for the process, and for each of its threads. */
#define DESCRIPTORS_PROCESS 32
#define DESCRIPTORS_THREAD  8

/* How many descriptors the system lets us have: as many as it can be asked for. */
static uint64_t descriptor_limit(void)
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
	uint64_t descriptors = descriptor_limit();
	uint64_t max = u64_min(rules->connections, u64_max(sat_sub(descriptors, others), 1));

	if (max < rules->connections)
		log_say(shared->log, LOG_WARNING, "connections_lowered", {"connections", .number = max},
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

	if (status == WEIR_OK && config->users && logins_open(&shared->logins) != WEIR_OK)
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

static void say_what_needs_a_restart(const struct server *server, const struct weir_config *rules,
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
			log_say(server->shared.log, LOG_WARNING, "restart_needed", {"setting", fixed[i].name});
}

/* How many keys each limit has room for that has a table of its own. */
static void say_room(const struct server *server)
{
	const struct weir_engine *engine = server->config->engine;

	for (size_t i = 0; i < engine_limit_count(engine); i++) {
		const struct weir_limit *limit = engine_limit_at(engine, i);
		struct store_capacity room = engine_capacity_of(server->shared.table, limit);

		if (!room.is_shared)
			log_say(server->shared.log, LOG_INFO, "limit_room", {"limit", limit->name},
			        {"keys", .number = room.keys}, {"bytes", .number = room.bytes});
	}
}

static void log_warning(struct log *log, const struct weir_config_remark *warning)
{
	log_remark(log, "config_warning", warning);
}

static void say_warning(void *context, const struct weir_config_remark *warning)
{
	const struct server *server = context;

	log_warning(server->shared.log, warning);
}

void reload_say_advice(struct server *server)
{
	const struct server_config *config = server->config;

	say_room(server);
	config_warnings_give(config->rules, config->engine,
	                     config->rules->tls.cert ? config->tls : NULL, &server->plan, say_warning,
	                     server);
}

/* Tells of warnings, and of errors in files as the event that they prevent, which it remembers. */
struct teller {
	struct log *log;
	const char *event;
	bool told;
	struct file_watch *watch; /* gets the files */
};

static void tell(void *context, const struct weir_config_remark *remark)
{
	struct teller *teller = context;

	if (remark->is_error)
		log_remark(teller->log, teller->event, remark);
	else
		log_warning(teller->log, remark);
	teller->told |= remark->is_error;
}

static void watch_file(void *context, const char *path)
{
	struct teller *teller = context;

	if (teller->watch->fd >= 0 && !file_watch_add(teller->watch, path))
		log_say(teller->log, LOG_WARNING, "not_watched", {"file", path});
}

int reload_read(struct server *server, const char *event, struct server_config **out,
                      struct weir_error *error)
{
	struct teller teller = {server->shared.log, event, false, &server->watch};
	const struct weir_config_files files = {.paths = server->settings.files,
	                                        .count = server->settings.file_count,
	                                        .say = tell,
	                                        .file = watch_file,
	                                        .context = &teller};
	int status;

	file_watch_forget(&server->watch);
	status = server_config_open(&files, out, error);
	return teller.told ? error_set(error, status, "%s", "") : status;
}

void reload_warn_of_exposure(const struct server *server)
{
	for (size_t i = 0; i < server->listener_count; i++)
		listener_warn(&server->listeners[i], server->config->rules, server->shared.log);
}

/* Whether a network that may change and administer by `next` may not by the rules before. */
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

/* Whether callers may do by `next` what they may not by the rules before. */
static bool opens_up(const struct weir_config *rules, const struct weir_config *next)
{
	if (next->user_count > 0)
		return false;
	return rules->user_count > 0 ||
	       (!rules->unprotected && (next->unprotected || adds_networks(rules, next)));
}

/* Everything that can fail happens beside the running configuration. */
static int reload_config(struct server *server, struct server_config *config,
                         struct weir_error *error)
{
	struct worker_shared *shared = &server->shared;
	struct settings_plan wanted;
	bool is_opened = opens_up(server->config->rules, config->rules);
	int status = settings_resolve(&server->settings, config->rules, &wanted, error);

	if (status == WEIR_OK)
		status = reload_compile(server, config, server->config, error);
	for (size_t i = 0; status == WEIR_OK && i < server->worker_count; i++)
		if (worker_reach(&server->workers[i]) != WEIR_OK)
			status = error_set(error, WEIR_ENOMEM, "out of memory");
	if (status != WEIR_OK)
		return status;
	say_what_needs_a_restart(server, config->rules, &wanted);
	server->plan.sync_ns = wanted.sync_ns;
	server_config_succeed(&server->config, config);
	if (is_opened)
		reload_warn_of_exposure(server);
	reload_apply_connections(server);
	reload_wake(server);
	waitlist_wake_all(&shared->table->waiting); /* what they wait for may be granted now */
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
		server_config_drop(config);
		return;
	}
	log_say(log, LOG_INFO, "reloaded", {"file", server->files},
	        {"limits", .number = server->config->rules->limit_count},
	        {"rules", .number = server->config->rules->rule_count});
	reload_say_advice(server);
}

void reload(struct server *server)
{
	notify_reloading();
	if (server->settings.file_count > 0)
		reload_files(server);
	else
		log_say(server->shared.log, LOG_WARNING, "reload_failed",
		        {"message", "nothing to reload: started without a file"});
	notify("READY=1");
}

