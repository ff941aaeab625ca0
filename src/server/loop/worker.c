/*
 * worker.c: runs a worker: a thread with an event loop. Defines what it does in each iteration, in
 * which order, and when it has to wake.
 */
#include "server/loop/worker.h"

#include <stdlib.h>

#include "rules/model.h"
#include "server/access/client_login.h"
#include "server/access/permissions.h"
#include "server/admin/decisions.h"
#include "server/admin/page.h"
#include "server/loop/intake.h"
#include "server/requests/split_batch.h"
#include "server/stores/quorum_group.h"
#include "server/stores/reports.h"
#include "server/waiting/key_queue.h"
#include "server/waiting/reload_wait.h"
#include "server/waiting/deferred.h"

const struct worker_protocol worker_http = {&http_codec, METRICS_HTTP};
const struct worker_protocol worker_resp = {&resp_codec, METRICS_RESP};
const struct worker_protocol worker_admin = {&http_codec, METRICS_HTTP, .is_admin = true};

/* Returns the earlier of two times. A time of 0 means never: 0 - 1 is the largest number. */
static uint64_t earlier_ns(uint64_t a_ns, uint64_t b_ns)
{
	return u64_min(a_ns - 1, b_ns - 1) + 1;
}

/*
 * Maintains the secret that signs permits, which all servers of a store share. The first worker
 * does this if there is a store. Returns when to call it again, or 0 for never.
 */
static uint64_t tick_secret_keeper(struct decider *decider, struct secret_keeper **keeper)
{
	struct worker_shared *shared = decider->shared;

	if (__builtin_expect(decider->index > 0 || store_clients_count(decider->store_clients) == 0, 1))
		return 0;
	if (!*keeper)
		*keeper = secret_keeper_open(&shared->permit_secrets, &shared->stores, decider->loop);
	return *keeper ? secret_keeper_tick(*keeper, os_monotonic_ns()) : 0;
}

/* Sets the alarm for the next time at which something is due, by the monotonic clock. */
static void set_next_alarm(struct worker *worker, uint64_t calls_ns)
{
	uint64_t due_ns =
	    earlier_ns(pending_due(&worker->waiting.pending), worker->waiting.queues.next_poll_ns);

	due_ns = earlier_ns(due_ns, calls_ns);
	net_loop_alarm(worker->loop, earlier_ns(due_ns, store_clients_due(&worker->store_clients)));
}

/*
 * Called once in each iteration, after the input of all connections was read. Decides the new
 * requests, resumes those that have waited, sends their steps to stores, and sets the alarm for the
 * next time at which something is due.
 */
static void on_iteration(void *context)
{
	struct worker *worker = context;
	bool is_stopping = atomic_load_explicit(&worker->shared->stopping, memory_order_relaxed);
	uint64_t calls_ns; /* when the next call is due that shares something with other servers */

	store_clients_tick(&worker->store_clients);
	deferred_resume_ready(&worker->waiting);
	client_login_resume(&worker->login_queue);
	intake_answer(worker);
	deferred_continue_batches(&worker->waiting);
	if (worker->waiting.pending.due.count > 0) {
		intake_begin_iteration(worker); /* unless new requests have begun it */
		key_queue_wake_due(&worker->waiting);
		/* A reload wakes works once, so they must not try with the configuration before it. */
		intake_use_newest_config(worker);
	}
	if (is_stopping) {
		pending_abandon_late(&worker->waiting.pending);
		store_clients_stop(&worker->store_clients);
	}
	event_streams_run(&worker->event_streams);
	reload_wait_run(&worker->waiting);
	pending_run(&worker->waiting.pending);
	calls_ns = earlier_ns(quorum_groups_tick(&worker->decider), reports_tick(&worker->decider));
	store_clients_flush(&worker->store_clients);
	/* an unavailable store fails its steps at once, so their works are ready again */
	while (worker->waiting.ready_works.first) {
		deferred_resume_ready(&worker->waiting);
		store_clients_flush(&worker->store_clients);
	}
	admission_admit(&worker->admission);
	if (is_stopping) /* the loop ends when the stores have answered */
		net_loop_delay_end(worker->loop, store_clients_steps(&worker->store_clients) > 0);
	calls_ns = earlier_ns(calls_ns, tick_secret_keeper(&worker->decider, &worker->keeper));
	set_next_alarm(worker, calls_ns); /* no more works begin to wait in this iteration */
	worker->intake.iteration_has_begun = false;
	/* an idle loop must not keep the old configuration in memory */
	decider_use_newest_config(&worker->decider);
	if (worker->decider.config_was_replaced)
		pending_close_removed_senders(&worker->waiting.pending);
	worker->decider.config_was_replaced = false;
}

/* Logs a problem of the loop that an operator should know. */
static void on_warning(void *context, const char *what, const char *why)
{
	struct worker *worker = context;

	log_event(worker->shared->log, LOG_WARNING, "trouble", {"what", what}, {"message", why});
}

/* Called when the limit of connections is reached, and when there is capacity again. */
static void on_full(void *context, bool is_full)
{
	struct worker_shared *shared = ((struct worker *)context)->shared;
	size_t open = atomic_load_explicit(&shared->conn_limit.open_count, memory_order_relaxed);

	if (is_full)
		log_event(shared->log, LOG_WARNING, "connections_full", {"connections", .number = open});
	else
		log_event(shared->log, LOG_INFO, "connections_free", {"connections", .number = open});
}

static const struct net_owner owner = {on_iteration, on_warning, on_full};

/* Sets the parts of a worker, and the pointers between them. */
static void open_parts(struct worker *worker, struct server_config *config)
{
	struct worker_shared *shared = worker->shared;
	struct decider *decider = &worker->decider;

	/* `self` and `owner`: the engine's callbacks find the decider by decider_of(owner) */
	*decider = (struct decider){.shared = shared,
	                            .index = worker->index,
	                            .metrics = metrics_loop(shared->metrics, worker->index),
	                            .store_clients = &worker->store_clients,
	                            .config = server_config_retain(config),
	                            .self = decider,
	                            .context = {.table = shared->table,
	                                        .store_clients = worker->store_clients.by_store,
	                                        .spares = &worker->spares,
	                                        .observe = decisions_count_step,
	                                        .breaker_ran = decisions_count_phase,
	                                        .store_failed = decisions_count_failure,
	                                        .notify = quorum_groups_notify,
	                                        .permit_claimed = reports_forward,
	                                        .plan_ready = deferred_plan_done,
	                                        .owner = &decider->self},
	                            .batch_slice = BATCH_SLICE,
	                            .pages = {.intake_number = 1}}; /* 0 marks a page without text */
	adhoc_open(&decider->adhoc);
	worker->admission.store_clients = &worker->store_clients;
	worker->waiting.decider = worker->waiting.pending.decider = decider;
	worker->waiting.admission = &worker->admission;
	worker->waiting.order.table = shared->table;
	worker->event_streams.pending = &worker->waiting.pending;
	pthread_mutex_init(&worker->waiting.queues.lock, NULL);
	pthread_mutex_init(&worker->login_queue.lock, NULL);
	listener_tls_open(&worker->listener_tls, &decider->config);
}

int worker_open(struct worker *worker, struct worker_shared *shared, size_t index,
                struct server_config *config)
{
	struct net_options options = NET_OPTIONS_DEFAULT;
	int status;

	*worker = (struct worker){.shared = shared, .index = index};
	open_parts(worker, config);
	worker->waiting.pending.stop_timeout_ns = options.stop_timeout_ms * NS_PER_MS;
	options.input_max = shared->bounds.header_max + shared->bounds.request_max + 1024;
	status = intake_open(worker);
	if (status != WEIR_OK)
		return status;
	status = net_loop_open(&worker->loop, &options, &owner, worker, &shared->conn_limit);
	worker->decider.loop = worker->login_queue.loop = worker->loop;
	if (index == 0)
		shared->quorum_groups.loop = shared->reports.loop = worker->loop;
	return status;
}

int worker_listen(struct worker *worker, const struct worker_protocol *protocol, bool secure,
                  int socket)
{
	struct net_listener listener = {socket, intake_callbacks(worker, protocol, secure)};

	return net_loop_listen(worker->loop, &listener);
}

int worker_open_store_clients(struct worker *worker)
{
	int status = store_clients_open(&worker->store_clients, worker->loop, &worker->shared->stores);

	net_loop_wake(worker->loop);
	return status;
}

static void *run_thread(void *argument)
{
	struct worker *worker = argument;

	net_loop_run(worker->loop);
	return NULL;
}

int worker_start(struct worker *worker)
{
	worker->running = pthread_create(&worker->thread, NULL, run_thread, worker) == 0;
	return worker->running ? WEIR_OK : WEIR_EIO;
}

void worker_join(struct worker *worker)
{
	if (worker->running)
		pthread_join(worker->thread, NULL);
	worker->running = false;
}

/*
 * The worker's thread has ended. Ends the steps at stores first, then the loop with all requests of
 * clients.
 */
void worker_close(struct worker *worker)
{
	if (worker->index == 0)
		worker->shared->quorum_groups.loop = worker->shared->reports.loop = NULL;
	store_clients_end(&worker->store_clients);
	secret_keeper_end(worker->keeper);
	net_loop_close(worker->loop);
	store_clients_close(&worker->store_clients);
	secret_keeper_close(worker->keeper);
	deferred_close(&worker->waiting);
	client_login_close(&worker->login_queue);
	submit_free_spares(&worker->spares);
	heap_free(&worker->waiting.pending.due);
	arena_free(&worker->decider.arena);
	arena_free(&worker->decider.plan_arena);
	buffer_free(&worker->waiting.pending.answers);
	page_free_all(&worker->decider.pages);
	free(worker->intake.works);
	server_config_release(worker->decider.config);
}
