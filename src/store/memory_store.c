/*
 * memory_store.c: implements the functions of store.h for a store in memory or in a mapped file,
 * and for limits without keys, whose one state is outside all tables.
 *
 * Functions that fetch, touch or locate a key bring its cells into the processor's caches before
 * the call that needs them. Functions `try` are fast paths: if one returns false, or no time,
 * the general function (`run` in place of `try`) has to apply the call.
 */
#include "records/breaker_record.h"
#include "store/store.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "store/apply_step.h"
#include "store/wide/wide.h"

int store_open(const struct weir_table_options *options, struct store **out,
               struct weir_error *error)
{
	struct memory *memory = aligned_alloc(_Alignof(struct memory), sizeof *memory);
	int status = memory ? memory_open(memory, options, error)
	                    : error_set(error, WEIR_ENOMEM, "out of memory");

	if (status != WEIR_OK) {
		free(memory);
		memory = NULL;
	}
	*out = memory ? &memory->store : NULL;
	return status;
}

void store_close(struct store *store)
{
	if (store)
		memory_close(memory_of(store));
	free(store);
}

void store_stats(const struct store *store, uint64_t now_ns, struct weir_table_stats *stats)
{
	const struct memory *memory = memory_of(store);

	*stats = (struct weir_table_stats){
	    .capacity = memory->section.capacity,
	    .cells = memory->table.sets * TABLE_SET_CELLS,
	    .live = table_live(&memory->table, now_ns),
	    .evictions = table_evictions(&memory->table),
	    .bytes = memory->section.size,
	    .sample_weight = table_sample_weight(&memory->table),
	};
	wide_add_stats(memory, now_ns, stats);
}

const struct clock *store_clock(const struct store *store)
{
	return &memory_of(store)->clock;
}

const struct hash_key *store_secret(const struct store *store)
{
	return &memory_of(store)->secret;
}

uint64_t store_capacity(const struct store *store)
{
	return memory_of(store)->section.capacity;
}

/* Keys */

uint64_t store_hash(const struct store *store, uint64_t identity, const void *key, size_t key_len)
{
	return memory_hash(memory_of(store), identity, key, key_len);
}

struct store_key store_key(const struct store *store, const struct algo_limit *limit, uint64_t hash)
{
	return memory_key(memory_of(store), limit, hash);
}

int store_admit(struct store *store, const struct algo_limit *limit, uint64_t hash,
                struct store_key *key)
{
	return memory_admit(memory_of(store), limit, hash, key);
}

static inline struct table_position position_of_key(const struct store *store,
                                                    const struct store_key *key)
{
	return table_position(memory_table(memory_of(store), key), key->hash);
}

void store_fetch(const struct store *store, const struct store_key *key)
{
	struct table_position position = position_of_key(store, key);

	table_prefetch(&position);
}

/* Fetches the key's home set by a load: a processor may drop a prefetch, but never a load. */
void store_touch(const struct store *store, const struct store_key *key)
{
	struct table_position position = position_of_key(store, key);

	__asm__ volatile("" : : "r"(cell_peek_low(position.home)));
	prefetch(position.home + TABLE_SET_CELLS / 2);
}

void store_fetch_next(const struct store *store, const struct store_key *key)
{
	struct table_position position = position_of_key(store, key);

	table_prefetch_run(memory_table(memory_of(store), key), &position, 0, 1);
}

/* Prefetches for a single call, which has no other calls to overlap with. */
void store_fetch_alone(const struct store *store, const struct algo_limit *limit,
                       const struct store_key *key)
{
	store_fetch(store, key);
	store_fetch_next(store, key);
	if (__builtin_expect(key->wide != NULL, 0) && !limit->header_has_sum)
		wide_touch_records(key->wide, key->hash);
}

void store_locate(const struct store *store, const struct algo_limit *limit, struct store_key *key,
                  uint64_t now_ns)
{
	struct table_position position = position_of_key(store, key);

	key->cell = table_find_likely(position.home, position.tag);
	if (__builtin_expect(key->wide != NULL, 0) && key->cell)
		wide_fetch_record(limit, key, now_ns);
}

/* For a key that is not in its home set: searches the next set, or prefetches those behind it. */
void store_locate_next(const struct store *store, const struct algo_limit *limit,
                       struct store_key *key, uint64_t now_ns)
{
	const struct table *table = memory_table(memory_of(store), key);
	struct table_position position = table_position(table, key->hash);

	key->cell = table_find_likely(table_run(table, &position), position.tag);
	if (!key->cell)
		table_prefetch_run(table, &position, 1, TABLE_RUN_SETS);
	else if (__builtin_expect(key->wide != NULL, 0))
		wide_fetch_record(limit, key, now_ns);
}

/* Steps */

bool store_try(const struct store_step *step, struct algo_decision *out, uint64_t *until_ns)
{
	return memory_try(step->key.cell, memory_of(step->store)->table.load_is_atomic,
	                  table_tag(step->key.hash), step, out, until_ns);
}

void store_find_likely(const struct store *store, struct store_key *key)
{
	key->cell = memory_find_likely(memory_of(store), key);
}

__attribute__((flatten)) uint64_t store_run(const struct store_step *step,
                                            const struct algo_limit **by, struct algo_decision *out)
{
	struct algo_time time = algo_time_at(step->limit, step->at);

	return memory_apply(memory_of(step->store), by, &step->key, &step->call, &time, out);
}

/* Alone */

int store_keyless_open(struct store_keyless *keyless, const struct algo_limit *limit)
{
	size_t size = limit->width * sizeof(struct cell);
	void *record = NULL;

	if (size > 0 && posix_memalign(&record, 128, size) != 0)
		return WEIR_ENOMEM;
	*keyless = (struct store_keyless){.record = record, .load_is_atomic = cell_load_is_atomic()};
	if (record)
		memset(record, 0, size);
	return WEIR_OK;
}

void store_keyless_close(struct store_keyless *keyless)
{
	free(keyless->record);
}

bool store_keyless_try(struct store_keyless *keyless, const struct store_step *step,
                       struct algo_decision *out, uint64_t *until_ns)
{
	return memory_try(&keyless->cell, keyless->load_is_atomic, KEYLESS_TAG, step, out, until_ns);
}

static struct record_state keyless_record(struct store_keyless *keyless,
                                          const struct algo_limit *limit)
{
	return (struct record_state){&keyless->cell, .record = {keyless->record, limit->width,
	                                                        KEYLESS_TAG, keyless->load_is_atomic}};
}

/* Reads the header of a breaker without keys. Returns false if it has no state yet. */
static bool read_keyless_header(struct record_state *at)
{
	at->header = record_header(at);
	return cell_tag(at->header) == KEYLESS_TAG;
}

/* Applies a call of an adaptive limit without keys, which counts permits in flight. */
__attribute__((noinline)) static uint64_t
apply_keyless_in_flight(struct store_keyless *keyless, const struct algo_limit *limit,
                        const struct algo_call *call, uint64_t now_ns, struct algo_decision *out)
{
	struct wide_state state = {.at = keyless_record(keyless, limit)};

	algo_decision_allow(out);
	return in_flight_apply(
	    &(struct call_target){.single_state = &state, .limit = &limit, .now_ns = now_ns}, call,
	    out);
}

/*
 * Returns the end of the permit; STORE_DENIED if an adaptive limit denies; or 0 if
 * store_keyless_run() has to decide.
 */
uint64_t store_keyless_try_permit(struct store_keyless *keyless, const struct algo_limit *limit,
                                  uint64_t id, uint64_t now_ns, struct algo_decision *out)
{
	uint64_t until_ns;

	if (limit->record == ALGO_RECORD_BREAKER) {
		struct record_state at = keyless_record(keyless, limit);

		return read_keyless_header(&at) ? breaker_record_try_acquire(limit, &at, id, now_ns, out)
		                                : 0;
	}
	if (limit->record != ALGO_RECORD_IN_FLIGHT)
		return 0;
	until_ns = apply_keyless_in_flight(
	    keyless, limit, &(struct algo_call){ALGO_ACQUIRE, 1, .permit = id}, now_ns, out);
	return until_ns != 0 ? until_ns : STORE_DENIED;
}

/*
 * Applies a report. Returns false also if an adaptive limit does not have the permit in flight:
 * store_keyless_run() then finds the same.
 */
bool store_keyless_try_report(struct store_keyless *keyless, const struct algo_limit *limit,
                              const struct breaker_report *report, uint64_t now_ns)
{
	struct algo_decision out;

	if (limit->record == ALGO_RECORD_BREAKER) {
		struct record_state at = keyless_record(keyless, limit);

		return read_keyless_header(&at) && breaker_record_try_report(limit, &at, report, now_ns);
	}
	if (limit->record != ALGO_RECORD_IN_FLIGHT)
		return false;
	apply_keyless_in_flight(keyless, limit,
	                        &(struct algo_call){.op = ALGO_REPORT,
	                                            .cost = 1,
	                                            .until_ns = report->until_ns,
	                                            .permit = report->permit,
	                                            .latency_ns = report->latency_ns,
	                                            .outcome = report->outcome},
	                        now_ns, &out);
	return out.allowed;
}

uint64_t store_keyless_run(struct store_keyless *keyless, const struct store_step *step,
                           struct algo_decision *out)
{
	struct algo_time time = algo_time_at(step->limit, step->at);
	struct record_state at = keyless_record(keyless, step->limit);

	if (keyless->record)
		return wide_apply_cell(&at, step->limit, &step->call, &time, out);
	return memory_apply_cell(&keyless->cell, keyless->load_is_atomic, step->limit, &step->call,
	                         &time, out);
}
