/*
 * store.h: applies operations to the states of keys, wherever these are stored.
 *
 * The store of a weir_table is memory of this process, or a file that other processes map, too. The
 * functions here are for that store. A limit may name a remote store instead (Redis), which
 * completes its operations later.
 *
 * Terms: a *step* is one operation on the state of one key. A limit with *wide* states has states
 * of more than one word: a header in the key's cell, and a record of further cells. Its keys have a
 * table of their own. All other limits share the store's first table.
 *
 * All functions may be called from any thread.
 */
#ifndef STORE_STORE_H
#define STORE_STORE_H

#include <weir/weir.h>

#include "algo/algo.h"
#include "algo/outcomes/breaker_state.h"
#include "base/cell.h"
#include "base/hash.h"
#include "base/time/clock.h"

struct store;
struct store_operation;
struct store_client;
struct wide_table;

/* A kind of remote store, which completes operations later. */
struct store_kind {
	/**
	 * Starts the operations that one stage of a plan has at this store; they are linked by `next`.
	 * Calls `done` of each once, before it returns or later on the thread of the client. The caller
	 * keeps the operations in memory until the last `done` is called.
	 */
	void (*submit)(struct store_client *client, struct store_operation *list);
};

struct store {
	const struct store_kind *kind; /* NULL for memory, where steps are done at once */
	size_t index;                  /* of its client, among context->store_clients */
};

/* One thread's way to a store that completes steps later. */
struct store_client {
	struct store *store;
};

/** Errors: as weir_table_open. */
int store_open(const struct weir_table_options *options, struct store **out,
               struct weir_error *error);
/** `store` may be NULL. */
void store_close(struct store *store);
/** As weir_table_sync. */
int store_sync(struct store *store);
/** As weir_table_stats, at a given time. */
void store_stats(const struct store *store, uint64_t now_ns, struct weir_table_stats *stats);

const struct clock *store_clock(const struct store *store);
const struct hash_key *store_secret(const struct store *store);
uint64_t store_capacity(const struct store *store);

/**
 * Makes sure that each of the limits whose states are wide has a table with records as wide and
 * as many keys as it asks for: all of them, or nothing is changed. Errors: as
 * weir_table_reserve.
 */
int store_reserve(struct store *store, const struct algo_limit *const *limits, size_t n,
                  struct weir_error *error);
/**
 * Sets limit->generation, by which a bucket's states name the parameters that wrote them.
 * Parameters that are in use already keep their generation; others get a new one. A limit has at
 * most CELL_GENERATIONS: a further one replaces an older one, and live states of that one are then
 * read under the wrong parameters (docs/design/parameter-changes.md). Limits other than buckets
 * have no generation.
 */
void store_assign_generation(struct store *store, struct algo_limit *limit);

/* How many keys a limit can have. */
struct store_capacity {
	uint64_t keys;  /* with so many at once, evictions of live states are rare */
	uint64_t bytes; /* of memory, or of the file, at most */
	bool is_shared; /* with the keys of all limits whose states are one word */
};

/** The capacity of a limit that was admitted. */
struct store_capacity store_capacity_of(const struct store *store, const struct algo_limit *limit);
/** The same for a limit that is new to a store of that capacity. */
struct store_capacity store_capacity_planned(uint64_t capacity, const struct algo_limit *limit);

/**
 * Counts the keys of a breaker in each phase, but for the closed phase, which is 0. For a large
 * table this is an estimate from a sample.
 */
void store_count_phases(const struct store *store, const struct algo_limit *limit, uint64_t now_ns,
                        uint64_t counts[BREAKER_PHASE_COUNT]);

/* Keys */

/*
 * A key whose state is looked up in stages, so that the memory of many keys is fetched at the same
 * time. The first stage prefetches the home set of each key (store_fetch). Some keys later the
 * second one searches it, and prefetches the next set for keys that are not there (store_locate,
 * store_fetch_next). The third one searches that set (store_locate_next). Then the step is applied.
 */
struct store_key {
	uint64_t hash;
	struct cell *cell;       /* the likely cell, to be read again; NULL if none was found so far */
	struct wide_table *wide; /* the table of a limit with wide states, otherwise NULL */
};

/** The hash of a key of the limit with this identity. */
uint64_t store_hash(const struct store *store, uint64_t identity, const void *key, size_t key_len);

/** Makes a key of a limit that has its table already (store_admit, store_reserve). */
struct store_key store_key(const struct store *store, const struct algo_limit *limit,
                           uint64_t hash);
/**
 * Makes a key of any limit. If the limit has wide states and no table yet, makes that first.
 * Errors: as weir_table_reserve.
 */
int store_admit(struct store *store, const struct algo_limit *limit, uint64_t hash,
                struct store_key *key);

/** For a single key: prefetches all memory that its step may need. */
void store_fetch_alone(const struct store *store, const struct algo_limit *limit,
                       const struct store_key *key);
/** For one of many keys: prefetches its home set. */
void store_fetch(const struct store *store, const struct store_key *key);
/**
 * Does the same by a load whose result is not used, for many keys one directly after another. A
 * processor drops most prefetches in such a sequence if each needs a walk through the page tables
 * (docs/design/speed.md), but it never drops loads.
 */
void store_touch(const struct store *store, const struct store_key *key);

/** Searches the home set, and sets key->cell. Call it some keys after store_fetch. */
void store_locate(const struct store *store, const struct algo_limit *limit, struct store_key *key,
                  uint64_t now_ns);
/** Prefetches the next set, for a key that is not in its home set. */
void store_fetch_next(const struct store *store, const struct store_key *key);
/** Searches that set and sets key->cell, or prefetches all other sets if the key is not there. */
void store_locate_next(const struct store *store, const struct algo_limit *limit,
                       struct store_key *key, uint64_t now_ns);

/** Searches the home set and the next one, and sets key->cell. */
void store_find_likely(const struct store *store, struct store_key *key);

/* Steps */

/* One operation on the state of one key. */
struct store_step {
	struct store *store;
	const struct algo_limit *limit;
	struct store_key key;
	struct algo_call call;
	struct moment at;
};

/**
 * Applies a step by the fast path: step->key.cell is the key's cell, and its state is a bucket or
 * the slot of a summed window. Sets *until_ns to the expiry of the new state. Returns false if that
 * is not so, or another thread was faster: then nothing has changed, and the caller calls
 * store_run.
 */
bool store_try(const struct store_step *step, struct algo_decision *out, uint64_t *until_ns);
/**
 * Two further fast paths, for an acquire on a wide state whose header is in key->cell: a summed
 * window that is over, and any other record.
 */
bool store_try_open(const struct algo_limit *limit, const struct store_key *key, uint64_t cost,
                    uint64_t now_ns, struct algo_decision *out, uint64_t *until_ns);
bool store_try_log(const struct algo_limit *limit, const struct store_key *key, uint64_t cost,
                   uint64_t now_ns, struct algo_decision *out, uint64_t *until_ns);

/**
 * Applies any step. *by is the limit; if a limit with other parameters has replaced it meanwhile,
 * *by becomes that one. Returns the expiry of the new state, by which a refund can name it, or 0 if
 * there is no state.
 */
uint64_t store_run(const struct store_step *step, const struct algo_limit **by,
                   struct algo_decision *out);

/**
 * A refund names the use that it gives back by the expiry of the state at that time
 * (call.until_ns). If a bucket's state was of another generation then, returns the expiry that
 * corresponds under the limit's current parameters, or an earlier one if that is not known exactly.
 */
uint64_t store_refund_end(const struct store_step *step, unsigned generation);

/** Removes the state of a key, which is of one word. Returns whether it had a live state. */
bool store_forget(const struct store_step *step);

/* A step at a remote store, which completes later. */
struct store_operation {
	struct store_step step;
	const char *limit_name;
	struct slice key_name;
	struct store_operation *next; /* in the list that is submitted; then used by the store */
	bool is_all_or_nothing; /* with the others of the list that have it, if their keys are on one
	                           node */
	bool explains_denial; /* a peek that explains a denial: the cache may also answer that it would
	                         pass */
	bool skips_denial_cache; /* the request has charged the key since, so a cached denial is no
	                            answer */
	void (*done)(struct store_operation *operation);
	/* The results, set before `done` is called: */
	int status;        /* 0, or an error; after ESTORE the step may have been applied or not */
	bool withheld;     /* not applied, because another of an atomic list was denied */
	bool is_undecided; /* with `withheld`: it is not known whether it would have been granted */
	struct algo_decision outcome;
	uint64_t until_ns; /* as store_run returns it; of a reset, the expiry of the removed state */
	uint64_t clock_ns; /* Unix time by the store's clock; 0 if it was not asked */
};

/* The state of a limit that has no keys (weir_limit), without a table. */
struct store_keyless {
	struct cell cell;
	/* NULL if states are one word. Not on the cache line of the cell, which threads contend for. */
	_Alignas(64) struct cell *record;
	bool load_is_atomic;
};

/** Returns 0 or ENOMEM. */
int store_keyless_open(struct store_keyless *keyless, const struct algo_limit *limit);
void store_keyless_close(struct store_keyless *keyless);
/** As store_try. */
bool store_keyless_try(struct store_keyless *keyless, const struct store_step *step,
                       struct algo_decision *out, uint64_t *until_ns);
/**
 * Fast paths of a limit that gives permits and gets reports, such as a breaker: an acquire of a
 * permit with this id, and a report. The acquire returns the expiry of the permit, or STORE_DENIED.
 * If 0 or false is returned, nothing has changed, and the caller calls store_keyless_run.
 */
#define STORE_DENIED 1 /* not the expiry of any permit */
uint64_t store_keyless_try_permit(struct store_keyless *keyless, const struct algo_limit *limit,
                                  uint64_t id, uint64_t now_ns, struct algo_decision *out);
bool store_keyless_try_report(struct store_keyless *keyless, const struct algo_limit *limit,
                              const struct breaker_report *report, uint64_t now_ns);
/** As store_run. */
uint64_t store_keyless_run(struct store_keyless *keyless, const struct store_step *step,
                           struct algo_decision *out);

#endif
