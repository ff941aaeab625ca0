/*
 * handle.c: prepares, decides and answers requests of every kind. A table has the functions of each
 * kind: one prepares a request when it is read, one decides it later together with others.
 *
 * A work is a request that is being processed. Its plan has a step for each limit that it uses; its
 * core is what every answer needs of the request. The decider has configuration, time and memory.
 */
#include "server/requests/handle.h"

#include <string.h>

#include "base/prng.h"
#include "base/error.h"
#include "rules/model.h"
#include "server/access/client_attributes.h"
#include "server/access/client_login.h"
#include "server/access/permissions.h"
#include "server/admin/decisions.h"
#include "server/admin/page.h"
#include "server/requests/reset_log.h"
#include "server/admin/shown_keys.h"
#include "server/dashboard/dashboard.h"
#include "server/history/history_answer.h"
#include "server/requests/adhoc_key.h"
#include "server/requests/split_batch.h"
#include "server/requests/per_rule.h"
#include "server/denials/denial_attributes.h"
#include "server/denials/denial_list.h"
#include "server/requests/koala.h"
#include "server/requests/operator_requests.h"
#include "server/requests/request_permit.h"
#include "server/requests/run_plan.h"
#include "server/requests/work_error.h"
#include "server/waiting/item_order.h"
#include "server/waiting/rollback.h"

static void prepare_request(struct decider *decider, struct work *work, const struct request *r,
                            const struct request_origin *origin);

/* A REQUEST_LOCAL has no status of the server: its codec has the answer, which may be an error. */
static void set_reply_status(const struct work *work, struct reply *reply)
{
	reply->status = work->kind == REQUEST_LOCAL ? WEIR_OK : work->status;
	reply->message = reply->status != WEIR_OK ? work->message : NULL;
}

/* Durations in an answer count from the time when it is given, `wait_ns` after the decision. */
static void count_reset_from_answer(struct weir_decision *d, uint64_t wait_ns)
{
	d->reset_after_ns = sat_sub(d->reset_after_ns, wait_ns);
}

/* Spreads the retries of clients that are denied together. */
static void add_jitter(const struct decider *decider, struct weir_decision *d)
{
	double jitter = decider->config->rules->retry_jitter;

	if (!d->allowed && jitter > 0)
		d->retry_after_ns = sat_add(
		    d->retry_after_ns, (uint64_t)(jitter * prng_fraction() * (double)d->retry_after_ns));
}

/* Runs the plan. If it is decided, completes the reply: its permit, its delay, its retry time. */
static void finish_decision(struct decider *decider, struct work *work, struct reply *reply)
{
	struct weir_decision *d = &reply->decision;

	if (work->status == WEIR_OK && work->plan.op == ALGO_RESET)
		shown_keys_check_reset(decider, work);
	if (work->status != WEIR_OK || !run_plan(decider, work, reply, engine_run))
		return;
	if (work->plan.permit.id != 0) {
		if (permit_write_reply(decider, &work->plan, reply) != WEIR_OK) {
			rollback_out_of_memory(decider, work);
			return;
		}
		if (work->from_proxy && reply->permit.len > 0) /* most proxies can't report by a permit */
			permit_withhold(decider, &work->plan, reply);
	}
	if (work->plan.op == ALGO_RESET)
		reset_log_keys(decider, work);
	if (!algo_op_consumes(work->plan.op))
		return;
	denial_list_explain(decider, &work->plan, reply);
	if (d->wait_ns > 0 && work->plan.cost > 0) { /* a cost of 0 only asks how long to wait */
		reply->wait_ns = d->wait_ns;
		count_reset_from_answer(d, d->wait_ns);
	}
	add_jitter(decider, d);
}

/* A denied plan may have steps at a store still, of shadow rules: the work is unfinished then. */
void handle_deny(struct decider *decider, struct work *work, enum weir_reason reason,
                 struct reply *reply)
{
	reply->is_unfinished = decider_count_submission(
	    decider, engine_deny(&decider->context, &work->plan, reason, &reply->decision));
	reply->must_wait = false;
	if (reply->is_unfinished)
		return;
	add_jitter(decider, &reply->decision);
	denial_list_explain(decider, &work->plan, reply);
	if (work->kind == REQUEST_BROWSE)
		koala_answer_browse(decider, &work->plan, reply);
}

/*
 * Prepares the permit of a request. A refund or a report names the permit that it ends. Any other
 * request gets one, if it or a limit wants that.
 */
static void prepare_permit(struct decider *decider, struct work *work, const struct request *r)
{
	bool names_permit = r->permit.data != NULL;
	struct weir_error error;
	int status = names_permit ? permit_prepare(decider, r, &work->plan, &error)
	                          : permit_request(r->wants_permit, &work->plan, &error);

	if (status == WEIR_OK && r->kind == REQUEST_REPORT) {
		work->plan.outcome = r->outcome & 3; /* as wide as the field */
		work->plan.latency_ns = sat_u64((u128)r->latency_ms * NS_PER_MS);
	}
	/* first, because other errors would disclose a limit that the sender may not use */
	if (names_permit && !permissions_check_steps(decider, work))
		return;
	if (status != WEIR_OK)
		work_fail(decider, work, status, slice_of(error.message));
}

static struct algo_call call_of_request(const struct request *r)
{
	return (struct algo_call){run_plan_op(r->op), r->cost, .priority = r->priority,
	                          .max_wait_ns = r->wait_ns};
}

static void prepare_limit(struct decider *decider, struct work *work, const struct request *r)
{
	const weir_limit *limit = work_find_limit(decider, work, r->limit);
	struct algo_call call = call_of_request(r);
	int status;

	if (!limit) {
		if (rules_reserved_name(r->limit)) /* a command, whose limits come with its requests */
			adhoc_key_prepare_reserved_name(decider, work, r);
		return;
	}
	if (!work_may_use_limit(decider, work, limit))
		return;
	status = engine_prepare_limit(decider->shared->table, limit, &call, r->key, &work->plan);
	if (__builtin_expect(status == WEIR_ECOST, 0))
		work_fail_cost(decider, work);
	else
		work_set_status(work, status);
	if (work->status == WEIR_OK && r->op == REQUEST_RESET)
		shown_keys_set_reset(decider, work, limit, r->key);
	else if (work->status == WEIR_OK && r->op == REQUEST_PEEK)
		shown_keys_set_peek(decider, work, limit, r->key);
	if (work->status == WEIR_OK)
		prepare_permit(decider, work, r);
}

/*
 * Prepares a request whose limits the rules choose by its attributes. Behind a proxy no key is too
 * long: its parts are headers of the proxy's client, which could pass by a long one otherwise,
 * because many proxies forward a request when Weir answers with an error.
 */
static void prepare_rules(struct decider *decider, struct work *work, const struct request *r)
{
	struct engine_attributes attributes = {
	    .items = r->attributes,
	    .count = r->attribute_count,
	    .key_max = r->from_proxy ? SIZE_MAX : WEIR_KEY_MAX,
	    .permitted = decider_permitted_limits(decider),
	};
	struct algo_call call = call_of_request(r);
	int status;

	if (r->from_proxy && decider->config->rules->auth == RULES_AUTH_NO) { /* `auth: no` */
		permissions_refuse_proxy(decider, work);
		return;
	}
	status =
	    r->from_proxy ? client_attributes_add_ip(decider, work->conn, r, &attributes) : WEIR_OK;
	if (status == WEIR_OK && !r->permit.data) /* a permit lists its limits */
		status = engine_prepare_rules(decider->config->engine, &call, &attributes, &decider->arena,
		                              &work->plan);
	if (status == WEIR_OK && !r->permit.data)
		denial_attributes_set(&work->plan, attributes.items, attributes.count);
	work_set_rules_status(decider, work, status, r);
	if (work->status == WEIR_OK)
		prepare_permit(decider, work, r);
}

static bool is_decided(const struct work *work, const struct reply *reply)
{
	return work->status == WEIR_OK && !reply->must_wait && !reply->is_unfinished;
}

/* The engine counts decisions by limit. Those to which no limit applies are counted here. */
static void finish_rules(struct decider *decider, struct work *work, struct reply *reply)
{
	const struct weir_decision *d = &reply->decision;
	const bool shadow = false;

	finish_decision(decider, work, reply);
	if (is_decided(work, reply) && algo_op_consumes(work->plan.op) && !d->limit)
		decisions_count(decider, decider->config->no_limit_counters_index, shadow, d->allowed,
		                d->reason);
}

static void finish_browse(struct decider *decider, struct work *work, struct reply *reply)
{
	finish_rules(decider, work, reply);
	if (is_decided(work, reply))
		koala_answer_browse(decider, &work->plan, reply);
}

/* Denies a cost that could never pass. The plan peeks, so that the answer has the key's state. */
static void finish_impossible_cost(struct decider *decider, struct work *work, struct reply *reply)
{
	struct weir_decision *d = &reply->decision;

	if (!run_plan(decider, work, reply, engine_decide))
		return;
	work->plan.direct_step.allowed = d->allowed = false;
	work->plan.direct_step.reason = d->reason = WEIR_REASON_OVER_LIMIT;
	decisions_count_step(&decider->self, &work->plan, &work->plan.direct_step);
	denial_list_explain(decider, &work->plan, reply);
}

static void finish_adhoc(struct decider *decider, struct work *work, struct reply *reply)
{
	if (work->status == WEIR_ECOST)
		finish_impossible_cost(decider, work, reply);
	else
		finish_decision(decider, work, reply);
}

static void prepare_nothing(struct decider *decider, struct work *work, const struct request *r)
{
	(void)decider;
	(void)work;
	(void)r;
}

static void finish_nothing(struct decider *decider, struct work *work, struct reply *reply)
{
	(void)decider;
	(void)work;
	(void)reply;
}

/* A server that begins to stop is healthy and not ready: load balancers send no new requests then.
 */
static void finish_health(struct decider *decider, struct work *work, struct reply *reply)
{
	bool is_stopping = atomic_load_explicit(&decider->shared->stopping, memory_order_relaxed);

	reply->ready = work->kind == REQUEST_HEALTH || !is_stopping;
}

/*
 * Prepares the next items of a batch, up to the units of work (engine_work) of one iteration. A
 * batch among the items is prepared as a whole.
 */
static void prepare_items(struct decider *decider, const struct work *work, struct batch *batch)
{
	const struct request *r = &batch->request;
	size_t units_max = decider->batch_slice;

	decider->batch_slice = SIZE_MAX; /* for batches among the items */
	for (batch->unit_count = 0; batch->begun_count < r->item_count && batch->unit_count < units_max;
	     batch->begun_count++) {
		struct work *item = &batch->items[batch->begun_count];

		item->conn = work->conn;
		prepare_request(decider, item, &r->items[batch->begun_count], r->origin);
		batch->unit_count += work_units(item);
	}
	decider->batch_slice = units_max;
}

/* Prepares the items of a batch: all of them, or as many as one iteration runs. */
static void prepare_batch(struct decider *decider, struct work *work, const struct request *r)
{
	size_t n = r->item_count;
	struct batch *batch =
	    n < SIZE_MAX / sizeof *batch->items
	        ? arena_alloc(&decider->arena, sizeof *batch + n * sizeof *batch->items)
	        : NULL;

	if (!batch) {
		work_set_status(work, WEIR_ENOMEM);
		return;
	}
	batch->request = *r;
	batch->user = decider->user;
	work->full_request = &batch->request;
	prepare_items(decider, work, batch);
	batch->is_split = batch->begun_count < n;
}

/* An item may wait for the time at which it starts, but not in the queue of a key. */
static void deny_item_in_queue(struct decider *decider, struct work *item, struct reply *reply)
{
	const struct weir_decision *d = &reply->decision;

	if (reply->must_wait)
		handle_deny(decider, item, d->allowed ? WEIR_REASON_OVER_LIMIT : d->reason, reply);
}

static void finish_item(struct decider *decider, struct work *item, struct reply *reply)
{
	handle_decide(decider, item, reply);
	deny_item_in_queue(decider, item, reply);
	if (!reply->is_unfinished)
		set_reply_status(item, reply);
}

/*
 * Begins the next items of a batch whose earlier items are all decided. They have the sender of the
 * batch. Their plans are made in plan_arena, the memory of this iteration: split_batch_copy_item
 * copies what may outlive it to the memory of the batch, which is decider->arena here.
 */
static void begin_next_items(struct decider *decider, struct work *work, struct batch *batch)
{
	struct arena batch_arena = decider->arena;
	const struct user *user = decider->user;
	size_t first = batch->begun_count;

	decider->login_error.status = WEIR_OK; /* the login was right when the batch began */
	decider->user = batch->user;
	decider->arena = decider->plan_arena;
	prepare_items(decider, work, batch);
	decider->plan_arena = decider->arena;
	decider->arena = batch_arena;
	decider->user = user;
	net_loop_charge(decider->loop, batch->unit_count * BATCH_UNIT_BYTES); /* as if it were input */
	for (size_t i = first; i < batch->begun_count; i++)
		split_batch_copy_item(decider, &batch->items[i]);
	handle_prefetch_cells(decider->shared->table, batch->items + first, batch->begun_count - first);
	handle_locate_cells(&decider->context, batch->items + first, batch->begun_count - first);
}

/*
 * Runs the items that have begun and are not finished, in an order that keeps that of items with
 * the same key. The batch's reply waits for the last of them.
 */
static void run_items(struct decider *decider, struct batch *batch, struct reply *reply)
{
	struct item_order unfinished = ITEM_ORDER_NONE;
	struct reply *replies = batch->replies;
	size_t n = batch->begun_count;

	for (size_t i = 0; i < n; i++) {
		if (replies[i].is_unfinished &&
		    !item_order_waits(decider->shared->table, &unfinished, batch->items, i))
			finish_item(decider, &batch->items[i], &replies[i]);
		if (replies[i].is_unfinished)
			item_order_add(decider->shared->table, &unfinished, batch->items, i);
		reply->is_unfinished |= replies[i].is_unfinished;
		reply->wait_ns = u64_max(reply->wait_ns, replies[i].wait_ns);
	}
	item_order_free(&unfinished);
}

/* Runs the items of a batch, or those of this iteration if it is split. */
static void finish_batch(struct decider *decider, struct work *work, struct reply *reply)
{
	struct batch *batch = (struct batch *)work->full_request;
	struct reply *replies;
	size_t n;

	if (work->status != WEIR_OK)
		return;
	replies = split_batch_replies(decider, batch);
	if (!replies) {
		work_set_status(work, WEIR_ENOMEM);
		return;
	}
	n = batch->request.item_count;
	if (batch->is_split) { /* it takes several iterations */
		split_batch_advance_time(decider, batch);
		if (split_batch_has_decided_all_begun(batch) && batch->begun_count < n)
			begin_next_items(decider, work, batch);
	}
	run_items(decider, batch, reply);
	if (batch->is_split) {
		split_batch_drop_plans(decider, batch);
		reply->is_unfinished |= batch->begun_count < n; /* continues in another iteration */
	}
	if (reply->is_unfinished)
		return;
	/* the batch is answered when the last of its items may start */
	for (size_t i = 0; i < n; i++)
		count_reset_from_answer(&replies[i].decision, reply->wait_ns - replies[i].wait_ns);
	reply->items = replies;
}

/* The request is suspended until the reload is done (server/waiting/reload_wait.c). */
static void finish_reload(struct decider *decider, struct work *work, struct reply *reply)
{
	(void)decider;
	reply->must_wait = work->status == WEIR_OK;
}

static const struct {
	void (*prepare)(struct decider *decider, struct work *work, const struct request *request);
	void (*finish)(struct decider *decider, struct work *work, struct reply *reply);
} handlers[REQUEST_KIND_COUNT] = {
    [REQUEST_LIMIT] = {prepare_limit, finish_decision},
    [REQUEST_RULES] = {prepare_rules, finish_rules},
    [REQUEST_ADHOC] = {adhoc_key_prepare_command, finish_adhoc},
    [REQUEST_LOCAL] = {prepare_nothing, finish_nothing},
    [REQUEST_INTERIM] = {prepare_nothing, finish_nothing},
    [REQUEST_HEALTH] = {prepare_nothing, finish_health},
    [REQUEST_READY] = {prepare_nothing, finish_health},
    [REQUEST_METRICS] = {prepare_nothing, page_finish},
    [REQUEST_LIMITS] = {prepare_nothing, page_finish},
    [REQUEST_TOP] = {prepare_nothing, page_finish},
    [REQUEST_STATUS] = {prepare_nothing, page_finish},
    [REQUEST_POLICY] = {prepare_nothing, page_finish},
    [REQUEST_COUNTERS] = {prepare_nothing, page_finish},
    [REQUEST_DENIALS] = {prepare_nothing, denial_list_finish},
    [REQUEST_DIGEST] = {prepare_nothing, denial_list_finish_digest},
    [REQUEST_STATS] = {prepare_nothing, history_answer_finish},
    [REQUEST_DASHBOARD] = {prepare_nothing, dashboard_finish},
    [REQUEST_EVENTS] = {operator_prepare_events, operator_follow_events},
    [REQUEST_SHED] = {operator_prepare, operator_shed},
    [REQUEST_FORCE] = {operator_prepare, operator_force},
    [REQUEST_REPORT] = {prepare_permit, permit_finish_report},
    [REQUEST_KEY] = {adhoc_key_prepare, adhoc_key_finish},
    [REQUEST_BATCH] = {prepare_batch, finish_batch},
    [REQUEST_BROWSE] = {prepare_rules, finish_browse},
    [REQUEST_EACH_LIMIT] = {per_rule_prepare_each_limit, per_rule_finish_each_limit},
    [REQUEST_BROWSE_ALL] = {per_rule_prepare_browse_all, per_rule_finish_browse_all},
    [REQUEST_VALUE] = {per_rule_prepare_value, per_rule_finish_value},
    [REQUEST_ALIVE] = {per_rule_prepare_alive, per_rule_finish_alive},
    [REQUEST_LOGIN] = {client_login_prepare, finish_nothing},
    [REQUEST_RELOAD] = {prepare_nothing, finish_reload},
};

/* The fields of a plan that are read even if a request has none. */
static inline void clear_plan(struct work *work)
{
	work->full_request = NULL;
	work->plan.step_count = 0;
	work->plan.op = ALGO_PEEK;
	work->plan.stage = PLAN_PREPARED;
}

void handle_drop(struct work *work)
{
	work->kind = REQUEST_INTERIM;
	work->status = WEIR_OK;
	clear_plan(work);
}

/*
 * Prepares a request or an item of a batch, if its sender may make it. The work keeps all of the
 * request only if its answer needs more than the core.
 */
static void prepare_request(struct decider *decider, struct work *work, const struct request *r,
                            const struct request_origin *origin)
{
	work->core = r->core;
	clear_plan(work);
	if (r->kind ==
	    REQUEST_LOCAL) /* it has the answer, which is given even without the permission */
		work->full_request = r;
	if (permissions_need_no_check(decider, r->class, origin) ||
	    permissions_check(decider, work, r, origin))
		handlers[r->kind].prepare(decider, work, r);
	if (__builtin_expect(decider->user != NULL, 0))
		work->plan.sender = users_number(decider->config->users, decider->user);
	else
		work->plan.sender = 0;
	if (work->status == WEIR_OK && !work->full_request && !(1u << work->kind & REQUEST_CORE_KINDS))
		work->full_request = r;
}

void handle_prepare(struct decider *decider, struct work *work, const struct request *request)
{
	prepare_request(decider, work, request, request->origin);
}

bool handle_may_wait(const struct work *work)
{
	size_t n;
	const struct work *items = items_of(work, &n);

	if (work->status != WEIR_OK)
		return false;
	for (size_t i = 0; i < n; i++)
		if (handle_may_wait(&items[i]))
			return true;
	return engine_may_wait(&work->plan);
}

/* A cell is the memory of a key in the table. Plans at remote stores have none. */
void handle_prefetch_cells(const struct weir_table *table, const struct work *works, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		size_t item_count;
		const struct work *items = items_of(&works[i], &item_count);

		if (!engine_is_remote(&works[i].plan))
			engine_fetch(table, &works[i].plan);
		if (item_count > 0)
			handle_prefetch_cells(table, items, item_count);
	}
}

void handle_locate_cells(const struct decision_context *context, struct work *works, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		size_t item_count;
		struct work *items = items_of(&works[i], &item_count);

		if (!engine_is_remote(&works[i].plan))
			engine_locate(context, &works[i].plan);
		if (item_count > 0)
			handle_locate_cells(context, items, item_count);
	}
}

/* Returns the error that metrics count, or 0. An impossible cost of an ad hoc limit is a denial. */
static int counted_error(const struct work *work)
{
	return work->kind == REQUEST_ADHOC && work->status == WEIR_ECOST ? WEIR_OK : work->status;
}

/*
 * Called again for a work that has waited: its handler resumes the plan. Handlers also get works
 * with an error, since finish_adhoc makes a denial of one, but not those refused by work_reject.
 */
void handle_decide(struct decider *decider, struct work *work, struct reply *reply)
{
	int error;

	reply->permit = (struct slice){NULL, 0};
	reply->must_wait = reply->is_unfinished = reply->explains_denial = false;
	reply->denial_id = NULL;
	reply->wait_ns = 0;
	if (!work->refused)
		handlers[work->kind].finish(decider, work, reply);
	if (__builtin_expect(reply->is_unfinished, 0)) /* called again after the store's answer */
		return;
	if (__builtin_expect(work->status == WEIR_OK, 1))
		return;
	error = counted_error(work);
	if (error != WEIR_OK)
		metrics_add(&decider->metrics->errors[protocol_of(work->conn)->metric][-error], 1);
}

/* Fails a request that names its limit, if that is gone. */
void handle_move_waiting(struct decider *decider, struct work *work,
                         const struct server_config *config)
{
	struct weir_error error;

	if (!engine_move_waiting(&work->plan, config->engine))
		work_fail_name(decider, work, WEIR_ENOTFOUND, "the name of a limit",
		               slice_of(work->plan.direct_step.limit->name));
	else if (work->kind != REQUEST_BROWSE && /* Koala knows no permits */
	         permit_request(work->plan.wants_permit, &work->plan, &error) != WEIR_OK)
		work_fail(decider, work, WEIR_ELONG, slice_of(error.message));
}

/*
 * The codec gets all of the request if the work has it, otherwise a request with the core alone: a
 * failed work has its message in place of the request, except for a REQUEST_LOCAL.
 */
void handle_render_reply(struct decider *decider, const struct work *work, struct reply *reply,
                         struct buffer *out)
{
	const struct net_conn *conn = work->conn;
	bool is_local = work->kind == REQUEST_LOCAL;
	const struct request *request = &decider->blank_request;

	set_reply_status(work, reply);
	if (is_local || (work->status == WEIR_OK && work->full_request))
		request = work->full_request;
	else
		decider->blank_request.core = work->core;
	protocol_of(conn)->codec->reply(client_of(work->conn)->session, request, reply, out);
}
