/*
 * batch.c: decides many requests in one public call, weir_acquire_batch. If the table counts in
 * this process's memory, the requests go through a pipeline (engine/pipeline.h), so that the waits
 * for memory overlap. If it counts at a remote store, each request is a plan of one step, and the
 * steps of all go to the store together.
 */
#include <stdlib.h>

#include "api/remote.h"
#include "engine/pipeline.h"
#include "engine/plan/apply.h"
#include "engine/table.h"

/*
 * The stages: prefetch the home set of each key (the set of table cells that its hash names),
 * search the home set, search the next set for keys that are not at home, decide. Each block of
 * items is in one stage, so a ring of as many blocks as stages is enough.
 */
#define BLOCK_ITEMS 8
#define STAGES      4

struct item {
	const struct weir_limit *limit;
	uint64_t cost;
	struct weir_decision *decision;
	struct store_key key;
};

struct block {
	size_t count, stray_count;
	struct item items[BLOCK_ITEMS];
	struct item *strays[BLOCK_ITEMS]; /* the items whose keys are not in their home sets */
};

struct batch {
	struct store *store;
	struct weir_request *requests;
	struct weir_decision *decisions;
	struct moment at;
	int first_error;
	struct block ring[STAGES];
};

static inline struct block *block_at(struct batch *batch, size_t start)
{
	return &batch->ring[start / BLOCK_ITEMS % STAGES];
}

/*
 * Checks the requests from `start` up to `end`, and makes an item of each valid one. An invalid
 * request gets its error, and goes through no further stage.
 */
__attribute__((noinline, flatten)) static void fetch_home_sets(void *context, size_t start,
                                                               size_t end)
{
	struct batch *batch = context;
	struct store *store = batch->store;
	struct block *block = block_at(batch, start);
	struct item *item = block->items;

	for (size_t i = start; i < end; i++) {
		struct weir_request *r = &batch->requests[i];
		const struct weir_limit *limit = r->limit;
		struct slice key = {r->key.data, r->key.len};
		int status = limit_check(limit, ALGO_ACQUIRE, key, r->cost, 0);

		if (__builtin_expect(status == WEIR_OK, 1))
			status =
			    store_admit(store, &limit->algo,
			                store_hash(store, limit->algo.identity, key.data, key.len), &item->key);
		r->status = status;
		if (__builtin_expect(status != WEIR_OK, 0)) {
			batch->first_error = batch->first_error ? batch->first_error : status;
			continue;
		}
		item->limit = limit;
		item->cost = r->cost;
		item->decision = &batch->decisions[i];
		store_fetch(store, &item->key);
		item++;
	}
	block->count = (size_t)(item - block->items);
}

/*
 * Searches the home set of each item, and prefetches the next set for those that are not there, the
 * strays. It writes each item to `strays`, but moves on only behind a stray: whether a key is at
 * home can't be predicted, so nothing branches on it.
 */
__attribute__((noinline, flatten)) static void search_home_sets(void *context, size_t start,
                                                                size_t end)
{
	struct batch *batch = context;
	const struct store *store = batch->store;
	struct block *block = block_at(batch, start);
	struct item **strays = block->strays;
	uint64_t now_ns = batch->at.now_ns;

	(void)end;
	for (struct item *item = block->items, *items_end = item + block->count; item < items_end;
	     item++) {
		store_locate(store, &item->limit->algo, &item->key, now_ns);
		*strays = item;
		strays += !item->key.cell;
	}
	block->stray_count = (size_t)(strays - block->strays);
	for (struct item **stray = block->strays; stray < strays; stray++)
		store_fetch_next(store, &(*stray)->key);
}

__attribute__((noinline, flatten)) static void search_next_sets(void *context, size_t start,
                                                                size_t end)
{
	struct batch *batch = context;
	struct block *block = block_at(batch, start);

	(void)end;
	for (size_t i = 0; i < block->stray_count; i++)
		store_locate_next(batch->store, &block->strays[i]->limit->algo, &block->strays[i]->key,
		                  batch->at.now_ns);
}

__attribute__((noinline, flatten)) static void decide_items(void *context, size_t start, size_t end)
{
	struct batch *batch = context;
	const struct block *block = block_at(batch, start);
	struct store *store = batch->store;
	struct moment at = batch->at;

	(void)end;
	for (const struct item *item = block->items, *items_end = item + block->count; item < items_end;
	     item++) {
		struct store_step step = {
		    store, &item->limit->algo, item->key, {ALGO_ACQUIRE, item->cost}, at};
		uint64_t until_ns;

		/* The slow path gets a copy, so that `step` stays in registers on the fast path. */
		if (__builtin_expect(!engine_try(item->limit, &step, item->decision, &until_ns), 0))
			engine_apply_slow(
			    item->limit,
			    &(struct store_step){
			        store, &item->limit->algo, item->key, {ALGO_ACQUIRE, item->cost}, at},
			    item->decision);
	}
}

/* A request at a table whose limits count at a remote store. */
struct remote_item {
	struct plan plan; /* first */
	enum engine_state state;
	struct weir_request *request;
	struct weir_decision *decision;
};

struct remote_batch {
	struct remote remote; /* first */
	struct decision_context context;
	struct remote_item *items;
	size_t count;
};

/* Called when the store has failed a step, which is the only one of its plan. */
static void fail_request(void *context, const struct plan_step *step, enum rules_failure policy)
{
	const struct remote_item *item =
	    (const struct remote_item *)((const char *)step -
	                                 offsetof(struct remote_item, plan.direct_step));

	(void)context;
	(void)policy;
	item->request->status = WEIR_ESTORE;
}

/* Adds an item to the batch, or sets the error of an invalid request. */
static void prepare_remote_item(struct remote_batch *batch, struct weir_request *r,
                                struct weir_decision *decision)
{
	struct remote_item *item = &batch->items[batch->count];

	r->status = engine_prepare_limit(batch->context.table, r->limit,
	                                 &(struct algo_call){ALGO_ACQUIRE, r->cost},
	                                 (struct slice){r->key.data, r->key.len}, &item->plan);
	if (r->status == WEIR_OK) {
		item->request = r;
		item->decision = decision;
		batch->count++;
	}
}

/*
 * Decides all items, in rounds: the steps that all plans submit in one round go to the store
 * together. Mostly one round decides all; the last is the one in which no plan submits a step.
 */
static void decide_remote_items(struct remote_batch *batch)
{
	struct remote *remote = &batch->remote;

	for (size_t i = 0; i < batch->count; i++) {
		struct remote_item *item = &batch->items[i];

		item->state = engine_decide(&batch->context, &item->plan, item->decision);
		remote->pending += item->state == ENGINE_SUBMITTED;
	}
	while (remote->pending > 0) {
		remote_wait(remote, &batch->context); /* until `pending` is 0 */
		for (size_t i = 0; i < batch->count; i++) {
			struct remote_item *item = &batch->items[i];

			if (item->state != ENGINE_SUBMITTED)
				continue;
			item->state = engine_resume(&batch->context, &item->plan, item->decision);
			remote->pending += item->state == ENGINE_SUBMITTED;
		}
	}
}

/* Returns the first error of a request, or an error of the whole part. */
static int acquire_remote_part(struct weir_table *table, struct weir_request *requests, size_t n,
                               struct moment at, struct weir_decision *decisions)
{
	struct remote_batch batch = {.context = {.table = table, .at = at}};
	int first_error = WEIR_OK, status = WEIR_OK;

	batch.items = calloc(n, sizeof *batch.items);
	if (!batch.items)
		return WEIR_ENOMEM;
	for (size_t i = 0; i < n; i++)
		prepare_remote_item(&batch, &requests[i], &decisions[i]);
	status = remote_begin(&batch.remote, &batch.context, true);
	if (status == WEIR_OK) {
		batch.context.store_failed = fail_request;
		decide_remote_items(&batch);
		remote_end(&batch.remote, &batch.context);
	}
	for (size_t i = 0; i < n; i++)
		first_error = first_error ? first_error : requests[i].status;
	free(batch.items);
	return status != WEIR_OK ? status : first_error;
}

/* As many requests as a store client takes at once. */
#define REMOTE_PART_MAX ((size_t)16 << 10)

/* Acquires in parts, each of which is mostly one round trip. Returns the first error. */
static int acquire_remote(struct weir_table *table, struct weir_request *requests, size_t n,
                          struct moment at, struct weir_decision *decisions)
{
	int first_error = WEIR_OK;

	for (size_t i = 0; i < n; i += REMOTE_PART_MAX) {
		int status = acquire_remote_part(table, requests + i, u64_min(n - i, REMOTE_PART_MAX), at,
		                                 decisions + i);

		first_error = first_error ? first_error : status;
	}
	return first_error;
}

int weir_acquire_batch(weir_table *table, struct weir_request *requests, size_t n, uint64_t now_ns,
                       struct weir_decision *decisions)
{
	struct batch batch; /* not cleared: its ring is large */

	if (__builtin_expect(table->remote != NULL, 0))
		return acquire_remote(table, requests, n, clock_moment_at(engine_clock(table), now_ns),
		                      decisions);
	batch.store = table->store;
	batch.requests = requests;
	batch.decisions = decisions;
	batch.at = clock_moment_at(engine_clock(table), now_ns);
	batch.first_error = WEIR_OK;
	pipeline_run(
	    (struct pipeline){BLOCK_ITEMS,
	                      {fetch_home_sets, search_home_sets, search_next_sets, decide_items}},
	    n, &batch);
	return batch.first_error;
}
