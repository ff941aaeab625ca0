/*
 * memory.h: states in memory: this process's own, or a file's that others map too.
 *
 * The loop in which a pure step meets a cell that others are changing: find,
 * step, compare-and-swap, and again when somebody was faster.
 */
#ifndef STORE_MEMORY_H
#define STORE_MEMORY_H

#include <weir/weir.h>

#include "algo/algo.h"
#include "base/clock.h"
#include "base/keyhash.h"
#include "rows/slots.h"
#include "store/history.h"
#include "store/section.h"
#include "store/store.h"
#include "table/table.h"

/* Of a state that belongs to one limit alone, and has no key. */
#define MEMORY_TAG 1

/*
 * The states of a limit that are wider than a word: their heads, and the row behind each.
 * Nothing of it changes once it is there.
 */
struct wide_table {
	struct table table;
	struct cell *rows;
	struct section section; /* what it is: as it was found, not what a file says by now */
	struct wide_table *former; /* where what is not here may still be, and its former ...; NULL */
};

/* Twice as many as there may be tables, so one that is not there is soon missed. */
#define MEMORY_SLOTS (2 * SECTION_MAX)

struct memory {
	struct store store; /* first, so that either is the other; of no kind */
	struct table table; /* of one-word states; its header is the store's */
	struct hash_key secret; /* as it was when the file was checked, as is `section` */
	struct keyhash hash;    /* made of it */
	struct clock clock;
	struct section section; /* of that table */
	struct shared *file;    /* NULL: this process's memory */
	size_t wide_count; /* of all tables of limits */
	/* By the hash that the limit's identity is: the last of its tables. Only ever added to. */
	struct wide_table *wide[MEMORY_SLOTS];
};

static inline struct memory *memory_of(const struct store *store)
{
	return (struct memory *)store;
}

/** Errors: as weir_table_open. */
int memory_open(struct memory *store, const struct weir_table_options *options,
                struct weir_error *error);
void memory_close(struct memory *store);

/** As weir_table_sync. */
int memory_sync(struct memory *store);

/**
 * Makes sure that each of the limits whose states are wide has a table with rows as wide and
 * room for as many keys as it asks for: all of them, or nothing is changed. One that is
 * too small stays as the former of a larger one. Errors: as weir_table_reserve.
 */
int memory_reserve(struct memory *store, const struct algo_limit *const *limits, size_t n,
                   struct weir_error *error);

/** The last of the tables that are filed under a slot, or NULL. */
static inline struct wide_table *wide_at(const struct memory *store, size_t slot)
{
	return __atomic_load_n(&store->wide[slot], __ATOMIC_ACQUIRE);
}

/** The table of a limit with wide states, or NULL. */
static inline struct wide_table *memory_wide(const struct memory *store, uint64_t identity)
{
	for (size_t i = identity % MEMORY_SLOTS;; i = (i + 1) % MEMORY_SLOTS) {
		struct wide_table *wide = wide_at(store, i);

		if (!wide || __builtin_expect(wide->section.identity == identity, 1))
			return wide;
	}
}

/** The larger table that another process has made instead of this one; this one if there is none. */
__attribute__((noinline, cold)) struct wide_table *memory_find_newer(struct memory *store,
                                                                     struct wide_table *wide);

/** The table of a limit that was admitted, also when another process has made it. */
static inline struct wide_table *memory_newest(struct memory *store, uint64_t identity)
{
	struct wide_table *wide = memory_wide(store, identity);

	if (__builtin_expect(
	        __atomic_load_n(&wide->table.header->is_former, __ATOMIC_RELAXED) && store->file, 0))
		return memory_find_newer(store, wide);
	return wide;
}

/** Whether the limit's table is one that it can be decided in. */
static inline bool memory_is_wide_enough(const struct wide_table *wide,
                                         const struct algo_limit *limit)
{
	return wide && wide->section.row_cells >= limit->width;
}

__attribute__((noinline, cold)) int memory_admit_slow(struct memory *store,
                                                      const struct algo_limit *limit,
                                                      struct wide_table **out);

/** The hash of a key of the limit with this identity. */
static inline uint64_t memory_hash(const struct memory *store, uint64_t identity,
                                   const void *key, size_t key_len)
{
	return keyhash(&store->hash, identity, key, key_len);
}

/** `limit` was admitted. */
static inline struct store_key memory_key(const struct memory *store,
                                           const struct algo_limit *limit, uint64_t hash)
{
	struct wide_table *wide =
	    __builtin_expect(limit->width == 0, 1) ? NULL : memory_wide(store, limit->identity);

	return (struct store_key){hash, NULL, wide};
}

/**
 * The same of any limit: of one whose states are wide, makes its table unless it is there.
 * Errors: as weir_table_reserve.
 */
static inline int memory_admit(struct memory *store, const struct algo_limit *limit,
                               uint64_t hash, struct store_key *key)
{
	*key = memory_key(store, limit, hash);
	if (__builtin_expect(limit->width == 0, 1) ||
	    __builtin_expect(memory_is_wide_enough(key->wide, limit), 1))
		return WEIR_OK;
	return memory_admit_slow(store, limit, &key->wide);
}

/* The table that has the states, or the heads, of the key's limit. */
static inline const struct table *memory_table(const struct memory *store,
                                               const struct store_key *key)
{
	return __builtin_expect(key->wide == NULL, 1) ? &store->table : &key->wide->table;
}

/** Starts what can be done for a key's row before it is known which one that is. */
__attribute__((noinline)) void wide_touch_rows(const struct wide_table *wide, uint64_t hash);

/** Starts fetching what a decision will read of the row behind the key's cell. */
void wide_fetch_row(const struct algo_limit *limit, const struct store_key *key,
                    uint64_t now_ns);

/* What a cell with a tag and no claim says. A state that is over equals none. */
static inline struct algo_state memory_state(struct cell cell, uint64_t now_ns)
{
	int64_t ahead = cell_ahead_ns(cell, now_ns);

	if (ahead <= 0)
		return (struct algo_state){0, 0};
	return (struct algo_state){now_ns + (uint64_t)ahead, cell_word(cell)};
}

/* What any cell says: an empty one and a claim say nothing. */
static inline struct algo_state memory_unpack(struct cell cell, uint64_t now_ns)
{
	if (cell_is_empty(cell) || cell_is_claim(cell))
		return (struct algo_state){0, 0};
	return memory_state(cell, now_ns);
}

static inline struct cell memory_pack(uint32_t tag, struct algo_state state, unsigned generation)
{
	if (state.until_ns == 0)
		return (struct cell){0, 0};
	return cell_make(tag, state.until_ns, state.word, generation);
}

/* Where it was seen, if it is still there; else wherever it is. */
static inline struct table_slot memory_find(const struct table *table,
                                            const struct table_place *place, struct cell *seen)
{
	struct table_slot slot = {seen, {0, 0}};

	if (seen) {
		slot.value = cell_load(seen, table->load_is_atomic);
		if (cell_tag(slot.value) == place->tag)
			return slot;
	}
	return table_find(table, place);
}

/** Whether there is no room for a key that has no cell, which is denied then. */
__attribute__((noinline, cold)) bool memory_is_full(const struct memory *store,
                                                    const struct algo_limit *limit,
                                                    const struct table_place *place,
                                                    uint64_t now_ns, struct algo_outcome *out);

/** Forgets a key of one-word states. Whether it had one that says something still. */
bool memory_forget(struct memory *store, const struct store_key *key, uint64_t now_ns);

/** memory_apply for wide states. */
__attribute__((noinline)) uint64_t wide_apply(struct memory *store,
                                              const struct algo_limit **by,
                                              const struct store_key *key,
                                              const struct algo_call *call,
                                              const struct algo_time *time,
                                              struct algo_outcome *out);

/** The same on a head and a row that belong to one limit alone; `alone->head` is not looked at. */
uint64_t wide_apply_cell(const struct row_state *alone, const struct algo_limit *limit,
                         const struct algo_call *call, const struct algo_time *time,
                         struct algo_outcome *out);

/** As memory_try, for an acquire from a log, or any other wide state that is not summed. */
bool wide_try_log(const struct algo_limit *limit, const struct store_key *key, uint64_t cost,
                  uint64_t now_ns, struct algo_outcome *out, uint64_t *until_ns);

/** As memory_try, for an acquire from a summed window that time has left. */
bool wide_try_open(const struct algo_limit *limit, const struct store_key *key, uint64_t cost,
                   uint64_t now_ns, struct algo_outcome *out, uint64_t *until_ns);

/** Adds the tables of limits. */
void wide_add_stats(const struct memory *store, uint64_t now_ns, struct weir_table_stats *stats);

/** Where a key seems to be: at home, in the next set, or (NULL) not there. */
static inline struct cell *memory_near(const struct memory *store, const struct store_key *key)
{
	const struct table *table = memory_table(store, key);
	struct table_place place = table_place(table, key->hash);
	struct cell *cell = table_glance(place.home, place.tag);

	return cell ? cell : table_glance(table_run(table, &place), place.tag);
}

/**
 * One step on the state of this tag that is in `cell`, where that is done at once: see
 * memory_try. It swaps once; when another thread was faster, memory_apply goes on. Inline, so
 * that the step's results stay in registers: a result that is stored and loaded in other pieces
 * makes the processor wait for all that came before it.
 */
static inline bool memory_try_bucket(struct cell *cell, bool load_is_atomic,
                                     const struct algo_limit *limit, uint32_t tag,
                                     const struct algo_call *call, uint64_t now_ns,
                                     struct algo_outcome *out, uint64_t *until_ns)
{
	struct cell before = cell_load(cell, load_is_atomic);
	struct algo_time time = {now_ns, 0};
	struct algo_state state;

	/* Neither a claim nor an empty cell has the limit's generation and a tag. */
	if (__builtin_expect(cell_tag(before) != tag, 0) ||
	    __builtin_expect(cell_generation(before) != limit->generation, 0))
		return false;
	state = memory_state(before, now_ns);
	if (!algo_step_whole(limit, call, &time, &state, out)) {
		if (__builtin_expect(!out->allowed && algo_is_far(limit, &time, &state), 0))
			return false;
	} else if (!cell_swap_in_turn(cell, before, memory_pack(tag, state, limit->generation))) {
		return false;
	}
	*until_ns = state.until_ns;
	return true;
}

/* The same for an acquire from a summed window, in the slot that the key's head is. */
static inline bool memory_try_slot(struct cell *cell, bool load_is_atomic,
                                   const struct algo_limit *limit, uint32_t tag,
                                   const struct algo_call *call, uint64_t now_ns,
                                   struct algo_outcome *out, uint64_t *until_ns)
{
	struct cell before, after;

	do {
		before = cell_load(cell, load_is_atomic);
		if (call->op != ALGO_ACQUIRE || cell_tag(before) != tag ||
		    !slots_take(limit, before, now_ns, call->cost, out, &after))
			return false;
	} while (!cell_swap_in_turn(cell, before, after));
	*until_ns = now_ns + out->reset_after_ns;
	return true;
}

/**
 * One step on a key that is in `cell`, with a state that `limit` wrote itself: at once
 * where it is a whole bucket, or in the slot of a summed window. False when it is none
 * of that: then nothing has happened, and memory_apply or its like does it.
 */
static inline bool memory_try(struct cell *cell, bool load_is_atomic,
                              const struct algo_limit *limit, uint32_t tag,
                              const struct algo_call *call, uint64_t now_ns,
                              struct algo_outcome *out, uint64_t *until_ns)
{
	if (__builtin_expect(limit->has_whole_interval, 1))
		return memory_try_bucket(cell, load_is_atomic, limit, tag, call, now_ns, out, until_ns);
	return limit->head_has_sum &&
	       memory_try_slot(cell, load_is_atomic, limit, tag, call, now_ns, out, until_ns);
}

/**
 * One step on a key, by *limit or what has taken over from it, which *limit is
 * then. Returns the end of the state it left, which a refund may name; 0 when it
 * left none.
 */
static inline uint64_t memory_apply(struct memory *store, const struct algo_limit **by,
                                    const struct store_key *key, const struct algo_call *call,
                                    const struct algo_time *time, struct algo_outcome *out)
{
	struct table_place place = table_place(&store->table, key->hash);
	const struct algo_limit *limit = *by;

	if (__builtin_expect(limit->width != 0, 0))
		return wide_apply(store, by, key, call, time, out);
	for (;;) {
		struct table_slot slot = memory_find(&store->table, &place, key->cell);
		struct algo_state state = memory_unpack(slot.value, time->now_ns);
		unsigned generation = cell_generation(slot.value);

		if (generation != limit->generation && state.until_ns != 0) {
			/* Written by earlier parameters, or by later ones that took over just now. */
			*by = limit = algo_current(limit);
			if (generation != limit->generation)
				history_convert(store, limit, generation, time->now_ns, &state);
		}
		if (!algo_step(limit, call, time, &state, out) ||
		    table_store(&store->table, &place, slot,
		                memory_pack(place.tag, state, limit->generation), time->now_ns, NULL))
			return state.until_ns;
		if (slot.cell)
			cell_stay_away(slot.cell);
		else if (memory_is_full(store, limit, &place, time->now_ns, out))
			return 0;
	}
}

/** The same on a cell that belongs to one limit alone, of MEMORY_TAG. */
static inline uint64_t memory_apply_cell(struct cell *cell, bool load_is_atomic,
                                         const struct algo_limit *limit,
                                         const struct algo_call *call,
                                         const struct algo_time *time, struct algo_outcome *out)
{
	for (;;) {
		struct cell before = cell_load(cell, load_is_atomic);
		struct algo_state state = memory_unpack(before, time->now_ns);

		if (!algo_step(limit, call, time, &state, out) ||
		    cell_swap_in_turn(cell, before, memory_pack(MEMORY_TAG, state, limit->generation)))
			return state.until_ns;
	}
}

#endif
