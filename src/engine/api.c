/* api.c: the public calls on tables and on limits without keys. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "engine/engine.h"
#include "engine/room.h"
#include "engine/wait.h"
#include "store/memory.h"

struct weir_limiter {
	struct cell cell;
	_Alignas(
	    64) struct weir_limit limit; /* read-only, on lines that a changing cell does not dirty */
	struct clock clock;
	struct cell *row; /* NULL where the cell is all of a state */
	struct room *room; /* of those who wait, or NULL */
	bool load_is_atomic;
};

static inline struct moment moment_of(const struct clock *clock, uint64_t now_ns,
                                      const struct weir_limit *limit)
{
	if (now_ns != WEIR_NOW)
		return moment_given(now_ns);
	if (limit->algo.cache)
		return clock_moment(clock);
	return moment_given(clock_now(clock));
}

static struct cell *row_open(const struct algo_limit *limit)
{
	size_t size = algo_widths[limit->width] * sizeof(struct cell);
	void *row;

	if (posix_memalign(&row, 64, size) != 0)
		return NULL;
	return memset(row, 0, size);
}

int weir_limiter_open(const struct weir_limit_options *options, weir_limiter **out,
                      struct weir_error *error)
{
	struct weir_limiter *limiter = NULL;
	int status;

	*out = NULL;
	if (posix_memalign((void **)&limiter, 128, sizeof *limiter) != 0)
		return error_set(error, WEIR_ENOMEM, "out of memory");
	limiter->cell = (struct cell){0, 0};
	limiter->row = NULL;
	limiter->room = NULL;
	limiter->clock = clock_start(clock_offset(), true);
	limiter->load_is_atomic = cell_load_is_atomic();
	status = limit_init(&limiter->limit, options, error);
	if (status != WEIR_OK) {
		free(limiter);
		return status;
	}
	if (limiter->limit.algo.width != 0) {
		limiter->row = row_open(&limiter->limit.algo);
		if (!limiter->row) {
			weir_limiter_close(limiter);
			return error_set(error, WEIR_ENOMEM, "out of memory");
		}
	}
	*out = limiter;
	return WEIR_OK;
}

void weir_limiter_close(weir_limiter *limiter)
{
	if (!limiter)
		return;
	limit_free(&limiter->limit);
	room_close(limiter->room);
	free(limiter->row);
	free(limiter);
}

static inline struct moment limiter_moment(const struct weir_limiter *limiter, uint64_t now_ns)
{
	return moment_of(&limiter->clock, now_ns, &limiter->limit);
}

__attribute__((noinline)) static uint64_t limiter_step_slow(struct weir_limiter *limiter,
                                                            struct algo_call call,
                                                            struct moment at,
                                                            struct weir_decision *d)
{
	const struct algo_limit *algo = &limiter->limit.algo;
	struct algo_time time = algo_time_at(algo, at);
	struct algo_outcome outcome;
	uint64_t until_ns;

	if (algo->algorithm == WEIR_RANDOM) {
		limit_draw(&limiter->limit, &call, d);
		return 0;
	}
	if (limiter->row)
		until_ns = wide_apply_cell(&limiter->cell, limiter->row, limiter->load_is_atomic, algo,
		                           &call, &time, &outcome);
	else
		until_ns = memory_apply_cell(&limiter->cell, limiter->load_is_atomic, algo, &call, &time,
		                             &outcome);
	limit_explain(&limiter->limit, algo, &outcome, d);
	return until_ns;
}

/* Returns the end of the state that it left. */
static inline uint64_t limiter_step(struct weir_limiter *limiter, const struct algo_call *call,
                                    struct moment at, struct weir_decision *d)
{
	const struct algo_limit *algo = &limiter->limit.algo;
	struct algo_outcome outcome;
	uint64_t until_ns;

	if (__builtin_expect(!memory_try(&limiter->cell, limiter->load_is_atomic, algo, MEMORY_TAG,
	                                 call, at.now_ns, &outcome, &until_ns),
	                     0))
		return limiter_step_slow(limiter, *call, at, d);
	limit_explain(&limiter->limit, algo, &outcome, d);
	return until_ns;
}

static inline int limiter_call(struct weir_limiter *limiter, enum algo_op op, uint64_t cost,
                               uint64_t now_ns, struct weir_decision *d)
{
	struct algo_call call = {op, cost, 0};

	if (!limit_cost_fits(&limiter->limit, op, cost))
		return WEIR_ECOST;
	limiter_step(limiter, &call, limiter_moment(limiter, now_ns), d);
	if (op >= ALGO_REFUND)
		room_poke(room_at(&limiter->room), 0);
	return WEIR_OK;
}

/* Acquiring has all of a decision inlined and its kind known; the other calls share one that asks.
 */
__attribute__((flatten)) int weir_limiter_acquire(weir_limiter *limiter, uint64_t cost,
                                                  uint64_t now_ns, struct weir_decision *decision)
{
	return limiter_call(limiter, ALGO_ACQUIRE, cost, now_ns, decision);
}

__attribute__((noinline)) static int limiter_other(struct weir_limiter *limiter, enum algo_op op,
                                                   uint64_t cost, uint64_t now_ns,
                                                   struct weir_decision *decision)
{
	return limiter_call(limiter, op, cost, now_ns, decision);
}

int weir_limiter_peek(weir_limiter *limiter, uint64_t cost, uint64_t now_ns,
                      struct weir_decision *decision)
{
	return limiter_other(limiter, ALGO_PEEK, cost, now_ns, decision);
}

int weir_limiter_refund(weir_limiter *limiter, uint64_t cost, uint64_t now_ns,
                        struct weir_decision *decision)
{
	return limiter_other(limiter, ALGO_REFUND, cost, now_ns, decision);
}

int weir_limiter_reset(weir_limiter *limiter, uint64_t now_ns, struct weir_decision *decision)
{
	return limiter_other(limiter, ALGO_RESET, 0, now_ns, decision);
}

static void permit_fill(struct weir_permit *permit, bool taken, uint64_t id, uint64_t until_ns,
                        uint64_t cost)
{
	*permit = taken ? (struct weir_permit){id, until_ns, cost, 0} : (struct weir_permit){0};
}

int weir_limiter_acquire_permit(weir_limiter *limiter, uint64_t cost, uint64_t now_ns,
                                struct weir_decision *decision, struct weir_permit *permit)
{
	struct algo_call call = {ALGO_ACQUIRE, cost, .permit = permit_draw()};
	uint64_t until_ns;

	if (!limit_cost_fits(&limiter->limit, ALGO_ACQUIRE, cost))
		return WEIR_ECOST;
	until_ns = limiter_step(limiter, &call, limiter_moment(limiter, now_ns), decision);
	permit_fill(permit, decision->allowed && cost > 0, call.permit, until_ns, cost);
	return WEIR_OK;
}

/* Whether there may be something of it to give back. */
static bool limiter_has(const struct weir_limiter *limiter, const struct weir_permit *permit,
                        struct moment at)
{
	return permit->id != 0 && permit->until_ns > algo_time_at(&limiter->limit.algo, at).now_ns;
}

int weir_limiter_refund_permit(weir_limiter *limiter, const struct weir_permit *permit,
                               uint64_t now_ns, struct weir_decision *decision)
{
	struct moment at = limiter_moment(limiter, now_ns);
	bool held = limiter_has(limiter, permit, at);
	struct algo_call call = {ALGO_REFUND, held ? permit->cost : 0, permit->until_ns,
	                         .permit = permit->id};

	limiter_step(limiter, &call, at, decision);
	room_poke(room_at(&limiter->room), 0);
	decision->allowed &= held;
	return decision->allowed ? WEIR_OK : WEIR_ENOTFOUND;
}

int weir_limiter_report(weir_limiter *limiter, const struct weir_permit *permit,
                        enum weir_outcome outcome, uint64_t latency_ns, uint64_t now_ns)
{
	struct weir_decision ignored;

	(void)latency_ns; /* of no limit that is here */
	if ((unsigned)outcome >= WEIR_OUTCOME_COUNT)
		return WEIR_EINVAL;
	if (limit_has_permits(&limiter->limit))
		return weir_limiter_refund_permit(limiter, permit, now_ns, &ignored);
	return limiter_has(limiter, permit, limiter_moment(limiter, now_ns)) ? WEIR_OK : WEIR_ENOTFOUND;
}

struct limiter_wait {
	struct wait wait; /* first */
	struct weir_limiter *limiter;
	uint64_t cost;
	uint64_t permit; /* its id, or 0 */
	uint64_t until_ns;
};

/* As engine_decide_in_order. */
static bool decide_limiter(struct wait *wait, enum engine_place place, uint64_t max_wait_ns,
                           struct moment at, struct weir_decision *d)
{
	struct limiter_wait *waiting = (struct limiter_wait *)wait;
	struct weir_limiter *limiter = waiting->limiter;
	bool is_behind = waiting->cost > 0 && place < ENGINE_FIRST &&
	                 room_has(room_at(&limiter->room), wait->hash);
	struct algo_call call = {is_behind ? ALGO_PEEK : ALGO_ACQUIRE, waiting->cost,
	                         .permit = waiting->permit, .max_wait_ns = max_wait_ns};
	enum weir_reason reason;

	waiting->until_ns = limiter_step(limiter, &call, at, d);
	if (waiting->cost == 0 || (d->allowed && !is_behind))
		return true;
	reason = wait_refusal(wait->limit, place, max_wait_ns, d);
	if (reason != WEIR_REASON_OK)
		wait_deny(d, reason);
	return reason != WEIR_REASON_OK;
}

static void deny_limiter(struct wait *wait, enum weir_reason reason, struct moment at,
                         struct weir_decision *d)
{
	(void)wait;
	(void)at;
	wait_deny(d, reason);
}

int weir_limiter_acquire_wait(weir_limiter *limiter, uint64_t cost, uint64_t deadline_ns,
                              struct weir_decision *decision, struct weir_permit *permit)
{
	struct limiter_wait waiting = {
	    .wait = {.clock = &limiter->clock,
	             .room = &limiter->room,
	             .decide = decide_limiter,
	             .deny = deny_limiter,
	             .limit = &limiter->limit},
	    .limiter = limiter,
	    .cost = cost,
	    .permit = permit ? permit_draw() : 0,
	};
	int status;

	if (!limit_cost_fits(&limiter->limit, ALGO_ACQUIRE, cost))
		return WEIR_ECOST;
	status = wait_acquire(&waiting.wait, deadline_ns, decision);
	if (status == WEIR_OK && permit)
		permit_fill(permit, decision->allowed && cost > 0, waiting.permit, waiting.until_ns, cost);
	return status;
}

int weir_limiter_shed(weir_limiter *limiter, double deny)
{
	return weir_limit_shed(&limiter->limit, deny);
}

int weir_table_open(const struct weir_table_options *options, weir_table **out,
                    struct weir_error *error)
{
	struct weir_table *table = aligned_alloc(_Alignof(struct weir_table), sizeof *table);
	int status =
	    table ? memory_open(table, options, error) : error_set(error, WEIR_ENOMEM, "out of memory");

	if (status != WEIR_OK) {
		free(table);
		table = NULL;
	}
	*out = table;
	return status;
}

void weir_table_close(weir_table *table)
{
	if (!table)
		return;
	room_close(table->room);
	memory_close(table);
	free(table);
}

int weir_table_sync(weir_table *table)
{
	return memory_sync(table);
}

static inline int table_call(struct weir_table *table, const struct weir_limit *limit,
                             enum algo_op op, const void *key, size_t key_len, uint64_t cost,
                             uint64_t now_ns, struct weir_decision *decision)
{
	struct algo_call call = {op, cost, 0};
	int status = limit_check(limit, op, key_len, cost);
	struct memory_key wanted;

	if (status != WEIR_OK)
		return status;
	wanted = memory_key(&limit->algo, memory_hash(table, limit->algo.identity, key, key_len));
	memory_fetch_all(table, &wanted);
	engine_apply(table, limit, &wanted, &call, moment_of(&table->clock, now_ns, limit), decision);
	if (op >= ALGO_REFUND)
		room_poke(room_at(&table->room), wanted.hash);
	return WEIR_OK;
}

/* As weir_limiter_acquire is built. */
__attribute__((flatten)) int weir_acquire(weir_table *table, const weir_limit *limit,
                                          const void *key, size_t key_len, uint64_t cost,
                                          uint64_t now_ns, struct weir_decision *decision)
{
	return table_call(table, limit, ALGO_ACQUIRE, key, key_len, cost, now_ns, decision);
}

__attribute__((noinline, flatten)) static int
table_other(struct weir_table *table, const struct weir_limit *limit, enum algo_op op,
            const void *key, size_t key_len, uint64_t cost, uint64_t now_ns,
            struct weir_decision *decision)
{
	return table_call(table, limit, op, key, key_len, cost, now_ns, decision);
}

int weir_peek(weir_table *table, const weir_limit *limit, const void *key, size_t key_len,
              uint64_t cost, uint64_t now_ns, struct weir_decision *decision)
{
	return table_other(table, limit, ALGO_PEEK, key, key_len, cost, now_ns, decision);
}

int weir_refund(weir_table *table, const weir_limit *limit, const void *key, size_t key_len,
                uint64_t cost, uint64_t now_ns, struct weir_decision *decision)
{
	return table_other(table, limit, ALGO_REFUND, key, key_len, cost, now_ns, decision);
}

int weir_reset(weir_table *table, const weir_limit *limit, const void *key, size_t key_len,
               uint64_t now_ns, struct weir_decision *decision)
{
	return table_other(table, limit, ALGO_RESET, key, key_len, 0, now_ns, decision);
}

int weir_acquire_permit(weir_table *table, const weir_limit *limit, const void *key,
                        size_t key_len, uint64_t cost, uint64_t now_ns,
                        struct weir_decision *decision, struct weir_permit *permit)
{
	struct engine_request request;
	int status = engine_prepare_limit(table, limit, ALGO_ACQUIRE, (struct slice){key, key_len},
	                                  cost, &request);

	if (status == WEIR_OK)
		status = engine_want_permit(&request);
	if (status != WEIR_OK)
		return status;
	engine_decide(table, &request, moment_of(&table->clock, now_ns, limit), NULL, NULL, decision);
	permit_fill(permit, request.permit.id != 0, request.permit.id, request.direct.until_ns, cost);
	return WEIR_OK;
}

/* A refund of the permit; of nothing where there is none. */
static int prepare_permit(struct weir_table *table, const struct weir_limit *limit, const void *key,
                          size_t key_len, const struct weir_permit *permit,
                          struct engine_request *request)
{
	int status = engine_prepare_limit(table, limit, ALGO_REFUND, (struct slice){key, key_len},
	                                  permit->id != 0 ? permit->cost : 0, request);

	if (status == WEIR_OK) {
		request->permit = (struct permit){permit->id, request->direct.key.hash};
		request->direct.until_ns = permit->until_ns;
	}
	return status;
}

int weir_refund_permit(weir_table *table, const weir_limit *limit, const void *key, size_t key_len,
                       const struct weir_permit *permit, uint64_t now_ns,
                       struct weir_decision *decision)
{
	struct engine_request request;
	int status = prepare_permit(table, limit, key, key_len, permit, &request);

	if (status != WEIR_OK)
		return status;
	engine_decide(table, &request, moment_of(&table->clock, now_ns, limit), NULL, NULL, decision);
	decision->allowed &= permit->id != 0;
	return decision->allowed ? WEIR_OK : WEIR_ENOTFOUND;
}

int weir_report(weir_table *table, const weir_limit *limit, const void *key, size_t key_len,
                const struct weir_permit *permit, enum weir_outcome outcome, uint64_t latency_ns,
                uint64_t now_ns)
{
	struct engine_request request;
	int status = prepare_permit(table, limit, key, key_len, permit, &request);

	(void)latency_ns; /* of no limit that is here */
	if ((unsigned)outcome >= WEIR_OUTCOME_COUNT)
		return WEIR_EINVAL;
	if (status == WEIR_OK &&
	    (permit->id == 0 ||
	     !engine_report(table, &request, moment_of(&table->clock, now_ns, limit))))
		status = WEIR_ENOTFOUND;
	return status;
}

int weir_acquire_wait(weir_table *table, const weir_limit *limit, const void *key, size_t key_len,
                      uint64_t cost, uint64_t deadline_ns, struct weir_decision *decision,
                      struct weir_permit *permit)
{
	struct engine_request request;
	int status = engine_prepare_limit(table, limit, ALGO_ACQUIRE, (struct slice){key, key_len},
	                                  cost, &request);

	if (status == WEIR_OK && permit)
		status = engine_want_permit(&request);
	if (status == WEIR_OK)
		status = wait_request(table, &request, deadline_ns, decision);
	if (status == WEIR_OK && permit)
		permit_fill(permit, request.permit.id != 0, request.permit.id, request.direct.until_ns,
		            cost);
	return status;
}

/*
 * A request of a batch passes four stages: its home is fetched; it is looked for
 * there, and in the next set; it is decided. Requests go through them in blocks,
 * each a stage behind the block before it, so that the memory which a stage needs
 * has come by the time its turn comes, and memory is never idle meanwhile.
 */
#define BLOCK  8
#define STAGES 4

struct flight {
	const struct weir_request *request;
	struct weir_decision *decision;
	struct memory_key key;
};

struct block {
	size_t count, stray_count;
	struct flight flights[BLOCK];
	struct flight *strays[BLOCK]; /* those that are not at home */
};

/* Those that are refused at once go no further. Returns the first error. */
__attribute__((noinline, flatten)) static int block_fetch(struct block *block,
                                                          const struct weir_table *table,
                                                          struct weir_request *requests, size_t n,
                                                          struct weir_decision *decisions)
{
	struct flight *flight = block->flights;
	int first_error = WEIR_OK;

	for (size_t i = 0; i < n; i++) {
		struct weir_request *r = &requests[i];

		r->status = limit_check(r->limit, ALGO_ACQUIRE, r->key_len, r->cost);
		if (__builtin_expect(r->status != WEIR_OK, 0)) {
			first_error = first_error ? first_error : r->status;
			continue;
		}
		flight->request = r;
		flight->decision = &decisions[i];
		flight->key = memory_key(&r->limit->algo,
		                         memory_hash(table, r->limit->algo.identity, r->key, r->key_len));
		memory_fetch(table, &flight->key);
		flight++;
	}
	block->count = (size_t)(flight - block->flights);
	return first_error;
}

/* Whether a key is at home can't be predicted, so nothing branches on it. */
__attribute__((noinline, flatten)) static void block_locate(struct block *block,
                                                            const struct weir_table *table,
                                                            struct moment at)
{
	struct flight **strays = block->strays;

	for (struct flight *f = block->flights, *end = f + block->count; f < end; f++) {
		memory_locate(table, &f->key, at.now_ns);
		*strays = f;
		strays += !f->key.cell;
	}
	block->stray_count = (size_t)(strays - block->strays);
	for (size_t i = 0; i < block->stray_count; i++)
		memory_fetch_run(table, &block->strays[i]->key);
}

__attribute__((noinline, flatten)) static void block_locate_run(struct block *block,
                                                                const struct weir_table *table,
                                                                struct moment at)
{
	for (size_t i = 0; i < block->stray_count; i++)
		memory_locate_run(table, &block->strays[i]->key, at.now_ns);
}

__attribute__((noinline, flatten)) static void block_decide(const struct block *block,
                                                            struct weir_table *table,
                                                            struct moment at)
{
	for (const struct flight *f = block->flights, *end = f + block->count; f < end; f++) {
		const struct weir_limit *limit = f->request->limit;
		struct algo_call call = {ALGO_ACQUIRE, f->request->cost, 0};
		uint64_t until_ns;

		if (__builtin_expect(!engine_try(table, limit, &f->key, &call, at, f->decision, &until_ns),
		                     0))
			engine_apply_slow(table, limit, f->key, call, at, f->decision);
	}
}

int weir_acquire_batch(weir_table *table, struct weir_request *requests, size_t n, uint64_t now_ns,
                       struct weir_decision *decisions)
{
	struct moment at = now_ns == WEIR_NOW ? clock_moment(&table->clock) : moment_given(now_ns);
	size_t blocks = n / BLOCK + (n % BLOCK != 0);
	struct block ring[STAGES];
	int first_error = WEIR_OK;

	for (size_t b = 0; b < blocks + STAGES - 1; b++) {
		if (b < blocks) {
			size_t start = b * BLOCK;
			int status = block_fetch(&ring[b % STAGES], table, requests + start,
			                         u64_min(n - start, BLOCK), decisions + start);

			first_error = first_error ? first_error : status;
		}
		if (b - 1 < blocks) /* before 0 is beyond all */
			block_locate(&ring[(b - 1) % STAGES], table, at);
		if (b - 2 < blocks)
			block_locate_run(&ring[(b - 2) % STAGES], table, at);
		if (b - 3 < blocks)
			block_decide(&ring[(b - 3) % STAGES], table, at);
	}
	return first_error;
}

void weir_table_stats(const weir_table *table, uint64_t now_ns, struct weir_table_stats *stats)
{
	if (now_ns == WEIR_NOW)
		now_ns = clock_now(&table->clock);
	*stats = (struct weir_table_stats){
	    .capacity = table->table.header->capacity,
	    .cells = table->table.sets * TABLE_SET_CELLS,
	    .live = table_live(&table->table, now_ns),
	    .evictions = table_evictions(&table->table),
	    .bytes = table->table.size,
	};
	wide_add_stats(table, now_ns, stats);
}
