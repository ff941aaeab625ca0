/*
 * server.c: starts `weir serve`: opens its parts in order, runs them until a signal ends the
 * server, and closes them. Meanwhile its thread reloads the configuration and writes the table to
 * disk.
 */
#include "server/start/server.h"

#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/error.h"
#include "rules/model.h"
#include "server/config/reload.h"
#include "server/denials/denial_keeper.h"
#include "server/denials/denial_secret.h"
#include "server/start/service_manager.h"
#include "server/stores/quorum_group.h"
#include "server/stores/reports.h"

_Static_assert(LISTENERS <= SERVER_STATUS_LISTENERS, "/v1/status shows all listeners");

#define SIGNAL_POLL_MS 100 /* between two looks for signals, without a descriptor for them */

static struct history_time history_now(void)
{
	return (struct history_time){os_wall_ns(), os_monotonic_ns()};
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
			status = worker_open_store_clients(worker);
		if (status != WEIR_OK)
			return error_set(error, status, "can't start thread %zu: %s", server->worker_count,
			                 weir_strerror(status));
	}
	return WEIR_OK;
}

/*
 * Opens the store of limits that name none. The plan refers to the store's URL, which outlives the
 * configuration.
 */
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

/*
 * Called with each line of the log, which is also an event that clients can follow. Denials have
 * events of their own.
 */
static void record_event(void *context, const char *event, struct slice json)
{
	if (strcmp(event, DENIAL_KEEPER_EVENT) != 0)
		events_add(context, event, json);
}

/* Sets what wakes the loops after an event, or NULL. */
static void wake_for_events(struct server *server, void (*wake)(void *context))
{
	events_wake(server->shared.events, wake, server);
	events_wake(server->shared.denial_events, wake, server);
}

/* Whether the limits of the file count at a Redis, or some of them. */
static bool has_redis(const struct server *server)
{
	const struct weir_config *rules = server->config->rules;

	for (size_t i = 0; i < rules->limit_count; i++)
		if (rules_store(&rules->limits[i], server->plan.redis))
			return true;
	return server->plan.redis != NULL;
}

/*
 * Sets the secret of digests to the table's, or, if that is new at each start and denials are
 * written to files, to the one beside these files. A Redis has another, which this server may
 * remember.
 */
static int choose_digest_secret(struct server *server, struct weir_error *error)
{
	struct worker_shared *shared = &server->shared;
	const struct rules_denials *denials = &server->config->rules->denials;
	struct hash_key secret = *engine_secret(shared->table);
	bool has_files = denials->file && shared->denials;
	int status = WEIR_OK;

	shared->digest_keys.secrets = &shared->permit_secrets;
	if (has_files && !*server->plan.path)
		status = denial_secret_open(denials->file, shared->log, &secret, error);
	digest_keys_set_own(&shared->digest_keys, &secret);
	if (status != WEIR_OK || !has_files)
		return status;
	status = digest_keys_open(&shared->digest_keys, denials->file, has_redis(server), shared->log);
	return status == WEIR_OK ? WEIR_OK : error_set(error, status, "out of memory");
}

/* Reads the files of denials, and opens the newest of them. */
static int open_denial_file(struct server *server, struct weir_error *error)
{
	struct worker_shared *shared = &server->shared;
	const struct rules_denials *denials = &server->config->rules->denials;
	const struct denial_file_options options = {denials->file, denials->rotate, denials->files,
	                                            shared->log};

	if (!denials->file || !shared->denials)
		return WEIR_OK;
	denial_file_read(&options, shared->denials);
	shared->denial_file = denial_file_open(&options);
	return shared->denial_file ? WEIR_OK : error_set(error, WEIR_ENOMEM, "out of memory");
}

/* Opens all parts but the listeners. If it fails, close_server closes what is open. */
static int open_server(struct server *server, struct weir_error *error)
{
	struct worker_shared *shared = &server->shared;
	uint64_t keep_denials = server->config->rules->denials.keep;
	struct weir_table_options options;
	int status = settings_resolve(&server->settings, server->config->rules, &server->plan, error);

	if (status != WEIR_OK)
		return status;
	if (overrides_open(&shared->overrides, shared->log) != WEIR_OK)
		return error_set(error, WEIR_EIO, "out of descriptors");
	if (reload_requests_open(&shared->reload_requests) != WEIR_OK)
		return error_set(error, WEIR_EIO, "out of descriptors");
	forced_keys_open(&shared->forced, &shared->overrides);
	shared->bounds = CODEC_BOUNDS_DEFAULT;
	shared->threads = server->plan.threads;
	reload_apply_connections(server);
	shared->metrics = metrics_open(server->plan.threads);
	shared->top = top_open(server->plan.threads);
	shared->phases = key_phases_open();
	shared->denials = denial_sample_open(keep_denials);
	if (shared->metrics)
		shared->history = history_open(shared->metrics, history_now());
	if (!shared->metrics || !shared->history || !shared->top || !shared->phases ||
	    (keep_denials > 0 && !shared->denials))
		return error_set(error, WEIR_ENOMEM, "out of memory");
	options = (struct weir_table_options){
	    .capacity = server->plan.capacity,
	    .path = *server->plan.path ? server->plan.path : NULL,
	    .owner = server->plan.owner,
	    .group = server->plan.group,
	};
	status = weir_table_open(&options, &shared->table, error);
	if (status == WEIR_OK)
		status = choose_digest_secret(server, error);
	if (status == WEIR_OK)
		status = open_denial_file(server, error);
	if (status == WEIR_OK)
		status = reports_open(&shared->reports, shared->table);
	if (status == WEIR_OK)
		status = open_main_store(server, error);
	if (status == WEIR_OK)
		status = reload_compile(server, server->config, NULL, error);
	if (status == WEIR_OK)
		status = open_workers(server, error);
	if (status == WEIR_OK)
		wake_for_events(server, reload_wake);
	return status;
}

/* Closes the workers first: they use the other parts. */
static void close_server(struct server *server)
{
	wake_for_events(server, NULL);
	login_throttle_close(&server->shared.login_throttle);
	for (size_t i = 0; i < server->worker_count; i++)
		worker_close(&server->workers[i]);
	free(server->workers);
	quorum_groups_close(&server->shared.quorum_groups);
	reports_close(&server->shared.reports);
	server_config_release(server->config);
	stores_close(&server->shared.stores);
	weir_table_close(server->shared.table);
	history_close(server->shared.history);
	metrics_close(server->shared.metrics);
	top_close(server->shared.top);
	key_phases_close(server->shared.phases);
	denial_file_close(server->shared.denial_file);
	denial_sample_close(server->shared.denials);
	digest_keys_close(&server->shared.digest_keys);
	forced_keys_close(&server->shared.forced);
	overrides_close(&server->shared.overrides);
	reload_requests_close(&server->shared.reload_requests);
	file_watch_close(&server->watch);
	log_close(server->shared.log);
	events_close(server->shared.events);
	events_close(server->shared.denial_events);
}

/* Writes the table to its file, if it has one. */
static void sync_table(struct server *server)
{
	struct worker_shared *shared = &server->shared;

	if (weir_table_sync(shared->table) != WEIR_OK)
		log_event(shared->log, LOG_ERROR, "sync_failed", {"file", server->plan.path});
}

/*
 * Ends the overrides of operators whose time is over. Returns for how long nothing more ends, at
 * most 1 s: overrides end by the wall clock, which may be set at any time. UINT64_MAX without
 * overrides.
 */
static uint64_t expire_overrides(struct server *server)
{
	uint64_t now_ns = os_wall_ns();
	uint64_t left_ns = u64_min(overrides_expire(&server->shared.overrides, server->config, now_ns),
	                           forced_keys_expire(&server->shared.forced, server->config, now_ns));

	return left_ns == UINT64_MAX ? left_ns : u64_min(left_ns, NS_PER_S);
}

/* Returns how long the thread can wait for signals and changes, in ms; -1 for ever. */
static int wait_ms(struct server *server, uint64_t synced_ns)
{
	uint64_t now_ns = os_monotonic_ns();
	uint64_t left_ns =
	    u64_min(file_watch_wait_ns(&server->watch, now_ns), expire_overrides(server));

	left_ns = u64_min(left_ns, history_due_ns(os_wall_ns()));
	uint64_t sync_interval_ns = server->plan.sync_ns; /* a reload may change it */

	if (sync_interval_ns != 0)
		left_ns = u64_min(left_ns, sat_sub(synced_ns + sync_interval_ns, now_ns));
	return left_ns == UINT64_MAX ? -1 : (int)u64_min(ceil_div(left_ns, NS_PER_MS), INT_MAX);
}

/*
 * Waits for SIGTERM or SIGINT, and returns which of them ends the server. Until then reloads the
 * configuration after SIGHUP or when its files change, and writes the table to its file: both may
 * take seconds of disk time, and this thread decides no requests.
 */
static int run_until_stop_signal(struct server *server, const sigset_t *signals)
{
	static const struct timespec at_once = {0};
	uint64_t synced_ns = os_monotonic_ns();
	int signal_fd = signalfd(-1, signals, SFD_CLOEXEC | SFD_NONBLOCK), caught = 0;

	while (caught != SIGTERM && caught != SIGINT) {
		struct pollfd polled[] = {{signal_fd, POLLIN, 0},
		                          {server->watch.fd, POLLIN, 0},
		                          {server->shared.overrides.fd, POLLIN, 0},
		                          {server->shared.reload_requests.fd, POLLIN, 0}};
		bool is_asked;

		poll(polled, sizeof polled / sizeof *polled,
		     signal_fd < 0 ? SIGNAL_POLL_MS : wait_ms(server, synced_ns));
		caught = sigtimedwait(signals, NULL, &at_once);
		file_watch_read(&server->watch, os_monotonic_ns());
		is_asked = reload_requests_begin(&server->shared.reload_requests);
		if (caught == SIGHUP || is_asked ||
		    file_watch_wait_ns(&server->watch, os_monotonic_ns()) == 0)
			reload(server);
		if (server->plan.sync_ns != 0 && os_monotonic_ns() >= synced_ns + server->plan.sync_ns) {
			sync_table(server);
			synced_ns = os_monotonic_ns();
		}
		history_count(server->shared.history, history_now());
		digest_keys_remember(&server->shared.digest_keys);
	}
	if (signal_fd >= 0)
		close(signal_fd);
	return caught;
}

static void log_started(struct server *server)
{
	log_event(server->shared.log, LOG_INFO, "started", {"version", weir_version()},
	          {"file", server->files}, {"limits", .number = server->config->rules->limit_count},
	          {"rules", .number = server->config->rules->rule_count},
	          {"threads", .number = server->worker_count},
	          {"capacity", .number = engine_capacity(server->shared.table)});
	reload_log_warnings(server);
}

/* Tells /v1/status what does not change while the server runs. */
static void fill_status(struct server *server)
{
	struct server_status *status = &server->shared.status;

	status->files = server->settings.files;
	status->file_count = server->settings.file_count;
	status->table_path = server->plan.path;
	status->listener_count = server->listener_count;
	for (size_t i = 0; i < server->listener_count; i++)
		status->listeners[i] = (struct server_status_listener){server->listeners[i].name,
		                                                       &server->listeners[i].address,
		                                                       server->listeners[i].uses_tls};
}

/*
 * Opens the listeners, runs the workers until a signal ends the server, and joins them. Returns 0,
 * or the error that kept it from starting. The lines "listening: …" have the same form in both log
 * formats: programs that start a server parse them.
 */
static int serve_until_signal(struct server *server, struct weir_error *error)
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
	    listeners_init(listeners, &server->settings, &server->plan, rules);
	server->shared.has_admin = count > LISTENER_ADMIN;
	for (size_t i = 0; status == WEIR_OK && i < count; i++)
		status = listener_open(&listeners[i], server->workers, server->worker_count, error);
	fill_status(server);
	if (status == WEIR_OK)
		reload_warn_of_exposure(server);
	for (size_t i = 0; status == WEIR_OK && i < server->worker_count; i++) {
		status = worker_start(&server->workers[i]);
		if (status != WEIR_OK)
			error_set(error, status, "can't start thread %zu", i + 1);
	}
	if (status == WEIR_OK)
		log_started(server);
	for (size_t i = 0; status == WEIR_OK && i < count; i++)
		listener_log_address(&listeners[i], server->shared.log);
	if (status == WEIR_OK) {
		service_manager_notify("READY=1");
		caught = run_until_stop_signal(server, &signals);
		service_manager_notify("STOPPING=1");
		log_event(server->shared.log, LOG_INFO, "stopping",
		          {"signal", caught == SIGTERM ? "SIGTERM" : "SIGINT"});
	}
	for (size_t i = 0; i < count; i++)
		listener_remove(&listeners[i]);
	reload_requests_stop(&server->shared.reload_requests);
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
	struct server server = {.settings = *flags,
	                        .watch.fd = -1,
	                        .shared = {.overrides.fd = -1, .reload_requests.fd = -1}};
	struct weir_error error = {0};
	enum log_format format;
	int status;

	server_status_open(&server.shared.status);
	settings_add_environment(&server.settings, getenv);
	settings_format_files(&server.settings, server.files);
	status = settings_log_format(&server.settings, &format, &error);
	server.shared.log = log_open(format, STDERR_FILENO);
	server.shared.events = events_open(EVENTS_OF_LOG);
	server.shared.denial_events = events_open(EVENTS_OF_DENIALS);
	if (!server.shared.log || !server.shared.events || !server.shared.denial_events) {
		log_close(server.shared.log);
		events_close(server.shared.events);
		events_close(server.shared.denial_events);
		fputs("weir: out of memory\n", stderr);
		return 1;
	}
	log_listen(server.shared.log, record_event, server.shared.events);
	if (server.settings.file_count > 0 && !file_watch_open(&server.watch))
		log_event(server.shared.log, LOG_WARNING, "not_watched", {"file", server.files});
	if (status == WEIR_OK)
		status = reload_read(&server, "start_failed", &server.config, &error);
	if (status == WEIR_OK)
		status = open_server(&server, &error);
	if (status == WEIR_OK)
		status = serve_until_signal(&server, &error);
	if (status == WEIR_OK)
		log_event(server.shared.log, LOG_INFO, "stopped");
	else if (*error.message)
		log_error(server.shared.log, "start_failed",
		          server.config ? server.config->rules->file : NULL, &error);
	close_server(&server);
	server_status_close(&server.shared.status);
	return status == WEIR_OK ? 0 : 1;
}
