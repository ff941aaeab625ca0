/*
 * store.h: a store as those see it that decide: where the states of keys live.
 *
 * The store of a table is this process's memory, or a file that others map, too: of it are all
 * functions here. A limit may name a store of another kind, which completes steps later.
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

/* A kind of remote store, which completes steps later. */
struct store_kind {
	/**
	 * Takes over the steps that a stage of a plan has at this store: a list by `next`. Calls
	 * `done` of each once: before it returns, or later on the thread of the client. The operations
	 * stay until the `done` of the last one is called, and may be gone when it returns.
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
/** NULL does nothing. */
void store_close(struct store *store);
/** As weir_table_sync. */
int store_sync(struct store *store);
/** As weir_table_stats, at a time that is given. */
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
 * Gives a bucket the generation that its parameters have in this table: theirs, if
 * they were there before, else a new one. Of more than CELL_GENERATIONS the one
 * begins anew that was joined longest ago; states that were written under it, and
 * still live, are then read under the wrong parameters. Other limits have none.
 */
void store_assign_generation(struct store *store, struct algo_limit *limit);

/* How many keys a limit can have. */
struct store_capacity {
	uint64_t keys;  /* so many at once, nearly always */
	uint64_t bytes; /* of memory, or of the file, at most */
	bool is_shared; /* with the keys of all limits whose states are one word */
};

/** The capacity of a limit that was admitted. */
struct store_capacity store_capacity_of(const struct store *store, const struct algo_limit *limit);
/** The same for a limit that is new to a store of that capacity. */
struct store_capacity store_capacity_planned(uint64_t capacity, const struct algo_limit *limit);

/**
 * How many keys of a limit that has phases are in which one: those of its newest table in
 * `store`, of a large one estimated from a part. Closed ones are not counted.
 */
void store_count_phases(const struct store *store, const struct algo_limit *limit, uint64_t now_ns,
                        uint64_t counts[BREAKER_PHASE_COUNT]);

/* Keys */

/*
 * A key on its way through a turn. Memory is slow and answers many questions at once, so a
 * turn starts fetching homes, looks into each some keys later and starts fetching the runs of
 * those that are not there, and decides later still.
 */
struct store_key {
	uint64_t hash;
	struct cell *cell; /* where it was seen; NULL if not looked for, or not there */
	struct wide_table *wide; /* that its limit has for wide states, where `cell` is; else NULL */
};

/** The hash of a key of the limit with this identity. */
uint64_t store_hash(const struct store *store, uint64_t identity, const void *key, size_t key_len);

/** `limit` was admitted. */
struct store_key store_key(const struct store *store, const struct algo_limit *limit,
                           uint64_t hash);
/**
 * The same of any limit: of one whose states are wide, makes its table unless it is there.
 * Errors: as weir_table_reserve.
 */
int store_admit(struct store *store, const struct algo_limit *limit, uint64_t hash,
                struct store_key *key);

/** Starts fetching all that a key which comes alone may need. */
void store_fetch_alone(const struct store *store, const struct algo_limit *limit,
                       const struct store_key *key);
/** For one of many: starts fetching its home. */
void store_fetch(const struct store *store, const struct store_key *key);
/**
 * Instead, for many in a row with nothing between them: by a load that nothing waits for.
 * Prefetches in a row that all need a walk through the page tables were mostly without effect
 * (docs/design/speed.md); loads are never dropped.
 */
void store_touch(const struct store *store, const struct store_key *key);

/** Best some keys after store_fetch: looks at home. */
void store_locate(const struct store *store, const struct algo_limit *limit, struct store_key *key,
                  uint64_t now_ns);
/** Then, for a key that is not there: starts fetching the next set. */
void store_fetch_next(const struct store *store, const struct store_key *key);
/** At last, for such a key: looks into that set, or starts fetching all others. */
void store_locate_next(const struct store *store, const struct algo_limit *limit,
                       struct store_key *key, uint64_t now_ns);

/** Finds a key's likely place: at home, in the next set, or (NULL) nowhere. */
void store_find_likely(const struct store *store, struct store_key *key);

/* Steps */

/* One operation on one key, and all that it needs. */
struct store_step {
	struct store *store;
	const struct algo_limit *limit;
	struct store_key key;
	struct algo_call call;
	struct moment at;
};

/**
 * A step where it is done at once: on a bucket, or in the slot of a summed window, whose cell
 * seems to be near. Returns false if nothing has happened, and store_run or its like does it. Else
 * *until_ns is the end of the state that it left.
 */
bool store_try(const struct store_step *step, struct algo_decision *out, uint64_t *until_ns);
/**
 * Two more tries of an acquire on a wide state that is in key.cell: in a summed window that
 * time has left, and in any other record.
 */
bool store_try_open(const struct algo_limit *limit, const struct store_key *key, uint64_t cost,
                    uint64_t now_ns, struct algo_decision *out, uint64_t *until_ns);
bool store_try_log(const struct algo_limit *limit, const struct store_key *key, uint64_t cost,
                   uint64_t now_ns, struct algo_decision *out, uint64_t *until_ns);

/**
 * Any step, by *by (its limit, or what has taken over from it), which is what decided then.
 * Returns the end of the state it left, which a refund may name; 0 when it left none.
 */
uint64_t store_run(const struct store_step *step, const struct algo_limit **by,
                   struct algo_decision *out);

/**
 * call.until_ns names, for a refund, what a bucket under another generation of its parameters took.
 * Returns the name that it has under the limit's parameters, no later than the use is due.
 */
uint64_t store_refund_end(const struct store_step *step, unsigned generation);

/** Forgets a key of one-word states. Whether it had one that says something still. */
bool store_forget(const struct store_step *step);

/* A step at a store that completes it later. */
struct store_operation {
	struct store_step step;
	const char *limit_name;
	struct slice key_name;
	struct store_operation *next; /* of the list; the store's own once it was submitted */
	bool together; /* all or nothing with others of the list, where their keys lie together */
	bool explains; /* a peek for a denial: that it passes may be as old as a denial is repeated */
	bool anew; /* the same request has charged the key since a denial of it may have been known */
	void (*done)(struct store_operation *operation);
	/* Set before `done`: */
	int status; /* 0, or an error. ESTORE: the store was away, and took something or not */
	bool withheld; /* it would have been granted, but took nothing: another was refused */
	bool unasked;  /* with `withheld`: whether it would have been granted is not known */
	struct algo_decision outcome;
	uint64_t until_ns; /* as store_run returns it; of a reset the end of what was forgotten */
	uint64_t clock_ns; /* Unix time at the store, which differs from ours; 0 if it was not asked */
};

/* The state of one limit alone, which has no key. */
struct store_keyless {
	struct cell cell;
	_Alignas(64) struct cell *record; /* NULL where the cell is all of it; not on the cell's line */
	bool load_is_atomic;
};

/** 0 or ENOMEM. */
int store_keyless_open(struct store_keyless *alone, const struct algo_limit *limit);
void store_keyless_close(struct store_keyless *alone);
/** store_try on it. */
bool store_keyless_try(struct store_keyless *alone, const struct store_step *step,
                     struct algo_decision *out, uint64_t *until_ns);
/**
 * The same of a limit that judges by outcomes: an acquire with a permit of this id, which returns
 * when its time is over, or STORE_DENIED, and a report. 0 or false: nothing has happened, and
 * store_keyless_run does it.
 */
#define STORE_DENIED 1 /* no permit's time ends then */
uint64_t store_keyless_try_permit(struct store_keyless *alone, const struct algo_limit *limit,
                                uint64_t id, uint64_t now_ns, struct algo_decision *out);
bool store_keyless_try_report(struct store_keyless *alone, const struct algo_limit *limit,
                              const struct breaker_report *report, uint64_t now_ns);
/** store_run on it. */
uint64_t store_keyless_run(struct store_keyless *alone, const struct store_step *step,
                         struct algo_decision *out);

#endif
