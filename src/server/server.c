#include "server/server.h"

#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/error.h"
#include "rules/model.h"
#include "server/config_warnings.h"
#include "server/file_watch.h"
#include "server/loop/listener.h"
#include "server/loop/worker.h"
#include "server/notify.h"
#include "server/stores/fleet.h"
#include "server/stores/reports.h"
#include "wait/waitlist.h"

/* Descriptors beside those of connections: for the process, and for each of its threads. */
#define DESCRIPTORS_PROCESS 32
#define DESCRIPTORS_THREAD  8

#define WAIT_MS 100

struct server {
	struct settings settings;
	char files[SETTINGS_NAMES_MAX];
	struct settings_plan plan;
	struct worker_shared shared;
	struct server_config *config; /* the one that the workers see */
	struct worker *workers;
	size_t worker_count;     /* of them opened */
	struct file_watch watch; /* of all files that it reads */
	struct listener listeners[LISTENERS];
	size_t listener_count;
};

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

/* Also for connections that are open already. */
static void apply_connections(struct server *server)
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
	atomic_store_explicit(&shared->gate.max, max, memory_order_relaxed);
	atomic_store_explicit(&shared->idle_timeout_ms[METRICS_HTTP], rules->idle_http_ns / NS_PER_MS,
	                      memory_order_relaxed);
	atomic_store_explicit(&shared->idle_timeout_ms[METRICS_RESP], rules->idle_resp_ns / NS_PER_MS,
	                      memory_order_relaxed);
}

static int open_workers(struct server *server, struct weir_error *error)
{
	size_t n = server->plan.threads;

	server->workers = calloc(n, sizeof *server->workers);
	if (!server->workers)
		return error_set(error, WEIR_ENOMEM, "out of memory");
	while (server->worker_count < n) {
		struct worker *worker = &server->workers[server->worker_count];
		int status = worker_open(worker, &server->shared, server->worker_count, server->config);

		server->worker_count++;
		if (status == WEIR_OK)
			status = worker_reach(worker);
		if (status != WEIR_OK)
			return error_set(error, status, "can't start thread %zu: %s", server->worker_count,
			                 weir_strerror(status));
	}
	return WEIR_OK;
}

/* The store of limits that name none. The plan keeps its URL: it outlives the configuration. */
static int open_main_store(struct server *server, struct weir_error *error)
{
	struct stores *stores = &server->shared.stores;
	int status;

	stores->log = server->shared.log;
	status = stores_open_main(stores, server->plan.redis, server->config->rules,
	                          server->shared.table, error);
	if (status == WEIR_OK && stores->main)
		server->plan.redis = stores->items[stores->main->index].url;
	return status;
}

static void hear(void *context, const char *event, struct slice json)
{
	events_add(context, event, json);
}

/* Loops whose clients follow events have something to write. */
static void wake_all(void *context)
{
	struct server *server = context;

	for (size_t i = 0; i < server->worker_count; i++)
		net_loop_wake(server->workers[i].loop);
}

static int join_fleets(struct server *server, const struct server_config *config,
                       struct weir_error *error)
{
	int status = fleets_join(&server->shared.fleets, config->engine);

	return status == WEIR_OK ? status : error_set(error, status, "%s", weir_strerror(status));
}

/* `before`: the one that it is to succeed, or NULL. */
static int compile_config(struct server *server, struct server_config *config,
                          const struct server_config *before, struct weir_error *error)
{
	struct worker_shared *shared = &server->shared;
	int status = server_config_compile(config, before, shared->table, &shared->stores,
	                                   shared->metrics, error);

	if (status == WEIR_OK && config->users && logins_open(&shared->logins) != WEIR_OK)
		status = error_set(error, WEIR_ENOMEM, "users: out of memory");
	return status == WEIR_OK ? join_fleets(server, config, error) : status;
}

static int open_server(struct server *server, struct weir_error *error)
{
	struct worker_shared *shared = &server->shared;
	struct weir_table_options options;
	int status = settings_resolve(&server->settings, server->config->rules, &server->plan, error);

	if (status != WEIR_OK)
		return status;
	if (switches_open(&shared->switches, shared->log) != WEIR_OK)
		return error_set(error, WEIR_EIO, "out of descriptors");
	forced_keys_open(&shared->forced, &shared->switches);
	shared->limits = CODEC_LIMITS_DEFAULT;
	shared->threads = server->plan.threads;
	apply_connections(server);
	shared->metrics = metrics_open(server->plan.threads);
	shared->top = top_open(server->plan.threads);
	shared->phases = key_phases_open();
	if (!shared->metrics || !shared->top || !shared->phases)
		return error_set(error, WEIR_ENOMEM, "out of memory");
	options = (struct weir_table_options){
	    .capacity = server->plan.capacity,
	    .path = *server->plan.path ? server->plan.path : NULL,
	    .owner = server->plan.owner,
	    .group = server->plan.group,
	};
	status = weir_table_open(&options, &shared->table, error);
	if (status == WEIR_OK)
		status = reports_open(&shared->reports, shared->table);
	if (status == WEIR_OK)
		status = open_main_store(server, error);
	if (status == WEIR_OK)
		status = compile_config(server, server->config, NULL, error);
	if (status == WEIR_OK)
		status = open_workers(server, error);
	if (status == WEIR_OK)
		events_wake(shared->events, wake_all, server);
	return status;
}

static void close_server(struct server *server)
{
	events_wake(server->shared.events, NULL, NULL);
	logins_close(&server->shared.logins);
	for (size_t i = 0; i < server->worker_count; i++)
		worker_close(&server->workers[i]);
	free(server->workers);
	fleets_close(&server->shared.fleets);
	reports_close(&server->shared.reports);
	server_config_drop(server->config);
	stores_close(&server->shared.stores);
	weir_table_close(server->shared.table);
	metrics_close(server->shared.metrics);
	top_close(server->shared.top);
	key_phases_close(server->shared.phases);
	forced_keys_close(&server->shared.forced);
	switches_close(&server->shared.switches);
	file_watch_close(&server->watch);
	log_close(server->shared.log);
	events_close(server->shared.events);
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

/* Warns of likely mistakes about stores, certificates and users. */
static void say_advice(struct server *server)
{
	const struct server_config *config = server->config;

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

/* Reads the files; `event` is what errors prevent, and `error` has no message if it is told. */
static int read_files(struct server *server, const char *event, struct server_config **out,
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

static void warn_of_exposure(const struct server *server)
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
		status = compile_config(server, config, server->config, error);
	for (size_t i = 0; status == WEIR_OK && i < server->worker_count; i++)
		if (worker_reach(&server->workers[i]) != WEIR_OK)
			status = error_set(error, WEIR_ENOMEM, "out of memory");
	if (status != WEIR_OK)
		return status;
	say_what_needs_a_restart(server, config->rules, &wanted);
	server->plan.sync_ns = wanted.sync_ns;
	server_config_succeed(&server->config, config);
	if (is_opened)
		warn_of_exposure(server);
	apply_connections(server);
	wake_all(server);
	waitlist_wake_all(&shared->table->waiting); /* what they wait for may be granted now */
	return WEIR_OK;
}

static void reload_files(struct server *server)
{
	struct log *log = server->shared.log;
	struct server_config *config;
	struct weir_error error = {0};
	int status = read_files(server, "reload_failed", &config, &error);

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
	say_room(server);
	say_advice(server);
}

static void reload(struct server *server)
{
	notify_reloading();
	if (server->settings.file_count > 0)
		reload_files(server);
	else
		log_say(server->shared.log, LOG_WARNING, "reload_failed",
		        {"message", "nothing to reload: started without a file"});
	notify("READY=1");
}

static void sync_table(struct server *server)
{
	struct worker_shared *shared = &server->shared;

	if (weir_table_sync(shared->table) != WEIR_OK)
		log_say(shared->log, LOG_ERROR, "sync_failed", {"file", server->plan.path});
}

/* Switches end by the wall clock, which may be set meanwhile. */
static uint64_t end_switches(struct server *server)
{
	uint64_t now_ns = os_wall_ns();
	uint64_t left_ns = u64_min(switches_end(&server->shared.switches, server->config, now_ns),
	                           forced_keys_end(&server->shared.forced, server->config, now_ns));

	return left_ns == UINT64_MAX ? left_ns : u64_min(left_ns, NS_PER_S);
}

/* How long nothing is to be done but to wait for a signal or a change; -1: for ever. */
static int wait_ms(struct server *server, uint64_t synced_ns)
{
	uint64_t now_ns = os_monotonic_ns();
	uint64_t left_ns = u64_min(file_watch_wait_ns(&server->watch, now_ns), end_switches(server));
	uint64_t interval_ns = server->plan.sync_ns; /* which a reload may change */

	if (interval_ns != 0)
		left_ns = u64_min(left_ns, sat_sub(synced_ns + interval_ns, now_ns));
	return left_ns == UINT64_MAX ? -1 : (int)u64_min(ceil_div(left_ns, NS_PER_MS), INT_MAX);
}

/*
 * Until it is told to stop: returns the signal. Syncs are made here, and files are read, by the
 * thread that decides nothing: a disk may take seconds.
 */
static int wait_for_signals(struct server *server, const sigset_t *signals)
{
	static const struct timespec at_once = {0};
	uint64_t synced_ns = os_monotonic_ns();
	int wake = signalfd(-1, signals, SFD_CLOEXEC | SFD_NONBLOCK), caught = 0;

	while (caught != SIGTERM && caught != SIGINT) {
		struct pollfd polled[] = {{wake, POLLIN, 0},
		                          {server->watch.fd, POLLIN, 0},
		                          {server->shared.switches.fd, POLLIN, 0}};

		/* Without a descriptor for signals they are looked for in between. */
		poll(polled, sizeof polled / sizeof *polled,
		     wake < 0 ? WAIT_MS : wait_ms(server, synced_ns));
		caught = sigtimedwait(signals, NULL, &at_once);
		file_watch_look(&server->watch, os_monotonic_ns());
		if (caught == SIGHUP || file_watch_wait_ns(&server->watch, os_monotonic_ns()) == 0)
			reload(server);
		if (server->plan.sync_ns != 0 && os_monotonic_ns() >= synced_ns + server->plan.sync_ns) {
			sync_table(server);
			synced_ns = os_monotonic_ns();
		}
	}
	if (wake >= 0)
		close(wake);
	return caught;
}

static void say_started(struct server *server)
{
	log_say(server->shared.log, LOG_INFO, "started", {"version", weir_version()},
	        {"file", server->files}, {"limits", .number = server->config->rules->limit_count},
	        {"rules", .number = server->config->rules->rule_count},
	        {"threads", .number = server->worker_count},
	        {"capacity", .number = engine_capacity(server->shared.table)});
	say_room(server);
	say_advice(server);
}

/* Whatever the format of the log: those who start a server wait for these lines. */
static int serve(struct server *server, struct weir_error *error)
{
	const struct weir_config *rules = server->config->rules;
	struct listener *listeners = server->listeners;
	size_t count;
	int status = WEIR_OK, caught;
	sigset_t signals;

	sigemptyset(&signals);
	sigaddset(&signals, SIGHUP);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	pthread_sigmask(SIG_BLOCK, &signals, NULL);
	signal(SIGPIPE, SIG_IGN);
	count = server->listener_count =
	    listeners_name(listeners, &server->settings, &server->plan, rules);
	server->shared.has_admin = count > LISTENER_ADMIN;
	for (size_t i = 0; status == WEIR_OK && i < count; i++)
		status = listener_open(&listeners[i], server->workers, server->worker_count, error);
	if (status == WEIR_OK)
		warn_of_exposure(server);
	for (size_t i = 0; status == WEIR_OK && i < server->worker_count; i++) {
		status = worker_start(&server->workers[i]);
		if (status != WEIR_OK)
			error_set(error, status, "can't start thread %zu", i + 1);
	}
	if (status == WEIR_OK)
		say_started(server);
	for (size_t i = 0; status == WEIR_OK && i < count; i++)
		listener_say(&listeners[i], server->shared.log);
	if (status == WEIR_OK) {
		notify("READY=1");
		caught = wait_for_signals(server, &signals);
		notify("STOPPING=1");
		log_say(server->shared.log, LOG_INFO, "stopping",
		        {"signal", caught == SIGTERM ? "SIGTERM" : "SIGINT"});
	}
	for (size_t i = 0; i < count; i++)
		listener_remove(&listeners[i]);
	atomic_store_explicit(&server->shared.stopping, true, memory_order_relaxed);
	for (size_t i = 0; i < server->worker_count; i++)
		net_loop_stop(server->workers[i].loop);
	for (size_t i = 0; i < server->worker_count; i++)
		worker_join(&server->workers[i]);
	sync_table(server);
	return status;
}

int server_run(const struct settings *flags)
{
	struct server server = {.settings = *flags, .watch.fd = -1, .shared.switches.fd = -1};
	struct weir_error error = {0};
	enum log_format format;
	int status;

	settings_add_environment(&server.settings, getenv);
	settings_names(&server.settings, server.files);
	status = settings_log_format(&server.settings, &format, &error);
	server.shared.log = log_open(format, STDERR_FILENO);
	if (!server.shared.log) {
		fputs("weir: out of memory\n", stderr);
		return 1;
	}
	server.shared.events = events_open();
	if (!server.shared.events) {
		log_close(server.shared.log);
		fputs("weir: out of memory\n", stderr);
		return 1;
	}
	log_listen(server.shared.log, hear, server.shared.events);
	if (server.settings.file_count > 0 && !file_watch_open(&server.watch))
		log_say(server.shared.log, LOG_WARNING, "not_watched", {"file", server.files});
	if (status == WEIR_OK)
		status = read_files(&server, "start_failed", &server.config, &error);
	if (status == WEIR_OK)
		status = open_server(&server, &error);
	if (status == WEIR_OK)
		status = serve(&server, &error);
	if (status == WEIR_OK)
		log_say(server.shared.log, LOG_INFO, "stopped");
	else if (*error.message)
		log_error(server.shared.log, "start_failed",
		          server.config ? server.config->rules->file : NULL, &error);
	close_server(&server);
	return status == WEIR_OK ? 0 : 1;
}
