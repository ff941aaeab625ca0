/* batch.c: many keys in one call. */
#include "engine/apply.h"
#include "engine/table.h"

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
	struct store_key key;
};

struct block {
	size_t count, stray_count;
	struct flight flights[BLOCK];
	struct flight *strays[BLOCK]; /* those that are not at home */
};

/* Those that are refused at once go no further. Returns the first error. */
__attribute__((noinline, flatten)) static int block_fetch(struct block *block,
                                                          struct store *store,
                                                          struct weir_request *requests, size_t n,
                                                          struct weir_decision *decisions)
{
	struct flight *flight = block->flights;
	int first_error = WEIR_OK;

	for (size_t i = 0; i < n; i++) {
		struct weir_request *r = &requests[i];

		r->status = limit_check(r->limit, ALGO_ACQUIRE, r->key_len, r->cost);
		if (__builtin_expect(r->status == WEIR_OK, 1))
			r->status = store_admit(
			    store, &r->limit->algo,
			    store_hash(store, r->limit->algo.identity, r->key, r->key_len), &flight->key);
		if (__builtin_expect(r->status != WEIR_OK, 0)) {
			first_error = first_error ? first_error : r->status;
			continue;
		}
		flight->request = r;
		flight->decision = &decisions[i];
		store_fetch(store, &flight->key);
		flight++;
	}
	block->count = (size_t)(flight - block->flights);
	return first_error;
}

/* Whether a key is at home can't be predicted, so nothing branches on it. */
__attribute__((noinline, flatten)) static void block_locate(struct block *block,
                                                            const struct store *store,
                                                            struct moment at)
{
	struct flight **strays = block->strays;

	for (struct flight *f = block->flights, *end = f + block->count; f < end; f++) {
		store_locate(store, &f->request->limit->algo, &f->key, at.now_ns);
		*strays = f;
		strays += !f->key.cell;
	}
	block->stray_count = (size_t)(strays - block->strays);
	for (size_t i = 0; i < block->stray_count; i++)
		store_fetch_next(store, &block->strays[i]->key);
}

__attribute__((noinline, flatten)) static void block_locate_run(struct block *block,
                                                                const struct store *store,
                                                                struct moment at)
{
	for (size_t i = 0; i < block->stray_count; i++)
		store_locate_next(store, &block->strays[i]->request->limit->algo, &block->strays[i]->key,
		                  at.now_ns);
}

__attribute__((noinline, flatten)) static void block_decide(const struct block *block,
                                                            struct store *store,
                                                            struct moment at)
{
	for (const struct flight *f = block->flights, *end = f + block->count; f < end; f++) {
		const struct weir_limit *limit = f->request->limit;
		struct store_step step = {
		    store, &limit->algo, f->key, {ALGO_ACQUIRE, f->request->cost}, at};
		uint64_t until_ns;

		if (__builtin_expect(!engine_try(limit, &step, f->decision, &until_ns), 0))
			engine_apply_slow(limit,
			                  &(struct store_step){store, &limit->algo, f->key,
			                                       {ALGO_ACQUIRE, f->request->cost}, at},
			                  f->decision);
	}
}

int weir_acquire_batch(weir_table *table, struct weir_request *requests, size_t n, uint64_t now_ns,
                       struct weir_decision *decisions)
{
	struct moment at = clock_moment_at(engine_clock(table), now_ns);
	size_t blocks = n / BLOCK + (n % BLOCK != 0);
	struct block ring[STAGES];
	int first_error = WEIR_OK;

	for (size_t b = 0; b < blocks + STAGES - 1; b++) {
		if (b < blocks) {
			size_t start = b * BLOCK;
			int status = block_fetch(&ring[b % STAGES], table->store, requests + start,
			                         u64_min(n - start, BLOCK), decisions + start);

			first_error = first_error ? first_error : status;
		}
		if (b - 1 < blocks) /* before 0 is beyond all */
			block_locate(&ring[(b - 1) % STAGES], table->store, at);
		if (b - 2 < blocks)
			block_locate_run(&ring[(b - 2) % STAGES], table->store, at);
		if (b - 3 < blocks)
			block_decide(&ring[(b - 3) % STAGES], table->store, at);
	}
	return first_error;
}
