#include "server/loop/worker.h"

#include <stdlib.h>
#include <string.h>

#include "engine/pipeline.h"
#include "rules/model.h"
#include "server/access/login.h"
#include "server/access/rights.h"
#include "server/admin/count.h"
#include "server/admin/page.h"
#include "server/admin/stream.h"
#include "server/loop/secure.h"
#include "server/requests/handle.h"
#include "server/requests/run.h"
#include "server/stores/fleet.h"
#include "server/stores/reports.h"
#include "server/waiting/crowd.h"
#include "server/waiting/hold.h"
#include "server/waiting/later.h"
#include "server/waiting/order.h"
#include "server/waiting/park.h"
#include "server/waiting/queue.h"

/* About what a reply takes, or an error, beyond request.reply_size. */
#define REPLY_SIZE 256

const struct worker_protocol worker_http = {&http_codec, METRICS_HTTP};
const struct worker_protocol worker_resp = {&resp_codec, METRICS_RESP};
const struct worker_protocol worker_admin = {&http_codec, METRICS_HTTP, .is_admin = true};

/* Nothing refers to the batch's memory any more. */
static void reset(struct worker *worker)
{
	arena_reset(&worker->arena);
	worker->parsing = &worker->parsed;
}

/*
 * Hands over the answers, with one write for each connection. Not while the batch is decided:
 * each write would drive the code that decides out of the first cache.
 */
static void hand_over(struct worker *worker)
{
	size_t from = 0;

	for (size_t i = 0; i < worker->count; i++) {
		struct net_conn *conn = worker->batch[i].conn;
		size_t end = worker->batch[i].end;

		if (i + 1 < worker->count && worker->batch[i + 1].conn == conn)
			continue;
		hold_send(conn, (struct slice){worker->out.data + from, end - from});
		from = end;
	}
	net_loop_flush(worker->loop);
	worker->out.len = 0;
	if (worker->out.capacity > WORKER_OUT_KEEP)
		buffer_free(&worker->out);
}

static void fetch(void *context, size_t start, size_t end)
{
	const struct worker *worker = context;

	handle_fetch(worker->shared->table, worker->batch + start, end - start);
}

static void locate(void *context, size_t start, size_t end)
{
	const struct worker *worker = context;

	handle_locate(&worker->turn, worker->batch + start, end - start);
}

static bool must_park(const struct worker *worker, const struct work *work)
{
	return work_split(work) || (worker->config->stores != 0 &&
	                            (park_is_needed(work) || order_is_behind(worker, work)));
}

static void decide(void *context, size_t start, size_t end)
{
	struct worker *worker = context;
	bool may_park = worker->config->stores != 0 || worker->splits;
	struct reply reply;

	for (size_t i = start; i < end; i++) {
		struct work *work = &worker->batch[i];

		client_of(work->conn)->coming = 0;
		if (__builtin_expect(may_park, 0) && must_park(worker, work)) {
			later_run(worker, work);
		} else {
			handle_finish(worker, work, &reply);
			if (!reply.waits || !later_wait(worker, work, &reply))
				hold_answer(worker, work, &reply);
		}
		work->end = worker->out.len;
	}
}

/* Decides and answers what waits, in the order it came: all of the turn is one block. */
static void answer(struct worker *worker)
{
	struct metrics_loop *metrics = metrics_of(worker);
	uint64_t end_ns;

	if (worker->count == 0) {
		reset(worker);
		return;
	}
	worker->turn.at = clock_moment(engine_clock(worker->shared->table));
	pipeline_run((struct pipeline){worker->count, {fetch, locate, decide}}, worker->count, worker);
	hand_over(worker);
	if (__builtin_expect(worker->beginning > 0, 0))
		stream_begin(worker);
	end_ns = os_monotonic_ns();
	metrics_observe(metrics, METRICS_DURATION, sat_sub(end_ns, worker->start_ns), worker->count);
	metrics_observe(metrics, METRICS_TURN, worker->count, 1);
	worker->start_ns = end_ns;
	worker->count = 0;
	worker->coming = 0;
	worker->splits = false;
	worker->batches++;
	adhoc_end_batch(&worker->adhoc);
	reset(worker);
}

static void on_open(void *context, struct net_conn *conn)
{
	struct worker *worker = context;

	worker->opened++;
	protocol_of(conn)->codec->open(client_of(conn)->session, &worker->limits,
	                               worker->opened * worker->shared->threads + worker->index);
}

static void begin_turn(struct worker *worker)
{
	if (worker->in_turn)
		return;
	worker->in_turn = true;
	run_advance(worker);
	reports_begin(worker);
	worker->start_ns = os_monotonic_ns();
}

/* The rest of a connection's bytes, and of its share of the turn in requests. */
struct feed {
	struct net_conn *conn;
	const struct worker_protocol *protocol;
	struct client *client;
	struct slice rest;
	size_t share;
	bool reserved; /* the connection is one too many */
};

static void consume(struct feed *feed, size_t bytes, size_t requests)
{
	feed->rest = (struct slice){feed->rest.data + bytes, feed->rest.len - bytes};
	feed->share = sat_sub(feed->share, requests);
}

/* As how many more requests it counts. */
static inline size_t dear_as(const struct request *request)
{
	return u64_max(request->item_count, request->reply_size / REPLY_SIZE);
}

/* NULL: nobody's. */
static struct slice user_name(const struct worker *worker)
{
	if (!worker->config->users)
		return SLICE("default");
	return worker->user ? slice_of(worker->user->rule->name) : (struct slice){NULL, 0};
}

/* A request of several units of work counts as several requests. */
__attribute__((noinline)) static void charge(struct worker *worker, struct feed *feed,
                                             const struct work *work)
{
	size_t counted = work->kind == REQUEST_BATCH ? work->whole->item_count : 1;
	size_t more = sat_sub(work_units(work), counted);

	feed->share = sat_sub(feed->share, more);
	net_loop_spend(worker->loop, more * WORKER_UNIT_SIZE);
	if (work_split(work))
		later_split(worker, work->conn);
}

/* Adds the request to the batch. False: no more of its connection now. */
static inline bool admit(struct worker *worker, struct request *request, struct feed *feed,
                         size_t page)
{
	struct work *work = &worker->batch[worker->count++];
	struct client *client = feed->client;
	size_t reply = REPLY_SIZE + request->reply_size + page;

	work->conn = feed->conn;
	if (1u << request->kind & (1u << REQUEST_LOCAL | 1u << REQUEST_BATCH))
		request->name = user_name(worker);
	if (request->kind == REQUEST_LOCAL && request->origin && request->origin->foreign)
		rights_log_foreign(worker, work);
	handle_prepare(worker, work, request);
	if (feed->reserved)
		rights_use_reserve(worker, work, request);
	if (__builtin_expect(work_units(work) > 1, 0))
		charge(worker, feed, work);
	if (__builtin_expect(worker->config->stores != 0 || client->has_split, 0) &&
	    (client->has_split || park_is_needed(work)))
		reply += park_size(work);
	else if (work->kind != REQUEST_ADHOC && handle_may_wait(work)) /* those never do */
		reply += HOLD_SIZE;
	client->coming += reply;
	worker->coming += reply;
	if (work->whole == request)
		worker->parsing = arena_alloc(&worker->arena, sizeof *request);
	if (work->close)
		net_conn_finish(work->conn);
	else if (page > 0)
		net_conn_yield(work->conn);
	return !work->close && page == 0 && !client->has_split;
}

static bool drop_from_batch(struct worker *worker, struct net_conn *conn, unsigned stream)
{
	size_t i = client_of(conn)->coming > 0 ? worker->count : 0;

	while (i > 0 && (worker->batch[i - 1].conn != conn || worker->batch[i - 1].stream != stream))
		i--;
	if (i > 0)
		later_drop(worker, &worker->batch[i - 1]);
	return i > 0;
}

/*
 * Ends the requests that the client has cancelled. One that nobody holds was put back for its
 * login. False: there is none.
 */
__attribute__((noinline)) static bool end_cancelled(struct worker *worker, const struct feed *feed)
{
	const struct codec *codec = feed->protocol->codec;
	unsigned stream;
	bool any = false;

	for (; (stream = codec->cancelled(feed->client->session)) != 0; any = true)
		if (!hold_cancel_stream(worker, feed->conn, stream) &&
		    !drop_from_batch(worker, feed->conn, stream))
			login_cancel(feed->conn);
	return any;
}

/* Input that is not taken now may cancel what keeps it from being taken. */
static bool look_ahead(struct worker *worker, const struct feed *feed)
{
	const struct codec *codec = feed->protocol->codec;

	if (feed->rest.len == 0 || !codec->look_ahead)
		return false;
	codec->look_ahead(feed->client->session, feed->rest);
	return end_cancelled(worker, feed);
}

static void put_back(struct feed *feed)
{
	const struct codec *codec = feed->protocol->codec;

	if (codec->put_back)
		codec->put_back(feed->client->session);
}

/* Takes the next request of a connection. False: no more of it now. */
static inline bool take(struct worker *worker, struct feed *feed)
{
	const struct codec *codec = feed->protocol->codec;
	struct request *request = worker->parsing;
	size_t consumed = 0, page = 0;

	if (__builtin_expect(worker->split_count >= CROWD_BATCHES, 0) &&
	    crowd_holds_transaction(worker, feed->conn))
		return false;
	switch (codec->parse(feed->client->session, feed->rest, &consumed, &worker->arena, request)) {
	case CODEC_MORE:
		return false;
	case CODEC_SKIPPED:
		if (codec->cancelled)
			end_cancelled(worker, feed);
		consume(feed, consumed, 1);
		return true;
	case CODEC_REQUEST:
		if (__builtin_expect(request->kind == REQUEST_INTERIM, 0))
			end_cancelled(worker, feed);
		break;
	}
	if (__builtin_expect(worker->config->users != NULL, 0) &&
	    !login_take(worker, feed->conn, request)) {
		put_back(feed);
		return false;
	}
	if (__builtin_expect(request->kind == REQUEST_BATCH, 0) &&
	    crowd_holds_batch(worker, feed->conn, request)) {
		put_back(feed);
		return false;
	}
	if (page_is_asked(request)) {
		page = page_size(worker, request->kind);
		if (net_loop_is_busy(worker->loop)) {
			net_conn_yield(feed->conn);
			put_back(feed);
			return false;
		}
	}
	consume(feed, consumed, 1 + dear_as(request));
	return admit(worker, request, feed, page);
}

/* Whether the batch must be answered before it gets another request of this client. */
static inline bool must_answer(const struct worker *worker, const struct client *client,
                               size_t room)
{
	return client->coming >= room || worker->count == WORKER_BATCH || !worker->parsing ||
	       worker->coming > WORKER_OUT_MAX || worker->arena.used > WORKER_ARENA_MAX;
}

/* Takes what there is, as long as the replies have `room`. False: no more now. */
static bool take_all(struct worker *worker, struct feed *feed, size_t room)
{
	while (feed->rest.len > 0) {
		if (feed->share == 0) {
			net_conn_yield(feed->conn);
			return false;
		}
		if (must_answer(worker, feed->client, room))
			return true;
		if (!take(worker, feed))
			return false;
	}
	return false;
}

/* A transaction is dear, and may end together with many others. */
static bool must_put_off(const struct worker *worker, const struct feed *feed)
{
	const struct codec *codec = feed->protocol->codec;

	return net_loop_is_busy(worker->loop) && codec->queued &&
	       codec->queued(feed->client->session) > WORKER_PUT_OFF;
}

static size_t on_data(void *context, struct net_conn *conn, struct slice bytes)
{
	struct worker *worker = context;
	struct feed feed = {
	    .conn = conn,
	    .protocol = net_conn_tag(conn),
	    .client = net_conn_data(conn),
	    .rest = bytes,
	    .share = net_loop_share(worker->loop, WORKER_SHARE),
	    .reserved = !net_conn_enter(conn),
	};
	size_t room;

	if (must_put_off(worker, &feed)) {
		net_conn_yield(conn);
		return 0;
	}
	begin_turn(worker);
	do {
		while (!feed.client->has_split && (room = crowd_room(worker, conn, feed.rest.len)) > 0 &&
		       take_all(worker, &feed, room))
			answer(worker);
	} while (look_ahead(worker, &feed));
	if (feed.protocol->codec->unfinished)
		net_conn_part(conn, feed.protocol->codec->unfinished(feed.client->session));
	return bytes.len - feed.rest.len;
}

/* The earlier of two times; 0 is never. */
static uint64_t earlier(uint64_t a, uint64_t b)
{
	return u64_min(a - 1, b - 1) + 1;
}

/* Returns when it is to be called again; 0: any time. */
static uint64_t keep_secret(struct worker *worker)
{
	const struct stores *stores = &worker->shared->stores;

	if (__builtin_expect(worker->index > 0 || lanes_count(&worker->lanes) == 0, 1))
		return 0;
	if (!worker->keeper)
		worker->keeper = secret_keeper_open(&worker->shared->secrets, stores, worker->loop);
	return worker->keeper ? secret_keeper_tick(worker->keeper, os_monotonic_ns()) : 0;
}

static void on_turn(void *context)
{
	struct worker *worker = context;
	bool stops = atomic_load_explicit(&worker->shared->stopping, memory_order_relaxed);
	uint64_t due_ns, others_ns;

	lanes_tick(&worker->lanes);
	later_resume_ready(worker);
	login_resume(worker);
	answer(worker);
	later_go_on(worker);
	if (worker->holds.count > 0) {
		begin_turn(worker);
		queue_run(worker);
	}
	if (stops) {
		hold_give_up(worker);
		lanes_stop(&worker->lanes);
	}
	stream_run(worker);
	hold_run(worker);
	others_ns = earlier(fleets_tick(worker), reports_tick(worker));
	lanes_flush(&worker->lanes);
	while (worker->ready.first) {
		later_resume_ready(worker);
		lanes_flush(&worker->lanes);
	}
	/* By now all that waits is there: a store that is away has told at once. */
	due_ns = earlier(hold_due(worker), worker->poll_ns);
	crowd_let_in(worker);
	if (stops)
		net_loop_keep(worker->loop, lanes_steps(&worker->lanes) > 0);
	due_ns = earlier(due_ns, keep_secret(worker));
	due_ns = earlier(due_ns, others_ns);
	net_loop_alarm(worker->loop, earlier(due_ns, lanes_due(&worker->lanes)));
	worker->in_turn = false;
	run_advance(worker); /* a loop with nothing to do lets go of the old one */
	if (worker->was_reloaded)
		hold_end_senders(worker);
	worker->was_reloaded = false;
}

static void on_close(void *context, struct net_conn *conn)
{
	struct worker *worker = context;
	const struct codec *codec = protocol_of(conn)->codec;
	struct client *client = net_conn_data(conn);

	crowd_leave(worker, client);
	login_cancel(conn);
	if (net_conn_error(conn))
		secure_tell(worker, conn);
	if (client->held.first) {
		hold_cancel(worker, conn);
		net_loop_wake(worker->loop); /* a turn sends to stores what goes back */
	}
	if (codec->close)
		codec->close(client->session);
}

static bool on_stop(void *context, struct net_conn *conn)
{
	struct buffer words = {0};
	bool any;

	(void)context;
	protocol_of(conn)->codec->stop(client_of(conn)->session, &words);
	any = words.len > 0;
	if (any)
		buffer_add_slice(net_conn_out(conn), (struct slice){words.data, words.len});
	buffer_free(&words);
	return any;
}

static void on_trouble(void *context, const char *what, const char *why)
{
	struct worker *worker = context;

	log_say(worker->shared->log, LOG_WARNING, "trouble", {"what", what}, {"message", why});
}

static void on_full(void *context, bool full)
{
	struct worker_shared *shared = ((struct worker *)context)->shared;
	size_t open = atomic_load_explicit(&shared->gate.open, memory_order_relaxed);

	if (full)
		log_say(shared->log, LOG_WARNING, "connections_full", {"connections", .number = open});
	else
		log_say(shared->log, LOG_INFO, "connections_free", {"connections", .number = open});
}

static const struct net_owner owner = {on_turn, on_trouble, on_full};

int worker_open(struct worker *worker, struct worker_shared *shared, size_t index,
                struct server_config *config)
{
	struct net_options options = NET_OPTIONS_DEFAULT;
	int status;

	*worker = (struct worker){.shared = shared,
	                          .index = index,
	                          .batches = 1,
	                          .config = server_config_take(config),
	                          .secure = secure_filter(),
	                          .turn = {.table = shared->table,
	                                   .observe = count_step,
	                                   .phased = count_phase,
	                                   .notify = fleets_told,
	                                   .claimed = reports_claimed,
	                                   .context = worker},
	                          .lock = PTHREAD_MUTEX_INITIALIZER};
	worker->stop_ns = options.stop_timeout_ms * NS_PER_MS;
	worker->limits = shared->limits;
	worker->limits.carried = &worker->carried;
	worker->limits.kept = &metrics_loop(shared->metrics, index)->kept;
	worker->parsing = &worker->parsed;
	worker->slice = WORKER_SLICE;
	worker->turn.lanes = worker->lanes.ways;
	worker->turn.spares = &worker->spares;
	adhoc_open(&worker->adhoc);
	options.input_max = shared->limits.header_max + shared->limits.request_max + 1024;
	worker->batch = calloc(WORKER_BATCH, sizeof *worker->batch);
	if (!worker->batch)
		return WEIR_ENOMEM;
	status = net_loop_open(&worker->loop, &options, &owner, worker, &shared->gate);
	if (index == 0)
		shared->fleets.loop = shared->reports.loop = worker->loop;
	return status;
}

int worker_listen(struct worker *worker, const struct worker_protocol *protocol, bool secure,
                  int socket)
{
	struct net_kind kind = {
	    .open = on_open,
	    .data = on_data,
	    .close = on_close,
	    .stop = protocol->codec->stop ? on_stop : NULL,
	    .conn_size = sizeof(struct client) + protocol->codec->session_size,
	    .idle_timeout_ms = &worker->shared->idle_timeout_ms[protocol->metric],
	    .tag = protocol,
	    .filter = secure ? &worker->secure : NULL,
	};

	return net_loop_listen(worker->loop, &(struct net_listener){socket, kind});
}

int worker_reach(struct worker *worker)
{
	int status = lanes_open(&worker->lanes, worker->loop, &worker->shared->stores);

	net_loop_wake(worker->loop);
	return status;
}

static void *run(void *argument)
{
	struct worker *worker = argument;

	net_loop_run(worker->loop);
	return NULL;
}

int worker_start(struct worker *worker)
{
	worker->running = pthread_create(&worker->thread, NULL, run, worker) == 0;
	return worker->running ? WEIR_OK : WEIR_EIO;
}

void worker_join(struct worker *worker)
{
	if (worker->running)
		pthread_join(worker->thread, NULL);
	worker->running = false;
}

void worker_close(struct worker *worker)
{
	if (worker->index == 0)
		worker->shared->fleets.loop = worker->shared->reports.loop = NULL;
	lanes_end(&worker->lanes);
	secret_keeper_end(worker->keeper);
	net_loop_close(worker->loop);
	lanes_close(&worker->lanes);
	secret_keeper_close(worker->keeper);
	later_close(worker);
	login_close(worker);
	submit_free_spares(&worker->spares);
	heap_free(&worker->holds);
	arena_free(&worker->arena);
	arena_free(&worker->plans);
	buffer_free(&worker->out);
	page_free_all(worker);
	free(worker->batch);
	server_config_drop(worker->config);
}
