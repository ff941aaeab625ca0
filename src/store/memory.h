/*
 * memory.h: defines a store in memory, which is private to this process or a mapped file, and finds
 * keys and tables in it.
 */
#ifndef STORE_MEMORY_H
#define STORE_MEMORY_H

#include <weir/weir.h>

#include "algo/algo.h"
#include "base/keyhash.h"
#include "base/time/clock.h"
#include "store/section.h"
#include "store/store.h"
#include "table/table.h"

/* The tag of the state of a limit without keys. */
#define KEYLESS_TAG 1

/*
 * The states of a limit that are wider than a word: their headers, and the record behind each.
 * Nothing of it changes once it is there.
 */
struct wide_table {
	struct table table;
	struct cell *records;
	struct section section; /* as it was when the file was checked, not as the file is now */
	struct wide_table
	    *former; /* the table before it, which may have keys that are not here; NULL */
};

/**
 * The table before `wide`, if its records are as wide, or NULL. Then its keys remain there while
 * they live. Keys of narrower records are moved.
 */
static inline struct wide_table *wide_usable_former(const struct wide_table *wide)
{
	struct wide_table *former = wide->former;

	return former && former->section.record_cells >= wide->section.record_cells ? former : NULL;
}

/* Slots of the hash map of tables: twice as many as tables, so a search for an absent one is short.
 */
#define MEMORY_SLOTS (2 * SECTION_MAX)

struct memory {
	struct store store; /* first, so that a pointer to it is one to the memory; its kind is NULL */
	struct table table; /* of one-word states; its header is the store's */
	struct hash_key secret; /* as it was when the file was checked, as is `section` */
	struct keyhash hash;    /* derived from the secret */
	struct clock clock;
	struct section section;    /* of that table */
	struct wide_table *former; /* one-word states from before the file grew; NULL */
	struct mapped_file *file;  /* NULL for memory of this process */
	const char *path;          /* of the file, or NULL */
	size_t wide_count;         /* tables in `wide`, with their former ones */
	/* The newest table of each limit: a hash map by the identity. Tables are never removed. */
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

/* The state in a cell that has a tag and is no claim. An expired state is returned as an empty one.
 */
static inline struct algo_state memory_state(struct cell cell, uint64_t now_ns)
{
	int64_t ahead = cell_ahead_ns(cell, now_ns);

	if (ahead <= 0)
		return (struct algo_state){0, 0};
	return (struct algo_state){now_ns + (uint64_t)ahead, cell_word(cell)};
}

/* The state in any cell. The state of an empty cell and of a claim is empty. */
static inline struct algo_state memory_unpack(struct cell cell, uint64_t now_ns)
{
	if (cell_is_empty(cell) || cell_is_claim(cell))
		return (struct algo_state){0, 0};
	return memory_state(cell, now_ns);
}

static inline bool memory_has_state(struct cell cell)
{
	return !cell_is_empty(cell) && !cell_is_claim(cell);
}

/*
 * The state in a cell that has one, even if it is expired: under other parameters than those that
 * wrote it, it may live longer.
 */
static inline struct algo_state memory_written(struct cell cell, uint64_t now_ns)
{
	return (struct algo_state){now_ns + (uint64_t)cell_ahead_ns(cell, now_ns), cell_word(cell)};
}

static inline struct cell memory_pack(uint32_t tag, struct algo_state state, unsigned generation)
{
	if (state.until_ns == 0)
		return (struct cell){0, 0};
	return cell_make(tag, state.until_ns, state.word, generation);
}

/**
 * Finds a key of one-word states, which is not in the newest table, in a former one. Returns
 * whether it has a live state there. An expired state is removed, so that the key can be inserted
 * into the newest table.
 */
__attribute__((noinline, cold)) bool memory_find_former(const struct memory *store, uint64_t hash,
                                                        uint64_t now_ns,
                                                        struct observed_cell *observed);

/* Finds a key in the `likely` cell, which may be NULL, or searches its table. */
static inline struct observed_cell
memory_find(const struct table *table, const struct table_position *position, struct cell *likely)
{
	struct observed_cell observed = {likely, {0, 0}};

	if (likely) {
		observed.value = cell_load(likely, table->load_is_atomic);
		if (cell_tag(observed.value) == position->tag)
			return observed;
	}
	return table_find(table, position);
}

/* Finds a key of one-word states in the newest table, or in a former one from before the file grew.
 */
static inline struct observed_cell memory_find_all(const struct memory *store,
                                                   const struct table_position *position,
                                                   struct cell *likely, uint64_t now_ns)
{
	struct observed_cell observed = memory_find(&store->table, position, likely);

	if (__builtin_expect(!observed.cell, 0) && __builtin_expect(store->former != NULL, 0))
		memory_find_former(store, position->hash, now_ns, &observed);
	return observed;
}

/** The newest table of the limit in a slot of the map, or NULL. */
static inline struct wide_table *wide_at(const struct memory *store, size_t slot)
{
	return __atomic_load_n(&store->wide[slot], __ATOMIC_ACQUIRE);
}

/** The newest table of a limit with wide states, or NULL. */
static inline struct wide_table *memory_wide(const struct memory *store, uint64_t identity)
{
	for (size_t i = identity % MEMORY_SLOTS;; i = (i + 1) % MEMORY_SLOTS) {
		struct wide_table *wide = wide_at(store, i);

		if (!wide || __builtin_expect(wide->section.identity == identity, 1))
			return wide;
	}
}

/** Finds the larger table of the limit that another process has made, or returns `wide`. */
__attribute__((noinline, cold)) struct wide_table *memory_find_newer(struct memory *store,
                                                                     struct wide_table *wide);

/** The newest table of a limit that has one, even if another process has made it. */
static inline struct wide_table *memory_newest(struct memory *store, uint64_t identity)
{
	struct wide_table *wide = memory_wide(store, identity);

	if (__builtin_expect(
	        __atomic_load_n(&wide->table.header->is_former, __ATOMIC_RELAXED) && store->file, 0))
		return memory_find_newer(store, wide);
	return wide;
}

/** Whether a table has records that are wide enough for the limit's states. */
static inline bool memory_is_wide_enough(const struct wide_table *wide,
                                         const struct algo_limit *limit)
{
	return wide && wide->section.record_cells >= limit->width;
}

__attribute__((noinline, cold)) int
memory_admit_slow(struct memory *store, const struct algo_limit *limit, struct wide_table **out);

/** The hash of a key of the limit with this identity. */
static inline uint64_t memory_hash(const struct memory *store, uint64_t identity, const void *key,
                                   size_t key_len)
{
	return keyhash(&store->hash, identity, key, key_len);
}

/** As store_key. */
static inline struct store_key memory_key(const struct memory *store,
                                          const struct algo_limit *limit, uint64_t hash)
{
	struct wide_table *wide =
	    __builtin_expect(limit->width == 0, 1) ? NULL : memory_wide(store, limit->identity);

	return (struct store_key){hash, NULL, wide};
}

/** As store_admit. */
static inline int memory_admit(struct memory *store, const struct algo_limit *limit, uint64_t hash,
                               struct store_key *key)
{
	*key = memory_key(store, limit, hash);
	if (__builtin_expect(limit->width == 0, 1) ||
	    __builtin_expect(memory_is_wide_enough(key->wide, limit), 1))
		return WEIR_OK;
	return memory_admit_slow(store, limit, &key->wide);
}

/* The table that has the cells (states, or headers of wide states) of the key's limit. */
static inline const struct table *memory_table(const struct memory *store,
                                               const struct store_key *key)
{
	return __builtin_expect(key->wide == NULL, 1) ? &store->table : &key->wide->table;
}

/** Prefetches the page-table entries of the records that a key may have, before its cell is known.
 */
__attribute__((noinline)) void wide_touch_records(const struct wide_table *wide, uint64_t hash);

/** Prefetches the part of the record behind key->cell that a decision will read. */
void wide_fetch_record(const struct algo_limit *limit, const struct store_key *key,
                       uint64_t now_ns);

/** Adds the statistics of the tables of limits, and of former tables. */
void wide_add_stats(const struct memory *store, uint64_t now_ns, struct weir_table_stats *stats);

/** The cell where a key is likely to be, in its home set or the next one, or NULL. */
static inline struct cell *memory_find_likely(const struct memory *store,
                                              const struct store_key *key)
{
	const struct table *table = memory_table(store, key);
	struct table_position position = table_position(table, key->hash);
	struct cell *cell = table_find_likely(position.home, position.tag);

	return cell ? cell : table_find_likely(table_run(table, &position), position.tag);
}

#endif
