/* api.c: the public calls on tables and on limits without keys. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "engine/engine.h"
#include "store/memory.h"

struct weir_limiter {
	struct cell cell;
	_Alignas(
	    64) struct weir_limit limit; /* read-only, on lines that a changing cell does not dirty */
	struct clock clock;
	struct cell *row; /* NULL where the cell is all of a state */
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
	free(limiter->row);
	free(limiter);
}

static inline int limiter_call(struct weir_limiter *limiter, enum algo_op op, uint64_t cost,
                               uint64_t now_ns, struct weir_decision *d)
{
	struct algo_call call = {op, cost, 0};
	struct algo_outcome outcome;
	struct algo_time time;

	if (!limit_cost_fits(&limiter->limit, op, cost))
		return WEIR_ECOST;
	time = algo_time_at(&limiter->limit.algo, moment_of(&limiter->clock, now_ns, &limiter->limit));
	if (__builtin_expect(limiter->row != NULL, 0))
		wide_apply_cell(&limiter->cell, limiter->row, limiter->load_is_atomic,
		                &limiter->limit.algo, &call, &time, &outcome);
	else
		memory_apply_cell(&limiter->cell, limiter->load_is_atomic, &limiter->limit.algo, &call,
		                  &time, &outcome);
	limit_explain(&limiter->limit, &limiter->limit.algo, &outcome, d);
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

/* Requests in flight at once: enough to cover memory's latency, few enough for the first cache. */
#define BATCH 32

__attribute__((flatten)) int weir_acquire_batch(weir_table *table, struct weir_request *requests,
                                                size_t n, uint64_t now_ns,
                                                struct weir_decision *decisions)
{
	struct memory_key keys[BATCH];
	struct moment at = now_ns == WEIR_NOW ? clock_moment(&table->clock) : moment_given(now_ns);
	int first_error = WEIR_OK;

	for (size_t start = 0; start < n; start += BATCH) {
		struct weir_request *r = &requests[start];
		size_t count = n - start < BATCH ? n - start : BATCH;

		for (size_t i = 0; i < count; i++) {
			r[i].status = limit_check(r[i].limit, ALGO_ACQUIRE, r[i].key_len, r[i].cost);
			if (r[i].status == WEIR_OK) {
				keys[i] = memory_key(
				    &r[i].limit->algo,
				    memory_hash(table, r[i].limit->algo.identity, r[i].key, r[i].key_len));
				memory_fetch(table, &keys[i]);
			} else if (first_error == WEIR_OK) {
				first_error = r[i].status;
			}
		}
		for (size_t i = 0; i < count; i++)
			if (r[i].status == WEIR_OK)
				memory_locate(table, &keys[i]);
		for (size_t i = 0; i < count; i++) {
			struct algo_call call = {ALGO_ACQUIRE, r[i].cost, 0};

			if (r[i].status == WEIR_OK)
				engine_apply(table, r[i].limit, &keys[i], &call, at, &decisions[start + i]);
		}
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
