/* batch.c: decides many keys in one public call, in a pipeline. */
#include <stdlib.h>

#include "api/remote.h"
#include "engine/pipeline.h"
#include "engine/plan/apply.h"
#include "engine/table.h"

/* A request's home is fetched; it is looked for there, and in the next set; it is decided. */
#define BLOCK  8
#define STAGES 4

struct flight {
	const struct weir_limit *limit;
	uint64_t cost;
	struct weir_decision *decision;
	struct store_key key;
};

struct block {
	size_t count, stray_count;
	struct flight flights[BLOCK];
	struct flight *strays[BLOCK]; /* those that are not at home */
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
	return &batch->ring[start / BLOCK % STAGES];
}

/* Those that are refused at once go no further. */
__attribute__((noinline, flatten)) static void fetch(void *context, size_t start, size_t end)
{
	struct batch *batch = context;
	struct store *store = batch->store;
	struct block *block = block_at(batch, start);
	struct flight *flight = block->flights;

	for (size_t i = start; i < end; i++) {
		struct weir_request *r = &batch->requests[i];
		const struct weir_limit *limit = r->limit;
		struct slice key = {r->key.data, r->key.len};
		int status = limit_check(limit, ALGO_ACQUIRE, key, r->cost, 0);

		if (__builtin_expect(status == WEIR_OK, 1))
			status = store_admit(store, &limit->algo,
			                     store_hash(store, limit->algo.identity, key.data, key.len),
			                     &flight->key);
		r->status = status;
		if (__builtin_expect(status != WEIR_OK, 0)) {
			batch->first_error = batch->first_error ? batch->first_error : status;
			continue;
		}
		flight->limit = limit;
		flight->cost = r->cost;
		flight->decision = &batch->decisions[i];
		store_fetch(store, &flight->key);
		flight++;
	}
	block->count = (size_t)(flight - block->flights);
}

/* Whether a key is at home can't be predicted, so nothing branches on it. */
__attribute__((noinline, flatten)) static void locate(void *context, size_t start, size_t end)
{
	struct batch *batch = context;
	const struct store *store = batch->store;
	struct block *block = block_at(batch, start);
	struct flight **strays = block->strays;
	uint64_t now_ns = batch->at.now_ns;

	(void)end;
	for (struct flight *f = block->flights, *last = f + block->count; f < last; f++) {
		store_locate(store, &f->limit->algo, &f->key, now_ns);
		*strays = f;
		strays += !f->key.cell;
	}
	block->stray_count = (size_t)(strays - block->strays);
	for (struct flight **stray = block->strays; stray < strays; stray++)
		store_fetch_next(store, &(*stray)->key);
}

__attribute__((noinline, flatten)) static void locate_next(void *context, size_t start, size_t end)
{
	struct batch *batch = context;
	struct block *block = block_at(batch, start);

	(void)end;
	for (size_t i = 0; i < block->stray_count; i++)
		store_locate_next(batch->store, &block->strays[i]->limit->algo, &block->strays[i]->key,
		                  batch->at.now_ns);
}

__attribute__((noinline, flatten)) static void decide(void *context, size_t start, size_t end)
{
	struct batch *batch = context;
	const struct block *block = block_at(batch, start);
	struct store *store = batch->store;
	struct moment at = batch->at;

	(void)end;
	for (const struct flight *f = block->flights, *last = f + block->count; f < last; f++) {
		struct store_step step = {store, &f->limit->algo, f->key, {ALGO_ACQUIRE, f->cost}, at};
		uint64_t until_ns;

		/* A copy: else the step would be in memory for those that are quick, too. */
		if (__builtin_expect(!engine_try(f->limit, &step, f->decision, &until_ns), 0))
			engine_apply_slow(f->limit,
			                  &(struct store_step){store, &f->limit->algo, f->key,
			                                       {ALGO_ACQUIRE, f->cost}, at},
			                  f->decision);
	}
}

/* The plan of a request and its state, at a table with remote limits. */
struct remote_item {
	struct plan plan;
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

/* The step is its plan's only one. */
static void remote_failed(void *context, const struct plan_step *step, enum rules_failure policy)
{
	const struct plan *plan =
	    (const struct plan *)((const char *)step - offsetof(struct plan, only));

	(void)context;
	(void)policy;
	((const struct remote_item *)plan)->request->status = WEIR_ESTORE;
}

static int prepare_remote(struct remote_batch *batch, struct weir_request *r,
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
	return r->status;
}

/* All that is submitted goes together, for as long as there is anything. */
static void run_remote(struct remote_batch *batch)
{
	struct remote *remote = &batch->remote;

	for (size_t i = 0; i < batch->count; i++) {
		struct remote_item *item = &batch->items[i];

		item->state = engine_decide(&batch->context, &item->plan, item->decision);
		remote->pending += item->state == ENGINE_SUBMITTED;
	}
	while (remote->pending > 0) {
		remote_wait(remote, &batch->context);
		for (size_t i = 0; i < batch->count; i++) {
			struct remote_item *item = &batch->items[i];

			if (item->state != ENGINE_SUBMITTED)
				continue;
			item->state = engine_resume(&batch->context, &item->plan, item->decision);
			remote->pending += item->state == ENGINE_SUBMITTED;
		}
	}
}

/* As many requests as a store client takes at once. */
#define REMOTE_MAX ((size_t)16 << 10)

static int acquire_remote(struct weir_table *table, struct weir_request *requests, size_t n,
                          struct moment at, struct weir_decision *decisions)
{
	struct remote_batch batch = {.context = {.table = table, .at = at}};
	int first_error = WEIR_OK, status = WEIR_OK;

	batch.items = calloc(n, sizeof *batch.items);
	if (!batch.items)
		return WEIR_ENOMEM;
	for (size_t i = 0; i < n; i++)
		prepare_remote(&batch, &requests[i], &decisions[i]);
	status = remote_begin(&batch.remote, &batch.context, true);
	if (status == WEIR_OK) {
		batch.context.failed = remote_failed;
		run_remote(&batch);
		remote_end(&batch.remote, &batch.context);
	}
	for (size_t i = 0; i < n; i++)
		first_error = first_error ? first_error : requests[i].status;
	free(batch.items);
	return status != WEIR_OK ? status : first_error;
}

/* In parts; each is one round trip. */
static int acquire_all_remote(struct weir_table *table, struct weir_request *requests, size_t n,
                              struct moment at, struct weir_decision *decisions)
{
	int first_error = WEIR_OK;

	for (size_t i = 0; i < n; i += REMOTE_MAX) {
		int status = acquire_remote(table, requests + i, u64_min(n - i, REMOTE_MAX), at,
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
		return acquire_all_remote(table, requests, n,
		                          clock_moment_at(engine_clock(table), now_ns), decisions);
	batch.store = table->store;
	batch.requests = requests;
	batch.decisions = decisions;
	batch.at = clock_moment_at(engine_clock(table), now_ns);
	batch.first_error = WEIR_OK;
	pipeline_run((struct pipeline){BLOCK, {fetch, locate, locate_next, decide}}, n, &batch);
	return batch.first_error;
}
